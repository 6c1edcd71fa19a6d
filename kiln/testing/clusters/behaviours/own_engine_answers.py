"""Behaviours of what a driver returns from its own engine: prompt, plain, without secrets."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import json
import logging
from collections.abc import Sequence
from typing import Any

from kiln.clock import Deadline, deadline_scope
from kiln.cluster_drivers.calls import call_driver
from kiln.cluster_drivers.monitor import Gauge, Reading
from kiln.cluster_drivers.values import Cap, Progress
from kiln.cluster_service import requests
from kiln.cluster_service.verbs import run_verb
from kiln.clusters.exceptions import ClusterDriverDefect, ClusterDriverError
from kiln.clusters.models import Cluster
from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.exceptions import KilnError
from kiln.testing.clusters import samples
from kiln.testing.clusters.behaviours.own_engine import OwnEngine
from kiln.testing.clusters.simulation.own_engine_calls import Waited, promptly
from kiln.testing.clusters.simulation.own_engine_process import call_in_process


class EngineAnswers(OwnEngine):
    """Answers of its engine."""

    # ---- time ------------------------------------------------------------------------------

    def test_no_call_waits_for_the_engine(self) -> None:
        with contextlib.suppress(ClusterDriverError, AssertionError, Waited):
            self._whole_life()
        waited = [str(one.error) for one in self.played.calls if isinstance(one.error, Waited)]
        self.none_of(waited, 'A call starts something and returns; kiln polls.')

    def test_no_call_waits_for_an_engine_that_is_away(self) -> None:
        there = self.created()
        self.bench.go_away()
        for method in ('update_cluster_status', 'update_cluster', 'delete_cluster'):
            with contextlib.suppress(ClusterDriverError):
                self.call(self.played.open(), method, there)
        self.no_defect()

    def _whole_life(self) -> Cluster:
        """Call every method that all drivers have; return the cluster before its deletion."""
        driver = self.played.open()
        there = self.stood(driver, 'kit-one')
        there = self.settled(driver, self.call(driver, 'update_cluster', there))
        self.settled(driver, self.call(driver, 'delete_cluster', there))
        return there

    # ---- plain data --------------------------------------------------------------------------

    def test_each_report_is_of_the_contract(self) -> None:
        with contextlib.suppress(AssertionError, ClusterDriverError):
            self._whole_life()
        self.no_defect()

    def test_the_engine_reports_its_progress(self) -> None:
        there = self.created()
        self.call(self.played.open(), 'update_cluster_status', there)
        self.assertIs(
            Progress.COMPLETE, self.played.calls[-1].progress,
            'A driver with an engine of its own reports the progress: kiln cannot see it.',
        )  # fmt: skip

    def test_what_has_happened_is_reported_once(self) -> None:
        there = self.created()
        for _ in range(2):
            self.call(self.played.open(), 'update_cluster_status', there)
            events = getattr(self.played.calls[-1].report, 'events', ())
            self.none_of(events, 'Nothing has happened since the last report, and events are new.')

    def test_its_verbs_run_and_return_plain_data(self) -> None:
        if not self.driver_class.verbs:
            self.not_for_this_driver('the driver has no verbs')
        there = self.created()
        refused = [self._refused_twice(verb, there) for verb in self.driver_class.verbs]
        if all(refused):
            raise CannotBeShown(f'each verb refuses the values of the kit: {refused[0]}')

    def _refused_twice(self, verb: str, there: Cluster) -> str:
        """Run a verb twice; return why the driver refuses to."""
        try:
            for _ in range(2):
                self._verb(verb, there)
        except ClusterDriverDefect as exc:
            self.fail(str(exc))
        except KilnError as exc:
            return str(exc)
        return ''

    def _verb(self, verb: str, there: Cluster) -> Any:
        given = {
            one.name: samples.value(one)
            for one in self.driver_class.verbs[verb].parameters
            if one.required
        }
        call = functools.partial(run_verb, self.played.open(), verb, self.context(), there, given)
        return promptly(call, self.soon_s, f'verb {verb}')

    def test_its_metrics_are_measured(self) -> None:
        if Cap.MONITOR not in self.driver_class.capabilities:
            self.not_for_this_driver('the driver has no monitor')
        found = self._measured(self.created())
        unknown = [f'{one.metric.name}: {one.reason}' for one in found if one.value is None]
        self.none_of(unknown, 'A settled cluster is not measured.')

    def test_its_metrics_are_those_of_now(self) -> None:
        if Cap.MONITOR not in self.driver_class.capabilities:
            self.not_for_this_driver('the driver has no monitor')
        there = self.created()
        before = [one.value for one in self._measured(there)]
        self.bench.lose(there)
        now = [one.value for one in self._measured(there)]
        self.assertNotEqual(before, now, 'A cluster that is gone is measured as if it stood.')

    def _measured(self, there: Cluster) -> Sequence[Reading]:
        driver, context = self.played.open(), self.context()
        get = functools.partial(driver.get_monitor, context=context, cluster=there)
        monitor = call_driver(driver.name, 'get_monitor', get)
        self.assertIsNotNone(monitor, 'A driver without a monitor does not override get_monitor.')
        assert monitor is not None
        with deadline_scope(Deadline.after(self.look_s)):
            return Gauge(monitor, timeout_s=self.look_s).read()

    # ---- secrets -----------------------------------------------------------------------------

    def test_no_secret_is_reported_logged_or_stored(self) -> None:
        heard = io.StringIO()
        last_event = self.store.events.last_seq()
        handler = logging.StreamHandler(heard)
        logging.getLogger().addHandler(handler)
        self.addCleanup(logging.getLogger().removeHandler, handler)
        told = [*self._everything(), *self._told(last_event), *heard.getvalue().splitlines()]
        self.none_of([one for one in told if samples.SECRET in one], 'A secret is told.')
        stored = [
            file.name
            for file in self.stored_in.glob('kiln.db*')
            if samples.SECRET.encode() in file.read_bytes()
        ]
        self.none_of(stored, 'A secret is stored.')

    def _everything(self) -> list[str]:
        """Have the driver report in good times and in bad ones; return what verbs answer."""
        answers = []
        there = self.created()
        for verb in self.driver_class.verbs:
            with contextlib.suppress(KilnError):
                answers.append(repr(self._verb(verb, there)))
        with contextlib.suppress(CannotBeShown):
            self.bench.go_away()
            for method in ('update_cluster_status', 'update_cluster', 'delete_cluster'):
                with contextlib.suppress(KilnError):
                    self.call(self.played.open(), method, there)
            self.bench.come_back()
        with contextlib.suppress(CannotBeShown):
            self.bench.fail('no room for the kit')
            self.played.run(self.played.ask(self.declare(self.other_spec())))
        self.done(requests.Delete(cluster=there.name))
        return answers

    def _told(self, last_event: int) -> list[str]:
        events = self.store.events.after(last_event)
        return [
            *(repr(one.report) for one in self.played.calls),
            *(str(one.error) for one in self.played.calls if one.error is not None),
            *(repr(event) for event in events),
        ]

    def test_without_credentials_a_creation_works_or_is_refused(self) -> None:
        driver, cluster = self.played.open(), self.record(self.spec(), 'kit-none')
        anonymous = dataclasses.replace(self.context(), credentials=None)
        create = functools.partial(
            driver.create_cluster, context=anonymous, cluster=cluster,
            cluster_create_timeout=self.bench.takes_s,
        )  # fmt: skip
        with contextlib.suppress(ClusterDriverError):
            call_driver(driver.name, 'create_cluster', create)
        self.no_defect()

    # ---- outputs -----------------------------------------------------------------------------

    def test_outputs_are_reported_with_the_end_of_an_operation(self) -> None:
        there = self.created()
        self.call(self.played.open(), 'update_cluster_status', there)
        later = getattr(self.played.calls[-1].report, 'outputs', None)
        if later is None:
            self.not_for_this_driver('the driver reports no outputs')
        self.assertEqual(set(later), set(there.outputs), 'Outputs are known too late to show.')

    def test_outputs_are_those_that_the_bench_expects(self) -> None:
        there = self.created()
        expected = self.bench.outputs(there)
        if expected is None:
            self.not_for_this_driver('its bench expects no certain outputs')
        self.assertEqual(expected, dict(there.outputs))

    def test_outputs_are_the_same_from_every_process(self) -> None:
        there = self.created()
        self.call(self.played.open(), 'update_cluster_status', there)
        here = getattr(self.played.calls[-1].report, 'outputs', None)
        if not here:
            self.not_for_this_driver('the driver reports no outputs')
        if not self.bench.outlives_process:
            raise CannotBeShown('the engine of the bench lives in this process alone')
        _, found = call_in_process(self.driver, self.bench, there, 'update_cluster_status')
        # As JSON has them.
        self.assertEqual(
            json.loads(json.dumps(dict(here))), found,
            'Nothing has happened, and other outputs are reported: they are stored and shown.',
        )  # fmt: skip
