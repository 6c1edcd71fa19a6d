"""Selection among versions of a driver, and among offers with wildcards."""

import itertools

from kiln.cluster_drivers.selection.request import Request
from kiln.clusters.exceptions import AmbiguousClusterDriver, NoClusterDriver
from tests.unit.cluster_drivers.offered import (
    FLATCAR,
    HEAT,
    UBUNTU,
    SelectionCase,
    driver,
    image,
)


class Versions(SelectionCase):
    def setUp(self):
        self.versions = [
            driver('k8s_v1', UBUNTU, version=version)
            for version in ('1.2.0', '1.9.0', '1.10.0', '1.2.11')
        ]
        self.beta = driver('k8s_v1', UBUNTU, version='2.0.0', beta=True)

    def version(self, *records, wish='k8s_v1'):
        return self.choose(*records, request=Request(driver=wish, coe='kubernetes')).pin.version

    def test_the_highest_version_that_is_not_a_beta_is_current(self):
        for records in itertools.permutations([*self.versions, self.beta]):
            self.assertEqual('1.10.0', self.version(*records))
            self.assertEqual('1.10.0', self.choose(*records).pin.version)
        self.assertEqual('2.0.0', self.version(self.beta))

    def test_a_request_can_name_a_version_or_its_beginning(self):
        for wish, version in (
            ('k8s_v1==1.2.*', '1.2.11'),
            ('k8s_v1==1.2.0', '1.2.0'),
            ('k8s_v1==1.2', '1.2.0'),
            ('k8s_v1==1.*', '1.10.0'),
            ('k8s_v1==2.*', '2.0.0'),
            ('k8s_v1==*', '1.10.0'),
            ('k8s_v1==1.9.0:ubuntu', '1.9.0'),
        ):
            with self.subTest(wish):
                self.assertEqual(version, self.version(*self.versions, self.beta, wish=wish))

    def test_without_a_requested_version_only_the_current_version_matches(self):
        old = driver('k8s_v1', UBUNTU, FLATCAR, version='0.9.0')
        flatcar = image(kiln_distro='flatcar')
        said = self.refused(NoClusterDriver, old, *self.versions, image=flatcar)
        self.assertIn(
            '"k8s_v1" would, but 0.9.0 is not its newest version. Request k8s_v1==0.9.0.', said
        )

    def test_a_notice_explains_why_an_older_version_is_used(self):
        newer = driver(
            'k8s_v1', UBUNTU, version='3.0.0', state='broken', reason='ImportError: no openstack'
        )
        found = self.choose(*self.versions, newer)
        self.assertEqual('1.10.0', found.pin.version)
        self.assertEqual(
            (
                'k8s_v1 1.10.0 is used, because "k8s_v1" failed to load from package '
                'k8s-v1 3.0.0: ImportError: no openstack.',
            ),
            found.notices,
        )
        asked = Request(driver='k8s_v1==1.9.0', coe='kubernetes')
        self.assertEqual((), self.choose(*self.versions, newer, request=asked).notices)


class Wildcards(SelectionCase):
    def test_an_exact_offer_takes_precedence_over_a_wildcard(self):
        anything = driver('any_v1', ('*', '*', '*'))
        any_os = driver('any_os_v1', ('vm', '*', 'kubernetes'))
        self.assertEqual('k8s_ubuntu_v1', self.chosen(anything, any_os, HEAT))
        self.assertEqual('any_os_v1', self.chosen(anything, any_os))
        self.assertEqual('any_v1', self.chosen(anything))

    def test_two_wildcards_in_different_places_are_ambiguous(self):
        any_os = driver('any_os_v1', ('vm', '*', 'kubernetes'))
        any_server = driver('any_server_v1', ('*', 'ubuntu', 'kubernetes'))
        self.refused(AmbiguousClusterDriver, any_os, any_server)

    def test_a_driver_does_not_conflict_with_itself(self):
        both = driver('both_v1', UBUNTU, ('vm', '*', 'kubernetes'))
        self.assertEqual('both_v1', self.chosen(both))

    def test_magnums_word_bm_means_bare_metal(self):
        metal = driver('metal_v1', ('bare_metal', 'ubuntu', 'kubernetes'))
        asked = Request(coe='kubernetes', server_type='bm')
        self.assertEqual('metal_v1', self.chosen(metal, request=asked))

    def test_the_url_of_a_system_in_libosinfo_is_not_a_driver_name(self):
        url = image(os_distro='http://fedoraproject.org/fedora/39')
        self.refused(NoClusterDriver, HEAT, image=url)
