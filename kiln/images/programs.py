"""The programs of a Debian host that images are built with, and how they are run."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping

from kiln.image_exceptions import BuildToolMissing

#: Where each comes from, for those who lack it.
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
# System programs are not in the path of every user, and apt keeps one for itself.
_PLACES = ('/usr/sbin', '/sbin', '/usr/lib/apt')
#: What programs may know of the environment of kiln.
_KEPT = ('http_proxy', 'https_proxy', 'ftp_proxy', 'no_proxy', 'HOME')


class Programs:
    """Finds programs by name, and runs those that only answer."""

    def __init__(self, path: str | None = None) -> None:
        """Look in a path as of the shell; that of this process where it is left out."""
        path = os.environ.get('PATH', os.defpath) if path is None else path
        self._path = os.pathsep.join((path, *_PLACES))

    def find(self, name: str) -> str:
        """Return where a program is.

        :raises BuildToolMissing: it is not installed.
        """
        found = shutil.which(name, path=self._path)
        if found is None:
            package = _PACKAGES.get(name, name)
            raise BuildToolMissing(
                f'Cannot build images without {name}. Install it: apt-get install {package}'
            )
        return found

    def ask(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a program to its end, and return what it said.

        :raises BuildToolMissing: it is not installed.
        """
        return subprocess.run(  # noqa: S603  # our own words, and no shell
            [self.find(name), *arguments],
            capture_output=True,
            text=True,
            errors='replace',
            check=False,
            env=self.environment(),
        )

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return what programs find in their environment: little, so that all hosts are alike."""
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        return {**kept, 'PATH': self._path, 'LC_ALL': 'C.UTF-8', **(more or {})}
