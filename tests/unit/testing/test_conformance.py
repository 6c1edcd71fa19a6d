"""The kit as a program: what it selects, reports, and leaves behind."""

import json
import logging
import unittest
from types import MappingProxyType

from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.exceptions import DeleteFailed, InvalidBuildRequest, ServiceUnavailable
from kiln.models import AmphoraType, Changes, Limits, State
from kiln.testing.clock import VirtualClock
from kiln.testing.conformance import (
    BehaviourOutcome,
    BehaviourResult,
    Bench,
    CannotBeShown,
    ComputeDriverConformance,
    ConformanceReport,
    FaultConformance,
    Faults,
    run_conformance,
)
from kiln.testing.faulty import FailingDriver
from kiln.testing.minimal import MinimalDriver
from kiln.testing.runner import Interrupted
from kiln.wrappers.base import DriverWrapper


class LiveBackend:
    """One backend that outlives the drivers that are made for it."""

    def __init__(self, driver_class=MinimalDriver):
        self.driver = driver_class()
        self.driver.clock = VirtualClock()
        self.made = 0

    def make_driver(self):
        self.made += 1
        return self.driver

    def names(self):
        owners = {amphora.owner for amphora in self.driver._amphorae.values()}
        listed = [one for owner in owners for one in self.driver.list_amphorae(owner=owner)]
        return [amphora.name for amphora in listed]


class Broken(MinimalDriver):
    def _get(self, amphora_id):
        raise ServiceUnavailable('Cannot get anything.')


class Undeletable(MinimalDriver):
    def _delete(self, amphora_id):
        raise DeleteFailed(f'Cannot delete {amphora_id}.')


class Unlistable(MinimalDriver):
    def _list(self, owner):
        raise ServiceUnavailable('Cannot list anything.')


class Narrow(MinimalDriver):
    """Builds containers without files, and knows nothing of most options."""

    limits = Limits(
        amphora_types=frozenset({AmphoraType.CONTAINER}),
        max_name_length=40,
        max_files=2,
        max_file_bytes=512,
        max_user_data_bytes=100,
        max_metadata_items=4,
        refused_options=frozenset(
            {'metadata', 'config_drive_files', 'server_group_id', 'image_id', 'keys'}
        ),
    )


class QuietTestCase(unittest.TestCase):
    def setUp(self):
        super().setUp()
        logging.disable(logging.WARNING)
        self.addCleanup(logging.disable, logging.NOTSET)


class ReportTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        logging.disable(logging.WARNING)
        cls.addClassCleanup(logging.disable, logging.NOTSET)
        cls.report = run_conformance(LiveBackend(Broken).make_driver, timeout_s=1)

    def test_it_knows_every_behaviour_by_name_sentence_and_subject(self):
        shown = {one.name: one for one in self.report.results}
        result = shown['test_deleting_an_unknown_instance_is_a_success']
        self.assertEqual(result.sentence, 'deleting an unknown instance is a success')
        self.assertEqual(result.subject, 'Deleting')
        self.assertIs(result.outcome, BehaviourOutcome.PASSED)
        self.assertGreaterEqual(len(shown), 80)
        self.assertEqual(len(shown), len(self.report.results))

    def test_a_failure_comes_with_its_reason(self):
        shown = {one.name: one for one in self.report.results}
        result = shown['test_an_instance_is_found_by_its_id']
        self.assertIs(result.outcome, BehaviourOutcome.FAILED)
        self.assertIn('Cannot get anything', result.reason)

    def test_what_cannot_be_shown_is_neither_passed_nor_failed(self):
        subjects = ('Faults', 'Claims under faults', 'Outages', 'Translation')
        faults = {one.name for one in self.report.results if one.subject in subjects}
        self.assertEqual(self.report.of(BehaviourOutcome.NOT_SHOWN), faults)

    def test_it_is_plain_data_on_request(self):
        data = self.report.to_dict()
        self.assertEqual(json.loads(json.dumps(data)), data)
        self.assertFalse(data['ok'])
        self.assertEqual(data['passed'] + data['failed'] + data['not_shown'], len(data['results']))

    def test_it_is_text_by_subject_on_request(self):
        text = self.report.render()
        self.assertIn('\nDeleting\n', text)
        self.assertIn('  FAIL  an instance is found by its id\n', text)
        self.assertIn('Cannot be shown here: the bench offers no faults.', text)
        self.assertIn(f'{len(self.report.of(BehaviourOutcome.FAILED))} failed', text)

    def test_it_says_what_the_whole_run_took(self):
        one = BehaviourResult(
            name='test_it', sentence='it', subject='It', outcome=BehaviourOutcome.PASSED,
            seconds=3.0,
        )  # fmt: skip
        after = ConformanceReport(driver='acme', results=(one, one))
        beside = ConformanceReport(driver='acme', results=(one, one), took_s=4.0)
        self.assertEqual((6.0, 4.0), (after.to_dict()['seconds'], beside.to_dict()['seconds']))
        self.assertIn('shown here, in 6.0 s.', after.render())
        self.assertIn('shown here, in 4.0 s.', beside.render())


