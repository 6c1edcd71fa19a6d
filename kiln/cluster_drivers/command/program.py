"""The program of a driver: checked, described, and called for answers that are waited for."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kiln.cluster_drivers.command import protocol
from kiln.cluster_drivers.command.documents import Secrets
from kiln.cluster_drivers.command.protocol import Answer, Nonsense, Verb
from kiln.clusters.exceptions import ClusterDriverError
from kiln.plugins.foreign_files import unsafe_because
from kiln.programs.accounts import Account
from kiln.programs.short import run_short

#: Seconds that a program is given for an answer that kiln waits for, and for its description.
SHORT_S = 4.0
DESCRIBE_S = 30.0
#: A user waits for a plan: an engine can look at each of its machines for it.
PLAN_S = 30.0


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """An executable file of a driver's folder."""

    #: The name of the driver, for messages.
    driver: str
    path: Path
    #: Variables beside those that every program has.
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict)
    #: Words before those of the program in its runs, such as those of a bench.
    before: tuple[str, ...] = ()
    #: The user that it runs as; None is the user of kiln.
    account: Account | None = None
    #: Seconds within which it has to answer.
    short_s: float = SHORT_S

    def unusable(self) -> str:
        """Return why the file cannot be run; empty if it can."""
        if not self.path.is_file():
            return f'there is no file {self.path.name}'
        if self.path.is_symlink():
            return f'{self.path.name} is a link, which kiln does not follow'
        if unsafe := unsafe_because(self.path):
            return f'kiln does not run {self.path.name}: {unsafe}'
        if not os.access(self.path, os.X_OK):
            return f'{self.path.name} is not executable; chmod +x it'
        return ''

    def describe(self) -> protocol.Description:
        """Return what the program says about itself.

        :raises Nonsense: it says nothing that kiln understands.
        """
        asked = {'api': protocol.API, 'verb': 'describe'}
        found = self._short(Verb.DESCRIBE, asked, None, DESCRIBE_S)
        if found is None:
            raise Nonsense(f'it has not ended within {DESCRIBE_S:g} s')
        if found.ending is not protocol.Ending.DONE:
            raise Nonsense(found.message or f'it says "{found.ending}"')
        return protocol.description(found.result)

    def time_for(self, verb: Verb) -> float:
        """Return the seconds within which the program has to answer."""
        return max(PLAN_S, self.short_s) if verb is Verb.PLAN else self.short_s

    def ask(self, verb: Verb, document: Mapping[str, Any], secrets: Secrets) -> Answer | None:
        """Call the program, and return its answer without secrets; None if it is late.

        :raises ClusterDriverError: it cannot be run.
        """
        if wrong := self.unusable():
            raise ClusterDriverError(f'The program of driver {self.driver} cannot run: {wrong}.')
        try:
            return self._short(verb, document, secrets, self.time_for(verb))
        except OSError as exc:
            raise ClusterDriverError(
                f'The program of driver {self.driver} cannot be run: {exc.strerror}.',
                retryable=True,
            ) from exc

    def argv(self, verb: Verb) -> tuple[str, ...]:
        """Return the words of a run."""
        return *self.before, str(self.path), verb.value

    def _short(
        self, verb: Verb, document: Mapping[str, Any], secrets: Secrets | None, seconds: float
    ) -> Answer | None:
        mask = secrets.mask if secrets else protocol.unmasked
        done = run_short(
            (str(self.path), verb.value),
            json.dumps(document).encode() + b'\n',
            secrets=secrets.document() if secrets else b'',
            account=self.account,
            variables=self.variables,
            seconds=seconds,
            most_bytes=protocol.MOST_BYTES,
        )
        if done.status is None:
            return None
        output = protocol.read_output(done.output, mask=mask)
        errors: str = mask(done.errors.decode(errors='replace'))
        return protocol.answer(done.status, output, errors.encode())
