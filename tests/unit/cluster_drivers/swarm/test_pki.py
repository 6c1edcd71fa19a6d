import unittest

from cryptography import x509

from kiln.cluster_drivers.swarm_debian_v1.pki import PERIOD_S, Authority

from .case import a_node
from .test_line import KEY, authority

NOW = 1_800_000_000.0


class Papers(unittest.TestCase):
    def test_certificates_are_the_same_for_each_call_and_process(self):
        first, second = authority(), authority()
        self.assertEqual(first.certificate, second.certificate)
        self.assertEqual(first.for_kiln(NOW), second.for_kiln(NOW))
        for by_address in (False, True):
            one, other = (
                every.for_node(a_node(1), by_address=by_address) for every in (first, second)
            )
            self.assertEqual(one, other)

    def test_each_cluster_node_and_attempt_has_its_own_key(self):
        mine, other = authority(), Authority(KEY, 'c-2', 1_700_000_000.0)
        nodes = (a_node(1), a_node(2), a_node(1, attempt=2))
        papers = [mine.for_node(one, by_address=True).key for one in nodes]
        papers += [other.for_node(nodes[0], by_address=True).key]
        papers += [mine.for_kiln(NOW).key, other.for_kiln(NOW).key]
        self.assertEqual(len(papers), len(set(papers)))

    def test_a_certificate_for_a_person_is_new_each_time_and_expires(self):
        mine = authority()
        first, second = (mine.for_person('me', 1_800_000_000.0, 30) for _ in range(2))
        self.assertNotEqual(first.key, second.key)
        certificate = x509.load_pem_x509_certificate(first.certificate)
        lasts = certificate.not_valid_after_utc.timestamp() - 1_800_000_000.0
        self.assertEqual(30 * 86_400.0, lasts)

    def test_the_certificate_of_kiln_is_new_each_week_and_valid_for_a_week_on_both_sides(self):
        mine = authority()
        found = {mine.for_kiln(NOW + hours * 3600).certificate for hours in range(0, 7 * 24, 5)}
        self.assertLessEqual(len(found), 2)
        for hours in range(0, 14 * 24, 7):
            now = NOW + hours * 3600
            certificate = x509.load_pem_x509_certificate(mine.for_kiln(now).certificate)
            since = certificate.not_valid_before_utc.timestamp()
            until = certificate.not_valid_after_utc.timestamp()
            self.assertLessEqual(since, now - PERIOD_S)
            self.assertGreater(until, now + PERIOD_S)
            self.assertLessEqual(until - since, 3 * PERIOD_S + 3600)

    def test_a_long_name_is_truncated(self):
        papers = authority().for_person('n' * 100, 1e9, 1)
        name = x509.load_pem_x509_certificate(papers.certificate).subject.rfc4514_string()
        self.assertIn('n' * 64, name)
        self.assertNotIn('n' * 65, name)
