"""Runs commands of kiln in processes of their own, quickly: forks of one that has imported all.

As a program it reads a line of JSON for each command, and answers with one when it has ended.
"""

import contextlib
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
#: Modules that commands import late.
_LATE = (
    'kiln.cli.logs', 'kiln.cluster_service.site', 'kiln.compute_drivers.noop.driver',
    'kiln.db.backup', 'kiln.db.upkeep', 'sqlalchemy.dialects.sqlite',
)  # fmt: skip


class Ended(typing.NamedTuple):
    """How a command ended; the code is None if it hung, and was killed."""

    code: int | None
    out: str
    err: str


class Runner:
    """A process that runs one command after the other, each in a fork."""

    def __init__(self, environment=None, cwd=ROOT):
        self._process = subprocess.Popen(
            [sys.executable, '-m', __spec__.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, cwd=cwd, env=environment,
        )  # fmt: skip

    def begin(self, *argv):
        self._process.stdin.write(json.dumps(argv) + '\n')
        self._process.stdin.flush()

    def end(self):
        return Ended(*json.loads(self._process.stdout.readline()))

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


def main():
    from kiln.cli.app import KilnApp
    from kiln.cli.commands import _HOMES

    for module in {home.partition(':')[0] for home in _HOMES.values()}:
        importlib.import_module(f'kiln.cli.{module}')
    for module in _LATE:
        importlib.import_module(module)
    for line in sys.stdin:
        print(json.dumps(_run(KilnApp, json.loads(line))), flush=True)


if __name__ == '__main__':
    main()
