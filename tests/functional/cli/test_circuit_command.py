"""Tests of opening and closing circuits of all processes through a real Redis."""

from tests.functional.circuit.test_circuit_redis import RedisServer
from tests.functional.real_time import RealTime
from tests.unit.cli.shell import Shell


class SharedCircuits(RealTime, Shell):
    def setUp(self):
        super().setUp()
        server = RedisServer()
        self.addCleanup(server.close)
        text = self.config.read_text()
        self.config.write_text(
            text.replace('path =', f'circuit_redis_url = {server.url}\npath =', 1)
        )

    def circuit(self):
        rows = {row['name']: row for row in self.json('circuit', 'list')}
        return rows['east/build']

    def test_a_manually_opened_circuit_refuses_builds_until_it_is_closed(self):
        self.assertEqual(('closed', 'redis'), (self.circuit()['state'], self.circuit()['storage']))
        self.ok('circuit', 'open', 'build')
        self.assertIn('Circuit build is open', self.err)
        self.assertEqual(('open', True), (self.circuit()['state'], self.circuit()['manual']))
        self.assertIn('opened by hand', self.fails(6, 'compute', 'build'))
        self.ok('compute', 'list')
        self.ok('circuit', 'close', 'east/build')
        self.assertEqual(('closed', False), (self.circuit()['state'], self.circuit()['manual']))
        self.ok('compute', 'build')

    def test_a_missing_circuit_is_status_2(self):
        self.assertIn('has no circuit', self.fails(2, 'circuit', 'open', 'zork'))

    def test_the_url_is_not_printed(self):
        self.ok('circuit', 'list')
        self.assertNotIn('redis://', self.out + self.err)
