"""Options of hooks: where they are declared, and how many are called at once."""

from __future__ import annotations

from pathlib import Path

from oslo_config import cfg

GROUP = 'hooks'

OPTS = [
    cfg.StrOpt(
        'directory',
        help='Directory of hooks that are executables: POINT/NN-name, with a directory for '
        'each point. Unset: /etc/kiln/hooks.d if it is there.',
    ),
    cfg.StrOpt(
        'file',
        help='File of hooks with their policies: executables and webhooks. Unset: '
        '/etc/kiln/hooks.yaml if it is there.',
    ),
    cfg.IntOpt(
        'max_calls',
        default=16,
        min=1,
        max=512,
        help='Hooks that may be called at once, of all clusters together. The others wait, '
        'and their deadlines go on.',
    ),
]

_DIRECTORY = Path('/etc/kiln/hooks.d')
_FILE = Path('/etc/kiln/hooks.yaml')


def directory_of(option: str | None) -> Path | None:
    """Return the directory to read; one that is named must be there."""
    return Path(option) if option else _if_there(_DIRECTORY)


def file_of(option: str | None) -> Path | None:
    """Return the file to read; one that is named must be there."""
    return Path(option) if option else _if_there(_FILE)


def _if_there(path: Path) -> Path | None:
    return path if path.exists() else None
