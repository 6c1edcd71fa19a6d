"""The plan of a request, before anything is done."""

import collections
import json
import shutil

from kiln.cluster_service.preflight import AT_ONCE
from kiln.cluster_service.requests import (
    Check,
    Delete,
    GoBack,
    MoveDriver,
    Reboot,
    Rebuild,
    Replace,
    Resize,
    Upgrade,
)
from kiln.clusters.exceptions import (
    ClusterChanged,
    ClusterDriverMismatch,
    ClusterError,
    ClusterNotFound,
    DriverSelectionError,
    InvalidCluster,
)
from kiln.clusters.models import OperationKind
from kiln.clusters.spec import MachineSpec
from kiln.compute.facade import Compute
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.compute_drivers.noop.faults import Fault
from kiln.exceptions import (
    AmphoraComputeError,
    AuthenticationFailed,
    InvalidBuildRequest,
    UnsupportedOperation,
)
from kiln.models import Ability, AmphoraType, Limits
from tests.unit.cluster_service.site import CLOUD, WEB, ConductedCase, SiteCase, declared
from tests.unit.engine.groups import units
from tests.unit.engine.site import STACK
from tests.unit.test_layering import ROOT


class New(SiteCase):
    def test_a_new_cluster_is_shown_with_its_driver_and_nodes(self):
        proposal = self.plan()
        self.assertEqual(
            [
                'web: + cluster of driver nodes_v1 1.0.0',
                'front: +2 of the default flavor (fills the largest deficit)',
                'work: +1 large in az1 (fills the largest deficit)',
                'work: +1 small in az1 (fills the largest deficit)',
                'work: +1 small in az2 (fills the largest deficit)',
            ],
            list(proposal.lines()),
        )
        self.assertEqual('create', proposal.to_dict()['kind'])
        self.assertFalse(proposal.empty)

    def test_a_plan_changes_nothing(self):
        self.plan()
        self.assertEqual((), self.clusters.list())
        self.assertEqual(0, self.cloud.count())

    def test_the_choice_of_the_driver_is_recorded(self):
        decision = self.plan().cluster.decision
        self.assertIn('wanted: (vm, *, nodes)', decision['steps'])

    def test_open_values_come_from_the_template_in_the_file(self):
        text = 'template: small\ncoe: nodes\nnodegroups: [{name: work, count: 3}]\n---\n'
        proposal = self.plan(text + 'cluster: web\ntemplate: small\n')
        self.assertEqual(3, units(proposal.plan) - 1)

    def test_open_values_come_from_a_stored_template(self):
        text = 'template: small\ncoe: nodes\nnodegroups: [{name: work, count: 3}]\n---\n'
        (template,) = declared(text + 'cluster: web\ntemplate: small\n').templates
        self.clusters.templates.save(template)
        plan = self.plan('cluster: web\ntemplate: small\n').plan
        self.assertEqual(3, units(plan) - 1)

    def test_an_unknown_template_is_named(self):
        with self.assertRaisesRegex(ClusterNotFound, "template 'none'"):
            self.plan('cluster: web\ntemplate: none\n')

    def test_002_3_a_property_of_the_image_chooses_the_driver(self):
        proposal = self.plan(WEB.replace('debian-13', 'chosen'))
        asked = 'property kiln_driver of image chosen chosen'
        self.assertTrue(any(asked in step for step in proposal.cluster.decision['steps']))
        text = WEB.replace('debian-13', 'chosen').replace('coe: nodes', 'coe: example')
        with self.assertRaisesRegex(ClusterDriverMismatch, asked):
            self.plan(text)

    def test_001_14_the_driver_can_be_named_and_is_validated(self):
        self.assertEqual('nodes_v1', self.plan().cluster.pin.name)
        for text in (f'{WEB}driver: nodes_v1\n', WEB.replace('coe: nodes', 'driver: nodes_v1')):
            self.assertEqual('nodes_v1', self.plan(text).cluster.pin.name)
        for wish, told in (
            ('node_v1', 'Did you mean "nodes_v1"'),
            ('nodes_v1==9.*', '9'),
        ):
            with self.subTest(wish), self.assertRaisesRegex(DriverSelectionError, told):
                self.plan(f'{WEB}driver: {wish}\n')
        with self.assertRaises(InvalidCluster):
            self.plan(f'{WEB}driver: 5\n')

    def test_001_14_what_it_runs_stays_a_filter_beside_the_driver(self):
        with self.assertRaisesRegex(ClusterDriverMismatch, 'example_v1. 1.0.0 does not build'):
            self.plan(f'{WEB}driver: example_v1\n')
        for coe in ('nodes', 'example'):
            pin = self.plan(WEB.replace('coe: nodes', f'coe: {coe}')).cluster.pin
            self.assertEqual(f'{coe}_v1', pin.name)

    def test_the_system_of_the_image_is_part_of_the_choice(self):
        steps = self.plan(WEB.replace('debian-13', 'debian')).cluster.decision['steps']
        self.assertIn('wanted: (vm, debian, nodes)', steps)

    def test_an_unconfigured_backend_is_named(self):
        with self.assertRaisesRegex(InvalidCluster, 'compute_driver.*nowhere'):
            self.plan(WEB + 'compute_driver: nowhere\n')

    def test_a_cluster_that_no_driver_builds_is_refused(self):
        with self.assertRaises(DriverSelectionError):
            self.plan(WEB.replace('coe: nodes', 'coe: mainframe'))


