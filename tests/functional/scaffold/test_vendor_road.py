"""A vendor's afternoon, in an environment that has nothing of ours but a wheel."""

from tests.functional.scaffold.clean import CleanEnvironment


class VendorRoadTest(CleanEnvironment):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.generate('acme', 'container')
        cls.package = cls.folder / 'kiln-driver-acme'
        cls.run_tool('pip', 'install', '-q', f'{cls.package}[test]')

    @classmethod
    def run_python(cls, program):
        return cls.run_tool('python', '-c', program)

    @classmethod
    def generate(cls, name, kind):
        cls.run_python(
            'import pathlib, kiln.scaffold as scaffold;'
            f'scaffold.new_compute_driver({name!r}, {kind!r}, pathlib.Path("."))'
        )

    def test_the_tests_of_the_package_pass_conformance_among_them(self):
        output = self.run_tool('pytest', '-p', 'no:cacheprovider', '-vv', cwd=self.package)
        self.assertIn('AcmeConformance', output)
        self.assertRegex(output, r'\d+ passed, 4 skipped')

    def test_the_package_passes_the_checks_it_comes_with(self):
        self.run_tool('mypy', cwd=self.package)
        # Names of other lengths break lines elsewhere, so one may not do.
        for name, kind in (('x', 'vm'), ('abcdefghi_jklmnopq_r', 'hw_load_balancer')):
            self.generate(name, kind)
        for package in self.folder.glob('kiln-driver-*'):
            with self.subTest(package.name):
                self.run_tool('ruff', 'check', '.', cwd=package)
                self.run_tool('ruff', 'format', '--check', '.', cwd=package)

    def test_kiln_finds_the_driver_by_its_entry_point(self):
        output = self.run_python(
            'from kiln.loading import installed_drivers, load_compute_driver;'
            'print([one for one in installed_drivers() if one.name == "acme"],'
            '      load_compute_driver("acme"))'
        )
        self.assertIn("distribution='kiln-driver-acme'", output)
        self.assertIn('error=None', output)
        self.assertIn('kiln_acme.driver.AcmeDriver', output)

    def test_a_controller_builds_with_it_by_name(self):
        output = self.run_python(
            'import kiln; compute = kiln.open_compute("acme");'
            'ref = compute.build("container", until="active").result(30);'
            'print(compute.status(ref).result(30).state)'
        )
        self.assertEqual(output.strip(), 'active')

    def test_the_command_line_writes_the_same_package(self):
        again = self.folder / 'again'
        again.mkdir()
        self.run_tool('kiln', 'driver', 'new', 'compute', 'acme', '--type', 'container', cwd=again)
        written = [path for path in (again / 'kiln-driver-acme').rglob('*') if path.is_file()]
        self.assertIn('driver.py', {path.name for path in written})
        for path in written:
            first = self.folder / path.relative_to(again)
            self.assertEqual(path.read_text(), first.read_text(), path)

    def test_the_command_line_judges_it(self):
        self.assertIn('acme', self.run_tool('kiln', 'driver', 'list'))
        for guards in ([], ['--guarded']):
            report = self.run_tool('kiln', 'driver', 'test', 'acme', *guards)
            # A build that fails or stalls later takes a simulator of the backend.
            self.assertIn('0 failed, 4 cannot be shown here', report)

    def test_its_options_are_in_the_generated_sample(self):
        sample = self.run_tool('oslo-config-generator', '--namespace', 'kiln_acme')
        self.assertIn('[compute:acme]', sample)
        self.assertIn('#request_timeout = 10.0', sample)
