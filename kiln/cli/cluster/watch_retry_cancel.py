"""Commands that follow an existing operation: cluster watch, retry, cancel."""

from __future__ import annotations

import argparse
import dataclasses

from kiln.cli.arguments import CLUSTER, flag
from kiln.cli.cluster.base import DEADLINE, NO_WAIT, Working
from kiln.cli.cluster.following import Entered
from kiln.cli.output.operation_progress import goal_of_view
from kiln.cli.output.views import moment


class Watch(Working):
    """Follow the running operation of a cluster to its end, and work on it."""

    arguments = (CLUSTER,)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with self.app.open_site() as site:
            view = site.clusters.show(parsed_args.cluster)
            operation = view.operation
            if operation is None or operation.state.ended:
                when = f' since {moment(operation.ended_at)}' if operation else ''
                self.app.say(f'{view.cluster.name}: nothing is running{when}.')
                return
            after = site.clusters.last_event()
            entered = Entered(cluster=view.cluster, operation=operation, after=after)
            self.settle(self.follow(site, [entered]), 1)


class Retry(Working):
    """Continue the newest operation of a cluster after it failed or was cancelled.

    Finished steps are not repeated; a hook that failed is called again.
    """

    arguments = (CLUSTER, NO_WAIT, DEADLINE)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with self.app.open_site() as site:
            if not parsed_args.no_wait:
                site.check_hooks()
            view, after = site.clusters.show(parsed_args.cluster), site.clusters.last_event()
            operation = site.clusters.retry(view.cluster.id, timeout_s=parsed_args.timeout)
            self.app.say(f'{view.cluster.name}: {operation.kind.value} continues.')
            if not parsed_args.no_wait:
                goal = goal_of_view(site.clusters.show(view.cluster.id))
                entered = Entered(
                    cluster=view.cluster, operation=operation, goal=goal, after=after
                )
                self.settle(self.follow(site, [entered]), 1)


class Cancel(Working):
    """Cancel the running operations of a cluster; what they created stays.

    Works on them until they have stopped.
    """

    arguments = (
        CLUSTER,
        flag('--no-wait', 'Return without waiting until they have stopped.'),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with self.app.open_site() as site:
            view = site.clusters.show(parsed_args.cluster)
            name, after = view.cluster.name, site.clusters.last_event()
            stopping = site.clusters.cancel(view.cluster.id)
            kinds = ', '.join(one.kind.value for one in stopping) or 'nothing'
            self.app.say(f'{name}: {kinds} is {"being cancelled" if stopping else "running"}.')
            if stopping and not parsed_args.no_wait:
                # Cancelled operations end even for a paused cluster.
                going = dataclasses.replace(view.cluster, paused=False)
                entered = [Entered(cluster=going, operation=one, after=after) for one in stopping]
                self.follow(site, entered)
