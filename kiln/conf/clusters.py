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