class RunTest(QuietTestCase):
    def test_behaviours_are_selected_by_name_or_subject(self):
        report = run_conformance(MinimalDriver, select=['threads*', 'test_a_list_has_*'])
        self.assertEqual({one.subject for one in report.results}, {'Listing', 'Threads and time'})
        printed = next(one.name for one in report.results if one.subject == 'Listing')
        again = run_conformance(MinimalDriver, select=[printed])
        self.assertEqual([printed], [one.name for one in again.results])

    def test_a_run_that_showed_nothing_is_not_well(self):
        self.assertFalse(run_conformance(MinimalDriver, select=['nothing']).ok)

    def test_each_behaviour_is_told_as_it_comes_out(self):
        told = []
        report = run_conformance(MinimalDriver, select=['deleting'], progress=told.append)
        self.assertEqual(tuple(told), report.results)

    def test_a_narrow_driver_is_right_if_it_refuses_what_it_lacks(self):
        report = run_conformance(LiveBackend(Narrow).make_driver)
        self.assertTrue(report.ok, report.render())

    def test_effects_are_waited_for_on_the_clock_that_is_handed_in(self):
        class Slow(MinimalDriver):
            def _status(self, amphora_id):
                self._get(amphora_id)
                state = State.ACTIVE if clock.monotonic() >= 90 else State.BUILDING
                status = super()._status(amphora_id)
                return type(status)(amphora_id=amphora_id, state=state)

        clock = VirtualClock()
        name = 'test_a_new_instance_becomes_active'
        self.assertTrue(run_conformance(Slow, clock=clock, select=[name], timeout_s=100).ok)
        self.assertGreaterEqual(clock.monotonic(), 90)

    def test_what_ends_in_error_is_not_waited_for(self):
        class Failed(MinimalDriver):
            def _status(self, amphora_id):
                status = super()._status(amphora_id)
                return type(status)(amphora_id=amphora_id, state=State.ERROR, fault='no luck')

        report = run_conformance(Failed, select=['test_a_new_instance_becomes_active'])
        self.assertIn('no luck', report.results[0].reason)

    def test_what_never_comes_is_given_up_and_named(self):
        class Never(MinimalDriver):
            def _status(self, amphora_id):
                status = super()._status(amphora_id)
                return type(status)(amphora_id=amphora_id, state=State.BUILDING)

        name = 'test_a_new_instance_becomes_active'
        report = run_conformance(Never, clock=VirtualClock(), select=[name])
        self.assertRegex(
            report.results[0].reason,
            'Expected: within 30 s [(]timeout_s[)], amphora .* is in state active.\n'
            'Seen instead: building.\n',
        )

    def test_what_never_goes_is_given_up_with_what_was_seen_instead(self):
        class Immortal(NoopDriver):
            def _delete(self, amphora_id):
                self.status(amphora_id)

            def _detach_port(self, amphora_id, port_id):
                pass

        told = {
            'test_a_deleted_instance_has_no_status': 'active',
            'test_a_deleted_instance_cannot_be_fetched': 'active',
            'test_a_deleted_instance_is_not_listed': 'active',
            'test_a_deleted_instance_is_not_found_by_its_name': 'active',
            'test_a_deleted_instance_is_not_found_by_its_key': 'active',
            'test_a_deleted_instance_is_left_out_of_statuses': 'active',
            'test_an_instance_that_reboots_can_be_deleted': "active, with task_state 'rebooting'",
            'test_changes_include_an_instance_deleted_since': 'nothing',
            'test_a_detached_port_can_be_attached_elsewhere': 'it is refused: Cannot attach port',
            'test_a_deleted_instance_leaves_no_resource_behind': 'port ',
        }
        report = run_conformance(
            lambda: Immortal(cloud=NoopCloud(clock=VirtualClock(), reboot_s=1e6)),
            select=told,
            port_ids=['port-1'],
        )
        self.assertEqual(set(told), {one.name for one in report.results})
        for one in report.results:
            with self.subTest(one.sentence):
                self.assertIn(f'.\nSeen instead: {told[one.name]}', one.reason)

    def test_a_build_of_which_nothing_is_told_is_given_up_with_that(self):
        class Silent(NoopDriver):
            def _changes(self, since):
                return Changes(statuses=(), cursor='1', complete=not since)

        report = run_conformance(
            lambda: Silent(cloud=NoopCloud(clock=VirtualClock())),
            select=['test_changes_include_an_instance_built_since'],
        )
        self.assertIn('Seen instead: nothing.', report.results[0].reason)

    def test_ports_that_are_not_named_cannot_be_tried(self):
        class WithPorts(MinimalDriver):
            def _attach_port(self, amphora_id, port_id):
                raise NotImplementedError

            def _attach_network(self, amphora_id, network_id, address):
                raise NotImplementedError

        names = (
            'test_an_attachment_names_instance_and_port',
            'test_an_attached_network_brings_a_port',
        )
        report = run_conformance(WithPorts, select=names)
        self.assertEqual(report.of(BehaviourOutcome.NOT_SHOWN), frozenset(names))


