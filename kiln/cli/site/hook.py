"""Commands that list, skip and test the hooks of cluster operations."""

from __future__ import annotations

import argparse
import getpass
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kiln.cli.arguments import argument
from kiln.cli.base import KilnCommand, KilnLister, KilnShow, Rows
from kiln.cli.cluster.cluster_file import read_page
from kiln.cli.exit_codes import ExitCode, UsageError
from kiln.cli.output.views import cells, fields
from kiln.cli.site.stores import configured_hooks, configured_store
from kiln.clusters.exceptions import HookNotFound, InvalidHooks

if TYPE_CHECKING:
    from kiln.clusters.models import Cluster
    from kiln.hooks.hook import Hook

HOOK = argument('name', metavar='NAME', help='Name of the hook, or POINT/NAME.')
_COLUMNS: Mapping[str, Callable[[Hook], Any]] = {
    'point': lambda hook: hook.point.value,
    'order': lambda hook: hook.order,
    'name': lambda hook: hook.name,
    'target': lambda hook: str(hook.target),
    'on_failure': lambda hook: hook.at_failure.value,
    'on_deadline': lambda hook: hook.at_deadline.value,
    'timeout': lambda hook: f'{hook.timeout_s:g} s',
    'deadline': lambda hook: f'{hook.deadline_s:g} s',
    'only_for': lambda hook: [*hook.clusters, *hook.drivers, *hook.kinds],
    'origin': lambda hook: hook.origin,
}


class List(KilnLister):
    """List all hooks in call order, and what happens if they fail.

    The exit status is 2 if one of them cannot be used; then none of them is used.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        from kiln.hooks.hook import in_order
        from kiln.hooks.points import Point

        hooks = tuple(configured_hooks(self.app.settings, self.app.clock))
        return tuple(_COLUMNS), [
            cells([read(hook) for read in _COLUMNS.values()])
            for point in Point
            for hook in in_order(hooks, point)
        ]


class Skip(KilnCommand):
    """Skip a hook that holds an operation up; your name and reason are recorded.

    Returns at once; the engine continues at its next poll.
    """

    arguments = (
        argument('operation', metavar='OPERATION', help='Id of the operation.'),
        HOOK,
        argument('--reason', required=True, help='Reason, kept in the events of the cluster.'),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        name, reason = parsed_args.name, parsed_args.reason
        if not reason.strip():
            raise UsageError('Cannot skip a hook without a reason: write one.')
        try:
            hooks = tuple(configured_hooks(self.app.settings, self.app.clock))
        except InvalidHooks as exc:
            # A mistake in the hooks of this host must not prevent the skip.
            self.app.complain(exc)
            hooks = ()
        with configured_store(self.app.settings, self.app.clock, self.app.say) as store:
            from kiln.hooks.skips import skip_event

            operation = store.operations.get(parsed_args.operation)
            steps = store.journal.of(operation.id)
            event = skip_event(operation, steps, hooks, name=name, reason=reason, by=_user())
            store.events.add(event)
        self.app.say(f'{operation.kind.value} {operation.id} skips hook {name}.')


class Test(KilnShow):
    """Call one hook with a sample document, and show its answer.

    The exit status is 0 if the hook succeeded, 6 if it asks for a later call, and 1 if
    it failed.
    """

    arguments = (
        HOOK,
        argument(
            '--cluster',
            required=True,
            metavar='FILE|NAME',
            help='A cluster file, or the name of an existing cluster.',
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        from kiln.hooks.replies import Reply
        from kiln.hooks.sample import sample

        hooks = configured_hooks(self.app.settings, self.app.clock)
        found = [hook for hook in hooks if hook.is_named(parsed_args.name)]
        if len(found) != 1:
            raise HookNotFound(_none_or_many(parsed_args.name, [*map(str, found or hooks)]))
        cluster = self._cluster(parsed_args.cluster)
        site = self.app.settings.compute.owner
        call, occasion = sample(found[0], cluster, site=site, now=self.app.clock.time())
        begun = self.app.clock.monotonic()
        answer = hooks.call(call, occasion.document())
        took_s = self.app.clock.monotonic() - begun
        self.status = {
            Reply.OK: ExitCode.OK,
            Reply.LATER: ExitCode.UNAVAILABLE,
            Reply.FAILED: ExitCode.UNFORESEEN,
        }[answer.reply]
        return fields(
            {
                'hook': str(call.hook),
                'target': str(call.hook.target),
                'answer': answer.reply.value,
                'message': answer.message,
                'again_after': answer.after_s,
                'took': f'{took_s:.2f} s',
                'leads_to': call.hook.at_failure.value if answer.reply is Reply.FAILED else '',
            }
        )

    def _cluster(self, word: str) -> Cluster:
        if not Path(word).is_file():
            with configured_store(self.app.settings, self.app.clock, self.app.say) as store:
                return store.clusters.get(word)
        from kiln.hooks.sample import sample_cluster

        declared = read_page(word, self.app.stdin).clusters
        if not declared:
            raise UsageError(f'Cannot use {word}: it declares no cluster.')
        return sample_cluster(declared[0])


def _none_or_many(name: str, there: Sequence[str]) -> str:
    if any(one.endswith(f'/{name}') for one in there):
        return f'Cannot use hook {name!r}, which is ambiguous: choose from {", ".join(there)}.'
    return f'Cannot find a hook {name!r}. Existing hooks: {", ".join(there) or "none"}.'


def _user() -> str:
    try:
        return getpass.getuser()
    # In a container a user can have a number but no name.
    except (KeyError, OSError):
        return str(os.getuid())