class Preflighted(SiteCase):
    def problems(self, text):
        with self.assertRaises(InvalidCluster) as caught:
            self.plan(text)
        return {problem.path: problem.message for problem in caught.exception.problems}

    def test_missing_backend_resources_are_reported_before_anything_is_built(self):
        text = WEB.replace('small: 2', 'huge: 2').replace('az2: 1', 'az9: 1')
        found = self.problems(text)
        self.assertIn('huge', found['nodegroups[1].flavors'])
        self.assertIn('az9', found['nodegroups[1].zones'])
        self.assertEqual(0, self.cloud.count())

    def test_fallbacks_are_checked_too(self):
        text = WEB.replace('count: 2', 'count: 2\n    fallback: {flavors: [huge], zones: [az9]}')
        self.assertEqual({'nodegroups[0].fallback'}, set(self.problems(text)))

    def test_an_unknown_parameter_is_reported(self):
        found = self.problems(WEB + 'parameters: {colour: red}\n')
        self.assertIn('colour', str(found))

    def test_counts_that_do_not_add_up_are_reported(self):
        text = WEB.replace('count: 2', 'count: 2\n    max_count: 1')
        with self.assertRaises(InvalidCluster):
            self.plan(text)


class Questions(SiteCase):
    """A backend that counts its queries."""

    def setUp(self):
        self.asked = collections.Counter()
        super().setUp()

    def open_backend(self, name):
        asked = self.asked

        class Counting(NoopDriver):
            def _validate_flavor(self, flavor):
                asked[flavor] += 1
                return super()._validate_flavor(flavor)

            def _validate_image(self, image_id):
                asked[image_id] += 1
                return super()._validate_image(image_id)

            def _validate_zone(self, availability_zone):
                asked[availability_zone] += 1
                return super()._validate_zone(availability_zone)

        return Compute(Counting(cloud=self.cloud), settings=STACK)

    def many(self, **more):
        groups = [
            {'name': f'group-{n}', 'count': 2, 'flavor': 'small', 'zones': {'az1': 2}, **more}
            for n in range(8)
        ]
        return json.dumps({'cluster': 'web', 'coe': 'nodes', 'image': 'i', 'nodegroups': groups})

    def test_a_backend_is_queried_once_for_all_groups(self):
        self.plan(self.many())
        self.assertEqual({'small': 1, 'az1': 1, 'i': 1}, self.asked)

    def test_its_answer_is_reported_for_every_group(self):
        with self.assertRaises(InvalidCluster) as caught:
            self.plan(self.many(flavor='huge'))
        self.assertEqual(
            {f'nodegroups[{n}].flavors' for n in range(8)},
            {problem.path for problem in caught.exception.problems},
        )
        self.assertEqual(1, self.asked['huge'])

    def test_queries_beyond_the_limit_are_all_made(self):
        zones = [f'zone-{n}' for n in range(AT_ONCE + 3)]
        with self.assertRaises(InvalidCluster) as caught:
            self.plan(self.many(fallback={'zones': zones}))
        self.assertEqual(set(zones), self.asked.keys() - {'small', 'az1', 'i'})
        self.assertIn(zones[-1], str(caught.exception))


