"""Options of an Ironic backend, with keystoneauth's own for identity and TLS."""

from __future__ import annotations

from oslo_config import cfg

from kiln.openstack.identity import IDENTITY, TIMEOUTS, TLS

_IDENTITY = [
    *IDENTITY,
    *(
        cfg.StrOpt(
            f'{service}_endpoint_override',
            help=f'URL of {name}, instead of the one in the catalogue. {more}',
        )
        for service, name, more in (
            ('baremetal', 'Ironic', 'Required with auth_type none or http_basic.'),
            ('network', 'Neutron', 'Not used unless use_neutron is set.'),
            ('image', 'Glance', 'Not used for images that are named by a URL.'),
        )
    ),
    *TLS,
]

_TALK = [
    *TIMEOUTS,
    cfg.StrOpt(
        'microversion',
        regex=r'^1\.\d+$',
        help='API version of Ironic to use. Unset: the highest that both sides support.',
    ),
    cfg.IntOpt(
        'page_size',
        default=1000,
        min=1,
        max=1000,
        help='Nodes and allocations to request at a time.',
    ),
    cfg.FloatOpt(
        'claim_timeout',
        default=60.0,
        min=0.1,
        help='Seconds in which Ironic must find a node for a build. A claim that is older '
        'and was not deployed is in error: the process that made it has ended.',
    ),
]

_DEFAULT = 'Used if a build names none.'

_BUILDS = [
    cfg.StrOpt(
        'flavor',
        help='Resource class of nodes, with +TRAIT for each trait that a node must have. '
        f'{_DEFAULT}',
    ),
    cfg.StrOpt(
        'image',
        help='URL of an image, with #sha256=DIGEST, #sha512=DIGEST or #checksums=URL, or the '
        f'name or id of an image of Glance. {_DEFAULT}',
    ),
    cfg.StrOpt(
        'zone_property',
        help='Property of nodes whose value is their zone. Unset: the conductor group of a '
        'node is its zone.',
    ),
    cfg.IntOpt(
        'root_gb',
        min=1,
        help='Size in GiB of the root partition, for images of a partition. Unset: images '
        'are those of whole disks.',
    ),
    cfg.BoolOpt(
        'use_neutron',
        default=False,
        help='Attach ports of Neutron to nodes. Without it, networks and ports are refused, '
        'and addresses are those that the operator wrote into the extra field "addresses" '
        'of a node.',
    ),
    cfg.ListOpt('networks', default=[], help=f'Ids of networks of Neutron. {_DEFAULT}'),
]

opts = [*_IDENTITY, *_TALK, *_BUILDS]
