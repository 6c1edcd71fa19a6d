"""Commands that have something done to a cluster."""

from __future__ import annotations

import abc
import argparse
import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kiln.cli.base import CLUSTER, KilnCommand, argument, json_or_text, pair
from kiln.cli.changing import DEADLINE, NO_WAIT, ChangingCluster, Working
from kiln.cli.stores import configured_site
from kiln.cluster_exceptions import ClusterNotFound
from kiln.clusters import requests

if TYPE_CHECKING:
    from kiln.cli.following import Entered
    from kiln.clusters.proposals import Proposal
    from kiln.clusters.service import Clusters


def size(text: str) -> tuple[str | None, int]:
    """Return a group and its count, or have argparse refuse it."""
    group, sign, count = text.rpartition('=')
    if not count.isascii() or not count.isdigit() or bool(sign) != bool(group):
        raise argparse.ArgumentTypeError(f'{text!r} is not written as COUNT or GROUP=COUNT')
    if len(count) > 9:
        raise argparse.ArgumentTypeError(f'{text!r} is more than any cluster has')
    return group or None, int(count)


class Scale(ChangingCluster):
    """Have more or fewer nodes in a group, and say which go if that matters."""

    goes_back = True
    arguments = (
        argument(
            'size',
            type=size,
            metavar='[GROUP=]COUNT',
            help='How many nodes there are to be; the group may be left out where it is the only '
            'one.',
        ),
        argument(
            '--remove',
            nargs='+',
            default=[],
            metavar='NODE',
            help='Nodes that go, by name or id; others go only for what is missing then.',
        ),
    )

    def request(self, args: argparse.Namespace) -> requests.Request:
        group, count = args.size
        return requests.Resize(
            cluster=args.cluster, group=group, count=count, remove=tuple(args.remove)
        )


class Upgrade(ChangingCluster):
    """Make nodes of something else: others in their place, a few at a time."""

    goes_back = True
    arguments = (
        argument('--image', metavar='ID', help='Image that they are made from.'),
        argument('--flavor', metavar='NAME', help='Flavor of groups that do not count flavors.'),
        argument(
            '--parameter',
            type=pair,
            action='append',
            default=[],
            metavar='NAME=VALUE',
            help='Parameter of the cluster driver, as JSON or as plain text; may be repeated.',
        ),
        argument(
            '--group',
            action='append',
            default=[],
            metavar='NAME',
            help='Only nodes of this group; may be repeated (default: all).',
        ),
    )

    def request(self, args: argparse.Namespace) -> requests.Request:
        from kiln.cluster_spec import MachineSpec

        machine = MachineSpec(
            image=args.image,
            flavor=args.flavor,
            parameters={name: json_or_text(text) for name, text in args.parameter},
        )
        return requests.Upgrade(cluster=args.cluster, machine=machine, groups=tuple(args.group))


class MoveDriver(ChangingCluster):
    """Move a cluster to another cluster driver, or to another version of its own."""

    goes_back = True
    requested = requests.MoveDriver
    arguments = (
        argument(
            'driver',
            nargs='?',
            metavar='DRIVER',
            help='NAME or NAME==VERSION (default: the newest version of its own).',
        ),
    )


class Rollback(ChangingCluster):
    """Bring a cluster back to what it was after the last operation that succeeded."""

    requested = requests.GoBack


NODES = argument('nodes', nargs='*', metavar='NODE', help='Nodes by name or id (default: all).')
HARD = argument('--hard', action='store_true', help='As if the power had failed.')


class Reboot(ChangingCluster):
    """Reboot nodes, a few at a time."""

    requested = requests.Reboot
    arguments = (NODES, HARD)


class Rebuild(ChangingCluster):
    """Make nodes anew in their places, a few at a time; what is on them is lost."""

    requested = requests.Rebuild
    arguments = (NODES,)


class Adopt(ChangingCluster):
    """Take a machine that the site has made into a group as a node; the group grows by one."""

    requested = requests.Adopt
    arguments = (
        argument('group', metavar='GROUP', help='Name of the group.'),
        argument('amphora_id', metavar='ID', help='Id of the machine in its backend.'),
    )


class Check(ChangingCluster):
    """Look at the nodes, and compare them with what is wanted; nothing is changed."""

    requested = requests.Check


