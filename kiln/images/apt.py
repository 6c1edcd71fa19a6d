"""What this host knows of package archives: its own, and what it sees of others."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kiln.image_exceptions import ImageError, MirrorUnavailable
from kiln.images.programs import Programs
from kiln.images.sources import TARGETS, Release, Source, host_sources, usual_sources

#: What decides on how archives are reached and trusted; the rest is of the host alone.
_REACH = re.compile(
    r'Acquire::(https?(::[^ ]*)?|Retries|ForceIPv[46]|Check-Valid-Until|Check-Date'
    r'|Max-ValidTime) '
)
# Else they would be looked for in the image.
_PASSWORDS = (
    'Dir::Etc::netrc "/etc/apt/auth.conf";',
    'Dir::Etc::netrcparts "/etc/apt/auth.conf.d";',
)


class Apt:
    """The package tools of this host."""

    def __init__(self, programs: Programs) -> None:
        self._programs = programs

    def architecture(self) -> str:
        """Return what images are built for: amd64, arm64.

        :raises BuildToolMissing: this is no Debian.
        """
        return self._said('dpkg', '--print-architecture').strip()

    def sources(self, suite: str) -> tuple[Source, ...]:
        """Return the archives that this host has a suite from, or else those of Debian."""
        said = self._said('apt-get', 'indextargets', '--format', TARGETS, 'Created-By: Packages')
        return host_sources(said, suite) or usual_sources(suite)

    def configuration(self) -> str:
        """Return the settings of this host by which archives are reached: proxies and the like."""
        said = self._said('apt-config', 'dump', 'Acquire')
        # An entry without a value names a group alone.
        lines = [line for line in said.splitlines() if _REACH.match(line)]
        lines = [line for line in lines if not line.endswith(' "";')]
        return ''.join(f'{line}\n' for line in (*lines, *_PASSWORDS))

    def releases(self, sources: Sequence[Source]) -> tuple[Release, ...]:
        """Ask each archive for its state. Takes as long as they take to answer.

        :raises MirrorUnavailable: one does not, or has no such suite.
        """
        with tempfile.TemporaryDirectory() as folder:
            # The user that apt downloads as must get there.
            Path(folder).chmod(0o755)
            return tuple(self._release(source.release_url, folder) for source in sources)

    def _release(self, url: str, folder: str) -> Release:
        file = Path(folder, 'InRelease')
        done = self._programs.ask('apt-helper', 'download-file', url, str(file))
        if done.returncode != 0:
            errors = re.findall(r'(?m)^E: (?:Failed to fetch \S+ +)?(.*)', done.stderr)
            why = errors[0].strip() if errors else 'nothing is said of why'
            raise MirrorUnavailable(
                f'Cannot reach the archive: {url}: {why}. Try again, or name another archive '
                f'with --mirror.'
            )
        text = file.read_text(errors='replace')
        file.unlink()
        return Release.read(text, url)

    def _said(self, name: str, *arguments: str) -> str:
        done = self._programs.ask(name, *arguments)
        if done.returncode != 0:
            said = ' '.join(done.stderr.split())
            raise ImageError(f'Cannot ask {name} for what an image needs: {said}')
        return done.stdout
