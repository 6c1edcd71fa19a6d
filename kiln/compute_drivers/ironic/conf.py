"""Options of an Ironic backend, with keystoneauth's own for identity and TLS."""

from __future__ import annotations

from oslo_config import cfg

from kiln.openstack.identity import IDENTITY, TIMEOUTS, TLS

_IDENTITY = [
    *IDENTITY,
    cfg.StrOpt(
        'baremetal_endpoint_override',
        help='URL of Ironic, instead of the one in the catalogue. Without Keystone (auth_type '
        'http_basic or none) there is no catalogue, and this option must be set.',
    ),
    cfg.StrOpt(
        'network_endpoint_override',
        help='URL of Neutron, instead of the one in the catalogue. With neither, builds can have '
        'no networks and no ports.',
    ),
    *TLS,
]

_TALK = [
    *TIMEOUTS,
    cfg.StrOpt(
        'microversion',
        regex=r'^1\.\d+$',
        help='Microversion of Ironic to use. Unset: the highest that both sides support.',
    ),
    cfg.IntOpt(
        'page_size',
        default=1000,
        min=1,
        max=1000,
        help='Nodes or allocations to request at a time. Ironic can return fewer (max_limit).',
    ),
    cfg.FloatOpt(
        'lock_wait',
        default=15.0,
        min=0.0,
        help='Seconds for which a request is repeated while another request holds its node. '
        'After that the call fails, and its caller can repeat it.',
    ),
]

_DEFAULT = 'Used if a build names none.'

_BUILDS = [
    cfg.StrOpt(
        'flavor',
        help='Resource class of nodes, and traits that they must have: CLASS+TRAIT+TRAIT. '
        f'{_DEFAULT}',
    ),
    cfg.StrOpt(
        'image',
        help='Id of an image in Glance, or the URL of an image with its digest: '
        'https://HOST/PATH#sha256=DIGEST. An ISO, whose URL ends in .iso and has no digest, is '
        f'for nodes with the deploy interface "ramdisk". {_DEFAULT}',
    ),
    cfg.ListOpt(
        'networks',
        default=[],
        help='Names or ids of networks of Neutron, each for one port of a node; none is a node '
        f'without any. {_DEFAULT}',
    ),
    cfg.ListOpt(
        'security_groups',
        default=[],
        help=f'Names or ids of security groups of the ports that are made on networks. {_DEFAULT}',
    ),
    cfg.StrOpt('availability_zone', help=f'Zone of the nodes. {_DEFAULT}'),
    cfg.StrOpt(
        'zone_property',
        help='Property of nodes that names their zone. Unset: the zone of a node is its '
        'conductor group.',
    ),
    cfg.IntOpt(
        'root_size',
        min=1,
        help='Size in GiB of the root partition; an image of a whole disk ignores it. Unset: '
        'the local_gb of the node, less one for the config drive.',
    ),
]

opts = [*_IDENTITY, *_TALK, *_BUILDS]
