"""Selection of the driver of a cluster: each requirement of founding note 002."""

from kiln.cluster_drivers.records import ClusterType
from kiln.cluster_drivers.selection.matching import Preference
from kiln.cluster_drivers.selection.request import Request
from kiln.clusters.exceptions import AmbiguousClusterDriver, ClusterDriverMismatch
from tests.unit.cluster_drivers.offered import (
    HEAT,
    HELM,
    SWARMS,
    UBUNTU,
    SelectionCase,
    driver,
    image,
)


class FoundingNote(SelectionCase):
    def test_002_1_a_driver_is_matched_by_server_type_os_and_coe(self):
        metal = driver('metal_v1', ('bare_metal', 'ubuntu', 'kubernetes'))
        drivers = [HEAT, SWARMS, metal, driver('debian_v1', ('vm', 'debian', 'kubernetes'))]
        self.assertEqual('k8s_ubuntu_v1', self.chosen(*drivers))
        asked = Request(coe='kubernetes', server_type='bare_metal')
        self.assertEqual('metal_v1', self.chosen(*drivers, request=asked))
        atomic = image(kiln_distro='fedora-atomic')
        asked = Request(coe='swarm')
        self.assertEqual('swarm_atomic_v1', self.chosen(*drivers, request=asked, image=atomic))

    def test_002_2_two_drivers_of_one_tuple_are_refused_with_the_ways_to_choose(self):
        said = self.refused(AmbiguousClusterDriver, HEAT, HELM)
        self.assertEqual(
            'Several cluster drivers build (vm, ubuntu, kubernetes): '
            'k8s_capi_helm_v1 1.4.0 (package k8s-capi-helm-v1 1.4.0) and '
            'k8s_ubuntu_v1 2.0.1 (directory /usr/share/kiln/drivers/k8s_ubuntu_v1). '
            'Choose with --driver NAME, image property kiln_driver, or driver_preference of '
            '[clusters] in kiln.conf. Nothing was created.',
            said,
        )

    def test_002_3_an_image_names_the_driver_and_kiln_driver_takes_precedence(self):
        for properties, name in (
            ({'magnum_driver': 'k8s_ubuntu_v1'}, 'k8s_ubuntu_v1'),
            ({'magnum_driver': 'k8s_capi_helm_v1'}, 'k8s_capi_helm_v1'),
            (
                {'magnum_driver': 'k8s_ubuntu_v1', 'kiln_driver': 'k8s_capi_helm_v1'},
                'k8s_capi_helm_v1',
            ),
            ({'magnum_driver': 'k8s_ubuntu_v1', 'kiln_driver': ' '}, 'k8s_ubuntu_v1'),
        ):
            with self.subTest(properties):
                ubuntu = image(os_distro='ubuntu', **properties)
                self.assertEqual(name, self.chosen(HEAT, HELM, image=ubuntu))

    def test_002_4_the_request_precedes_the_template_and_the_template_the_image(self):
        third = driver('third_v1', UBUNTU)
        ubuntu = image(kiln_distro='ubuntu', kiln_driver='third_v1')
        template = Request(driver='k8s_ubuntu_v1', coe='kubernetes')
        drivers = (HEAT, HELM, third)
        by_template = self.choose(*drivers, template=template, image=ubuntu, request=Request())
        self.assertEqual('k8s_ubuntu_v1', by_template.pin.name)
        self.assertEqual(
            (
                'property kiln_driver of image ubuntu-24.04 7c1e requests driver third_v1; '
                'the template requests k8s_ubuntu_v1 and takes precedence.',
            ),
            by_template.notices,
        )
        by_request = self.choose(
            *drivers, template=template, image=ubuntu, request=Request(driver='k8s_capi_helm_v1')
        )
        self.assertEqual('k8s_capi_helm_v1', by_request.pin.name)
        self.assertEqual(2, len(by_request.notices))

    def test_002_5_without_a_conflict_a_driver_is_chosen_without_notices(self):
        found = self.choose(HELM, SWARMS, image=image(kiln_distro='flatcar'))
        self.assertEqual('k8s_capi_helm_v1', found.pin.name)
        self.assertEqual((), found.notices)

    def test_002_6_two_equal_drivers_coexist_and_a_preference_moves_new_clusters(self):
        old = self.choose(HEAT, HELM, request=Request(driver='k8s_ubuntu_v1', coe='kubernetes'))
        self.assertEqual('k8s_ubuntu_v1', old.pin.name)
        moving = [Preference.default('k8s_capi_helm_v1')]
        self.assertEqual('k8s_capi_helm_v1', self.chosen(HEAT, HELM, preferences=moving))

    def test_002_7_a_preference_decides_without_disabling_a_driver(self):
        preferences = [
            Preference.parse('vm, flatcar, kubernetes: k8s_ubuntu_v1'),
            Preference.parse('vm, ubuntu, kubernetes: gone_v1, k8s_capi_helm_v1'),
            Preference.parse('vm, *, kubernetes: k8s_ubuntu_v1'),
            Preference.default('k8s_ubuntu_v1'),
        ]
        newcomer = driver('newcomer_v1', UBUNTU)
        found = self.choose(HEAT, HELM, newcomer, preferences=preferences)
        self.assertEqual('k8s_capi_helm_v1', found.pin.name)
        self.assertIn('preferred for (vm, ubuntu, kubernetes)', found.steps[-1])

    def test_002_8_kiln_distro_precedes_magnum_distro_and_os_distro(self):
        for properties, distro in (
            ({'kiln_distro': 'a', 'magnum_distro': 'b', 'os_distro': 'c'}, 'a'),
            ({'magnum_distro': 'b', 'os_distro': 'c'}, 'b'),
            ({'os_distro': 'c'}, 'c'),
        ):
            with self.subTest(properties):
                found = self.choose(driver('any', ('vm', '*', '*')), image=image(**properties))
                self.assertEqual(ClusterType('vm', distro, 'kubernetes'), found.wanted)
                self.assertEqual(distro == 'c', bool(found.notices))

    def test_002_8_the_use_of_os_distro_gives_a_notice_with_what_to_set(self):
        found = self.choose(HEAT, image=image(os_distro='ubuntu'))
        self.assertEqual(
            (
                'property os_distro of image ubuntu-24.04 7c1e belongs to libosinfo. '
                'Set kiln_distro=ubuntu as well.',
            ),
            found.notices,
        )

    def test_002_9_fedora_coreos_matches_its_own_driver_before_that_of_fedora(self):
        coreos = driver('k8s_fedora_coreos_v1', ('vm', 'fedora-coreos', 'kubernetes'))
        fedora = driver('k8s_fedora_v1', ('vm', 'fedora', 'kubernetes'))
        old = image(os_distro='fedora-coreos')
        self.assertEqual('k8s_fedora_coreos_v1', self.chosen(coreos, fedora, image=old))
        plain = self.choose(fedora, image=old)
        self.assertEqual('k8s_fedora_v1', plain.pin.name)
        self.assertIn('libosinfo does not define', plain.notices[1])
        self.assertIn('os_distro=fedora beside kiln_distro=fedora-coreos', plain.notices[1])
        self.assertIn('builds fedora; fedora-coreos is a variant of fedora', plain.notices[2])

    def test_002_9_an_image_with_valid_libosinfo_properties_works(self):
        coreos = driver('k8s_fedora_coreos_v1', ('vm', 'fedora-coreos', 'kubernetes'))
        for properties in (
            {'os_distro': 'fedora', 'os_variant': 'coreos'},
            {'os_distro': 'fedora', 'kiln_distro': 'fedora-coreos'},
        ):
            with self.subTest(properties):
                valid = image(**properties)
                self.assertEqual('k8s_fedora_coreos_v1', self.chosen(coreos, image=valid))
        # A variant that no table knows is left alone.
        server = image(os_distro='ubuntu', os_variant='server')
        self.assertEqual(ClusterType(*UBUNTU), self.choose(HEAT, image=server).wanted)

    def test_002_9_fedora_atomic_is_a_variant_of_fedora(self):
        fedora = driver('swarm_fedora_v1', ('vm', 'fedora', 'swarm'))
        found = self.choose(
            fedora, request=Request(coe='swarm'), image=image(os_distro='fedora-atomic')
        )
        self.assertIn('fedora, variant atomic', found.notices[1])

    def test_002_10_a_driver_and_its_os_can_be_written_as_one_word(self):
        bare = image()
        asked = Request(driver='k8s_ubuntu_v1:ubuntu', coe='kubernetes')
        self.assertEqual('k8s_ubuntu_v1', self.chosen(HEAT, HELM, image=bare, request=asked))
        by_image = image(os_distro='k8s_capi_helm_v1:flatcar')
        found = self.choose(HEAT, HELM, image=by_image)
        self.assertEqual('k8s_capi_helm_v1', found.pin.name)
        with self.assertRaises(ClusterDriverMismatch):
            self.choose(HEAT, HELM, image=image(os_distro='k8s_ubuntu_v1:flatcar'))

    def test_002_10_an_offered_os_with_the_name_of_its_driver_matches_literally(self):
        offer = ('vm', 'k8s_fedora_coreos_v1:ubuntu', 'kubernetes')
        record = driver('k8s_fedora_coreos_v1', offer)
        found = self.choose(record, image=image(os_distro=offer[1]))
        self.assertEqual(ClusterType(*UBUNTU), found.wanted)
        self.assertEqual((), found.notices)

    def test_002_10_the_os_of_a_request_takes_precedence_over_the_image(self):
        asked = Request(driver='k8s_capi_helm_v1:flatcar', coe='kubernetes')
        found = self.choose(HELM, request=asked)
        self.assertEqual(
            (
                'the request says flatcar, property kiln_distro of image ubuntu-24.04 7c1e '
                'says ubuntu.',
            ),
            found.notices,
        )

    def test_002_11_an_undecided_conflict_is_refused_with_both_origins(self):
        ours = driver('ours', UBUNTU, origin='package ours 1')
        theirs = driver('theirs', UBUNTU, origin='package theirs 2')
        said = self.refused(AmbiguousClusterDriver, ours, theirs)
        self.assertIn('package ours 1', said)
        self.assertIn('package theirs 2', said)
