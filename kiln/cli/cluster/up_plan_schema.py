"""Commands on cluster files: up, plan, schema."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kiln.cli.arguments import argument, flag
from kiln.cli.base import KilnCommand
from kiln.cli.cluster.base import Changing
from kiln.cli.cluster.cluster_file import read_page
from kiln.cli.cluster.following import Entered
from kiln.cli.exit_codes import UsageError
from kiln.cli.output.cluster_fields import output_lines
from kiln.cli.site.stores import clusters_extra
from kiln.clusters.exceptions import ClusterNotFound, InvalidCluster
from kiln.clusters.models import OperationKind, OperationState
from kiln.exceptions import KilnError

if TYPE_CHECKING:
    from kiln.cli.cluster.base import Planned
    from kiln.cluster_file.reading import ClusterFile, Document
    from kiln.cluster_service.proposals import Proposal
    from kiln.cluster_service.requests import Declare
    from kiln.cluster_service.site import Site
    from kiln.clusters.exceptions import Problem
    from kiln.clusters.spec import ClusterTemplate


class Declaring(Changing):
    """A command that makes clusters as a file declares them, and shows their outputs."""

    #: The templates of the file.
    templates: Sequence[ClusterTemplate] = ()

    def enter(
        self, site: Site, proposals: Sequence[Proposal], args: argparse.Namespace
    ) -> tuple[dict[str, Entered], list[KilnError]]:
        """Save the templates, and join running operations with the same desired state."""
        for template in self.templates:
            site.clusters.templates.save(template)
        joined: dict[str, Entered] = {}
        for proposal in proposals:
            if (one := _under_way(site, proposal)) is not None:
                self.app.say(
                    f'{one.cluster.name}: {one.operation.kind.value} to the declared state is '
                    f'running already.'
                )
                joined[proposal.cluster.id] = one
        others = [one for one in proposals if one.cluster.id not in joined]
        entered, errors = super().enter(site, others, args)
        return {**joined, **entered}, errors

    def report(self, site: Site, planned: Sequence[Planned], args: argparse.Namespace) -> None:
        """Print the outputs of the clusters that are as declared, or everything as JSON."""
        super().report(site, planned, args)
        if args.plan or args.no_wait or args.formatter != 'text':
            return
        for proposal, one in planned:
            state = one and site.clusters.operation(one.operation.id).state
            if state is OperationState.SUCCEEDED or proposal.empty:
                for line in output_lines(_outputs(site, proposal)):
                    self.write(f'{proposal.cluster.name}: {line}')

    def added(self, site: Site, proposal: Proposal) -> dict[str, Any]:
        return {'outputs': dict(_outputs(site, proposal))}


class Up(Declaring):
    """Create or change clusters to match a file.

    Shows the plan, submits it and follows it to the end. Safe to repeat: clusters that
    match are left alone, and running operations are continued. Saves the templates of
    the file. At the end it prints the outputs of the clusters that are as declared.
    """

    goes_back = True

    arguments = (
        argument('file', metavar='FILE', help='YAML file, or - for standard input.'),
        flag(
            '--detailed-exitcode',
            'With --plan: exit with 10 if something would change, else with 0.',
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        if parsed_args.detailed_exitcode and not parsed_args.plan:
            raise UsageError('Cannot use --detailed-exitcode without --plan: add --plan.')
        file = read_page(parsed_args.file, self.app.stdin)
        with self.app.open_site() as site:
            proposals = planned(site, file)
            self.templates = file.templates
            self.change(site, proposals, parsed_args)


class Plan(Up):
    """Show what 'kiln up' would change, and stop."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.set_defaults(plan=True)
        return parser


class Schema(KilnCommand):
    """Print the JSON schema of cluster files, for editors."""

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with clusters_extra():
            from kiln.cluster_file.fields import json_schema
        self.write(json.dumps(json_schema(), indent=2))


def _outputs(site: Site, proposal: Proposal) -> Mapping[str, Any]:
    """Return the outputs of a cluster; none if it does not exist."""
    try:
        return site.clusters.show(proposal.cluster.id).cluster.outputs
    except ClusterNotFound:
        return {}


def planned(site: Site, file: ClusterFile, request: Declare | None = None) -> list[Proposal]:
    """Return a proposal for each cluster, or raise all problems of all clusters.

    :param request: what is requested for the only cluster of the file, if not to declare it.
    """
    from kiln.cluster_service.requests import Declare
    from kiln.clusters.spec import ClusterSpec

    proposals, problems = [], []
    for document in file.documents:
        if not isinstance(document.value, ClusterSpec):
            continue
        try:
            declared = Declare(spec=document.value, templates=file.templates)
            proposals.append(site.clusters.plan(request or declared))
        except InvalidCluster as exc:
            problems += [_located(document, problem) for problem in exc.problems]
    if problems:
        raise InvalidCluster(problems)
    return proposals


def _under_way(site: Site, proposal: Proposal) -> Entered | None:
    """Return the running operation that leads to the declared state, if any."""
    before = proposal.before
    declared = proposal.cluster
    if before is None or (before.spec, before.pin) != (declared.spec, declared.pin):
        return None
    view = site.clusters.show(before.id)
    operation = view.operation
    if operation is None or operation.state.ended or operation.cancelled:
        return None
    # A deletion that was entered since the plan was made leads elsewhere.
    if operation.kind is OperationKind.DELETE:
        return None
    return Entered(cluster=before, operation=operation, after=site.clusters.last_event())


def _located(document: Document, problem: Problem) -> Problem:
    return problem if problem.line else document.located(problem)
