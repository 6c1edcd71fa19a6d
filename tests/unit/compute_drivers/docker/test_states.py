"""State of a container for each status that an engine reports."""

import unittest

from kiln.compute_drivers.docker.states import Condition, life_of, listed, told
from kiln.models import State

TABLE = (
    # status, other facts, state, task, part of the fault
    ('created', {}, State.BUILDING, None, None),
    ('created', {'error': 'no such file'}, State.ERROR, None, 'did not start: no such file'),
    ('running', {}, State.ACTIVE, None, None),
    ('running', {'health': 'healthy'}, State.ACTIVE, None, None),
    ('running', {'health': 'starting'}, State.ACTIVE, 'starting', None),
    ('running', {'health': 'unhealthy'}, State.ERROR, None, 'health check fails'),
    ('running', {'health': 'unhealthy', 'probe': 'refused'}, State.ERROR, None, 'refused'),
    ('paused', {}, State.SUSPENDED, None, None),
    ('restarting', {}, State.ACTIVE, 'rebooting', None),
    ('restarting', {'exit_code': 143}, State.ACTIVE, 'rebooting', None),
    ('restarting', {'exit_code': 1}, State.ERROR, None, 'exit code 1; the engine starts it'),
    ('restarting', {'oom_killed': True}, State.ERROR, None, 'more memory'),
    ('exited', {}, State.STOPPED, None, 'exit code 0'),
    ('exited', {'exit_code': 137}, State.STOPPED, None, 'exit code 137'),
    ('exited', {'exit_code': 143}, State.STOPPED, None, 'exit code 143'),
    ('exited', {'exit_code': 130}, State.STOPPED, None, 'exit code 130'),
    ('exited', {'exit_code': 1}, State.ERROR, None, 'exit code 1'),
    ('exited', {'exit_code': 137, 'oom_killed': True}, State.ERROR, None, 'more memory'),
    ('exited', {'error': 'device gone'}, State.ERROR, None, 'device gone'),
    ('removing', {}, State.DELETING, None, None),
    ('dead', {}, State.ERROR, None, 'delete it again'),
    ('juggling', {}, State.UNKNOWN, None, None),
    ('', {}, State.UNKNOWN, None, None),
)


class Lives(unittest.TestCase):
    def test_each_condition_has_its_state(self):
        for status, more, state, task, fault in TABLE:
            with self.subTest(status, **more):
                life = life_of(Condition(status=status, **more))
                self.assertEqual((state, task), (life.state, life.task))
                if fault is None:
                    self.assertIsNone(life.fault)
                else:
                    self.assertIn(fault, life.fault)

    def test_a_fault_of_which_the_engine_gives_no_details_is_a_whole_sentence(self):
        for condition, fault in (
            (Condition(status='running', health='unhealthy'), 'its health check fails'),
            (Condition(status='exited'), 'its command ended with exit code 0'),
        ):
            self.assertEqual(fault, life_of(condition).fault)


class Told(unittest.TestCase):
    def test_an_inspect_is_read_completely(self):
        state = {
            'Status': 'exited', 'ExitCode': 137, 'OOMKilled': True, 'Error': 'a\n b',
            'Health': {'Status': 'unhealthy', 'Log': [{'Output': 'x'}, {'Output': 'no\nroute'}]},
        }  # fmt: skip
        self.assertEqual(
            Condition(
                status='exited', exit_code=137, oom_killed=True, error='a b', health='unhealthy',
                probe='no route',
            ),
            told({'State': state}),
        )  # fmt: skip

    def test_every_notation_of_no_health_check_is_understood(self):
        for health in (None, {}, {'Status': ''}, {'Status': 'none', 'Log': None}):
            answer = {'State': {'Status': 'running', 'Health': health}}
            self.assertEqual(Condition(status='running'), told(answer))

    def test_podman_s_word_for_health_is_understood(self):
        state = {'Status': 'running', 'Healthcheck': {'Status': 'unhealthy'}}
        self.assertEqual('unhealthy', told({'State': state}).health)

    def test_a_probe_without_an_output_says_nothing(self):
        health = {'Status': 'unhealthy', 'Log': [{'Output': None}]}
        self.assertEqual('', told({'State': {'Status': 'running', 'Health': health}}).probe)

    def test_a_container_without_a_status_has_none(self):
        self.assertEqual(Condition(status=''), told({'State': {'Status': None}}))

    def test_podman_s_status_words_are_understood(self):
        for theirs, ours in (
            ('configured', 'created'), ('initialized', 'created'), ('stopped', 'exited'),
            ('stopping', 'running'),
        ):  # fmt: skip
            self.assertEqual(ours, told({'State': {'Status': theirs}}).status)

    def test_a_long_probe_output_is_truncated(self):
        health = {'Status': 'unhealthy', 'Log': [{'Output': 'x' * 999}]}
        self.assertEqual(200, len(told({'State': {'Status': 'running', 'Health': health}}).probe))


class Listed(unittest.TestCase):
    def test_a_list_suffices_for_healthy_containers(self):
        for state, status, health in (
            ('running', 'Up 2 minutes', ''),
            ('running', 'Up 2 minutes (healthy)', 'healthy'),
            ('running', 'Up 2 seconds (health: starting)', 'starting'),
            ('paused', 'Up 2 minutes (Paused)', ''),
            ('removing', 'Removal In Progress', ''),
        ):
            found = listed({'State': state, 'Status': status}, has_health=bool(health))
            self.assertEqual(Condition(status=state, health=health), found)

    def test_a_list_does_not_suffice_for_failed_containers(self):
        for state, status, has_health in (
            ('exited', 'Exited (1) 2 minutes ago', False),
            ('created', 'Created', False),
            ('dead', 'Dead', False),
            ('running', 'Up 2 minutes (unhealthy)', True),
            ('running', 'Up 2 minutes', True),
            ('', '', False),
        ):
            entry = {'State': state, 'Status': status}
            self.assertIsNone(listed(entry, has_health=has_health), entry)
