"""Health probes of machines over TCP and HTTP, with a time-out."""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

from kiln.compute_drivers.appliance.claims.state_machine import Ended
from kiln.compute_drivers.appliance.inventory.machines import Machine, ProbeKind, ProbeSpec

_STATUS = re.compile(rb'HTTP/\d(?:\.\d)? (\d{3})\b')
_LONGEST_LINE = 8192
_PORTS = {'http': 80, 'https': 443}


def ask(machine: Machine, spec: ProbeSpec, timeout_s: float) -> Ended:
    """Probe a machine over the network; return the result with the reason of a failure."""
    deadline = time.monotonic() + timeout_s
    try:
        if spec.kind is ProbeKind.TCP:
            with _connected(machine.addresses[0], spec.port, deadline):
                return Ended(True)
        return _ask_http(machine, spec, deadline)
    except TimeoutError:
        return Ended(False, f'no answer within {timeout_s:g} s')
    except (OSError, ValueError) as exc:
        return Ended(False, getattr(exc, 'strerror', None) or str(exc) or type(exc).__name__)


def _ask_http(machine: Machine, spec: ProbeSpec, deadline: float) -> Ended:
    host = machine.addresses[0]
    if ':' in host:
        host = f'[{host}]'
    url = urlsplit(spec.url.replace('{address}', host))
    assert url.hostname is not None
    path = (url.path or '/') + (f'?{url.query}' if url.query else '')
    with (
        _connected(url.hostname, url.port or _PORTS[url.scheme], deadline) as plain,
        _secured(plain, url.hostname, spec) if url.scheme == 'https' else plain as stream,
    ):
        stream.settimeout(_left_s(deadline))
        request = f'GET {path} HTTP/1.1\r\nHost: {url.netloc}\r\nConnection: close\r\n'
        stream.sendall(f'{request}User-Agent: kiln\r\n\r\n'.encode('latin-1'))
        line = _first_line(stream, deadline)
    found = _STATUS.match(line)
    if found is None:
        return Ended(False, 'the answer is not HTTP')
    status = int(found[1])
    passed = 200 <= status < 300 if spec.status is None else status == spec.status
    return Ended(passed, f'status {status}')


def _first_line(stream: socket.socket, deadline: float) -> bytes:
    line = b''
    # Each piece can arrive in time without the line ever ending, so the total counts.
    while b'\n' not in line and len(line) < _LONGEST_LINE:
        stream.settimeout(_left_s(deadline))
        piece = stream.recv(_LONGEST_LINE)
        if not piece:
            break
        line += piece
    return line


@contextlib.contextmanager
def _connected(host: str, port: int, deadline: float) -> Iterator[socket.socket]:
    with socket.create_connection((host, port), _left_s(deadline)) as stream:
        yield stream


def _secured(plain: socket.socket, host: str, spec: ProbeSpec) -> ssl.SSLSocket:
    context = ssl.create_default_context()
    if spec.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(plain, server_hostname=host)


def _left_s(deadline: float) -> float:
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s
