"""Ports of security groups, as Neutron has their rules."""

from kiln.exceptions import InvalidRequest
from tests.unit.compute_drivers.nova.test_names import Backend, listing
from tests.unit.compute_drivers.nova.test_rules import SWARM, rule

RULES = 'GET /v2.0/security-group-rules'
GROUPS = 'GET /v2.0/security-groups'
OPEN = rule(remote_group_id='g-open')
#: A new group has such a rule, and none for what comes in.
OUT = rule(direction='egress')


class Ports(Backend):
    """Groups: open to its members, open to those of the first, shut, and without a rule."""

    def setUp(self):
        super().setUp()
        self.rules = {
            'g-open': [OPEN],
            'g-behind': [rule('udp', remote_group_id='g-open')],
            'g-shut': [OUT],
            'g-hidden': [],
            'g-default': [rule(remote_group_id='g-default')],
        }
        known = [(one.removeprefix('g-'), one) for one in self.rules]
        self.cloud.answers[GROUPS] = listing('security_groups', *known)
        self.cloud.answers[RULES] = self.rules_of

    def rules_of(self, query):
        asked = query['security_group_id']
        ids = [asked] if isinstance(asked, str) else asked
        found = [{**rule, 'security_group_id': one} for one in ids for rule in self.rules[one]]
        return {'security_group_rules': found}

    def refused(self, driver, *args):
        with self.assertRaises(InvalidRequest) as caught:
            driver.check_ports(*args)
        return caught.exception

    def queries(self, path):
        return [query for what, query in self.cloud.queries if what == path]

    def test_a_group_that_opens_all_to_its_members_is_accepted(self):
        self.open().check_ports(['open'], SWARM)
        (query,) = self.queries(RULES)
        self.assertEqual({'security_group_id': 'g-open'}, query)

    def test_closed_ports_are_named_with_what_to_do(self):
        error = self.refused(self.open(), ['shut'], SWARM)
        self.assertEqual(
            'Cannot use security group shut: no rule opens 2377/tcp, 7946/tcp, 7946/udp, '
            '4789/udp to other members. Add a rule for each port, with the group itself as its '
            'remote group.',
            str(error),
        )
        self.assertEqual('shut', error.resource_id)

    def test_the_rules_of_several_groups_are_read_at_once_and_count_together(self):
        driver = self.open()
        driver.check_ports(['shut', 'open'], SWARM)
        (query,) = self.queries(RULES)
        self.assertEqual(['g-shut', 'g-open'], query['security_group_id'])
        error = self.refused(driver, ['shut', 'behind'], SWARM)
        self.assertIn('Cannot use security groups shut, behind together: no rule', str(error))

    def test_ports_can_be_open_to_the_members_of_another_group(self):
        driver = self.open()
        driver.check_ports(['behind'], ['7946/udp'], ['open'])
        driver.check_ports(['behind'], ['7946/udp'], ['shut', 'open'])
        error = self.refused(driver, ['behind'], SWARM, ['open'])
        self.assertIn(
            'no rule opens 2377/tcp, 7946/tcp to members of open. Add a rule for each port, with '
            'open as its remote group.',
            str(error),
        )
        self.assertIn('7946/udp', str(self.refused(driver, ['behind'], SWARM)))

    def test_a_machine_without_groups_has_those_of_the_backend_or_the_default_one(self):
        self.open().check_ports([], SWARM)
        driver = self.open('security_groups = shut')
        error = self.refused(driver, [], SWARM)
        self.assertIn('Cannot use security group shut: no rule opens 2377/tcp', str(error))
        driver.check_ports(['open'], SWARM, ['open'])
        self.assertIn('to members of shut', str(self.refused(driver, ['open'], SWARM, [])))

    def test_a_default_group_without_rules_closes_ports_unless_a_network_has_no_port_security(
        self,
    ):
        driver = self.open()
        self.rules['g-default'] = [OUT]
        self.cloud.answers['GET /v2.0/networks'] = {'networks': [{'port_security_enabled': True}]}
        self.assertIn('security group default', str(self.refused(driver, [], SWARM)))
        for network in ({'port_security_enabled': False}, {'port_security_enabled': True}):
            self.cloud.answers['GET /v2.0/networks']['networks'].append(network)
        driver.check_ports([], SWARM)

    def test_a_rule_that_was_added_meanwhile_opens_its_ports(self):
        driver = self.open()
        self.refused(driver, ['shut'], SWARM)
        self.rules['g-shut'] = [rule('tcp'), rule('udp')]
        driver.check_ports(['shut'], SWARM)

    def test_a_group_that_was_made_again_is_found_by_its_name(self):
        driver = self.open()
        self.refused(driver, ['shut'], SWARM)
        self.rules['g-new'] = [rule(remote_group_id='g-new')]
        self.cloud.answers[GROUPS] = listing('security_groups', ('shut', 'g-new'))
        driver.check_ports(['shut'], SWARM)

    def test_a_group_whose_rules_the_project_may_not_see_is_accepted(self):
        driver = self.open()
        driver.check_ports(['hidden'], SWARM)
        driver.check_ports(['shut', 'hidden'], SWARM)

    def test_each_unknown_group_is_named_by_its_own_error(self):
        for groups, peers in ((['open', 'wbe'], None), (['open'], ['wbe'])):
            error = self.refused(self.open(), groups, SWARM, peers)
            self.assertIn("security group 'wbe' was not found. Known: ", str(error))
            self.assertEqual('wbe', error.resource_id)
