"""Requests to a cloud, and a base class for tables of their errors."""

import unittest

from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.nova.api import errors
from kiln.exceptions import Outcome, Verdict
from tests.unit.compute_drivers.nova.corpus import reply

NOT_APPLIED, UNKNOWN = Outcome.NOT_APPLIED, Outcome.UNKNOWN
FAILURE, NEUTRAL, SUCCESS = Verdict.FAILURE, Verdict.NEUTRAL, Verdict.SUCCESS
#: Tuesday, 14 November 2023, 22:13:20 GMT.
NOW = 1_700_000_000.0

ID = 'e8968ca2-0525-4a6d-b2b5-808c34bbd67f'
BUILD = Asked(verb='build', subject='web-1', build_key='k-1', making=True)


def about(verb, **more):
    return Asked(verb=verb, subject=ID, amphora_id=ID, **more)


DELETE, STATUS = about('delete'), about('read the status of')


class Table(unittest.TestCase):
    """Checks that several answers to a request give the same error."""

    def says(self, answers, asked, kind, outcome, circuit, *, retryable=False, after=None):
        for name in [answers] if isinstance(answers, str) else answers:
            with self.subTest(name, verb=asked.verb):
                answer = reply(name)
                error = errors.refused(asked, answer, now=NOW)
                self.assertIs(kind, type(error), str(error))
                self.assertEqual(
                    (outcome, circuit, retryable, after),
                    (error.outcome, error.circuit, error.retryable, error.retry_after),
                    str(error),
                )
                self.assertEqual(answer.status, error.http_status)
                self.assertEqual(asked.amphora_id, error.amphora_id)
                self.assertEqual(asked.build_key, error.build_key)
