"""The appliance driver: the hooks of the contract on existing, enrolled machines."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from kiln.clock import SYSTEM_CLOCK, Clock
from kiln.compute_drivers.appliance import view
from kiln.compute_drivers.appliance.claims import state_machine
from kiln.compute_drivers.appliance.claims.matching import machine_for
from kiln.compute_drivers.appliance.claims.records import Change, Claims
from kiln.compute_drivers.appliance.claims.state_machine import LEAVING, Claim, Rules
from kiln.compute_drivers.appliance.claims.store import Store
from kiln.compute_drivers.appliance.inventory.file import InventoryFile
from kiln.compute_drivers.appliance.inventory.machines import Machine, Verb
from kiln.compute_drivers.appliance.work.background_jobs import Crew
from kiln.compute_drivers.appliance.work.locks import take_lock
from kiln.compute_drivers.appliance.work.tasks import Tasks, Timeouts
from kiln.compute_drivers.authoring.error_context import naming
from kiln.compute_drivers.authoring.lazy_options import lazy_options
from kiln.compute_drivers.authoring.machine_pool import EnrolledMachine, MachinePool
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.exceptions import (
    ConfigurationError,
    InstanceStateConflict,
    InvalidRequest,
    ResourceNotFoundError,
    ServiceUnavailable,
    UnsupportedOperation,
    Verdict,
)
from kiln.models import (
    Ability,
    Amphora,
    BuildRequest,
    Changes,
    ComputeStatus,
    DriverHealth,
    Limits,
)

_T = TypeVar('_T', Rules, Timeouts)

#: Build options that would need an enrolled machine to be recabled or moved.
_REFUSED = frozenset({'network_ids', 'port_ids', 'sec_groups', 'server_group_id'})
#: Build options that need a claim command, since the machine already runs.
_BROUGHT = frozenset({'config_drive_files', 'keys', 'user_data'})
_BY_COMMAND = {
    Ability.REBOOT: Verb.REBOOT,
    Ability.REBUILD: Verb.REBUILD,
    Ability.CONSOLE_LOG: Verb.CONSOLE,
}


class ApplianceDriver(AmphoraComputeDriver, MachinePool):
    """Claims enrolled machines for builds, and wipes them when the amphorae are deleted.

    It creates no machine and cannot change the cabling, so a build needs a free machine, and
    networks, ports, security groups and server groups are refused. Everything else that
    changes a machine is a command of the inventory: without one there is no reboot, rebuild
    or console log, and user data, files and keys are refused. Suspend and resume do not exist.
    """

    options = lazy_options('kiln.compute_drivers.appliance.conf')
    #: The bench of the conformance kit; only the kit imports it.
    bench = 'kiln.compute_drivers.appliance.bench:ApplianceBench'
    name = 'appliance'

    def __init__(self, conf: Any, *, clock: Clock = SYSTEM_CLOCK) -> None:
        """Read the inventory and open the claims; nothing runs before the first call.

        :raises ConfigurationError: the inventory or the state directory cannot be used.
        """
        self.clock = clock
        for option in ('inventory', 'state_dir'):
            if not getattr(conf, option):
                raise ConfigurationError(f'Cannot open the pool: option {option} is not set.')
        secrets = Path(conf.secrets_dir) if conf.secrets_dir else None
        self._file = InventoryFile(Path(conf.inventory), secrets)
        folder = _made(Path(conf.state_dir))
        self._locks = folder / 'locks'
        rules, timeouts = _of_options(Rules, conf), _of_options(Timeouts, conf)
        self._store = Store(folder / 'claims.db')
        self._claims = Claims(self._store, rules)
        self._tasks = Tasks(folder, timeouts, self._file.secret)
        self._crew = Crew(
            self._claims,
            self._locks,
            self._tasks,
            self._file,
            rules=rules,
            timeouts=timeouts,
            commands=conf.command_workers,
            probes=conf.probe_workers,
            clock=clock,
        )

    @classmethod
    def open(cls, conf: Any, *, name: str, owner: str, clock: Clock = SYSTEM_CLOCK) -> Self:
        driver = cls(conf, clock=clock)
        driver.name, driver.owner = name, owner
        return driver

    def close(self) -> None:
        """Stop the background work; the next process finishes what is left."""
        self._crew.close()
        self._store.close()

    # ---- limits and abilities, by the inventory ----------------------------------

    @property
    def limits(self) -> Limits:
        inventory = self._file.current
        refused = _REFUSED if inventory.can(Verb.CLAIM) else _REFUSED | _BROUGHT
        return Limits(amphora_types=inventory.amphora_types, refused_options=refused)

    @property
    def abilities(self) -> frozenset[Ability]:
        """Abilities that need no command, or that some machine has a command for."""
        inventory = self._file.current
        lacking = {able for able, verb in _BY_COMMAND.items() if not inventory.can(verb)}
        return super().abilities - lacking

    # ---- build, delete, find -----------------------------------------------------

    def _build(self, request: BuildRequest) -> str:
        with naming(build_key=request.build_key):
            claim = self._claims.claim(request, self._file.current, self.clock.time())
        self._has_work()
        return claim.id

    def _delete(self, amphora_id: str) -> None:
        now = self.clock.time()
        self._change(
            amphora_id, lambda claim: state_machine.deleted(claim, self._machine(claim), now)
        )

    def _get(self, amphora_id: str) -> Amphora:
        with naming(amphora_id=amphora_id):
            (amphora,) = self._amphorae([self._looked().get(amphora_id)])
        return amphora

    def _list(self, owner: str) -> Iterable[Amphora]:
        return self._amphorae(self._looked().of_owner(owner))

    def _find(self, name: str) -> Sequence[Amphora]:
        return self._amphorae(self._looked().find(self.owner, name))

    def _find_build(self, build_key: str) -> Amphora | None:
        claim = self._looked().with_key(self.owner, build_key)
        return None if claim is None else self._amphorae([claim])[0]

    def _statuses(self, amphora_ids: tuple[str, ...]) -> Mapping[str, ComputeStatus]:
        found = self._seen(self._looked().with_ids(amphora_ids))
        return {status.amphora_id: status for status in found}

    def _changes(self, since: str) -> Changes:
        told = self._looked().changes(self.owner, since)
        return Changes(
            statuses=tuple(self._seen(told.claims)),
            gone=told.gone,
            cursor=told.cursor,
            complete=told.complete,
        )

    def on_news(self, hurry: Callable[[], None]) -> None:
        self._crew.on_news(hurry)

    def _check(self) -> DriverHealth:
        started = self.clock.monotonic()
        taken = len(self._looked().all())
        detail = f'{len(self._file.current.machines)} machines, {taken} claimed'
        if self._file.trouble is not None:
            detail += f'; the previous inventory stays in use: {self._file.trouble}'
        latency_s = self.clock.monotonic() - started
        return DriverHealth(healthy=True, detail=detail, latency_s=latency_s)

    # ---- by commands of the operator ---------------------------------------------

    def _reboot(self, amphora_id: str, hard: bool) -> None:
        def change(claim: Claim) -> Claim:
            machine = self._able(claim, Verb.REBOOT)
            return state_machine.rebooted(claim, machine, self.clock.time(), hard=hard)

        self._change(amphora_id, change)

    def _rebuild(self, amphora_id: str, image_id: str | None) -> None:
        def change(claim: Claim) -> Claim:
            machine = self._able(claim, Verb.REBUILD)
            if image_id and machine.images and image_id not in machine.images:
                raise InvalidRequest(
                    f'Cannot rebuild amphora {claim.id} from image {image_id!r}: its machine '
                    f'{machine.name} takes {", ".join(machine.images)}.'
                )
            return state_machine.rebuilt(claim, machine, self.clock.time(), image_id)

        self._change(amphora_id, change)

    def _console_log(self, amphora_id: str, lines: int | None) -> str:
        claim = self._looked().get(amphora_id)
        ended, text = self._tasks.console(claim, self._able(claim, Verb.CONSOLE))
        if not ended.ok:
            raise ServiceUnavailable(
                f'Cannot read the console of amphora {amphora_id}: console command of machine '
                f'{claim.machine}: {ended.words}.',
                amphora_id=amphora_id,
                # The failure concerns one machine, not the pool.
                circuit=Verdict.NEUTRAL,
            )
        return text if lines is None else '\n'.join(text.splitlines()[-lines:])

    # ---- validation --------------------------------------------------------------

    def _validate_flavor(self, flavor: str) -> None:
        self._check_offered('flavor', flavor)

    def _validate_image(self, image_id: str) -> None:
        self._check_offered('image', image_id)

    def _validate_zone(self, availability_zone: str) -> None:
        self._check_offered('zone', availability_zone)

    def _list_zones(self) -> Sequence[str]:
        return self._file.current.zones

    def _check_offered(self, kind: str, name: str) -> None:
        inventory = self._file.current
        if not inventory.offers(kind, name):
            names = ', '.join(inventory.names(kind)) or 'none'
            raise InvalidRequest(
                f'Cannot use {kind} {name!r}: no machine of the inventory has it. Known: {names}.',
                resource_id=name,
            )

    # ---- machine pool, for its operator ------------------------------------------

    def machines(self) -> Sequence[EnrolledMachine]:
        return tuple(
            view.pool(
                self._file.current, self._claims.all(), self._claims.records(), self.clock.time()
            )
        )

    def maintain(self, name: str, reason: str | None) -> None:
        machine = self._known(name)
        if reason is None and machine.maintenance is not None:
            raise InvalidRequest(
                f'Cannot return machine {name}: its maintenance is set in the inventory '
                f'({machine.maintenance}). Remove it there.',
                resource_id=name,
            )
        self._claims.maintain(name, reason)

    def release(self, name: str) -> None:
        self._known(name)
        lock = take_lock(self._locks, name)
        if lock is None:
            raise InstanceStateConflict(
                f'Cannot release machine {name}: a command runs on it now. Wait for its end.',
                resource_id=name,
                retryable=True,
            )
        try:
            claim = self._claims.of_machine(name)
            if claim is not None:
                self._claims.change(claim.id, _given_back, self.clock.time())
            self._claims.pardon(name)
        finally:
            lock.close()

    # ---- helpers -----------------------------------------------------------------

    def _change(self, amphora_id: str, change: Change) -> None:
        with naming(amphora_id=amphora_id):
            self._claims.change(amphora_id, change, self.clock.time())
        self._has_work()

    def _has_work(self) -> None:
        self._crew.start()
        self._crew.wake()

    def _looked(self) -> Claims:
        self._crew.start()
        return self._claims

    def _machine(self, claim: Claim) -> Machine:
        return machine_for(self._file.current, claim)

    def _known(self, name: str) -> Machine:
        if machine := self._file.current.get(name):
            return machine
        if claim := self._claims.of_machine(name):
            return self._machine(claim)
        raise ResourceNotFoundError(
            f'Cannot find machine {name!r}: it is neither in the inventory nor claimed.',
            resource_id=name,
        )

    def _able(self, claim: Claim, verb: Verb) -> Machine:
        machine = self._machine(claim)
        if not machine.argv(verb):
            raise UnsupportedOperation(
                f'Cannot {verb.value} amphora {claim.id}: its machine {claim.machine} has no '
                f'{verb.value} command in the inventory.',
                amphora_id=claim.id,
            )
        return machine

    def _amphorae(self, claims: Iterable[Claim]) -> list[Amphora]:
        inventory = self._file.current
        return [
            view.amphora(
                claim, machine_for(inventory, claim), enrolled=claim.machine in inventory.machines
            )
            for claim in claims
        ]

    def _seen(self, claims: Iterable[Claim]) -> list[ComputeStatus]:
        now = self.clock.time()
        return [amphora.status(now) for amphora in self._amphorae(claims)]


def _given_back(claim: Claim) -> None:
    if claim.phase not in LEAVING:
        raise InstanceStateConflict(
            f'Cannot release machine {claim.machine}: it is in use as amphora {claim.id} '
            f'({claim.name}). Delete the amphora first.',
            amphora_id=claim.id,
        )


def _made(folder: Path) -> Path:
    try:
        for path in (folder, *(folder / name for name in ('locks', 'output', 'run'))):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        raise ConfigurationError(f'Cannot keep claims in {folder}: {exc.strerror}.') from exc
    return folder


def _of_options(kind: type[_T], conf: Any) -> _T:
    """Return a value whose fields are options of the same names; ``_s`` marks seconds."""
    names = [field.name for field in dataclasses.fields(kind)]
    return kind(**{name: getattr(conf, name.removesuffix('_s')) for name in names})
