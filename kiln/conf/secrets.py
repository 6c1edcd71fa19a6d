"""Options of the store of secrets: where the secrets of the site are."""

from __future__ import annotations

from pathlib import Path

from oslo_config import cfg

GROUP = 'secrets'

OPTS = [
    cfg.StrOpt(
        'directory',
        help='Directory with a file for each secret, named like the secret, that only its owner '
        'is allowed to read (mode 0600). Parameters with secret: true and credentials in cluster '
        'files name these files. The same on every host. Unset: the credentials secrets_NAME that '
        'systemd gives the service, or else /etc/kiln/secrets if it exists.',
    ),
    cfg.StrOpt(
        'credentials',
        help='Name of the secret with the credentials that cluster drivers use for their own '
        'engines, for clusters whose file does not set credentials. Unset: none.',
    ),
]

_DIRECTORY = Path('/etc/kiln/secrets')


def directory_of(option: str | None) -> Path | None:
    """Return the directory of secrets; None if the site has no store of secrets."""
    if option:
        return Path(option).expanduser()
    return _DIRECTORY if _DIRECTORY.exists() else None
