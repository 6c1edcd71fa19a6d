"""Scripted faults: their subject, their words, their order and their chances."""

from kiln.clock import Deadline, deadline_scope
from kiln.compute_drivers.calls import Call
from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.faults import Fault, FaultScript
from kiln.exceptions import (
    AmphoraComputeError,
    BuildConflict,
    BuildOutcomeUnknown,
    ConfigurationError,
    InstanceNotFoundError,
    InstanceStateConflict,
    RateLimited,
    ServiceUnavailable,
)
from tests.unit.compute_drivers.noop.cloud_case import CloudCase


class FactTest(CloudCase):
    def failed(self, text, act):
        cloud = NoopCloud(clock=self.clock)
        driver = self.driver(cloud=cloud)
        built = driver.build()
        cloud.faults.add(Fault.parse(text))
        with self.assertRaises(AmphoraComputeError) as caught:
            act(driver, built)
        return built, caught.exception

    def test_the_subject_of_a_build_is_its_key_and_that_of_another_call_its_amphora(self):
        _, error = self.failed('build:refuse', lambda driver, _: driver.build(build_key='Key'))
        self.assertEqual(('Key', None), (error.build_key, error.amphora_id))
        self.assertIn('Key', str(error))
        built, error = self.failed(
            'get:refuse', lambda driver, one: driver.get_amphora(amphora_id=one)
        )
        self.assertEqual((None, built), (error.build_key, error.amphora_id))
        _, error = self.failed('list:refuse', lambda driver, _: list(driver.list_amphorae()))
        self.assertIsNone(error.amphora_id)

    def test_a_conflict_without_a_text_says_what_is_wrong(self):
        _, error = self.failed('build:conflict', lambda driver, _: driver.build())
        self.assertIsInstance(error, BuildConflict)
        self.assertIn('a resource that it needs is in use', str(error))
        _, error = self.failed('build:conflict=the disk', lambda driver, _: driver.build())
        self.assertIn('the disk', str(error))
        _, error = self.failed('suspend:conflict', lambda driver, one: driver.suspend(one))
        self.assertIsInstance(error, InstanceStateConflict)
        self.assertIn('its state does not allow that', str(error))
        _, error = self.failed('suspend:conflict=it hums', lambda driver, one: driver.suspend(one))
        self.assertIn('it hums', str(error))

    def test_a_crash_has_the_words_of_its_script_or_some(self):
        for script, said in (('=no such key', 'no such key'), ('', 'simulated defect')):
            _, error = self.failed(
                f'list:crash{script}', lambda driver, _: list(driver.list_amphorae())
            )
            self.assertIn(said, str(error.__cause__))

    def test_a_pause_cannot_be_negative(self):
        for text in ('get:rate_limit=-1', 'get:hang=-1', 'get:refuse:after=-1'):
            self.assertRaises(ConfigurationError, Fault.parse, text)

    def test_a_call_that_is_cut_off_has_the_words_of_its_fault(self):
        script = 'status:hang=30:text=the line is dead'
        with deadline_scope(Deadline.after(0, self.clock)):
            _, error = self.failed(script, lambda driver, one: driver.status(one))
        self.assertIn('the line is dead', str(error))


class OfRequestTest(CloudCase):
    def test_the_counts_of_a_request_end_with_all_faults(self):
        driver = self.driver()
        given = {'build_key': 'k', 'metadata': {'noop:fault': 'refuse:times=1'}}
        for _ in range(2):
            self.assertRaises(ServiceUnavailable, driver.build, **given)
            driver.cloud.faults.clear()

    def test_a_fault_of_a_request_can_wait_for_a_later_one(self):
        driver = self.driver()
        given = {'build_key': 'k', 'metadata': {'noop:fault': 'refuse:after=1'}}
        driver.build(**given)
        self.assertRaises(ServiceUnavailable, driver.build, **given)

    def test_the_fault_of_a_request_goes_before_those_of_the_cloud(self):
        driver = self.driver(faults=[Fault.parse('build:refuse')])
        given = {'metadata': {'noop:fault': 'rate_limit'}}
        self.assertRaises(RateLimited, driver.build, **given)

    def test_a_stuck_action_can_be_requested_again(self):
        driver = self.driver()
        built = driver.build()
        driver.cloud.faults.add(Fault.parse('suspend:never:times=1'))
        for _ in range(2):
            driver.suspend(built)
        self.assertEqual('suspending', driver.status(built).task_state)

    def test_a_stuck_delete_that_is_requested_again_ends(self):
        driver = self.driver()
        built = driver.build()
        driver.cloud.faults.add(Fault.parse('delete:never:times=1'))
        driver.delete(built)
        self.assertEqual('deleting', driver.status(built).task_state)
        driver.delete(built)
        self.assertRaises(InstanceNotFoundError, driver.status, built)


class OrderTest(CloudCase):
    def test_each_call_can_be_scripted(self):
        for call in Call:
            self.assertEqual(call.label, Fault.parse(f'{call.label}:refuse').call)

    def test_all_that_is_late_has_happened_by_one_call(self):
        driver = self.driver(faults=[Fault.parse('build:late=5')])
        for _ in range(3):
            self.assertRaises(BuildOutcomeUnknown, driver.build)
        self.clock.advance(6)
        self.assertEqual(3, driver.cloud.count())

    def test_of_faults_that_are_given_together_the_first_wins(self):
        both = [Fault.parse('build:refuse'), Fault.parse('build:rate_limit')]
        self.assertRaises(ServiceUnavailable, self.driver(faults=both).build)
        driver = self.driver()
        driver.cloud.faults.add(*both[::-1])
        self.assertRaises(RateLimited, driver.build)

    def test_certain_and_impossible_are_probabilities(self):
        always, never = (Fault.parse(f'build:refuse:probability={at}') for at in (1, 0))
        self.assertRaises(ServiceUnavailable, self.driver(faults=[always]).build)
        self.driver(faults=[never]).build()

    def test_a_fault_that_always_fires_takes_no_number_of_the_others(self):
        class Dice:
            def random(self):
                raise AssertionError('a number was drawn')

        script = FaultScript([Fault.parse('build:refuse')], dice=Dice())
        self.assertIsNotNone(script.decide(Call.BUILD, None, dict))
