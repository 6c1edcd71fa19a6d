"""Fixture of drivers with an engine of their own: a site on a fake clock, and calls."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from kiln.cluster_drivers.base import ClusterDriver, NodeClusterDriver
from kiln.cluster_drivers.calls import call_driver
from kiln.cluster_drivers.values import Context, Progress
from kiln.cluster_file.reading import read
from kiln.cluster_file.writing import dump
from kiln.cluster_service.requests import Declare, Request
from kiln.clusters.exceptions import ClusterDriverError, InvalidCluster, MissingCapability
from kiln.clusters.models import Cluster, OperationState
from kiln.clusters.placing.counts import resized
from kiln.clusters.spec import ClusterSpec, NodeGroupSpec
from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.db.store import Store
from kiln.exceptions import KilnError
from kiln.testing.clock import VirtualClock
from kiln.testing.clusters import samples
from kiln.testing.clusters.fixture import ClusterFixture
from kiln.testing.clusters.simulation.own_engine_calls import (
    Recorder,
    Waited,
    kept,
    without_sleep,
)
from kiln.testing.clusters.simulation.own_engine_site import (
    EngineSite,
    memory_folder,
    open_engine_store,
)

#: Seconds between two polls of a behaviour that polls by itself.
POLL_S = 5.0

_numbers = itertools.count(1)
#: Wrongs that one message names.
_MOST = 4


class Played(ClusterFixture):
    """A site with an engine of the driver's own, on a fake clock."""

    def setUp(self) -> None:
        super().setUp()
        # A class of an author has the behaviours of answers too, which have no site.
        if not issubclass(self.suite(), Played):
            return
        if issubclass(self.driver_class, NodeClusterDriver):
            self.fail(f'Judge {self.driver} by ClusterDriverConformance: kiln builds its nodes.')
        self.clock, self.store, self.stored_in = self._of_the_class()
        #: The name of the cluster; no other behaviour has one of that name.
        self.name = f'kit-{next(_numbers)}'
        bench_class = self.engine_bench_class()
        self.bench = bench_class(self.driver_class, self.new_folder(), self.clock)
        self.addCleanup(self.bench.close)
        self.soon_s = max(self.soon_s, self.bench.soon_s)
        recorder = Recorder(self.soon_s, self._of_the_run('_hung', set()))
        self.played = EngineSite(self.store, self.bench, self.clock, recorder)
        self.enterContext(without_sleep())
        # The engine can be a server that goes on, and what is left there would count as that of
        # the next behaviour.
        self.addCleanup(self._sweep)

    def _sweep(self) -> None:
        """Delete what the behaviour has created, as far as the driver can."""
        for cluster in self.played.touched():
            with contextlib.suppress(KilnError, AssertionError, Waited):
                driver = self.played.open()
                self.settled(driver, self.call(driver, 'delete_cluster', cluster))

    @classmethod
    def _of_the_class(cls) -> tuple[VirtualClock, Store, Path]:
        """Return the clock and the store of all behaviours of the class, and its folder.

        A store of its own would take longer than most of the behaviours.
        """
        if '_shared' not in vars(cls):
            clock = VirtualClock()
            folder = Path(cls.enterClassContext(memory_folder()))
            store = open_engine_store(folder, clock)
            cls.addClassCleanup(store.close)
            cls._shared = clock, store, folder
            cls.addClassCleanup(delattr, cls, '_shared')
        return cls._shared

    _shared: ClassVar[tuple[VirtualClock, Store, Path]]

    # ---- what is asked ---------------------------------------------------------------

    def spec(self, **machine: Any) -> ClusterSpec:
        """Return the cluster of the bench's file, with other values of all its machines."""
        (found,) = read(self.bench.cluster_file, 'the cluster_file of the bench').clusters
        parameters = {**found.machine.parameters, **self.parameters}
        whole = dataclasses.replace(found.machine, **{'parameters': parameters, **machine})
        driver = self.driver_class.name
        return dataclasses.replace(found, name=self.name, driver=driver, machine=whole)

    def other_spec(self) -> ClusterSpec:
        """Return the cluster with what an update changes."""
        spec = self.spec()
        return dataclasses.replace(spec, machine=samples.merged(spec.machine, self.bench.other))

    def declare(self, spec: ClusterSpec) -> Declare:
        """Return the request of ``kiln up`` with a file that declares a cluster."""
        return Declare(spec=read(dump(spec)).clusters[0])

    # ---- what is done ----------------------------------------------------------------

    def done(self, request: Request, *, killed: bool = False, later_s: float = 0.0) -> None:
        """Run a request to its end, and fail unless it succeeded.

        :param killed: the first process dies before it has the driver's first answer.
        :param later_s: seconds in which the engine works on before another continues.
        """
        operation = self.played.ask(request)
        if killed:
            self.played.kill(operation)
            self.played.pass_time(later_s)
        ended = self.played.run(operation)
        self.no_defect()
        if ended.state is OperationState.SUCCEEDED:
            return
        refusal = self.played.calls[-1].error
        if isinstance(refusal, ClusterDriverError):
            raise refusal
        cause = f': {ended.cause.message}' if ended.cause else ''
        self.fail(
            f'"{operation.kind.value}" should succeed within {self.bench.takes_s:g} s of the '
            f'fake clock, and is {ended.state.value}{cause}'
        )

    def none_of(self, found: Iterable[object], text: str) -> None:
        """Fail if anything was found; the message names the first few."""
        names = [str(one) for one in found]
        if names:
            more = f'; and {len(names) - _MOST} more' if len(names) > _MOST else ''
            self.fail(f'{text} Found: {"; ".join(names[:_MOST])}{more}.')

    def no_defect(self) -> None:
        """Fail if the driver has waited, or has broken the contract in an answer."""
        for call in self.played.calls:
            if call.defect is not None:
                self.fail(str(call.defect))

    def created(self, spec: ClusterSpec | None = None) -> Cluster:
        """Create a cluster as users do, and return its record."""
        asked = spec or self.spec()
        self.creatable()
        # A driver can refuse another cluster than that of the file.
        with self.creating() if spec is None else contextlib.nullcontext():
            self.done(self.declare(asked))
        return self.store.clusters.get(asked.name)

    @contextlib.contextmanager
    def creating(self) -> Iterator[None]:
        """Remember whether a cluster can be created at all; see :meth:`creatable`."""
        self.creatable()
        try:
            yield
        except (AssertionError, KilnError, Waited):
            self._of_the_run('_uncreatable', set()).add(self.name)
            raise

    def creatable(self) -> None:
        """Go on, unless a cluster could not be created before, in any behaviour.

        It would fail by the same, and take as long each time.
        """
        if self._of_the_run('_uncreatable', set()):
            raise CannotBeShown('no cluster of the driver can be created, as is shown above')

    def _of_the_run(self, name: str, new: set[str]) -> set[str]:
        """Return what all behaviours of a run have in common; the new one for the first."""
        # The suites of a run have the class in common that names the driver.
        home = next(one for one in type(self).__mro__ if vars(one).get('driver'))
        if name not in vars(home):
            setattr(home, name, new)
        found: set[str] = vars(home)[name]
        return found

    def updated(self, spec: ClusterSpec) -> Cluster:
        """Bring the cluster to what is declared; not shown if the driver refuses that."""
        with self.unless_refused():
            self.done(self.declare(spec))
        return self.store.clusters.get(spec.name)

    @contextlib.contextmanager
    def unless_refused(self, *more: type[Exception]) -> Iterator[None]:
        """Not shown if the driver does not allow the change before anything is done.

        :param more: errors of a call that mean the same.
        """
        refusals: tuple[type[Exception], ...] = (InvalidCluster, MissingCapability, *more)
        try:
            yield
        except refusals as exc:
            raise CannotBeShown(f'the driver refuses the change: {exc}') from exc

    def grown(self, spec: ClusterSpec, group: NodeGroupSpec, more: int) -> ClusterSpec:
        """Return a cluster of which one group has more nodes, or fewer."""
        shape = resized(group.shape, group.shape.count + more)
        return self.with_group(spec, dataclasses.replace(group, shape=shape))

    def with_group(self, spec: ClusterSpec, group: NodeGroupSpec) -> ClusterSpec:
        """Return a cluster with a group in place of the one of the same name, or beside it."""
        groups = [one if one.name != group.name else group for one in spec.groups]
        if group.name not in {one.name for one in groups}:
            groups.append(group)
        return dataclasses.replace(spec, groups=tuple(groups))

    def largest(self, spec: ClusterSpec) -> NodeGroupSpec:
        """Return the group with most nodes, which can lose one."""
        return max(spec.groups, key=lambda one: one.shape.count)

    # ---- calls without kiln's engine ---------------------------------------------------

    def record(self, spec: ClusterSpec, id_: str) -> Cluster:
        """Return a cluster as a store would return it before anything was asked."""
        found = samples.cluster(self.driver_class, spec.machine, 0, id_=id_)
        return dataclasses.replace(found, name=spec.name, spec=spec)

    def context(self) -> Context:
        """Return the context of a call."""
        return dataclasses.replace(samples.context(), credentials='kit')

    def call(self, driver: ClusterDriver, method: str, cluster: Cluster, **more: Any) -> Cluster:
        """Call the driver; return the cluster with the handle and the state of the report."""
        call = functools.partial(
            getattr(driver, method), context=self.context(), cluster=cluster, **more
        )
        return kept(cluster, call_driver(driver.name, method, call))

    def create(self, driver: ClusterDriver, cluster: Cluster) -> Cluster:
        """Call ``create_cluster``."""
        return self.call(
            driver, 'create_cluster', cluster, cluster_create_timeout=self.bench.takes_s
        )

    def stood(self, driver: ClusterDriver, id_: str) -> Cluster:
        """Create a cluster by calls alone, and return it once all is done."""
        with self.creating():
            return self.settled(driver, self.create(driver, self.record(self.spec(), id_)))

    def settled(self, driver: ClusterDriver, cluster: Cluster) -> Cluster:
        """Poll until the driver reports that all is done, and fail unless it does."""
        end = self.clock.monotonic() + self.bench.takes_s
        while self.played.calls[-1].progress is not Progress.COMPLETE:
            last = self.played.calls[-1]
            if last.progress is Progress.FAILED or self.clock.monotonic() >= end:
                reason = getattr(last.report, 'reason', '')
                self.fail(f'{last.method} reports {last.progress} at the end: {reason}')
            self.played.pass_time(POLL_S)
            cluster = self.call(driver, 'update_cluster_status', cluster)
        return cluster
