"""What may be written in an image.yaml: every key, once."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from kiln.cluster_file.containers import ListOf
from kiln.cluster_file.kinds import Choice, Flag, Kind, Name, Paragraphs, Text, Wrong
from kiln.cluster_file.mistakes import Mistakes
from kiln.cluster_file.record import Field, Record
from kiln.cluster_file.tree import Node
from kiln.images.recipe import Declared, Variant

PACKAGE = Text(
    'the name of a package, alone or as NAME=VERSION or NAME/SUITE',
    pattern=r'[a-z0-9][a-z0-9+.-]+(=[A-Za-z0-9.+:~-]+|/[A-Za-z0-9-]+)?',
)
SUITE = Text('the name of a suite of Debian, such as bookworm', pattern='[a-z][a-z0-9-]*')
_PATH = Text('an absolute path, in which * stands for anything', longest=1000, pattern=r'/\S*')


class Texts(Kind[Mapping[str, str]]):
    """Texts under names."""

    words = 'a mapping of names to texts'
    _name = Text('a name without spaces', pattern=r'[A-Za-z0-9][A-Za-z0-9._-]*')
    _text = Text('text', longest=1000)

    def _read(self, node: Node, mistakes: Mistakes) -> Mapping[str, str] | Wrong:
        if not isinstance(node.value, Mapping):
            return self._refuse(node, mistakes)
        found = {}
        for name, pair in node.entries.items():
            self._name.read(pair.key, mistakes)
            text = self._text.read(pair.value, mistakes)
            if isinstance(text, str):
                found[name] = text
        return MappingProxyType(found)

    def write(self, value: Mapping[str, str]) -> dict[str, str]:
        return dict(value)

    def schema(self) -> dict[str, Any]:
        return {
            'type': 'object',
            'propertyNames': self._name.schema(),
            'additionalProperties': self._text.schema(),
        }


RECIPE = Record(
    Declared,
    'an image',
    Field(
        name='image', into='name', kind=Name(32), required=True, also=('name',),
        help='The name of the image, which its directory has, too.',
    ),
    Field(name='help', kind=Paragraphs(), help='What it is for.', also=('description',)),
    Field(
        name='base', kind=Name(32), also=('from', 'parent'),
        help='The recipe that this one goes on from: what is listed here is added to what it '
        'lists, its files and its script come first, and what is left open here is as there.',
    ),
    Field(
        name='variant', kind=Choice(Variant),
        help='What is there before the packages: nothing, not even a shell (extract, packages '
        'are only unpacked then), what every Debian system has (essential), or that and apt. '
        'Left out: that of the base, or apt.',
    ),
    Field(
        name='suite', kind=SUITE, also=('release', 'distribution'),
        help='The release of Debian. Left out: that of the base, or bookworm.',
    ),
    Field(
        name='packages', kind=ListOf(PACKAGE, 'a list of packages'),
        help='Packages that are installed with all they depend on, and nothing they only '
        'recommend.', also=('include', 'install'),
    ),
    Field(
        name='exclude', kind=ListOf(_PATH, 'a list of paths'),
        help='Files of packages that are left out; also of those that a node installs later.',
    ),
    Field(
        name='keep', kind=ListOf(_PATH, 'a list of paths'),
        help='Files that are there although exclude names them.',
    ),
    Field(
        name='run', kind=Paragraphs(), also=('script',),
        help='A script for sh that is run as root within the image, once all packages and files '
        'are there; a command that fails ends it, and the build.',
    ),
    Field(
        name='command', kind=ListOf(
            Text('text', longest=4096), 'a list of a program and its arguments', least=1,
            unique=False,
        ), also=('cmd', 'entrypoint'),
        help='What a machine runs first, where the backend boots no kernel. Left out: that of '
        'the base.',
    ),
    Field(
        name='properties', kind=Texts(), also=('labels',),
        help='What is said of the image, by which kiln matches images and drivers.',
    ),
    Field(
        name='keep_sources', kind=Flag(),
        help='Whether the archives that it was built from stay in its /etc/apt.',
    ),
    file='image',
)  # fmt: skip
