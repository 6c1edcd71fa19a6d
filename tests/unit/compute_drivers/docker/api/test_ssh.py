"""The ssh command of a remote engine, and the meaning of its error output."""

import contextlib
import gc
import os
import pathlib
import socket
import sys
import tempfile
import threading
import unittest
import unittest.mock

import requests

from kiln.clock import SYSTEM_CLOCK
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.docker.api.client import Engine
from kiln.compute_drivers.docker.api.ssh import (
    SshAdapter,
    SshError,
    _Connection,
    _environment,
    command,
    meaning,
)
from kiln.exceptions import ConfigurationError
from kiln.foreign.exchange import exchange
from tests.certificates import Authority
from tests.unit.compute_drivers.docker.test_settings import options


class Commands(unittest.TestCase):
    def test_the_command_names_user_host_and_port_and_never_prompts(self):
        words = command('ssh://me@far.example:2222')
        self.assertEqual(('-l', 'me', '-p', '2222', '--', 'far.example'), words[-7:-1])
        self.assertEqual('docker system dial-stdio', words[-1])
        self.assertIn('BatchMode=yes', words)

    def test_parts_missing_in_the_url_come_from_the_ssh_configuration(self):
        words = command('ssh://far')
        self.assertEqual(('LogLevel=ERROR', '--', 'far'), words[-4:-1])
        self.assertNotIn('-F', words)

    def test_a_given_configuration_replaces_that_of_the_user(self):
        self.assertEqual(('ssh', '-F', '/etc/kiln/ssh'), command('ssh://far', '/etc/kiln/ssh')[:3])

    def test_a_path_is_passed_quoted_as_the_socket(self):
        for path, quoted in (
            ('/run/podman/podman.sock', 'unix:///run/podman/podman.sock'),
            ('/a;reboot', "'unix:///a;reboot'"),
            ('/', None),
        ):
            middle = f' --host {quoted}' if quoted else ''
            self.assertEqual(f'docker{middle} system dial-stdio', command(f'ssh://far{path}')[-1])

    def test_a_host_name_cannot_become_an_option(self):
        words = command('ssh://-oProxyCommand=reboot/')
        self.assertEqual('--', words[words.index('-oproxycommand=reboot') - 1])

    def test_variables_that_ssh_does_not_need_are_not_passed_on(self):
        needed = {'HOME': '/h', 'PATH': '/bin', 'SSH_AUTH_SOCK': '/s', 'LC_ALL': 'C', 'USER': 'me'}
        others = {'OS_COMPUTE__PASSWORD': 'x', 'CREDENTIALS_DIRECTORY': '/c', 'DOCKER_HOST': 'y'}
        self.assertEqual(_environment(others | needed), needed)

    def test_an_invalid_url_is_refused_when_the_backend_is_opened(self):
        for url, reason in (
            ('ssh://far:99999', 'Port out of range'),
            ('ssh:///run/docker.sock', 'it names no host.'),
        ):
            said = f"Cannot use url '{url}': {reason}"
            with self.assertRaisesRegex(ConfigurationError, said) as caught:
                Engine(options(url=url), SYSTEM_CLOCK)
            self.assertIsInstance(caught.exception.__cause__, ValueError)


#: What an engine answers, here over a program that is not ssh: first to the ping, with more
#: than a client reads at once, so that the body of this answer comes by itself.
_FAR = r"""
import sys
HEAD = b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n'
for answer in HEAD + b'X: ' + b'x' * (8192 - len(HEAD) - 7) + b'\r\n\r\nOK', HEAD + b'\r\nhi':
    while sys.stdin.buffer.readline().strip():
        pass
    sys.stdout.buffer.write(answer)
    sys.stdout.buffer.flush()
"""


