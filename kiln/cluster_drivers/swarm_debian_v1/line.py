"""Requests to the Docker Engine of one node, over mutual TLS.

Python's own HTTP and TLS suffice, and unlike a client library they can check the identity
in the certificate independently of the address. See decision 0029.
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
from typing import Any, Protocol

from kiln.cluster_drivers.readiness import within_deadline
from kiln.clusters.exceptions import ClusterDriverError
from kiln.clusters.models import Node
from kiln.foreign.answers import NotJson, parse_json, read_at_most, words
from kiln.foreign.exchange import exchange
from kiln.foreign.http import TlsConnection

from .pki import Authority, identity

PORT = 2376
#: The limit of one request, so that a dead node does not delay the others.
LOOK_S = 2.0


class Silent(ClusterDriverError):
    """An engine does not answer, or has another identity than expected."""

    code = 'engine_silent'
    retryable = True
    remedy = (
        'Check that the machine runs, and that its network and security groups admit kiln; '
        'kiln polls it again.'
    )


class Refused(ClusterDriverError):
    """An engine refuses a request."""

    code = 'engine_refused'
    retryable = True
    remedy = 'Read the reason that the engine gives; kiln retries where that can help.'


class Line(Protocol):
    """A connection to an engine; used by one thread, and closed by the code that opened it."""

    def ask(
        self, method: str, path: str, body: object = None, *, timeout_s: float = LOOK_S
    ) -> Any:
        """Send a request; return the response as plain data.

        :raises Silent: no response; the request might have been carried out.
        :raises Refused: the engine refused; nothing was done.
        """

    def close(self) -> None:
        """Close the connection."""


def trust(authority: Authority, now: float) -> ssl.SSLContext:
    """Return kiln's TLS context for one cluster: its certificate, and the CA to trust."""
    context = ssl.create_default_context(cadata=authority.certificate.decode())
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    papers = authority.for_kiln(now)
    # Python reads keys only from files; this file is never on a disk.
    file = os.memfd_create('kiln-swarm')
    try:
        os.write(file, papers.certificate + papers.key)
        context.load_cert_chain(f'/proc/self/fd/{file}')
    finally:
        os.close(file)
    return context


class TlsLine:
    """A connection to the engine of one attempt of a node, and to no other at its address."""

    def __init__(self, node: Node, tls: ssl.SSLContext, *, port: int = PORT) -> None:
        self._node = node
        # The certificate must name the node, not the address.
        self._connection = TlsConnection(node.address or '', port, tls, identity(node))

    def ask(
        self, method: str, path: str, body: object = None, *, timeout_s: float = LOOK_S
    ) -> Any:
        name, connection = self._node.name, self._connection
        content = None if body is None else json.dumps(body)
        headers = {} if content is None else {'Content-Type': 'application/json'}
        try:
            with exchange(within_deadline(timeout_s)):
                connection.request(method, path, content, headers)
                with connection.getresponse() as answer:
                    said = read_at_most(answer)
        except ssl.SSLCertVerificationError as exc:
            self.close()
            raise Silent(
                f'The engine at the address of node {name} is not the engine of this node: '
                f'{exc.verify_message}.',
                'If this persists, replace the node.',
            ) from exc
        except (OSError, http.client.HTTPException) as exc:
            self.close()
            where = f'{connection.host}:{connection.port}'
            raise Silent(
                f'The engine of node {name} does not answer at {where}: {words(exc)}.'
            ) from exc
        if answer.status >= http.HTTPStatus.BAD_REQUEST:
            raise Refused(f'The engine of node {name} refuses: {_message(said)}.')
        return _read(said, name)

    def close(self) -> None:
        """Close the connection; the next request opens it again."""
        self._connection.close()


def _read(said: bytes, name: str) -> Any:
    try:
        return parse_json(said) if said.strip() else None
    except NotJson as exc:
        raise Silent(f'The response of the engine of node {name} cannot be read: {exc}.') from None


def _message(said: bytes) -> str:
    try:
        return str(parse_json(said)['message']).rstrip('.')
    except (NotJson, KeyError, TypeError):
        return said.decode(errors='replace')[:200] or 'no reason given'
