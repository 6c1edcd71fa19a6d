"""Clusters that go on with a stack that exists, on a Heat that is played."""

import dataclasses

from kiln.cluster_drivers.discovery.directory import load_directory
from kiln.cluster_drivers.heat.adoption import parameter_facts
from kiln.cluster_drivers.heat.mappings import Definition
from kiln.cluster_drivers.heat.names import owner_of, tags
from kiln.cluster_drivers.heat_generated_v1.driver import Driver as GeneratedDriver
from kiln.cluster_drivers.values import PlannedChange, Progress
from kiln.clusters.exceptions import ClusterDriverError, MissingCapability
from kiln.clusters.models import OperationKind
from tests.unit.cluster_drivers.heat.driver_case import DriverCase
from tests.unit.cluster_drivers.heat.made import cluster_of, on_heat
from tests.unit.test_layering import ROOT

MAGNUM = ROOT / 'doc/examples/cluster_drivers/magnum_on_heat_v1'
NAME = 'shop-rz3k5ab2'
FILE = """\
cluster: shop
coe: kubernetes
image: coreos-38
networks: [net1]
nodegroups:
  - {name: master, role: control, count: 1, flavor: medium}
  - {name: worker, count: 3, flavor: large}
"""


class AdoptionCase(DriverCase):
    def setUp(self):
        super().setUp()
        self.driver = on_heat(load_directory(MAGNUM), self.heat, self.clock)
        self.cluster = cluster_of(FILE)
        self.stack = self.made()

    def made(self, name=NAME, text=FILE, **more):
        """Return a stack that was made by hand, as a file says."""
        definition = self.driver.template_definition
        return self.heat.make(
            name, definition.extract_definition(self.context, cluster_of(text)), **more
        )

    def find(self, reference=NAME):
        found = self.driver.find_existing(
            context=self.context, cluster=self.cluster, reference=reference
        )
        self.cluster = dataclasses.replace(self.cluster, driver_state=found.driver_state)
        return found

    def preview(self):
        plan = PlannedChange(kind=OperationKind.CREATE)
        return self.driver.preview_cluster(self.context, self.cluster, plan)

    def adopt(self):
        self.find()
        self.create()
        self.assertIs(Progress.COMPLETE, self.work().progress)
        self.heat.requests.clear()

    @property
    def ids(self):
        return {name: one['id'] for name, one in self.stack['live'].items()}

    def refused(self, pattern, reference=NAME):
        with self.assertRaisesRegex(ClusterDriverError, pattern) as caught:
            self.find(reference)
        self.assertFalse(caught.exception.retryable)
        self.assertEqual(set(), {method for method, _ in self.heat.requests} - {'GET'})


class GoingOn(AdoptionCase):
    def test_the_stack_keeps_its_name_its_id_and_its_servers(self):
        before = self.ids
        self.assertEqual(4, len(before))
        self.adopt()
        self.assertEqual((NAME, before), (self.stack['name'], self.ids))
        self.assertEqual([self.stack], [*self.heat.stacks.values()])
        self.assertEqual(NAME, self.cluster.driver_handle)
        self.assertEqual(f'cluster {self.cluster.id} of site east', owner_of(self.stack['tags']))

    def test_it_is_found_by_its_id_too(self):
        self.find(self.stack['id'])
        self.create()
        self.assertIs(Progress.COMPLETE, self.work().progress)

    def test_later_changes_are_changes_of_the_same_stack(self):
        self.adopt()
        self.change(FILE.replace('count: 3', 'count: 4'))
        self.call('update_cluster')
        self.assertIs(Progress.COMPLETE, self.work().progress)
        self.assertEqual(5, len(self.ids))
        self.assertEqual(1, len(self.heat.stacks))

    def test_the_deletion_of_the_cluster_deletes_the_stack(self):
        self.adopt()
        self.call('delete_cluster')
        self.assertIs(Progress.COMPLETE, self.work().progress)
        self.assertEqual({}, self.heat.stacks)

    def test_a_creation_that_is_repeated_without_its_answer_updates_the_stack_once(self):
        self.find()
        found = self.cluster
        self.create()
        self.cluster = found
        self.create()
        self.assertEqual(1, self.methods.count('PUT'))
        self.assertIs(Progress.COMPLETE, self.work().progress)

    def test_a_creation_that_failed_goes_on_when_it_is_repeated_or_updated(self):
        self.find()
        for method in ('create_cluster', 'update_cluster', 'update_cluster'):
            self.heat.fail('no room' if method == 'create_cluster' else '')
            more = {'cluster_create_timeout': 60.0} if method == 'create_cluster' else {}
            self.call(method, **more)
            report = self.work()
        self.assertIs(Progress.COMPLETE, report.progress)
        self.assertEqual([NAME], [one['name'] for one in self.heat.stacks.values()])

    def test_an_update_before_any_creation_was_accepted_goes_on_with_the_stack(self):
        self.find()
        self.call('update_cluster')
        self.assertIs(Progress.COMPLETE, self.work().progress)
        self.assertEqual(1, len(self.heat.stacks))

    def test_a_stack_that_somebody_changes_meanwhile_is_waited_for(self):
        self.find()
        self.stack['status'] = 'IN_PROGRESS'
        with self.assertRaises(ClusterDriverError) as caught:
            self.create()
        self.assertTrue(caught.exception.retryable)

    def test_a_stack_that_has_gone_meanwhile_is_not_made_again(self):
        self.find()
        self.heat.stacks.clear()
        with self.assertRaisesRegex(ClusterDriverError, 'it is gone') as caught:
            self.create()
        self.assertFalse(caught.exception.retryable)
        self.assertNotIn('POST', self.methods)

    def test_a_stack_that_another_cluster_has_got_meanwhile_is_left_to_it(self):
        self.find()
        self.stack['tags'] = tags('east', cluster_of(FILE, id_='c2'), 'x')
        for method in ('create_cluster', 'update_cluster'):
            more = {'cluster_create_timeout': 60.0} if method == 'create_cluster' else {}
            with self.assertRaisesRegex(ClusterDriverError, 'it is that of cluster c2'):
                self.call(method, **more)
        self.assertIs(Progress.COMPLETE, self.call('delete_cluster').progress)
        self.assertEqual(set(), set(self.methods) - {'GET'})

    def test_a_stack_that_another_cluster_takes_later_is_left_to_it(self):
        self.adopt()
        self.stack['tags'] = tags('east', cluster_of(FILE, id_='c2'), 'x')
        self.assertIs(Progress.FAILED, self.poll().progress)
        self.call('delete_cluster')
        self.assertNotIn('DELETE', self.methods)

    def test_a_deletion_leaves_a_stack_that_no_creation_has_reached(self):
        self.find()
        self.assertIs(Progress.COMPLETE, self.call('delete_cluster').progress)
        self.assertEqual('CREATE', self.stack['action'])

    def test_a_deletion_after_a_creation_without_its_answer_deletes_the_stack(self):
        self.find()
        found = self.cluster
        self.create()
        self.cluster = found
        self.call('delete_cluster')
        self.work()
        self.assertEqual({}, self.heat.stacks)


