"""The facade a controller holds: every call returns at once with an Operation."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Self

from kiln.building import Builder, Goal, checked_until
from kiln.clock import Deadline
from kiln.compute_drivers import validation
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.calls import Call
from kiln.exceptions import InvalidRequest
from kiln.flows import (
    EffectFlow,
    OnStatus,
    Probe,
    Until,
    derived,
    followed,
)
from kiln.listeners import Listener
from kiln.models import (
    Amphora,
    AmphoraType,
    Capabilities,
    Changes,
    ComputeStatus,
    DriverHealth,
    Placement,
    State,
)
from kiln.optional_calls import OptionalCalls
from kiln.stack import StackSettings, assemble
from kiln.wrappers.circuit_settings import CircuitSnapshot
from kiln.wrappers.operation import Operation, Priority


class Compute(OptionalCalls):
    """One backend behind all its guards.

    Arguments are checked on the caller's thread and raise at once; so do a
    full queue and an open circuit. Everything else happens on kiln's threads
    and ends in the :class:`Operation` that each method returns.
    """

    def __init__(
        self,
        driver: AmphoraComputeDriver,
        *,
        settings: StackSettings | None = None,
        listeners: Iterable[Listener] = (),
    ) -> None:
        self._stack = assemble(driver, settings or StackSettings(), listeners)
        self._builder = Builder(self._stack)

    # ---- what it is ------------------------------------------------------

    @property
    def name(self) -> str:
        """The name of the backend."""
        return self._stack.driver.name

    @property
    def driver(self) -> AmphoraComputeDriver:
        """The vendor's driver, without any guard; for tests and repairs."""
        return self._stack.driver

    @property
    def guarded(self) -> AmphoraComputeDriver:
        """The whole stack as a plain driver, whose calls block until they are done."""
        return self._stack.executor

    def capabilities(self) -> Capabilities:
        """Return what the driver can do; asks nobody."""
        return self._stack.driver.capabilities()

    def check(self, *, timeout: float | None = None) -> Operation[DriverHealth]:
        """Look at the backend without changing anything."""
        return self._submit(Call.CHECK, timeout=timeout)

    # ---- build, delete, find ---------------------------------------------

    def build(
        self,
        amphora_type: AmphoraType | str = AmphoraType.VM,
        amphora_flavor: str | None = None,
        image_id: str | None = None,
        keys: Iterable[str] | None = None,
        sec_groups: Iterable[str] | None = None,
        network_ids: Iterable[str] | None = None,
        config_drive_files: Mapping[str, Any] | None = None,
        user_data: Any = None,
        *,
        name: str | None = None,
        build_key: str | None = None,
        port_ids: Iterable[str] | None = None,
        availability_zone: str | None = None,
        server_group_id: str | None = None,
        metadata: Mapping[str, str] | None = None,
        timeout: float | None = None,
        until: Until | str = Until.ACCEPTED,
        probe: Probe | None = None,
        on_status: OnStatus | None = None,
        priority: Priority = Priority.NORMAL,
        placements: Iterable[Placement] = (),
        discard: bool = True,
    ) -> Operation[str]:
        """Build an amphora; the result is its id, once it has come as far as asked.

        A build that fails, is cancelled or misses its deadline leaves nothing
        behind. Repeating it with the same ``build_key`` adopts what exists.
        Where there is no room, ``placements`` are tried in turn, those that
        were full lately last.

        Without ``discard`` a build that is only to be accepted is left as it is where
        nobody can tell whether it was: for a caller who looks for its key later, or
        whose successor does and may have adopted it by then.

        :raises InvalidBuildRequest: wrong arguments.
        :raises OperationRejected: the queue is full.
        :raises CircuitOpenError: the backend is being left in peace.
        """
        request = validation.build_request(
            self._stack.driver.limits,
            owner=self._stack.driver.owner,
            amphora_type=amphora_type,
            amphora_flavor=amphora_flavor,
            image_id=image_id,
            keys=keys,
            sec_groups=sec_groups,
            network_ids=network_ids,
            config_drive_files=config_drive_files,
            user_data=user_data,
            name=name,
            build_key=build_key,
            port_ids=port_ids,
            availability_zone=availability_zone,
            server_group_id=server_group_id,
            metadata=metadata,
        )
        goal = Goal(checked_until(until, probe), probe, on_status, priority, discard)
        if not discard and goal.until is not Until.ACCEPTED:
            raise InvalidRequest('discard=False goes with until=Until.ACCEPTED alone.')
        others = validation.check_placements(placements, self._stack.driver.limits)
        seconds = validation.check_timeout(timeout)
        return self._builder.build(request, goal, seconds=seconds, placements=others)

    def delete(
        self,
        amphora_id: str,
        *,
        timeout: float | None = None,
        wait: bool = False,
        priority: Priority = Priority.NORMAL,
    ) -> Operation[None]:
        """Delete an amphora; with ``wait`` the operation ends when it is gone."""
        validation.check_text('amphora_id', amphora_id)
        return self._effect(
            Call.DELETE, amphora_id, goal=None, wait=wait, timeout=timeout, priority=priority
        )

    def status(self, amphora_id: str, *, timeout: float | None = None) -> Operation[ComputeStatus]:
        """Ask for the status of an amphora."""
        validation.check_text('amphora_id', amphora_id)
        return self._submit(Call.STATUS, amphora_id, timeout=timeout)

    def latest(self, amphora_id: str) -> ComputeStatus | None:
        """Return what the watcher saw last, marked stale where it is; asks nobody.

        None of what it has not seen, which a build on its way may be: who wants to
        follow one gives it ``on_status``.
        """
        return self._stack.watcher.latest(validation.check_text('amphora_id', amphora_id))

    def get_amphora(
        self,
        amphora_name: str | None = None,
        amphora_id: str | None = None,
        *,
        timeout: float | None = None,
    ) -> Operation[Amphora]:
        """Find an amphora by name or by id; where both are given both must fit."""
        call, subject = self._stack.driver.look_up(amphora_name, amphora_id)
        found = self._submit(call, subject, timeout=timeout)
        return derived(
            self._stack,
            call.label,
            found,
            lambda answer: self._stack.driver.choose(answer, amphora_name),
        )

    def find_build(
        self, build_key: str, *, timeout: float | None = None
    ) -> Operation[Amphora | None]:
        """Ask for the amphora built with a key; None only if certain there is none."""
        validation.check_text('build_key', build_key)
        return self._submit(Call.FIND_BUILD, build_key, timeout=timeout)

    # ---- many at once ----------------------------------------------------

    def list_amphorae(
        self, *, owner: str | None = None, timeout: float | None = None
    ) -> Operation[Sequence[Amphora]]:
        """Ask for every amphora of an owner, this site where none is named."""
        owner = validation.check_owner(self._stack.driver.owner if owner is None else owner)
        return self._submit(Call.LIST, owner, timeout=timeout)

    def statuses(
        self, amphora_ids: Iterable[str], *, timeout: float | None = None
    ) -> Operation[Mapping[str, ComputeStatus]]:
        """Ask for the status of many; an id not in the answer does not exist."""
        ids = validation.check_ids(amphora_ids)
        return self._submit(Call.STATUSES, ids, timeout=timeout)

    def changes(self, since: str = '', *, timeout: float | None = None) -> Operation[Changes]:
        """Ask what changed since the cursor of an earlier answer."""
        return self._submit(Call.CHANGES, validation.check_cursor(since), timeout=timeout)

    def watch(
        self,
        amphora_id: str,
        goal: Collection[State] = frozenset({State.ACTIVE}),
        *,
        timeout: float | None = None,
        on_status: OnStatus | None = None,
    ) -> Operation[ComputeStatus]:
        """Wait until an amphora is in one of the states; serves any number of callers."""
        validation.check_text('amphora_id', amphora_id)
        goals = validation.check_states(goal)
        seconds = validation.check_timeout(timeout) or self._stack.settings.effect_timeout_s
        operation = self._operation('watch', amphora_id, seconds, amphora_id=amphora_id)
        watch = self._stack.watcher.watch(
            amphora_id, goals, deadline=operation.deadline, on_status=on_status
        )
        return followed(watch, operation)

    # ---- after a restart -------------------------------------------------

    def recover(self, saved: Mapping[str, Any]) -> Operation[Any]:
        """Take up an operation that another process saved with ``to_dict()``.

        A build is looked up by its key and never sent again; what is safe to
        repeat is repeated; of anything else the outcome is said to be unknown.
        """
        return self._stack.executor.recover(dict(saved))

    # ---- circuits --------------------------------------------------------

    def circuits(self) -> list[CircuitSnapshot]:
        """Return the state of each circuit of this backend."""
        return [circuit.snapshot() for circuit in self._stack.breaker.circuits.values()]

    def open_circuit(self, name: str) -> None:
        """Open a circuit by hand; it stays open until it is closed by hand."""
        self._circuit(name).isolate()

    def close_circuit(self, name: str) -> None:
        """Close a circuit by hand and forget the failures that opened it."""
        self._circuit(name).close()

    # ---- the end ---------------------------------------------------------

    @property
    def builds_in_flight(self) -> int:
        """How many builds wait for their goal."""
        return self._builder.in_flight.count

    def close(self, wait_s: float = 10.0) -> None:
        """Stop; every operation that is not done ends with OperationCancelled.

        Builds that were under way are removed as far as ``wait_s`` allows.
        """
        self._stack.close(wait_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- within ----------------------------------------------------------

    def _submit(
        self,
        call: Call,
        *args: Any,
        timeout: float | None,
        priority: Priority = Priority.NORMAL,
    ) -> Operation[Any]:
        seconds = validation.check_timeout(timeout)
        return self._stack.executor.submit(call, *args, timeout_s=seconds, priority=priority)

    def _effect(
        self,
        call: Call,
        amphora_id: str,
        *args: Any,
        goal: Collection[State] | None,
        wait: bool,
        timeout: float | None,
        priority: Priority = Priority.NORMAL,
    ) -> Operation[None]:
        if not wait:
            return self._submit(call, amphora_id, *args, timeout=timeout, priority=priority)
        seconds = validation.check_timeout(timeout) or self._stack.settings.effect_timeout_s
        sent = self._submit(call, amphora_id, *args, timeout=seconds, priority=priority)
        operation = self._operation(call.label, amphora_id, seconds, amphora_id=amphora_id)
        EffectFlow(self._stack, operation).start(sent, goal)
        return operation

    def _operation(
        self,
        kind: str,
        subject: str,
        seconds: float,
        *,
        amphora_id: str | None = None,
    ) -> Operation[Any]:
        operation: Operation[Any] = Operation(
            kind,
            backend=self.name,
            subject=subject,
            deadline=Deadline.after(seconds, self._stack.driver.clock),
            clock=self._stack.driver.clock,
        )
        operation.amphora_id = amphora_id
        return operation

    def _circuit(self, name: str) -> Any:
        circuits = {circuit.name: circuit for circuit in self._stack.breaker.circuits.values()}
        # 'build' is as good as 'east/build' where the backend is named already.
        circuit = circuits.get(name) or circuits.get(f'{self.name}/{name}')
        if circuit is None:
            raise InvalidRequest(
                f'Backend {self.name!r} has no circuit {name!r}; '
                f'it has {", ".join(map(str, circuits))}.'
            )
        return circuit