class WrongImages(SiteCase):
    cloud_options = CLOUD | {'images': ('debian-13',)}

    def problems(self, text):
        with self.assertRaises(InvalidCluster) as caught:
            self.plan(text)
        return [(one.path, one.message) for one in caught.exception.problems]

    def test_a_wrong_image_does_not_hide_wrong_flavors_and_zones(self):
        groups = [{'name': 'work', 'flavors': {'huge': 1}, 'zones': {'az9': 1}}]
        wrong = {'cluster': 'web', 'coe': 'nodes', 'image': 'suse', 'nodegroups': groups}
        found = self.problems(json.dumps(wrong))
        self.assertEqual(
            ['image', 'nodegroups[0].flavors', 'nodegroups[0].zones'],
            sorted(path for path, _ in found),
        )
        self.assertEqual(1, sum('suse' in message for _, message in found))

    def test_without_a_driver_for_the_unknown_image_the_image_is_the_mistake(self):
        wrong = {'cluster': 'web', 'coe': 'mesos', 'image': 'suse', 'nodegroups': []}
        wrong['nodegroups'].append({'name': 'work', 'count': 1})
        self.assertEqual(['image'], [path for path, _ in self.problems(json.dumps(wrong))])


class WrongNetworks(SiteCase):
    cloud_options = CLOUD | {'networks': ('net1', 'net2'), 'sec_groups': ('web',)}

    def problems(self, **group):
        page = {'cluster': 'web', 'coe': 'nodes', 'image': 'i', 'nodegroups': []}
        page['nodegroups'].append({'name': 'work', 'count': 1, **group})
        with self.assertRaises(InvalidCluster) as caught:
            self.plan(json.dumps(page))
        return {one.path: one.message for one in caught.exception.problems}

    def test_an_unknown_network_and_security_group_are_refused_with_the_known_ones(self):
        found = self.problems(networks=['net1', 'net3'], sec_groups=['wbe'])
        self.assertEqual(
            {
                'nodegroups[0].networks': "Cannot use network 'net3': it does not exist; "
                'known: net1, net2.',
                'nodegroups[0].sec_groups': "Cannot use security group 'wbe': it does not "
                'exist; known: web.',
            },
            found,
        )

    def test_one_address_for_several_nodes_is_refused(self):
        cluster = {'cluster': 'web', 'coe': 'nodes', 'image': 'i'}
        for count, expected in ((2, '2 nodes cannot have one address, fd00::7'), (1, None)):
            group = {'name': 'work', 'count': count, 'networks': ['net1=fd00::7']}
            page = json.dumps(cluster | {'nodegroups': [group]})
            with self.subTest(count):
                if expected is None:
                    self.assertIn('work: +1', '\n'.join(self.plan(page).lines()))
                    continue
                with self.assertRaises(InvalidCluster) as caught:
                    self.plan(page)
                (problem,) = caught.exception.problems
                self.assertEqual(
                    ('nodegroups[0].networks', expected), (problem.path, problem.message)
                )

    def test_known_ones_are_accepted(self):
        groups = [{'name': 'work', 'count': 1, 'networks': ['net2'], 'sec_groups': ['web']}]
        page = {'cluster': 'web', 'coe': 'nodes', 'image': 'i', 'nodegroups': groups}
        self.assertIn('work: +1', '\n'.join(self.plan(json.dumps(page)).lines()))


class WithoutNetworks(SiteCase):
    """A backend whose builds take neither networks nor keys, as a pool of enrolled machines."""

    def open_backend(self, name):
        class Bare(NoopDriver):
            limits = Limits(refused_options=frozenset({'network_ids', 'keys'}))

        return Compute(Bare(cloud=self.cloud), settings=STACK)

    def test_what_builds_refuse_is_refused_before_anything_is_made(self):
        for field in ('networks', 'keys'):
            page = WEB + f'{field}: [one]\n'
            with self.subTest(field), self.assertRaises(InvalidCluster) as caught:
                self.plan(page)
            for problem in caught.exception.problems:
                self.assertRegex(problem.path, rf'nodegroups.[01].\.{field}')
                self.assertIn(f'does not support {field}; remove them', problem.message)


class WrongCredentials(SiteCase):
    """The credentials of kiln are refused, whatever the file says."""

    def open_backend(self, name):
        class Refusing(NoopDriver):
            def _refuse(self, what):
                raise AuthenticationFailed('Keystone refuses the credentials (401).')

            _describe_image = _validate_image = _validate_flavor = _refuse

        return Compute(Refusing(cloud=self.cloud), settings=STACK)

    def test_they_are_not_a_mistake_of_the_file(self):
        groups = [{'name': 'work', 'count': 1, 'flavor': 'small'}]
        # The image is described to choose a driver, and flavors are checked once there is one.
        for more in ({}, {'driver': 'nodes_v1'}):
            page = {'cluster': 'web', 'coe': 'nodes', 'image': 'i', 'nodegroups': groups} | more
            with self.subTest(more), self.assertRaises(AuthenticationFailed):
                self.plan(json.dumps(page))


