"""From nothing to a cluster of one's own driver, in an environment that has only a wheel."""

import json
import time

from tests.functional.scaffold.clean import CleanEnvironment

#: As long as the whole road may take, once kiln is installed.
MINUTE_S = 60.0


class ClusterRoadTest(CleanEnvironment):
    extras = '[clusters]'

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.drivers = cls.folder / 'drivers'
        cls.drivers.mkdir()
        cls.config = cls.folder / 'kiln.conf'
        cls.config.write_text(f'[clusters]\ndriver_path = {cls.drivers}\n')

    @classmethod
    def kiln(cls, *args):
        return cls.run_tool('kiln', '--config-file', str(cls.config), *args)

    def test_001_27_from_nothing_to_a_cluster_in_a_minute_without_python(self):
        started = time.monotonic()
        self.kiln('driver', 'new', 'cluster', 'acme_v1', '--output', str(self.drivers))
        folder = self.drivers / 'acme_v1'
        self.assertIn('no mistakes', self.kiln('driver', 'lint', str(folder)))
        rows = json.loads(self.kiln('driver', 'list', '-f', 'json'))
        self.assertIn(('acme_v1', 'active'), {(row['name'], row['state']) for row in rows})
        self.assertIn('chosen: acme_v1', self.kiln('driver', 'explain', '--coe', 'acme'))
        report = self.kiln('driver', 'test', str(folder), '--select', 'Life*')
        self.assertIn('a cluster is created and every node is one machine', report)
        self.assertIn(' 0 failed, 0 cannot be shown here', report)
        self.assertLess(time.monotonic() - started, MINUTE_S)

    def test_001_26_a_package_installs_is_found_and_passes_its_tests(self):
        self.kiln('driver', 'new', 'cluster', 'boxed_v1', '--form', 'package', '--output',
                  str(self.folder))  # fmt: skip
        package = self.folder / 'kiln-driver-boxed-v1'
        self.run_tool('pip', 'install', '-q', f'{package}[test]')
        output = self.run_tool(
            'pytest',
            '-p',
            'no:cacheprovider',
            'tests/test_conformance.py::Conformance',
            cwd=package,
        )
        self.assertRegex(output, r'3\d passed')
        self.assertIn('package kiln-driver-boxed-v1', self.kiln('driver', 'show', 'boxed_v1'))
        self.assertIn('What each node says', self.kiln('driver', 'doc', 'boxed_v1'))
