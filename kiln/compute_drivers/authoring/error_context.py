"""Error context of a backend request: the words and facts of its errors."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any, Self

from kiln.exceptions import (
    AmphoraComputeError,
    BuildOutcomeUnknown,
    Outcome,
    ServiceTimeout,
    ServiceUnavailable,
)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """Purpose of a backend request, as its errors state it."""

    verb: str
    subject: str
    amphora_id: str | None = None
    build_key: str | None = None
    resource_id: str | None = None
    #: True if this very request can make an instance.
    making: bool = False
    #: True for a look-up that another request needs; it changes nothing itself.
    looking: bool = False

    @classmethod
    def about(cls, verb: str, amphora_id: str, resource_id: str | None = None) -> Self:
        """Return the context of a request for an amphora, and for a resource of it."""
        return cls(verb=verb, subject=amphora_id, amphora_id=amphora_id, resource_id=resource_id)

    @classmethod
    def of(cls, verb: str, resource_id: str) -> Self:
        """Return the context of a request for something that is not an amphora."""
        return cls(verb=verb, subject=resource_id, resource_id=resource_id)

    @property
    def building(self) -> bool:
        """True if the request is about a build, and so are its errors."""
        return self.verb == 'build'

    @property
    def left(self) -> Outcome:
        """Outcome of a failed request that is not the one that makes an instance."""
        return Outcome.NOT_APPLIED if self.looking else Outcome.UNKNOWN

    def error(
        self, kind: type[AmphoraComputeError], why: str, **facts: Any
    ) -> AmphoraComputeError:
        """Return an error that states what failed, and why."""
        return kind(
            f'Cannot {self.verb} {self.subject}: {why}',
            amphora_id=self.amphora_id,
            build_key=self.build_key,
            resource_id=self.resource_id,
            **facts,
        )

    def unanswered(self, who: str, why: str, *, sent: bool, slow: bool) -> AmphoraComputeError:
        """Return the error for a request that got no answer.

        ``who`` was asked; ``sent`` means that it might have received the request, ``slow``
        that the time ran out.
        """
        if not sent:
            return self.error(ServiceUnavailable, f'{who} cannot be reached: {why}.')
        if self.making:
            return self.error(BuildOutcomeUnknown, f'{who} gave no answer: {why}.')
        kind, when = (ServiceTimeout, ' in time') if slow else (ServiceUnavailable, '')
        return self.error(kind, f'{who} gave no answer{when}: {why}.', outcome=self.left)


@contextlib.contextmanager
def naming(**subject: str) -> Iterator[None]:
    """Name the subject of a call in errors that do not name it, such as those about a file."""
    try:
        yield
    except AmphoraComputeError as exc:
        exc.name_missing(**subject)
        raise
