"""Options of a Noop backend."""

from __future__ import annotations

from oslo_config import cfg, types

_NAMES = 'Unset: any is accepted.'

opts = [
    cfg.StrOpt(
        'path',
        help='File in which the simulated cloud lives. Several processes may share it, and '
        'it outlives them. Unset: the cloud is in memory and ends with its process.',
    ),
    cfg.IntOpt(
        'seed',
        help='Number from which ids, jitter and chances are drawn, for a run that can be '
        'repeated. Unset: each run differs.',
    ),
    cfg.FloatOpt('accept_s', default=0.0, min=0.0, help='Seconds that each call takes.'),
    *(
        cfg.FloatOpt(
            f'{verb}_s',
            default=0.0,
            min=0.0,
            help=f'Seconds from the moment a {verb} is accepted until it has its effect.',
        )
        for verb in ('build', 'delete', 'suspend', 'resume', 'reboot', 'rebuild')
    ),
    cfg.FloatOpt(
        'jitter',
        default=0.0,
        min=0.0,
        max=1.0,
        help='Part by which all of these times vary, at random; 0.2 is a fifth more or less.',
    ),
    cfg.ListOpt('zones', default=['az1', 'az2', 'az3'], help='Availability zones there are.'),
    cfg.ListOpt(
        'flavors',
        default=['tiny', 'small', 'medium', 'large', 'impossible'],
        help='Flavors there are. For the one called impossible there is never room.',
    ),
    cfg.ListOpt('images', help=f'Ids of the images there are. {_NAMES}'),
    cfg.ListOpt('networks', help=f'Ids of the networks there are. {_NAMES}'),
    cfg.DictOpt('ports', help=f'Ports there are, by id, with the network of each. {_NAMES}'),
    cfg.ListOpt('keypairs', help=f'Names of the keys there are. {_NAMES}'),
    cfg.ListOpt('sec_groups', help=f'Security groups there are. {_NAMES}'),
    cfg.IntOpt(
        'quota',
        min=0,
        help='Instances the project may have; one more fails with QuotaExceeded. Unset: '
        'any number.',
    ),
    cfg.Opt(
        'capacity',
        type=types.Dict(types.Integer(min=0)),
        default={},
        help='Instances there is room for, by zone; one more fails with '
        'InsufficientCapacity. A zone not named has room for any number.',
        sample_default='az1:100,az2:10',
    ),
    cfg.IntOpt(
        'hosts_per_zone',
        default=16,
        min=1,
        help='Hosts in each zone; anti-affinity puts at most so many members there.',
    ),
    cfg.StrOpt(
        'faults',
        default='',
        help='Faults to simulate, between semicolons, each as '
        'CALL:ACTION[=VALUE][:OPTION=VALUE,...], such as '
        'build:timeout_after:times=2,probability=0.5; *:hang=30. Counts are kept in each '
        'process.',
    ),
    cfg.ListOpt(
        'missing_abilities',
        default=[],
        help='Abilities to be without, such as suspend or console_log, to stand in for a '
        'narrow backend.',
    ),
]
