"""Base classes of cluster commands: show the plan, confirm, submit, follow."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Container, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from kiln.cli.arguments import CLUSTER, TEXT_FORMAT, Adder, argument, flag, seconds
from kiln.cli.base import KilnCommand
from kiln.cli.cluster.following import Entered, Follower
from kiln.cli.exit_codes import ExitCode, UsageError, code_for
from kiln.cli.output.cluster_fields import operation_fields
from kiln.cli.output.operation_progress import goal_of
from kiln.cli.output.proposal_text import loss, proposal_lines
from kiln.cli.output.visible_stream import drawn_on
from kiln.clusters.exceptions import StoreError
from kiln.clusters.models import Cause, Operation, OperationState
from kiln.exceptions import KilnError

if TYPE_CHECKING:
    from kiln.cluster_service.proposals import Proposal
    from kiln.cluster_service.requests import Request
    from kiln.cluster_service.site import Site

    #: A proposal, and its operation if it was submitted.
    Planned = tuple[Proposal, Entered | None]


PLAN = flag('--plan', 'Show the plan, and stop.')
YES = flag('--yes', 'Confirm removals without a question.')
ROLLBACK = flag('--rollback', 'If the operation fails, roll the cluster back to its former state.')
HARD = flag('--hard', 'Power-cycle instead of a clean reboot.')
FORCE = flag(
    '--force', 'Remove the named nodes even if the cluster driver does not let them go now.'
)
NO_WAIT = flag('--no-wait', 'Submit the operation, and leave it to a conductor.')
DEADLINE = argument(
    '--timeout',
    type=seconds,
    metavar='SECONDS',
    help='Let the operation fail after this time (default: as set for the cluster or the site).',
)


class OperationEnded(KilnError):
    """An operation failed, was rolled back or was cancelled."""

    code = 'operation_ended'
    remedy = "'kiln why CLUSTER' explains it."

    def __init__(self, cluster: str, operation: Operation) -> None:
        text = f'{cluster}: {operation.kind.value} {operation.state.value.replace("_", " ")}'
        said = [cause.message.rstrip('.') for cause in _chain(operation.cause)]
        # The outermost cause is kiln's own message, the innermost that of the provider.
        super().__init__(': '.join([text, *dict.fromkeys((*said[:1], *said[-1:]))]))
        self.operation = operation

    @property
    def exit_code(self) -> ExitCode:
        """The exit status of the cause nearest to the provider."""
        if self.operation.state is OperationState.CANCELLED:
            return ExitCode.INTERRUPTED
        found = ExitCode.UNFORESEEN
        for cause in _chain(self.operation.cause):
            silent = cause.code in ('deadline', 'engine_unknown')
            found = ExitCode.UNAVAILABLE if silent else code_for(cause.code, found)
        return found


def _chain(cause: Cause | None) -> Iterator[Cause]:
    while cause is not None:
        yield cause
        cause = cause.because


class Working(KilnCommand):
    """A command that works on clusters and shows the progress."""

    def follow(
        self, site: Site, entered: Sequence[Entered], *, silent: bool = False
    ) -> list[KilnError]:
        """Work on operations and show them until they have ended; return the failures."""
        from kiln.cli.output.screens import screen

        entered = self._unpaused(entered)
        if not entered:
            return []
        self.app.say_what_ends()
        try:
            with (
                self.app.delays.muted(),
                site.conducting() as conductor,
                screen(self.app.stdout, silent=silent) as shown,
            ):
                follower = Follower(site.clusters, self.app.clock, shown)
                ended = follower.follow(entered, check=conductor.check)
        except (KeyboardInterrupt, StoreError):
            for name in (one.cluster.name for one in entered):
                self._say_submitted(name)
            raise
        return [
            OperationEnded(one.cluster.name, operation)
            for one, operation in zip(entered, ended, strict=True)
            if operation.state is not OperationState.SUCCEEDED
        ]

    def _unpaused(self, entered: Sequence[Entered]) -> list[Entered]:
        """Return what is worked on now, and say what waits."""
        for one in entered:
            name = one.cluster.name
            if one.cluster.paused:
                self.app.say(
                    f"{name} is paused, so its {one.operation.kind.value} waits for 'kiln "
                    f"cluster resume {name}'."
                )
        return [one for one in entered if not one.cluster.paused]

    def _say_submitted(self, name: str) -> None:
        self.app.say(
            f'{name}: the operation is submitted, and a conductor continues it, now or as soon '
            f"as one runs. 'kiln cluster watch {name}' continues it here, 'kiln cluster cancel "
            f"{name}' stops it."
        )


class Changing(Working):
    """A command that shows its plan, and carries out that plan once it is confirmed.

    It then works on the operation and follows it to the end. With --no-wait it only
    submits the operation, for a conductor or for 'kiln cluster watch'.
    """

    #: True if the command changes the desired state, which can then be rolled back.
    goes_back = False

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the arguments of all these commands after those of each."""
        parser = super().get_parser(prog_name)
        adders = (PLAN, YES, NO_WAIT, DEADLINE, ROLLBACK, TEXT_FORMAT)
        for add in adders:
            if add is not ROLLBACK or self.goes_back:
                add(parser)
        return parser

    def change(self, site: Site, proposals: Sequence[Proposal], args: argparse.Namespace) -> None:
        """Show proposals, confirm and submit them, and follow them to the end.

        All proposals are shown before the first is submitted.
        """
        if args.formatter == 'text':
            self.show(proposals)
        if args.plan:
            self.report(site, [(one, None) for one in proposals], args)
            return
        self.agree(site, [one for one in proposals if not one.empty], args)
        if not args.no_wait:
            # Do not submit an operation that this process could not work on.
            site.check_hooks()
        entered, errors = self.enter(site, proposals, args)
        if args.no_wait:
            for one in self._unpaused(list(entered.values())):
                self._say_submitted(one.cluster.name)
        else:
            errors += self.follow(site, list(entered.values()), silent=args.formatter == 'json')
        self.report(site, [(one, entered.get(one.cluster.id)) for one in proposals], args)
        if errors:
            self.settle(errors, len(proposals))

    def show(self, proposals: Sequence[Proposal]) -> None:
        """Print the plans."""
        out = drawn_on(self.app.stdout)
        for proposal in proposals:
            for line in proposal_lines(proposal, colours=out.isatty()):
                out.write(f'{line}\n')
            out.write('\n')
        out.flush()

    def agree(self, site: Site, proposals: Sequence[Proposal], args: argparse.Namespace) -> None:
        """Return if the user confirms the removals, or nothing is removed.

        :raises UsageError: the removals are not confirmed.
        :raises ClusterBusy: an operation is under way; what it has half done is in the plan.
        """
        lost = [(one, said) for one in proposals if (said := loss(one))]
        if lost and not args.yes:
            for one, _ in lost:
                site.clusters.refuse_busy(one)
            self.ask('; '.join(said for _, said in lost), 'Continue? [y/N]', {'y', 'yes'})

    def ask(self, said: str, question: str, agreed: Container[str]) -> None:
        """Return if the user at the terminal confirms.

        :raises UsageError: the user does not confirm, or the command has no terminal.
        """
        if not (self.app.stdin.isatty() and self.app.stderr.isatty()):
            raise UsageError(
                f'Cannot continue without confirmation: {said}. Add --yes to confirm.'
            )
        self.app.stderr.write(f'{said}. {question} ')
        self.app.stderr.flush()
        if self.app.stdin.readline().strip().casefold() not in agreed:
            raise UsageError('Nothing was done: not confirmed. --plan shows the plan.')

    def enter(
        self, site: Site, proposals: Sequence[Proposal], args: argparse.Namespace
    ) -> tuple[dict[str, Entered], list[KilnError]]:
        """Submit the operations; return them by cluster id, and the errors."""
        entered: dict[str, Entered] = {}
        errors: list[KilnError] = []
        for proposal in proposals:
            if proposal.empty:
                continue
            after = site.clusters.last_event()
            try:
                operation = site.clusters.apply(
                    proposal, timeout_s=args.timeout, rollback=getattr(args, 'rollback', False)
                )
            # The operations that are submitted already continue.
            except KilnError as exc:
                errors.append(exc)
                continue
            entered[proposal.cluster.id] = Entered(
                cluster=proposal.cluster,
                operation=operation,
                goal=goal_of(proposal),
                after=after,
            )
        return entered, errors

    def report(self, site: Site, planned: Sequence[Planned], args: argparse.Namespace) -> None:
        """Print the plans and their operations as JSON, and set the exit status."""
        if getattr(args, 'detailed_exitcode', False) and not all(one.empty for one, _ in planned):
            self.status = ExitCode.CHANGES
        if args.formatter != 'json':
            return
        data = []
        for proposal, one in planned:
            operation = one and operation_fields(
                site.clusters.operation(one.operation.id), one.cluster.name
            )
            data.append(
                {'plan': proposal.to_dict(), 'operation': operation, **self.added(site, proposal)}
            )
        self.write(json.dumps(data, indent=2))

    def added(self, site: Site, proposal: Proposal) -> dict[str, Any]:
        """Return what a command adds to the JSON of a proposal."""
        return {}


class ChangingCluster(Changing):
    """A command that makes one request for one cluster."""

    arguments: ClassVar[Sequence[Adder]] = (CLUSTER,)
    #: The request; arguments of the command fill the fields of the same name.
    requested: ClassVar[type[Request]]

    def request(self, args: argparse.Namespace) -> Request:
        """Return the request that the arguments describe."""
        given: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in vars(args).items()
        }
        names = {one.name for one in dataclasses.fields(self.requested)}
        return self.requested(**{name: given[name] for name in names & given.keys()})

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        request = self.request(parsed_args)
        with self.app.open_site() as site:
            self.change(site, [site.clusters.plan(request)], parsed_args)
