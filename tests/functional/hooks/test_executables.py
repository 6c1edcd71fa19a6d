"""Executable hooks: input, results, and timeouts."""

import json
import os
import pathlib
import time

from kiln.hooks.callers.executables import call_executable
from kiln.hooks.hook import Executable
from kiln.hooks.replies import Answer, Reply
from tests.functional.hooks.programs import ProgramCase
from tests.unit.hooks.samples import wait_until

#: Timeout for programs that exit by themselves, even on a busy machine.
PATIENCE_S = 300.0
DOCUMENT = {'point': 'pre_create', 'invocation': 'key', 'cluster': {'name': 'Größe'}}


class ExecutableCase(ProgramCase):
    def call(self, body, *args, timeout_s=PATIENCE_S):
        argv = (str(self.program(body)), *args)
        return call_executable(Executable(argv), DOCUMENT, timeout_s)


class Inputs(ExecutableCase):
    def test_000_8_a_program_reads_one_json_document(self):
        copy = self.folder / 'copy'
        self.assertEqual(Answer.ok(), self.call('cat > "$1"', str(copy)))
        self.assertEqual(DOCUMENT, json.loads(copy.read_text()))

    def test_a_program_does_not_inherit_the_environment(self):
        os.environ['OS_PASSWORD'] = 'hunter2'
        self.addCleanup(os.environ.pop, 'OS_PASSWORD')
        copy = self.folder / 'copy'
        self.call('env > "$1"', str(copy))
        found = dict(line.split('=', 1) for line in copy.read_text().splitlines())
        own = {'PATH', 'LANG', 'HOME', 'TMPDIR', 'KILN_POINT', 'KILN_INVOCATION'}
        # Variables that a shell adds by itself.
        self.assertEqual(own, found.keys() - {'PWD', 'SHLVL', '_', 'OLDPWD'})
        self.assertEqual('key', found['KILN_INVOCATION'])

    def test_a_program_has_its_own_directory_which_is_removed(self):
        copy = self.folder / 'copy'
        self.call('pwd > "$1"; touch left', str(copy))
        folder = pathlib.Path(copy.read_text().strip())
        self.assertNotEqual(os.getcwd(), str(folder))
        self.assertFalse(folder.exists())

    def test_a_program_inherits_no_open_files(self):
        copy = self.folder / 'copy'
        with open(self.folder / 'secret', 'w'):
            self.call('ls /proc/self/fd | wc -w > "$1"', str(copy))
        # The three standard streams, and the directory that ls reads.
        self.assertEqual('4', copy.read_text().strip())

    def test_a_program_does_not_have_to_read_its_input(self):
        large = DOCUMENT | {'groups': ['x' * 1000] * 1000}
        argv = (str(self.program('exit 0')),)
        self.assertEqual(Answer.ok(), call_executable(Executable(argv), large, PATIENCE_S))


class Results(ExecutableCase):
    def test_the_exit_status_is_the_result(self):
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

    def test_a_program_can_print_its_result_as_json(self):
        for body, answer in (
            ('echo \'{"status": "Success", "message": "made it"}\'', Answer.ok('made it')),
            ('echo \'{"status": "Success", "retryAfterSeconds": 7}\'', Answer.later('', 7.0)),
            ('echo \'{"status": "Success", "retryAfterSeconds": 7}\'; exit 75',
             Answer.later('', 7.0)),
            ('echo \'{"status": "Failure", "message": "no"}\'', Answer.failed('no')),
            ('echo \'{"status": "Failure", "message": "no"}\'; exit 2', Answer.failed('no')),
            # The exit status decides: a program that died did not succeed.
            ('echo \'{"status": "Success", "message": "half"}\'; exit 2',
             Answer.failed('it ended with status 2: half')),
            ('echo hello', Answer.ok()),
        ):  # fmt: skip
            with self.subTest(body):
                self.assertEqual(answer, self.call(body))

    def test_only_the_end_of_a_long_output_is_kept(self):
        answer = self.call('yes | head -c 5000000; yes no | head -c 5000000 >&2; exit 1')
        self.assertEqual('it ended with status 1: no / no / no', answer.message)

    def test_no_half_a_line_of_a_long_output_is_kept(self):
        # What is known of a secret is not found in a half of it.
        answer = self.call('head -c 9000 /dev/zero | tr "\\0" x >&2; echo >&2; echo b >&2; exit 1')
        self.assertEqual('it ended with status 1: b', answer.message)

    def test_output_is_shown_without_secrets_and_control_characters(self):
        answer = self.call(r"printf 'password=hunter2 \033[31mred\n' >&2; exit 1")
        self.assertEqual('it ended with status 1: password=*** red', answer.message)

    def test_a_program_that_cannot_be_run_is_a_failure(self):
        program = self.program('exit 0')
        program.chmod(0o644)
        answer = call_executable(Executable((str(program),)), DOCUMENT, PATIENCE_S)
        self.assertEqual('it cannot be run: Permission denied', answer.message)

    def test_a_program_without_a_path_is_searched_where_the_system_has_its_own(self):
        self.assertEqual(Answer.ok(), call_executable(Executable(('true',)), DOCUMENT, PATIENCE_S))

    def test_the_words_of_a_program_are_not_parsed(self):
        words = ('$(touch x)', '; exit 3', '-c', '"', '')
        answer = self.call('for word; do printf "%s|" "$word" >&2; done; exit 1', *words)
        self.assertIn('|'.join(words), answer.message)

    def test_a_missing_program_is_a_failure(self):
        answer = call_executable(Executable((str(self.folder / 'none'),)), DOCUMENT, PATIENCE_S)
        self.assertEqual(
            (Reply.FAILED, 'it cannot be run: No such file or directory'),
            (answer.reply, answer.message),
        )


