"""Secrets in a directory of files: the store of a site that has no other."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from kiln.clusters.exceptions import ClusterDriverError

_NAME = re.compile(r'[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}')
_FOR_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_MOST_BYTES = 64 * 1024


class FileSecrets:
    """Each secret is a file of its name, which nobody but its owner may read.

    The line end that editors leave behind the last line is no part of it.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def get(self, name: str) -> str:
        """Return a secret; read anew each time, so a changed file counts at once.

        :raises ClusterDriverError: there is none, or others may read it.
        """
        # The name is not quoted: somebody may have written the secret itself there.
        if not _NAME.fullmatch(name):
            raise ClusterDriverError(
                'What was given cannot be the name of a secret.',
                'Store the secret, and write its name.',
            )
        path = self._directory / name
        try:
            with path.open('rb') as file:
                if os.fstat(file.fileno()).st_mode & _FOR_OTHERS:
                    raise ClusterDriverError(
                        f'Cannot read a secret in {self._directory}: others may read it too.',
                        'Take the rights of group and others from its file: chmod 600.',
                    )
                content = file.read(_MOST_BYTES + 1)
            if len(content) > _MOST_BYTES:
                raise ValueError
            return content.decode().removesuffix('\n')
        except (OSError, ValueError) as exc:
            why = 'is no text of at most 64 KiB'
            if isinstance(exc, OSError):
                why = 'is not there' if isinstance(exc, FileNotFoundError) else 'cannot be read'
            raise ClusterDriverError(
                f'Cannot read a secret in {self._directory}: the one that was named {why}.',
                'Store it in a file of its name, or correct the name.',
            ) from None
