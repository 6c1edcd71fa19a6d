"""Plans that take machines over: what they show, and what they refuse."""

from kiln.cluster_service.requests import Delete, TakeOver
from kiln.clusters.exceptions import ClusterExists, InvalidCluster
from kiln.compute.facade import Compute
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.models import Ability
from tests.unit.cluster_service.site import ConductedCase, declared
from tests.unit.engine.site import STACK

FILE = """\
cluster: web
coe: nodes
image: debian-13
flavor: small
nodegroups:
  - name: front
    count: 1
  - name: work
    count: 2
    zones: {az1: 1, az2: 1}
"""


class TakingOverCase(ConductedCase):
    """Has machines that belong to nobody."""

    def setUp(self):
        super().setUp()
        self.front = self.machine('front-0')
        self.work = [self.machine(f'work-{n}', zone=f'az{n + 1}') for n in range(2)]

    def machine(self, name, *, zone='az1', flavor='small', image='debian-13'):
        return self.cloud.make_unowned(name, flavor=flavor, image_id=image, availability_zone=zone)

    @property
    def pairs(self):
        return (('front', self.front), *(('work', one) for one in self.work))

    def request(self, *pairs, text=FILE):
        request = declared(text)
        return TakeOver(
            spec=request.spec, templates=request.templates, machines=pairs or self.pairs
        )

    def refused(self, pattern, request):
        with self.assertRaisesRegex(InvalidCluster, pattern):
            self.clusters.plan(request)
        self.assertEqual((), self.clusters.list())


class TakingOver(TakingOverCase):
    def test_the_plan_shows_the_machines_and_builds_none(self):
        proposal = self.clusters.plan(self.request())
        lines = list(proposal.lines())
        self.assertIn('front: =1 that exist: front-0', lines)
        self.assertIn('work: =2 that exist: work-0, work-1', lines)
        self.assertFalse([line for line in lines if '+' in line.partition(': ')[2][:2]][1:])
        self.assertEqual((), proposal.notices)

    def test_the_machines_become_the_nodes(self):
        self.done(self.request())
        view = self.clusters.show('web')
        self.assertEqual(
            {('front-0', self.front), ('work-0', self.work[0]), ('work-1', self.work[1])},
            {(node.name, node.compute_id) for node in view.nodes},
        )
        self.assertEqual('ready', view.state)
        self.done(Delete(cluster='web'))
        self.assertEqual([], self.machines())

    def test_nodes_that_lack_machines_are_shown_as_built(self):
        lines = self.lines(self.request(('front', self.front), ('work', self.work[0])))
        self.assertTrue(any(line.startswith('work: +1') for line in lines), lines)

    def test_no_machine_is_removed(self):
        self.refused(
            '3 machines are to be taken over, and its count is 2',
            self.request(*self.pairs, ('work', self.machine('work-2'))),
        )

    def test_machines_in_other_places_than_declared_are_refused(self):
        text = FILE.replace('{az1: 1, az2: 1}', '{az1: 2}')
        self.refused('1 machines do not fit its flavors and zones', self.request(text=text))

    def test_another_flavor_or_image_is_named_and_stays(self):
        self.front = self.machine('odd', flavor='large', image='debian-12')
        notices = self.clusters.plan(self.request()).notices
        self.assertIn('odd has flavor large, and group front has small: it stays', notices[0])
        self.assertIn('odd has image debian-12', notices[1])

    def test_a_group_that_is_not_declared_is_refused(self):
        self.refused('has no such group', self.request(('none', self.front)))

    def test_a_machine_of_another_site_or_cluster_or_of_nothing_is_refused(self):
        theirs = NoopDriver(cloud=self.cloud)
        theirs.owner = 'another'
        theirs.claim(self.front, 'k')
        self.refused('it belongs to another', self.request())
        self.refused('nothing-1', self.request(('front', 'nothing-1')))
        self.front = self.machine('front-0')
        self.done(self.request())
        request = self.request(text=FILE.replace('cluster: web', 'cluster: shop'))
        with self.assertRaisesRegex(InvalidCluster, 'already a node of a cluster'):
            self.clusters.plan(request)
        with self.assertRaises(ClusterExists):
            self.clusters.plan(self.request())


class WithoutClaims(TakingOverCase):
    """The same machines on a backend that claims none."""

    def open_backend(self, name):
        driver = NoopDriver(cloud=self.cloud)
        driver.missing_abilities = frozenset({Ability.CLAIM})
        return Compute(driver, settings=STACK)

    def test_machines_of_nobody_are_refused(self):
        self.refused('backend .* claims no machines of nobody', self.request())