class ImagesOfAnotherEngine(SiteCase):
    """The backend of the site does not have the image, and does not build the nodes."""

    def open_backend(self, name):
        class Lacking(NoopDriver):
            def _describe_image(self, image):
                raise InvalidBuildRequest(f'no such image: {image}')

        return Compute(Lacking(cloud=self.cloud), settings=STACK)

    def setUp(self):
        super().setUp()
        examples = ROOT / 'doc/examples/cluster_drivers'
        shutil.copytree(examples / 'stack_v1', self.driver_path / 'stack_v1')

    def test_an_image_is_not_looked_for_where_an_engine_of_the_driver_has_it(self):
        for names in ('driver: stack_v1', 'coe: stack', 'coe: stack\ndriver: stack_v1'):
            with self.subTest(names):
                cluster = self.plan(WEB.replace('coe: nodes', names)).cluster
                self.assertEqual('stack_v1', cluster.pin.name)

    def test_it_is_looked_for_where_the_backend_builds_the_nodes(self):
        for names in ('driver: nodes_v1', 'coe: nodes'):
            with self.subTest(names), self.assertRaisesRegex(InvalidCluster, 'no such image'):
                self.plan(WEB.replace('coe: nodes', names))


class Unable(SiteCase):
    """A backend that builds only virtual machines, cannot reboot, and is unavailable at times."""

    def open_backend(self, name):
        class Little(NoopDriver):
            limits = Limits(amphora_types=frozenset({AmphoraType.VM}))
            missing_abilities = frozenset({Ability.REBOOT, Ability.DESCRIBE_IMAGE})

        return Compute(Little(cloud=self.cloud), settings=STACK)

    def test_machines_of_another_type_are_refused(self):
        with self.assertRaisesRegex(InvalidCluster, 'does not build bare_metal; it builds vm'):
            self.plan(WEB + 'server_type: bare_metal\ndriver: nodes_v1\n')

    def test_a_backend_that_cannot_describe_images_leaves_the_choice_to_the_rest(self):
        steps = self.plan(WEB.replace('debian-13', 'debian')).cluster.decision['steps']
        self.assertIn('wanted: (vm, *, nodes)', steps)

    def test_an_unavailable_backend_is_not_a_mistake_in_the_file(self):
        self.cloud.faults.add(Fault.parse('validate_flavor:refuse'))
        # It is queried repeatedly for as long.
        self.check_timeout_s = 0.5
        with self.assertRaises(AmphoraComputeError) as caught:
            self.open_site().clusters.plan(declared(WEB))
        self.assertTrue(caught.exception.retryable)

    def test_001_8_a_missing_ability_is_refused_before_it_is_submitted(self):
        with self.site.conducting():
            operation = self.apply(declared(WEB))
            self.ended(operation)
            with self.assertRaisesRegex(UnsupportedOperation, 'lacks the ability reboot'):
                self.clusters.plan(Reboot(cluster='web'))