class Delete(ChangingCluster):
    """Delete a cluster with all that was made for it; it leaves a receipt.

    With --force nothing that refuses to go keeps it: what its backend does not take
    away, or a backend that is gone for good, is given up, and the receipt names it.
    """

    requested = requests.Delete
    arguments = (
        argument(
            '--force',
            action='store_true',
            help='Drain no node, and give up what does not go; agreed to by the name of the '
            'cluster, or by --yes.',
        ),
    )

    def agree(self, proposals: Sequence[Proposal], args: argparse.Namespace) -> None:
        """Have the cluster named by who has machines given up."""
        if not args.force:
            super().agree(proposals, args)
        elif not args.yes:
            (name,) = (one.cluster.name for one in proposals)
            said = f'cluster {name} goes, and what does not go with it is given up'
            self.ask(said, 'Type its name to go on:', {name.casefold()})

    def report(
        self,
        pairs: Sequence[tuple[Proposal, Entered | None]],
        args: argparse.Namespace,
        *,
        clusters: Any = None,
    ) -> None:
        """Name what was given up, too."""
        super().report(pairs, args, clusters=clusters)
        for _, entered in pairs:
            if entered is None or not clusters.operation(entered.operation.id).state.ended:
                continue
            with contextlib.suppress(ClusterNotFound):
                for one in clusters.receipt(entered.operation.cluster_id).abandoned:
                    self.app.say(
                        f'{entered.cluster}: {one.kind} {one.id} of {one.backend} was given up; '
                        f"it may still be there. 'kiln orphans --backend {one.backend}' finds it."
                    )


class Retry(Working):
    """Go on with the newest operation of a cluster, which has failed or was cancelled.

    What it has done stays done, and a hook that failed is called again.
    """

    arguments = (CLUSTER, NO_WAIT, DEADLINE)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        from kiln.cli.course import goal_of_view
        from kiln.cli.following import Entered

        with configured_site(self.app.settings, self.app.clock) as site:
            if not parsed_args.no_wait:
                site.check_hooks()
            view, after = site.clusters.show(parsed_args.cluster), site.clusters.last_event()
            operation = site.clusters.retry(view.cluster.id, timeout_s=parsed_args.timeout)
            self.app.say(f'{view.cluster.name}: {operation.kind.value} is taken up again.')
            if not parsed_args.no_wait:
                retried = site.clusters.show(view.cluster.id)
                entered = Entered(
                    cluster=view.cluster.name, operation=operation, goal=goal_of_view(retried),
                    after=after, paused=view.cluster.paused,
                )  # fmt: skip
                self.settle(self.follow(site, [entered]), 1)


class _AtOnce(KilnCommand):
    """A command that is done when it is written down."""

    arguments = (CLUSTER,)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with configured_site(self.app.settings, self.app.clock) as site:
            self.app.say(self.act(site.clusters, parsed_args.cluster))

    @abc.abstractmethod
    def act(self, clusters: Clusters, name: str) -> str:
        """Do it; return what was done."""


class Pause(_AtOnce):
    """Have nothing begun for a cluster any more."""

    def act(self, clusters: Clusters, name: str) -> str:
        return f'{clusters.pause(name).name} is paused; nothing is begun for it any more.'


class Resume(_AtOnce):
    """Go on with a paused cluster."""

    def act(self, clusters: Clusters, name: str) -> str:
        return f'{clusters.resume(name).name} is not paused any more.'


class Cancel(Working):
    """Stop what is under way for a cluster; what was made stays.

    Returns once it has stopped, and works on that meanwhile.
    """

    arguments = (
        CLUSTER,
        argument('--no-wait', action='store_true', help='Do not wait until it has stopped.'),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        from kiln.cli.following import Entered

        with configured_site(self.app.settings, self.app.clock) as site:
            view = site.clusters.show(parsed_args.cluster)
            name, after = view.cluster.name, site.clusters.last_event()
            stopping = site.clusters.cancel(view.cluster.id)
            kinds = ', '.join(one.kind.value for one in stopping) or 'nothing'
            self.app.say(f'{name}: {kinds} is {"to stop" if stopping else "under way"}.')
            if stopping and not parsed_args.no_wait:
                # What is cancelled is ended for a paused cluster, too.
                entered = [Entered(cluster=name, operation=one, after=after) for one in stopping]
                self.follow(site, entered)
