"""Circuits shared through a real Redis, between circuits and between processes."""

import logging
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import redis

from kiln.exceptions import CircuitOpenError, ServiceTimeout
from kiln.wrappers.circuit.circuit import Circuit
from kiln.wrappers.circuit.redis import redis_storage
from kiln.wrappers.circuit.settings import CircuitSettings
from kiln.wrappers.circuit.shared import LONGEST_S, SharedPhase

#: Long enough that a busy machine checks a circuit before it expires.
SETTINGS = CircuitSettings(minimum_calls=2, open_s=2.0, open_jitter=0, probe_lease_s=3.0)
PATIENCE_S = 180.0

PROBING_PROCESS = """
import sys, threading, time, redis
from kiln.exceptions import CircuitOpenError
from kiln.wrappers.circuit.circuit import Circuit
from kiln.wrappers.circuit.redis import redis_storage

url = sys.argv[1]
circuit = Circuit('east/read', storage=redis_storage(url, timeout_s=180.0)('east/read'))
circuit.snapshot()
print('ready', flush=True)
sys.stdin.readline()
# Each process sees the end of the open phase by its own reading of the record.
while circuit.refusal() is not None and circuit.snapshot().state == 'open':
    time.sleep(0.01)
counter, refused = redis.Redis.from_url(url), []

def ask():
    try:
        ticket = circuit.admit()
    except CircuitOpenError as refusal:
        refused.append(refusal)
    else:
        counter.incr('backend-calls')

threads = [threading.Thread(target=ask) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(len(refused), flush=True)
counter.close()
"""


