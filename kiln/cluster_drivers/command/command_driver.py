"""Cluster driver whose engine is a program: driver.yaml, an executable file, and no Python."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from kiln.clock import SYSTEM_CLOCK, Clock
from kiln.cluster_drivers.base import ClusterDriver
from kiln.cluster_drivers.command import protocol
from kiln.cluster_drivers.command.checking import value_problems
from kiln.cluster_drivers.command.documents import Secrets, desired, document, request_id
from kiln.cluster_drivers.command.program import SHORT_S, Program
from kiln.cluster_drivers.command.protocol import Condition, Ending, Nonsense, Verb
from kiln.cluster_drivers.command.pursuit import Pursuit
from kiln.cluster_drivers.command.requests import Memory, Request
from kiln.cluster_drivers.parameters import Parameter
from kiln.cluster_drivers.scale import ScaleManager
from kiln.cluster_drivers.values import Context, Loss, PlannedChange, Progress, StatusReport
from kiln.clusters.exceptions import (
    ClusterDriverError,
    InvalidClusterDriver,
    MissingCapability,
    Problem,
)
from kiln.clusters.models import Cluster
from kiln.clusters.spec import ClusterTemplate, NodeGroupSpec, Strategy
from kiln.programs.accounts import Account
from kiln.programs.detached import Runs
from kiln.programs.watching import RunWatcher

_T = TypeVar('_T')

#: One thread watches the runs of all drivers of this process.
_WATCHER = RunWatcher()

_CONDITIONS: Mapping[Condition, Progress] = {
    Condition.COMPLETE: Progress.COMPLETE,
    Condition.IN_PROGRESS: Progress.IN_PROGRESS,
    Condition.FAILED: Progress.FAILED,
}


def default_runs(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the runs of all programs of this host, if no option names another."""
    home = environment.get('XDG_STATE_HOME') or Path.home() / '.local' / 'state'
    return Path(home, 'kiln', 'runs').absolute()


