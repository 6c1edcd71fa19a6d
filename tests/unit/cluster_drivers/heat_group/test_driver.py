"""The driver with one resource group on a Heat that is played; 003-6."""

import dataclasses

from kiln.cluster_drivers.heat_group_v1.driver import Driver
from kiln.cluster_drivers.values import Progress
from tests.unit.cluster_drivers.heat.driver_case import NAME, DriverCase
from tests.unit.cluster_drivers.heat.made import FILE, cluster_of, context, on_heat


class GroupCase(DriverCase):
    def setUp(self):
        super().setUp()
        self.driver = on_heat(Driver, self.heat, self.clock)

    @property
    def members(self):
        stack = self.heat.named(NAME)
        return {
            name.rpartition('.')[2]: one['properties']['flavor']
            for name, one in stack['live'].items()
        }

    def resize(self, text, *remove):
        self.change(text)
        group = self.cluster.spec.groups[1]
        return self.call(
            'resize_cluster', nodegroup=group, node_count=group.shape.count,
            nodes_to_remove=remove,
        )  # fmt: skip


class Groups(GroupCase):
    def test_groups_share_one_series_of_numbers(self):
        self.settle()
        self.assertEqual({'1', '2', '3', '4'}, set(self.members))
        nodes = self.poll().outputs['nodes']
        self.assertEqual({'control-1', 'work-2', 'work-3', 'work-4'}, set(nodes))

    def test_003_6_a_member_from_the_middle_goes_and_the_others_stay(self):
        self.settle()
        before = self.heat.named(NAME)['live']
        self.resize(FILE.replace('count: 3', 'count: 2'), 'work-3')
        self.assertIs(Progress.COMPLETE, self.work().progress)
        after = self.heat.named(NAME)['live']
        self.assertEqual({'nodes.1', 'nodes.2', 'nodes.4'}, set(after))
        self.assertTrue(all(before[name] == one for name, one in after.items()))
        self.resize(FILE)
        self.work()
        self.assertEqual({'1', '2', '4', '5'}, set(self.members))

    def test_003_6_members_have_flavors_of_their_own(self):
        self.cluster = cluster_of(FILE.replace('count: 3', 'flavors: {big: 1, tiny: 2}'))
        self.settle()
        self.assertEqual({'1': 'small', '2': 'big', '3': 'tiny', '4': 'tiny'}, self.members)

    def test_a_removal_that_heat_ignored_is_requested_again(self):
        self.settle()
        # Before Heat has begun, another change takes back what the first one added.
        self.resize(FILE.replace('count: 3', 'count: 4'))
        self.resize(FILE)
        self.resize(FILE.replace('count: 3', 'count: 4'))
        found = self.work()
        self.assertIs(Progress.IN_PROGRESS, found.progress)
        self.assertIn('has work-5, and lacks work-6', found.reason)
        self.assertIs(Progress.COMPLETE, self.work().progress)
        self.assertEqual({'1', '2', '3', '4', '6'}, set(self.members))

    def test_a_group_that_never_becomes_as_it_was_wanted_is_a_failure(self):
        self.settle()
        self.resize(FILE.replace('count: 3', 'count: 4'))
        # As if Heat ignored the index for ever.
        self.heat.forgets = True
        self.resize(FILE)
        self.resize(FILE.replace('count: 3', 'count: 4'))
        found = self.work()
        while found.progress is Progress.IN_PROGRESS:
            found = self.work()
        self.assertIs(Progress.FAILED, found.progress)
        self.assertIn('lacks work-6', found.reason)

    def test_what_somebody_else_did_to_the_group_is_not_undone_by_a_check(self):
        self.settle()
        stack = self.heat.named(NAME)
        stack['live'].pop('nodes.3')
        # Heat itself shows it as complete.
        stack['updated'] = 'later'
        found = self.poll()
        self.assertIs(Progress.FAILED, found.progress)
        self.assertIn('lacks work-3', found.reason)
        self.assertNotIn('PUT', self.methods)


class Problems(GroupCase):
    def problems(self, text):
        definition = self.driver.template_definition
        return [one.path for one in definition.value_problems(context(), cluster_of(text))]

    def test_a_right_cluster_has_none(self):
        self.assertEqual([], self.problems(FILE))

    def test_more_than_one_network_is_refused(self):
        text = FILE.replace('[net1]', '[net1, net2]')
        self.assertEqual([f'nodegroups[{n}].networks' for n in (0, 1)], self.problems(text))

    def test_a_node_counts_as_three_resources(self):
        self.assertEqual([], self.problems(FILE.replace('count: 3', 'count: 332')))
        self.assertEqual(['nodegroups'], self.problems(FILE.replace('count: 3', 'count: 333')))

    def test_user_data_reaches_the_members_hidden(self):
        cluster = cluster_of(FILE + 'parameters: {user_data: boot}\n')
        state = self.driver.planned(context(), cluster)
        cluster = dataclasses.replace(cluster, driver_state=state.write())
        made = self.driver.template_definition.extract_definition(context(), cluster)
        self.assertEqual('boot', made.shown['user_data'])
        self.assertEqual((made.params['user_data'],), made.secrets)
        self.assertIn('"hidden": true', made.files['node.yaml'])
