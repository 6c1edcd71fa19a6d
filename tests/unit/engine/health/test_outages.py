"""An outage is found by one call for each backend, and told with its cause."""

import dataclasses
import threading

from kiln.compute.facade import Compute
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.engine.health.outages import LONGEST_S, find_outages
from kiln.exceptions import ConfigurationError
from tests.unit.engine.site import STACK, Site, group


class Outages(Site):
    def setUp(self):
        self.calls = []
        super().setUp()
        self.cluster = self.created(group(3))

    def open_backend(self, name):
        if name == 'wrong':
            raise ConfigurationError('option password is missing.')
        site = self

        class Counted(NoopDriver):
            def _status(self, amphora_id):
                site.calls.append(name)
                return super()._status(amphora_id)

        driver = Counted(cloud=self.cloud)
        driver.name = name or 'noop'
        return Compute(driver, settings=STACK)

    def nodes_on(self, *backends):
        """Return the nodes, as if a copy of each were on each of the backends."""
        nodes = self.nodes(self.cluster)
        return [dataclasses.replace(one, backend=name) for name in backends for one in nodes]

    def found(self, *backends):
        self.calls.clear()
        return find_outages(self.parts.backends, self.nodes_on(*backends))

    def test_a_backend_that_answers_has_none_and_is_asked_once(self):
        self.assertEqual({}, self.found('noop', 'west'))
        self.assertEqual(['noop', 'west'], sorted(self.calls))

    def test_nothing_is_asked_without_machines(self):
        nodes = [dataclasses.replace(one, compute_id=None) for one in self.nodes_on('noop')]
        self.calls.clear()
        self.assertEqual({}, find_outages(self.parts.backends, nodes))
        self.assertEqual([], self.calls)

    def test_a_refusal_is_told_once_a_repeat_fails_too(self):
        self.fault('status:refuse=down for repairs')
        began = self.clock.monotonic()
        (cause,) = self.found('noop').values()
        self.assertIn('Cannot read: ', cause.message)
        self.assertIn('down for repairs', cause.message)
        self.assertLess(self.clock.monotonic() - began, 1.0)
        self.assertEqual(['noop', 'noop'], self.calls)

    def test_a_call_of_a_backend_whose_outage_is_known_is_not_repeated(self):
        self.fault('status:refuse')
        self.calls.clear()
        found = find_outages(self.parts.backends, self.nodes_on('noop'), {'noop'})
        self.assertEqual(({'noop'}, ['noop']), (set(found), self.calls))

    def test_a_single_failure_is_no_outage(self):
        self.fault('status:refuse:times=1')
        self.assertEqual({}, self.found('noop'))

    def test_one_machine_that_cannot_be_read_is_no_outage(self):
        broken, *others = self.nodes(self.cluster)
        self.fault(f'status:refuse:amphora_id={broken.compute_id}')
        for nodes in ([broken, *others], [*others, broken]):
            self.assertEqual({}, find_outages(self.parts.backends, nodes))
        self.assertEqual({'noop'}, set(find_outages(self.parts.backends, [broken])))

    def test_a_call_that_was_never_sent_is_no_outage(self):
        self.fault('get:hang_before=20')
        busy = [self.parts.backends.get('noop').get_amphora(amphora_id='x') for _ in range(200)]
        self.assertEqual({}, self.found('noop'))
        for one in busy:
            one.cancel()

    def test_a_call_that_kiln_gives_up_as_it_ends_is_no_outage(self):
        found, stuck = [], self.cloud.outage()
        with stuck:
            looking = threading.Thread(target=lambda: found.append(self.found('noop')))
            looking.start()
            self.until(lambda: self.calls)
            self.parts.backends.get('noop').close(0)
        looking.join()
        self.assertEqual([{}], found)

    def test_silent_backends_are_told_after_three_seconds_all_together(self):
        began = self.clock.monotonic()
        with self.cloud.outage():
            found = self.found('noop', 'west')
        self.assertEqual({'noop', 'west'}, set(found))
        for name, cause in found.items():
            self.assertIn(f"'{name}' has not answered for over 3 s", cause.message)
        self.assertLess(self.clock.monotonic() - began, LONGEST_S)

    def test_a_machine_that_does_not_exist_is_an_answer(self):
        for node in self.nodes(self.cluster):
            self.cloud.vanish(node.compute_id)
        self.assertEqual({}, self.found('noop'))

    def test_an_open_circuit_is_told_without_a_call(self):
        self.parts.backends.get('noop').open_circuit('read')
        (cause,) = self.found('noop').values()
        self.assertIn('was opened by hand', cause.message)
        self.assertEqual([], self.calls)

    def test_a_backend_that_cannot_be_opened_is_told_beside_those_that_answer(self):
        found = self.found('noop', 'wrong')
        self.assertEqual(['wrong'], list(found))
        self.assertIn('option password is missing', found['wrong'].message)

    def test_a_defect_of_a_driver_is_told(self):
        self.fault('status:crash=oops')
        (cause,) = self.found('noop').values()
        self.assertIn('oops', cause.message)


del Site