#: An engine that answers for as long as it is asked, and adds its ids to a file for each run.
_LASTING = r"""
import os, sys
with open(sys.argv[1], 'a') as runs:
    runs.write(f'{os.getpid()} {os.getsid(0)}\n')
for line in sys.stdin.buffer:
    if not line.strip():
        sys.stdout.buffer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK')
        sys.stdout.buffer.flush()
"""


#: A program in place of ssh, with an engine behind it that answers the ping and then this.
_SSH = f"""#!{sys.executable} -S
import sys
for said in b'OK', b'{{"ApiVersion": "1.41", "Components": [{{"Name": "Podman Engine"}}]}}':
    while sys.stdin.buffer.readline().strip():
        pass
    sys.stdout.buffer.write(b'HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n' % len(said))
    sys.stdout.buffer.write(said)
    sys.stdout.buffer.flush()
"""


class Engines(unittest.TestCase):
    def test_an_engine_on_another_host_is_asked_through_ssh_whatever_there_is_for_tls(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        program = pathlib.Path(folder, 'ssh')
        program.write_text(_SSH)
        program.chmod(0o755)
        self.enterContext(unittest.mock.patch.dict(os.environ, {'PATH': folder}))
        authority = Authority(pathlib.Path(folder))
        for tls_ca in (None, str(authority.ca)):
            engine = Engine(options(url='ssh://far', tls_ca=tls_ca), SYSTEM_CLOCK)
            self.addCleanup(engine.close)
            self.assertTrue(engine.is_podman(Asked(verb='get', subject='c1')))


def connection(*program, timeout=60.0):
    """Return a connection through a program in place of ssh."""
    return _Connection(program, threading.BoundedSemaphore(), 'docker', timeout=timeout)


class Connections(unittest.TestCase):
    def test_as_many_are_kept_as_are_used_at_once(self):
        most = 12
        runs = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()), 'runs')
        far = (sys.executable, '-S', '-c', _LASTING, str(runs))
        with requests.Session() as session:
            session.mount('http://', SshAdapter(far, most))
            for _ in range(2):
                answers = [
                    session.get('http://docker/x', timeout=60, stream=True) for _ in range(most)
                ]
                self.assertEqual(['OK'] * most, [one.text for one in answers])
            self.assertEqual(most, len(runs.read_text().splitlines()))
            session.close()
            # The answers have their connections.
            del answers
            gc.collect()
            for line in runs.read_text().splitlines():
                with self.assertRaises(ProcessLookupError):
                    os.kill(int(line.split()[0]), 0)
            # What was closed is opened again by the next request.
            self.assertEqual('OK', session.get('http://docker/x', timeout=60).text)

    def test_the_answer_to_the_ping_is_not_that_to_the_first_request(self):
        with requests.Session() as session:
            session.mount('http://', SshAdapter((sys.executable, '-S', '-c', _FAR), 1))
            self.assertEqual('hi', session.get('http://docker/x', timeout=60).text)

    def test_nobody_waits_for_a_turn_beyond_the_end_of_the_exchange(self):
        turn = threading.BoundedSemaphore()
        turn.acquire()
        late = _Connection(('true',), turn, 'docker', timeout=3600.0)
        with exchange(0.05), self.assertRaisesRegex(TimeoutError, 'too many other connections'):
            late.connect()

    def test_a_program_that_ends_without_an_answer_has_told_the_reason(self):
        for script, reason in (
            ('echo Host key verification failed. >&2', 'its host key is not known'),
            ('echo it rained >&2; echo no HTTP', 'it rained'),
            (r"printf 'caf\351 closed' >&2", 'caf\ufffd closed'),
        ):
            with self.subTest(script), self.assertRaisesRegex(SshError, reason) as caught:
                connection('sh', '-c', script).connect()
            self.assertIsNotNone(caught.exception.__cause__)

    def test_a_connection_needs_no_time_out(self):
        ended = _Connection(('true',), threading.BoundedSemaphore(), 'docker')
        with self.assertRaises(SshError):
            ended.connect()

    def test_the_program_of_a_connection_has_a_session_and_ends_with_it(self):
        told = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()), 'ids')
        opened = connection(sys.executable, '-S', '-c', _LASTING, str(told))
        opened.connect()
        program, session = map(int, told.read_text().split())
        self.assertEqual(program, session)
        opened.close()
        with self.assertRaises(ProcessLookupError):
            os.kill(program, 0)

    def test_a_program_gets_no_variable_that_ssh_does_not_need(self):
        self.enterContext(unittest.mock.patch.dict(os.environ, {'CREDENTIALS': 'secret'}))
        with self.assertRaisesRegex(SshError, 'got none'):
            connection('sh', '-c', 'echo "got ${CREDENTIALS:-none}" >&2').connect()

    def test_a_program_that_cannot_be_run_leaves_nothing_open(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        for program, reason in (
            (f'{folder}/none', 'the ssh command was not found; install openssh-client'),
            (folder, 'the ssh command cannot be run: Permission denied'),
        ):
            before = len(os.listdir('/proc/self/fd'))
            # Its traceback keeps what the failed call had.
            kept = None
            try:
                connection(program).connect()
            except SshError as exc:
                kept = exc
            self.assertEqual((0, reason), (kept.errno, kept.strerror))
            # Threads of other tests can have closed some meanwhile.
            self.assertLessEqual(len(os.listdir('/proc/self/fd')), before)

    def test_a_program_that_does_not_end_by_itself_is_ended(self):
        told = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()), 'id')
        os.mkfifo(told)
        lasting = connection('sh', '-c', f'echo $$ > {told}; exec sleep 3600', timeout=None)

        def connect():
            with contextlib.suppress(SshError):
                lasting.connect()

        opening = threading.Thread(target=connect)
        opening.start()
        # Once the program has told it.
        program = int(told.read_text())
        lasting.sock.shutdown(socket.SHUT_RDWR)
        opening.join()
        with self.assertRaises(ProcessLookupError):
            os.kill(program, 0)

    def test_a_connection_that_fails_is_closed_before_others_are_opened(self):
        # As the server drops further ones while too many are open.
        silent = _Connection(
            ('sh', '-c', 'cat > /dev/null'), threading.BoundedSemaphore(), 'docker', timeout=0.1
        )
        with self.assertRaises(TimeoutError):
            silent.connect()
        self.assertTrue(silent.is_closed)