class Changing(ConductedCase):
    def setUp(self):
        super().setUp()
        self.up()

    def node(self, group, index=0):
        nodes = [one for one in self.clusters.show('web').nodes if one.group == group]
        return nodes[index]

    def test_applying_the_same_file_again_does_nothing(self):
        proposal = self.plan()
        self.assertTrue(proposal.empty)
        self.assertEqual(['web: nothing to do'], list(proposal.lines()))

    def test_003_4_a_named_node_is_removed_together_with_the_count(self):
        gone = self.node('work', 1)
        proposal = self.clusters.plan(Resize(cluster='web', remove=(gone.name,)))
        self.assertEqual({gone.id: 'asked for'}, dict(proposal.doomed))
        self.assertEqual(2, proposal.cluster.spec.group('work').shape.count)
        (line,) = proposal.lines()
        self.assertIn(f'(asked for): {gone.name}', line)

    def test_a_group_grows_to_a_count(self):
        (line,) = self.lines(Resize(cluster='web', group='front', count=4))
        self.assertIn('front: +2', line)

    def test_an_unnamed_group_must_be_unambiguous(self):
        with self.assertRaisesRegex(ClusterError, 'the group is not clear'):
            self.clusters.plan(Resize(cluster='web', count=4))
        with self.assertRaisesRegex(ClusterError, 'the group is not clear'):
            both = (self.node('front').name, self.node('work').name)
            self.clusters.plan(Resize(cluster='web', remove=both))

    def test_missing_objects_are_named(self):
        for request in (
            Resize(cluster='no', count=1),
            Resize(cluster='web', group='no', count=1),
            Resize(cluster='web', remove=('no-1',)),
            Replace(cluster='web', nodes=('no-1',)),
            Upgrade(cluster='web', groups=('no',)),
        ):
            with self.subTest(request=request), self.assertRaisesRegex(ClusterNotFound, 'no'):
                self.clusters.plan(request)

    def test_a_count_below_zero_is_refused(self):
        with self.assertRaisesRegex(InvalidCluster, 'below 0'):
            self.clusters.plan(Resize(cluster='web', group='front', count=-1))

    def test_an_upgrade_replaces_nodes_of_another_spec(self):
        machine = MachineSpec(image='debian-14')
        lines = self.lines(Upgrade(cluster='web', machine=machine, groups=('front',)))
        self.assertEqual(1, len(lines))
        self.assertIn('front: ~2', lines[0])
        self.assertEqual(4, len(self.lines(Upgrade(cluster='web', machine=machine))))

    def test_an_upgrade_of_all_groups_overrides_their_own_values(self):
        self.done(
            Upgrade(cluster='web', machine=MachineSpec(image='debian-14'), groups=('front',))
        )
        machine = MachineSpec(image='debian-15')
        spec = self.clusters.plan(Upgrade(cluster='web', machine=machine)).cluster.spec
        self.assertEqual('debian-15', spec.machine.image)
        self.assertIsNone(spec.group('front').machine.image)

    def test_a_replacement_is_planned_for_the_node_that_is_named(self):
        node = self.node('work')
        (line,) = self.lines(Replace(cluster='web', nodes=(node.id,)))
        self.assertIn(f'(asked for): {node.name}', line)

    def test_001_8_a_reboot_names_the_nodes_that_it_touches(self):
        front, work = self.lines(Reboot(cluster='web'))
        self.assertTrue(front.startswith('front: !2 (reboot): web-front-'))
        self.assertTrue(work.startswith('work: !3 (reboot): web-work-'))
        node = self.node('front')
        proposal = self.clusters.plan(Reboot(cluster='web', nodes=(node.name,), hard=True))
        self.assertEqual([f'front: !1 (reboot): {node.name}'], list(proposal.lines()))
        self.assertEqual({'nodes': [node.id], 'hard': True}, dict(proposal.args))
        self.assertIs(OperationKind.REBUILD, self.clusters.plan(Rebuild(cluster='web')).kind)

    def test_a_check_changes_nothing(self):
        self.assertFalse(self.clusters.plan(Check(cluster='web')).changes_spec)

    def test_a_deletion_names_all_nodes_to_remove(self):
        lines = self.lines(Delete(cluster='web'))
        self.assertEqual('web: - what its nodes share', lines[-1])
        self.assertTrue(any(line.startswith('front: -2') for line in lines))

    def test_000_4_the_last_good_state_can_be_restored(self):
        self.assertTrue(self.clusters.plan(GoBack(cluster='web')).empty)
        self.cloud.faults.add(Fault.parse('build:refuse'))
        growing = self.clusters.plan(Resize(cluster='web', group='front', count=4))
        # Long enough for its nodes to be planned, however busy the machine is.
        operation = self.clusters.apply(growing, timeout_s=3.0)
        self.ended(operation)
        lines = self.lines(GoBack(cluster='web'))
        self.assertTrue(lines)
        self.assertTrue(all(line.startswith('front: -') for line in lines), lines)

    def test_a_cluster_without_a_success_has_no_state_to_return_to(self):
        self.cloud.faults.add(Fault.parse('build:refuse'))
        self.clusters.apply(self.plan(WEB.replace('cluster: web', 'cluster: two')))
        with self.assertRaisesRegex(ClusterError, 'none of its operations has succeeded'):
            self.clusters.plan(GoBack(cluster='two'))

    def test_a_plan_for_a_cluster_that_was_changed_since_is_refused(self):
        proposal = self.clusters.plan(Resize(cluster='web', group='front', count=3))
        self.done(Resize(cluster='web', group='front', count=4))
        with self.assertRaises(ClusterChanged):
            self.clusters.apply(proposal)

    def test_001_11_a_cluster_changes_its_driver_only_on_request(self):
        with self.assertRaisesRegex(
            InvalidCluster, 'belongs to nodes_v1 1.0.0, not to example_v1'
        ):
            self.plan(WEB + 'driver: example_v1\n')
        self.assertTrue(self.plan(WEB + 'driver: nodes_v1==1.*\n').plan.empty)

    def test_001_10_moving_to_the_newest_version_can_be_a_no_op(self):
        self.assertTrue(self.clusters.plan(MoveDriver(cluster='web')).empty)
