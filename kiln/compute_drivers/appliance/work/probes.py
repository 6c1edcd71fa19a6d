"""Health probes of machines over TCP and HTTP, with a time-out."""

from __future__ import annotations

import re
import ssl
from urllib.parse import urlsplit

from kiln.compute_drivers.appliance.claims.state_machine import Ended
from kiln.compute_drivers.appliance.inventory.machines import Machine, ProbeKind, ProbeSpec
from kiln.foreign.answers import words
from kiln.foreign.exchange import TimedSocket, connect, exchange, secured

_STATUS = re.compile(rb'HTTP/\d(?:\.\d)? (\d{3})\b')
_LONGEST_LINE = 8192
_PORTS = {'http': 80, 'https': 443}


def ask(machine: Machine, spec: ProbeSpec, timeout_s: float) -> Ended:
    """Probe a machine over the network; return the result with the reason of a failure."""
    try:
        with exchange(timeout_s):
            if spec.kind is ProbeKind.HTTP:
                return _ask_http(machine, spec)
            with connect(machine.addresses[0], spec.port):
                return Ended(True)
    except TimeoutError:
        return Ended(False, f'no answer within {timeout_s:g} s')
    except (OSError, ValueError) as exc:
        return Ended(False, words(exc))


def _ask_http(machine: Machine, spec: ProbeSpec) -> Ended:
    host = machine.addresses[0]
    if ':' in host:
        host = f'[{host}]'
    url = urlsplit(spec.url.replace('{address}', host))
    assert url.hostname is not None
    path = (url.path or '/') + (f'?{url.query}' if url.query else '')
    with _connected(url.hostname, url.port or _PORTS[url.scheme], spec, url.scheme) as stream:
        request = f'GET {path} HTTP/1.1\r\nHost: {url.netloc}\r\nConnection: close\r\n'
        stream.sendall(f'{request}User-Agent: kiln\r\n\r\n'.encode('latin-1'))
        line = _first_line(stream)
    found = _STATUS.match(line)
    if found is None:
        return Ended(False, 'the answer is not HTTP')
    status = int(found[1])
    passed = 200 <= status < 300 if spec.status is None else status == spec.status
    return Ended(passed, f'status {status}')


def _first_line(stream: TimedSocket) -> bytes:
    line = b''
    while b'\n' not in line and len(line) < _LONGEST_LINE:
        piece = stream.recv(_LONGEST_LINE)
        if not piece:
            break
        line += piece
    return line


def _connected(host: str, port: int, spec: ProbeSpec, scheme: str) -> TimedSocket:
    stream = connect(host, port)
    if scheme == 'http':
        return stream
    context = ssl.create_default_context()
    if spec.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return secured(stream, context, host)
