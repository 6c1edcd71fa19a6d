"""Engines over ssh, with a real server and the real ssh program."""

import concurrent.futures
import pathlib
import socket
import socketserver
import tempfile
import threading
import time

from kiln.exceptions import ServiceTimeout, ServiceUnavailable
from tests.functional.docker.site import EngineCase
from tests.functional.docker.sshd import Sshd

#: More connections than the server accepts at once.
_MANY = 12
#: Long enough for a busy machine, and far shorter than no time-out.
PATIENCE_S = 120


class Hanging(socketserver.ThreadingUnixStreamServer):
    """An engine that answers the ping, and then nothing."""

    daemon_threads = True

    def __init__(self, path):
        super().__init__(str(path), _Visit)
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        self.shutdown()
        self.server_close()


class _Visit(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            if line.startswith(b'GET /_ping'):
                self.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK')


class Ssh(EngineCase):
    """An engine on a host that can be reached only by ssh."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix='kiln-ssh-'))
        cls.far = Sshd(pathlib.Path(folder), cls.place.url)
        cls.addClassCleanup(cls.far.stop)

    def open(self, url=None, client=None, **given):
        return self.open_driver(
            url=url or self.far.url(), ssh_config=client or self.far.client(), **given
        )

    def refused(self, **given):
        with self.assertRaises(ServiceUnavailable) as caught:
            self.open(**given).check()
        said = str(caught.exception)
        self.assertIn('the engine cannot be reached', said)
        self.assertEqual(1, len(said.splitlines()))
        return said

    def test_an_amphora_is_built_used_and_deleted_over_ssh(self):
        driver = self.open()
        made = driver.build('container', name='k1', build_key='k1', user_data='hello')
        self.assertTrue(driver.status(made).ready)
        driver.suspend(made)
        driver.resume(made)
        self.assertIn('up', driver.console_log(made))
        self.assertEqual([made], [one.id for one in driver.list_amphorae()])
        driver.delete(made)
        self.assertEqual([], self.containers())

    def test_a_connection_is_kept_for_the_next_request(self):
        driver = self.open()
        driver.check()
        before = self.far.logins()
        for _ in range(5):
            driver.check()
        self.assertEqual(before, self.far.logins())

    def test_many_concurrent_requests_are_all_accepted_by_the_ssh_server(self):
        driver = self.open(connect_timeout=PATIENCE_S, timeout=PATIENCE_S)
        with concurrent.futures.ThreadPoolExecutor(_MANY) as pool:
            looks = [pool.submit(driver.check) for _ in range(_MANY)]
        self.assertTrue(all(look.result().healthy for look in looks))

    def test_the_path_of_another_socket_can_be_given(self):
        self.assertTrue(self.open(self.far.url(self.place.socket)).check().healthy)
        self.assertIn(
            'no engine is listening there', self.refused(url=self.far.url('/nowhere.sock'))
        )

    def test_an_unknown_host_is_not_trusted(self):
        said = self.refused(client=self.far.client(known='none'))
        self.assertIn('its host key is not known', said)

    def test_a_host_with_a_changed_key_is_not_trusted(self):
        said = self.refused(client=self.far.client(known='other'))
        self.assertIn('is not the known one', said)

    def test_a_rejected_key_has_its_own_message(self):
        said = self.refused(client=self.far.client(identity='stranger'))
        self.assertIn('ssh was denied access', said)

    def test_a_closed_port_is_reported_at_once(self):
        with socket.socket() as free:
            free.bind(('127.0.0.1', 0))
            said = self.refused(url=f'ssh://127.0.0.1:{free.getsockname()[1]}')
        self.assertIn('connection refused', said.lower())

    def test_a_hanging_engine_ends_in_a_timeout(self):
        path = self.far.folder / 'hanging.sock'
        hanging = Hanging(path)
        self.addCleanup(hanging.close)
        driver = self.open(self.far.url(path), timeout=0.5)
        began = time.monotonic()
        with self.assertRaises((ServiceTimeout, ServiceUnavailable)) as caught:
            driver.check()
        self.assertIn('it took too long', str(caught.exception))
        self.assertLess(time.monotonic() - began, PATIENCE_S)

    def test_a_silent_ssh_server_ends_in_a_timeout(self):
        with socket.socket() as silent:
            silent.bind(('127.0.0.1', 0))
            silent.listen()
            began = time.monotonic()
            said = self.refused(
                url=f'ssh://127.0.0.1:{silent.getsockname()[1]}', connect_timeout=0.5
            )
        self.assertIn('it took too long', said)
        self.assertLess(time.monotonic() - began, PATIENCE_S)
