"""What a machine answers while a driver polls it; values for authors and for the kit."""

from __future__ import annotations

import dataclasses
import enum
import ssl
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from kiln.cluster_drivers.readiness import ReadyRule, WhenConsole, WhenHttp, WhenTcp
from kiln.testing.clusters.machine_bench import Request, Response

#: By port and path: the status and the body of a response.
Pages = Mapping[tuple[int, str], tuple[int, str]]
_NO_PAGES: Pages = MappingProxyType({})


class Line(enum.StrEnum):
    """How a machine takes connections."""

    #: It answers on its ports, and refuses connections on all others.
    ANSWERS = 'answers'
    #: No connection is ever accepted, nor refused.
    SILENT = 'silent'
    #: Each connection is refused.
    REFUSES = 'refuses'
    #: Connections are accepted, and nothing is ever sent.
    HANGS = 'hangs'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """The answers of a machine.

    ``Machine(http={(80, '/'): (200, 'ok')})`` serves one page.
    """

    http: Pages = dataclasses.field(default_factory=lambda: _NO_PAGES)
    #: Ports that accept connections; the ports of pages do.
    ports: frozenset[int] = frozenset()
    #: The end of its console log; None if it cannot be read.
    console: str | None = ''
    line: Line = Line.ANSWERS
    #: Answers every request in place of pages; None for a request closes the connection.
    answer: Callable[[Request], Response | None] | None = None
    #: By port: the server's side of TLS; None is plain HTTP.
    tls: Callable[[int], ssl.SSLContext | None] | None = None

    def accepts(self, port: int) -> bool:
        """Return True if a connection to a port is accepted."""
        if self.line is Line.ANSWERS:
            return port in self.ports or any(port == one for one, _ in self.http)
        return self.line is Line.HANGS


SILENT = Machine(line=Line.SILENT, console=None)
REFUSING = Machine(line=Line.REFUSES)
HANGING = Machine(line=Line.HANGS)
#: Machines that cannot be asked now; nothing follows from that.
AWAY: Mapping[str, Machine] = MappingProxyType(
    {'is silent': SILENT, 'refuses connections': REFUSING, 'accepts and never answers': HANGING}
)


def made_ready(rule: ReadyRule) -> Machine | None:
    """Return a machine that is ready by a rule; None if only its author knows one."""
    if isinstance(rule, WhenTcp):
        return Machine(ports=frozenset({rule.port}))
    if isinstance(rule, WhenHttp):
        return Machine(http={(rule.port, rule.path): (200, 'ok')})
    if isinstance(rule, WhenConsole) and rule.pattern.search(rule.pattern.pattern):
        # Plain words match themselves.
        return Machine(console=rule.pattern.pattern)
    return None


def lacking(machine: Machine) -> Iterator[tuple[str, Machine]]:
    """Yield machines that are not what a machine is, each in one way, with the way."""
    yield from AWAY.items()
    if machine.console:
        yield 'has written nothing on its console', dataclasses.replace(machine, console='')
    for port, path in machine.http:
        for status in (404, 503):
            pages = {**machine.http, (port, path): (status, '')}
            yield f'answers {status} at {path}', dataclasses.replace(machine, http=pages)
    for port in sorted(machine.ports):
        fewer = dataclasses.replace(machine, ports=machine.ports - {port})
        yield f'refuses port {port}', fewer
