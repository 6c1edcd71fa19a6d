"""Tests of the desired state: written without a lease, guarded by the generation."""

from kiln.clusters.exceptions import (
    ClusterBusy,
    ClusterChanged,
    ClusterError,
    ClusterExists,
    ClusterNotFound,
    StoreError,
)
from kiln.clusters.models import DriverPin, OperationKind, OperationState
from kiln.clusters.spec import ClusterTemplate, MachineSpec
from tests.unit.db import samples
from tests.unit.db.case import ClusterCase, StoreCase

RESIZE = OperationKind.RESIZE


class Creating(StoreCase):
    def test_finding_6_cluster_and_operation_are_stored_before_create_returns(self):
        web = self.create()
        other = self.open()
        self.assertEqual(web, other.clusters.get('web'))
        self.assertEqual(samples.operation('op-web'), other.operations.newest()['c-web'])
        self.assertEqual(('c-web',), other.operations.runnable())

    def test_a_name_that_is_taken_is_refused_and_nothing_is_written(self):
        self.create()
        with self.assertRaisesRegex(ClusterExists, "'web'"):
            self.create(id='c-2')
        self.assertEqual(1, len(self.store.clusters.list()))
        self.assertEqual((), self.store.operations.of('c-2'))

    def test_another_constraint_violation_is_a_store_error(self):
        self.create()
        with self.assertRaises(StoreError):
            self.create('other', id='c-web')
        self.assertEqual(1, len(self.store.clusters.list()))

    def test_names_differ_in_case_and_accents(self):
        for number, name in enumerate(('web', 'Web', 'w\u00e9b')):
            self.create(name, id=f'c-{number}')
        self.assertEqual('c-1', self.store.clusters.get('Web').id)

    def test_001_10_the_pinned_driver_is_on_the_cluster(self):
        self.create()
        self.assertEqual(samples.PIN, self.store.clusters.get('web').pin)
        pin = self.rows(
            'SELECT driver_name, driver_version, driver_origin, driver_digest FROM cluster'
        )
        self.assertEqual([('nodes_v1', '1.2.0', 'package kiln-compute', 'sha:1')], pin)

    def test_an_id_is_tried_before_a_name(self):
        self.create('web', id='other')
        self.create('other', id='x')
        self.assertEqual('web', self.store.clusters.get('other').name)
        self.assertEqual(['other', 'web'], [one.name for one in self.store.clusters.list()])

    def test_a_missing_cluster_is_named(self):
        with self.assertRaisesRegex(ClusterNotFound, "'nothing'"):
            self.store.clusters.get('nothing')
        with self.assertRaises(ClusterNotFound):
            self.store.clusters.pause('nothing')


