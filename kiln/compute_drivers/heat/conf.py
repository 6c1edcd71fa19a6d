"""Options of a Heat backend, with those that it shares with Nova."""

from __future__ import annotations

from oslo_config import cfg

from kiln.compute_drivers.nova.conf import DEFAULTS, TALK, endpoint
from kiln.openstack.identity import IDENTITY, TLS

_HEAT = [
    cfg.IntOpt(
        'stack_page_size',
        default=500,
        min=1,
        max=1000,
        help='Stacks to request at a time. A Heat with a smaller max_stacks_per_list needs '
        'at most that number.',
    ),
    cfg.FloatOpt(
        'stack_timeout',
        default=3600.0,
        min=60.0,
        help='Seconds after which Heat gives up a build, rounded up to minutes. It then fails; '
        'a build of kiln has a deadline of its own, usually a shorter one.',
    ),
]

opts = [
    *IDENTITY,
    endpoint('orchestration', 'Heat, with the project'),
    endpoint('compute', 'Nova'),
    endpoint('network', 'Neutron'),
    endpoint('image', 'Glance'),
    *TLS,
    *TALK,
    *DEFAULTS,
    *_HEAT,
]
