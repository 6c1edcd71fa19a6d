"""Build sandbox: namespaces that leave no processes and no mounts behind."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from kiln.images.exceptions import ImageBuildForbidden
from kiln.images.programs import Programs


class Cell:
    """Runs commands that leave no process and no mount behind, even if kiln is killed.

    Processes run in their own PID namespace. Its first process is killed when kiln ends;
    then the kernel kills all others.
    """

    def __init__(self, programs: Programs, *, root: bool | None = None) -> None:
        self._programs = programs
        self._root = os.geteuid() == 0 if root is None else root

    def command(self, command: Sequence[str]) -> list[str]:
        """Return the command line that runs a command in the sandbox.

        :raises BuildToolMissing: a required program is not installed.
        """
        find = self._programs.find
        users = [] if self._root else ['--user', '--map-root-user', '--map-auto']
        if users:
            find('newuidmap')
        return [
            *(find('setpriv'), '--pdeathsig', 'KILL'),
            *(find('unshare'), *users, '--pid', '--mount-proc', '--fork', '--kill-child'),
            *('--', *command),
        ]

    def run(
        self,
        command: Sequence[str],
        on_line: Callable[[str], None],
        *,
        environment: Mapping[str, str] | None = None,
        keep: Sequence[int] = (),
    ) -> int:
        """Run a command in the sandbox, pass each line to ``on_line``, return the status.

        The command has ended when this returns or raises. Its processes inherit the file
        descriptors in ``keep``, until the last process has exited.

        :raises BuildToolMissing: a required program is not installed.
        """
        process = subprocess.Popen(  # noqa: S603  # no shell
            self.command(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors='replace',
            env=self._programs.environment(environment),
            # Ctrl-C must reach kiln only, which then kills the sandbox.
            start_new_session=True,
            umask=0o022,
            pass_fds=keep,
        )
        assert process.stdout is not None
        try:
            with process.stdout:
                for line in process.stdout:
                    on_line(line)
            return process.wait()
        finally:
            process.kill()
            process.wait()

    def check(self) -> None:
        """Verify that this user can run the sandbox.

        :raises ImageBuildForbidden: the user is not root and cannot use user namespaces.
        :raises BuildToolMissing: as ``command``.
        """
        said: list[str] = []
        if status := self.run([self._programs.find('true')], said.append):
            why = ' '.join(''.join(said).split()) or f'exit status {status}'
            raise ImageBuildForbidden(
                f'Cannot build an image as this user: {why}. Build as root with CAP_SYS_ADMIN, '
                f'or allow user namespaces: lines for the user in /etc/subuid and /etc/subgid, '
                f'and the package uidmap.'
            )

    def remove(self, paths: Iterable[Path]) -> None:
        """Remove directories, including files owned by users of the sandbox."""
        for path in paths:
            if self._root:
                shutil.rmtree(path, ignore_errors=True)
            else:
                self.run([self._programs.find('rm'), '-rf', '--', str(path)], lambda line: None)