class Changing(ClusterCase):
    def setUp(self):
        super().setUp()
        self.write(
            self.lease,
            operation=samples.operation('op-web', state=OperationState.SUCCEEDED),
            node=[samples.node(f'n-{i}') for i in range(5)],
        )

    def change(self, op_id='op-2', generation=1, **more):
        spec = samples.spec(create_timeout_s=7.0)
        operation = samples.operation(op_id, kind=RESIZE)
        return self.store.clusters.change(
            'c-web', spec, generation=generation, operation=operation, **more
        )

    def doomed(self):
        return [one.id for one in self.store.nodes.of('c-web') if one.doomed]

    def test_003_4_count_and_removed_nodes_are_one_commit(self):
        changed = self.change(doomed={'n-2': 'asked for', 'n-3': 'asked for'})
        self.assertEqual((2, 7.0), (changed.generation, changed.spec.create_timeout_s))
        self.assertEqual(['n-2', 'n-3'], self.doomed())
        operation = self.store.operations.newest()['c-web']
        self.assertEqual(('op-2', RESIZE, 2), (operation.id, operation.kind, operation.generation))

    def test_a_change_can_move_the_cluster_to_another_driver(self):
        pin = DriverPin(name='other', version='2.0.0', origin='elsewhere', digest='d2')
        changed = self.change(pin=pin, decision={'steps': ['asked for']})
        self.assertEqual((pin, {'steps': ['asked for']}), (changed.pin, changed.decision))
        self.assertEqual(changed, self.store.clusters.get('web'))

    def test_003_4_a_plan_for_another_generation_changes_nothing(self):
        self.change(doomed={'n-2': 'asked for'})
        before = self.store.clusters.get('web')
        with self.assertRaisesRegex(ClusterChanged, 'generation 1, but it has 2'):
            self.change('op-3', doomed={'n-4': 'asked for'}, supersede=True)
        self.assertEqual(['n-2'], self.doomed())
        self.assertEqual(before, self.store.clusters.get('web'))
        self.assertEqual('op-2', self.store.operations.newest()['c-web'].id)
        self.assertFalse(self.store.operations.get('op-2').cancelled)

    def test_a_running_operation_prevents_a_change(self):
        self.change()
        with self.assertRaisesRegex(ClusterBusy, "'web': its resize is queued"):
            self.change('op-3', generation=2, doomed={'n-1': 'asked for'})
        self.assertEqual((2, []), (self.store.clusters.get('web').generation, self.doomed()))

    def test_a_change_can_supersede_a_running_operation(self):
        self.change()
        self.change('op-3', generation=2, supersede=True)
        self.assertTrue(self.store.operations.get('op-2').cancelled)
        self.assertEqual(['op-2', 'op-3'], [one.id for one in self.store.operations.open('c-web')])

    def test_an_empty_reason_removes_the_mark_of_a_node(self):
        self.change(doomed={'n-1': 'asked for'})
        self.change('op-3', generation=2, doomed={'n-1': ''}, supersede=True)
        self.assertEqual([], self.doomed())

    def test_nodes_of_other_clusters_are_not_marked(self):
        self.create('other')
        self.write(self.claim('c-other'), node=samples.node('n-9', 'c-other'))
        self.change(doomed={'n-9': 'by mistake'})
        self.assertEqual('', self.store.nodes.get('c-other', 'n-9').doomed)

    def test_a_missing_cluster_cannot_change(self):
        with self.assertRaises(ClusterNotFound):
            self.store.clusters.change(
                'none', samples.spec(), generation=1, operation=samples.operation('op-3', 'none')
            )

    def test_a_paused_cluster_is_not_work_until_it_is_resumed(self):
        self.change()
        self.store.leases.release(self.lease)
        self.assertTrue(self.store.clusters.pause('c-web').paused)
        self.assertEqual((), self.store.operations.runnable())
        self.assertFalse(self.store.clusters.resume('c-web').paused)
        self.assertEqual(('c-web',), self.store.operations.runnable())

    def test_a_cancelled_operation_of_a_paused_cluster_can_end(self):
        self.change()
        self.store.leases.release(self.lease)
        self.store.clusters.pause('c-web')
        self.store.operations.cancel('op-2')
        self.assertEqual(('c-web',), self.store.operations.runnable())

    def test_repeated_resumes_extend_a_deadline_by_the_pause_once(self):
        at = self.clock.time()
        timed = samples.operation('op-2', created_at=at, deadline_at=at + 100.0)
        untimed = samples.operation('op-3', created_at=at)
        for operation in (timed, untimed):
            self.store.operations.submit(operation, supersede=True)
        self.store.clusters.pause('c-web')
        self.pass_time(30.0)
        self.store.clusters.pause('c-web')
        self.pass_time(10.0)
        for _ in range(2):
            self.store.clusters.resume('c-web')
        self.assertEqual(at + 140.0, self.store.operations.get('op-2').deadline_at)
        self.assertEqual(0.0, self.store.operations.get('op-3').deadline_at)


class Templates(StoreCase):
    def template(self, **more):
        return ClusterTemplate(name='base', groups=samples.MIXED, **more)

    def test_a_template_is_kept_and_replaced(self):
        self.store.templates.save(self.template())
        newer = self.template(machine=MachineSpec(image='debian'))
        self.store.templates.save(newer)
        self.assertEqual(newer, self.store.templates.get('base'))
        self.assertEqual((newer,), self.store.templates.list())

    def test_a_used_template_is_not_removed(self):
        self.store.templates.save(self.template())
        self.create(spec=samples.spec(template='base'))
        with self.assertRaisesRegex(ClusterError, 'it is used by web'):
            self.store.templates.remove('base')
        self.assertEqual(1, len(self.store.templates.list()))

    def test_an_unused_template_can_be_removed(self):
        self.store.templates.save(self.template())
        for _ in range(2):
            self.store.templates.remove('base')
        with self.assertRaisesRegex(ClusterNotFound, "'base'"):
            self.store.templates.get('base')
