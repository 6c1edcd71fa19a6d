"""Package sources: lines of sources.list, and Release files; no I/O."""

from __future__ import annotations

import dataclasses
import email.utils
import hashlib
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Self

from kiln.images.exceptions import MirrorUnavailable
from kiln.yaml_schema.nodes import shown

_ARCHIVE = 'http://deb.debian.org/debian'
_SECURITY = 'http://deb.debian.org/debian-security'
_SNAPSHOT = 'http://snapshot.debian.org/archive'
#: Suites without a separate archive for security updates.
_ROLLING = ('sid', 'unstable', 'testing', 'experimental')

_NO_OPTIONS: Mapping[str, str] = MappingProxyType({})
_LINE = re.compile(r'deb\s+(?:\[\s*(?P<options>[^\]]*?)\s*\]\s+)?(?P<uri>\S+)\s+(?P<rest>\S.*)')
_NO_USER = (
    'a user or password in the URL would be shown and stored with the image; write them into '
    'a file in /etc/apt/auth.conf.d'
)
_OPTION = re.compile(r'[a-z-]+=\S+')


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """A suite of an archive, as in a line of sources.list."""

    uri: str
    suite: str
    components: tuple[str, ...] = ('main',)
    options: Mapping[str, str] = dataclasses.field(default_factory=lambda: _NO_OPTIONS)

    @classmethod
    def read(cls, text: str, suite: str) -> Self:
        """Return the source of a line of sources.list, or the suite at a URL.

        :raises ValueError: the text is neither.
        """
        text = text.strip()
        if re.fullmatch(r'[a-z+]+:/\S+', text):
            text = f'deb {text} {suite} main'
        found = _LINE.fullmatch(text)
        options = (found['options'] or '').split() if found else []
        rest = found['rest'].split() if found else []
        if not found or len(rest) < 2 or not all(map(_OPTION.fullmatch, options)):
            raise ValueError(
                f'{shown(text)} is not an archive: write a URL, or a line as in sources.list: '
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
        """URL of the signed Release file."""
        return f'{self.uri}/dists/{self.suite}/InRelease'


@dataclasses.dataclass(frozen=True, slots=True)
class Release:
    """State of a suite, from its Release file."""

    #: Date of the file, in seconds since the epoch.
    at: int
    #: Digest of the file, which covers all packages of the suite.
    digest: str

    @classmethod
    def read(cls, text: str, url: str) -> Self:
        """Return the date and digest of an InRelease file.

        :raises MirrorUnavailable: the text is something else, such as a login page.
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
            f'Cannot use the archive: {url} is not an InRelease file. Use another archive with '
            f'--mirror.'
        )


def usual_sources(suite: str) -> tuple[Source, ...]:
    """Return the archives of Debian for a suite and its updates."""
    return _with_corrections(suite, _ARCHIVE, _SECURITY, {})


def snapshot_sources(suite: str, moment: str) -> tuple[Source, ...]:
    """Return the archives of Debian as of a time, such as 20250520T000000Z."""
    # Release files of the past have expired.
    options = {'check-valid-until': 'no'}
    archive, security = (f'{_SNAPSHOT}/{name}/{moment}' for name in ('debian', 'debian-security'))
    return _with_corrections(suite, archive, security, options)


def host_sources(targets: str, suite: str) -> tuple[Source, ...]:
    """Return the archives that a host uses for a suite and its updates.

    ``targets`` is the output of ``apt-get indextargets`` in the format :data:`TARGETS`.
    Other suites of the host are left out.
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


#: Output format for ``apt-get indextargets``.
TARGETS = '$(REPO_URI)\t$(RELEASE)\t$(COMPONENT)'


def _with_corrections(
    suite: str, archive: str, security: str, options: Mapping[str, str]
) -> tuple[Source, ...]:
    found = [(archive, suite)]
    if suite not in _ROLLING:
        found += [(archive, f'{suite}-updates'), (security, f'{suite}-security')]
    return tuple(Source(uri, its, options=MappingProxyType(dict(options))) for uri, its in found)
