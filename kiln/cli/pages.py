"""Pages of YAML as commands are given them: in a file, or on the standard input."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from kiln.cli.base import read_file
from kiln.cli.exit_codes import UsageError
from kiln.cli.stores import clusters_extra

if TYPE_CHECKING:
    from kiln.cluster_file.reading import ClusterFile

#: Stands for the standard input where a file is to be named.
STDIN = '-'
_SAID = '<stdin>'


def read_page(path: str, stdin: TextIO | None) -> ClusterFile:
    """Return what a page declares.

    :raises UsageError: it cannot be read.
    :raises InvalidCluster: it is wrong, with a problem for each mistake.
    """
    with clusters_extra():
        from kiln.cluster_file.reading import read
        from kiln.cluster_file.yaml_reader import MAX_BYTES
    if path != STDIN:
        return read(read_file(path, MAX_BYTES), path)
    return read(_read_all(stdin, MAX_BYTES + 1), _SAID)


def _read_all(stdin: TextIO | None, most: int) -> bytes:
    if stdin is None:
        raise UsageError('Cannot read the standard input: it is closed.')
    # Bytes, for what they are the reader of pages decides.
    buffer = getattr(stdin, 'buffer', None)
    content: bytes = stdin.read(most).encode() if buffer is None else buffer.read(most)
    return content
