"""Commands about hooks: what is called before and after what clusters do."""

from __future__ import annotations

import argparse
import getpass
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kiln.cli.base import KilnCommand, KilnLister, KilnShow, Rows, argument, read_file
from kiln.cli.exit_codes import ExitCode, UsageError
from kiln.cli.stores import configured_hooks, configured_store
from kiln.cli.views import cells, fields
from kiln.cluster_exceptions import HookNotFound, InvalidHooks

if TYPE_CHECKING:
    from kiln.cluster_models import Cluster


HOOK = argument('name', metavar='NAME', help='Name of the hook, or POINT/NAME.')


class List(KilnLister):
    """Show all hooks in the order in which they are called, and what happens if they fail.

    The exit status is 2 where one of them cannot be used; then none is.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        from kiln.hooks.hook import in_order
        from kiln.hooks.points import Point

        hooks = tuple(configured_hooks(self.app.settings, self.app.clock))
        columns = (
            'point', 'order', 'name', 'target', 'on_failure', 'on_deadline', 'timeout', 'deadline',
            'only_for', 'origin',
        )  # fmt: skip
        return columns, [
            cells(
                [
                    hook.point.value,
                    hook.order,
                    hook.name,
                    str(hook.target),
                    hook.at_failure.value,
                    hook.at_deadline.value,
                    f'{hook.timeout_s:g} s',
                    f'{hook.deadline_s:g} s',
                    [*hook.clusters, *hook.drivers, *hook.kinds],
                    hook.origin,
                ]
            )
            for point in Point
            for hook in in_order(hooks, point)
        ]


class Skip(KilnCommand):
    """Have an operation pass over a hook that holds it up; who did so, and why, is kept.

    Returns at once; the engine goes on when it next looks.
    """

    arguments = (
        argument('operation', metavar='OPERATION', help='Id of the operation.'),
        HOOK,
        argument('--reason', required=True, help='Why; for those who look at it later.'),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        name, reason = parsed_args.name, parsed_args.reason
        if not reason.strip():
            raise UsageError('Cannot pass over a hook without a reason: write one.')
        try:
            hooks = tuple(configured_hooks(self.app.settings, self.app.clock))
        except InvalidHooks as exc:
            # A mistake in the hooks of this host must not keep anybody from helping.
            self.app.complain(exc)
            hooks = ()
        with configured_store(self.app.settings, self.app.clock) as store:
            from kiln.hooks.skipping import skip_event

            operation = store.operations.get(parsed_args.operation)
            steps = store.journal.of(operation.id)
            event = skip_event(operation, steps, hooks, name=name, reason=reason, by=_user())
            store.events.add(event)
        self.app.say(f'{operation.kind.value} {operation.id} passes over hook {name}.')


class Test(KilnShow):
    """Call one hook by itself, with a document as it could come, and show its answer.

    The exit status is 0 where it succeeded, 6 where it wants to be called later, and
    1 where it failed.
    """

    arguments = (
        HOOK,
        argument(
            '--cluster',
            required=True,
            metavar='FILE|NAME',
            help='A file that declares a cluster, or the name of one that is there.',
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        from kiln.hooks.answers import Reply
        from kiln.hooks.loading import find_hooks
        from kiln.hooks.sample import sample

        hooks = configured_hooks(self.app.settings, self.app.clock)
        found = find_hooks(hooks, parsed_args.name)
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
                'leads_to': _leads_to(answer.reply is Reply.FAILED, call.hook.at_failure.value),
            }
        )

    def _cluster(self, word: str) -> Cluster:
        if not Path(word).is_file():
            with configured_store(self.app.settings, self.app.clock) as store:
                return store.clusters.get(word)
        from kiln.cluster_file.reading import read
        from kiln.cluster_file.yaml_reader import MAX_BYTES
        from kiln.hooks.sample import sample_cluster

        declared = read(read_file(word, MAX_BYTES), word).clusters
        if not declared:
            raise UsageError(f'Cannot use {word}: it declares no cluster.')
        return sample_cluster(declared[0])


def _none_or_many(name: str, there: Sequence[str]) -> str:
    if any(one.endswith(f'/{name}') for one in there):
        return f'Cannot tell which hook {name!r} is: choose from {", ".join(there)}.'
    return f'Cannot find a hook {name!r}. There are: {", ".join(there) or "none"}.'


def _leads_to(failed: bool, on_failure: str) -> str:
    return on_failure if failed else ''


def _user() -> str:
    try:
        return getpass.getuser()
    # In a container its number may be all there is of a user.
    except (KeyError, OSError):
        return str(os.getuid())
