"""Self-test of the kit for programs that build clusters: it catches wrong programs."""

import pathlib
import tempfile
import unittest

from kiln.testing.clusters import run_cluster_conformance
from kiln.testing.clusters.behaviours.own_engine_programs import ProgramConduct
from kiln.testing.conformance import BehaviourOutcome
from kiln.testing.runner import selected
from tests.kit.program_animals import ANIMALS, MODEL, animal


def _pattern(name):
    return f'test_{name}'


class ProgramZoo(unittest.TestCase):
    def judged(self, folder, names):
        return run_cluster_conformance(str(folder), select=map(_pattern, names))

    def test_the_model_keeps_every_promise_of_a_program(self):
        names = [name for _, _, name in selected([ProgramConduct], None)]
        report = run_cluster_conformance(str(MODEL), select=names)
        self.assertTrue(report.ok, report.render())
        self.assertEqual(len(names), len(report.of(BehaviourOutcome.PASSED)), report.render())

    def test_each_wrong_program_is_caught_by_the_behaviour_that_is_about_it(self):
        for name, (_, names) in ANIMALS.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                report = self.judged(animal(name, pathlib.Path(folder)), names)
                failed = report.of(BehaviourOutcome.FAILED)
                self.assertEqual(len(names), len(failed), report.render())

    def test_each_behaviour_of_a_program_is_caught_by_an_animal(self):
        patterns = [_pattern(name) for _, names in ANIMALS.values() for name in names]
        caught = {name for _, _, name in selected([ProgramConduct], patterns)}
        self.assertEqual(set(), {name for _, _, name in selected([ProgramConduct], None)} - caught)


if __name__ == '__main__':
    unittest.main()