class RedisServer:
    """A Redis server of this test run, on a free port of the loopback."""

    def __init__(self):
        program = shutil.which('redis-server')
        if program is None:
            raise AssertionError('redis-server is missing; install the package redis-server')
        self._program = program
        self._home = tempfile.TemporaryDirectory(prefix='kiln-redis-')
        with socket.socket() as free:
            free.bind(('127.0.0.1', 0))
            self.port = free.getsockname()[1]
        self.url = f'redis://127.0.0.1:{self.port}/0'
        self.start()

    def start(self):
        self._process = subprocess.Popen(
            [self._program, '--port', str(self.port), '--bind', '127.0.0.1',
             '--dir', self._home.name, '--save', '', '--appendonly', 'no'],
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        client = redis.Redis(port=self.port)
        give_up = time.monotonic() + PATIENCE_S
        while True:
            try:
                client.ping()
                break
            except redis.ConnectionError:
                if time.monotonic() > give_up or self._process.poll() is not None:
                    raise
                time.sleep(0.02)
        client.close()

    def stop(self):
        self._process.kill()
        self._process.wait()

    def close(self):
        self.stop()
        self._home.cleanup()


class RedisCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = RedisServer()
        cls.addClassCleanup(cls.server.close)

    def setUp(self):
        self.client = redis.Redis(port=self.server.port)
        self.addCleanup(self.client.close)
        self.client.flushall()

    def process(self, name='east/read'):
        # A separate client, as another process would have.
        make = redis_storage(self.server.url, timeout_s=PATIENCE_S)
        storage = make(name)
        self.addCleanup(storage.close)
        return Circuit(name, settings=SETTINGS, storage=storage)

    def break_(self, circuit):
        while circuit.refusal() is None:
            circuit.settle(circuit.admit(), ServiceTimeout('x'))

    def until(self, true, seconds=PATIENCE_S):
        give_up = time.monotonic() + seconds
        while not true():
            self.assertLess(time.monotonic(), give_up, 'it did not come about')
            time.sleep(0.01)


class SharedCircuitTest(RedisCase):
    def test_a_trip_opens_other_circuits_with_its_cause_and_time_to_the_millisecond(self):
        one, two = self.process(), self.process()
        self.break_(one)
        with self.assertRaises(CircuitOpenError) as caught:
            two.admit()
        self.assertIn('service_timeout', str(caught.exception))
        before = time.monotonic()
        first, second = one.refusal().retry_after, two.refusal().retry_after
        took_s = time.monotonic() - before
        # Time passes between the two, and Redis counts in milliseconds.
        self.assertLess(abs(first - second - took_s), took_s + 0.05)

    def test_one_of_many_circuits_gets_the_probe_and_its_success_closes_all(self):
        circuits = [self.process() for _ in range(8)]
        self.break_(circuits[0])
        self.until(lambda: all(circuit.snapshot().state == 'open' for circuit in circuits))
        self.until(lambda: all(circuit.refusal() is None for circuit in circuits))
        tickets, barrier = [], threading.Barrier(len(circuits))

        def ask(circuit):
            barrier.wait()
            try:
                tickets.append((circuit, circuit.admit()))
            except CircuitOpenError:
                pass

        threads = [threading.Thread(target=ask, args=[circuit]) for circuit in circuits]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(1, len(tickets))
        circuit, ticket = tickets[0]
        circuit.settle(ticket)
        self.until(lambda: all(circuit.snapshot().state == 'closed' for circuit in circuits))

    def test_the_probe_lease_of_a_dead_process_expires(self):
        one, two = self.process(), self.process()
        self.break_(one)
        self.until(lambda: one.refusal() is None)
        one.admit()
        with self.assertRaises(CircuitOpenError):
            two.admit()
        self.until(lambda: two.refusal() is None)
        two.settle(two.admit())
        self.assertEqual('closed', two.snapshot().state)

    def test_a_circuit_opened_by_hand_is_open_for_all_until_it_is_closed(self):
        one, two = self.process(), self.process()
        one.isolate()
        self.assertTrue(two.snapshot().manual)
        two.close()
        self.until(lambda: one.snapshot().state == 'closed')

    def test_circuits_of_other_names_are_independent(self):
        one, other = self.process('east/read'), self.process('east/build')
        self.break_(one)
        self.assertEqual('closed', other.snapshot().state)

    def test_processes_send_only_one_probe(self):
        one = self.process()
        one.trip()
        path = str(pathlib.Path(__file__).parents[3])
        running = [
            subprocess.Popen(
                [sys.executable, '-c', PROBING_PROCESS, self.server.url],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={'PYTHONPATH': path},
            )
            for _ in range(3)
        ]
        for process in running:
            self.assertEqual('ready', process.stdout.readline().strip())
        self.until(lambda: one.refusal() is None)
        answers = []
        for process in running:
            process.stdin.write('go\n')
            process.stdin.flush()
        for process in running:
            answers.append(int(process.communicate(timeout=PATIENCE_S)[0]))
        self.assertEqual(b'1', self.client.get('backend-calls'))
        self.assertEqual(23, sum(answers))


class RecordTest(RedisCase):
    def setUp(self):
        super().setUp()
        self.storage = redis_storage(self.server.url, timeout_s=PATIENCE_S)('a')
        self.addCleanup(self.storage.close)

    def test_without_a_record_the_version_is_empty(self):
        self.assertEqual(SharedPhase(), self.storage.exchange('', None))

    def test_an_offered_phase_is_returned_unchanged(self):
        for remaining_s in (LONGEST_S, 0.0, 12.345):
            offered = SharedPhase(
                version=f'v{remaining_s}', state='open', remaining_s=remaining_s,
                trips=3, successes=1, opened_by='service_timeout', manual=remaining_s > 60,
            )  # fmt: skip
            self.client.flushall()
            self.assertEqual(offered, self.storage.exchange('', offered))

    def test_only_a_process_with_the_latest_version_replaces_the_record(self):
        first = SharedPhase(version='1', state='closed')
        second = SharedPhase(version='2')
        self.storage.exchange('', first)
        self.assertEqual(first, self.storage.exchange('other', second))
        self.assertEqual(second, self.storage.exchange('1', second))

    def test_a_record_without_an_end_gets_one_that_all_processes_keep(self):
        """Finding L7: a writer of Redis opened a circuit for ever, for all processes."""
        for ends in ('-1', '99999999999999999', 'inf', 'nan', '-7'):
            with self.subTest(ends=ends):
                record = {'version': ends, 'state': 'open', 'ends': ends, 'trips': '1',
                          'successes': '0', 'opened_by': 'by_hand'}  # fmt: skip
                self.client.hset('kiln:circuit:a', mapping=record)
                first = self.storage.exchange('', None)
                self.assertEqual((LONGEST_S, ends == '-1'), (first.remaining_s, first.manual))
                # A process that begins later does not begin another day.
                self.until(lambda: self.storage.exchange('', None).remaining_s < LONGEST_S)
                self.assertEqual(first.manual, self.storage.exchange('', None).manual)
                self.client.flushall()

    def test_a_record_of_another_program_counts_as_a_failure(self):
        partial = {'version': '1', 'state': 'open', 'ends': '-1', 'successes': '0'}
        records = (
            partial,
            {**partial, 'trips': 'many'},
            {**partial, 'trips': '1', 'state': 'ajar'},
            # It would keep the circuit half open for as many probes.
            {**partial, 'trips': '1', 'successes': '-1000000'},
        )
        for record in records:
            with self.subTest(record=record), self.assertLogs('kiln.wrappers', 'WARNING'):
                self.client.flushall()
                self.client.hset('kiln:circuit:b', mapping=record)
                storage = redis_storage(self.server.url, timeout_s=PATIENCE_S)('b')
                self.addCleanup(storage.close)
                self.assertIsNone(storage.exchange('', None))

    def test_the_remaining_time_follows_the_clock_of_redis(self):
        self.storage.exchange('', SharedPhase(version='1', state='open', remaining_s=0.1))
        self.until(lambda: self.storage.exchange('', None).remaining_s == 0.0)


class TroubleTest(unittest.TestCase):
    def setUp(self):
        self.server = RedisServer()
        self.addCleanup(self.server.close)
        self.storage = redis_storage(self.server.url, pause_s=0.05)('a')
        self.addCleanup(self.storage.close)
        self.circuit = Circuit('a', settings=SETTINGS, storage=self.storage)

    def test_without_redis_the_circuit_uses_memory_and_logs_once(self):
        self.circuit.admit()
        self.server.stop()
        with self.assertLogs('kiln.wrappers.circuit.redis', logging.WARNING) as logs:
            while self.circuit.refusal() is None:
                self.circuit.settle(self.circuit.admit(), ServiceTimeout('x'))
            for _ in range(30):
                time.sleep(0.01)
                self.circuit.snapshot()
        self.assertEqual(1, len(logs.records))
        self.assertEqual('open', self.circuit.snapshot().state)
        while self.circuit.refusal() is not None:
            time.sleep(0.01)
        self.circuit.settle(self.circuit.admit())
        self.assertEqual('closed', self.circuit.snapshot().state)

    def test_a_redis_that_comes_back_receives_missed_changes(self):
        self.circuit.admit()
        self.server.stop()
        with self.assertLogs('kiln.wrappers.circuit.redis', logging.INFO) as logs:
            self.circuit.isolate()
            self.server.start()
            give_up = time.monotonic() + PATIENCE_S
            while 'shared again' not in str(logs.output):
                self.assertLess(time.monotonic(), give_up)
                time.sleep(0.02)
                self.circuit.snapshot()
        other = redis_storage(self.server.url, timeout_s=PATIENCE_S)('a')
        self.addCleanup(other.close)
        self.assertTrue(Circuit('a', storage=other).snapshot().manual)

    def test_a_hanging_redis_delays_only_one_call_briefly(self):
        self.circuit.admit()
        listening = socket.create_server(('127.0.0.1', 0))
        self.addCleanup(listening.close)
        url = f'redis://127.0.0.1:{listening.getsockname()[1]}/0'
        storage = redis_storage(url, pause_s=PATIENCE_S)('a')
        self.addCleanup(storage.close)
        circuit = Circuit('a', settings=SETTINGS, storage=storage)
        with self.assertLogs('kiln.wrappers.circuit.redis', logging.WARNING):
            for _ in range(20):
                circuit.settle(circuit.admit())
        listening.settimeout(0)
        # After one unanswered request Redis is not called for a while.
        listening.accept()[0].close()
        with self.assertRaises(BlockingIOError):
            listening.accept()
