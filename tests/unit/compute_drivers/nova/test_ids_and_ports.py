"""Ids that are not Nova's, and ports of servers in a state that Nova refuses."""

import uuid

from kiln.exceptions import InstanceNotFoundError, InstanceStateConflict
from tests.unit.compute_drivers.nova.corpus import ANSWERS
from tests.unit.compute_drivers.nova.test_repeats import RepeatCase

#: Texts that name something else in a path of Nova.
FOREIGN = ('detail', '../servers', 'a/b?c=d', 'S-1')


class ForeignIds(RepeatCase):
    def test_they_are_not_found_and_never_sent(self):
        driver = self.driver
        calls = (
            driver.status, driver.suspend, driver.resume, driver.reboot, driver.rebuild,
            driver.console_log,
            lambda one: driver.get_amphora(amphora_id=one),
            lambda one: driver.attach_port(one, 'p-1'),
            lambda one: driver.detach_network(one, 'n-1'),
        )  # fmt: skip
        for foreign in FOREIGN:
            for call in calls:
                with self.assertRaises(InstanceNotFoundError) as caught:
                    call(foreign)
                self.assertEqual(foreign, caught.exception.amphora_id)
            driver.delete(foreign)
            driver.delete_server_group(foreign)
        self.assertEqual({}, driver.statuses(FOREIGN[: driver.most_read_by_id]))
        self.assertEqual([], self.cloud.queries)


class PortsOfSuspendedServers(RepeatCase):
    def setUp(self):
        super().setUp()
        refused = ANSWERS['nova/suspend_suspended']
        answer = refused['status'], refused['headers'], refused['body']
        self.port = str(uuid.uuid4())
        self.cloud.answers['POST /servers/s-1/os-interface'] = answer
        self.cloud.answers[f'DELETE /servers/s-1/os-interface/{self.port}'] = answer

    def have(self, *ports):
        hung = [{'port_id': port, 'net_id': 'n-1', 'fixed_ips': []} for port in ports]
        self.cloud.answers['GET /servers/s-1/os-interface'] = {'interfaceAttachments': hung}

    def test_a_port_that_is_attached_is_attached_already(self):
        self.have(self.port)
        self.assertEqual(self.port, self.driver.attach_port('s-1', self.port).port_id)

    def test_another_port_is_refused(self):
        self.have()
        with self.assertRaises(InstanceStateConflict) as caught:
            self.driver.attach_port('s-1', self.port)
        self.assertIsNone(caught.exception.resource_id, 'the port is not to blame')

    def test_a_port_that_is_not_attached_is_detached_already(self):
        self.have('other')
        self.driver.detach_port('s-1', self.port)

    def test_an_attached_port_is_not_detached(self):
        self.have(self.port)
        with self.assertRaises(InstanceStateConflict):
            self.driver.detach_port('s-1', self.port)