class LiveBackendTest(QuietTestCase):
    def test_nothing_that_a_run_built_stays(self):
        backend = LiveBackend()
        self.assertTrue(run_conformance(backend.make_driver).ok)
        self.assertEqual(backend.names(), [])

    def test_nothing_stays_where_behaviours_fail(self):
        backend = LiveBackend(Broken)
        self.assertFalse(run_conformance(backend.make_driver, timeout_s=1).ok)
        self.assertEqual(backend.names(), [])

    def test_what_others_built_is_left_alone(self):
        backend = LiveBackend()
        ours = backend.driver.build(name='somebody-elses')
        run_conformance(backend.make_driver)
        self.assertEqual(backend.driver.status(ours).state, State.ACTIVE)
        self.assertEqual(backend.names(), ['somebody-elses'])

    def test_what_cannot_be_deleted_is_named(self):
        backend = LiveBackend(Undeletable)
        name = 'test_a_new_instance_becomes_active'
        report = run_conformance(backend.make_driver, select=[name], timeout_s=5)
        self.assertEqual(report.left_behind, tuple(backend.driver._amphorae))
        self.assertFalse(report.ok)
        self.assertIn(f'Left behind, delete by hand: {report.left_behind[0]}', report.render())

    def test_a_backend_that_lists_nothing_is_swept_by_what_is_known(self):
        backend = LiveBackend(Unlistable)
        run_conformance(backend.make_driver, select=['test_a_new_instance_becomes_active'])
        self.assertEqual(backend.driver._amphorae, {})

    def test_an_instance_that_needs_arguments_gets_them(self):
        class Choosy(MinimalDriver):
            def _build(self, request):
                if request.flavor != 'm1.small':
                    raise InvalidBuildRequest(
                        f'There is no flavor {request.flavor}.', build_key=request.build_key
                    )
                return super()._build(request)

        backend = LiveBackend(Choosy)
        report = run_conformance(
            backend.make_driver, build_arguments={'amphora_flavor': 'm1.small'}
        )
        self.assertTrue(report.ok, report.render())


class UnfinishedFixtureTest(unittest.TestCase):
    def test_a_fixture_without_driver_says_what_it_must_have(self):
        class Unfinished(ComputeDriverConformance, unittest.TestCase):
            pass

        with self.assertRaisesRegex(AssertionError, r'Unfinished must implement make_driver\(\)'):
            Unfinished('test_the_backend_builds_some_type').setUp()

    def test_a_driver_that_offers_no_faults_is_not_made_to_fail(self):
        class Faultless(FaultConformance, unittest.TestCase):
            make_driver = staticmethod(MinimalDriver)

        with self.assertRaisesRegex(CannotBeShown, 'the bench offers no faults'):
            Faultless('test_a_lack_of_capacity_differs_from_other_failures').setUp()

    def test_faults_that_nobody_wrote_cannot_be_shown(self):
        report = run_conformance(MinimalDriver, faults=lambda driver: Faults(), select=['faults'])
        names = {one.name for one in report.results}
        self.assertEqual(report.of(BehaviourOutcome.NOT_SHOWN), names)
        self.assertIsInstance(CannotBeShown('why'), unittest.SkipTest)


