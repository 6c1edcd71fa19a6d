"""Options of clusters: cluster drivers, conductors and work distribution."""

from __future__ import annotations

from oslo_config import cfg

GROUP = 'clusters'

DRIVER_OPTS = [
    cfg.ListOpt(
        'driver_path',
        default=['/usr/share/kiln/drivers', '/etc/kiln/drivers'],
        help='Directories whose subdirectories are cluster drivers, named like the driver. They '
        'do not shadow each other: a version of a driver in two of them is a conflict.',
    ),
    cfg.ListOpt(
        'enabled_drivers',
        default=[],
        help='Names of the cluster drivers that can be used. Empty: all installed drivers that '
        'are not in disabled_drivers.',
    ),
    cfg.ListOpt(
        'disabled_drivers',
        default=[],
        help='Names of cluster drivers that are not used for new clusters, not even if requested '
        'by name. Existing clusters keep them.',
    ),
    cfg.ListOpt(
        'enabled_beta_drivers',
        default=[],
        help='Names of cluster drivers that can be used although they are declared beta.',
    ),
    cfg.BoolOpt(
        'disabled_hard',
        default=False,
        help='Also disable drivers in disabled_drivers for existing clusters. These clusters '
        'cannot be changed until their driver is enabled again.',
    ),
    cfg.BoolOpt(
        'refuse_changed_drivers',
        default=False,
        help='Refuse a cluster driver whose files have changed without a new version since a '
        'cluster was created: the cluster cannot be changed, and is not healed, until the former '
        'files are back. False: the changed driver is used, with a warning in the log.',
    ),
    cfg.StrOpt(
        'program_user',
        help='User that programs of cluster drivers run as, with all groups of that user. kiln '
        'must run as root for it, and the user must be able to reach run_path. Unset: they run as '
        'the user of kiln, and can read what kiln can read.',
    ),
    cfg.DictOpt(
        'driver_origin',
        default={},
        help='Origin of a cluster driver that is installed twice in the same version: '
        'NAME:PACKAGE or NAME:DIRECTORY, separated by commas. Unset: neither is used.',
    ),
    cfg.MultiStrOpt(
        'driver_preference',
        default=[],
        help='Preferred cluster drivers for a kind of cluster that several drivers can build: '
        'SERVER_TYPE, OS, COE: DRIVER, DRIVER. The first available driver is used. '
        'Can be repeated; * matches anything.',
    ),
    cfg.StrOpt(
        'default_driver',
        help='Cluster driver to use if several drivers can build a cluster and no '
        'driver_preference decides. It is not used for clusters that it cannot build.',
    ),
]

ENGINE_OPTS = [
    cfg.StrOpt(
        'template_path',
        default='/etc/kiln/templates',
        help='Directory with a subdirectory NAME of templates that replace those of cluster '
        'driver NAME. Templates that are missing there are read from the driver.',
    ),
    cfg.StrOpt(
        'run_path',
        help='Directory for the runs of the programs of cluster drivers, on a disk of this host '
        'alone. A conductor that is restarted finds the programs there that are at work. Unset: '
        'kiln/runs in $XDG_STATE_HOME, or in ~/.local/state.',
    ),
    cfg.FloatOpt(
        'operation_timeout',
        default=3600.0,
        min=1.0,
        help='Time limit of an operation on a cluster, in seconds. Then it fails and reports '
        'its cause; resources stay, and the next operation continues from there. The limit of '
        'a creation is create_timeout of the cluster, if set.',
    ),
    cfg.FloatOpt(
        'lease',
        default=15.0,
        min=1.0,
        help='Seconds after which the clusters of a conductor that has stopped renewing its '
        'leases are taken over. A conductor renews its leases three times in this period.',
    ),
    cfg.FloatOpt(
        'quiesce',
        default=5.0,
        min=0.0,
        help='Seconds that a conductor waits after taking over a cluster before it repeats '
        'requests: a request of the previous conductor might still be on its way.',
    ),
    cfg.FloatOpt(
        'watch',
        default=30.0,
        min=1.0,
        help='Seconds between two polls of the machines of idle clusters. A dead machine can '
        'stay unnoticed for this period; each poll costs a call per backend.',
    ),
    cfg.FloatOpt(
        'outage_check',
        # A silence is reported after three seconds, and is to be logged within five.
        default=1.5,
        min=0.0,
        help='Seconds between two checks whether the backends of idle clusters answer; each costs '
        'one call per backend, for the status of one machine. An outage is logged at the first '
        'check that fails, and its end at the first one that succeeds. 0: without such checks an '
        'outage stays unnoticed until the next poll.',
    ),
    cfg.StrOpt(
        'metrics_listen',
        help='HOST:PORT at which a conductor serves its metrics to Prometheus, such as '
        '127.0.0.1:9464, and whether it works at /healthz and /readyz. The metrics of '
        'calls to backends need [compute] metrics as well. Unset: nothing is served.',
    ),
    cfg.IntOpt(
        'max_nodes_per_cluster',
        default=10_000,
        min=1,
        help='Maximum number of nodes of one cluster. A request that would exceed it is refused. '
        'The same on every host, like the next two.',
    ),
    cfg.IntOpt(
        'max_nodes_per_owner',
        default=50_000,
        min=1,
        help='Maximum number of nodes of all clusters of one owner: those whose files name the '
        'same credentials, or none.',
    ),
    cfg.IntOpt(
        'max_nodes_per_site',
        default=200_000,
        min=1,
        help='Maximum number of nodes of all clusters.',
    ),
    cfg.IntOpt(
        'max_building',
        default=200,
        min=1,
        help='Maximum number of builds of one cluster that are submitted but not '
        'accepted. The builds sent to a backend at once are limited by its build_workers.',
    ),
    cfg.StrOpt(
        'work_source',
        default='database',
        # It can contain a password.
        secret=True,
        help='How several conductors share work: database (each polls it once a second), or '
        'a jobboard, which notifies the conductors: zookeeper://HOST:2181,HOST:2181/PATH, '
        'etcd://HOST:2379/PATH or redis://USER:PASSWORD@HOST:6379/PATH; zookeepers, etcds and '
        'rediss for TLS. It needs kiln-compute[jobboard].',
    ),
    cfg.StrOpt(
        'work_source_ca',
        help='PEM file of the CA certificates to trust for TLS connections to the jobboard.',
    ),
    cfg.StrOpt(
        'work_source_cert',
        help='PEM file of the client certificate for the jobboard, if it requires one.',
    ),
    cfg.StrOpt('work_source_key', help='PEM file of the key of work_source_cert.'),
    cfg.FloatOpt(
        'sweep_interval',
        default=30.0,
        min=1.0,
        help='Seconds between two polls of the database for work that is missing from the '
        'jobboard.',
    ),
]

OPTS = [*DRIVER_OPTS, *ENGINE_OPTS]
