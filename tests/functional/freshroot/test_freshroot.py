"""Tests of tools.freshroot: each case does what it promises, and a run leaves nothing.

They need root and the package mmdebstrap, and make the two roots unless they are cached.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from tools.freshroot.cases import CASES
from tools.freshroot.place import default_home

REPOSITORY = pathlib.Path(__file__).parents[3]
MEGABYTE = 1 << 20

FACTS = """
import json, os, pathlib, pwd, subprocess

def size(path):
    there = os.statvfs(path)
    return there.f_blocks * there.f_frsize

git = subprocess.run(['git', 'rev-parse', 'HEAD'], capture_output=True, text=True)
status = pathlib.Path('/proc/self/status').read_text()
ignored = int(status.split('SigIgn:')[1].split()[0], 16)
print(json.dumps({
    'user': pwd.getpwuid(os.getuid()).pw_name,
    'groups': os.getgroups(),
    'owners': sorted({path.owner() for path in pathlib.Path().iterdir()}),
    'folder': os.getcwd(),
    'files': os.listdir(),
    'git': git.stdout.strip() or git.stderr,
    'sigint ignored': bool(ignored >> 1 & 1),
    'devices': [line.split(':')[0].strip()
                for line in pathlib.Path('/proc/net/dev').read_text().splitlines()[2:]],
    'network': os.readlink('/proc/self/ns/net'),
    'tmp': size('/tmp'),
    'shm': size('/dev/shm'),
    'release': pathlib.Path('/etc/os-release').read_text(),
    'environment': dict(os.environ),
    'programs': os.listdir('/usr/bin') + os.listdir('/usr/sbin'),
}))
"""
CONNECT = """
import socket
with socket.create_server(('127.0.0.1', 0)) as server:
    socket.create_connection(server.getsockname()).close()
