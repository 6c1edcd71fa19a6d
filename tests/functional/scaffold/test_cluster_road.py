"""A new cluster driver, from `kiln driver new` to a cluster, with kiln[clusters] installed."""

import json
import resource
import unittest

from tests.functional.scaffold.follower import author

#: CPU time for all steps once kiln is installed; a busy machine does not change it.
MINUTE_S = 60.0


def computed_s():
    """Return the CPU time of the ended child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class ClusterRoadTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.author = author()
        cls.drivers = cls.author.folder / 'clusters'
        cls.drivers.mkdir()
        cls.config = cls.author.folder / 'kiln.conf'
        cls.config.write_text(f'[clusters]\ndriver_path = {cls.drivers}\n')

    @classmethod
    def kiln(cls, *args):
        return cls.author.run('kiln', '--config-file', str(cls.config), *args)

    def test_001_27_a_new_driver_builds_a_cluster_in_a_minute_without_python(self):
        began_s = computed_s()
        self.kiln('driver', 'new', 'cluster', 'acme_v1', '--output', str(self.drivers))
        folder = self.drivers / 'acme_v1'
        self.assertIn('no mistakes', self.kiln('driver', 'lint', str(folder)))
        rows = json.loads(self.kiln('driver', 'list', '-f', 'json'))
        self.assertIn(('acme_v1', 'active'), {(row['name'], row['state']) for row in rows})
        self.assertIn('chosen: acme_v1', self.kiln('driver', 'explain', '--coe', 'acme'))
        report = self.kiln('driver', 'test', str(folder), '--select', 'Life*')
        self.assertIn('a cluster is created and every node is one machine', report)
        self.assertIn(' 0 failed, 0 cannot be shown here', report)
        self.assertLess(computed_s() - began_s, MINUTE_S)

    def test_001_26_a_generated_package_installs_is_found_and_passes_its_tests(self):
        self.kiln('driver', 'new', 'cluster', 'boxed_v1', '--form', 'package', '--output',
                  str(self.author.folder))  # fmt: skip
        package = self.author.folder / 'kiln-driver-boxed-v1'
        self.author.run('pip', 'install', '-q', f'{package}[test]')
        output = self.author.run(
            'pytest',
            '-p',
            'no:cacheprovider',
            'tests/test_conformance.py::Conformance',
            cwd=package,
        )
        # The run ends with an error if one fails.
        self.assertRegex(output, r'\b[1-9]\d passed')
        self.assertIn('package kiln-driver-boxed-v1', self.kiln('driver', 'show', 'boxed_v1'))
        self.assertIn('Text that each node prints', self.kiln('driver', 'doc', 'boxed_v1'))
