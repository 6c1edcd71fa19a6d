"""Options of the database in which clusters are stored."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from oslo_config import cfg

GROUP = 'db'

OPTS = [
    cfg.StrOpt(
        'url',
        # It can contain a password.
        secret=True,
        help='Database in which clusters are stored: sqlite:////PATH, '
        'postgresql://USER:PASSWORD@HOST/DATABASE or mariadb://USER:PASSWORD@HOST/DATABASE. '
        'Several hosts need PostgreSQL or MariaDB. Unset: the file kiln/kiln.db in '
        '$XDG_STATE_HOME, or in ~/.local/state.',
    ),
    cfg.StrOpt(
        'key_file',
        help='File with the keys that encrypt secrets, the same on every host. Without it the '
        'secrets in the database are lost. Unset: the credential kiln.keys that systemd gives '
        'the service, or else for SQLite a file with the suffix .keys beside the database, '
        'created when first needed; otherwise /etc/kiln/kiln.keys.',
    ),
    cfg.FloatOpt(
        'lock_timeout',
        default=30.0,
        min=1.0,
        help='Seconds to wait for the writes of another process. Then the change is not made, '
        'and tried again later.',
    ),
]


def default_url(environment: Mapping[str, str] = os.environ) -> str:
    """Return the default URL of the database."""
    home = environment.get('XDG_STATE_HOME') or Path.home() / '.local' / 'state'
    return f'sqlite:///{Path(home, "kiln", "kiln.db").absolute()}'
