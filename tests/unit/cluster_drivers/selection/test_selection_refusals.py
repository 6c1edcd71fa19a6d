"""Error messages for requests for which no driver can be chosen."""

from kiln.cluster_drivers.selection.request import Image, Request
from kiln.clusters.exceptions import (
    AmbiguousClusterDriver,
    ClusterDriverMismatch,
    ClusterDriverUnknown,
    ClusterDriverUnusable,
    ImageWithoutDistro,
    NoClusterDriver,
)
from tests.unit.cluster_drivers.offered import (
    HEAT,
    HELM,
    KUBERNETES,
    SWARMS,
    UBUNTU,
    SelectionCase,
    driver,
    image,
)


class Refusals(SelectionCase):
    def test_e1_an_unknown_driver_is_reported_with_similar_names(self):
        asked = image(kiln_distro='ubuntu', magnum_driver='k8s_capi_helm')
        said = self.refused(ClusterDriverUnknown, HELM, SWARMS, image=asked)
        self.assertEqual(
            'Cluster driver "k8s_capi_helm" is not installed. '
            'Did you mean "k8s_capi_helm_v1"? Installed: k8s_capi_helm_v1, swarm_atomic_v1. '
            'It was requested by property magnum_driver of image ubuntu-24.04 7c1e.',
            said,
        )
        said = self.refused(ClusterDriverUnknown, request=Request(driver='x'))
        self.assertIn('not installed. Installed: none.', said)

    def test_e1_a_missing_version_is_reported_with_the_installed_versions(self):
        said = self.refused(
            ClusterDriverUnknown, HELM, request=Request(driver='k8s_capi_helm_v1==2.*')
        )
        self.assertIn('is not installed as 2.*, only as 1.4.0.', said)

    def test_e1_an_unreadable_driver_request_is_reported_with_the_right_form(self):
        for text in (
            'two words',
            'x>=1',
            'x==',
            'x==1.2.3.4',
            'x==1.*.2',
            'x:',
            ':ubuntu',
            'x:a:b',
        ):
            with self.subTest(text):
                said = self.refused(ClusterDriverUnknown, HELM, request=Request(driver=text))
                self.assertIn('NAME==1.2.*', said)

    def test_e2_an_unusable_driver_is_reported_with_remedy_and_alternatives(self):
        told = 'It was requested by the request.'
        for state, reason, words in (
            ('beta', 'beta', '1.0.0 is installed but beta. Add it to enabled_beta_drivers.'),
            (
                'disabled',
                'it is in disabled_drivers',
                '1.0.0 is disabled: it is in disabled_drivers.',
            ),
            (
                'broken',
                'ImportError: no openstack',
                'failed to load from package k8s-ubuntu-v2 1.0.0: ImportError: no openstack.',
            ),
            ('conflict', 'is provided twice: a and b', '1.0.0 is provided twice: a and b.'),
        ):
            with self.subTest(state):
                out = driver('k8s_ubuntu_v2', UBUNTU, state=state, reason=reason)
                asked = Request(driver='k8s_ubuntu_v2', coe='kubernetes')
                said = self.refused(ClusterDriverUnusable, out, HEAT, request=asked)
                self.assertEqual(
                    f'Cluster driver "k8s_ubuntu_v2" {words} '
                    f'Or choose one of: k8s_ubuntu_v1. {told}',
                    said,
                )
        said = self.refused(ClusterDriverUnusable, out, request=Request(driver='k8s_ubuntu_v2'))
        self.assertNotIn('Or choose', said)

    def test_e3_a_named_driver_that_does_not_build_the_type_is_refused(self):
        asked = Request(driver='swarm_atomic_v1', coe='kubernetes')
        said = self.refused(ClusterDriverMismatch, SWARMS, HEAT, HELM, request=asked)
        self.assertEqual(
            'Cluster driver "swarm_atomic_v1" 1.0.0 does not build (vm, ubuntu, kubernetes). '
            'It provides: (vm, fedora-atomic, swarm). '
            'Drivers that do: k8s_capi_helm_v1, k8s_ubuntu_v1. It was requested by the request.',
            said,
        )

    def test_e4_a_type_without_a_driver_is_reported_with_the_nearest_drivers(self):
        metal = driver('metal_k8s_v1', ('bare_metal', 'debian', 'kubernetes'))
        said = self.refused(
            NoClusterDriver, HEAT, SWARMS, metal, image=image(kiln_distro='debian')
        )
        self.assertEqual(
            'No cluster driver builds (vm, debian, kubernetes). '
            'Nearest: k8s_ubuntu_v1 builds (vm, ubuntu, kubernetes), which differs in os; '
            'metal_k8s_v1 builds (bare_metal, debian, kubernetes), which differs in server_type.',
            said,
        )

    def test_e4_the_message_names_an_inactive_driver_that_would_match(self):
        off = driver('k8s_v2', UBUNTU, state='disabled', reason='it is in disabled_drivers')
        said = self.refused(NoClusterDriver, off, SWARMS)
        self.assertIn('"k8s_v2" would, but 1.0.0 is disabled: it is in disabled_drivers.', said)
        self.assertIn('differs in os and coe', said)
        self.assertIn('No driver is in use.', self.refused(NoClusterDriver, off))

    def test_e4_an_unset_coe_does_not_count_as_a_difference(self):
        said = self.refused(NoClusterDriver, SWARMS, request=Request())
        self.assertIn('No cluster driver builds (vm, ubuntu, *).', said)
        self.assertIn('(vm, fedora-atomic, swarm), which differs in os.', said)

    def test_e5_an_ambiguous_request_without_a_coe_advises_to_state_it(self):
        fedora = image(kiln_distro='fedora')
        one, two = (driver(f'{coe}_v1', ('vm', 'fedora', coe)) for coe in ('swarm', 'mesos'))
        said = self.refused(AmbiguousClusterDriver, one, two, request=Request(), image=fedora)
        self.assertIn('State the coe, or choose with --driver NAME', said)
        self.assertEqual('swarm_v1', self.chosen(one, request=Request(), image=fedora))

    def test_e6_an_image_without_a_distro_is_refused_even_if_a_driver_is_named(self):
        for request in (KUBERNETES, Request(driver='k8s_ubuntu_v1', coe='kubernetes')):
            with self.subTest(request):
                said = self.refused(ImageWithoutDistro, HEAT, image=image(), request=request)
                self.assertEqual(
                    'Image ubuntu-24.04 7c1e has no distro, so a cluster driver '
                    'cannot be matched. Set its property kiln_distro, such as '
                    'kiln_distro=ubuntu (magnum_distro and os_distro are also read), or name '
                    'a driver as NAME:OS.',
                    said,
                )
        self.assertIn('Name an image', self.refused(ImageWithoutDistro, HEAT, image=None))

    def test_e6_a_driver_for_any_system_needs_no_distro(self):
        nodes = driver('nodes_v1', ('*', '*', '*'))
        for request in (Request(), Request(driver='nodes_v1')):
            for bare in (None, Image(id='7c1e')):
                with self.subTest(request=request, image=bare):
                    drivers = (nodes, HEAT)
                    self.assertEqual(
                        'nodes_v1', self.chosen(*drivers, request=request, image=bare)
                    )

    def test_e6_a_driver_mismatch_is_reported_before_a_missing_distro(self):
        asked = Request(driver='k8s_ubuntu_v1', coe='swarm')
        self.refused(ClusterDriverMismatch, HEAT, image=image(), request=asked)
