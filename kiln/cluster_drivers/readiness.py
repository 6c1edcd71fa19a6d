"""Readiness rules of nodes: active, console, TCP and HTTP."""

from __future__ import annotations

import dataclasses
import http.client
import re
from typing import Protocol

from kiln.clock import current_deadline
from kiln.cluster_drivers.values import READY, Context, Readiness
from kiln.clusters.models import Node
from kiln.foreign.answers import words
from kiln.foreign.exchange import connect, exchange
from kiln.foreign.http import PlainConnection, status_of

#: The limit of one poll, so that a dead node does not delay the others.
LOOK_S = 2.0


class ReadyRule(Protocol):
    """A rule; polled from any thread once the machine runs."""

    def __call__(self, context: Context, node: Node) -> Readiness:
        """Return the readiness of a node, after one poll."""


@dataclasses.dataclass(frozen=True, slots=True)
class WhenActive:
    """A node whose machine runs is ready."""

    def __call__(self, context: Context, node: Node) -> Readiness:
        """Return READY: only nodes whose machines run are polled."""
        return READY


@dataclasses.dataclass(frozen=True, slots=True)
class WhenConsole:
    """A node is ready once its console log matches a pattern."""

    pattern: re.Pattern[str]

    def __call__(self, context: Context, node: Node) -> Readiness:
        """Return READY if the pattern matches anywhere in the log.

        :raises KilnError: the log cannot be read now.
        """
        if self.pattern.search(context.console(node)):
            return READY
        return Readiness.not_yet(f'its console log does not match {self.pattern.pattern!r}')


@dataclasses.dataclass(frozen=True, slots=True)
class WhenTcp:
    """A node is ready once it accepts connections on a port."""

    port: int

    def __call__(self, context: Context, node: Node) -> Readiness:
        if not node.address:
            return Readiness.not_yet('it has no address yet')
        try:
            with exchange(within_deadline(LOOK_S)), connect(node.address, self.port):
                return READY
        except OSError as exc:
            return Readiness.not_yet(f'port {self.port} accepts no connection: {words(exc)}')


@dataclasses.dataclass(frozen=True, slots=True)
class WhenHttp:
    """A node is ready once it answers a GET with a status from 200 to 399."""

    port: int
    path: str = '/'

    def __call__(self, context: Context, node: Node) -> Readiness:
        if not node.address:
            return Readiness.not_yet('it has no address yet')
        connection = PlainConnection(node.address, self.port)
        try:
            status = status_of(connection, self.path, within_deadline(LOOK_S))
        except (OSError, http.client.HTTPException) as exc:
            return Readiness.not_yet(f'port {self.port} does not answer: {words(exc)}')
        if 200 <= status < 400:
            return READY
        return Readiness.not_yet(f'port {self.port} responds to {self.path} with {status}')


def within_deadline(limit_s: float) -> float:
    """Return the time-out of a request to a node: the limit, or what the deadline leaves."""
    deadline = current_deadline()
    # Zero would mean "do not wait" to a socket, and less is refused.
    return limit_s if deadline is None else max(0.05, min(limit_s, deadline.remaining_s()))
