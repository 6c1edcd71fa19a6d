"""Reads of claims and their nodes: one list of each for all amphorae."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kiln.clock import Clock
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.ironic import claims, states
from kiln.compute_drivers.ironic.api.client import HISTORY, Services
from kiln.compute_drivers.ironic.claims import Claim
from kiln.compute_drivers.ironic.states import Condition
from kiln.compute_drivers.ironic.translate import amphora_of
from kiln.exceptions import InstanceNotFoundError, ResourceNotFoundError
from kiln.models import Amphora, State

Node = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """A claim, its node if that can be seen, and the condition of both."""

    claim: Claim
    node: Node | None
    condition: Condition

    @property
    def amphora(self) -> Amphora:
        """The amphora that they are."""
        return amphora_of(self.claim, self.node, self.condition)


class Reader:
    """Reads what Ironic has of kiln's amphorae."""

    def __init__(
        self,
        services: Services,
        clock: Clock,
        *,
        claim_s: float,
        unfinished: Callable[[Claim], None],
    ) -> None:
        """Take the time in which claims are deployed, and what finishes accepted deletes."""
        self._services = services
        self._clock = clock
        self._claim_s = claim_s
        self._unfinished = unfinished

    # ---- one -------------------------------------------------------------

    def claim(self, asked: Asked, uuid: str) -> Claim | None:
        """Return the claim of kiln with a uuid; None if it certainly does not exist."""
        looking = dataclasses.replace(asked, looking=True)
        try:
            return Claim.read(self._services.ask(looking, 'GET', f'/allocations/{uuid}'))
        except ResourceNotFoundError:
            return None

    def node(self, asked: Asked, uuid: str) -> Node | None:
        """Return all that Ironic shows of a node; None if the node cannot be seen."""
        looking = dataclasses.replace(asked, looking=True)
        try:
            found: Node = self._services.ask(looking, 'GET', f'/nodes/{uuid}')
        except ResourceNotFoundError:
            return None
        return found

    def one(self, asked: Asked) -> Seen:
        """Return the amphora that a request is about.

        :raises InstanceNotFoundError: Ironic does not have it.
        """
        assert asked.amphora_id is not None
        parts = claims.split(asked.amphora_id)
        if parts is None:
            raise asked.error(InstanceNotFoundError, 'kiln gives no ids of that form for Ironic.')
        claim = self.claim(asked, parts[0])
        seen = None if claim is None or claim.draw != parts[1] else self.seen(asked, claim)
        if seen is None:
            raise asked.error(InstanceNotFoundError, 'Ironic has no allocation of it.')
        return seen

    def seen(self, asked: Asked, claim: Claim) -> Seen | None:
        """Return a claim with its node; None if it has ended meanwhile."""
        node = None if claim.node_uuid is None else self.node(asked, claim.node_uuid)
        if node is not None and node.get('instance_uuid') != claim.uuid:
            # Its node was given back, and the claim with it, between the two answers.
            again = self.claim(asked, claim.uuid)
            if again is None or again.draw != claim.draw:
                return None
            node = None
        return self._judged(asked, claim, node)

    # ---- all -------------------------------------------------------------

    def of_owner(self, asked: Asked, owner: str) -> list[Seen]:
        """Return the amphorae of a site."""
        # First the claims: a node that was given back before the second answer is then
        # missing there, and asked for by itself.
        found = [
            claim
            for row in self._services.rows(asked, 'allocations', claims.FIELDS)
            if (claim := Claim.read(row)) is not None and claim.owner == owner
        ]
        if not found:
            return []
        rows = self._services.rows(asked, 'nodes', states.FIELDS, associated='true')
        nodes = {str(row.get('instance_uuid')): row for row in rows}
        return list(self._joined(asked, found, nodes))

    def _joined(
        self, asked: Asked, found: list[Claim], nodes: Mapping[str, Node]
    ) -> Iterator[Seen]:
        for claim in found:
            node = nodes.get(claim.uuid)
            if node is not None or claim.node_uuid is None:
                yield self._judged(asked, claim, node)
                continue
            again = self.claim(asked, claim.uuid)
            if again is None or again.draw != claim.draw:
                continue
            if (seen := self.seen(asked, again)) is not None:
                yield seen

    def _judged(self, asked: Asked, claim: Claim, node: Node | None) -> Seen:
        if claim.deleting:
            self._unfinished(claim)
        brief = None if node is None else {name: node.get(name) for name in states.FIELDS}
        condition = self._condition(claim, brief)
        if condition.state is State.ERROR and brief and states.reason_of(brief) is None:
            brief['last_error'] = self._history(asked, str(brief['uuid']))
            condition = self._condition(claim, brief)
        return Seen(claim=claim, node=brief, condition=condition)

    def _condition(self, claim: Claim, node: Node | None) -> Condition:
        now = self._clock.time() + self._services.ahead_s
        age_s = 0.0 if claim.created_at is None else now - claim.created_at
        return states.condition_of(claim, node, age_s=age_s, claim_s=self._claim_s)

    def _history(self, asked: Asked, node_uuid: str) -> str | None:
        """Return the last error in the history of a node, which its own row does not have."""
        if self._services.minor(asked) < HISTORY:
            return None
        looking = dataclasses.replace(asked, looking=True)
        query = {'detail': 'true', 'sort_dir': 'desc', 'limit': 20}
        path = f'/nodes/{node_uuid}/history'
        try:
            answer = self._services.ask(looking, 'GET', path, query=query)
        except ResourceNotFoundError:
            return None
        for event in answer.get('history') or ():
            if event.get('severity') == 'ERROR' and event.get('event'):
                return str(event['event'])
        return None
