"""Commands that change the desired state: cluster scale, upgrade, migrate-driver, rollback."""

from __future__ import annotations

import argparse

from kiln.cli.arguments import argument, json_or_text, pair, repeated
from kiln.cli.cluster.base import FORCE, ChangingCluster
from kiln.cluster_service import requests


def size(text: str) -> tuple[str | None, int]:
    """Return a group and its count, or raise an error for argparse."""
    group, sign, count = text.rpartition('=')
    if not count.isascii() or not count.isdigit() or bool(sign) != bool(group):
        raise argparse.ArgumentTypeError(f'{text!r} is not written as COUNT or GROUP=COUNT')
    if len(count) > 9:
        raise argparse.ArgumentTypeError(f'{text!r} is more than a cluster can have')
    return group or None, int(count)


class Scale(ChangingCluster):
    """Add nodes to a group or remove some; --remove chooses which."""

    goes_back = True
    arguments = (
        argument(
            'size',
            type=size,
            metavar='[GROUP=]COUNT',
            help='Desired number of nodes; GROUP can be left out where the cluster has only one.',
        ),
        argument(
            '--remove',
            nargs='+',
            default=[],
            metavar='NODE',
            help='Nodes to remove, by name or id; kiln chooses others only if these are too few.',
        ),
        FORCE,
    )

    def request(self, args: argparse.Namespace) -> requests.Request:
        group, count = args.size
        return requests.Resize(
            cluster=args.cluster,
            group=group,
            count=count,
            remove=tuple(args.remove),
            force=args.force,
        )


class Upgrade(ChangingCluster):
    """Change the image, flavor or parameters: replace the nodes, a few at a time."""

    goes_back = True
    arguments = (
        argument('--image', metavar='ID', help='Id of the new image.'),
        argument(
            '--flavor', metavar='NAME', help='New flavor, for groups without counts of flavors.'
        ),
        repeated(
            '--parameter',
            'NAME=VALUE',
            'Parameter of the cluster driver, as JSON or as plain text; can be repeated.',
            type=pair,
        ),
        repeated('--group', 'NAME', 'Only nodes of this group; can be repeated (default: all).'),
    )

    def request(self, args: argparse.Namespace) -> requests.Request:
        from kiln.clusters.spec import MachineSpec

        machine = MachineSpec(
            image=args.image,
            flavor=args.flavor,
            parameters={name: json_or_text(text) for name, text in args.parameter},
        )
        return requests.Upgrade(cluster=args.cluster, machine=machine, groups=tuple(args.group))


class MigrateDriver(ChangingCluster):
    """Move a cluster to another cluster driver or another version of its driver."""

    goes_back = True
    requested = requests.MoveDriver
    arguments = (
        argument(
            'driver',
            nargs='?',
            metavar='DRIVER',
            help='NAME or NAME==VERSION (default: newest version of its driver).',
        ),
    )


class Rollback(ChangingCluster):
    """Roll a cluster back to its state after the last operation that succeeded."""

    requested = requests.GoBack
