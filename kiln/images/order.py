"""What exactly is to be built, and how mmdebstrap is told; pure."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterator, Sequence
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


def layer_tar(index: int) -> str:
    """Return what the files of a layer are called in the stage."""
    return f'layer-{index}.tar'


def layer_folders(index: int) -> str:
    """Return what the list of the folders of a layer is called in the stage."""
    return f'layer-{index}.folders'


def layer_script(index: int) -> str:
    """Return what the script of a layer is called in the stage."""
    return f'layer-{index}.sh'


# Hooks run under sh, with the root of the image as $1.
_BEGIN = f"""\
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
tar -x -f "$KILN_STAGE/{tar}" -C "$1"
"""
_RUN = """\
set -eu
shell=/bin/sh
[ -e "$1/bin/sh" ] || shell='/bin/busybox sh'
chroot "$1" $shell -eu < "$KILN_STAGE/{script}"
"""
_END = f"""\
set -eu
dpkg-query --admindir="$1/var/lib/dpkg" -W -f '${{Package}} ${{Version}}\\n' \\
    > "$KILN_STAGE/{PACKAGES}"
rm -f "$1/etc/apt/apt.conf.d/00kiln" "$1/etc/dpkg/dpkg.cfg.d/00kiln"
rm -f "$1/etc/hostname" "$1/etc/resolv.conf"
"""
_FORGET_SOURCES = 'rm -f "$1/etc/apt/sources.list" "$1"/etc/apt/sources.list.d/*'


def arguments(order: Order, stage: Path) -> Sequence[str]:
    """Return the arguments of mmdebstrap; its hooks find the stage as ``KILN_STAGE``."""
    recipe = order.recipe
    # A system that is only unpacked is never set up, and so never customized.
    late = 'extract' if recipe.variant is Variant.EXTRACT else 'customize'
    return (
        '--mode=unshare',
        f'--variant={recipe.variant.value}',
        '--format=tar',
        '--verbose',
        *([f'--include={",".join(recipe.packages)}'] if recipe.packages else []),
        *(f'--dpkgopt=path-exclude={path}' for path in recipe.exclude),
        *(f'--dpkgopt=path-include={path}' for path in recipe.keep),
        f'--setup-hook={_BEGIN}',
        *(f'--{late}-hook={hook}' for hook in _late_hooks(recipe)),
        order.suite,
        str(stage / TAR),
        *map(str, order.sources),
    )


def _late_hooks(recipe: Recipe) -> Iterator[str]:
    for index, layer in enumerate(recipe.layers):
        if layer.files:
            yield _LAY.format(folders=layer_folders(index), tar=layer_tar(index))
        if layer.run:
            yield _RUN.format(script=layer_script(index))
    yield _END if recipe.keep_sources else f'{_END}{_FORGET_SOURCES}\n'


def packages(listing: str) -> dict[str, str]:
    """Return the versions of the packages that a build has listed."""
    return dict(line.split(' ', 1) for line in listing.splitlines() if ' ' in line)


def shown(command: Sequence[str]) -> str:
    """Return a command as one would type it."""
    return shlex.join(command)
