"""Bench of the conformance kit: what the image would run on each machine."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from kiln.testing.clock import VirtualClock
from kiln.testing.clusters import Booted, MachineBench, Request, Response


class AgentBench(MachineBench):
    """Agents, each of which takes the token that its machine was given."""

    ports = frozenset({4001})
    groups = {'worker': 3}  # noqa: RUF012
    least = {'worker': 2}  # noqa: RUF012
    refused_groups = ({'worker': 0},)

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        #: By machine: the key with which it takes part.
        self._keys: dict[Booted, str] = {}
        #: The members that count for the quorum: name and token.
        self._counted: dict[str, str] = {}
        self._founded = 0
        #: By name: the time until which a member hands over what it stores.
        self._busy_until: dict[str, float] = {}

    def stop(self, machine: Booted) -> None:
        """Forget what only the machine has."""
        self._keys.pop(machine, None)

    def answer(self, machine: Booted, request: Request) -> Response:
        """Answer as the agent of a machine."""
        mine = _file(machine)
        if request.headers.get('Authorization') != f'Bearer {mine["token"]}':
            return Response(status=403)
        content = json.loads(request.body) if request.body else None
        match request.path.split('/')[1:], content:
            case ['member'], _:
                return _said(self._member(machine, mine, content))
            case ['cluster'], None:
                return _said({'members': sorted(self._counted), 'entries': 12})
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
                self._founded += 1
                self._counted = {name: mine['token']}
            case {'join': _} if self._counted.get(name) != mine['token']:
                return {'joined': False, 'left': True}
            case {'leave': True} if self.clock.monotonic() >= self._busy_until.get(name, 0.0):
                self._counted.pop(name, None)
        counted = self._counted.get(name) == mine['token']
        if counted and content and 'join' in content:
            self._keys[machine] = mine['key']
        return {'joined': counted and machine in self._keys, 'left': name not in self._counted}

    # ---- the cluster -----------------------------------------------------------------

    def members(self) -> Collection[str]:
        """Return the members that count for the quorum."""
        return self._counted

    def wrongs(self) -> Collection[str]:
        """Return how often too many the cluster was founded."""
        return [f'it was founded {self._founded} times'] if self._founded > 1 else ()

    def serve(self, name: str, seconds: float) -> None:
        """Let a member store something that takes as long to hand over."""
        self._busy_until[name] = self.clock.monotonic() + seconds

    def credentials(self) -> str:
        """Return the keys of all members."""
        return str(sorted(self._keys.values()))


def _file(machine: Booted) -> Any:
    (content,) = (one.content for one in machine.given.files if one.path == '/etc/quorum.json')
    return json.loads(content)


def _said(content: object) -> Response:
    return Response(body=json.dumps(content))
