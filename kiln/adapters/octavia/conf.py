"""Options that kiln adds to octavia.conf, beside the groups of its backends."""

from __future__ import annotations

import copy
from typing import Any

from oslo_config import cfg

GROUP = 'kiln'

opts = [
    cfg.StrOpt(
        'backend',
        help='Backend for compute_driver = kiln: the NAME of a [compute:NAME] group. The '
        'drivers kiln_nova and kiln_noop have theirs, [compute:nova] and [compute:noop].',
    ),
    cfg.BoolOpt(
        'image_by_tag',
        default=True,
        help='Whether amp_image_tag is a tag, by which the backend is to choose an image. '
        "If not, it is the backend's own name of one, as a container engine has.",
    ),
]


def list_opts() -> list[tuple[cfg.OptGroup, list[Any]]]:
    """Return the options, for oslo-config-generator."""
    return [(cfg.OptGroup(GROUP, help='kiln in Octavia.'), copy.deepcopy(opts))]
