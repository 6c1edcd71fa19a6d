"""Runs commands of kiln in processes of their own, quickly: forks of one that has imported all.

As a program it reads a line of JSON for each command, and answers with one when it has ended, or
has begun if it is to go on.
"""

import contextlib
import gc
import importlib
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import tempfile
import typing

ROOT = pathlib.Path(__file__).parents[3]
#: Seconds after which a command hangs; none of these commands waits for anything.
PATIENCE_S = 120
#: Seconds that a command has to end after a signal.
END_S = 300
#: Modules that commands import late.
_LATE = (
    'cliff.formatters.commaseparated', 'cliff.formatters.json_format', 'cliff.formatters.table',
    'cliff.formatters.value', 'cliff.formatters.yaml_format', 'kiln.cli.logs',
    'kiln.cluster_service.site', 'kiln.compute_drivers.noop.driver', 'kiln.db.backup',
    'kiln.db.upkeep', 'psycopg', 'pymysql', 'sqlalchemy.dialects.mysql',
    'sqlalchemy.dialects.postgresql', 'sqlalchemy.dialects.sqlite', 'wcwidth',
)  # fmt: skip

_ADDED = os.O_CREAT | os.O_APPEND


class Ended(typing.NamedTuple):
    """How a command ended; the code is None if it hung, and was killed."""

    code: int | None
    out: str
    err: str


class Started:
    """A command that goes on."""

    def __init__(self, pid, args):
        self.pid, self.args = pid, args
        # Names this very process, even once its number is that of another one.
        self._handle = os.pidfd_open(pid)

    def lives(self):
        return not select.select([self._handle], [], [], 0)[0]

    def end(self, how=signal.SIGTERM):
        """End it by a signal."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, how)
        if not select.select([self._handle], [], [], END_S)[0]:
            raise AssertionError(f'{self.args} did not end in {END_S} s')

    def close(self):
        self.end(signal.SIGKILL)
        os.close(self._handle)


class Runner:
    """A process that runs one command after the other, each in a fork."""

    def __init__(self, environment=None, cwd=ROOT):
        self._process = subprocess.Popen(
            [sys.executable, '-m', __spec__.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, cwd=cwd, env=environment,
        )  # fmt: skip

    def begin(self, *argv):
        self._send('', argv)

    def end(self):
        return Ended(*json.loads(self._process.stdout.readline()))

    def start(self, log, *argv):
        """Start a command that goes on, and adds its output to a file."""
        self._send(str(log), argv)
        return Started(json.loads(self._process.stdout.readline()), argv)

    def _send(self, log, argv):
        self._process.stdin.write(json.dumps([log, argv]) + '\n')
        self._process.stdin.flush()

    def run(self, *argv):
        self.begin(*argv)
        return self.end()

    def close(self):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


def _run(app_class, argv):
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        pid = os.fork()
        if not pid:
            code = 99
            with contextlib.suppress(BaseException):
                os.dup2(out.fileno(), 1)
                os.dup2(err.fileno(), 2)
                code = app_class().run(argv)
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)
        handle = os.pidfd_open(pid)
        ended, _, _ = select.select([handle], [], [], PATIENCE_S)
        os.close(handle)
        if not ended:
            os.kill(pid, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode(errors='replace'))
        return Ended(status if ended else None, *texts)


def _start(main, log, argv):
    pid = os.fork()
    if not pid:
        with contextlib.suppress(BaseException):
            nothing, said = os.open(os.devnull, os.O_RDONLY), os.open(log, os.O_WRONLY | _ADDED)
            for file, number in (nothing, 0), (said, 1), (said, 2):
                os.dup2(file, number)
            sys.argv[1:] = argv
            main()
        os._exit(99)
    return pid


def main():
    from kiln.cli import main as whole
    from kiln.cli.app import KilnApp
    from kiln.cli.commands import _HOMES

    for module in {home.partition(':')[0] for home in _HOMES.values()}:
        importlib.import_module(f'kiln.cli.{module}')
    for module in _LATE:
        importlib.import_module(module)
    # A fork that looks through it copies it.
    gc.collect()
    gc.freeze()
    started = []
    for line in sys.stdin:
        log, argv = json.loads(line)
        if log:
            started = [pid for pid in started if os.waitpid(pid, os.WNOHANG) == (0, 0)]
            started.append(_start(whole.main, log, argv))
        print(json.dumps(started[-1] if log else _run(KilnApp, argv)), flush=True)


if __name__ == '__main__':
    main()
