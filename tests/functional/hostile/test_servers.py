"""Every client on a server that drips, floods, nests, escapes, lies and redirects."""

import concurrent.futures
import functools
import unittest

from kiln.exceptions import KilnError
from kiln.foreign.text import visible
from kiln.wrappers.watcher.probe import NotReady
from tests.unit.foreign.clients import CLIENTS, server_tls
from tests.unit.foreign.hostile import BEHAVIOURS, ENDLESS, HostileServer

#: The time of one exchange.
LIMIT_S = 0.4
#: More than what a client reads of an answer, with the buffers of sockets.
MOST_SENT = 100_000_000
#: Each connection through ssh is a program, so it meets only these; the rest of the client is
#: that of other connections.
_OF_SSH = ('silence', 'dripping_head', 'dripping_chunks', 'flood', 'escapes', 'no_http')


@functools.cache
def tls():
    return server_tls()


def outcome(client, behave):
    """Return how a client ended: text, exception, if the server ended first, bytes sent."""
    settings = tls() if client == 'node_engine' else None
    with HostileServer(behave, settings) as server:
        error, said = None, None
        try:
            said = CLIENTS[client](server.port, LIMIT_S)
        except Exception as exc:
            error, said = exc, str(exc)
        return said, error, server.over.is_set(), server.sent


class Hostile(unittest.TestCase):
    def _run(self, client):
        """Return the outcomes of one client on all servers, which run at once."""
        chosen = {name: one for name, one in BEHAVIOURS.items() if name in _OF_SSH}
        servers = chosen if client == 'docker_ssh' else BEHAVIOURS
        with concurrent.futures.ThreadPoolExecutor(len(servers)) as pool:
            runs = {name: pool.submit(outcome, client, one) for name, one in servers.items()}
            return {name: run.result() for name, run in runs.items()}

    def check(self, client):
        for name, (said, error, outlasted, sent) in self._run(client).items():
            with self.subTest(client=client, server=name):
                self.assertFalse(outlasted, 'it did not end before its server')
                self.assertLess(sent, MOST_SENT)
                if error is not None:
                    self.assertIsInstance(error, KilnError | NotReady)
                if isinstance(said, str):
                    self.assertEqual(visible(said), said)
                    self.assertLess(len(said), 5000)
                if name in ENDLESS and not client.endswith('_tcp') and not _needs_status(client):
                    self.assertTrue(said if error is None else error, 'it has succeeded')


def _needs_status(client):
    # The status is all that such a probe reads of an answer.
    return client in ('ready_http', 'probe_http', 'appliance_probe')


def _test_of(client):
    def test(self):
        self.check(client)

    return test


for _client in CLIENTS:
    setattr(Hostile, f'test_{_client}_ends_in_time_with_readable_words', _test_of(_client))
