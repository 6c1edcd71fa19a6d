"""Mutants of cluster drivers: copies of a folder, judged wherever the kit finds them."""

import dataclasses
import pathlib
import tempfile
import unittest
import unittest.mock

import kiln
from kiln.clusters.exceptions import ClusterDriverUnusable, InvalidClusterDriver
from kiln.testing.clusters import ClusterDriverConformance, OwnEngineConformance
from kiln.testing.clusters.subjects import find_driver
from kiln.testing.mutants.cluster_subject import ClusterSubject
from kiln.testing.mutants.verdicts import Fate
from kiln.testing.mutants.workers import judge_all
from tests.unit.test_layering import ROOT

DRIVERS = pathlib.Path(kiln.__file__).parent / 'cluster_drivers'
MODELS = ROOT / 'doc' / 'examples' / 'cluster_drivers'
EXAMPLE = 'kiln.cluster_drivers.example_v1.driver:Driver'
DECLARATION = 'kiln.testing.clusters.behaviours.declaration:Declaration'
MANIFEST = """\
name: web_v1
version: 1.0.0
provides: [['*', '*', web]]
parameters:
  greeting: {default: hello}
user_data: start.sh
"""
START = """\
#!/bin/sh
GREETING={{ greeting | shell }}
echo {{ node.name }}
"""


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()), 'web_v1')
        (self.folder / 'templates').mkdir(parents=True)
        (self.folder / 'driver.yaml').write_text(MANIFEST)
        (self.folder / 'templates' / 'start.sh').write_text(START)
        self.subject = ClusterSubject.find(str(self.folder), suites=(DECLARATION,))

    def mutant(self, file, operator, change):
        (found,) = (one for one in self.subject.mutants(file, [operator]) if change in one.change)
        return found

    def test_each_end_is_a_verdict_and_the_folder_stays_as_it_is(self):
        mutants = [
            self.mutant('web_v1/templates/start.sh', 'wrong_fact', 'node.name'),
            self.mutant('web_v1/driver.yaml', 'drop_line', 'name: web_v1'),
            self.mutant('web_v1/driver.yaml', 'drop_line', 'greeting'),
        ]
        verdicts = judge_all(self.subject, mutants)
        self.assertEqual([Fate.SURVIVED, Fate.BROKEN, Fate.BROKEN], [one.fate for one in verdicts])
        self.assertIn('parameters: the value is empty', verdicts[2].reason)
        self.assertEqual(MANIFEST, (self.folder / 'driver.yaml').read_text())

    def test_a_copy_has_one_file_changed_and_the_name_of_the_driver(self):
        mutant = self.mutant('web_v1/templates/start.sh', 'wrong_fact', 'node.name')
        wrong = self.subject.changed((mutant.module, mutant.source))
        self.assertEqual('web_v1', wrong.folder.name)
        self.assertEqual(mutant.source, (wrong.folder / 'templates/start.sh').read_text())
        self.assertEqual(MANIFEST, (wrong.folder / 'driver.yaml').read_text())
        (judge,) = wrong.judges()
        self.assertEqual(str(wrong.folder), judge.driver)

    def test_a_copy_that_cannot_be_loaded_is_refused(self):
        with self.assertRaises(InvalidClusterDriver):
            self.subject.changed(('web_v1/driver.yaml', 'name: web_v1\n'))

    def test_all_its_files_can_be_changed(self):
        self.assertEqual(
            ['web_v1/driver.yaml', 'web_v1/templates/start.sh'], self.subject.modules()
        )


class InPython(unittest.TestCase):
    def test_a_class_stands_for_its_folder(self):
        subject = ClusterSubject.find(EXAMPLE)
        self.assertEqual(DRIVERS / 'example_v1', subject.folder)
        names = subject.modules()
        self.assertIn('example_v1.driver', names)
        self.assertIn('example_v1/templates/start.sh', names)
        self.assertFalse([one for one in names if 'image' in one])

    def test_a_function_has_the_same_place_in_the_source_and_when_it_runs(self):
        subject = ClusterSubject.find(EXAMPLE)
        module = find_driver(str(subject.folder)).__module__
        self.assertEqual('example_v1.driver', subject.own(module))
        self.assertEqual('example_v1.scale', subject.own(f'{module.rpartition(".")[0]}.scale'))
        self.assertIsNone(subject.own('kiln.cluster_drivers.base'))
        (place,) = {
            one.place
            for one in subject.mutants('example_v1.driver', ['return_early'])
            if one.function.endswith('get_monitor')
        }
        self.assertEqual('example_v1.driver:Driver.get_monitor', place)

    def test_a_mutant_in_code_is_caught_and_one_that_never_runs_is_not_judged(self):
        subject = ClusterSubject.find(EXAMPLE, suites=(DECLARATION,))
        (wrong,) = (
            one
            for one in subject.mutants('example_v1.driver', ['return_early'])
            if one.function == 'Driver.get_template_definition'
        )
        (never,) = (
            one
            for one in subject.mutants('example_v1.driver', ['return_early'])
            if one.function == 'Driver.get_monitor'
        )
        self.assertEqual(
            [Fate.CAUGHT, Fate.NOT_RUN], [one.fate for one in judge_all(subject, [wrong, never])]
        )

    def test_one_in_a_text_is_judged_by_every_behaviour(self):
        subject = ClusterSubject.find(EXAMPLE, suites=(DECLARATION,))
        (in_code,) = (
            one
            for one in subject.mutants('example_v1.driver', ['return_early'])
            if one.function == 'Driver.get_template_definition'
        )
        in_text = subject.mutants('example_v1/templates/start.sh', ['drop_line'])[0]
        # With a comment in place of the mistake, none of them fails.
        harmless = [
            dataclasses.replace(one, source=f'{one.original}\n# harmless\n')
            for one in (in_code, in_text)
        ]
        some, every = judge_all(subject, harmless)
        self.assertGreater(every.passed, some.passed)
        self.assertGreater(some.passed, 0)

    def test_a_driver_as_it_is_is_imported_again(self):
        subject = ClusterSubject.find(EXAMPLE)
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.enterContext(unittest.mock.patch.object(tempfile, 'tempdir', folder))
        before, after = (
            find_driver(str(one.folder)).__module__ for one in (subject, subject.fresh())
        )
        self.assertNotEqual(before, after)
        self.assertEqual('example_v1.driver', subject.own(after))

    def test_a_driver_with_an_engine_of_its_own_is_judged_by_what_it_shows(self):
        subject = ClusterSubject.find(str(MODELS / 'stack_v1'))
        # If the kit showed nothing of the driver, this would be refused.
        self.assertEqual([], judge_all(subject, []))

    def test_each_kind_of_driver_is_judged_by_its_kit(self):
        for name, kit in (
            ('stack_v1', OwnEngineConformance),
            ('quorum_v1', ClusterDriverConformance),
        ):
            judges = ClusterSubject.find(str(MODELS / name)).judges()
            self.assertEqual(
                [one.__name__ for one in kit.__bases__], [one.__name__ for one in judges]
            )

    def test_the_bench_of_a_driver_is_not_changed(self):
        for name in ('stack_v1', 'quorum_v1'):
            modules = ClusterSubject.find(str(MODELS / name)).modules()
            self.assertIn(f'{name}.driver', modules)
            self.assertNotIn(f'{name}.bench', modules)

    def test_a_driver_without_a_folder_of_its_own_is_refused(self):
        with self.assertRaisesRegex(ClusterDriverUnusable, 'no folder with a driver.py'):
            ClusterSubject.find('tests.kit.cluster_animals:Brief')
