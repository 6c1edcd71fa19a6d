"""Where builds run, so that nothing of them is left behind."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from kiln.image_exceptions import ImageBuildForbidden
from kiln.images.programs import Programs


class Cell:
    """Where what is run leaves no process and no mount behind, however it or kiln ends.

    Processes are in a namespace of their own, whose first one dies with kiln; then the
    kernel ends all of them.
    """

    def __init__(self, programs: Programs, *, root: bool | None = None) -> None:
        self._programs = programs
        self._root = os.geteuid() == 0 if root is None else root

    def command(self, command: Sequence[str]) -> list[str]:
        """Return what runs a command in a cell.

        :raises BuildToolMissing: what makes cells is not installed.
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
        """Run a command in a cell, tell each line that it says, and return its exit status.

        However this is left, the command has ended. Its processes have the descriptors in
        ``keep``, until the last of them is gone.

        :raises BuildToolMissing: what makes cells is not installed.
        """
        process = subprocess.Popen(  # noqa: S603  # no shell
            self.command(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors='replace',
            env=self._programs.environment(environment),
            # Ctrl-C is for kiln, which then ends the cell.
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
        """Return if this user may have cells.

        :raises ImageBuildForbidden: neither as root nor with user namespaces.
        :raises BuildToolMissing: as ``command``.
        """
        said: list[str] = []
        if status := self.run([self._programs.find('true')], said.append):
            why = ' '.join(''.join(said).split()) or f'exit status {status}'
            raise ImageBuildForbidden(
                f'Cannot build an image as this user: {why}. Build as root with CAP_SYS_ADMIN, '
                f'or let the user have user namespaces: lines in /etc/subuid and /etc/subgid, '
                f'and the package uidmap.'
            )

    def remove(self, paths: Iterable[Path]) -> None:
        """Remove folders with all that is in them, also what belongs to users of a cell."""
        for path in paths:
            if self._root:
                shutil.rmtree(path, ignore_errors=True)
            else:
                self.run([self._programs.find('rm'), '-rf', '--', str(path)], lambda line: None)
