"""All options, for oslo-config-generator."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from oslo_config import cfg

from kiln.compute_drivers.noop.conf import opts as noop_opts
from kiln.conf import compute


def list_opts() -> list[tuple[cfg.OptGroup | str, Sequence[Any]]]:
    """Return kiln's option groups, with a backend of each driver as an example."""
    return [
        (cfg.OptGroup(compute.GROUP, help='The whole site.'), copy.deepcopy(compute.SITE_OPTS)),
        (
            cfg.OptGroup(
                f'{compute.GROUP}:noop',
                help='A backend called noop. Each backend has such a group under its own '
                'name, and several may have the same driver.',
            ),
            copy.deepcopy([*compute.BACKEND_OPTS, *noop_opts]),
        ),
    ]