class Meanings(unittest.TestCase):
    def test_each_error_becomes_one_line_with_a_remedy(self):
        for said, meant in (
            ('No ED25519 host key is known.\nHost key verification failed.', 'not known'),
            ('WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!\nHost key verification failed.',
             'ssh-keygen -R'),
            ('me@far: Permission denied (publickey).', 'ssh was denied access'),
            ('permission denied while trying to connect to the Docker daemon socket at unix',
             'add it to the group docker'),
            ('Got permission denied while trying to connect to the Docker daemon socket at',
             'add it to the group docker'),
            ('failed to open the raw stream connection: dial unix /x: connect: permission denied',
             'add it to the group docker'),
            ('sh: 1: docker: not found', 'docker command there is missing'),
            ('bash: docker: command not found', 'docker command there is missing'),
            ('Cannot connect to the Docker daemon at unix:///x. Is it running?', 'no engine'),
            ('failed to open the raw stream connection: dial unix /x: connect: no such file or '
             'directory', 'no engine'),
            ('ssh: Could not resolve hostname far: Name or service not known', 'name cannot be'),
        ):  # fmt: skip
            with self.subTest(said):
                self.assertIn(meant, meaning(said))

    def test_the_last_line_of_an_unknown_error_is_reported(self):
        self.assertEqual('it rained', meaning('\nfirst\nit rained.\n\n'))
        self.assertEqual(300, len(meaning('x' * 999)))
        self.assertEqual('ssh ended without a message', meaning(' \n'))
