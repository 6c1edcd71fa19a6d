"""Tasks on a machine for a claim: commands to run, and probes to make."""

from __future__ import annotations

import dataclasses
import functools
import io
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from kiln.compute_drivers.appliance.claims import payload
from kiln.compute_drivers.appliance.claims.state_machine import COMMANDS, Claim, Ended
from kiln.compute_drivers.appliance.inventory.machines import Machine, Verb
from kiln.compute_drivers.appliance.work import probes
from kiln.compute_drivers.appliance.work.commands import Command
from kiln.compute_drivers.authoring.redaction import sealed
from kiln.exceptions import AmphoraBuildError
from kiln.models import BuildRequest


@dataclasses.dataclass(frozen=True, slots=True)
class Task:
    """A task that runs on one thread, and can be ended from another."""

    run: Callable[[], Ended]
    #: Ends the task; without effect on a task that ends soon by itself.
    cancel: Callable[[], None] = lambda: None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Timeouts:
    """Seconds that each kind of task can take."""

    claim_timeout_s: float = 600.0
    wipe_timeout_s: float = 3600.0
    command_timeout_s: float = 60.0
    console_timeout_s: float = 10.0
    probe_timeout_s: float = 5.0

    def of(self, verb: Verb | None) -> float:
        """Return the seconds for an action, or for a probe if the action is None."""
        if verb is None:
            return self.probe_timeout_s
        longer_or_shorter = {
            Verb.CLAIM: self.claim_timeout_s,
            Verb.REBUILD: self.claim_timeout_s,
            Verb.WIPE: self.wipe_timeout_s,
            Verb.CONSOLE: self.console_timeout_s,
        }
        return longer_or_shorter.get(verb, self.command_timeout_s)


class Tasks:
    """Makes the tasks of a pool; their folders and outputs are in its state directory."""

    def __init__(
        self,
        folder: Path,
        timeouts: Timeouts,
        secret: Callable[[str], Path | None],
    ) -> None:
        self._folder = folder
        self._timeouts = timeouts
        self._secret = secret

    def task(self, claim: Claim, machine: Machine, lock: io.FileIO, brought: bytes | None) -> Task:
        """Return the due task of a claim on a locked machine."""
        for what in (*Verb, 'probe'):
            # The leftovers of a dead process can hold half a key.
            shutil.rmtree(self._run_folder(machine, what), ignore_errors=True)
        verb = COMMANDS.get(claim.phase)
        if verb is not None:
            return self._of_verb(claim, machine, verb, lock, brought)
        spec = machine.probe
        if spec is None:
            # The inventory had a probe when the claim began to wait for it.
            return Task(lambda: Ended(True))
        if not spec.argv:
            return Task(
                functools.partial(probes.ask, machine, spec, self._timeouts.probe_timeout_s)
            )
        return self._task(claim, machine, None, spec.argv, lock)

    def console(self, claim: Claim, machine: Machine) -> tuple[Ended, str]:
        """Run the console command of a machine; return its result and its output."""
        # Concurrent calls have separate folders and outputs.
        name = f'console-{os.urandom(4).hex()}'
        argv, timeout_s = machine.argv(Verb.CONSOLE), self._timeouts.of(Verb.CONSOLE)
        command = self._command(claim, machine, name, argv, timeout_s, None)
        try:
            return _run(command), command.output()
        finally:
            self._output(machine, name).unlink(missing_ok=True)

    def _of_verb(
        self, claim: Claim, machine: Machine, verb: Verb, lock: io.FileIO, brought: bytes | None
    ) -> Task:
        argv = machine.argv(verb)
        if not argv:
            # The inventory had a command when the request was made.
            lost = brought is not None
            ended = Ended(not lost, 'the inventory no longer has one' if lost else '')
            return Task(lambda: ended)
        request = None
        if verb is Verb.CLAIM and brought is not None:
            request = payload.unpacked(
                brought, build_key=claim.build_key, name=claim.name, owner=claim.owner
            )
        return self._task(claim, machine, verb, argv, lock, request)

    def _task(
        self,
        claim: Claim,
        machine: Machine,
        verb: Verb | None,
        argv: tuple[str, ...],
        lock: io.FileIO,
        request: BuildRequest | None = None,
    ) -> Task:
        what, timeout_s = verb.value if verb else 'probe', self._timeouts.of(verb)
        command = self._command(claim, machine, what, argv, timeout_s, lock.fileno())
        return Task(functools.partial(_run, command, request), command.cancel)

    def _command(
        self,
        claim: Claim,
        machine: Machine,
        what: str,
        argv: tuple[str, ...],
        timeout_s: float,
        lock_fd: int | None,
    ) -> Command:
        environment = facts(claim, machine)
        environment['KILN_VERB'] = what.partition('-')[0]
        environment['KILN_FOLDER'] = str(self._run_folder(machine, what))
        if machine.credentials and (file := self._secret(machine.credentials)) is not None:
            environment['KILN_CREDENTIALS_FILE'] = str(file)
        return Command(
            argv,
            environment,
            timeout_s=timeout_s,
            output=self._output(machine, what),
            folder=self._run_folder(machine, what),
            lock_fd=lock_fd,
        )

    def _output(self, machine: Machine, what: str) -> Path:
        return self._folder / 'output' / f'{machine.name}.{what}'

    def _run_folder(self, machine: Machine, what: str) -> Path:
        return self._folder / 'run' / f'{machine.name}.{what}'


def facts(claim: Claim, machine: Machine) -> dict[str, str]:
    """Return the environment of a command: facts of claim and machine, no secrets."""
    told: Mapping[str, str | None] = {
        'KILN_MACHINE': machine.name,
        'KILN_ADDRESS': machine.addresses[0] if machine.addresses else None,
        'KILN_ADDRESSES': ' '.join(machine.addresses),
        'KILN_TYPE': machine.amphora_type.value,
        'KILN_LABELS': json.dumps(dict(machine.labels)),
        'KILN_ZONE': machine.zone,
        'KILN_AMPHORA_ID': claim.id,
        'KILN_AMPHORA_NAME': claim.name,
        'KILN_BUILD_KEY': claim.build_key,
        'KILN_OWNER': claim.owner,
        'KILN_FLAVOR': claim.flavor,
        'KILN_IMAGE': claim.image_id,
        'KILN_HARD': '1' if claim.hard else '0',
        'KILN_FAILURES': str(claim.failures),
    }
    return {name: value for name, value in told.items() if value is not None}


def _run(command: Command, request: BuildRequest | None = None) -> Ended:
    """Run a command in its folder, which exists meanwhile and holds the build's files."""
    folder = command.folder
    folder.mkdir(mode=0o700)
    try:
        for name, content in payload.contents(request) if request else ():
            fd = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(fd, 'wb') as file:
                file.write(content)
        ended = command.run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if request is None or ended.ok:
        return ended
    # The output of a command can contain what it was given.
    return Ended(False, str(sealed(AmphoraBuildError(ended.words), request)))
