"""Package archives, and what their Release files say of them; pure."""

from __future__ import annotations

import dataclasses
import email.utils
import hashlib
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Self

from kiln.cluster_file.tree import shown
from kiln.image_exceptions import MirrorUnavailable

_ARCHIVE = 'http://deb.debian.org/debian'
_SECURITY = 'http://deb.debian.org/debian-security'
_SNAPSHOT = 'http://snapshot.debian.org/archive'
#: Suites that get their corrections of security without an archive of their own.
_ROLLING = ('sid', 'unstable', 'testing', 'experimental')

_NO_OPTIONS: Mapping[str, str] = MappingProxyType({})
_LINE = re.compile(r'deb\s+(?:\[\s*(?P<options>[^\]]*?)\s*\]\s+)?(?P<uri>\S+)\s+(?P<rest>\S.*)')
_NO_USER = (
    'a user or password in it would be shown and kept with the image; write them into a file '
    'in /etc/apt/auth.conf.d'
)
_OPTION = re.compile(r'[a-z-]+=\S+')


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """A suite of an archive, as a line of sources.list names it."""

    uri: str
    suite: str
    components: tuple[str, ...] = ('main',)
    options: Mapping[str, str] = dataclasses.field(default_factory=lambda: _NO_OPTIONS)

    @classmethod
    def read(cls, text: str, suite: str) -> Self:
        """Return what a line of sources.list names, or the suite at a URL.

        :raises ValueError: it is neither.
        """
        text = text.strip()
        if re.fullmatch(r'[a-z+]+:/\S+', text):
            text = f'deb {text} {suite} main'
        found = _LINE.fullmatch(text)
        options = (found['options'] or '').split() if found else []
        rest = found['rest'].split() if found else []
        if not found or len(rest) < 2 or not all(map(_OPTION.fullmatch, options)):
            raise ValueError(
                f'{shown(text)} is no archive: write a URL, or a line as in sources.list: '
                f'deb URL SUITE COMPONENT'
            )
        if '@' in found['uri']:
            raise ValueError(_NO_USER)
        pairs = dict(option.split('=', 1) for option in options)
        return cls(
            found['uri'].rstrip('/'),
            rest[0],
            tuple(rest[1:]),
            MappingProxyType(pairs),
        )

    def __str__(self) -> str:
        options = ' '.join(f'{key}={value}' for key, value in self.options.items())
        words = ('deb', f'[{options}]' if options else '', self.uri, self.suite, *self.components)
        return ' '.join(word for word in words if word)

    @property
    def release_url(self) -> str:
        """Where its signed table of contents is."""
        return f'{self.uri}/dists/{self.suite}/InRelease'


@dataclasses.dataclass(frozen=True, slots=True)
class Release:
    """One state of a suite."""

    #: Seconds since the epoch at which it was made.
    at: int
    #: Of the whole file, so of all packages in the suite.
    digest: str

    @classmethod
    def read(cls, text: str, url: str) -> Self:
        """Return what an InRelease file says of itself.

        :raises MirrorUnavailable: it is none, but the page of a portal or the like.
        """
        for line in text.splitlines():
            name, _, value = line.partition(':')
            if name == 'Date':
                try:
                    at = email.utils.parsedate_to_datetime(value.strip())
                except ValueError:
                    break
                return cls(int(at.timestamp()), hashlib.sha256(text.encode()).hexdigest())
        raise MirrorUnavailable(
            f'Cannot use the archive: {url} is no table of contents of a suite. Name another '
            f'archive with --mirror.'
        )


def usual_sources(suite: str) -> tuple[Source, ...]:
    """Return the archives of Debian that have a suite and its corrections."""
    return _with_corrections(suite, _ARCHIVE, _SECURITY, {})


def snapshot_sources(suite: str, moment: str) -> tuple[Source, ...]:
    """Return the archives of Debian as they were at a moment: 20250520T000000Z."""
    # What they were then has run out since.
    options = {'check-valid-until': 'no'}
    archive, security = (f'{_SNAPSHOT}/{name}/{moment}' for name in ('debian', 'debian-security'))
    return _with_corrections(suite, archive, security, options)


def host_sources(targets: str, suite: str) -> tuple[Source, ...]:
    """Return the archives that a host has a suite and its corrections from.

    ``targets`` is what ``apt-get indextargets`` prints in :data:`TARGETS`. What the
    host has from others, or of other suites, is no part of an image.
    """
    wanted = (suite, f'{suite}-updates', f'{suite}-security')
    found: dict[tuple[str, str], list[str]] = {}
    for line in targets.splitlines():
        fields = line.split('\t')
        if len(fields) == 3 and fields[1] in wanted:
            components = found.setdefault((fields[0].rstrip('/'), fields[1]), [])
            if fields[2] not in components:
                components.append(fields[2])
    return tuple(Source(*place, tuple(components)) for place, components in found.items())


#: The format in which ``apt-get indextargets`` is asked.
TARGETS = '$(REPO_URI)\t$(RELEASE)\t$(COMPONENT)'


def _with_corrections(
    suite: str, archive: str, security: str, options: Mapping[str, str]
) -> tuple[Source, ...]:
    found = [(archive, suite)]
    if suite not in _ROLLING:
        found += [(archive, f'{suite}-updates'), (security, f'{suite}-security')]
    return tuple(Source(uri, its, options=MappingProxyType(dict(options))) for uri, its in found)


def newest(releases: Iterable[Release]) -> int:
    """Return when the last of some suites was made."""
    return max(release.at for release in releases)
