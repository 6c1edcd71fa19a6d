"""What an operator may set, in the group of a backend: ``[compute:NAME]``.

Help texts give unit, meaning and consequence; numbers have bounds; what must
not be shown is ``secret=True``. The group also has kiln's own options of a
backend (timeouts, circuit, rate), so take none of their names.
"""

from __future__ import annotations

import copy
from typing import Any

from oslo_config import cfg

OPTIONS: list[Any] = [
    cfg.URIOpt(
        'endpoint',
        default='https://elder.example',
        schemes=['http', 'https'],
        help='Where the API of Elder answers.',
    ),
    cfg.StrOpt(
        'token',
        secret=True,
        help='Token for the API; it needs the right to build, to list and to delete.',
    ),
    cfg.FloatOpt(
        'request_timeout',
        default=10.0,
        min=0.1,
        help='Seconds to wait for one answer of Elder. '
        'Past this the call has failed, and kiln looks whether it took effect.',
    ),
]


def list_opts() -> list[tuple[str, list[Any]]]:
    """Return the options for oslo-config-generator."""
    return [('compute:elder', copy.deepcopy(OPTIONS))]
