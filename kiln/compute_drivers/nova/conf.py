"""Options of a Nova backend, with keystoneauth's own for identity and TLS."""

from __future__ import annotations

from oslo_config import cfg

from kiln.openstack.identity import IDENTITY, TIMEOUTS, TLS


def endpoint(service: str, name: str) -> cfg.Opt:
    """Return the option for the URL of a service."""
    return cfg.StrOpt(
        f'{service}_endpoint_override',
        help=f'URL of {name}, instead of the one in the catalogue.',
    )


_IDENTITY = [
    *IDENTITY,
    endpoint('compute', 'Nova'),
    endpoint('network', 'Neutron'),
    endpoint('image', 'Glance'),
    *TLS,
]

#: How Nova is asked.
TALK = [
    *TIMEOUTS,
    cfg.StrOpt(
        'microversion',
        regex=r'^2\.\d+$',
        help='Microversion of Nova to use. Unset: the highest that both sides support.',
    ),
    cfg.IntOpt('page_size', default=500, min=1, max=1000, help='Servers to request at a time.'),
    cfg.FloatOpt(
        'catalogue_ttl',
        default=300.0,
        min=0.0,
        help='Seconds for which the ids of flavors, images, networks and security groups are '
        'cached.',
    ),
]

_DEFAULT = 'Used if a build names none.'

#: What a build gets that names nothing.
DEFAULTS = [
    cfg.StrOpt('flavor', help=f'Name or id of a flavor. {_DEFAULT}'),
    cfg.StrOpt(
        'image',
        help='Id or name of an image, or tag:NAME for the newest active one with that tag. '
        f'{_DEFAULT}',
    ),
    cfg.StrOpt('image_owner', help='Project that must own the images found by name or tag.'),
    cfg.ListOpt(
        'networks',
        default=[],
        help=f'Names or ids of networks; none is a server without any. {_DEFAULT}',
    ),
    cfg.ListOpt(
        'security_groups', default=[], help=f'Names or ids of security groups. {_DEFAULT}'
    ),
    cfg.StrOpt('availability_zone', help=f'Availability zone. {_DEFAULT}'),
    cfg.ListOpt('keypairs', default=[], help=f'Names of key pairs. {_DEFAULT}'),
    cfg.BoolOpt('config_drive', default=False, help='Give each server a config drive.'),
]

_BUILDS = [
    cfg.IntOpt(
        'boot_volume_size',
        min=1,
        help='Size in GiB of a boot volume, created from the image and deleted with the '
        "server. Unset: servers boot from the flavor's disk.",
    ),
    cfg.StrOpt('boot_volume_type', help='Type of the boot volume. Unset: the default of Cinder.'),
    cfg.StrOpt(
        'hostname_domain',
        help='Domain of the host names of servers; needs microversion 2.94. Unset: Nova '
        'derives the host name from the name of the server.',
    ),
    cfg.StrOpt(
        'file_injection',
        default='auto',
        choices=[
            ('auto', 'in user data, or as "personality" if they do not fit'),
            ('user_data', 'in user data, for cloud-init to write'),
            ('personality', 'by Nova itself, with microversion 2.56 and a config drive'),
        ],
        help='How files are put onto a server.',
    ),
    cfg.BoolOpt(
        'port_lock',
        default=False,
        help='Create the first port of a server before the server, so that of two requests '
        'for one build at most one can ever run; this needs the right to create ports on '
        'the network. Without it, a duplicate is found by its tag after it was created, '
        'and deleted. Builds on given ports are always locked by those ports.',
    ),
]

_NOTIFICATIONS = [
    cfg.StrOpt(
        'notification_url',
        secret=True,
        help="URL of the broker with Nova's notifications, as "
        "rabbit://USER:PASSWORD@HOST:PORT/VHOST: Nova's transport_url, or that of its "
        'oslo_messaging_notifications. For TLS append ?ssl=true, and ssl_ca_file, '
        'ssl_cert_file and ssl_key_file if needed. Unset: Nova is polled.',
    ),
    cfg.StrOpt(
        'notification_topic',
        default='versioned_notifications',
        help='Topic of the notifications: versioned_notifications_topics of Nova.',
    ),
    cfg.StrOpt(
        'notification_exchange',
        default='nova',
        help='Exchange of the notifications: control_exchange of Nova.',
    ),
    cfg.FloatOpt(
        'notification_gather',
        default=0.75,
        min=0.001,
        help='Seconds for which notifications gather before they are read. A smaller '
        'value reports changes sooner and wakes kiln more often.',
    ),
]

opts = [*_IDENTITY, *TALK, *DEFAULTS, *_BUILDS, *_NOTIFICATIONS]