class CommandDriver(ClusterDriver):
    """Has a program create, update and delete clusters, and report how they are.

    A call begins a run of the program, which goes on without kiln, or finds the run that was
    begun for the same request. Polls read what it has printed, and begin another run if the
    last one said "later", or was lost.
    """

    directory: ClassVar[Path]
    #: The name of the program in the directory.
    program_file: ClassVar[str]
    parameters: ClassVar[Mapping[str, Parameter]]
    #: Seconds that a run can take where the contract does not tell, and that it has to end.
    timeout_s: ClassVar[float]
    grace_s: ClassVar[float]
    #: How the kit reaches the engine of the program for tests.
    bench: ClassVar[str]
    bench_file: ClassVar[str | None]

    #: The user that the program runs as; None is the user of kiln.
    account: Account | None = None
    #: The folder of the runs on this host; None is the default.
    runs_in: Path | None = None
    clock: Clock = SYSTEM_CLOCK
    #: More variables for the program, such as those of a bench.
    variables: Mapping[str, str] = {}  # a mapping is never changed
    #: Seconds that the program has for an answer that is waited for.
    short_s: float = SHORT_S
    #: Words before those of the program in its runs.
    before: tuple[str, ...] = ()
    #: The verbs with which the program has described itself; none before.
    verbs_known: ClassVar[frozenset[Verb]] = frozenset()

    @classmethod
    def open(cls, *, overrides: Path | None = None) -> Self:
        """Return the driver; its program describes itself once, the first time.

        :raises InvalidClusterDriver: the program cannot be used.
        """
        driver = super().open()
        if not cls.verbs_known:
            cls.verbs_known = driver._described()
        return driver

    def _described(self) -> frozenset[Verb]:
        program = self.program
        wrong = program.unusable()
        if not wrong:
            try:
                return program.describe().verbs
            except (Nonsense, OSError) as exc:
                wrong = f'{self.program_file} describe: {getattr(exc, "strerror", None) or exc}'
        raise InvalidClusterDriver([Problem(message=wrong, file=str(program.path))])

    @property
    def program(self) -> Program:
        """The program of the driver."""
        path = self.directory / self.program_file
        return Program(
            driver=self.name, path=path, variables=self.variables, before=self.before,
            account=self.account, short_s=self.short_s,
        )  # fmt: skip

    # ---- calls that begin something --------------------------------------------------------

    def create_cluster(
        self, context: Context, cluster: Cluster, cluster_create_timeout: float
    ) -> StatusReport:
        """Have the program create the cluster."""
        return self._begin(context, cluster, Verb.CREATE, timeout_s=cluster_create_timeout)

    def update_cluster(
        self,
        context: Context,
        cluster: Cluster,
        scale_manager: ScaleManager | None = None,
        rollback: bool = False,
    ) -> StatusReport:
        """Have the program bring the cluster to what is desired."""
        return self._begin(context, cluster, Verb.UPDATE, 'rollback' if rollback else 'update')

    def resize_cluster(
        self,
        context: Context,
        cluster: Cluster,
        *,
        nodegroup: NodeGroupSpec,
        node_count: int,
        nodes_to_remove: Sequence[str] = (),
    ) -> StatusReport:
        """Have the program bring a group to a count; it can refuse the names of nodes."""
        remove = {'group': nodegroup.name, 'nodes': list(nodes_to_remove)}
        return self._begin(context, cluster, Verb.UPDATE, 'resize', remove=remove)

    def upgrade_cluster(
        self,
        context: Context,
        cluster: Cluster,
        *,
        cluster_template: ClusterTemplate,
        nodegroups: Sequence[NodeGroupSpec],
        strategy: Strategy,
    ) -> StatusReport:
        """Have the program replace nodes; what is desired has their new values."""
        return self._begin(context, cluster, Verb.UPDATE, 'upgrade')

    def delete_cluster(self, context: Context, cluster: Cluster) -> StatusReport:
        """Have the program delete the cluster."""
        return self._begin(context, cluster, Verb.DELETE)

    # ---- reports ---------------------------------------------------------------------------

    def update_cluster_status(self, context: Context, cluster: Cluster) -> StatusReport:
        """Report how far the program is; if it has nothing to do, what it says of the cluster."""
        memory = Memory.of(cluster)
        if memory.request is None:
            return self._status(context, cluster, memory)
        pursuit = self._pursuit(context, cluster)
        if memory.request.operation == context.operation:
            return pursuit.go_on(memory)
        # Its operation was cancelled, or has failed meanwhile.
        left = pursuit.leave(memory)
        if left.progress is Progress.IN_PROGRESS:
            return left
        assert left.driver_state is not None
        found = self._status(context, cluster, Memory.read(left.driver_state))
        return dataclasses.replace(
            left, progress=found.progress, reason=found.reason, outputs=found.outputs
        )

    def validate(
        self, context: Context, cluster: Cluster, plan: PlannedChange
    ) -> Sequence[Problem]:
        """Report values that are wrong by driver.yaml, or else by the program itself."""
        found = list(dict.fromkeys(value_problems(context, cluster, self.parameters)))
        if found or Verb.VALIDATE not in self.verbs_known:
            return found
        return self._validated(context, cluster)

    def preview_cluster(
        self, context: Context, cluster: Cluster, plan: PlannedChange
    ) -> Sequence[str]:
        """Return what the program foresees.

        :raises MissingCapability: it does not foresee anything.
        :raises ClusterDriverError: it cannot now.
        """
        if Verb.PLAN not in self.verbs_known:
            raise MissingCapability('Its program has no verb "plan".')
        remove = {'nodes': list(plan.named)} if plan.named else {}
        result = self._told(Verb.PLAN, context, cluster, kind=plan.kind.value, remove=remove)
        said = self._understood(protocol.changes, result)
        lost = self._understood(protocol.lost, result)
        return [*map(Loss, said[:lost]), *said[lost:]]

    def _validated(self, context: Context, cluster: Cluster) -> Sequence[Problem]:
        return self._understood(protocol.problems, self._told(Verb.VALIDATE, context, cluster))

    def _told(
        self, verb: Verb, context: Context, cluster: Cluster, **more: Any
    ) -> Mapping[str, Any]:
        memory = Memory.of(cluster)
        answer = self._short(verb, context, cluster, memory, **more)
        if answer is None or answer.ending is not Ending.DONE:
            seconds = self.program.time_for(verb)
            said = answer.message if answer else f'it has no answer within {seconds:g} s'
            raise ClusterDriverError(
                f'The program of driver {self.name} cannot {verb} cluster {cluster.name}: {said}.',
                retryable=answer is None or answer.ending is not Ending.REFUSED,
            )
        return answer.result

    def _status(self, context: Context, cluster: Cluster, memory: Memory) -> StatusReport:
        answer = self._short(Verb.STATUS, context, cluster, memory)
        if answer is None:
            reason = f'Its program has not answered within {self.short_s:g} s.'
            return StatusReport(progress=Progress.UNKNOWN, reason=reason)
        if answer.ending is not Ending.DONE:
            reason = f'Its program cannot tell: {answer.message or "it says later"}.'
            return StatusReport(progress=Progress.UNKNOWN, reason=reason)
        found = self._understood(protocol.condition, answer.result)
        outputs = self._understood(protocol.outputs, answer.result)
        if found is Condition.LOST:
            progress = Progress.COMPLETE if memory.deleted else Progress.FAILED
            reason = answer.message or 'The engine of the program has no such cluster.'
            return StatusReport(progress=progress, reason=reason)
        reason = answer.message
        if found is Condition.FAILED and not reason:
            reason = 'Its program reports a failure, and gives no reason.'
        return StatusReport(progress=_CONDITIONS[found], reason=reason, outputs=outputs)

    def _short(
        self, verb: Verb, context: Context, cluster: Cluster, memory: Memory, **more: Any
    ) -> protocol.Answer | None:
        secrets = Secrets(context, cluster, self.parameters)
        asked = document(
            verb, context, cluster, self.parameters, state=memory.program, handle=memory.handle,
            **more,
        )  # fmt: skip
        return self.program.ask(verb, asked, secrets)

    def _understood(
        self, read: Callable[[Mapping[str, Any]], _T], result: Mapping[str, Any]
    ) -> _T:
        try:
            return read(result)
        except Nonsense as exc:
            raise ClusterDriverError(
                f'The program of driver {self.name} cannot be understood: {exc}.'
            ) from exc

    # ---- requests --------------------------------------------------------------------------

    def _begin(
        self,
        context: Context,
        cluster: Cluster,
        verb: Verb,
        kind: str | None = None,
        *,
        timeout_s: float | None = None,
        remove: Mapping[str, Any] | None = None,
    ) -> StatusReport:
        asked = {
            'kind': kind or verb.value,
            'desired': desired(context, cluster, cluster.spec, self.parameters),
            'remove': remove,
        }
        seconds = timeout_s or self.timeout_s
        request = Request(
            id=request_id(cluster, verb, asked), verb=verb, kind=kind or verb.value,
            deadline_at=self.clock.time() + seconds, timeout_s=seconds,
            operation=context.operation, remove=remove or {},
        )  # fmt: skip
        memory = Memory.of(cluster)
        return self._pursuit(context, cluster).begin(memory, request)

    def _pursuit(self, context: Context, cluster: Cluster) -> Pursuit:
        return Pursuit(
            program=self.program, context=context, cluster=cluster, parameters=self.parameters,
            runs=Runs(self.runs_in or default_runs(), cluster.id), watcher=_WATCHER,
            host=os.uname().nodename, clock=self.clock, grace_s=self.grace_s,
            can_cancel=Verb.CANCEL in self.verbs_known,
        )  # fmt: skip
