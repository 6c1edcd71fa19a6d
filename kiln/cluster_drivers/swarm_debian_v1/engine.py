"""The dozen requests that a Docker Engine is asked, as calls with values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import TracebackType
from typing import Any
from urllib.parse import quote, urlencode

from .line import Line
from .values import EngineInfo, Peer, Role, Swarm, Task

#: To join, or to found, is answered when it is done; an engine gives up after twenty.
_JOIN_S = 15.0
_SWARM_PORT = 2377


class Engine:
    """One engine. Used by one thread, and closed by who opened it.

    :raises Silent: each call: there was no answer; a change may have been made.
    :raises Refused: each call: the engine will not, and says why.
    """

    def __init__(self, line: Line, address: str) -> None:
        self._line = line
        #: Where other engines reach it.
        self.address = address

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._line.close()

    # ---- any engine --------------------------------------------------------------

    def info(self) -> EngineInfo:
        """Return what the engine says of itself."""
        return EngineInfo.read(self._line.ask('GET', '/info'))

    def found(self, *, anew: bool = False) -> None:
        """Have the engine found a swarm.

        :param anew: go on with the one that it is in, as its only manager.
        """
        body = {**_bind(self.address), 'ForceNewCluster': anew}
        self._line.ask('POST', '/swarm/init', body, timeout_s=_JOIN_S)

    def join(self, manager: Engine, token: str) -> None:
        """Have the engine join the swarm of a manager."""
        remote = f'{_bracketed(manager.address)}:{_SWARM_PORT}'
        body = {**_bind(self.address), 'RemoteAddrs': [remote], 'JoinToken': token}
        self._line.ask('POST', '/swarm/join', body, timeout_s=_JOIN_S)

    def leave(self, *, force: bool = False) -> None:
        """Have the engine leave its swarm; with force even what it cannot leave well."""
        path = f'/swarm/leave?force={_flag(force)}'
        self._line.ask('POST', path, timeout_s=_JOIN_S)

    # ---- one that manages --------------------------------------------------------

    def swarm(self) -> Swarm:
        """Return the swarm; refused where there is no quorum."""
        return Swarm.read(self._line.ask('GET', '/swarm'))

    def rotate_token(self, swarm: Swarm, role: Role) -> None:
        """Make the token useless with which nodes of a role join.

        Refused where the swarm has changed since it was read.
        """
        query = {'version': swarm.index, f'rotate{role.name.title()}Token': 'true'}
        self._line.ask('POST', f'/swarm/update?{urlencode(query)}', swarm.spec)

    def rotate_authority(self, swarm: Swarm) -> None:
        """Begin to give the swarm, and each node in it, new certificates of its own."""
        authority = dict(swarm.spec.get('CAConfig') or {})
        authority['ForceRotate'] = authority.get('ForceRotate', 0) + 1
        spec = {**swarm.spec, 'CAConfig': authority}
        self._line.ask('POST', f'/swarm/update?version={swarm.index}', spec)

    def peers(self) -> tuple[Peer, ...]:
        """Return all nodes in the list of the swarm; refused where there is no quorum."""
        return tuple(map(Peer.read, self._line.ask('GET', '/nodes')))

    def change(self, peer: Peer, spec: Mapping[str, Any]) -> None:
        """Have another role, availability or labels; refused if it has changed since."""
        path = f'/nodes/{quote(peer.id)}/update?version={peer.index}'
        self._line.ask('POST', path, spec)

    def remove(self, peer: Peer) -> None:
        """Take a node that is no manager off the list, whether it is there or not."""
        self._line.ask('DELETE', f'/nodes/{quote(peer.id)}?force=true')

    def tasks(self, peer: Peer | None = None) -> tuple[Task, ...]:
        """Return the tasks of a node, or of all."""
        query = urlencode({'filters': json.dumps({'node': [peer.id]})}) if peer else ''
        return tuple(map(Task.read, self._line.ask('GET', f'/tasks?{query}') or ()))

    def services(self) -> tuple[Mapping[str, Any], ...]:
        """Return the services, as the engine tells them."""
        return tuple(self._line.ask('GET', '/services') or ())


def _bind(address: str) -> dict[str, Any]:
    # It takes calls at all addresses, and tells others the one that kiln knows.
    anywhere = '[::]' if ':' in address else '0.0.0.0'  # noqa: S104
    return {'ListenAddr': f'{anywhere}:{_SWARM_PORT}', 'AdvertiseAddr': _bracketed(address)}


def _bracketed(address: str) -> str:
    return f'[{address}]' if ':' in address else address


def _flag(on: bool) -> str:
    return 'true' if on else 'false'
