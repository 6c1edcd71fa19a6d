"""Behaviours of reports: they are true of the engine, whatever has become of it."""

from __future__ import annotations

import dataclasses

from kiln.cluster_drivers.values import Cap, Progress
from kiln.cluster_service import requests
from kiln.clusters.exceptions import ClusterDriverError
from kiln.clusters.models import Cluster, Operation, OperationState
from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.testing.clusters.behaviours.own_engine import OwnEngine
from kiln.testing.clusters.behaviours.own_engine_played import POLL_S

_WHY = 'the kit has no room'
#: Seconds for which the engine is away: many polls, and pauses that grow.
_AWAY_S = 100.0


class EngineTruth(OwnEngine):
    """Truth of reports."""

    # ---- complete is complete ----------------------------------------------------------------

    def test_a_creation_is_complete_once_everything_stands(self) -> None:
        with self.creating():
            asked = self.create(self.played.open(), self.record(self.spec(), 'kit-one'))
        self._watched(asked, asked)

    def test_an_update_is_complete_once_everything_stands(self) -> None:
        driver = self.played.open()
        there = self.stood(driver, 'kit-one')
        spec = self.grown(self.other_spec(), self.largest(there.spec), 1)
        asked = dataclasses.replace(there, spec=spec, generation=2)
        self._watched(self.call(driver, 'update_cluster', asked), asked)

    def test_a_resize_is_complete_once_everything_stands(self) -> None:
        self.has(Cap.RESIZE)
        driver = self.played.open()
        there = self.stood(driver, 'kit-one')
        spec = self.grown(there.spec, self.largest(there.spec), 1)
        asked = dataclasses.replace(there, spec=spec, generation=2)
        group = self.largest(spec)
        more = {'nodegroup': group, 'node_count': group.shape.count}
        self._watched(self.call(driver, 'resize_cluster', asked, **more), asked)

    def test_a_deletion_is_complete_once_nothing_stands(self) -> None:
        before = set(self.bench.resources())
        driver = self.played.open()
        there = self.stood(driver, 'kit-one')
        going = self.call(driver, 'delete_cluster', there)
        if set(self.bench.resources()) <= before:
            self._instant()
        self.settled(driver, going)
        left = set(self.bench.resources()) - before
        self.none_of(left, 'The deletion is reported as complete, and this is left.')

    def _watched(self, found: Cluster, asked: Cluster) -> None:
        """Poll a change of a cluster to its end, at which everything must stand."""
        if not self.wrongs(dataclasses.replace(found, spec=asked.spec)):
            self._instant()
        found = self.settled(self.played.open(), found)
        last = self.played.calls[-1].method
        wrong = self.wrongs(dataclasses.replace(found, spec=asked.spec))
        self.none_of(wrong, f'{last} reports COMPLETE while the engine is at work.')

    def _instant(self) -> None:
        raise CannotBeShown(
            'the engine is done at once; let the bench have it work until pass_time()'
        )

    # ---- failed is failed --------------------------------------------------------------------

    def test_a_creation_that_fails_is_reported_with_its_reason(self) -> None:
        self.bench.fail(_WHY)
        self._failed(self.declare(self.spec()))

    def test_an_update_that_fails_is_reported_with_its_reason(self) -> None:
        self.created()
        self.bench.fail(_WHY)
        with self.unless_refused():
            self._failed(self.declare(self.other_spec()))

    def test_a_deletion_that_fails_is_reported_with_its_reason(self) -> None:
        there = self.created()
        self.bench.fail(_WHY)
        self._failed(requests.Delete(cluster=there.name))

    def _failed(self, request: requests.Request) -> None:
        ended = self.played.run(self.played.ask(request))
        self.no_defect()
        self.assertIs(
            OperationState.FAILED, ended.state,
            f'The engine has failed to {ended.kind.value}: report FAILED.',
        )  # fmt: skip
        said = ended.cause.message if ended.cause else ''
        self.assertIn(_WHY, said, "The reason of a report should have the engine's own words.")

    # ---- away is not failed ------------------------------------------------------------------

    def test_a_creation_outlasts_an_engine_that_is_away(self) -> None:
        self._outlasts(self.played.ask(self.declare(self.spec())))

    def test_an_update_outlasts_an_engine_that_is_away(self) -> None:
        self.created()
        with self.unless_refused():
            self._outlasts(self.played.ask(self.declare(self.other_spec())))

    def test_a_deletion_outlasts_an_engine_that_is_away(self) -> None:
        there = self.created()
        self._outlasts(self.played.ask(requests.Delete(cluster=there.name)))

    def _outlasts(self, operation: Operation) -> None:
        """Take the engine away once it has got a request."""
        if self.played.run(operation, for_s=0.0).state.ended:
            self._instant()
        self.bench.go_away()
        self._while_away(operation)

    def test_an_operation_waits_for_an_engine_that_is_away(self) -> None:
        self.bench.go_away()
        self._while_away(self.played.ask(self.declare(self.spec())))

    def test_a_deletion_waits_for_an_engine_that_is_away(self) -> None:
        there = self.created()
        self.bench.go_away()
        self._while_away(self.played.ask(requests.Delete(cluster=there.name)))

    def _while_away(self, operation: Operation) -> None:
        """Fail unless an operation waits for the engine, and goes on once it is back."""
        found = self.played.run(operation, for_s=_AWAY_S)
        self.no_defect()
        cause = f': {found.cause.message}' if found.cause else ''
        self.assertFalse(
            found.state.ended,
            f'The engine is away, and "{operation.kind.value}" is {found.state.value}{cause}. '
            f'Report UNKNOWN, or raise a ClusterDriverError with retryable=True.',
        )
        self.bench.come_back()
        ended = self.played.run(operation)
        self.assertEqual(
            'succeeded', ended.state.value,
            f'The engine is back, and "{operation.kind.value}" does not succeed: {ended.cause}',
        )  # fmt: skip

    def test_a_check_of_a_cluster_whose_engine_is_away_does_not_succeed(self) -> None:
        there = self.created()
        self.bench.go_away()
        found = self.played.run(self.played.ask(requests.Check(cluster=there.name)))
        self.no_defect()
        self.assertIsNot(OperationState.SUCCEEDED, found.state)
        self._not_reported(there, Progress.COMPLETE, Progress.FAILED)

    # ---- gone is gone ------------------------------------------------------------------------

    def test_a_cluster_that_its_engine_has_lost_is_not_complete(self) -> None:
        there = self.created()
        self.bench.lose(there)
        found = self.played.run(self.played.ask(requests.Check(cluster=there.name)))
        self.assertIsNot(
            OperationState.SUCCEEDED, found.state,
            'The engine has lost the cluster: report FAILED, unless it was to be deleted.',
        )  # fmt: skip
        # An operation would wait for an engine that is away, and not for one that answers.
        self._not_reported(self.stored(), Progress.UNKNOWN)

    def test_a_report_of_trouble_has_a_reason(self) -> None:
        there = self.created()
        self.bench.go_away()
        self._has_reason(there)
        self.bench.come_back()
        self.bench.lose(there)
        self._has_reason(there)

    def _has_reason(self, cluster: Cluster) -> None:
        try:
            self.call(self.played.open(), 'update_cluster_status', cluster)
        except ClusterDriverError:
            return  # it has a reason
        last = self.played.calls[-1]
        if last.progress in (Progress.FAILED, Progress.UNKNOWN):
            self.assertTrue(last.report.reason.strip(), f'{last.progress} has no reason.')

    def test_a_cluster_that_never_was_is_not_complete(self) -> None:
        self._not_reported(self.record(self.spec(), 'kit-none'), Progress.COMPLETE)

    def test_a_cluster_that_is_gone_is_complete_only_as_the_end_of_its_deletion(self) -> None:
        there = self.created()
        self.done(requests.Delete(cluster=there.name))
        # As it was stored before the deletion: to anyone else it is lost.
        self._not_reported(there, Progress.COMPLETE)

    def test_a_deletion_that_was_cancelled_is_forgotten(self) -> None:
        there = self.created()
        deletion = self.played.ask(requests.Delete(cluster=there.name))
        if self.played.run(deletion, for_s=0.0).state.ended:
            self._instant()
        self.store.operations.cancel(deletion.id)
        self.played.run(deletion)
        with self.unless_refused():
            self.done(self.declare(self.grown(there.spec, self.largest(there.spec), 1)))
        self.bench.lose(self.stored())
        self._not_reported(self.stored(), Progress.COMPLETE)

    def _not_reported(self, cluster: Cluster, *wrong: Progress) -> None:
        try:
            self.call(self.played.open(), 'update_cluster_status', cluster)
        except ClusterDriverError:
            self.no_defect()
            return
        progress = self.played.calls[-1].progress
        self.assertNotIn(progress, wrong, 'update_cluster_status reports what is not true.')

    def test_a_report_in_progress_does_not_outlast_the_engine(self) -> None:
        there = self.created()
        self.played.pass_time(POLL_S)
        self.call(self.played.open(), 'update_cluster_status', there)
        self.assertIsNot(
            Progress.IN_PROGRESS, self.played.calls[-1].progress,
            'A settled cluster is reported as IN_PROGRESS.',
        )  # fmt: skip
