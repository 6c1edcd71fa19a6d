"""Clusters whose credentials come to lead to another project or region."""

from kiln.cluster_drivers.heat.connections import Connections
from kiln.cluster_drivers.values import PlannedChange, Progress
from kiln.clusters.exceptions import ClusterDriverError
from kiln.clusters.models import OperationKind
from tests.unit.cluster_drivers.heat.driver_case import DriverCase
from tests.unit.cluster_drivers.heat.made import client_settings

ELSEWHERE = (
    'The stack of cluster shop is in project p1, and its credentials lead to project p2 now. Give '
    'it credentials of project p1.'
)


class Places(DriverCase):
    def setUp(self):
        super().setUp()
        self.lead_to('p1')

    def lead_to(self, project, **more):
        """Let the credentials be those of a project, which has no stack so far."""
        self.heat.project, self.heat.stacks = project, {}
        settings = client_settings(
            self.heat.url, auth_type='v3password', username='u', password='p',
            auth_url=self.heat.url.rpartition('/v1')[0] + '/v3', user_domain_name='d', **more,
        )  # fmt: skip
        self.driver.connections = Connections(lambda document: settings)

    def refused(self, call, *args, **more):
        self.heat.requests.clear()
        with self.assertRaises(ClusterDriverError) as caught:
            call(*args, **more)
        self.assertLessEqual({*self.methods}, {'GET', 'POST'})
        self.assertEqual({}, self.heat.stacks)
        return str(caught.exception)

    def test_nothing_is_made_or_taken_for_deleted_in_another_project(self):
        self.settle()
        self.assertEqual('p1', self.cluster.driver_state['project'])
        self.lead_to('p2')
        self.change()
        plan = PlannedChange(kind=OperationKind.UPDATE)
        for call, *args in (
            (self.call, 'update_cluster'), (self.call, 'delete_cluster'), (self.poll,),
            (self.driver.preview_cluster, self.context, self.cluster, plan),
        ):  # fmt: skip
            with self.subTest(call):
                self.assertEqual(ELSEWHERE, self.refused(call, *args))

    def test_a_deletion_whose_credentials_change_is_not_complete(self):
        self.settle()
        self.call('delete_cluster')
        self.lead_to('p2')
        self.assertEqual(ELSEWHERE, self.refused(self.poll))

    def test_a_region_is_part_of_the_place_once_it_is_named(self):
        self.settle()
        stacks = self.heat.stacks
        self.lead_to('p1', region_name='east')
        self.heat.stacks = stacks
        self.change()
        self.call('update_cluster')
        self.assertEqual('east', self.cluster.driver_state['region'])
        self.lead_to('p1', region_name='west')
        self.assertIn('is in region east', self.refused(self.call, 'update_cluster'))

    def test_a_state_without_a_project_takes_the_one_of_now(self):
        self.settle()
        self.cluster.driver_state.pop('project')
        self.change()
        self.call('update_cluster')
        self.assertEqual('p1', self.cluster.driver_state['project'])
        self.assertIs(Progress.COMPLETE, self.work().progress)
