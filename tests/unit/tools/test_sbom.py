"""The bill of materials names kiln itself, and what it requires."""

import configparser
import re
import unittest

from tools.sbom import ROOT, SbomError, needed, with_kiln

DOCUMENT = {
    'specVersion': '1.6',
    'metadata': {'tools': []},
    'components': [
        {'bom-ref': 'r1', 'name': 'PyYAML'},
        {'bom-ref': 'r2', 'name': 'oslo.log'},
        {'bom-ref': 'r3', 'name': 'pbr'},
    ],
    'dependencies': [{'ref': 'r1'}, {'ref': 'r2'}, {'ref': 'r3'}],
}
PACKAGE = """
[metadata]
name = kiln-compute
version = 1.2.3
description = Builds machines
license = Apache-2.0
[options]
install_requires =
    oslo.log>=6.0
[options.extras_require]
clusters =
    # A comment.
    PyYAML>=6.0
nova =
    openstacksdk>=3.0
"""


def package(text=PACKAGE):
    found = configparser.ConfigParser()
    found.read_string(text)
    return found


class SbomTest(unittest.TestCase):
    def test_kiln_is_the_component_that_the_document_is_about(self):
        made = with_kiln(DOCUMENT, package(), ['clusters'])
        found = made['metadata']['component']
        purl = 'pkg:pypi/kiln-compute@1.2.3'
        self.assertEqual(
            ('kiln-compute', '1.2.3', purl), (found['name'], found['version'], found['purl'])
        )
        self.assertEqual('Apache-2.0', found['licenses'][0]['license']['id'])
        self.assertEqual([], made['metadata']['tools'])

    def test_kiln_depends_on_what_it_requires_itself(self):
        made = with_kiln(DOCUMENT, package(), ['clusters'])
        purl = made['metadata']['component']['bom-ref']
        self.assertEqual({'ref': purl, 'dependsOn': ['r1', 'r2']}, made['dependencies'][0])
        self.assertEqual(DOCUMENT['dependencies'], made['dependencies'][1:])

    def test_a_required_package_without_a_constraint_is_an_error(self):
        with self.assertRaisesRegex(SbomError, 'lacks openstacksdk: make constraints'):
            with_kiln(DOCUMENT, package(), ['nova'])

    def test_constraints_name_all_that_kiln_requires(self):
        found = configparser.ConfigParser()
        found.read(ROOT / 'setup.cfg')
        makefile = (ROOT / 'Makefile').read_text()
        extras = re.search('^EXTRAS := (.*)$', makefile, re.MULTILINE)[1].split()
        text = (ROOT / 'constraints.txt').read_text()
        named = set(re.findall('^([a-z0-9.-]+)==', text, re.MULTILINE))
        self.assertLessEqual(needed(found, extras), {one.replace('.', '-') for one in named})
