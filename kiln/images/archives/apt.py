"""APT access: package archives of this host, and their Release files."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kiln.images.archives.sources import TARGETS, Release, Source, host_sources, usual_sources
from kiln.images.exceptions import ImageError, MirrorUnavailable
from kiln.images.programs import Programs

#: Settings that affect how archives are reached and trusted.
_REACH = re.compile(
    r'Acquire::(https?(::[^ ]*)?|Retries|ForceIPv[46]|Check-Valid-Until|Check-Date'
    r'|Max-ValidTime) '
)
# By default, apt would look for these files in the image.
_PASSWORDS = (
    'Dir::Etc::netrc "/etc/apt/auth.conf";',
    'Dir::Etc::netrcparts "/etc/apt/auth.conf.d";',
)


class Apt:
    """Package tools of this host."""

    def __init__(self, programs: Programs) -> None:
        self._programs = programs

    def architecture(self) -> str:
        """Return the architecture for which images are built, such as amd64.

        :raises BuildToolMissing: this host is not a Debian system.
        """
        return self._said('dpkg', '--print-architecture').strip()

    def sources(self, suite: str) -> tuple[Source, ...]:
        """Return the archives this host uses for a suite, or by default those of Debian."""
        said = self._said('apt-get', 'indextargets', '--format', TARGETS, 'Created-By: Packages')
        return host_sources(said, suite) or usual_sources(suite)

    def configuration(self) -> str:
        """Return the settings with which this host reaches archives, such as proxies."""
        said = self._said('apt-config', 'dump', 'Acquire')
        # An entry without a value is only the name of a group.
        lines = [line for line in said.splitlines() if _REACH.match(line)]
        lines = [line for line in lines if not line.endswith(' "";')]
        return ''.join(f'{line}\n' for line in (*lines, *_PASSWORDS))

    def releases(self, sources: Sequence[Source]) -> tuple[Release, ...]:
        """Download the Release file of each archive; blocks until all have answered.

        :raises MirrorUnavailable: an archive does not answer, or does not have the suite.
        """
        with tempfile.TemporaryDirectory() as folder:
            # The download user of apt needs access.
            Path(folder).chmod(0o755)
            return tuple(self._release(source.release_url, folder) for source in sources)

    def _release(self, url: str, folder: str) -> Release:
        file = Path(folder, 'InRelease')
        done = self._programs.ask('apt-helper', 'download-file', url, str(file))
        if done.returncode != 0:
            errors = re.findall(r'(?m)^E: (?:Failed to fetch \S+ +)?(.*)', done.stderr)
            why = errors[0].strip() if errors else 'no reason is given'
            raise MirrorUnavailable(
                f'Cannot reach the archive: {url}: {why}. Try again, or use another archive '
                f'with --mirror.'
            )
        text = file.read_text(errors='replace')
        file.unlink()
        return Release.read(text, url)

    def _said(self, name: str, *arguments: str) -> str:
        done = self._programs.ask(name, *arguments)
        if done.returncode != 0:
            said = ' '.join(done.stderr.split())
            raise ImageError(f'Cannot read package settings of this host with {name}: {said}')
        return done.stdout
