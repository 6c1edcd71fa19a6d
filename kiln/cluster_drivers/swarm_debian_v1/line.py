"""Requests to the engine of one node, over TLS in which both sides prove who they are.

Python's own HTTP and TLS are enough, and say what a client library would not: whose
certificate it has to be, whatever the address is. See decision 0029.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
from typing import Any, Protocol

from kiln.clock import current_deadline
from kiln.clusters.exceptions import ClusterDriverError
from kiln.clusters.models import Node

from .pki import Authority, identity

PORT = 2376
#: A look takes no longer, so that a dead node does not hold up the others.
LOOK_S = 2.0


class Silent(ClusterDriverError):
    """An engine does not answer, or is not the one that it should be."""

    code = 'engine_silent'
    remedy = (
        'See whether the machine runs, and its network and security groups let kiln in; it is '
        'asked again.'
    )

    def __init__(self, reason: str, hint: str = '', retryable: bool = True) -> None:
        super().__init__(reason, hint, retryable)


class Refused(ClusterDriverError):
    """An engine answers that it will not."""

    code = 'engine_refused'
    remedy = 'Read what the engine says; it is asked again where that can help.'

    def __init__(self, reason: str, hint: str = '', retryable: bool = True) -> None:
        super().__init__(reason, hint, retryable)


class Line(Protocol):
    """To whom requests are made; used by one thread, and closed by who opened it."""

    def ask(
        self, method: str, path: str, body: object = None, *, timeout_s: float = LOOK_S
    ) -> Any:
        """Make a request; return what is answered, as plain data.

        :raises Silent: there was no answer; what was asked may have been done.
        :raises Refused: the engine will not; nothing was done.
        """

    def close(self) -> None:
        """Hang up."""


def trust(authority: Authority) -> ssl.SSLContext:
    """Return how kiln proves itself, and whom it believes, in one cluster."""
    context = ssl.create_default_context(cadata=authority.certificate.decode())
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    papers = authority.kiln
    # Python reads a key from files alone; this one never comes to be on a disk.
    file = os.memfd_create('kiln-swarm')
    try:
        os.write(file, papers.certificate + papers.key)
        context.load_cert_chain(f'/proc/self/fd/{file}')
    finally:
        os.close(file)
    return context


class TlsLine:
    """A line to the engine of one attempt of a node, and to nobody else at its address."""

    def __init__(self, node: Node, tls: ssl.SSLContext, *, port: int = PORT) -> None:
        self._node = node
        self._connection = _Connection(node, tls, port)

    def ask(
        self, method: str, path: str, body: object = None, *, timeout_s: float = LOOK_S
    ) -> Any:
        """Make a request; return what is answered."""
        name, connection = self._node.name, self._connection
        timeout_s = _within(timeout_s)
        connection.timeout = timeout_s
        if connection.sock is not None:
            connection.sock.settimeout(timeout_s)
        content = None if body is None else json.dumps(body)
        headers = {} if content is None else {'Content-Type': 'application/json'}
        try:
            connection.request(method, path, content, headers)
            answer = connection.getresponse()
            said = answer.read()
        except ssl.SSLCertVerificationError as exc:
            self.close()
            raise Silent(
                f'At the address of node {name} is an engine that is not its own: '
                f'{exc.verify_message}.',
                'If it stays so, replace the node.',
            ) from exc
        except (OSError, http.client.HTTPException) as exc:
            self.close()
            where = f'{connection.host}:{connection.port}'
            raise Silent(f'The engine of node {name} does not answer at {where}: {exc}.') from exc
        if answer.status >= http.HTTPStatus.BAD_REQUEST:
            raise Refused(f'The engine of node {name} refuses: {_message(said)}.')
        return _read(said, name)

    def close(self) -> None:
        """Hang up; the next request opens the line again."""
        self._connection.close()


class _Connection(http.client.HTTPSConnection):
    """A connection to an address, which must prove another name than that."""

    def __init__(self, node: Node, tls: ssl.SSLContext, port: int) -> None:
        super().__init__(node.address or '', port, context=tls)
        self._tls, self._identity = tls, identity(node)

    def connect(self) -> None:
        """Open the line."""
        plain = socket.create_connection((self.host, self.port), self.timeout)
        try:
            self.sock = self._tls.wrap_socket(plain, server_hostname=self._identity)
        # Nobody else knows of it yet, whatever went wrong.
        except BaseException:
            plain.close()
            raise


def _within(timeout_s: float) -> float:
    deadline = current_deadline()
    # Zero would mean "do not wait" to a socket, and less is refused.
    return timeout_s if deadline is None else max(0.05, min(timeout_s, deadline.remaining_s()))


def _read(said: bytes, name: str) -> Any:
    try:
        return json.loads(said) if said.strip() else None
    except ValueError:
        raise Silent(f'The engine of node {name} answers what is no JSON.') from None


def _message(said: bytes) -> str:
    try:
        return str(json.loads(said)['message']).rstrip('.')
    except (ValueError, KeyError, TypeError):
        return said.decode(errors='replace')[:200] or 'it does not say why'
