"""How a node is known to do its work: rules that a driver picks from, or adds to."""

from __future__ import annotations

import dataclasses
import http.client
import re
import socket
from typing import Protocol

from kiln.clock import current_deadline
from kiln.cluster_drivers.values import READY, Context, Readiness
from kiln.clusters.models import Node

#: A look takes no longer, so that a dead node does not hold up the others.
LOOK_S = 2.0


class ReadyRule(Protocol):
    """A rule; asked again and again once the machine runs, from any thread."""

    def __call__(self, context: Context, node: Node) -> Readiness:
        """Return whether a node is ready, after one look."""


@dataclasses.dataclass(frozen=True, slots=True)
class WhenActive:
    """A node whose machine runs is ready."""

    def __call__(self, context: Context, node: Node) -> Readiness:
        """Return that it is: only nodes whose machines run are asked about."""
        return READY


@dataclasses.dataclass(frozen=True, slots=True)
class WhenConsole:
    """A node is ready once its console log says so."""

    pattern: re.Pattern[str]

    def __call__(self, context: Context, node: Node) -> Readiness:
        """Return whether the pattern is anywhere in the log.

        :raises KilnError: the log cannot be read now.
        """
        if self.pattern.search(context.console(node)):
            return READY
        return Readiness.not_yet(f'its console does not say {self.pattern.pattern!r} yet')


@dataclasses.dataclass(frozen=True, slots=True)
class WhenTcp:
    """A node is ready once it takes connections at a port."""

    port: int

    def __call__(self, context: Context, node: Node) -> Readiness:
        """Return whether it does."""
        if not node.address:
            return Readiness.not_yet('it has no address yet')
        try:
            with socket.create_connection((node.address, self.port), timeout=_look_s()):
                return READY
        except OSError as exc:
            return Readiness.not_yet(f'port {self.port} takes no connection: {exc}')


@dataclasses.dataclass(frozen=True, slots=True)
class WhenHttp:
    """A node is ready once it answers a GET with a status from 200 to 399."""

    port: int
    path: str = '/'

    def __call__(self, context: Context, node: Node) -> Readiness:
        """Return whether it does."""
        if not node.address:
            return Readiness.not_yet('it has no address yet')
        connection = http.client.HTTPConnection(node.address, self.port, timeout=_look_s())
        try:
            connection.request('GET', self.path)
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException) as exc:
            return Readiness.not_yet(f'port {self.port} does not answer: {exc}')
        finally:
            connection.close()
        if 200 <= status < 400:
            return READY
        return Readiness.not_yet(f'port {self.port} answers {self.path} with {status}')


def _look_s() -> float:
    deadline = current_deadline()
    # Zero would mean "do not wait" to a socket, and less is refused.
    return LOOK_S if deadline is None else max(0.05, min(LOOK_S, deadline.remaining_s()))
