"""Options of a Noop backend."""

from __future__ import annotations

from oslo_config import cfg, types

_NAMES = 'Unset: any is accepted.'

opts = [
    cfg.StrOpt(
        'path',
        help='File of the simulated cloud; ~ is the home of the user. Several processes can share '
        'it, and it outlives them. Unset: the cloud is in memory and ends with its process.',
    ),
    cfg.IntOpt(
        'seed',
        help='Seed of ids, jitter and probabilities, for a run that can be repeated. '
        'Unset: each run differs.',
    ),
    cfg.FloatOpt('accept_s', default=0.0, min=0.0, help='Seconds that each call takes.'),
    *(
        cfg.FloatOpt(
            f'{verb}_s',
            default=0.0,
            min=0.0,
            help=f'Seconds from the acceptance of a {verb} until it takes effect.',
        )
        for verb in ('build', 'delete', 'suspend', 'resume', 'reboot', 'rebuild')
    ),
    cfg.FloatOpt(
        'jitter',
        default=0.0,
        min=0.0,
        max=1.0,
        help='Part by which all these times vary at random; 0.2 is a fifth more or less.',
    ),
    cfg.ListOpt('zones', default=['az1', 'az2', 'az3'], help='Availability zones of the cloud.'),
    cfg.ListOpt(
        'flavors',
        default=['tiny', 'small', 'medium', 'large', 'impossible'],
        help='Flavors of the cloud. The flavor impossible never has capacity.',
    ),
    cfg.ListOpt('images', help=f'Ids of the images. {_NAMES}'),
    cfg.ListOpt('networks', help=f'Ids of the networks. {_NAMES}'),
    cfg.DictOpt('ports', help=f'Ids of the ports, with the network of each. {_NAMES}'),
    cfg.ListOpt('keypairs', help=f'Names of the key pairs. {_NAMES}'),
    cfg.ListOpt('sec_groups', help=f'Security groups. {_NAMES}'),
    cfg.DictOpt(
        'group_ports',
        default={},
        help='Ports that a security group opens to its members, and no others. A plan of a '
        'cluster whose nodes need another is refused. A group that is not named opens all.',
        sample_default='web:22/tcp 80/tcp,swarm:2377/tcp 7946/tcp 7946/udp 4789/udp',
    ),
    cfg.IntOpt(
        'quota',
        min=0,
        help='Instances that the project can have; one more fails with QuotaExceeded. '
        'Unset: any number.',
    ),
    cfg.Opt(
        'capacity',
        type=types.Dict(types.Integer(min=0)),
        default={},
        help='Instances that each zone can hold; one more fails with '
        'InsufficientCapacity. A zone that is not named can hold any number.',
        sample_default='az1:100,az2:10',
    ),
    cfg.IntOpt(
        'hosts_per_zone',
        default=16,
        min=1,
        help='Hosts in each zone; anti-affinity puts at most that many members there.',
    ),
    cfg.StrOpt(
        'faults',
        default='',
        help='Faults to simulate, separated by semicolons, each as '
        'CALL:ACTION[=VALUE][:OPTION=VALUE,...], such as '
        'build:timeout_after:times=2,probability=0.5; *:hang=30. Each process counts '
        'for itself.',
    ),
    cfg.ListOpt(
        'missing_abilities',
        default=[],
        help='Abilities to leave out, such as suspend or console_log, to simulate a limited '
        'backend.',
    ),
]
