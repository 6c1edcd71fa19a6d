"""Build tools of a Debian host: lookup and execution of programs."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping

from kiln.images.exceptions import BuildToolMissing

#: Debian packages of the programs.
_PACKAGES = {
    'apt-config': 'apt',
    'apt-get': 'apt',
    'apt-helper': 'apt',
    'dpkg': 'dpkg',
    'mmdebstrap': 'mmdebstrap',
    'newuidmap': 'uidmap',
    'setpriv': 'util-linux',
    'unshare': 'util-linux',
}
# Not in the PATH of every user; apt-helper is not in any PATH.
_PLACES = ('/usr/sbin', '/sbin', '/usr/lib/apt')
#: Environment variables that programs inherit.
_KEPT = ('http_proxy', 'https_proxy', 'ftp_proxy', 'no_proxy', 'HOME')


class Programs:
    """Finds programs by name, and runs simple commands."""

    def __init__(self, path: str | None = None) -> None:
        """Search a path like PATH; by default the PATH of this process."""
        path = os.environ.get('PATH', os.defpath) if path is None else path
        self._path = os.pathsep.join((path, *_PLACES))

    def find(self, name: str) -> str:
        """Return the path of a program.

        :raises BuildToolMissing: the program is not installed.
        """
        found = shutil.which(name, path=self._path)
        if found is None:
            package = _PACKAGES.get(name, name)
            raise BuildToolMissing(
                f'Cannot build images without {name}. Install it: apt-get install {package}'
            )
        return found

    def ask(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a program, wait for its end, and return its output.

        :raises BuildToolMissing: the program is not installed.
        """
        return subprocess.run(  # noqa: S603  # fixed arguments, no shell
            [self.find(name), *arguments],
            capture_output=True,
            text=True,
            errors='replace',
            check=False,
            env=self.environment(),
        )

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return a minimal environment for programs, so that builds are reproducible."""
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        return {**kept, 'PATH': self._path, 'LC_ALL': 'C.UTF-8', **(more or {})}
