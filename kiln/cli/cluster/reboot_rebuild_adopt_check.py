"""Commands on the nodes of a cluster: cluster reboot, rebuild, adopt, check."""

from __future__ import annotations

from kiln.cli.arguments import argument
from kiln.cli.cluster.base import HARD, ChangingCluster
from kiln.cluster_service import requests

NODES = argument('nodes', nargs='*', metavar='NODE', help='Nodes by name or id (default: all).')


class Reboot(ChangingCluster):
    """Reboot nodes, a few at a time."""

    requested = requests.Reboot
    arguments = (NODES, HARD)


class Rebuild(ChangingCluster):
    """Rebuild nodes in place, a few at a time; their data is lost."""

    requested = requests.Rebuild
    arguments = (NODES,)


class Adopt(ChangingCluster):
    """Adopt an existing machine of this site as a node; its group grows by one."""

    requested = requests.Adopt
    arguments = (
        argument('group', metavar='GROUP', help='Name of the group.'),
        argument('amphora_id', metavar='ID', help='Id of the machine in its backend.'),
    )


class Check(ChangingCluster):
    """Compare the nodes with the desired state; change nothing."""

    requested = requests.Check
