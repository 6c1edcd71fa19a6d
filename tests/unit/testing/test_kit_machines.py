"""Machines of the cluster kit: what makes one ready, and what one that is not ready lacks."""

import re
import unittest

from kiln.cluster_drivers.readiness import WhenActive, WhenConsole, WhenHttp, WhenTcp
from kiln.testing.clusters.road.machines import Machine, lacking, made_ready


class Ready(unittest.TestCase):
    def test_a_rule_tells_what_a_ready_machine_answers(self):
        for rule, machine in (
            (WhenTcp(22), Machine(ports=frozenset({22}))),
            (WhenHttp(80, '/up'), Machine(http={(80, '/up'): (200, 'ok')})),
            (WhenConsole(re.compile('agent: up')), Machine(console='agent: up')),
            (WhenConsole(re.compile(r'took \d+ s')), None),
            (WhenActive(), None),
        ):
            with self.subTest(rule):
                self.assertEqual(machine, made_ready(rule))


class Lacking(unittest.TestCase):
    def test_a_machine_that_is_not_ready_lacks_one_answer(self):
        whole = Machine(http={(80, '/up'): (200, 'ok')}, ports=frozenset({22}), console='up')
        self.assertEqual(
            [
                'is silent', 'refuses connections', 'accepts and never answers',
                'answers with errors', 'breaks its answers off',
                'has written nothing on its console', 'answers 404 at /up',
                'answers 503 at /up', 'refuses port 22',
            ],
            [words for words, _ in lacking(whole)],
        )  # fmt: skip
        self.assertNotIn(whole, [machine for _, machine in lacking(whole)])
        self.assertTrue(whole.accepts(22))
        self.assertFalse(dict(lacking(whole))['refuses port 22'].accepts(22))
