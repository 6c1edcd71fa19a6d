"""Error context of a backend request: the words and facts of its errors."""

from __future__ import annotations

import dataclasses
from typing import Any

from kiln.exceptions import AmphoraComputeError


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """Purpose of a backend request, as its errors state it."""

    verb: str
    subject: str
    amphora_id: str | None = None
    build_key: str | None = None
    resource_id: str | None = None

    @property
    def building(self) -> bool:
        """True if the request is about a build, and so are its errors."""
        return self.verb == 'build'

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
