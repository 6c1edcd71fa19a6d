"""Reader of cluster files, from a path or from standard input."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from kiln.cli.arguments import read_file
from kiln.cli.exit_codes import UsageError
from kiln.cli.site.stores import clusters_extra

if TYPE_CHECKING:
    from kiln.cluster_file.reading import ClusterFile

#: Stands for standard input in the place of a file name.
STDIN = '-'


def read_page(path: str, stdin: TextIO | None) -> ClusterFile:
    """Return the declarations of a cluster file.

    :raises UsageError: the file cannot be read.
    :raises InvalidCluster: the file is wrong; it has a problem for each mistake.
    """
    with clusters_extra():
        from kiln.cluster_file.reading import read
        from kiln.yaml_schema.reader import MAX_BYTES
    if path != STDIN:
        return read(read_file(path, MAX_BYTES), path)
    if stdin is None:
        raise UsageError('Cannot read standard input: it is closed.')
    # Bytes: the YAML reader decides on the encoding.
    buffer = getattr(stdin, 'buffer', None)
    most = MAX_BYTES + 1
    return read(stdin.read(most).encode() if buffer is None else buffer.read(most), '<stdin>')
