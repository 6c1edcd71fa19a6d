"""Mutants are judged in processes of their own, whatever they do there."""

import contextlib
import dataclasses
import tempfile
import unittest
import unittest.mock

from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.testing import minimal
from kiln.testing.mutants import workers
from kiln.testing.mutants.compute_subject import ComputeSubject
from kiln.testing.mutants.loading import source_of
from kiln.testing.mutants.mutants import mutants_of
from kiln.testing.mutants.verdicts import Fate
from kiln.testing.mutants.workers import DriverFails, judge_all
from tests.unit.testing.mutants import part_of_kit
from tests.unit.testing.mutants.part_of_kit import CLOUD

PART = part_of_kit.__name__
MODULE = minimal.__name__
SOURCE = source_of(MODULE)
SUBJECT = ComputeSubject(
    name=f'{MODULE}:MinimalDriver',
    suites=(f'{PART}:Deletes',),
    virtual_time=True,
)
DELETE = '    def _delete(self, amphora_id: str) -> None:\n'
(SOME,) = [
    one for one in mutants_of(MODULE, SOURCE, ['drop_call']) if one.function.endswith('_delete')
]


def deleting(statement):
    """Return a driver that does this instead of a delete."""
    assert DELETE in SOURCE
    body = f'{DELETE}        {statement}\n'
    return dataclasses.replace(SOME, source=SOURCE.replace(DELETE, body))


class Workers(unittest.TestCase):
    def test_each_end_is_a_verdict_and_nothing_of_it_is_left(self):
        progress = []
        mutants = [
            # What else it does is not tested by this part.
            dataclasses.replace(SOME, source=SOURCE.replace('request.flavor', 'None')),
            deleting("raise ValueError('it is full')"),
            deleting('import os; os._exit(0)'),
            dataclasses.replace(SOME, source='import nothing_of_this_name\n'),
            dataclasses.replace(SOME, function='MinimalDriver.never_called'),
        ]
        verdicts = judge_all(
            SUBJECT,
            mutants,
            progress=lambda mutant, verdict: progress.append((mutant, verdict)),
        )
        self.assertEqual(
            [Fate.SURVIVED, Fate.CAUGHT, Fate.BROKEN, Fate.BROKEN, Fate.NOT_RUN],
            [one.fate for one in verdicts],
        )
        self.assertRegex(verdicts[1].behaviour, r'^Deletes\.test_')
        self.assertIn('it is full', verdicts[1].reason)
        self.assertIn('nothing_of_this_name', verdicts[3].reason)
        self.assertEqual(list(zip(mutants, verdicts, strict=True)), progress)
        self.assertEqual(SOURCE, source_of(MODULE))

    def test_one_is_judged_by_those_that_call_the_function_alone(self):
        # What no behaviour of this part tests.
        harmless = dataclasses.replace(SOME, source=SOURCE.replace('request.flavor', 'None'))
        anywhere = dataclasses.replace(harmless, function='', in_function=False)
        of_get = dataclasses.replace(harmless, function='MinimalDriver._get')
        every, some = judge_all(SUBJECT, [anywhere, of_get])
        self.assertGreater(every.passed, some.passed)
        self.assertGreater(some.passed, 0)

    def test_one_that_hangs_ends_at_the_time_limit_and_what_it_built_is_removed(self):
        subject = ComputeSubject(name='noop', suites=(f'{PART}:DeletesOfNoop',))
        package = 'kiln.compute_drivers.noop'
        source = source_of(f'{package}.driver')
        (early,) = (
            one
            for one in mutants_of(f'{package}.driver', source, ['return_early'])
            if one.function == 'NoopDriver._delete'
        )
        hangs = early.source.replace('        return\n', '        while True: pass\n', 1)
        self.assertNotEqual(early.source, hangs)
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            (verdict,) = judge_all(
                subject,
                [dataclasses.replace(early, source=hangs)],
                limit_s=1.0,
            )
            with contextlib.closing(NoopCloud(CLOUD)) as cloud:
                self.assertEqual((), cloud.instances())
        self.assertIs(Fate.TIMED_OUT, verdict.fate)

    def test_one_that_hangs_in_a_behaviour_does_not_wait_for_the_time_limit(self):
        with unittest.mock.patch.multiple(workers, _LEAST_S=0.5, _TIMES=0):
            (verdict,) = judge_all(SUBJECT, [deleting('while True: pass')], limit_s=3600.0)
        self.assertEqual(
            (Fate.TIMED_OUT, 'A behaviour did not end in time.'), (verdict.fate, verdict.reason)
        )

    def test_one_that_a_limit_ends_is_judged_again(self):
        with tempfile.TemporaryDirectory() as folder:
            first = f'pathlib.Path({folder!r}, "seen")'
            late = deleting(
                f'import pathlib; seen = {first}.exists(); {first}.touch()\n'
                f'        while not seen: pass\n'
                f'        raise ValueError("it is full")'
            )
            with unittest.mock.patch.multiple(workers, _LEAST_S=2.0, _TIMES=0):
                (verdict,) = judge_all(SUBJECT, [late], limit_s=3600.0)
        self.assertIs(Fate.CAUGHT, verdict.fate)

    def test_a_driver_that_fails_itself_is_refused(self):
        wrong = dataclasses.replace(SUBJECT, suites=('tests.unit.testing.mutants.nothing:Here',))
        with self.assertRaisesRegex(DriverFails, 'the driver itself fails the kit: .*nothing'):
            judge_all(wrong, [SOME])
