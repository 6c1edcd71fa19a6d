"""Build request: the input of a build, and the arguments of mmdebstrap; no I/O."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from kiln.images.archives.sources import Release, Source
from kiln.images.recipe import Recipe, Variant, digest_of

KEY_DIGITS = 12

# Files in the stage, written by the build or read by its hooks.
TAR = 'image.tar'
APT_CONF = 'apt.conf'
PACKAGES = 'packages'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """All input that determines the image."""

    recipe: Recipe
    suite: str
    architecture: str
    sources: tuple[Source, ...]
    #: State of each source.
    releases: tuple[Release, ...]

    @property
    def key(self) -> str:
        """Digest of the input."""
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
        """Date for files without a date of their own: that of the newest archive."""
        return max(release.at for release in self.releases)


def layer_files(index: int) -> str:
    """Return the name of the tar file of a layer in the stage."""
    return f'layer-{index}.tar'


def layer_folders(index: int) -> str:
    """Return the name of the directory list of a layer in the stage."""
    return f'layer-{index}.folders'


def layer_script(index: int) -> str:
    """Return the name of the script of a layer in the stage."""
    return f'layer-{index}.sh'


# Part of the package mmdebstrap.
_MERGED_USR = '/usr/share/mmdebstrap/hooks/merged-usr'

# Hooks run under sh, with the root of the image as $1.
_BEGIN = f"""\
set -eu
cp "$KILN_STAGE/{APT_CONF}" "$1/etc/apt/apt.conf.d/00kiln"
echo force-unsafe-io > "$1/etc/dpkg/dpkg.cfg.d/00kiln"
"""
# An absolute link in the image points into the host for a program outside the image.
_STAY = """\
root=$(realpath "$1")
stay() {
    case "$(realpath -m "$root/$1")" in
    "$root"|"$root"/*) ;;
    *)
        echo "E: kiln: /$1 leads out of the image; use the directory that it points to" >&2
        exit 1 ;;
    esac
}
"""
_LAY = """\
while read -r folder; do
    stay "$folder"
done < "$KILN_STAGE/{folders}"
tar -x -f "$KILN_STAGE/{files}" -C "$1"
"""
# The script is a file in the image, so that its commands do not read it from stdin.
_RUN = """\
set -eu
shell=/bin/sh
[ -e "$1/bin/sh" ] || shell='/bin/busybox sh'
# A recipe can lay a link there, or a folder with a link; neither is followed.
rm -rf "$1/.kiln-run"
cp "$KILN_STAGE/{script}" "$1/.kiln-run"
chroot "$1" $shell -eu /.kiln-run
rm "$1/.kiln-run"
"""
# A script of the recipe can have put links anywhere.
_END = f"""\
set -eu
{_STAY}
for name in etc etc/apt etc/apt/apt.conf.d etc/apt/sources.list.d etc/dpkg/dpkg.cfg.d \\
    var/lib/dpkg var/lib/dpkg/status; do
    stay "$name"
done
dpkg-query --admindir="$1/var/lib/dpkg" -W -f '${{Package}} ${{Version}}\\n' \\
    > "$KILN_STAGE/{PACKAGES}"
rm -f "$1/etc/apt/apt.conf.d/00kiln" "$1/etc/dpkg/dpkg.cfg.d/00kiln"
rm -f "$1/etc/hostname" "$1/etc/resolv.conf"
"""
_FORGET_SOURCES = 'rm -f "$1/etc/apt/sources.list" "$1"/etc/apt/sources.list.d/*\n'


def hooks(recipe: Recipe) -> Mapping[str, str]:
    """Return the scripts that mmdebstrap runs, in order; the first runs before the build."""
    found = {'begin': _BEGIN}
    for index, layer in enumerate(recipe.layers):
        if layer.files:
            lay = _LAY.format(folders=layer_folders(index), files=layer_files(index))
            found[f'lay-{index}'] = f'set -eu\n{_STAY}{lay}'
        if layer.run:
            found[f'run-{index}'] = _RUN.format(script=layer_script(index))
    found['end'] = _END if recipe.keep_sources else f'{_END}{_FORGET_SOURCES}'
    return found


def arguments(order: Order, stage: Path) -> Sequence[str]:
    """Return the arguments of mmdebstrap; its hooks find the stage in ``KILN_STAGE``."""
    recipe = order.recipe
    # With variant extract, mmdebstrap does not run customize hooks.
    late = 'extract' if recipe.variant is Variant.EXTRACT else 'customize'
    # Without this hook, the package usrmerge is installed, which depends on Perl.
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
    """Return package versions from the package list of a build."""
    return dict(line.split(' ', 1) for line in listing.splitlines() if ' ' in line)
