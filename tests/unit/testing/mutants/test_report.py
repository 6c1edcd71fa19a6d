"""The report: what counts as caught, what as explained, and what is outdated."""

import unittest

from kiln.testing.mutants.mutants import mutants_of
from kiln.testing.mutants.report import MutationReport
from kiln.testing.mutants.verdicts import Fate, Survivor, Verdict

SOURCE = 'x = f(a=1, b=2, c=3, d=4)\n'
MUTANTS = mutants_of('acme', SOURCE, ['drop_field'])
CAUGHT = Verdict(fate=Fate.CAUGHT, behaviour='Kit.test_it')
SURVIVED = Verdict(fate=Fate.SURVIVED)


def known(mutant, **reason):
    place, operator, change = mutant.key
    return {mutant.key: Survivor(place=place, operator=operator, change=change, **reason)}


def report(*verdicts, least=95.0, **reasons):
    return MutationReport(
        driver='acme',
        judged=list(zip(MUTANTS, verdicts, strict=True)),
        keys=frozenset(one.key for one in MUTANTS),
        least=least,
        **reasons,
    )


class ReportTest(unittest.TestCase):
    def test_a_driver_whose_mutants_are_all_caught_passes(self):
        for fate in (Fate.CAUGHT, Fate.BROKEN, Fate.TIMED_OUT):
            found = report(*[Verdict(fate=fate)] * 4)
            self.assertTrue(found.ok)
            self.assertEqual(100, found.share)

    def test_an_unexplained_survivor_fails_whatever_the_share(self):
        for fate in (Fate.SURVIVED, Fate.NOT_RUN):
            found = report(CAUGHT, CAUGHT, CAUGHT, Verdict(fate=fate), least=0)
            self.assertFalse(found.ok)
            self.assertEqual([MUTANTS[3]], found.unexplained)

    def test_an_equivalent_survivor_does_not_count(self):
        found = report(
            CAUGHT, CAUGHT, CAUGHT, SURVIVED, known=known(MUTANTS[3], equivalent='the default')
        )
        self.assertTrue(found.ok)
        self.assertEqual(100, found.share)

    def test_a_survivor_that_shows_a_gap_is_explained_but_counts(self):
        gap = known(MUTANTS[3], missing='the order of addresses')
        self.assertEqual(75, report(CAUGHT, CAUGHT, CAUGHT, SURVIVED, known=gap).share)
        self.assertFalse(report(CAUGHT, CAUGHT, CAUGHT, SURVIVED, known=gap).ok)
        self.assertTrue(report(CAUGHT, CAUGHT, CAUGHT, SURVIVED, known=gap, least=75).ok)

    def test_a_known_survivor_that_was_caught_or_has_no_mutant_is_outdated(self):
        gone = Survivor(place='acme', operator='drop_field', change='drop: e=5', missing='it')
        other = Survivor(place='beta', operator='drop_field', change='drop: e=5', missing='it')
        kept = known(MUTANTS[0], missing='it') | {gone.key: gone, other.key: other}
        found = report(CAUGHT, CAUGHT, CAUGHT, CAUGHT, known=kept)
        # Modules that were not changed this time are not judged.
        self.assertEqual([MUTANTS[0].key, gone.key], found.outdated)
        self.assertIn('No longer a survivor, remove it: acme, drop_field', found.render())

    def test_the_text_shows_survivors_as_entries_of_a_file(self):
        text = report(CAUGHT, CAUGHT, CAUGHT, SURVIVED).render()
        self.assertIn(
            '- place: acme\n  operator: drop_field\n  change: "drop: d=4"\n  # @@ -1 +1 @@\n'
            '  # -x = f(a=1, b=2, c=3, d=4)\n  # +x = f(a=1, b=2, c=3)\n  # no reason is known\n',
            text,
        )
        self.assertIn('acme: 4 mutants, 3 caught (0 by the time limit), 1 survived', text)
        self.assertNotIn('drop: a=1', text)

    def test_the_data_has_each_mutant_and_what_caught_it(self):
        data = report(CAUGHT, CAUGHT, CAUGHT, SURVIVED).to_dict()
        self.assertEqual((3, 75.0, False), (data['caught'], data['share'], data['ok']))
        self.assertEqual('Kit.test_it', data['results'][0]['behaviour'])
        self.assertEqual({'caught': 3, 'survived': 1}, data['operators']['drop_field'])
