"""Options of the store that clusters are kept in."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from oslo_config import cfg

GROUP = 'db'

OPTS = [
    cfg.StrOpt(
        'url',
        # It may hold a password.
        secret=True,
        help='Database that clusters are kept in: sqlite:////PATH, '
        'postgresql://USER:PASSWORD@HOST/DATABASE or mariadb://USER:PASSWORD@HOST/DATABASE. '
        'Several hosts need one of the last two. Unset: the file kiln/kiln.db in '
        '$XDG_STATE_HOME, which is ~/.local/state where that is not set.',
    ),
    cfg.StrOpt(
        'key_file',
        help='File of the keys that secrets are encrypted with, the same on every host. '
        'Without it the secrets in the database are lost. Unset: for a file of SQLite the '
        'file beside it that ends in .keys, made when first needed; else '
        '/etc/kiln/kiln.keys.',
    ),
    cfg.FloatOpt(
        'lock_timeout',
        default=30.0,
        min=1.0,
        help='Seconds to wait for what another process is writing. Past this the change is '
        'not made, and tried again later.',
    ),
]


def default_url(environment: Mapping[str, str] = os.environ) -> str:
    """Return where the store is if the configuration does not say."""
    home = environment.get('XDG_STATE_HOME') or Path.home() / '.local' / 'state'
    return f'sqlite:///{Path(home, "kiln", "kiln.db").absolute()}'
