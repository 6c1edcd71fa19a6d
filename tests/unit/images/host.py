"""Test host whose package tools are short scripts, controlled by files."""

import os
import pathlib
import shutil
import tempfile

from kiln.images.building.builder import ImageBuilder
from kiln.images.cache import ImageCache
from kiln.images.programs import Programs
from kiln.images.recipe import Recipe
from kiln.testing.clock import VirtualClock

RELEASE = """\
-----BEGIN PGP SIGNED MESSAGE-----
Hash: SHA256

Origin: Debian
Suite: stable
Date: {date}
Valid-Until: Fri, 27 Nov 2026 02:11:10 UTC
"""
DATE = 'Fri, 20 Nov 2026 02:11:10 UTC'
EPOCH = 1795140670

_SCRIPTS = {
    'dpkg': 'echo amd64',
    'apt-get': 'cat "$here/targets"',
    'apt-config': 'cat "$here/acquire"',
    'apt-helper': 'echo "$2" >> "$here/asked"; [ ! -e "$here/deaf" ] || { cat "$here/deaf" >&2; '
    'exit 100; }\ncat "$here/release" > "$3"; [ ! -e "$here/then" ] || mv "$here/then" '
    '"$here/release"',
    'setpriv': 'shift 2; exec "$@"',
    'unshare': '[ ! -e "$here/locked" ] || { echo "unshare: unshare failed: Operation not '
    'permitted" >&2; exit 1; }\nwhile [ "$1" != -- ]; do shift; done; shift; exec "$@"',
    'newuidmap': 'exit 0',
    # Prints a prepared log, and writes its own arguments as the image.
    'mmdebstrap': """
printf '%s\\n' "$@" > "$here/arguments"; env > "$here/environment"
ls "$KILN_STAGE" > "$here/stage"
echo run >> "$here/runs"
while [ -e "$here/hold" ]; do sleep 0.01; done
for one in "$@"; do case "$one" in */image.tar) tar=$one ;; esac; done
cat "$here/content" > "$tar"; printf 'docker.io 20.10\\nbase-files 12\\n' > "$KILN_STAGE/packages"
cat "$here/says" >&2; exit "$(cat "$here/status")"
""",
}
_LINKS = ('cat', 'env', 'ls', 'mv', 'rm', 'sleep', 'true')


class Host:
    """A directory of programs, and a builder that finds no other programs."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder) / 'bin'
        self.folder.mkdir()
        for name, script in _SCRIPTS.items():
            self.program(name, script)
        for name in _LINKS:
            (self.folder / name).symlink_to(shutil.which(name))
        self.set('acquire', 'Acquire::http::Proxy "http://proxy:3128";\nAcquire::Retries "0";\n')
        self.set('targets', '')
        self.set('release', RELEASE.format(date=DATE))
        self.set('content', 'a root file system')
        self.set('says', 'I: creating tarball...\n')
        self.set('status', '0')
        self.clock = VirtualClock()
        self.cache = ImageCache(pathlib.Path(folder) / 'cache')
        self.builder = ImageBuilder(self.cache, self.programs(), clock=self.clock)

    def programs(self):
        return Programs(str(self.folder))

    def program(self, name, script):
        path = self.folder / name
        path.write_text(f'#!/bin/sh\nhere={self.folder}\n{script}\n')
        path.chmod(0o755)

    def set(self, name, text):
        (self.folder / name).write_text(text)

    def unset(self, name):
        (self.folder / name).unlink()

    def said(self, name):
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    @property
    def runs(self):
        return len(self.said('runs'))

    def entries(self):
        """Return all files in the cache except locks."""
        found = sorted(path for path in self.cache.root.rglob('*') if path.name != '.lock')
        return [os.fspath(path.relative_to(self.cache.root)) for path in found]


class HostCase:
    """A mixin whose test has ``host``."""

    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.host = Host(self.folder)
        self.builder = self.host.builder
        self.cache = self.host.cache


def recipe(**facts):
    facts = {'name': 'node', 'packages': ('docker.io',), 'command': ('/sbin/init',), **facts}
    return Recipe(**facts)
