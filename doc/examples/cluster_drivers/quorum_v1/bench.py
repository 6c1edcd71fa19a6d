"""Bench of the conformance kit: what the image would run on each machine."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kiln.clusters.models import Node, NodeState
from kiln.testing.clock import VirtualClock
from kiln.testing.clusters import Booted, MachineBench, Request, Response

#: Seconds that a member takes to join.
JOINS_S = 3.0


class AgentBench(MachineBench):
    """Agents, each of which takes the token that its machine was given."""

    ports = frozenset({4001})
    groups = {'worker': 3}  # noqa: RUF012
    least = {'worker': lambda count: count // 2 + 1}  # noqa: RUF012
    refused_groups = ({'worker': 0},)
    refused = ({'port': 1023}, {'port': 65_536})
    accepted = ({'port': 1024}, {'port': 65_535})

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        #: By machine: the key with which it takes part, and the time from which it does.
        self._keys: dict[Booted, str] = {}
        self._since: dict[Booted, float] = {}
        #: The members that count for the quorum: name and token.
        self._counted: dict[str, str] = {}
        self._founded = 0
        #: Machines that were to lead others before they were members themselves.
        self._early: list[str] = []
        #: By name: the time until which a member hands over what it stores.
        self._busy_until: dict[str, float] = {}

    def stop(self, machine: Booted) -> None:
        """Forget what only the machine has."""
        self._keys.pop(machine, None)
        self._since.pop(machine, None)

    def answer(self, machine: Booted, request: Request) -> Response:
        """Answer as the agent of a machine."""
        mine = _file(machine)
        if request.port != mine.get('port'):
            return Response(status=404)
        if request.headers.get('Authorization') != f'Bearer {mine["token"]}':
            return Response(status=403)
        content = json.loads(request.body) if request.body else None
        match request.path.split('/')[1:], content:
            case ['member'], _:
                return _said(self._member(machine, mine, content))
            case ['cluster'], None:
                return _said({'members': sorted(self._counted), 'entries': 12})
            case ['members', _], _ if not self._joined(machine):
                self._early.append(f'{mine["member"]} was to lead before it was a member')
                return Response(status=409)
            case ['members', other], {'token': token}:
                self._counted[other] = token
            case ['members'], list(names):
                self._counted = {one: self._counted[one] for one in names if one in self._counted}
            case ['key'], str(key):
                self._keys[machine] = key
            case _:
                return Response(status=404)
        return _said({})

    def _member(self, machine: Booted, mine: Any, content: Any) -> Any:
        name = mine['member']
        match content:
            case {'join': None}:
                alone = {name: mine['token']}
                # A founder is asked again until it has joined.
                self._founded += self._counted != alone
                self._counted = alone
            case {'join': _} if self._counted.get(name) != mine['token']:
                return {'joined': False, 'left': True}
            case {'leave': True} if self.clock.monotonic() >= self._busy_until.get(name, 0.0):
                self._counted.pop(name, None)
        counted = self._counted.get(name) == mine['token']
        if counted and content and 'join' in content:
            self._keys[machine] = mine['key']
            self._since.setdefault(machine, self.clock.monotonic() + JOINS_S)
        return {'joined': counted and self._joined(machine), 'left': name not in self._counted}

    def _joined(self, machine: Booted) -> bool:
        return self._since.get(machine, math.inf) <= self.clock.monotonic()

    # ---- what the author expects -----------------------------------------------------

    @staticmethod
    def expected_outputs(nodes: Sequence[Node]) -> Mapping[str, Any]:
        """Return the addresses of the members at work, and the size of a majority."""
        ready = [node for node in nodes if node.state is NodeState.READY]
        members = [f'http://{node.host}:4001/' for node in ready]
        return {'members': members, 'majority': len(nodes) // 2 + 1}

    # ---- the cluster -----------------------------------------------------------------

    def members(self) -> Collection[str]:
        """Return the members that count for the quorum, unless they still have to join."""
        joining = {one.node.name for one in self._since if not self._joined(one)}
        return self._counted.keys() - joining

    def wrongs(self) -> Collection[str]:
        """Return how often too many the cluster was founded, and members that led too early."""
        often = [f'it was founded {self._founded} times'] if self._founded > 1 else []
        return [*often, *self._early]

    def serve(self, name: str, seconds: float) -> None:
        """Let a member store something that takes as long to hand over."""
        self._busy_until[name] = self.clock.monotonic() + seconds

    def credentials(self) -> Mapping[str, str]:
        """Return the key of each member."""
        return {machine.node.name: key for machine, key in self._keys.items()}


def _file(machine: Booted) -> Any:
    (content,) = (one.content for one in machine.given.files if one.path == '/etc/quorum.json')
    return json.loads(content)


def _said(content: object) -> Response:
    return Response(body=json.dumps(content))
