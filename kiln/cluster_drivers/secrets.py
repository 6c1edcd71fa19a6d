"""Secret store in a directory of files, for sites without another store."""

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
    """Each secret is a file of the same name that only its owner is allowed to read.

    The newline that editors append to the last line is not part of the secret.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def get(self, name: str) -> str:
        """Return a secret; the file is read each time, so a change takes effect at once.

        :raises ClusterDriverError: the secret does not exist, or others can read it.
        """
        # The message does not quote the name: it might be the secret itself.
        if not _NAME.fullmatch(name):
            raise ClusterDriverError(
                'The given text cannot be the name of a secret.',
                'Store the secret, and give its name.',
            )
        path = self._directory / name
        try:
            with path.open('rb') as file:
                if os.fstat(file.fileno()).st_mode & _FOR_OTHERS:
                    raise ClusterDriverError(
                        f'Cannot read a secret in {self._directory}: others can read it too.',
                        'Remove the permissions of group and others from the file: chmod 600.',
                    )
                content = file.read(_MOST_BYTES + 1)
            if len(content) > _MOST_BYTES:
                raise ValueError
            return content.decode().removesuffix('\n')
        except (OSError, ValueError) as exc:
            why = 'is not a text of at most 64 KiB'
            if isinstance(exc, OSError):
                why = 'does not exist' if isinstance(exc, FileNotFoundError) else 'cannot be read'
            raise ClusterDriverError(
                f'Cannot read a secret in {self._directory}: the named secret {why}.',
                'Store the secret in a file of its name, or correct the name.',
            ) from None
