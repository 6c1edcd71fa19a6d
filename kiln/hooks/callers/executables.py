"""Executable hooks: each runs in its own process group and directory."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from typing import IO, Any

from kiln.hooks.hook import Executable
from kiln.hooks.replies import MAX_ANSWER, Answer, NoAnswer, Reply, last_lines, parse

#: EX_TEMPFAIL in sysexits.h: try again later.
LATER = 75
_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
#: Bytes read from the end of stderr.
_LAST_BYTES = 4096


def call_executable(
    executable: Executable, document: Mapping[str, Any], timeout_s: float
) -> Answer:
    """Run a program; return when it has exited, or was killed at the timeout.

    The program reads the payload from stdin. It inherits neither the environment nor
    the open files nor the working directory of kiln. Its temporary working directory is
    removed afterwards.
    """
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(
            tempfile.TemporaryDirectory(prefix='kiln-hook-', ignore_cleanup_errors=True)
        )
        # Files instead of pipes: a pipe blocks when it is full and nobody reads it.
        given, out, err = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        given.write(json.dumps(document).encode())
        given.seek(0)
        try:
            process = subprocess.Popen(  # noqa: S603 the operator configures the program
                executable.argv, stdin=given, stdout=out, stderr=err, cwd=folder,
                env=_environment(folder, document), start_new_session=True,
            )  # fmt: skip
        except OSError as exc:
            return Answer.failed(f'it cannot be run: {exc.strerror}')
        try:
            status = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            _kill(process)
            said = last_lines(_end(err))
            late = f'it did not exit within {timeout_s:g} s and was killed'
            return Answer.failed(f'{late}: {said}' if said else late)
        return _answer(status, _beginning(out), _end(err))


def _environment(folder: str, document: Mapping[str, Any]) -> dict[str, str]:
    return {
        'PATH': _PATH,
        'LANG': 'C.UTF-8',
        'HOME': folder,
        'TMPDIR': folder,
        'KILN_POINT': document['point'],
        'KILN_INVOCATION': document['invocation'],
    }


def _kill(process: subprocess.Popen[bytes]) -> None:
    # The group ID is the process ID, which is not reused before wait().
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _beginning(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read(MAX_ANSWER)


def _end(file: IO[bytes]) -> bytes:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _LAST_BYTES))
    return file.read()


def _answer(status: int, out: bytes, err: bytes) -> Answer:
    """Return the answer of a program: the exit status decides, the output explains."""
    try:
        said = parse(out)
    except NoAnswer:
        # Programs can print anything; a JSON answer is optional.
        said = None
    message = (said.message if said else '') or last_lines(err)
    if status == 0:
        return said or Answer.ok()
    if status == LATER:
        return Answer.later(message, said.after_s if said else None)
    ended = f'signal {-status}' if status < 0 else f'status {status}'
    if said and said.reply is Reply.FAILED:
        return said
    return Answer.failed(
        f'it ended with {ended}: {message}' if message else f'it ended with {ended}'
    )