"""
#: Programs that CI installs or that many machines have.
HOST_PROGRAMS = {'runc', 'mariadb', 'mmdebstrap', 'ip', 'gcc', 'curl'}


def setUpModule():
    if os.geteuid() != 0 or shutil.which('mmdebstrap') is None:
        raise AssertionError('needs root, and: apt-get install mmdebstrap')


class FreshRootTest(unittest.TestCase):
    def setUp(self):
        # The runs of each test are separate; the roots are shared.
        self.home = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix='kiln-')))
        self.roots = default_home() / 'roots'
        self.roots.mkdir(parents=True, exist_ok=True)
        (self.home / 'roots').symlink_to(self.roots)

    def command(self, *options, words):
        tool = [sys.executable, '-m', 'tools.freshroot', '--home', str(self.home)]
        return [*tool, 'run', *options, '--', *words]

    def run_in(self, *options, words, **environment):
        return subprocess.run(
            self.command(*options, words=words),
            cwd=REPOSITORY,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    def start_in(self, *options, words):
        process = subprocess.Popen(
            self.command(*options, words=words),
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            # A shell that runs the tests in the background makes their children ignore SIGINT.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        for stream in (process.stdin, process.stdout):
            self.addCleanup(stream.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        return process

    def facts(self, *options, **environment):
        """Return what a program finds in a fresh root."""
        done = self.run_in(*options, words=['python3', '-c', FACTS], **environment)
        self.assertEqual(0, done.returncode, done.stderr)
        return json.loads(done.stdout.splitlines()[-1])


class Cases(FreshRootTest):
    def test_a_clone_has_head_and_belongs_to_a_plain_user(self):
        facts = self.facts(
            '--env', 'GIVEN=1', PYTHONPATH='/nowhere', PIP_NO_INDEX='0', PIP_TARGET='/x'
        )
        head = subprocess.check_output(
            ['git', '-c', 'safe.directory=*', 'rev-parse', 'HEAD'], cwd=REPOSITORY, text=True
        )
        self.assertEqual(head.strip(), facts['git'])
        self.assertEqual(('user', ['user']), (facts['user'], facts['owners']))
        self.assertEqual(1, len(facts['groups']))
        self.assertFalse(facts['sigint ignored'])
        self.assertNotIn('.venv', facts['files'])
        environment = facts['environment']
        self.assertEqual(('1', '0'), (environment['GIVEN'], environment['PIP_NO_INDEX']))
        self.assertFalse({'PYTHONPATH', 'PIP_TARGET'} & set(environment))

    def test_a_root_of_each_suite_has_no_program_of_the_host(self):
        for suite, version in (('bookworm', '12'), ('trixie', '13')):
            with self.subTest(suite):
                facts = self.facts('--suite', suite)
                self.assertIn(f'VERSION_ID="{version}"', facts['release'])
                programs = set(facts['programs'])
                self.assertLessEqual({'git', 'make', 'python3'}, programs)
                self.assertFalse(HOST_PROGRAMS & programs)

    def test_an_archive_has_no_git_repository(self):
        facts = self.facts('--case', 'archive')
        self.assertNotIn('.git', facts['files'])
        self.assertIn('README.rst', facts['files'])
        self.assertIn('not a git repository', facts['git'])

    def test_git_refuses_to_read_the_clone_of_another_user(self):
        facts = self.facts('--case', 'foreign')
        self.assertEqual(('root', ['user']), (facts['user'], facts['owners']))
        self.assertIn('dubious ownership', facts['git'])

    def test_the_case_folder_has_a_space_and_an_umlaut_in_its_path(self):
        folder = pathlib.Path(self.facts('--case', 'folder')['folder'])
        self.assertIn(' ', folder.name)
        self.assertIn('ü', folder.name)

    def test_the_case_sigint_ignores_sigint(self):
        self.assertTrue(self.facts('--case', 'sigint')['sigint ignored'])

    def test_the_case_offline_has_a_network_only_during_setup(self):
        setup = 'readlink /proc/self/ns/net >network'
        code = f'{CONNECT}\nprint(open("network").read().strip())\n{FACTS}'
        done = self.run_in('--case', 'offline', '--setup', setup, words=['python3', '-c', code])
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual(os.readlink('/proc/self/ns/net'), done.stdout.splitlines()[0])
        facts = json.loads(done.stdout.splitlines()[-1])
        self.assertEqual(['lo'], facts['devices'])

    def test_the_case_small_has_a_small_tmp_and_shm(self):
        facts = self.facts('--case', 'small')
        self.assertEqual((512 * MEGABYTE, 64 * MEGABYTE), (facts['tmp'], facts['shm']))


class Results(FreshRootTest):
    def test_the_exit_status_is_that_of_the_command(self):
        for script, status in (('exit 7', 7), ('kill -9 $$', 137), ('exec nosuch', 127)):
            with self.subTest(script):
                self.assertEqual(status, self.run_in(words=['sh', '-c', script]).returncode)
        done = self.run_in(words=['nosuch'])
        self.assertEqual(127, done.returncode)
        self.assertIn('nosuch: No such file', done.stderr)

    def test_a_failed_setup_ends_the_run(self):
        done = self.run_in('--setup', 'exit 5', words=['echo', 'reached'])
        self.assertEqual((5, ''), (done.returncode, done.stdout))

    def test_files_are_copied_out_even_if_the_command_fails(self):
        done = self.run_in(
            *('--bring-out', '.coverage*', str(self.home / 'out')),
            words=['sh', '-c', 'echo one >.coverage.1; echo two >.coverage.2; exit 1'],
        )
        self.assertEqual(1, done.returncode)
        found = {path.name: path.read_text() for path in (self.home / 'out').iterdir()}
        self.assertEqual({'.coverage.1': 'one\n', '.coverage.2': 'two\n'}, found)

    def test_several_runs_print_a_table_and_fail_if_one_failed(self):
        done = self.run_in('--suite', 'all', words=['grep', '-q', 'bookworm', '/etc/os-release'])
        self.assertEqual(1, done.returncode)
        for words in ('bookworm  clone', 'passed', 'trixie    clone', 'failed with 1'):
            self.assertIn(words, done.stdout)


class Isolation(FreshRootTest):
    def traces(self):
        """Return the processes that see a mount of this test, and the folders of its runs."""
        seen = []
        for path in pathlib.Path('/proc').glob('[0-9]*/mountinfo'):
            try:
                if str(self.home) in path.read_text():
                    seen.append(path)
            except OSError:
                continue  # the process has ended
        return seen, list((self.home / 'runs').glob('*'))

    def test_a_run_sees_no_traces_of_another_and_uses_the_cached_root(self):
        self.assertEqual(0, self.run_in(words=['touch', '/home/user/trace']).returncode)
        before = {path: path.stat().st_ctime_ns for path in self.roots.glob('*/root')}
        done = self.run_in(words=['test', '-e', '/home/user/trace'])
        self.assertEqual(1, done.returncode, done.stderr)
        self.assertIn('in the cache', done.stderr)
        self.assertEqual(
            before, {path: path.stat().st_ctime_ns for path in self.roots.glob('*/root')}
        )
        self.assertEqual(([], []), self.traces())

    def test_concurrent_runs_are_isolated(self):
        waiting = self.start_in(words=['sh', '-c', 'touch /tmp/one; echo up; read line'])
        self.assertEqual('up\n', waiting.stdout.readline())
        done = self.run_in('--suite', 'trixie', words=['test', '-e', '/tmp/one'])
        self.assertEqual(1, done.returncode, done.stderr)
        waiting.communicate('go on\n')
        self.assertEqual(0, waiting.returncode)

    def kill(self, number):
        """Send a signal to the tool during a run; return once all its processes have ended."""
        # One background process, and one with a session of its own.
        script = 'sleep 1000 & setsid sleep 1000 & echo up; wait'
        process = self.start_in('--case', 'small', words=['sh', '-c', script])
        self.assertEqual('up\n', process.stdout.readline())
        process.send_signal(number)
        # Each of the processes has the other end of the pipe open.
        self.assertEqual('', process.stdout.read())
        return process.wait()

    def test_a_killed_run_leaves_no_mounts_and_the_next_run_cleans_up(self):
        self.assertEqual(-signal.SIGKILL, self.kill(signal.SIGKILL))
        mounts, folders = self.traces()
        self.assertEqual(([], 1), (mounts, len(folders)))
        self.assertEqual(0, self.run_in(words=['true']).returncode)
        self.assertEqual(([], []), self.traces(), 'the next run takes away what lay on the disk')

    def test_a_terminated_run_leaves_nothing(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number):
                self.assertEqual(128 + number, self.kill(number))
                self.assertEqual(([], []), self.traces())


class MissingRequirements(FreshRootTest):
    """The tool on a machine without a requirement: in a fresh root, which lacks it."""

    def told(self, case):
        done = self.run_in(
            '--case',
            case,
            words=['python3', '-m', 'tools.freshroot', 'run', '--', 'true'],
        )
        self.assertEqual(125, done.returncode, done.stderr)
        return [line for line in done.stderr.splitlines() if line.startswith('freshroot: ')][-1]

    def test_a_run_without_root_privileges_is_refused(self):
        self.assertEqual(
            'freshroot: run it as root: it makes namespaces, mounts and users', self.told('clone')
        )

    def test_without_mmdebstrap_the_error_names_the_package(self):
        self.assertEqual(
            'freshroot: mmdebstrap is missing: apt-get install mmdebstrap', self.told('foreign')
        )

    def test_every_case_is_tested_here(self):
        proved = {'clone', 'archive', 'foreign', 'folder', 'sigint', 'offline', 'small'}
        self.assertEqual(proved, set(CASES))
