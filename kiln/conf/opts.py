"""Option list for oslo-config-generator."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from oslo_config import cfg

from kiln.compute_drivers.appliance.conf import opts as appliance_opts
from kiln.compute_drivers.docker.conf import opts as docker_opts
from kiln.compute_drivers.noop.conf import opts as noop_opts
from kiln.conf import clusters, compute, db, hooks, images

_GROUP_HELP = (
    'A backend called {name}. Each backend has such a group under its own name, and several '
    'backends can have the same driver.'
)


def list_opts() -> list[tuple[cfg.OptGroup | str, Sequence[Any]]]:
    """Return kiln's option groups, with a backend of each driver as an example."""
    drivers = {
        'appliance': appliance_opts,
        'docker': docker_opts,
        'noop': noop_opts,
        'nova': _nova_opts(),
    }
    return [
        (cfg.OptGroup(compute.GROUP, help='The whole site.'), copy.deepcopy(compute.SITE_OPTS)),
        (
            cfg.OptGroup(clusters.GROUP, help='Clusters, and the drivers that build them.'),
            copy.deepcopy(clusters.OPTS),
        ),
        (cfg.OptGroup(db.GROUP, help='The database of clusters.'), copy.deepcopy(db.OPTS)),
        (
            cfg.OptGroup(
                hooks.GROUP, help='Hooks called before and after actions on clusters and nodes.'
            ),
            copy.deepcopy(hooks.OPTS),
        ),
        (
            cfg.OptGroup(images.GROUP, help='Node images and their builds.'),
            copy.deepcopy(images.OPTS),
        ),
        *(
            (
                cfg.OptGroup(f'{compute.GROUP}:{name}', help=_GROUP_HELP.format(name=name)),
                copy.deepcopy([*compute.BACKEND_OPTS, *opts]),
            )
            for name, opts in drivers.items()
            if opts
        ),
    ]


def _nova_opts() -> Sequence[Any]:
    try:
        from kiln.compute_drivers.nova.conf import opts
    except ImportError:
        # Without the extra, its options are not needed.
        return ()
    return opts
