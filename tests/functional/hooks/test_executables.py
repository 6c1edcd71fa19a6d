"""Programs as hooks: what they are given, what their end means, and how they are ended."""

import json
import os
import pathlib
import time

from kiln.hooks.answers import Answer, Reply
from kiln.hooks.executables import call_executable
from kiln.hooks.hook import Executable
from tests.functional.hooks.programs import ProgramCase
from tests.unit.hooks.samples import wait_until

#: For what ends by itself, on a machine however busy.
PATIENCE_S = 300.0
DOCUMENT = {'point': 'pre_create', 'invocation': 'key', 'cluster': {'name': 'Größe'}}


class Called(ProgramCase):
    def call(self, body, *args, timeout_s=PATIENCE_S):
        argv = (str(self.program(body)), *args)
        return call_executable(Executable(argv), DOCUMENT, timeout_s)


class Given(Called):
    def test_000_8_it_is_given_one_json_document(self):
        copy = self.folder / 'copy'
        self.assertEqual(Answer.ok(), self.call('cat > "$1"', str(copy)))
        self.assertEqual(DOCUMENT, json.loads(copy.read_text()))

    def test_it_has_nothing_of_the_environment_of_kiln(self):
        os.environ['OS_PASSWORD'] = 'hunter2'
        self.addCleanup(os.environ.pop, 'OS_PASSWORD')
        copy = self.folder / 'copy'
        self.call('env > "$1"', str(copy))
        found = dict(line.split('=', 1) for line in copy.read_text().splitlines())
        own = {'PATH', 'LANG', 'HOME', 'TMPDIR', 'KILN_POINT', 'KILN_INVOCATION'}
        # What a shell adds by itself.
        self.assertEqual(own, found.keys() - {'PWD', 'SHLVL', '_', 'OLDPWD'})
        self.assertEqual('key', found['KILN_INVOCATION'])

    def test_its_directory_is_its_own_and_goes_with_it(self):
        copy = self.folder / 'copy'
        self.call('pwd > "$1"; touch left', str(copy))
        folder = pathlib.Path(copy.read_text().strip())
        self.assertNotEqual(os.getcwd(), str(folder))
        self.assertFalse(folder.exists())

    def test_it_inherits_no_open_file(self):
        copy = self.folder / 'copy'
        with open(self.folder / 'secret', 'w'):
            self.call('ls /proc/self/fd | wc -w > "$1"', str(copy))
        # The three of every program, and the one that ls reads with.
        self.assertEqual('4', copy.read_text().strip())

    def test_one_that_reads_nothing_is_none_the_worse(self):
        large = DOCUMENT | {'groups': ['x' * 1000] * 1000}
        argv = (str(self.program('exit 0')),)
        self.assertEqual(Answer.ok(), call_executable(Executable(argv), large, PATIENCE_S))


class Meant(Called):
    def test_its_status_says_what_became_of_it(self):
        for body, answer in (
            ('exit 0', Answer.ok()),
            ('exit 75', Answer.later()),
            ('echo the rack is locked >&2; exit 75', Answer.later('the rack is locked')),
            ('exit 3', Answer.failed('it ended with status 3')),
            ('echo a; echo b >&2; echo c >&2; exit 1',
             Answer.failed('it ended with status 1: b / c')),
            ('kill -9 $$', Answer.failed('it ended with signal 9')),
        ):  # fmt: skip
            with self.subTest(body):
                self.assertEqual(answer, self.call(body))

    def test_it_may_say_more_in_json(self):
        for body, answer in (
            ('echo \'{"status": "Success", "message": "made it"}\'', Answer.ok('made it')),
            ('echo \'{"status": "Success", "retryAfterSeconds": 7}\'', Answer.later('', 7.0)),
            ('echo \'{"status": "Success", "retryAfterSeconds": 7}\'; exit 75',
             Answer.later('', 7.0)),
            ('echo \'{"status": "Failure", "message": "no"}\'', Answer.failed('no')),
            ('echo \'{"status": "Failure", "message": "no"}\'; exit 2', Answer.failed('no')),
            # The status counts: a program that died did not succeed.
            ('echo \'{"status": "Success", "message": "half"}\'; exit 2',
             Answer.failed('it ended with status 2: half')),
            ('echo hello', Answer.ok()),
        ):  # fmt: skip
            with self.subTest(body):
                self.assertEqual(answer, self.call(body))

    def test_however_much_it_writes_little_is_kept(self):
        answer = self.call('yes | head -c 5000000; yes no | head -c 5000000 >&2; exit 1')
        self.assertEqual('it ended with status 1: no / no / no', answer.message)

    def test_what_it_writes_is_shown_without_secrets_and_controls(self):
        answer = self.call(r"printf 'password=hunter2 \033[31mred\n' >&2; exit 1")
        self.assertEqual('it ended with status 1: password=*** red', answer.message)

    def test_one_that_is_not_there_any_more_fails(self):
        answer = call_executable(Executable((str(self.folder / 'none'),)), DOCUMENT, PATIENCE_S)
        self.assertEqual(
            (Reply.FAILED, 'it cannot be run: No such file or directory'),
            (answer.reply, answer.message),
        )


class Ended(Called):
    def test_at_its_timeout_all_that_it_has_started_is_killed(self):
        pids = self.folder / 'pids'
        timeout_s, answer = 0.25, Answer.ok()
        # Until it came as far as to get stuck: a busy machine may take longer to start it.
        while 'stuck' not in answer.message and timeout_s < PATIENCE_S:
            timeout_s *= 2
            begun = time.monotonic()
            answer = self.call(
                'trap "" TERM; sleep 600 & echo $! > "$1"; echo $$ >> "$1"; echo stuck >&2; wait',
                str(pids),
                timeout_s=timeout_s,
            )
            self.assertLess(time.monotonic() - begun, PATIENCE_S + timeout_s)
        self.assertEqual(
            Answer.failed(f'it has not ended within {timeout_s:g} s, and was killed: stuck'),
            answer,
        )
        for pid in pids.read_text().split():
            wait_until(lambda pid=pid: not is_running(pid))

    def test_one_that_leaves_something_behind_is_not_waited_for(self):
        pid = self.folder / 'pid'
        begun = time.monotonic()
        self.assertEqual(Answer.ok(), self.call('sleep 600 & echo $! > "$1"', str(pid)))
        self.assertLess(time.monotonic() - begun, PATIENCE_S)
        os.kill(int(pid.read_text()), 9)


def is_running(pid):
    try:
        state = pathlib.Path(f'/proc/{pid}/stat').read_text().rsplit(')', 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != 'Z'