class Termination(ExecutableCase):
    def test_a_program_and_its_children_are_killed_at_the_timeout(self):
        pids = self.folder / 'pids'
        timeout_s, answer = 0.25, Answer.ok()
        # Repeat until the program got stuck: a busy machine can take longer to start it.
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
            Answer.failed(f'it did not exit within {timeout_s:g} s and was killed: stuck'),
            answer,
        )
        for pid in pids.read_text().split():
            wait_until(lambda pid=pid: not is_running(pid))

    def test_a_background_process_of_a_program_is_not_waited_for(self):
        pid = self.folder / 'pid'
        begun = time.monotonic()
        self.assertEqual(Answer.ok(), self.call('sleep 600 & echo $! > "$1"', str(pid)))
        self.assertLess(time.monotonic() - begun, PATIENCE_S)
        os.kill(int(pid.read_text()), 9)


class Disk(ExecutableCase):
    """Finding L8: a hook could fill the file system of temporary files."""

    def call(self, body, *args):
        executable = Executable((str(self.program(body)), *args))
        return call_executable(executable, DOCUMENT, PATIENCE_S, max_disk_mib=1)

    def test_a_program_is_killed_at_a_file_that_is_too_large(self):
        large = self.folder / 'large'
        for where in (str(large), '/dev/fd/1', '/dev/fd/2', 'inside'):
            with self.subTest(where):
                answer = self.call('exec head -c 100000000 /dev/zero > "$1"', where)
                self.assertEqual('it wrote more than 1 MiB and was killed', answer.message)
        self.assertEqual(1024 * 1024, large.stat().st_size)

    def test_a_program_is_killed_once_its_directory_is_too_large(self):
        answer = self.call(
            'mkdir -p a/b; i=0; while :; do i=$((i+1)); head -c 500000 /dev/zero > a/b/$i; '
            'sleep 0.1; done'
        )
        self.assertEqual('it wrote more than 1 MiB and was killed', answer.message)

    def test_empty_files_and_what_cannot_be_read_count_as_well(self):
        for body in (
            'i=0; while :; do i=$((i+1)); : > $i; done',
            # Deeper than a path can be, and than Python can go.
            'echo "$PWD" > "$1"; while :; do mkdir d && cd -P d || sleep 600; done',
        ):
            with self.subTest(body):
                folder = self.folder / 'where'
                answer = self.call(body, str(folder))
                self.assertEqual('it wrote more than 1 MiB and was killed', answer.message)
        self.assertFalse(pathlib.Path(folder.read_text().strip()).exists())

    def test_what_is_within_the_limit_is_written(self):
        kept = self.folder / 'kept'
        self.assertEqual(Answer.ok(), self.call('head -c 1000000 /dev/zero > "$1"', str(kept)))
        self.assertEqual(1_000_000, kept.stat().st_size)

    def test_a_program_leaves_no_core(self):
        answer = self.call('ulimit -c >&2; exit 1')
        self.assertIn('status 1: 0', answer.message)


def is_running(pid):
    try:
        state = pathlib.Path(f'/proc/{pid}/stat').read_text().rsplit(')', 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != 'Z'
