"""Options of clusters: which cluster drivers there are, and which of them is taken."""

from __future__ import annotations

from oslo_config import cfg

GROUP = 'clusters'

DRIVER_OPTS = [
    cfg.ListOpt(
        'driver_path',
        default=['/usr/share/kiln/drivers', '/etc/kiln/drivers'],
        help='Directories in which each directory is a cluster driver, called as it is. None '
        'shadows another: one version of a driver in two of them is a conflict.',
    ),
    cfg.ListOpt(
        'enabled_drivers',
        default=[],
        help='Names of the cluster drivers that may be used. Empty: all that are installed '
        'and not in disabled_drivers.',
    ),
    cfg.ListOpt(
        'disabled_drivers',
        default=[],
        help='Names of cluster drivers that no new cluster gets, not even one that asks for '
        'them by name. Clusters that have one keep it.',
    ),
    cfg.ListOpt(
        'enabled_beta_drivers',
        default=[],
        help='Names of cluster drivers that may be used though they call themselves beta.',
    ),
    cfg.BoolOpt(
        'disabled_hard',
        default=False,
        help='Keep a disabled driver from the clusters that have it, too. Nothing can be '
        'done to them until it is enabled again.',
    ),
    cfg.DictOpt(
        'driver_origin',
        default={},
        help='Where a cluster driver comes from that is installed twice in one version: '
        'NAME:PACKAGE or NAME:DIRECTORY, separated by commas. Without it neither is used.',
    ),
    cfg.MultiStrOpt(
        'driver_preference',
        default=[],
        help='Which cluster driver builds a kind of cluster that several do: '
        'SERVER_TYPE, OS, COE: DRIVER, DRIVER. The first driver that can be used is taken. '
        'May be repeated; * stands for any.',
    ),
    cfg.StrOpt(
        'default_driver',
        help='Cluster driver to take where several build what is wanted and no '
        'driver_preference decides. It is never taken for what it does not build.',
    ),
]

ENGINE_OPTS = [
    cfg.StrOpt(
        'template_path',
        default='/etc/kiln/templates',
        help='Directory in which a directory NAME holds templates that take the place of those '
        'of cluster driver NAME. What it does not hold is taken from the driver.',
    ),
    cfg.FloatOpt(
        'operation_timeout',
        default=3600.0,
        min=1.0,
        help='Seconds that an operation on a cluster may take. Past this it has failed, and '
        'its cause is told; what was made stays, and the next operation goes on from there. A '
        'creation may take as long as the cluster says.',
    ),
    cfg.FloatOpt(
        'lease',
        default=15.0,
        min=1.0,
        help='Seconds after which another conductor takes over the clusters of one that has '
        'gone silent. A conductor that works says so three times in this time.',
    ),
    cfg.FloatOpt(
        'quiesce',
        default=5.0,
        min=0.0,
        help='Seconds that who takes over a cluster waits before he repeats what was begun: '
        'a request of the one before may still be on its way.',
    ),
    cfg.FloatOpt(
        'watch',
        default=30.0,
        min=1.0,
        help='Seconds between two looks at the machines of clusters on which nobody works. '
        'So long may a dead machine stay unnoticed; each look costs a call per backend.',
    ),
    cfg.IntOpt(
        'max_building',
        default=200,
        min=1,
        help='Builds of one cluster that may be asked for and not accepted at once. How many '
        'a backend gets at once is limited by its build_workers.',
    ),
    cfg.StrOpt(
        'work_source',
        default='database',
        # It may hold a password.
        secret=True,
        help='How several conductors share work out: database (each asks it once a second), or '
        'a jobboard, which tells who looks first: zookeeper://HOST:2181,HOST:2181/PATH, '
        'etcd://HOST:2379/PATH or redis://USER:PASSWORD@HOST:6379/PATH; zookeepers, etcds and '
        'rediss for TLS. It needs kiln-compute[jobboard].',
    ),
    cfg.StrOpt(
        'work_source_ca',
        help='PEM file of the certificates that are trusted where the jobboard is reached by TLS.',
    ),
    cfg.StrOpt(
        'work_source_cert',
        help='PEM file of the certificate by which the jobboard knows conductors, if it asks for '
        'one.',
    ),
    cfg.StrOpt('work_source_key', help='PEM file of the key of that certificate.'),
    cfg.FloatOpt(
        'sweep_interval',
        default=30.0,
        min=1.0,
        help='Seconds between two looks at the database for work that the jobboard does not '
        'know of.',
    ),
]

OPTS = [*DRIVER_OPTS, *ENGINE_OPTS]
