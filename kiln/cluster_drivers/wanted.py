"""What kind of cluster is wanted, and which driver by name: read from all who may say so.

Pure. A request has the last word, then the template, then the image.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence

from kiln.cluster_drivers.records import WILDCARD, ClusterType
from kiln.cluster_exceptions import ClusterDriverUnknown
from kiln.models import AmphoraType

DRIVER_PROPERTIES = ('kiln_driver', 'magnum_driver')
#: The last is meant for libosinfo, and read for want of the others.
DISTRO_PROPERTIES = ('kiln_distro', 'magnum_distro', 'os_distro')
VARIANT_PROPERTY = 'os_variant'

# Names that drivers of Magnum go by, and that libosinfo does not know: the
# distribution of each, and its variant.
_ALIASES = {'fedora-coreos': ('fedora', 'coreos'), 'fedora-atomic': ('fedora', 'atomic')}

_WISH = re.compile(
    r'(?P<name>[A-Za-z0-9][A-Za-z0-9_.-]*)'
    r'(==(?P<version>([0-9]{1,9}\.){0,2}([0-9]{1,9}|\*)))?'
    r'(:(?P<os>[A-Za-z0-9][A-Za-z0-9_.-]*))?'
)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What a cluster, or its template, asks for; None is left open."""

    #: 'name', 'name==1.2.*' or 'name:os'.
    driver: str | None = None
    coe: str | None = None
    server_type: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """What one property of an image says."""

    name: str
    text: str
    #: 'property kiln_driver of image ubuntu-24.04 7c1e'.
    source: str

    def __str__(self) -> str:
        return f'{self.source} says {self.text}'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """The image of a cluster, and what its properties say."""

    id: str
    name: str = ''
    properties: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        return f'image {self.name} {self.id}' if self.name else f'image {self.id}'

    def says(self, *names: str) -> Said | None:
        """Return the first of some properties that says anything."""
        for name in names:
            if text := self.properties.get(name, '').strip():
                return Said(name=name, text=text, source=f'property {name} of {self}')
        return None

    def only_what_counts(self) -> Image:
        """Return it with the properties alone that a choice may depend on."""
        kept = (*DRIVER_PROPERTIES, *DISTRO_PROPERTIES, VARIANT_PROPERTY)
        said = {name: self.properties[name] for name in kept if name in self.properties}
        return dataclasses.replace(self, properties=said)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """A driver that somebody asks for by name."""

    name: str
    #: Who asks: 'the request', 'property kiln_driver of image ubuntu-24.04 7c1e'.
    source: str
    #: '1.2.0' or '1.2.*'; None is the newest.
    version: str | None = None
    os: str | None = None

    def __str__(self) -> str:
        return f'{self.name}=={self.version}' if self.version else self.name

    @classmethod
    def read(cls, text: str, source: str) -> Wish:
        """Return what 'name', 'name==1.2.*' or 'name:os' asks for.

        :raises ClusterDriverUnknown: it is none of these.
        """
        if not (parts := _WISH.fullmatch(text.strip())):
            raise ClusterDriverUnknown(
                f'No cluster driver is called "{text}". Write NAME, NAME==1.2.* or NAME:OS. '
                f'It was asked for by {source}.'
            )
        return cls(source=source, **parts.groupdict())

    def admits(self, version: str) -> bool:
        """Whether a version is one that is asked for."""
        if self.version is None:
            return True
        asked = self.version.split('.')
        if asked[-1] != WILDCARD:
            # Who writes 1.2 means 1.2.0, and not all that begins so.
            asked += ['0'] * (3 - len(asked))
        return all(
            ours in (WILDCARD, theirs)
            for ours, theirs in zip(asked, version.split('.'), strict=False)
        )


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """The kind of cluster that is wanted."""

    server_type: str
    #: What the system of the image is called, the most precise name first.
    #: Where nobody says, only a driver for any system will do.
    systems: tuple[str, ...] = ()
    #: None where it does not matter.
    coe: str | None = None

    @classmethod
    def of(cls, cluster_type: ClusterType) -> Kind:
        """Return the kind that a type stands for; its ``*`` are met by ``*`` alone."""
        return cls(
            server_type=cluster_type.server_type,
            systems=system_names(cluster_type.os),
            coe=cluster_type.coe,
        )

    def cluster_types(self) -> list[ClusterType]:
        """Return what it is called, the most precise name first."""
        return [
            ClusterType(self.server_type, system, self.coe or WILDCARD)
            for system in self.systems or (WILDCARD,)
        ]

    def __str__(self) -> str:
        return str(self.cluster_types()[0])

    def fit(self, offered: ClusterType) -> tuple[int, ...] | None:
        """Return how closely an offer fits in each respect; None if it does not fit."""
        found = self._closeness(offered).values()
        return tuple(one for one in found if one is not None) if None not in found else None

    def differences(self, offered: ClusterType) -> tuple[str, ...]:
        """Return in what an offer does not fit."""
        return tuple(name for name, found in self._closeness(offered).items() if found is None)

    def _closeness(self, offered: ClusterType) -> dict[str, int | None]:
        return {
            'server_type': _closeness(offered.server_type, (self.server_type,)),
            'os': _closeness(offered.os, self.systems),
            'coe': 0 if self.coe is None else _closeness(offered.coe, (self.coe,)),
        }


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """All that was read, and where it was read."""

    kind: Kind
    #: Who asks for a driver by name; the first has the last word.
    wishes: tuple[Wish, ...]
    steps: tuple[str, ...]
    notices: tuple[str, ...]


