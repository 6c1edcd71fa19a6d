"""Demo of a cluster: created, shrunk, repaired, grown across a crash, deleted."""

from __future__ import annotations

import abc
import collections
import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from kiln import conf as kiln_conf
from kiln.cli.cluster.following import Entered, Follower
from kiln.cli.demo.stage import Stage
from kiln.cli.output.operation_progress import Goal, GroupGoal, goal_of
from kiln.cli.output.proposal_text import proposal_lines
from kiln.cli.output.screens import screen
from kiln.cli.site.stores import clusters_extra, configured_site
from kiln.clusters.models import Node, NodeState, OperationState
from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.models import Amphora, State

if TYPE_CHECKING:
    from kiln.cluster_service.requests import Request
    from kiln.cluster_service.site import Site

CONFIG = """\
[compute]
default_backend = demo
owner = demo
[compute:demo]
driver = noop
path = {folder}/cloud.db
build_s = {build_s}
delete_s = {delete_s}
jitter = 0.5
zones = az1,az2,az3
flavors = small,large
watch_interval = 0.1
watch_max_interval = 0.1
[db]
url = sqlite:///{folder}/kiln.db
[clusters]
driver_path =
lease = 1
quiesce = 0.5
watch = 1
"""
PAGE = """\
cluster: demo
coe: nodes
image: debian-13
nodegroups:
  - name: control
    role: control
    flavor: small
    count: 3
    zones: [az1, az2, az3]
    health: {unhealthy_after: 1}
  - name: web
    flavor: small
    count: 3
    zones: [az1, az2, az3]
    health: {unhealthy_after: 1}
  - name: work
    flavors: {small: 4, large: 2}
    zones: {az1: 2, az2: 2, az3: 2}
    health: {unhealthy_after: 1, max_unhealthy: 60%, max_in_flight: 2}
"""
#: Seconds to wait until an engine starts work, even on a busy machine.
_PATIENCE_S = 120.0


def play(stage: Stage, pace: float) -> None:
    """Run the demo in a temporary folder; return once all of its resources are gone."""
    with tempfile.TemporaryDirectory(prefix='kiln-demo-') as name:
        folder = Path(name)
        config = folder / 'kiln.conf'
        config.write_text(CONFIG.format(folder=folder, build_s=2.0 * pace, delete_s=0.6 * pace))
        with (
            configured_site(
                kiln_conf.load([str(config)], [], environment={}), stage.clock
            ) as site,
            contextlib.closing(NoopCloud(folder / 'cloud.db', clock=stage.clock)) as cloud,
        ):
            CloudPlay(stage, site, cloud, config).run()


class Play(abc.ABC):
    """Changes a cluster, shows each change, and checks the result."""

    #: The cluster file of the demo.
    page: ClassVar[str]

    def __init__(self, stage: Stage, site: Site, config: Path) -> None:
        self._stage = stage
        self._site = site
        self._config = config
        # The ids of all machines ever created.
        self._made: set[str] = set()

    @abc.abstractmethod
    def run(self) -> None:
        """Run all acts."""

    @abc.abstractmethod
    def _machines(self) -> list[Amphora]:
        """Return the machines in the backend."""

    def _declare(self) -> None:
        with clusters_extra():
            from kiln.cluster_file.reading import read
        from kiln.cluster_service.requests import Declare

        for line in self.page.splitlines():
            self._stage.say(f'  {line}', '90')
        (spec,) = read(self.page).clusters
        self._do(Declare(spec=spec))

    def _repair(self, dead: list[Node]) -> None:
        """Wait until the engine has found and replaced the dead nodes by itself."""
        groups = collections.Counter(node.group for node in dead)
        goal = {
            name: GroupGoal(makes=count, leave=frozenset(n.id for n in dead if n.group == name))
            for name, count in groups.items()
        }
        lost = {node.id for node in dead}
        give_up = self._stage.clock.monotonic() + _PATIENCE_S
        with self._site.conducting():
            while self._stage.clock.monotonic() < give_up:
                # Read first: the operation that removed these nodes exists by then.
                gone = not self._ids() & lost
                after = self._site.clusters.last_event()
                newest = self._newest(after, goal)
                if not newest.operation.state.ended:
                    self._watch(newest)
                elif gone:
                    return
                else:
                    self._stage.clock.sleep(0.05)

    def _newest(self, after: int, goal: Goal | None = None) -> Entered:
        view = self._site.clusters.show('demo')
        assert view.operation is not None
        return Entered(cluster=view.cluster, operation=view.operation, goal=goal, after=after)

    def _delete(self, number: int) -> None:
        from kiln.cluster_service.requests import Delete

        self._stage.title(f'{number}. Delete it, and keep the receipt')
        self._do(Delete(cluster='demo'), shown=False)
        receipt = self._site.clusters.receipt('demo')
        self._stage.say(
            f'The receipt names {len(receipt.holdings)} machines and when each was confirmed '
            f'gone; {len(receipt.abandoned)} were abandoned.'
        )
        named = {one.id for one in receipt.holdings}
        self._stage.expect('no machine is left', self._machines(), [])
        self._stage.expect(
            'the receipt names every machine ever created', self._made - named, set()
        )

    def _do(self, request: Request, *, shown: bool = True) -> None:
        """Show the plan of a request, and carry it out."""
        clusters = self._site.clusters
        proposal = clusters.plan(request)
        if shown:
            for line in (*proposal_lines(proposal, colours=self._stage.drawn), ''):
                self._stage.say(line)
        after = clusters.last_event()
        clusters.apply(proposal)
        self._follow(self._newest(after, goal_of(proposal)))

    def _follow(self, entered: Entered) -> None:
        with self._site.conducting():
            self._watch(entered)

    def _watch(self, entered: Entered) -> None:
        with screen(self._stage.out) as shown:
            (ended,) = Follower(self._site.clusters, self._stage.clock, shown).follow([entered])
        self._made |= {one.id for one in self._machines()}
        kind = entered.operation.kind.value
        if ended.state is not OperationState.SUCCEEDED:
            self._stage.expect(f'the {kind} succeeded', ended.state, 'succeeded')

    def _expect_whole(self, count: int) -> None:
        """Expect this many ready nodes, each with exactly one running machine."""
        nodes = self._nodes()
        ready = [node for node in nodes if node.state is NodeState.READY]
        self._stage.expect(f'{count} nodes are ready', len(ready), count)
        running = {one.id for one in self._machines() if one.state is State.ACTIVE}
        mine = {node.compute_id for node in nodes}
        self._stage.expect('each has one machine, and no other machine exists', running, mine)

    def _nodes(self, group: str | None = None) -> list[Node]:
        nodes = self._site.clusters.show('demo').nodes or ()
        return [node for node in nodes if group in (None, node.group)]

    def _ids(self) -> set[str]:
        return {node.id for node in self._nodes()}


