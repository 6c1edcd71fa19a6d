"""Store of secrets of a site: a directory with a file for each secret."""

from __future__ import annotations

import re
import stat
from pathlib import Path

from kiln.cluster_drivers.values import NoSecrets, Secrets
from kiln.clusters.exceptions import ClusterDriverError
from kiln.exceptions import KNOWN_SECRETS, ConfigurationError
from kiln.plugins.foreign_files import is_private, unsafe_because
from kiln.plugins.service_credentials import credentials_directory

#: The names that secrets can have.
NAME = r'[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}'
_NAME = re.compile(NAME)
#: How the names of credentials begin that systemd takes from a directory of secrets.
GIVEN = 'secrets_'
_MOST_BYTES = 64 * 1024


def open_secrets(directory: Path | None) -> Secrets:
    """Return the store of a site, which has none without a directory.

    :raises ConfigurationError: the directory cannot be used.
    """
    if directory is None:
        return NoSecrets()
    try:
        mode = directory.stat().st_mode
    except OSError as exc:
        raise _unusable(directory, f'{exc.strerror}. Create it, or correct the option') from exc
    if not stat.S_ISDIR(mode):
        raise _unusable(directory, 'it is not a directory. Name a directory')
    # Write access to the directory is enough to replace every secret in it.
    if unsafe := unsafe_because(directory):
        raise _unusable(directory, unsafe)
    return FileSecrets(directory)


def given_secrets() -> Secrets | None:
    """Return the secrets that systemd gave this service; None if it gave none."""
    directory = credentials_directory()
    if directory is None or not any(directory.glob(f'{GIVEN}*')):
        return None
    # The other credentials, such as the keys of the database, are not for cluster files.
    return FileSecrets(directory, prefix=GIVEN)


def _unusable(directory: Path, why: str) -> ConfigurationError:
    return ConfigurationError(f'Cannot use {directory}, set in [secrets] directory: {why}.')


class FileSecrets:
    """Each secret is a file of the same name that only its owner is allowed to read.

    The newline that editors append to the last line is not part of the secret.
    """

    def __init__(self, directory: Path, *, prefix: str = '') -> None:
        """Set the directory, and how the names of its files begin."""
        self._directory = directory
        self._prefix = prefix

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
        path = self._directory / f'{self._prefix}{name}'
        try:
            with path.open('rb') as file:
                if not is_private(path):
                    raise ClusterDriverError(
                        f'The named secret in {self._directory} can be read by others too.',
                        'Remove the permissions of group and others from the file: chmod 600.',
                    )
                if unsafe_because(path):
                    raise ClusterDriverError(
                        f'The named secret in {self._directory} can be changed by other users.',
                        'Remove their permissions from it and from the folders above: chmod go-w.',
                    )
                content = file.read(_MOST_BYTES + 1)
            if len(content) > _MOST_BYTES:
                raise ValueError
            secret = content.decode().removesuffix('\n')
            KNOWN_SECRETS.note(secret)
            return secret
        except (OSError, ValueError) as exc:
            why = 'is not a text of at most 64 KiB'
            if isinstance(exc, OSError):
                why = 'does not exist' if isinstance(exc, FileNotFoundError) else 'cannot be read'
            # Texts with a colon after "secret", as in the usual names of directories, are masked.
            raise ClusterDriverError(
                f'The named secret in {self._directory} {why}.',
                'Store the secret in a file of its name, or correct the name.',
            ) from None
