"""Bench of a driver that talks to its machines: what runs in them, as an author plays it."""

from __future__ import annotations

import dataclasses
import ssl
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from kiln.cluster_drivers.expectations import Expectations
from kiln.cluster_drivers.values import Bootstrap
from kiln.clusters.models import Node
from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.testing.clock import VirtualClock


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """A request that a driver has sent to a machine."""

    port: int
    method: str
    #: With the query, as it was sent.
    path: str
    headers: Mapping[str, str]
    body: bytes = b''


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Response:
    """The answer of a machine."""

    status: int = 200
    body: str = ''


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Booted:
    """A machine that has booted with what its node was given; another one after a rebuild."""

    node: Node
    given: Bootstrap


class MachineBench(Expectations):
    """What runs in the machines of one cluster, and what the cluster knows of its nodes.

    A driver class names its bench, as ``bench = '.bench:AgentBench'`` beside its own module or
    with the full path; the kit makes one for each cluster. Machines answer at once; time is that
    of ``clock``.
    """

    #: The ports at which each machine answers.
    ports: frozenset[int] = frozenset()
    #: The verb that goes on with one node of the first role once all others of it are lost;
    #: its argument is ``node``.
    recovery: str = ''

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock

    # ---- machines --------------------------------------------------------------------

    def boot(self, machine: Booted) -> None:
        """Take a machine that has booted for the first time, with an empty disk."""

    def stop(self, machine: Booted) -> None:
        """Take a machine that has ended, without a warning."""

    def die(self, machine: Booted) -> None:
        """Take a machine that does not run any longer; its node still stands in the cloud."""

    def answer(self, machine: Booted, request: Request) -> Response:
        """Return what a machine answers; what it is asked to do is done when it answers."""
        raise NotImplementedError

    def tls(self, machine: Booted, port: int) -> ssl.SSLContext | None:
        """Return the context of a server at a port; None if it speaks plain HTTP."""
        return None

    # ---- the cluster -----------------------------------------------------------------

    def members(self) -> Collection[str]:
        """Return the names of the nodes that the cluster itself counts."""
        _lacks('members')

    def wrongs(self) -> Collection[str]:
        """Return what is wrong with the cluster, whatever the driver believes of it."""
        return ()

    def answers(self, folder: Path) -> Collection[tuple[str, Mapping[str, Any], Any]]:
        """Return verbs with arguments, and what each answers now; None if it refuses them.

        :param folder: An empty folder for verbs that write files.
        """
        return ()

    def readings(self) -> Mapping[str, float | None]:
        """Return what the monitor measures now; a metric that is not named can be anything."""
        return {}

    def order(self, nodes: Sequence[Node]) -> Sequence[Node] | None:
        """Return the order in which the scale manager lets nodes go now; None for any."""
        return None

    def troubles(self) -> Collection[str] | None:
        """Return words of the trouble that the driver reports now; None if that is not known."""
        return None

    def lose(self, name: str) -> None:
        """Let the cluster forget a node whose machine runs and is not told."""
        _lacks('lose')

    def serve(self, name: str, seconds: float) -> None:
        """Let a node have work, for some seconds from now or until it is moved away."""
        _lacks('serve')

    def credentials(self) -> Mapping[str, str]:
        """Return a mark of the credentials that each node uses; others have another mark."""
        _lacks('credentials')

    def certificate(self) -> Mapping[str, str]:
        """Return a mark of the certificate authority of each node, or of the cluster."""
        _lacks('certificate')


def _lacks(name: str) -> NoReturn:
    raise CannotBeShown(f'{name}() is not among what the bench of the driver offers')
