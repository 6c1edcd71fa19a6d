"""Probes: check whether an active amphora serves.

A probe is any callable that takes an amphora. It returns False, or raises, as long as the
amphora is not ready; the text of its exception is part of the error if the wait times out.
"""

from __future__ import annotations

import dataclasses
import re
import ssl
from collections.abc import Callable, Container, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol

from kiln.compute_drivers import validation
from kiln.exceptions import InvalidRequest
from kiln.foreign.answers import words
from kiln.foreign.exchange import connect, exchange
from kiln.models import Amphora

if TYPE_CHECKING:
    import http.client

# Characters allowed in a request line: no space, and nothing that needs encoding.
_WIRE = re.compile(r'/[!-~]*')


class NotReady(Exception):
    """The amphora does not serve; the text states why."""


class Probe(Protocol):
    """Called with an amphora until it serves, every ``probe_interval_s``.

    It returns True if the amphora serves; False or None, or raises, if it does not. Any
    other value is not an answer, even if it is true in Python: an operation, a future or a
    generator that a probe returns was neither awaited nor run. If the deadline of the build
    passes, its error names the type of that value.

    It runs on one of the backend's threads for probes, named ``BACKEND-probe-N``, of which
    there are at most ``probe_threads`` (64); each build runs one probe at a time, and they
    take turns. It is allowed to block, as :class:`TcpProbe` does until its timeout, but
    should have a timeout of its own, because a thread cannot be ended from outside. While
    all threads are taken a probe waits for a thread, which is not a negative result, and
    the error of a build whose deadline passes meanwhile states so.
    """

    def __call__(self, amphora: Amphora, /) -> bool:
        """Return True if the amphora serves; False, None or an exception means no."""


@dataclasses.dataclass(frozen=True)
class TcpProbe:
    """Succeeds once a TCP port accepts a connection at one of the addresses."""

    port: int
    timeout_s: float = 3.0

    def __post_init__(self) -> None:
        _check(self.port, self.timeout_s)

    def __call__(self, amphora: Amphora) -> bool:
        """Return True, or raise NotReady with the reason of each address."""
        return _first_ready(amphora, self._connect)

    def _connect(self, address: str) -> None:
        try:
            with exchange(self.timeout_s), connect(address, self.port):
                return
        except OSError as exc:
            raise NotReady(f'{_host_port(address, self.port)}: {words(exc)}') from exc


@dataclasses.dataclass(frozen=True)
class HttpProbe:
    """Succeeds once a GET of a path is answered with an accepted status.

    The connection is direct, regardless of proxies in the environment. Redirects are not
    followed.
    """

    port: int
    path: str = '/'
    timeout_s: float = 3.0
    statuses: Container[int] = range(200, 400)
    scheme: Literal['http', 'https'] = 'http'

    def __post_init__(self) -> None:
        _check(self.port, self.timeout_s)
        if not isinstance(self.path, str) or not _WIRE.fullmatch(self.path):
            raise InvalidRequest(
                f'path of a probe must start with / and be percent-encoded, '
                f'not {validation.quoted(self.path)}.'
            )
        if not _are_statuses(self.statuses):
            raise InvalidRequest(
                f'statuses of a probe must be a collection of numbers, '
                f'not {validation.quoted(self.statuses)}.'
            )
        if self.scheme not in ('http', 'https'):
            raise InvalidRequest(f'scheme of a probe must be http or https, not {self.scheme!r}.')

    def __call__(self, amphora: Amphora) -> bool:
        """Return True, or raise NotReady with the reason of each address."""
        return _first_ready(amphora, self._get)

    def _get(self, address: str) -> None:
        # Few callers have this probe, and each that opens a backend would pay for the import.
        import http.client

        from kiln.foreign.http import status_of

        url = f'{self.scheme}://{_host_port(address, self.port)}{self.path}'
        try:
            status = status_of(self._connection(address), self.path, self.timeout_s)
        except (OSError, http.client.HTTPException) as exc:
            raise NotReady(f'{url}: {words(exc)}') from exc
        if status not in self.statuses:
            raise NotReady(f'{url}: answered {status}')

    def _connection(self, address: str) -> http.client.HTTPConnection:
        from kiln.foreign.http import PlainConnection, TlsConnection

        if self.scheme == 'http':
            return PlainConnection(address, self.port)
        # The probe only checks that it serves, and sends no secret. The certificate of a
        # new machine seldom names its address or a known authority.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return TlsConnection(address, self.port, context)


