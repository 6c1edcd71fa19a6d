"""A vendor's afternoon: the guide to the letter, in an environment that had nothing of ours."""

import re

from kiln.testing.conformance import suite
from tests.functional.scaffold.follower import GUIDE, OfVendor
from tests.functional.scaffold.guide import steps_of


class TheGuide(OfVendor):
    def test_each_command_does_what_the_guide_shows(self):
        for command, status, printed in self.vendor.done:
            # Those after one that fails say nothing.
            self.assertEqual(command.status, status, f'{command.line}\n{printed}')
            shown = '\n'.join(command.shown)
            self.assertTrue(
                command.fits(printed), f'{command.line}\nis shown:\n{shown}\nprints:\n{printed}'
            )

    def test_no_test_of_the_package_is_skipped_before_it_is_broken(self):
        runs = [said for command, _, said in self.vendor.done if command.line == 'pytest']
        self.assertEqual(2, len(runs))
        self.assertNotIn('skipped', runs[0])
        # Of a missing hook all behaviours of the kit but one are not run, and nothing else.
        behaviours = sum(1 for _ in suite.behaviours())
        self.assertRegex(runs[1], rf'\n1 failed, \d+ passed, {behaviours - 1} skipped')

    def test_no_command_and_no_file_of_the_guide_is_passed_over(self):
        text = GUIDE.read_text()
        commands = re.findall(r'(?m)^ +\$ (.*)$', text)
        self.assertEqual(commands, [command.line for command, _, _ in self.vendor.done])
        self.assertIn('pip install ./kiln', commands)
        files = [step.name for step in steps_of(text) if hasattr(step, 'name')]
        self.assertEqual(re.findall(r'(?m)^ +:caption: (.*)$', text), files)


class ThePackage(OfVendor):
    def python(self, program):
        # Not beside the checkout, whose folder is called as the package in it.
        return self.vendor.run('python', '-c', program, cwd=self.vendor.package)

    def generate(self, name, kind, output):
        program = (
            'import pathlib, kiln.cli.driver.scaffold as scaffold;'
            f'scaffold.new_compute_driver({name!r}, {kind!r}, pathlib.Path({str(output)!r}))'
        )
        self.python(program)

    def test_each_command_of_its_readme_works(self):
        text = (self.vendor.package / 'README.rst').read_text()
        blocks = re.findall(r'(?m)::\n\n((?: {4}\S.*\n)+)', text)
        commands = [line.strip() for block in blocks for line in block.splitlines()]
        commands = [
            line for line in commands if re.match(r'(python3|pip|pytest|ruff|kiln) ?', line)
        ]
        # As in the guide, beside whose environment it needs no second one.
        self.assertEqual(
            ['python3 -m venv .venv && . .venv/bin/activate', 'pip install ../kiln',
             "pip install -e '.[test]'", 'pytest'],
            commands[:4],
        )  # fmt: skip
        self.assertEqual(4, len(commands[4:]), commands)
        for line in commands[4:]:
            done = self.vendor.shell(f'. ../.venv/bin/activate\n{line}', self.vendor.package)
            self.assertEqual(0, done.returncode, f'{line}\n{done.stdout}')
            if line.startswith('kiln driver test'):
                # Its stand-in for a backend can play every fault.
                self.assertIn(' 0 failed, 0 cannot be shown here', done.stdout)

    def test_names_of_other_lengths_pass_the_checks_it_comes_with(self):
        # They break lines elsewhere.
        for name, kind in (('x', 'vm'), ('abcdefghi_jklmnopq_r', 'hw_load_balancer')):
            self.generate(name, kind, self.vendor.folder)
            package = self.vendor.folder / f'kiln-driver-{name.replace("_", "-")}'
            with self.subTest(package.name):
                self.vendor.run('ruff', 'check', '.', cwd=package)
                self.vendor.run('ruff', 'format', '--check', '.', cwd=package)

    def test_kiln_finds_the_driver_by_its_entry_point(self):
        output = self.python(
            'from kiln.compute.loading import installed_drivers, load_compute_driver;'
            'print([one for one in installed_drivers() if one.name == "acme"],'
            '      load_compute_driver("acme"))',
        )
        self.assertIn("distribution='kiln-driver-acme'", output)
        self.assertIn('error=None', output)
        self.assertIn('kiln_acme.driver.AcmeDriver', output)

    def test_a_controller_builds_with_it_by_name(self):
        output = self.python(
            'import kiln; compute = kiln.open_compute("acme");'
            'ref = compute.build("container", until="active").result(30);'
            'print(compute.status(ref).result(30).state)',
        )
        self.assertEqual(output.strip(), 'active')

    def test_python_writes_the_same_package_as_the_command_line(self):
        again = self.vendor.folder / 'again'
        again.mkdir()
        self.generate('acme', 'container', again)
        written = [path for path in (again / 'kiln-driver-acme').rglob('*') if path.is_file()]
        self.assertIn('driver.py', {path.name for path in written})
        for path in written:
            first = self.vendor.folder / path.relative_to(again)
            self.assertEqual(path.read_text(), first.read_text(), path)

    def test_its_options_are_in_the_generated_sample(self):
        sample = self.vendor.run('oslo-config-generator', '--namespace', 'kiln_acme')
        self.assertIn('[compute:acme]', sample)
        self.assertIn('#request_timeout = 10.0', sample)