def system_names(distro: str, variant: str = '') -> tuple[str, ...]:
    """Return the names by which drivers may know a system, the most precise first."""
    if f'{distro}-{variant}' in _ALIASES:
        distro = f'{distro}-{variant}'
    if distro in _ALIASES:
        return distro, _ALIASES[distro][0]
    return (distro,)


def read_wanted(request: Request, template: Request, image: Image | None) -> Wanted:
    """Return what is wanted of a driver.

    :raises ClusterDriverUnknown: a wish cannot be read.
    """
    wishes = tuple(_wishes(request, template, image))
    systems, steps, notices = _systems(wishes, image)
    coe = request.coe or template.coe
    machine = request.server_type or template.server_type or AmphoraType.VM.value
    called = ClusterType.of(machine, WILDCARD, WILDCARD)
    kind = Kind(server_type=called.server_type, systems=systems, coe=coe)
    steps += [
        f'coe: {coe or "any"} ({_origin(request.coe, template.coe)})',
        f'server_type: {kind.server_type} ({_origin(request.server_type, template.server_type)})',
        f'wanted: {kind}',
    ]
    return Wanted(kind=kind, wishes=wishes, steps=tuple(steps), notices=tuple(notices))


def _origin(requested: str | None, of_template: str | None) -> str:
    return 'the request' if requested else 'the template' if of_template else 'nobody says'


def _wishes(request: Request, template: Request, image: Image | None) -> Iterable[Wish]:
    for asking, source in ((request, 'the request'), (template, 'the template')):
        if asking.driver:
            yield Wish.read(asking.driver, source)
    if not image:
        return
    for name in DRIVER_PROPERTIES:
        if said := image.says(name):
            yield Wish.read(said.text, said.source)
    # At some sites the distro of an image is 'driver:os'; others have a URL there.
    distro = image.says(*DISTRO_PROPERTIES)
    if distro and (parts := _WISH.fullmatch(distro.text)) and parts['os']:
        yield Wish(source=distro.source, **parts.groupdict())


def _systems(
    wishes: Iterable[Wish], image: Image | None
) -> tuple[tuple[str, ...], list[str], list[str]]:
    """Return the names of the system, how they were found, and what to tell about it."""
    distro = image.says(*DISTRO_PROPERTIES) if image else None
    said = image.says(VARIANT_PROPERTY) if image else None
    variant = said.text if said else ''
    for wish in wishes:
        if wish.os:
            # Some drivers have their name in the os that they provide, too.
            names = (*system_names(wish.os, variant), f'{wish.name}:{wish.os}')
            other = distro and distro.text not in names
            notices = [f'{wish.source} says {wish.os}, {distro}.'] if other else []
            return names, [f'distro: {wish.os} ({wish.source})'], notices
    if not distro:
        return (), [f'distro: none ({image or "there is no image"})'], []
    notices = _libosinfo(distro.text, distro.source) if distro.name == 'os_distro' else []
    return (
        system_names(distro.text, variant),
        [f'distro: {distro.text} ({distro.source})'],
        notices,
    )


def _libosinfo(distro: str, source: str) -> list[str]:
    notices = [f'{source} is meant for libosinfo. Set kiln_distro={distro} as well.']
    if distro in _ALIASES:
        system, variant = _ALIASES[distro]
        notices.append(
            f'{source} says {distro}, which libosinfo does not know: it is read as '
            f'{system}, variant {variant}. Set os_distro={system} beside kiln_distro={distro}.'
        )
    return notices


def _closeness(offered: str, names: Sequence[str]) -> int | None:
    if offered == WILDCARD:
        return 0
    return len(names) - names.index(offered) if offered in names else None
