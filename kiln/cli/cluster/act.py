"""Commands that change a cluster: scale, upgrade, reboot, delete and others."""

from __future__ import annotations

import abc
import argparse
import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kiln.cli.arguments import CLUSTER, KilnCommand, argument, json_or_text, pair
from kiln.cli.cluster.changing import DEADLINE, NO_WAIT, ChangingCluster, Working
from kiln.cli.site.stores import configured_site
from kiln.cluster_service import requests
from kiln.clusters.exceptions import ClusterNotFound

if TYPE_CHECKING:
    from kiln.cli.cluster.following import Entered
    from kiln.cluster_service.proposals import Proposal
    from kiln.cluster_service.service import Clusters


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
    )

    def request(self, args: argparse.Namespace) -> requests.Request:
        group, count = args.size
        return requests.Resize(
            cluster=args.cluster, group=group, count=count, remove=tuple(args.remove)
        )


class Upgrade(ChangingCluster):
    """Change the image, flavor or parameters: replace the nodes, a few at a time."""

    goes_back = True
    arguments = (
        argument('--image', metavar='ID', help='Id of the new image.'),
        argument(
            '--flavor', metavar='NAME', help='New flavor, for groups without counts of flavors.'
        ),
        argument(
            '--parameter',
            type=pair,
            action='append',
            default=[],
            metavar='NAME=VALUE',
            help='Parameter of the cluster driver, as JSON or as plain text; can be repeated.',
        ),
        argument(
            '--group',
            action='append',
            default=[],
            metavar='NAME',
            help='Only nodes of this group; can be repeated (default: all).',
        ),
    )

    def request(self, args: argparse.Namespace) -> requests.Request:
        from kiln.clusters.spec import MachineSpec

        machine = MachineSpec(
            image=args.image,
            flavor=args.flavor,
            parameters={name: json_or_text(text) for name, text in args.parameter},
        )
        return requests.Upgrade(cluster=args.cluster, machine=machine, groups=tuple(args.group))


class MoveDriver(ChangingCluster):
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


NODES = argument('nodes', nargs='*', metavar='NODE', help='Nodes by name or id (default: all).')
HARD = argument('--hard', action='store_true', help='Power-cycle instead of a clean reboot.')


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


class Delete(ChangingCluster):
    """Delete a cluster with all of its resources; a receipt of them remains.

    With --force the deletion always ends: a resource that its backend does not delete,
    or whose backend no longer exists, is abandoned, and the receipt names it.
    """

    requested = requests.Delete
    arguments = (
        argument(
            '--force',
            action='store_true',
            help='Do not drain nodes, and abandon what cannot be deleted; confirmed by typing the '
            'name of the cluster, or by --yes.',
        ),
    )

    def agree(self, proposals: Sequence[Proposal], args: argparse.Namespace) -> None:
        """Require the name of the cluster where resources can be abandoned."""
        if not args.force:
            super().agree(proposals, args)
        elif not args.yes:
            (name,) = (one.cluster.name for one in proposals)
            said = f'cluster {name} is deleted, and what cannot be deleted is abandoned'
            self.ask(said, 'Type its name to continue:', {name.casefold()})

    def report(
        self,
        pairs: Sequence[tuple[Proposal, Entered | None]],
        args: argparse.Namespace,
        *,
        clusters: Any = None,
    ) -> None:
        """Print the abandoned resources, too."""
        super().report(pairs, args, clusters=clusters)
        for _, entered in pairs:
            if entered is None or not clusters.operation(entered.operation.id).state.ended:
                continue
            with contextlib.suppress(ClusterNotFound):
                for one in clusters.receipt(entered.operation.cluster_id).abandoned:
                    self.app.say(
                        f'{entered.cluster}: {one.kind} {one.id} of {one.backend} was abandoned; '
                        f"it might still exist. 'kiln orphans --backend {one.backend}' finds it."
                    )


class Retry(Working):
    """Continue the newest operation of a cluster after it failed or was cancelled.

    Finished steps are not repeated; a hook that failed is called again.
    """

    arguments = (CLUSTER, NO_WAIT, DEADLINE)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        from kiln.cli.cluster.following import Entered
        from kiln.cli.output.operation_progress import goal_of_view

        with configured_site(self.app.settings, self.app.clock) as site:
            if not parsed_args.no_wait:
                site.check_hooks()
            view, after = site.clusters.show(parsed_args.cluster), site.clusters.last_event()
            operation = site.clusters.retry(view.cluster.id, timeout_s=parsed_args.timeout)
            self.app.say(f'{view.cluster.name}: {operation.kind.value} continues.')
            if not parsed_args.no_wait:
                retried = site.clusters.show(view.cluster.id)
                entered = Entered(
                    cluster=view.cluster.name, operation=operation, goal=goal_of_view(retried),
                    after=after, paused=view.cluster.paused,
                )  # fmt: skip
                self.settle(self.follow(site, [entered]), 1)


class _AtOnce(KilnCommand):
    """A command that is done as soon as the store is written."""

    arguments = (CLUSTER,)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with configured_site(self.app.settings, self.app.clock) as site:
            self.app.say(self.act(site.clusters, parsed_args.cluster))

    @abc.abstractmethod
    def act(self, clusters: Clusters, name: str) -> str:
        """Run the action; return the line to print."""


class Pause(_AtOnce):
    """Pause a cluster: kiln starts nothing for it until it is resumed."""

    def act(self, clusters: Clusters, name: str) -> str:
        return f'{clusters.pause(name).name} is paused; nothing starts for it until it is resumed.'


class Resume(_AtOnce):
    """Resume a paused cluster."""

    def act(self, clusters: Clusters, name: str) -> str:
        return f'{clusters.resume(name).name} is no longer paused.'


class Cancel(Working):
    """Cancel the running operations of a cluster; what they created stays.

    Works on them until they have stopped.
    """

    arguments = (
        CLUSTER,
        argument(
            '--no-wait',
            action='store_true',
            help='Return without waiting until they have stopped.',
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        from kiln.cli.cluster.following import Entered

        with configured_site(self.app.settings, self.app.clock) as site:
            view = site.clusters.show(parsed_args.cluster)
            name, after = view.cluster.name, site.clusters.last_event()
            stopping = site.clusters.cancel(view.cluster.id)
            kinds = ', '.join(one.kind.value for one in stopping) or 'nothing'
            self.app.say(f'{name}: {kinds} is {"being cancelled" if stopping else "running"}.')
            if stopping and not parsed_args.no_wait:
                # Cancelled operations end even for a paused cluster.
                entered = [Entered(cluster=name, operation=one, after=after) for one in stopping]
                self.follow(site, entered)