class CloudPlay(Play):
    """The five acts on a simulated cloud."""

    page = PAGE

    def __init__(self, stage: Stage, site: Site, cloud: NoopCloud, config: Path) -> None:
        super().__init__(stage, site, config)
        self._cloud = cloud

    def run(self) -> None:
        self._create()
        self._remove_two()
        self._lose_a_zone()
        self._kill_the_engine()
        self._delete(5)

    def _create(self) -> None:
        self._stage.title('1. A file becomes a cluster')
        self._declare()
        self._expect_whole(12)
        places = [node.place for node in self._nodes('work')]
        flavors = collections.Counter(place.flavor for place in places)
        zones = collections.Counter(place.zone for place in places)
        self._stage.expect('four are small and two large', flavors, {'small': 4, 'large': 2})
        self._stage.expect('two are in each zone', zones, {'az1': 2, 'az2': 2, 'az3': 2})

    def _remove_two(self) -> None:
        from kiln.cluster_service.requests import Resize

        before = self._ids()
        victims = self._nodes('work')[2:4]
        self._stage.title(f'2. Remove {" and ".join(node.name for node in victims)}')
        self._do(Resize(cluster='demo', remove=tuple(node.id for node in victims)))
        gone = before - self._ids()
        self._stage.expect('just these two nodes were removed', gone, {one.id for one in victims})
        self._expect_whole(10)

    def _lose_a_zone(self) -> None:
        dead = [node for node in self._nodes() if node.place.zone == 'az2']
        others = self._ids() - {node.id for node in dead}
        self._stage.title(f'3. Zone az2 loses power, with {len(dead)} machines')
        for node in dead:
            self._cloud.crash(node.compute_id or '', 'The zone has no power.')
        self._repair(dead)
        after = self._ids()
        self._stage.expect('all lost nodes were replaced', after & {n.id for n in dead}, set())
        self._stage.expect('no other node was touched', others - after, set())
        self._expect_whole(10)

    def _kill_the_engine(self) -> None:
        self._stage.title('4. Grow by four, and kill -9 the engine halfway')
        after = self._site.clusters.last_event()
        command = [sys.executable, '-m', 'kiln.cli', '--config-file', str(self._config)]
        environment = {**os.environ, 'PYTHONPATH': os.pathsep.join(filter(None, sys.path))}
        with subprocess.Popen(  # noqa: S603  # this very program
            [*command, 'cluster', 'scale', 'demo', f'work={len(self._nodes("work")) + 4}'],
            stdout=subprocess.DEVNULL,
            env=environment,
        ) as engine:
            try:
                self._until_it_builds(engine)
            finally:
                engine.kill()
        half = sum(node.state is not NodeState.READY for node in self._nodes())
        self._stage.say(f'Process {engine.pid} is dead; {half} nodes are half built.')
        self._stage.say('Another engine takes over its work:')
        self._follow(self._newest(after))
        self._stage.expect('the engine was killed halfway', half > 0, True)
        self._expect_whole(14)

    def _until_it_builds(self, engine: subprocess.Popen[bytes]) -> None:
        give_up = self._stage.clock.monotonic() + _PATIENCE_S
        while engine.poll() is None and self._stage.clock.monotonic() < give_up:
            if any(node.state is NodeState.BOOTING for node in self._nodes()):
                return
            self._stage.clock.sleep(0.05)

    def _machines(self) -> list[Amphora]:
        return [one for one in self._cloud.instances() if one.state is not State.DELETED]
