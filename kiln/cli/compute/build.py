"""The command ``kiln compute build``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kiln.cli.arguments import TIMEOUT, argument, pair, read_file, repeated, whole
from kiln.cli.base import KilnLister, Rows
from kiln.cli.compute.calls import attempt, gather
from kiln.cli.exit_codes import UsageError
from kiln.cli.output.fleet_progress import Tally, tally
from kiln.cli.output.views import cells
from kiln.compute.goals import Until
from kiln.exceptions import AmphoraComputeError, InvalidRequest
from kiln.models import AmphoraType, ComputeStatus
from kiln.wrappers.operations.operation import Operation, Priority
from kiln.wrappers.watcher.probe import parse_probe

if TYPE_CHECKING:
    from kiln.cli.compute.calls import Started
    from kiln.compute.facade import Compute
    from kiln.models import Limits

#: Seconds for which the command keeps running to clean up after a failed build.
_CLEANUP_S = 30.0
_TYPES = [kind.value for kind in AmphoraType]


def _add_waiting(parser: argparse._ActionsContainer) -> None:
    waiting = parser.add_mutually_exclusive_group()
    waiting.add_argument(
        '--until',
        choices=[goal.value for goal in Until],
        help='State to wait for (default: accepted, or ready with --probe). An amphora that '
        'does not reach it is removed.',
    )
    waiting.add_argument('--wait', action='store_true', help='The same as --until active.')
    parser.add_argument(
        '--probe',
        metavar='PROBE',
        help='Probe that decides when an amphora is ready: tcp:22, http:8080/health or '
        'https:8443.',
    )


class Build(KilnLister):
    """Build one amphora, or a fleet of identical ones.

    Repeat a failed build with the same --build-key: kiln adopts what exists by now
    and builds nothing twice.
    """

    # The arguments of the compute contract, and how long to wait.
    arguments = (
        argument(
            '--name', help='Name; with --count, NAME-1 and so on (default: from the build key).'
        ),
        argument(
            '--build-key',
            metavar='KEY',
            help='Your own key for this build; use a new one for each new build.',
        ),
        argument('--type', choices=_TYPES, default='vm', help='Kind of machine (default: vm).'),
        argument('--flavor', help='Name of the flavor.'),
        argument('--image', metavar='ID', help='Id of the image.'),
        repeated('--key', 'KEY', 'SSH key; can be repeated.'),
        repeated('--sec-group', 'GROUP', 'Security group; can be repeated.'),
        repeated('--network', 'NETWORK', 'Name or id of a network; can be repeated.'),
        repeated('--port', 'ID', 'Id of a port; can be repeated.'),
        argument('--zone', help='Availability zone.'),
        argument('--server-group', metavar='ID', help='Id of the server group.'),
        repeated(
            '--file',
            'PATH=LOCALFILE[:MODE[:OWNER]]',
            'Write a file at the first boot, such as /etc/app.key=app.key:0600:app; '
            'can be repeated.',
        ),
        argument('--user-data', metavar='FILE', help='File with the user data.'),
        repeated(
            '--metadata',
            'KEY=VALUE',
            'Metadata of the amphora, not for secrets; can be repeated.',
            type=pair,
        ),
        argument(
            '--count',
            type=whole,
            default=1,
            metavar='N',
            help='Number of amphorae to build (default: 1).',
        ),
        argument(
            '--priority',
            choices=[one.name.lower() for one in Priority],
            default='normal',
            help='Place in the queue while other builds wait (default: normal).',
        ),
        _add_waiting,
        TIMEOUT,
    )

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        wanted = _names_and_keys(parsed_args)
        goal = _goal(parsed_args)
        self.app.say_what_ends()
        with (
            self.app.open_backend(wait_s=_CLEANUP_S) as compute,
            tally(self.app, len(wanted), parsed_args.formatter) as progress,
        ):
            arguments = _arguments(parsed_args, compute.capabilities().limits)
            operations = {
                label: _start(compute, label, arguments | named, progress)
                for label, named in wanted.items()
            }
            try:
                results = gather(operations)
                # A result can arrive before its callback has run.
                for name, result in results.items():
                    progress.end(name, _end(result, goal))
            except KeyboardInterrupt:
                built = sum(_built(operation) for operation in operations.values())
                self.app.say(
                    f'{built} of {len(wanted)} were built; the rest is removed, which takes '
                    f'{_CLEANUP_S:.0f} s at most. A second Ctrl-C leaves it as it is, for '
                    "'kiln compute list' and 'kiln compute delete'."
                )
                raise
        errors = [one for one in results.values() if isinstance(one, AmphoraComputeError)]
        self.settle(errors, len(wanted))
        return ('id', 'name', 'build_key', 'result', 'error'), [
            _row(label, operations[label], result, goal) for label, result in results.items()
        ]


def _names_and_keys(args: argparse.Namespace) -> dict[str, dict[str, str | None]]:
    # Without a key, kiln draws one for each build. It can then remove the result in any
    # state, because no other caller knows the key.
    name, key = args.name, args.build_key
    label = name or (f'amphora-{key}' if key else 'amphora')
    if args.count == 1:
        return {label: {'name': name, 'build_key': key}}
    if args.port:
        raise UsageError('Cannot build several with --port: a port belongs to one machine only.')
    return {
        f'{label}-{n}': {
            'name': name and f'{name}-{n}',
            'build_key': key and f'{key}-{n}',
        }
        for n in range(1, args.count + 1)
    }


def _goal(args: argparse.Namespace) -> Until:
    if args.wait:
        args.until = Until.ACTIVE.value
    return Until(args.until or (Until.READY if args.probe else Until.ACCEPTED))


def _arguments(args: argparse.Namespace, limits: Limits) -> dict[str, Any]:
    user_data = args.user_data and read_file(args.user_data, limits.max_user_data_bytes)
    return {
        'amphora_type': args.type,
        'amphora_flavor': args.flavor,
        'image_id': args.image,
        'keys': args.key or None,
        'sec_groups': args.sec_group or None,
        'network_ids': args.network or None,
        'port_ids': args.port or None,
        'config_drive_files': dict(_file(text, limits.max_file_bytes) for text in args.file),
        'user_data': user_data,
        'availability_zone': args.zone,
        'server_group_id': args.server_group,
        'metadata': dict(args.metadata),
        'timeout': args.timeout,
        'until': _goal(args),
        'probe': parse_probe(args.probe) if args.probe else None,
        'priority': Priority[args.priority.upper()],
    }


def _file(text: str, max_bytes: int) -> tuple[str, Any]:
    """Return the path and the content of ``PATH=LOCALFILE[:MODE[:OWNER]]``."""
    path, sign, rest = text.partition('=')
    if not sign or not rest:
        raise UsageError(
            f'Cannot read --file {text!r}: write it as PATH=LOCALFILE[:MODE[:OWNER]].'
        )
    local, *more = rest.split(':')
    if len(more) > 2:
        raise UsageError(f'Cannot read --file {text!r}: it has more than a mode and an owner.')
    mode, owner = [*more, '0644', 'root'][:2] if len(more) != 1 else [more[0], 'root']
    try:
        bits = int(mode, 8)
    except ValueError:
        raise UsageError(
            f'Cannot read --file {text!r}: mode {mode!r} is not octal; write it like 0600.'
        ) from None
    return path, (read_file(local, max_bytes), bits, owner)


def _start(
    compute: Compute, label: str, arguments: Mapping[str, Any], progress: Tally
) -> Started[str]:
    def seen(status: ComputeStatus) -> None:
        progress.set(label, status.state.value)

    progress.set(label, 'queued')
    started = attempt(compute.build, on_status=seen, **arguments)
    if isinstance(started, InvalidRequest):
        # A request that is invalid for one amphora is invalid for all.
        raise started
    if isinstance(started, Operation):
        goal = arguments['until']
        started.add_done_callback(lambda one: progress.end(label, _end(one.exception(), goal)))
    return started


def _end(result: str | BaseException | None, goal: Until) -> str:
    return 'failed' if isinstance(result, BaseException) else goal.value


def _built(started: Started[str]) -> bool:
    return isinstance(started, Operation) and started.done() and started.exception() is None


def _row(
    label: str, started: Started[str], result: str | AmphoraComputeError, goal: Until
) -> Sequence[Any]:
    name = started.subject if isinstance(started, Operation) else label
    if isinstance(result, AmphoraComputeError):
        return cells([result.amphora_id, name, result.build_key, 'failed', result.code])
    return cells([result, name, started.build_key, goal.value, None])