class Plans(AdoptionCase):
    def test_a_stack_that_is_as_declared_changes_in_nothing_but_its_owner(self):
        found = self.find()
        self.assertEqual(
            (
                f'Heat: stack {NAME} ({self.stack["id"]}) is CREATE_COMPLETE, and becomes that '
                f'of the cluster',
            ),
            found.facts,
        )
        self.assertEqual((), self.preview())

    def test_the_nodes_that_would_be_lost_are_named(self):
        self.cluster = cluster_of(FILE.replace('count: 3', 'count: 2'))
        self.find()
        self.assertIn(
            'Heat would delete nodes, and what is on them is lost: kube_minions.2',
            self.preview(),
        )

    def test_parameters_that_change_are_named_with_both_values(self):
        self.cluster = cluster_of(FILE.replace('large', 'huge'))
        self.assertIn(
            'Heat: parameters that change: minion_flavor (large -> huge)', self.find().facts
        )

    def test_parameters_that_the_driver_does_not_set_are_named(self):
        declared = self.stack['template']['parameters']
        self.stack['template'] = {
            **self.stack['template'],
            'parameters': {**declared, 'prometheus': {}, 'token': {'hidden': True}},
        }
        self.stack['parameters'] |= {'prometheus': 'true', 'token': 'secret'}
        facts = self.find().facts
        self.assertIn(
            'Heat: parameters that the driver does not set: prometheus (true -> none)', facts
        )
        self.assertNotIn('token', ' '.join(facts))

    def test_the_plain_value_of_what_the_new_template_hides_and_nobody_sets_is_not_shown(self):
        declared = {'token': {'type': 'string', 'hidden': True, 'default': ''}, 'size': {}}
        definition = Definition(template={'parameters': declared}, files={}, params={}, shown={})
        (fact,) = parameter_facts({'token': 'old-and-plain', 'size': '2'}, definition)
        self.assertEqual('Heat: parameters that the driver does not set: size (2 -> none)', fact)


class Refusals(AdoptionCase):
    def test_a_stack_that_does_not_exist_is_refused(self):
        self.refused("Heat has no stack 'none'.*Name one of", 'none')

    def test_a_stack_that_heat_works_on_is_refused(self):
        for action in ('CREATE', 'UPDATE'):
            self.stack.update(action=action, status='IN_PROGRESS')
            self.refused(f'it is {action}_IN_PROGRESS. Wait until')

    def test_a_stack_that_is_being_deleted_or_has_failed_is_refused(self):
        for action, status, pattern in (
            ('DELETE', 'IN_PROGRESS', 'it is DELETE_IN_PROGRESS'),
            ('DELETE', 'FAILED', 'it is DELETE_FAILED'),
            ('UPDATE', 'FAILED', 'it is UPDATE_FAILED: no room. Have it mended'),
        ):
            self.stack.update(action=action, status=status, reason='no room.')
            self.refused(pattern)

    def test_a_suspended_stack_is_refused(self):
        self.stack.update(action='SUSPEND', status='COMPLETE')
        self.refused('it is SUSPEND_COMPLETE, and Heat changes no such stack. Bring it back')

    def test_a_stack_whose_update_was_rolled_back_is_adopted(self):
        self.stack.update(action='ROLLBACK', status='COMPLETE')
        self.adopt()

    def test_a_stack_of_a_cluster_of_this_site_or_another_is_refused(self):
        for site in ('east', 'west'):
            self.stack['tags'] = tags(site, cluster_of(FILE, id_='c2'), 'x')
            self.refused(f'it is that of cluster c2 of site {site}')

    def test_a_part_of_another_stack_is_refused(self):
        part = self.made(f'{NAME}-kube_masters', parent=self.stack['id'])
        for reference in (part['id'], part['name']):
            self.refused('it is a part of another stack', reference)

    def test_a_driver_that_names_all_nodes_itself_goes_on_with_no_stack(self):
        self.driver = on_heat(GeneratedDriver, self.heat, self.clock)
        with self.assertRaisesRegex(MissingCapability, 'would replace nodes of a stack'):
            self.find()
        self.assertEqual([], self.heat.requests)
