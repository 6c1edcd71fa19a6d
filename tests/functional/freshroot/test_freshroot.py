"""Each way into a fresh root is what it says, and nothing of a run stays.

Needs root and the package mmdebstrap; makes the two roots where they are not cached.
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
#: Some of what CI installs, and what many machines have.
HOST_PROGRAMS = {'runc', 'mariadb', 'mmdebstrap', 'ip', 'gcc', 'curl'}


def setUpModule():
    if os.geteuid() != 0 or shutil.which('mmdebstrap') is None:
        raise AssertionError('needs root, and: apt-get install mmdebstrap')


class FreshRootTest(unittest.TestCase):
    def setUp(self):
        # Runs of its own; the roots are everybody's.
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
        """What a program finds in there."""
        done = self.run_in(*options, words=['python3', '-c', FACTS], **environment)
        self.assertEqual(0, done.returncode, done.stderr)
        return json.loads(done.stdout.splitlines()[-1])


class Cases(FreshRootTest):
    def test_a_clone_is_head_in_the_hands_of_a_plain_user(self):
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

    def test_a_tree_without_git_has_none(self):
        facts = self.facts('--case', 'archive')
        self.assertNotIn('.git', facts['files'])
        self.assertIn('README.rst', facts['files'])
        self.assertIn('not a git repository', facts['git'])

    def test_git_refuses_to_answer_in_somebody_else_s_clone(self):
        facts = self.facts('--case', 'foreign')
        self.assertEqual(('root', ['user']), (facts['user'], facts['owners']))
        self.assertIn('dubious ownership', facts['git'])

    def test_a_folder_has_a_space_and_an_umlaut(self):
        folder = pathlib.Path(self.facts('--case', 'folder')['folder'])
        self.assertIn(' ', folder.name)
        self.assertIn('ü', folder.name)

    def test_sigint_is_ignored(self):
        self.assertTrue(self.facts('--case', 'sigint')['sigint ignored'])

    def test_the_network_ends_with_set_up(self):
        setup = 'readlink /proc/self/ns/net >network'
        code = f'{CONNECT}\nprint(open("network").read().strip())\n{FACTS}'
        done = self.run_in('--case', 'offline', '--setup', setup, words=['python3', '-c', code])
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual(os.readlink('/proc/self/ns/net'), done.stdout.splitlines()[0])
        facts = json.loads(done.stdout.splitlines()[-1])
        self.assertEqual(['lo'], facts['devices'])

    def test_tmp_and_shm_are_small(self):
        facts = self.facts('--case', 'small')
        self.assertEqual((512 * MEGABYTE, 64 * MEGABYTE), (facts['tmp'], facts['shm']))


class Results(FreshRootTest):
    def test_the_status_is_the_command_s(self):
        for script, status in (('exit 7', 7), ('kill -9 $$', 137), ('exec nosuch', 127)):
            with self.subTest(script):
                self.assertEqual(status, self.run_in(words=['sh', '-c', script]).returncode)
        done = self.run_in(words=['nosuch'])
        self.assertEqual(127, done.returncode)
        self.assertIn('nosuch: No such file', done.stderr)

    def test_a_failed_set_up_is_the_end(self):
        done = self.run_in('--setup', 'exit 5', words=['echo', 'reached'])
        self.assertEqual((5, ''), (done.returncode, done.stdout))

    def test_files_come_out_though_the_command_fails(self):
        done = self.run_in(
            *('--bring-out', '.coverage*', str(self.home / 'out')),
            words=['sh', '-c', 'echo one >.coverage.1; echo two >.coverage.2; exit 1'],
        )
        self.assertEqual(1, done.returncode)
        found = {path.name: path.read_text() for path in (self.home / 'out').iterdir()}
        self.assertEqual({'.coverage.1': 'one\n', '.coverage.2': 'two\n'}, found)

    def test_several_runs_end_with_a_table_and_fail_if_one_did(self):
        done = self.run_in('--suite', 'all', words=['grep', '-q', 'bookworm', '/etc/os-release'])
        self.assertEqual(1, done.returncode)
        for words in ('bookworm  clone', 'passed', 'trixie    clone', 'failed with 1'):
            self.assertIn(words, done.stdout)


class Traces(FreshRootTest):
    def traces(self):
        """Where a mount of this test is seen, by any process, and what lies in its home."""
        seen = []
        for path in pathlib.Path('/proc').glob('[0-9]*/mountinfo'):
            try:
                if str(self.home) in path.read_text():
                    seen.append(path)
            except OSError:
                continue  # it has ended meanwhile
        return seen, list((self.home / 'runs').glob('*'))

    def test_a_run_sees_nothing_of_another_and_makes_no_root_again(self):
        self.assertEqual(0, self.run_in(words=['touch', '/home/user/trace']).returncode)
        before = {path: path.stat().st_ctime_ns for path in self.roots.glob('*/root')}
        done = self.run_in(words=['test', '-e', '/home/user/trace'])
        self.assertEqual(1, done.returncode, done.stderr)
        self.assertIn('in the cache', done.stderr)
        self.assertEqual(
            before, {path: path.stat().st_ctime_ns for path in self.roots.glob('*/root')}
        )
        self.assertEqual(([], []), self.traces())

    def test_two_runs_side_by_side_do_not_meet(self):
        waiting = self.start_in(words=['sh', '-c', 'touch /tmp/one; echo up; read line'])
        self.assertEqual('up\n', waiting.stdout.readline())
        done = self.run_in('--suite', 'trixie', words=['test', '-e', '/tmp/one'])
        self.assertEqual(1, done.returncode, done.stderr)
        waiting.communicate('go on\n')
        self.assertEqual(0, waiting.returncode)

    def kill(self, number):
        """Kill the tool amid a run, and return when all that it started has ended."""
        # One that is left alone, and one that has a session to itself.
        script = 'sleep 1000 & setsid sleep 1000 & echo up; wait'
        process = self.start_in('--case', 'small', words=['sh', '-c', script])
        self.assertEqual('up\n', process.stdout.readline())
        process.send_signal(number)
        # Each of them holds the other end.
        self.assertEqual('', process.stdout.read())
        return process.wait()

    def test_nothing_is_left_when_it_is_killed(self):
        self.assertEqual(-signal.SIGKILL, self.kill(signal.SIGKILL))
        mounts, folders = self.traces()
        self.assertEqual(([], 1), (mounts, len(folders)))
        self.assertEqual(0, self.run_in(words=['true']).returncode)
        self.assertEqual(([], []), self.traces(), 'the next run takes away what lay on the disk')

    def test_nothing_is_left_when_it_is_told_to_end(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number):
                self.assertEqual(128 + number, self.kill(number))
                self.assertEqual(([], []), self.traces())


class Lacking(FreshRootTest):
    """The tool on a machine that lacks something: in a fresh root, which lacks it."""

    def told(self, case):
        done = self.run_in(
            '--case',
            case,
            words=['python3', '-m', 'tools.freshroot', 'run', '--', 'true'],
        )
        self.assertEqual(125, done.returncode, done.stderr)
        return [line for line in done.stderr.splitlines() if line.startswith('freshroot: ')][-1]

    def test_without_root_it_says_so(self):
        self.assertEqual(
            'freshroot: run it as root: it makes namespaces, mounts and users', self.told('clone')
        )

    def test_without_mmdebstrap_it_names_the_package(self):
        self.assertEqual(
            'freshroot: mmdebstrap is missing: apt-get install mmdebstrap', self.told('foreign')
        )

    def test_every_case_is_proved_here(self):
        proved = {'clone', 'archive', 'foreign', 'folder', 'sigint', 'offline', 'small'}
        self.assertEqual(proved, set(CASES))
