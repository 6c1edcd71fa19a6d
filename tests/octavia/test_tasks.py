"""Octavia's own tasks and retries on kiln, run by Octavia's engine."""

import threading
import time

from octavia.common import exceptions
from octavia.controller.worker.v2.tasks import compute_tasks
from taskflow import engines, task
from taskflow.patterns import linear_flow, unordered_flow

from tests.octavia.case import AMPHORA, OctaviaCase

#: The arguments that Octavia's flows pass to the tasks.
STORE = {
    'amphora_id': AMPHORA, 'server_group_id': None, 'build_type_priority': 40, 'ports': [],
    'flavor': None, 'availability_zone': None,
}  # fmt: skip


class Fails(task.Task):
    """A later task of a flow, which fails."""

    def execute(self):
        raise ValueError('a later task fails')


class TaskCase(OctaviaCase):
    def wait_flow(self, number=''):
        flow = linear_flow.Flow(
            f'wait{number}', retry=compute_tasks.ComputeRetry(f'retry{number}')
        )
        wait = compute_tasks.ComputeWait(
            name=f'wait-task{number}', rebind={'compute_id': f'compute_id{number}'},
            provides=f'compute_obj{number}',
        )  # fmt: skip
        return flow.add(wait)

    def create_flow(self, *more):
        flow = linear_flow.Flow('create')
        flow.add(compute_tasks.ComputeCreate(provides='compute_id'), self.wait_flow(), *more)
        return flow

    @staticmethod
    def run_flow(flow, **store):
        return engines.run(
            flow, engine='parallel', executor='threaded', max_workers=5, store=STORE | store
        )


class Creating(TaskCase):
    def test_an_amphora_is_created_and_waited_for(self):
        self.configure('amp_active_wait_sec = 1\n[compute:noop]\nbuild_s = 1.5\n')
        found = self.run_flow(self.create_flow())
        (amphora,) = self.amphorae()
        self.assertEqual(
            (amphora.id, 'ACTIVE'),
            (found['compute_obj']['compute_id'], found['compute_obj']['status']),
        )
        self.assertIn('/etc/octavia/amphora-agent.conf', amphora.raw['files'])

    def test_a_flow_that_fails_later_removes_its_amphora(self):
        with self.assertRaisesRegex(ValueError, 'a later task fails'):
            self.run_flow(self.create_flow(Fails()))
        self.assertEqual([], self.amphorae())

    def test_an_amphora_that_ends_in_error_is_reverted(self):
        self.fail_calls('build', 'error', times=1)
        with self.assertRaises(exceptions.ComputeBuildException):
            self.run_flow(self.create_flow())
        self.assertEqual([], self.amphorae())

    def test_an_amphora_that_never_becomes_active_fails_after_octavias_retries(self):
        self.configure(
            'amp_active_wait_sec = 1\namp_active_retries = 1\n[compute:noop]\nbuild_s = 600\n'
        )
        started = time.monotonic()
        with self.assertRaises(exceptions.ComputeWaitTimeoutException):
            self.run_flow(self.create_flow())
        # As many polls as with Octavia's own driver, for the same time; Octavia's
        # engine takes up to a second to end.
        self.assertGreaterEqual(time.monotonic() - started, 2)
        self.assertLess(time.monotonic() - started, 300)
        self.assertEqual([], self.amphorae())

    def test_a_resumed_flow_adopts_its_amphora(self):
        first = self.run_flow(self.create_flow())['compute_id']
        self.assertEqual(first, self.run_flow(self.create_flow())['compute_id'])
        self.assertEqual(1, len(self.amphorae()))

    def test_a_flow_survives_an_outage_in_the_middle(self):
        self.configure(
            'amp_active_wait_sec = 1\n'
            '[compute:noop]\nbuild_s = 1\nwatch_interval = 0.1\ncircuit_open = 0.5\n'
        )

        def outage():
            time.sleep(0.3)
            self.fail_calls('*', 'refuse')
            time.sleep(2)
            self.noop.driver.cloud.faults.clear()

        thread = threading.Thread(target=outage)
        thread.start()
        found = self.run_flow(self.create_flow())
        thread.join()
        self.assertEqual('ACTIVE', found['compute_obj']['status'])


class Together(TaskCase):
    def test_ten_amphorae_on_five_threads_are_returned_as_they_become_active(self):
        self.configure('amp_active_wait_sec = 300\n[compute:noop]\nbuild_s = 2\n')
        flow, store = unordered_flow.Flow('many'), {}
        for number in range(10):
            flow.add(self.wait_flow(number))
            store[f'compute_id{number}'] = self.build(name=f'amphora-{number}')
        started = time.monotonic()
        found = self.run_flow(flow, **store)
        took_s = time.monotonic() - started
        self.assertEqual({'ACTIVE'}, {found[f'compute_obj{n}']['status'] for n in range(10)})
        # With a sleep of five minutes after a poll, it would take longer than one sleep.
        self.assertLess(took_s, 300)


class Deleting(TaskCase):
    def test_a_failed_delete_is_repeated(self):
        built = self.build()
        self.fail_calls('delete', 'conflict', times=1)
        self.run_flow(
            linear_flow.Flow('delete').add(compute_tasks.ComputeDelete()),
            amphora={'id': AMPHORA, 'compute_id': built},
            passive_failure=False,
        )
        self.assertEqual([], self.amphorae())

    def test_a_port_is_attached_and_detached_when_the_flow_fails(self):
        built = self.build()
        flow = linear_flow.Flow('attach').add(compute_tasks.AttachPort(), Fails())
        with self.assertRaisesRegex(ValueError, 'a later task fails'):
            self.run_flow(flow, amphora={'compute_id': built}, port={'id': 'vip'})
        other = self.build(name='other')
        self.compute.attach_network_or_port(other, port_id='vip')

    def test_a_server_group_is_created_and_removed_when_the_flow_fails(self):
        flow = linear_flow.Flow('group')
        flow.add(compute_tasks.NovaServerGroupCreate(provides='server_group_id'), Fails())
        with self.assertRaisesRegex(ValueError, 'a later task fails'):
            engines.run(flow, store={'loadbalancer_id': 'lb-1'})
        self.assertEqual([], list(self.noop.list_resources().result()))