class SmallBench(Bench):
    """Offers one fault, and what there is to attach."""

    build_arguments = MappingProxyType({'amphora_flavor': 'small'})
    port_ids = ('own-port',)
    network_ids = ('own-net',)

    def vanish(self, amphora_id):
        self.driver.delete(amphora_id)


class Equipped(MinimalDriver):
    bench = f'{__name__}:SmallBench'

    def _build(self, request):
        if request.flavor != 'small':
            raise InvalidBuildRequest(
                'Cannot build: only small ones.', build_key=request.build_key
            )
        return super()._build(request)


class Stopped(MinimalDriver):
    """Somebody presses Ctrl-C while it is asked for a status."""

    builds = closed = 0

    def _build(self, request):
        self.builds += 1
        return super()._build(request)

    def _status(self, amphora_id):
        raise KeyboardInterrupt

    def close(self):
        self.closed += 1


class BenchTest(unittest.TestCase):
    def fixture(self, driver, **given):
        class Given(FaultConformance, unittest.TestCase):
            def make_driver(self):
                return driver

        for name, value in given.items():
            setattr(Given, name, value)
        fixture = Given('test_an_instance_that_vanished_is_noticed')
        fixture.setUp()
        self.addCleanup(fixture.doCleanups)
        return fixture

    def test_a_driver_is_tried_with_what_its_bench_has(self):
        fixture = self.fixture(Equipped())
        self.assertEqual(
            (fixture.build_arguments, fixture.port_ids, fixture.network_ids),
            (SmallBench.build_arguments, SmallBench.port_ids, SmallBench.network_ids),
        )
        self.assertIsInstance(fixture.faults, SmallBench)

    def test_what_the_fixture_says_goes_first(self):
        self.assertEqual(self.fixture(Equipped(), port_ids=['other']).port_ids, ['other'])

    def test_a_bench_is_found_behind_wrappers(self):
        driver = Equipped()
        fixture = self.fixture(DriverWrapper(FailingDriver(driver, calls=())))
        self.assertIs(fixture.bench.driver, driver)

    def test_a_run_shows_the_faults_that_a_bench_offers_and_no_others(self):
        report = run_conformance(Equipped, select=['faults'])
        self.assertEqual(
            report.of(BehaviourOutcome.PASSED),
            {
                'test_an_instance_that_vanished_is_noticed',
                # What the driver lacks is shown to be refused.
                'test_a_refused_build_gives_its_ports_back',
                'test_a_refused_build_leaves_no_resource_behind',
                'test_a_refused_delete_of_a_resource_says_so_and_leaves_it',
                'test_the_ports_of_an_instance_in_error_are_free_when_it_is_deleted',
            },
        )
        self.assertEqual(report.of(BehaviourOutcome.FAILED), frozenset())

    def test_who_stops_a_run_half_way_leaves_nothing_behind(self):
        live = LiveBackend(Stopped)
        with self.assertRaises(KeyboardInterrupt):
            run_conformance(live.make_driver, select=['test_a_new_instance_becomes_active'])
        self.assertEqual(1, live.driver.builds)
        self.assertEqual([], list(live.driver.list_amphorae()))
        self.assertEqual(3, live.driver.closed)

    def test_who_stops_a_run_half_way_gets_the_results_so_far(self):
        live = LiveBackend(Stopped)
        some = ['test_a_build_returns_the_id_of_the_new_instance', 'test_a_new_instance_becomes_*']
        with self.assertRaises(Interrupted) as caught:
            run_conformance(live.make_driver, select=some)
        report = caught.exception.report
        self.assertEqual(['passed'], [one.outcome for one in report.results])
        self.assertIn(
            'Interrupted in: a new instance becomes active. The behaviours after it were not run.',
            report.render(),
        )
        self.assertFalse(report.ok)
        self.assertEqual('a new instance becomes active', report.to_dict()['interrupted_in'])
