"""Option list for oslo-config-generator."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from oslo_config import cfg

from kiln.compute_drivers.appliance.conf import opts as appliance_opts
from kiln.compute_drivers.docker.conf import opts as docker_opts
from kiln.compute_drivers.noop.conf import opts as noop_opts
from kiln.conf import clusters, compute, db, hooks, images, secrets

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
        **_openstack_opts(),
    }
    groups: list[tuple[str, str, Sequence[Any]]] = [
        (compute.GROUP, 'The whole site.', compute.SITE_OPTS),
        (clusters.GROUP, 'Clusters, and the drivers that build them.', clusters.OPTS),
        (db.GROUP, 'The database of clusters.', db.OPTS),
        (hooks.GROUP, 'Hooks called before and after actions on clusters and nodes.', hooks.OPTS),
        (images.GROUP, 'Node images and their builds.', images.OPTS),
        (secrets.GROUP, 'The secrets that clusters and their drivers use by name.', secrets.OPTS),
    ]
    groups += [
        (f'{compute.GROUP}:{name}', _GROUP_HELP.format(name=name), [*compute.BACKEND_OPTS, *opts])
        for name, opts in sorted(drivers.items())
        if opts
    ]
    return [(cfg.OptGroup(name, help=text), copy.deepcopy(opts)) for name, text, opts in groups]


def _openstack_opts() -> Mapping[str, Sequence[Any]]:
    try:
        from kiln.compute_drivers.heat.conf import opts as heat_opts
        from kiln.compute_drivers.ironic.conf import opts as ironic_opts
        from kiln.compute_drivers.nova.conf import opts as nova_opts
    except ImportError:
        # Without their extras, their options are not needed.
        return {}
    return {'heat': heat_opts, 'ironic': ironic_opts, 'nova': nova_opts}
