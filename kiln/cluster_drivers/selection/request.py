"""Requests for a cluster driver: the kind of cluster, and drivers by name.

Pure. A request takes precedence, then the template, then the image.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kiln.cluster_drivers.records import WILDCARD, ClusterType, DriverRecord
from kiln.clusters.exceptions import ClusterDriverUnknown
from kiln.clusters.models import DriverPin
from kiln.models import AmphoraType

DRIVER_PROPERTIES = ('kiln_driver', 'magnum_driver')
#: The last belongs to libosinfo, and is read if the others are missing.
DISTRO_PROPERTIES = ('kiln_distro', 'magnum_distro', 'os_distro')
VARIANT_PROPERTY = 'os_variant'
_PROPERTIES = (*DRIVER_PROPERTIES, *DISTRO_PROPERTIES, VARIANT_PROPERTY)

# Distro names of Magnum's drivers that libosinfo does not define: the
# distribution of each, and its variant.
_ALIASES = {'fedora-coreos': ('fedora', 'coreos'), 'fedora-atomic': ('fedora', 'atomic')}

_WISH = re.compile(
    r'(?P<name>[A-Za-z0-9][A-Za-z0-9_.-]*)'
    r'(==(?P<version>([0-9]{1,9}\.){0,2}([0-9]{1,9}|\*)))?'
    r'(:(?P<os>[A-Za-z0-9][A-Za-z0-9_.-]*))?'
)


@dataclasses.dataclass(slots=True)
class Trace:
    """The steps of a choice and its notices, recorded while choosing."""

    steps: list[str] = dataclasses.field(default_factory=list)
    #: What a user should know, or change, although a driver was chosen.
    notices: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """Request of a cluster or its template; None leaves the value open."""

    #: 'name', 'name==1.2.*' or 'name:os'.
    driver: str | None = None
    coe: str | None = None
    server_type: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """The image of a cluster, with its properties."""

    id: str
    name: str = ''
    properties: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        return f'image {self.name} {self.id}' if self.name else f'image {self.id}'

    def only_what_counts(self) -> Image:
        """Return the image with only the properties that affect the choice."""
        counting = {name: text for name, text in self.properties.items() if name in _PROPERTIES}
        return dataclasses.replace(self, properties=counting)


class Said(NamedTuple):
    """One requested value and its source."""

    #: A field of a request, or a property of an image.
    name: str
    text: str
    #: 'the request', 'property kiln_driver of image ubuntu-24.04 7c1e'.
    source: str

    def __str__(self) -> str:
        return f'{self.text} ({self.source})'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """A driver requested by name."""

    name: str
    #: The source of the request, as in :class:`Said`.
    source: str
    #: '1.2.0' or '1.2.*'; None means the newest.
    version: str | None = None
    os: str | None = None

    def __str__(self) -> str:
        return f'{self.name}=={self.version}' if self.version else self.name

    @classmethod
    def read(cls, text: str, source: str) -> Wish:
        """Parse 'name', 'name==1.2.*' or 'name:os'.

        :raises ClusterDriverUnknown: the text has another form.
        """
        if not (parts := _WISH.fullmatch(text.strip())):
            raise ClusterDriverUnknown(
                f'No cluster driver is called "{text}". Write NAME, NAME==1.2.* or NAME:OS. '
                f'It was requested by {source}.'
            )
        return cls(source=source, **parts.groupdict())

    def admits(self, driver: DriverRecord | DriverPin) -> bool:
        """Return True if a driver has the requested name and version."""
        asked = (self.version or WILDCARD).split('.')
        if asked[-1] != WILDCARD:
            # 1.2 means 1.2.0, not every version that begins with 1.2.
            asked += ['0'] * (3 - len(asked))
        return self.name == driver.name and all(
            ours in (WILDCARD, theirs)
            for ours, theirs in zip(asked, driver.version.split('.'), strict=False)
        )


class Kind(NamedTuple):
    """The requested kind of cluster: the names for each word, the most precise first."""

    server_type: tuple[str, ...]
    #: If empty, only a driver for any system fits.
    os: tuple[str, ...]
    #: None if any coe fits.
    coe: tuple[str, ...] | None

    @classmethod
    def of(cls, cluster_type: ClusterType) -> Kind:
        """Return the kind for a cluster type; only ``*`` fits its ``*``."""
        server_type, system, coe = cluster_type
        return cls((server_type,), system_names(system), (coe,))

    def cluster_types(self) -> list[ClusterType]:
        """Return the cluster types with these names, the most precise first."""
        names = [some or (WILDCARD,) for some in self]
        return [ClusterType(*words) for words in itertools.product(*names)]

    def __str__(self) -> str:
        return str(self.cluster_types()[0])

    def closeness(self, offered: ClusterType) -> tuple[int, ...]:
        """Return for each word of an offer how closely it fits; negative means no fit."""
        return tuple(map(_closeness, offered, self))

    def differences(self, offered: ClusterType) -> tuple[str, ...]:
        """Return the names of the words of an offer that do not fit."""
        words = zip(self._fields, self.closeness(offered), strict=True)
        return tuple(name for name, closeness in words if closeness < 0)


def _closeness(offered: str, names: tuple[str, ...] | None) -> int:
    if names is None or offered == WILDCARD:
        return 0
    return len(names) - names.index(offered) if offered in names else -1


def system_names(distro: str, variant: str = '') -> tuple[str, ...]:
    """Return the names that drivers can use for a system, the most precise first."""
    if f'{distro}-{variant}' in _ALIASES:
        distro = f'{distro}-{variant}'
    if distro in _ALIASES:
        return distro, _ALIASES[distro][0]
    return (distro,)


def read(request: Request, template: Request, image: Image | None) -> Iterator[Said]:
    """Yield all requested values, in order of precedence."""
    for asking, source in ((request, 'the request'), (template, 'the template')):
        for name, text in dataclasses.asdict(asking).items():
            if text:
                yield Said(name, text, source)
    if image:
        for name in _PROPERTIES:
            if text := image.properties.get(name, '').strip():
                yield Said(name, text, f'property {name} of {image}')


def _first(said: Iterable[Said], *names: str) -> Said | None:
    return next((one for one in said if one.name in names), None)


def read_wishes(said: Sequence[Said]) -> Iterator[Wish]:
    """Yield the drivers requested by name, in order of precedence.

    :raises ClusterDriverUnknown: a request cannot be parsed.
    """
    for one in said:
        if one.name in ('driver', *DRIVER_PROPERTIES):
            yield Wish.read(one.text, one.source)
    # At some sites the distro of an image is 'driver:os'; at others it is a URL.
    distro = _first(said, *DISTRO_PROPERTIES)
    if distro and (parts := _WISH.fullmatch(distro.text)) and parts['os']:
        yield Wish(source=distro.source, **parts.groupdict())


def read_kind(
    said: Sequence[Said], wishes: Iterable[Wish], image: Image | None, trace: Trace
) -> Kind:
    """Return the requested kind of cluster, and record the source of each part."""
    systems = _systems(said, wishes, image, trace)
    coe = _first(said, 'coe')
    machine = _first(said, 'server_type') or Said('', AmphoraType.VM.value, 'not requested')
    called, _, _ = ClusterType.of(machine.text, WILDCARD, WILDCARD)
    kind = Kind((called,), systems, (coe.text,) if coe else None)
    trace.steps += [
        f'coe: {coe or "any (not requested)"}',
        f'server_type: {called} ({machine.source})',
        f'wanted: {kind}',
    ]
    return kind


def _systems(
    said: Sequence[Said], wishes: Iterable[Wish], image: Image | None, trace: Trace
) -> tuple[str, ...]:
    distro, variant = _first(said, *DISTRO_PROPERTIES), _first(said, VARIANT_PROPERTY)
    of_variant = variant.text if variant else ''
    for wish in wishes:
        if wish.os:
            # Some drivers include their name in the os that they provide.
            names = (*system_names(wish.os, of_variant), f'{wish.name}:{wish.os}')
            trace.steps.append(f'distro: {wish.os} ({wish.source})')
            if distro and distro.text not in names:
                trace.notices.append(
                    f'{wish.source} says {wish.os}, {distro.source} says {distro.text}.'
                )
            return names
    if not distro:
        trace.steps.append(f'distro: none ({image or "no image"})')
        return ()
    trace.steps.append(f'distro: {distro}')
    if distro.name == 'os_distro':
        trace.notices += _libosinfo(distro)
    return system_names(distro.text, of_variant)


def _libosinfo(distro: Said) -> Iterator[str]:
    _, text, source = distro
    yield f'{source} belongs to libosinfo. Set kiln_distro={text} as well.'
    if text in _ALIASES:
        system, variant = _ALIASES[text]
        yield (
            f'{source} says {text}, which libosinfo does not define: it is read as '
            f'{system}, variant {variant}. Set os_distro={system} beside kiln_distro={text}.'
        )
