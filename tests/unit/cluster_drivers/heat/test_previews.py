"""What a HeatDriver foresees and refuses, before anything is done."""

import dataclasses

from kiln.cluster_drivers.values import Loss, PlannedChange
from kiln.clusters.models import OperationKind
from kiln.clusters.spec import MachineSpec
from tests.unit.cluster_drivers.heat.driver_case import NAME, DriverCase
from tests.unit.cluster_drivers.heat.made import FILE, cluster_of


class Previews(DriverCase):
    def preview(self, kind=OperationKind.UPDATE, **more):
        plan = PlannedChange(kind=kind, **more)
        return self.driver.preview_cluster(self.context, self.cluster, plan)

    def test_a_new_cluster_is_a_new_stack(self):
        self.assertEqual((f'Heat: a new stack, {NAME}',), self.preview(OperationKind.CREATE))

    def test_what_heat_would_add_and_delete_is_told_and_nothing_is_done(self):
        self.settle()
        self.change(FILE.replace('count: 3', 'count: 2'))
        lines = self.preview(OperationKind.RESIZE, named=('work-2',))
        self.assertTrue(any('deleted' in one and 'work-2 (OS::Nova' in one for one in lines))
        self.assertEqual(0, self.methods.count('DELETE'))
        self.assertEqual('COMPLETE', self.heat.named(NAME)['status'])

    def test_nodes_that_would_be_replaced_are_named_first(self):
        self.settle()
        self.change(FILE.replace('[net1]', '[net1, net2]'))
        lines = self.preview()
        self.assertIn('Heat would replace nodes, and what is on them is lost: control-1', lines[0])

    def test_nodes_that_would_be_rebuilt_with_another_image_are_named_first(self):
        self.settle()
        self.change(FILE.replace('debian-12', 'debian-13'))
        first, *others = self.preview()
        self.assertIsInstance(first, Loss)
        self.assertIn('Heat would rebuild nodes with another image, and what is on', first)
        self.assertIn('is lost: control-1', first)
        self.assertFalse([one for one in others if isinstance(one, Loss)])

    def test_nodes_that_keep_their_image_are_no_loss(self):
        self.settle()
        self.change(FILE.replace('flavor: small', 'flavor: big'))
        lines = self.preview()
        self.assertTrue(lines)
        self.assertFalse([one for one in lines if isinstance(one, Loss)])

    def test_no_loss_is_told_of_a_group_whose_image_is_not_known(self):
        self.settle()
        state = {**self.cluster.driver_state, 'images': {}}
        self.cluster = dataclasses.replace(self.cluster, driver_state=state)
        self.change(FILE.replace('debian-12', 'debian-13'))
        self.assertFalse([one for one in self.preview() if isinstance(one, Loss)])

    def test_an_unchanged_cluster_is_an_unchanged_stack(self):
        self.settle()
        self.change()
        self.assertEqual((), self.preview())

    def test_a_check_or_a_deletion_has_no_preview(self):
        self.assertEqual((), self.preview(OperationKind.CHECK))
        self.assertEqual([], self.heat.requests)


class Checks(DriverCase):
    def test_a_machine_spec_without_an_image_is_told_before_anything_is_done(self):
        bare = dataclasses.replace(self.cluster.spec, machine=MachineSpec())
        cluster = dataclasses.replace(self.cluster, spec=bare)
        plan = PlannedChange(kind=OperationKind.CREATE)
        found = self.driver.validate(self.context, cluster, plan)
        self.assertIn('nodegroups[0].image', [one.path for one in found])
        self.assertEqual([], self.heat.requests)

    def test_a_removal_with_which_others_would_go_is_a_problem_before_anything_is_sent(self):
        self.cluster = cluster_of(FILE.replace('count: 3', 'flavors: {big: 2, small: 3}'))
        self.settle()
        self.change(FILE.replace('count: 3', 'flavors: {big: 2, small: 2}'))
        requests = list(self.heat.requests)
        for named, *expected in (
            ('work-3',),
            ('work-1', 'would also remove work-5'),
            ('work-6', 'no node work-6'),
        ):
            plan = PlannedChange(kind=OperationKind.RESIZE, named=(named,))
            problems = self.driver.validate(self.context, self.cluster, plan)
            self.assertEqual(len(expected), len(problems))
            self.assertIn(''.join(expected), ''.join(map(str, problems)))
        self.assertEqual(requests, self.heat.requests)
