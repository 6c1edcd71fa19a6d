"""Options of the [kiln] group in octavia.conf."""

from __future__ import annotations

import copy
from typing import Any

from oslo_config import cfg

GROUP = 'kiln'

opts = [
    cfg.StrOpt(
        'backend',
        help='Backend for compute_driver = kiln: the NAME of a [compute:NAME] group. The '
        'drivers kiln_nova and kiln_noop always use [compute:nova] and [compute:noop].',
    ),
    cfg.BoolOpt(
        'image_by_tag',
        default=True,
        help='True if amp_image_tag is a tag by which the backend chooses an image. If '
        "false, it is the backend's own name of an image, as in a container engine.",
    ),
]


def list_opts() -> list[tuple[cfg.OptGroup, list[Any]]]:
    """Return the options, for oslo-config-generator."""
    return [(cfg.OptGroup(GROUP, help='kiln in Octavia.'), copy.deepcopy(opts))]