def parse_probe(text: str) -> TcpProbe | HttpProbe:
    """Return the probe of a word: ``tcp:22``, ``http:8080/health``, ``https:8443``.

    :raises InvalidRequest: the word does not describe a probe.
    """
    scheme, colon, rest = text.partition(':')
    port, slash, path = rest.partition('/')
    # isdecimal() alone would accept digits of other scripts.
    if colon and port.isascii() and port.isdecimal():
        match scheme:
            case 'tcp' if not slash:
                return TcpProbe(int(port))
            case 'http' | 'https':
                return HttpProbe(int(port), f'/{path}', scheme=scheme)
    raise InvalidRequest(
        f'Cannot make a probe of {text!r}: write it like tcp:22, http:8080/health or '
        f'https:8443/health.'
    )


def saved_probe(probe: object) -> dict[str, Any] | None:
    """Return a probe as plain data; None for a probe that is not of this module."""
    if not isinstance(probe, TcpProbe | HttpProbe):
        return None
    given = {
        field.name: getattr(probe, field.name)
        for field in dataclasses.fields(probe)
        if getattr(probe, field.name) != field.default
    }
    if 'statuses' in given:
        if not isinstance(given['statuses'], Iterable):
            return None
        given['statuses'] = sorted(given['statuses'])
    return {'kind': _KINDS[type(probe)], **given}


def restored_probe(saved: Mapping[str, Any]) -> TcpProbe | HttpProbe:
    """Return the probe that :func:`saved_probe` described.

    :raises InvalidRequest: not a probe.
    """
    try:
        facts = dict(saved)
        return _BY_KIND[facts.pop('kind')](**facts)
    except (KeyError, TypeError, ValueError) as exc:
        raise InvalidRequest(f'Cannot make a probe of {saved!r}, which was saved.') from exc


_BY_KIND: dict[str, type[TcpProbe | HttpProbe]] = {'tcp': TcpProbe, 'http': HttpProbe}
_KINDS = {kind: name for name, kind in _BY_KIND.items()}


def _check(port: int, timeout_s: float) -> None:
    if isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536:
        raise InvalidRequest(
            f'port of a probe must be from 1 to 65535, not {validation.quoted(port)}.'
        )
    if not validation.is_number(timeout_s) or not 0 < timeout_s <= validation.MAX_TIMEOUT_S:
        raise InvalidRequest(
            f'timeout_s of a probe must be above 0 and a year at most, '
            f'not {validation.quoted(timeout_s)}.'
        )


def _are_statuses(statuses: object) -> bool:
    # A string is a container too, of strings, and contains no status.
    if not isinstance(statuses, Container) or isinstance(statuses, str | bytes | bytearray):
        return False
    if not isinstance(statuses, list | tuple | set | frozenset):
        return True
    return all(isinstance(one, int) and not isinstance(one, bool) for one in statuses)


def _first_ready(amphora: Amphora, attempt: Callable[[str], None]) -> bool:
    """Try the addresses in order, until the first that serves."""
    reasons = []
    for address in amphora.addresses:
        try:
            attempt(address.address)
        except NotReady as exc:
            reasons.append(str(exc))
        else:
            return True
    raise NotReady('; '.join(reasons) or f'amphora {amphora.id} has no address')


def _host_port(address: str, port: int) -> str:
    return f'[{address}]:{port}' if ':' in address else f'{address}:{port}'
