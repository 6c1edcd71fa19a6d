"""What exactly is to be built, and how mmdebstrap is told; pure."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from kiln.images.recipe import Recipe, Variant, digest_of
from kiln.images.sources import Release, Source, newest

KEY_DIGITS = 12

# What a build leaves in its stage, and what hooks find there.
TAR = 'image.tar'
APT_CONF = 'apt.conf'
PACKAGES = 'packages'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """All that decides on what comes out."""

    recipe: Recipe
    suite: str
    architecture: str
    sources: tuple[Source, ...]
    #: The state of each source.
    releases: tuple[Release, ...]

    @property
    def key(self) -> str:
        """What changes with anything that decides."""
        return digest_of(
            {
                'recipe': self.recipe.digest,
                'suite': self.suite,
                'architecture': self.architecture,
                'sources': [str(source) for source in self.sources],
                'releases': [release.digest for release in self.releases],
            }
        )[:KEY_DIGITS]

    @property
    def epoch(self) -> int:
        """The time that everything is dated with that has none of its own."""
        return newest(self.releases)


def layer_files(index: int) -> str:
    """Return what the files of a layer are called in the stage."""
    return f'layer-{index}.tar'


def layer_folders(index: int) -> str:
    """Return what the list of the folders of a layer is called in the stage."""
    return f'layer-{index}.folders'


def layer_script(index: int) -> str:
    """Return what the script of a layer is called in the stage."""
    return f'layer-{index}.sh'


# Comes with mmdebstrap.
_MERGED_USR = '/usr/share/mmdebstrap/hooks/merged-usr'

# Hooks run under sh, with the root of the image as $1.
_BEGIN = f"""\
set -eu
cp "$KILN_STAGE/{APT_CONF}" "$1/etc/apt/apt.conf.d/00kiln"
echo force-unsafe-io > "$1/etc/dpkg/dpkg.cfg.d/00kiln"
"""
# An absolute link in the image leads into this host for a program that is outside.
_LAY = """\
set -eu
root=$(realpath "$1")
while read -r folder; do
    case "$(realpath -m "$1/$folder")" in
    "$root"|"$root"/*) ;;
    *)
        echo "E: kiln: /$folder leads out of the image; name the folder that it leads to" >&2
        exit 1 ;;
    esac
done < "$KILN_STAGE/{folders}"
tar -x -f "$KILN_STAGE/{files}" -C "$1"
"""
# It is a file of the image, so that its commands find nothing of it on their input.
_RUN = """\
set -eu
shell=/bin/sh
[ -e "$1/bin/sh" ] || shell='/bin/busybox sh'
cp "$KILN_STAGE/{script}" "$1/.kiln-run"
chroot "$1" $shell -eu /.kiln-run
rm "$1/.kiln-run"
"""
_END = f"""\
set -eu
dpkg-query --admindir="$1/var/lib/dpkg" -W -f '${{Package}} ${{Version}}\\n' \\
    > "$KILN_STAGE/{PACKAGES}"
rm -f "$1/etc/apt/apt.conf.d/00kiln" "$1/etc/dpkg/dpkg.cfg.d/00kiln"
rm -f "$1/etc/hostname" "$1/etc/resolv.conf"
"""
_FORGET_SOURCES = 'rm -f "$1/etc/apt/sources.list" "$1"/etc/apt/sources.list.d/*\n'


def hooks(recipe: Recipe) -> Mapping[str, str]:
    """Return the scripts that mmdebstrap runs, in their order; the first before all else."""
    found = {'begin': _BEGIN}
    for index, layer in enumerate(recipe.layers):
        if layer.files:
            found[f'lay-{index}'] = _LAY.format(
                folders=layer_folders(index), files=layer_files(index)
            )
        if layer.run:
            found[f'run-{index}'] = _RUN.format(script=layer_script(index))
    found['end'] = _END if recipe.keep_sources else f'{_END}{_FORGET_SOURCES}'
    return found


def arguments(order: Order, stage: Path) -> Sequence[str]:
    """Return the arguments of mmdebstrap; its hooks find the stage as ``KILN_STAGE``."""
    recipe = order.recipe
    # A system that is only unpacked is never set up, and so never customized.
    late = 'extract' if recipe.variant is Variant.EXTRACT else 'customize'
    # Else every system gets a package that merges /usr, and with it all of Perl.
    merged = [] if recipe.variant is Variant.EXTRACT else [f'--hook-dir={_MERGED_USR}']
    first, *others = (f'sh "$KILN_STAGE/{name}" "$1"' for name in hooks(recipe))
    return (
        '--mode=unshare',
        f'--variant={recipe.variant.value}',
        '--format=tar',
        '--verbose',
        *([f'--include={",".join(recipe.packages)}'] if recipe.packages else []),
        *(f'--dpkgopt=path-exclude={path}' for path in recipe.exclude),
        *(f'--dpkgopt=path-include={path}' for path in recipe.keep),
        *merged,
        f'--setup-hook={first}',
        *(f'--{late}-hook={hook}' for hook in others),
        order.suite,
        str(stage / TAR),
        *map(str, order.sources),
    )


def packages(listing: str) -> dict[str, str]:
    """Return the versions of the packages that a build has listed."""
    return dict(line.split(' ', 1) for line in listing.splitlines() if ' ' in line)


def shown(command: Sequence[str]) -> str:
    """Return a command as one would type it."""
    return shlex.join(command)
