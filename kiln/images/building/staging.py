"""Build stage: files written to the disk before mmdebstrap runs."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from kiln.images import build_request as orders
from kiln.images.recipe import Layer


def lay_out(order: orders.Order, stage: Path, apt_conf: str) -> None:
    """Write the files that the hooks of a build read."""
    # The settings can contain the password of a proxy.
    (stage / orders.APT_CONF).touch(mode=0o600)
    (stage / orders.APT_CONF).write_text(apt_conf)
    for name, text in orders.hooks(order.recipe).items():
        (stage / name).write_text(text)
    for index, layer in enumerate(order.recipe.layers):
        (stage / orders.layer_folders(index)).write_text(_folders(layer))
        (stage / orders.layer_script(index)).write_text(layer.run)
        with tarfile.open(stage / orders.layer_files(index), 'w') as tar:
            for member, content in _members(layer, order.epoch):
                tar.addfile(member, io.BytesIO(content))


def _members(layer: Layer, epoch: int) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    # No directories: tar creates them as needed, and a directory in the archive would
    # replace a link in the image, such as /lib.
    for file in layer.files:
        member = tarfile.TarInfo(file.path.lstrip('/'))
        member.mtime = epoch
        if file.link:
            member.type, member.linkname, member.mode = tarfile.SYMTYPE, file.link, 0o777
        else:
            member.size, member.mode = len(file.content), file.mode
        yield member, file.content


def _folders(layer: Layer) -> str:
    parents = (str(PurePosixPath(file.path).parent).lstrip('/') for file in layer.files)
    return ''.join(f'{folder}\n' for folder in dict.fromkeys(parents))
