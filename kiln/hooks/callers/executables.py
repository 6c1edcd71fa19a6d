"""Executable hooks: each runs in its own process group and directory."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from typing import IO, Any

from kiln.hooks.hook import Executable
from kiln.hooks.replies import MAX_ANSWER, Answer, NoAnswer, Reply, parse
from kiln.programs.isolation import (
    LATER,
    MIB,
    PATH,
    check_program,
    environment,
    kill_group,
    limited,
    switch,
)
from kiln.programs.output import last_lines, last_whole_lines

#: Bytes that an entry of a directory counts at least.
_SMALLEST = 4096
#: Seconds between two looks at the size of the working directory.
_LOOK_S = 0.25


class _TooMuch(Exception):
    """A program has written more than it is allowed to."""


def call_executable(
    executable: Executable,
    document: Mapping[str, Any],
    timeout_s: float,
    *,
    max_disk_mib: int = 256,
) -> Answer:
    """Run a program; return when it has exited, or was killed at the timeout.

    The program reads the payload from stdin. It inherits neither the environment nor
    the open files nor the working directory of kiln, and runs as the user that the executable
    names. Its temporary working directory belongs to that user, and is removed afterwards. No
    file that it writes is larger than the limit, and it is killed if all files in that directory
    together are.
    """
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(_folder())
        # Files instead of pipes: a pipe blocks when it is full and nobody reads it.
        given, out, err = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        given.write(json.dumps(document).encode())
        given.seek(0)
        try:
            run_as = switch(
                executable.account, folder, *(one.fileno() for one in (given, out, err))
            )
            check_program(executable.argv[0])
            process = subprocess.Popen(  # noqa: S603 the operator configures the program
                limited(executable.argv, max_disk_mib),
                stdin=given, stdout=out, stderr=err, cwd=folder,
                env=_environment(folder, document), start_new_session=True, **run_as,
            )  # fmt: skip
        except OSError as exc:
            return Answer.failed(f'it cannot be run: {exc.strerror}')
        too_much = Answer.failed(f'it wrote more than {max_disk_mib} MiB and was killed')
        try:
            status = _ended(process, folder, timeout_s, max_disk_mib * MIB)
        except _TooMuch:
            kill_group(process)
            return too_much
        except subprocess.TimeoutExpired:
            kill_group(process)
            said = last_lines(last_whole_lines(err))
            late = f'it did not exit within {timeout_s:g} s and was killed'
            return Answer.failed(f'{late}: {said}' if said else late)
        if status == -signal.SIGXFSZ:
            return too_much
        return _answer(status, _beginning(out), last_whole_lines(err))


def _ended(
    process: subprocess.Popen[bytes], folder: str, timeout_s: float, most_bytes: int
) -> int:
    """Wait for a program; return its status."""
    ends_at = time.monotonic() + timeout_s
    while True:
        left_s = ends_at - time.monotonic()
        try:
            return process.wait(min(left_s, _LOOK_S))
        except subprocess.TimeoutExpired:
            if left_s <= _LOOK_S:
                raise
        taken = 0
        for size in _sizes(folder):
            taken += size
            if taken > most_bytes:
                raise _TooMuch


def _sizes(folder: str) -> Iterator[int]:
    """Yield the sizes of all that is in a folder on which a program is still at work."""
    left = [folder]
    while left:
        try:
            with os.scandir(left.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        left.append(entry.path)
                    # Empty files can fill a file system, too.
                    size = _SMALLEST
                    with contextlib.suppress(FileNotFoundError):
                        size = max(size, entry.stat(follow_symlinks=False).st_blocks * 512)
                    yield size
        except FileNotFoundError:
            continue
        except OSError as exc:
            # Its path is too long, or the program took away kiln's permission to look.
            raise _TooMuch from exc


@contextlib.contextmanager
def _folder() -> Iterator[str]:
    folder = tempfile.TemporaryDirectory(prefix='kiln-hook-', ignore_cleanup_errors=True)
    try:
        yield folder.name
    finally:
        try:
            folder.cleanup()
        # The folder is deeper than Python can go.
        except RecursionError:
            subprocess.run(  # noqa: S603  # our own folder
                ['rm', '-rf', '--', folder.name],  # noqa: S607  # found in the path below
                check=False,
                env={'PATH': PATH},
            )


def _environment(folder: str, document: Mapping[str, Any]) -> dict[str, str]:
    return {
        **environment(folder),
        'KILN_POINT': document['point'],
        'KILN_INVOCATION': document['invocation'],
    }


def _beginning(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read(MAX_ANSWER)


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
