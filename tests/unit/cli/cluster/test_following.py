"""Tests of following an operation that another process works on."""

import dataclasses
import unittest

from kiln.cli.cluster.following import Entered, Follower
from kiln.clusters.exceptions import ClusterNotFound
from kiln.clusters.models import Cause, Event, Operation, OperationKind, OperationState
from tests.unit.cluster_drivers.samples import cluster

HELD_UP = Cause(code='hook', message='It waits.', hint='')


class Ending:
    """Clusters whose operation ends between two polls, which no engine does on demand."""

    def __init__(self, ends_with):
        self._left = ends_with
        self.entered = Operation(
            id='o', cluster_id='c', kind=OperationKind.CREATE,
            state=OperationState.WAITING, cause=HELD_UP,
        )  # fmt: skip

    def _over(self):
        self._left -= 1
        return self._left < 0

    def operation(self, operation_id):
        if not self._over():
            return self.entered
        return dataclasses.replace(
            self.entered, state=OperationState.SUCCEEDED, cause=None, ended_at=1.0
        )

    def events(self, *, after, cluster_id):
        end = Event(
            cluster_id=cluster_id, kind='operation-ended', message='end', seq=1, operation_id='o'
        )
        return [end] if self._over() and after < 1 else []

    def show(self, cluster_id):
        raise ClusterNotFound('Cannot show c: it is gone.')


class Leaping:
    """A clock without real waits."""

    now = 0.0

    def monotonic(self):
        return self.now

    time = monotonic

    def sleep(self, seconds):
        self.now += seconds


class Shown:
    def __init__(self):
        self.looks = []

    def show(self, courses, events):
        states = {one.operation.state for one in courses}
        self.looks.append((states, [event.message for event in events]))


class Following(unittest.TestCase):
    def looks(self, ends_with):
        clusters, screen = Ending(ends_with), Shown()
        entered = Entered(cluster=cluster(), operation=clusters.entered)
        Follower(clusters, Leaping(), screen.show).follow([entered])
        return screen.looks

    def test_an_end_is_never_shown_before_its_cause(self):
        for ends_with in range(12):
            with self.subTest(ends_with):
                waiting = {OperationState.WAITING}
                early = [events for states, events in self.looks(ends_with) if states == waiting]
                self.assertFalse(any(early), early)

    def test_the_last_events_are_shown_once_whenever_the_operation_ends(self):
        for ends_with in range(12):
            with self.subTest(ends_with):
                said = [one for _, events in self.looks(ends_with) for one in events]
                self.assertEqual(['end'], said)
