"""Schema of image.yaml."""

from __future__ import annotations

from kiln.images.recipe import Declared, Variant
from kiln.yaml_schema.container_checks import ListOf, MapOf
from kiln.yaml_schema.mapping_checks import Field, Record
from kiln.yaml_schema.value_checks import Choice, Flag, Name, Paragraphs, Text

PACKAGE = Text(
    'a package: NAME, NAME=VERSION or NAME/SUITE',
    pattern=r'[a-z0-9][a-z0-9+.-]+(=[A-Za-z0-9.+:~-]+|/[A-Za-z0-9-]+)?',
)
SUITE = Text('the name of a Debian suite, such as bookworm', pattern='[a-z][a-z0-9-]*')
_PATH = Text('an absolute path, in which * matches anything', longest=1000, pattern=r'/\S*')
_PROPERTIES = MapOf(
    Text('text', longest=1000),
    'a mapping of names to texts',
    name=Text('a name without spaces', pattern=r'[A-Za-z0-9][A-Za-z0-9._-]*'),
)

RECIPE = Record(
    Declared,
    'an image',
    Field(
        name='image', into='name', kind=Name(32), required=True, also=('name',),
        help='The name of the image and of its directory.',
    ),
    Field(name='help', kind=Paragraphs(), help='What the image is for.', also=('description',)),
    Field(
        name='base', kind=Name(32), also=('from', 'parent'),
        help='The recipe to extend. Lists are added to those of the base, its files and its '
        'script come first, and omitted keys have the values of the base.',
    ),
    Field(
        name='variant', kind=Choice(Variant),
        help='The system before the packages are added: nothing, not even a shell (extract; '
        'packages are only unpacked), the essential packages (essential), or these and apt '
        '(apt). Default: that of the base, or apt.',
    ),
    Field(
        name='suite', kind=SUITE, also=('release', 'distribution'),
        help='The release of Debian. Default: that of the base, or bookworm.',
    ),
    Field(
        name='packages', kind=ListOf(PACKAGE, 'a list of packages'),
        help='Packages to install with their dependencies, without recommended '
        'packages.', also=('include', 'install'),
    ),
    Field(
        name='exclude', kind=ListOf(_PATH, 'a list of paths'),
        help='Files of packages to omit, also of packages that a node installs later.',
    ),
    Field(
        name='keep', kind=ListOf(_PATH, 'a list of paths'),
        help='Files to keep although exclude matches them.',
    ),
    Field(
        name='run', kind=Paragraphs(), also=('script',),
        help='A script for sh, run as root within the image after all packages and files are '
        'installed. A failing command ends the script and the build. It is code, and '
        'nothing protects the host of the build from it: build recipes of authors you trust.',
    ),
    Field(
        name='command', kind=ListOf(
            Text('text', longest=4096), 'a list of a program and its arguments', least=1,
            unique=False,
        ), also=('cmd', 'entrypoint'),
        help='The first command of a machine, for backends that boot no kernel. Default: that '
        'of the base.',
    ),
    Field(
        name='properties', kind=_PROPERTIES, also=('labels',),
        help='Properties of the image, with which kiln matches images and drivers.',
    ),
    Field(
        name='keep_sources', kind=Flag(),
        help='Keep the archives of the build in /etc/apt of the image.',
    ),
    file='image',
)  # fmt: skip
