"""Options of hooks: locations, and the limits of calls."""

from __future__ import annotations

from pathlib import Path

from oslo_config import cfg

GROUP = 'hooks'

OPTS = [
    cfg.StrOpt(
        'directory',
        help='Directory of executable hooks, POINT/NN-name, with a subdirectory for each point. '
        'Unset: /etc/kiln/hooks.d if it exists.',
    ),
    cfg.StrOpt(
        'file',
        help='File that declares executable hooks and webhooks with their policies. Unset: '
        '/etc/kiln/hooks.yaml if it exists.',
    ),
    cfg.IntOpt(
        'max_calls',
        default=16,
        min=1,
        max=512,
        help='Maximum number of hook calls at once, for all clusters together; three quarters of '
        'them for one cluster. Other calls wait, and their deadlines continue to run.',
    ),
    cfg.IntOpt(
        'max_disk_mib',
        default=256,
        min=1,
        help='Largest file that an executable hook can write, in MiB, and the most that all files '
        'in its temporary directory can take together. Beyond that it is killed and has failed.',
    ),
    cfg.StrOpt(
        'user',
        help='User that executable hooks run as, with all groups of that user. kiln must run as '
        'root for it. Unset: they run as the user of kiln, and can read what kiln can read.',
    ),
]

_DIRECTORY = Path('/etc/kiln/hooks.d')
_FILE = Path('/etc/kiln/hooks.yaml')


def directory_of(option: str | None) -> Path | None:
    """Return the directory of hooks; a configured directory must exist."""
    return Path(option) if option else _if_there(_DIRECTORY)


def file_of(option: str | None) -> Path | None:
    """Return the file of hooks; a configured file must exist."""
    return Path(option) if option else _if_there(_FILE)


def _if_there(path: Path) -> Path | None:
    return path if path.exists() else None
