"""kill -9 at any commit leads to the same end, whatever the cloud does meanwhile."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

from kiln.cluster_models import OperationKind, OperationState
from kiln.testing.clusters import operations
from kiln.testing.clusters.course import Ending
from kiln.testing.clusters.fixture import ClusterFixture
from kiln.testing.clusters.mortal import AFTER, BEFORE, Fate
from kiln.testing.clusters.nursery import Nursery
from kiln.testing.clusters.operations import LIFE, Row
from kiln.testing.clusters.trials import Trials

#: Beyond the number of commits of any operation here.
_MANY = 80
#: Of the commits of an operation of two nodes, as many as matter for random kills.
_LIKELY = 12
#: For each trouble of a cloud, how often there is none while processes die at random.
_CALM = 2

#: What a cloud may do to the first process that works on an operation.
TROUBLES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        'answers are lost': ('build:lose_answer:times=2', 'delete:lose_answer:times=2'),
        'requests arrive late': ('build:late=0.05:times=2', 'delete:late=0.05:times=2'),
        'the cloud is away for a while': ('*:refuse:times=8',),
        'a cell is down': ('get:refuse:times=4', 'status:refuse:times=4',
                           'statuses:refuse:times=4'),
        'answers hang': ('build:hang=0.3:times=2', 'delete:hang=0.3:times=2'),
    }
)  # fmt: skip


class CrashFixture(ClusterFixture):
    """A cluster, and processes that may be struck while they work on it."""

    #: How many nodes a cluster begins with.
    count: int = 2

    _nursery: ClassVar[Nursery | None] = None

    def setUp(self) -> None:
        """Make a place for clusters, and have the nursery of the class ready."""
        super().setUp()
        of = type(self)
        course = self.course(self.new_folder(), self.count)
        if of._nursery is None:
            of._nursery = Nursery(self.driver)
            of.addClassCleanup(of._close)
        self.trials = Trials(course, of._nursery)

    def _check_right(self, ending: Ending) -> None:
        self.assertEqual((OperationState.SUCCEEDED.value, ''), (ending.operation, ending.cause))
        self.assertEqual((), ending.wrongs)

    @classmethod
    def _close(cls) -> None:
        nursery, cls._nursery = cls._nursery, None
        if nursery is not None:
            nursery.close()


class AtCommits(CrashFixture):
    """Crashes at commits."""

    #: Operations that are killed at each of their commits; the others at some.
    exhaustive: frozenset[OperationKind] = frozenset(OperationKind)
    #: Of how many commits of the others one is a moment to die.
    stride: int = 4

    # ---- at every commit ---------------------------------------------------------

    def test_a_creation_killed_at_any_commit_ends_as_if_it_had_not_been(self) -> None:
        self._killed_everywhere([operations.CREATE])

    def test_a_resize_killed_at_any_commit_ends_as_if_it_had_not_been(self) -> None:
        self._killed_everywhere([operations.CREATE, operations.RESIZE])

    def test_an_upgrade_killed_at_any_commit_ends_as_if_it_had_not_been(self) -> None:
        self._killed_everywhere([operations.CREATE, operations.UPGRADE])

    def test_a_replacement_killed_at_any_commit_ends_as_if_it_had_not_been(self) -> None:
        self._killed_everywhere([operations.CREATE, operations.REPLACE])

    def test_a_reboot_killed_at_any_commit_ends_as_if_it_had_not_been(self) -> None:
        self._killed_everywhere([operations.CREATE, operations.REBOOT])

    def test_a_rebuild_killed_at_any_commit_ends_as_if_it_had_not_been(self) -> None:
        self._killed_everywhere([operations.CREATE, operations.REBUILD])

    def test_a_deletion_killed_at_any_commit_ends_as_if_it_had_not_been(self) -> None:
        self._killed_everywhere([operations.CREATE, operations.DELETE])

    def _killed_everywhere(self, rows: Sequence[Row]) -> None:
        self._right(rows)
        stride = 1 if rows[-1].kind in self.exhaustive else self.stride
        for where in (BEFORE, AFTER):
            struck = 0
            for number in range(1, _MANY, stride):
                fate = Fate(where=where, number=number)
                if not self._same(rows, fate):
                    break
                struck += 1
            else:
                self.fail(f'To {rows[-1].title} takes more than {_MANY} commits.')
            self.assertGreater(struck, 0, f'Nobody died {where} a commit.')

    # ---- under trouble -----------------------------------------------------------

    def test_who_wakes_up_after_another_has_taken_over_changes_nothing(self) -> None:
        for rows in ([operations.CREATE], [operations.CREATE, operations.REPLACE]):
            for number in range(1, _MANY, self.stride):
                if not self._same(rows, Fate(number=number, by=signal.SIGSTOP)):
                    break

    def test_whatever_the_cloud_does_meanwhile_the_end_is_the_same(self) -> None:
        for title, faults in TROUBLES.items():
            for rows in ([operations.CREATE], [operations.CREATE, operations.DELETE]):
                with self.subTest(title):
                    self._same(rows, Fate(number=4, faults=faults), Fate(faults=faults))

    # ---- what is checked ---------------------------------------------------------

    def _right(self, rows: Sequence[Row]) -> None:
        """Check that the operation ends right where nobody dies."""
        self.needs(*rows)
        self._check_right(self.trials.undisturbed(rows))

    def _same(self, rows: Sequence[Row], *fates: Fate) -> int:
        """Check that the operation ends as it would undisturbed; return how many died."""
        told = f'{rows[-1].title}: {"; ".join(map(str, fates))}'
        trial = self.trials.disturbed(rows, *fates)
        # In words first; the rest of what differs follows from it.
        self.assertEqual((), trial.ending.wrongs, told)
        self.assertEqual(self.trials.undisturbed(rows), trial.ending, told)
        return trial.struck


class AtRandom(CrashFixture):
    """Crashes at random."""

    #: How many processes die at moments of a seed's choice.
    crashes: int = int(os.environ.get('KILN_CRASHES', '6'))
    seed: int = int(os.environ.get('KILN_CRASH_SEED', '11'))
    #: The operations of a life, and what the cloud may do meanwhile.
    life: tuple[Row, ...] = LIFE
    troubles: Mapping[str, tuple[str, ...]] = TROUBLES

    def test_however_often_it_is_killed_it_ends_right(self) -> None:
        dice = random.Random(self.seed)  # noqa: S311  # a test's
        folder = self.trials.new()
        rows = [row for row in self.life if row.cap in (None, *self.driver_class.capabilities)]
        expected = [self.trials.go_on(folder, row).ending for row in rows]
        for ending in expected:
            self._check_right(ending)
        killed = lives = 0
        while killed < self.crashes:
            lives += 1
            killed += self._random_life(dice, lives, list(zip(rows, expected, strict=True)))

    def _random_life(
        self, dice: random.Random, life: int, expected: Sequence[tuple[Row, Ending]]
    ) -> int:
        killed, folder = 0, self.trials.new()
        calm = ((),) * (1 + _CALM * len(self.troubles))
        for row, undisturbed in expected:
            fates = [
                Fate(where=dice.choice((BEFORE, AFTER)), number=dice.randint(1, _LIKELY),
                     faults=dice.choice(calm + tuple(self.troubles.values())))
                for _ in range(dice.randint(0, 3))
            ]  # fmt: skip
            told = f'seed {self.seed}, life {life}: {row.title} ({"; ".join(map(str, fates))})'
            trial = self.trials.go_on(folder, row, fates)
            self.assertEqual(undisturbed, trial.ending, told)
            killed += trial.struck
        return killed


class CrashConformance(AtCommits, AtRandom):
    """kill -9 leads to the same end as if it had not been; see the package."""
