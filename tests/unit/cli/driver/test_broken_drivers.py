"""Broken drivers are not called active, and not hidden, by ``driver list`` and ``explain``."""

from kiln.cli.exit_codes import ExitCode
from tests.unit.cli.cluster.driver_shell import BARE, DriverShell

MANIFEST = """\
name: web_v1
version: 1.0.0
provides:
  - {server_type: '*', os: '*', coe: web}
user_data: start.sh
"""


class Broken(DriverShell):
    def rows(self):
        return {row['name']: row for row in self.json('driver', 'list', '--kind', 'cluster')}

    def test_a_driver_whose_templates_are_wrong_is_not_active(self):
        folder = self.drivers / 'web_v1'
        (folder / 'templates').mkdir(parents=True)
        (folder / 'driver.yaml').write_text(MANIFEST)
        (folder / 'templates' / 'start.sh').write_text('#!/bin/sh\nA={{ line }}\n')
        row = self.rows()['web_v1']
        self.assertEqual('broken', row['state'])
        self.assertIn("nothing is called 'line'", row['reason'])
        # What lint refuses is not chosen, as it would not be for a cluster.
        said = self.run_explain(ExitCode.USAGE, '--coe', 'web')
        self.assertIn("nothing is called 'line'", said)
        self.page(
            'cluster: web\ncoe: web\nimage: debian-13\nnodegroups:\n  - {name: a, count: 1}\n'
        )
        self.assertIn(
            "nothing is called 'line'", self.fails(ExitCode.USAGE, 'plan', str(self.path))
        )

    def test_a_broken_driver_is_named_where_no_driver_fits(self):
        file = self.install(BARE)
        file.write_text(
            file.read_text().replace('def validate(self, ', 'def validate(self, bay, ')
        )
        self.assertEqual('broken', self.rows()['bare_v1']['state'])
        for more in ((), ('--property', 'kiln_distro=ubuntu')):
            said = self.run_explain(ExitCode.USAGE, '--coe', 'bare', *more)
            self.assertIn('broken: "bare_v1" failed to load from', said)
            self.assertIn('breaks the contract', said)
            self.assertIn('Broken: "bare_v1" failed to load', said.partition('error ')[2])

    def test_a_mistake_in_the_code_is_the_drivers_in_show_and_doc_too(self):
        self.install(BARE.replace('directory=None', 'folder=None'))
        for command in ('show', 'doc'):
            said = self.fails(ExitCode.UNFORESEEN, 'driver', command, 'bare_v1')
            self.assertIn('Cluster driver bare_v1 failed in open: TypeError: ', said)

    def run_explain(self, code, *words):
        self.assertEqual(code, self.sh('driver', 'explain', *words), self.err)
        return self.out
