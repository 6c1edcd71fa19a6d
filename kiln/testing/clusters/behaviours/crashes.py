"""Crash conformance: kill -9 at any commit leads to the same end."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import random
import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from types import MappingProxyType
from typing import ClassVar

from kiln.clusters.models import OperationKind
from kiln.testing.clusters.behaviours.journeys import JourneyFixture
from kiln.testing.clusters.crash_runs.crashing_worker import CrashPoint, Moment
from kiln.testing.clusters.crash_runs.fork_server import ForkLines, ForkServer
from kiln.testing.clusters.crash_runs.trials import Trials
from kiln.testing.clusters.fixture import ClusterFixture
from kiln.testing.clusters.simulation import operations
from kiln.testing.clusters.simulation.course import Ending
from kiln.testing.clusters.simulation.operations import LIFE, Row

#: Random kills hit one of the first commits: as many as an operation on two nodes has.
_LIKELY = 12
#: Number of random choices without faults, for each kind of cloud trouble.
_CALM = 2
#: With both, a process is killed in each state that another can find: what is recorded, and
#: what the backend has done beyond that.
_MOMENTS = (Moment.AFTER_COMMIT, Moment.AFTER_CALL)
#: Crash runs under way at once: most of their time they wait for a lease.
_AT_ONCE = 4

#: Faults of the cloud that the first process of an operation meets.
TROUBLES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        'answers are lost': ('build:lose_answer:times=2', 'delete:lose_answer:times=2'),
        'requests arrive late': ('build:late=0.05:times=2', 'delete:late=0.05:times=2'),
        'the cloud is away for a while': ('*:refuse:times=8',),
        'a cell is down': (
            'get:refuse:times=4',
            'status:refuse:times=4',
            'statuses:refuse:times=4',
        ),
        'answers hang': ('build:hang=0.3:times=2', 'delete:hang=0.3:times=2'),
    }
)


class CrashFixture(JourneyFixture):
    """A cluster, and processes that can crash while they work on it."""

    #: Initial number of nodes of a cluster.
    count: int = 2

    #: Starts the processes; None before the first behaviour of a class that has its own.
    fork_lines: ClassVar[ForkLines | None] = None

    def setUp(self) -> None:
        """Create a folder for clusters, and start the fork server of the class."""
        super().setUp()
        self.expect_a_cluster(first='creation' in self._testMethodName, creation_only=True)
        of = type(self)
        course = self.course(self.new_folder(), self.count)
        if of.fork_lines is None:
            of.fork_lines = of.enterClassContext(ForkServer(self.driver))
            of.addClassCleanup(setattr, of, 'fork_lines', None)
        self.trials = Trials(course, of.fork_lines)

    @property
    def at_once(self) -> int:
        """Return how many clusters can be worked on at the same time."""
        # Another backend can be shared by all folders.
        return _AT_ONCE if type(self).site is ClusterFixture.site else 1


class AtCommits(CrashFixture):
    """Crashes at commits."""

    #: Operations that are killed at each of their commits and calls.
    exhaustive: frozenset[OperationKind] = frozenset(OperationKind)
    #: The number of commits, and of calls, at which any other operation is killed.
    kills: int = 3

    # ---- at every commit ---------------------------------------------------------

    def test_a_creation_killed_at_any_commit_ends_as_if_undisturbed(self) -> None:
        self._killed_everywhere([operations.CREATE])

    def test_a_resize_killed_at_any_commit_ends_as_if_undisturbed(self) -> None:
        self._killed_everywhere([operations.CREATE, operations.RESIZE])

    def test_an_upgrade_killed_at_any_commit_ends_as_if_undisturbed(self) -> None:
        self._killed_everywhere([operations.CREATE, operations.UPGRADE])

    def test_a_replacement_killed_at_any_commit_ends_as_if_undisturbed(self) -> None:
        self._killed_everywhere([operations.CREATE, operations.REPLACE])

    def test_a_reboot_killed_at_any_commit_ends_as_if_undisturbed(self) -> None:
        self._killed_everywhere([operations.CREATE, operations.REBOOT])

    def test_a_rebuild_killed_at_any_commit_ends_as_if_undisturbed(self) -> None:
        self._killed_everywhere([operations.CREATE, operations.REBUILD])

    def test_a_deletion_killed_at_any_commit_ends_as_if_undisturbed(self) -> None:
        self._killed_everywhere([operations.CREATE, operations.DELETE])

    def _killed_everywhere(self, rows: Sequence[Row]) -> None:
        self.needs(*rows)
        self.assert_right(self.trials.undisturbed(rows), rows[-1].title)
        most = None if rows[-1].kind in self.exhaustive else self.kills
        points = [
            CrashPoint(moment=moment, number=number)
            for moment in _MOMENTS
            for number in self.trials.numbers(rows, moment, most)
        ]
        endings = self._same((rows, [point]) for point in points)
        crashed = {point.moment for point, end in zip(points, endings, strict=True) if end.crashed}
        for moment in _MOMENTS:
            self.assertIn(moment, crashed, f'No process was killed {moment} 1.')

    # ---- under trouble -----------------------------------------------------------

    def test_a_worker_that_wakes_up_after_a_takeover_changes_nothing(self) -> None:
        endings = self._same(
            (rows, [CrashPoint(number=number, by=signal.SIGSTOP)])
            for rows in ([operations.CREATE], [operations.CREATE, operations.REPLACE])
            for number in self.trials.numbers(rows, Moment.AFTER_COMMIT, self.kills)
        )
        self.assertTrue(any(ending.crashed for ending in endings), 'No process was stopped.')

    def test_faults_of_the_cloud_during_a_crash_do_not_change_the_end(self) -> None:
        endings = self._same(
            (rows, [CrashPoint(number=4, faults=faults), CrashPoint(faults=faults)])
            for rows in ([operations.CREATE], [operations.CREATE, operations.DELETE])
            for faults in TROUBLES.values()
        )
        self.assertTrue(any(ending.crashed for ending in endings), 'No process was killed.')

    # ---- what is checked ---------------------------------------------------------

    def _same(
        self, trials: Iterable[tuple[Sequence[Row], Sequence[CrashPoint]]]
    ) -> Sequence[Ending]:
        """Check that operations with crash points end as they do without; return the ends."""
        runs, endings = list(trials), []
        # The operations before one are run once, and their end is copied.
        expected = [self.trials.undisturbed(rows) for rows, _ in runs]
        with concurrent.futures.ThreadPoolExecutor(self.at_once) as pool:
            ends = pool.map(lambda run: self.trials.disturbed(run[0], *run[1]), runs)
            for (rows, points), undisturbed, ending in zip(runs, expected, ends, strict=True):
                label = f'{rows[-1].title}: {"; ".join(map(str, points))}'
                # Checked first, as its words explain all other differences.
                self.assertEqual((), ending.wrongs, label)
                self.assertEqual(undisturbed, ending, label)
                endings.append(ending)
        return endings


class AtRandom(CrashFixture):
    """Crashes at random."""

    #: Number of processes that crash at random points, drawn from the seed.
    crashes: int = int(os.environ.get('KILN_CRASHES', '6'))
    seed: int = int(os.environ.get('KILN_CRASH_SEED', '11'))
    #: The operations of the life of a cluster, and the faults that the cloud can have.
    life: tuple[Row, ...] = LIFE
    troubles: Mapping[str, tuple[str, ...]] = TROUBLES

    def test_random_kills_do_not_change_the_end(self) -> None:
        dice = random.Random(self.seed)  # noqa: S311  # for tests only
        rows = [row for row in self.life if row.cap in (None, *self.driver_class.capabilities)]
        killed = lives = 0
        with self._undisturbed(rows) as expected:
            while killed < self.crashes:
                lives += 1
                killed += self._random_life(dice, lives, expected)

    @contextlib.contextmanager
    def _undisturbed(self, rows: Sequence[Row]) -> Iterator[Sequence[tuple[Row, Future[Ending]]]]:
        """Run a life in which nothing is killed beside what the block does, and judge it."""
        folder = self.trials.new()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            expected = [(row, pool.submit(self.trials.go_on, folder, row)) for row in rows]
            if self.at_once == 1:
                concurrent.futures.wait(end for _, end in expected)
            try:
                yield expected
            finally:
                # A failure of its own explains all differences.
                for row, end in expected:
                    self.assert_right(end.result(), row.title)

    def _random_life(
        self, dice: random.Random, life: int, expected: Sequence[tuple[Row, Future[Ending]]]
    ) -> int:
        killed, folder = 0, self.trials.new()
        calm = ((),) * (1 + _CALM * len(self.troubles))
        for row, undisturbed in expected:
            points = [
                CrashPoint(
                    moment=dice.choice(list(Moment)),
                    number=dice.randint(1, _LIKELY),
                    faults=dice.choice(calm + tuple(self.troubles.values())),
                )
                for _ in range(dice.randint(0, 3))
            ]
            label = f'seed {self.seed}, life {life}: {row.title} ({"; ".join(map(str, points))})'
            ending = self.trials.go_on(folder, row, points)
            self.assertEqual(undisturbed.result(), ending, label)
            killed += ending.crashed
        return killed


class CrashConformance(AtCommits, AtRandom):
    """kill -9 at any commit leads to the same end as no kill; see the package."""
