"""Listener for Nova's versioned notifications on the message bus."""

from __future__ import annotations

import contextlib
import itertools
import logging
import re
import ssl
import threading
import urllib.parse
from collections.abc import Callable
from typing import Any

import kombu

from kiln.compute_drivers.nova.notifications.broker import connect
from kiln.exceptions import ConfigurationError
from kiln.foreign.answers import parse_json
from kiln.foreign.text import visible

LOG = logging.getLogger(__name__)

#: Seconds until the next attempt to connect; it grows by as much after each failure, up to
#: the longest.
AGAIN_S, _LONGEST_AGAIN_S = 1.0, 10.0
_CONNECT_S = 5.0
#: Seconds for which messages gather: waking up for each message costs more than reading
#: it, and a build takes much longer than this delay.
GATHER_S = 0.75
#: A broker that is silent for twice this time is treated as gone.
_HEARTBEAT_S = 5
#: How long close() waits for the thread.
_CLOSE_S = 2.0

#: The event type in a message that is not parsed: JSON within JSON. Quotes in texts of
#: users have one more backslash, so such a text cannot match.
_EVENT = re.compile(r'\\"event_type\\": \\"([^"\\]*)\\"')

#: The prefix of the conductor's event types.
_TASK = 'compute_task.'
#: Marks a server whose state might be about to change without a further notification.
DOUBTFUL = 'kiln:doubtful'

_TLS = {'ssl_ca_file': 'ca_certs', 'ssl_cert_file': 'certfile', 'ssl_key_file': 'keyfile'}


class Bus:
    """A thread that reads server notifications from ``start`` to ``close``.

    It has its own queue, which lives as long as the connection: no other listener
    loses a message, and no messages pile up when this process is gone. So messages
    between two connections are lost; ``on_up`` and ``on_down`` report the
    connection. All callbacks run on the thread.
    """

    def __init__(
        self,
        url: str,
        *,
        exchange: str,
        topic: str,
        on_server: Callable[[dict[str, Any]], None],
        on_up: Callable[[], None],
        on_down: Callable[[], None],
        gather_s: float = GATHER_S,
        again_s: float = AGAIN_S,
    ) -> None:
        self._urls, self._tls = _places(url)
        self._exchange, self._topic = exchange, topic
        self._on_server, self._on_up, self._on_down = on_server, on_up, on_down
        self._gather_s, self._again_s = gather_s, again_s
        self._closed = threading.Event()
        # Set once the first attempt to connect has succeeded or failed.
        self._tried = threading.Event()
        self._up = False
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        # Set only by the thread, so that an outage or an unreadable message is logged once.
        self._failures = 0
        self._legible = True
        #: The broker that failed last, and how; None while one is connected.
        self.trouble: str | None = None

    def start(self) -> None:
        """Start listening; safe to repeat."""
        if self._thread is not None:
            return
        with self._lock:
            if self._thread is None and not self._closed.is_set():
                self._thread = threading.Thread(
                    target=self._run, name='nova-notifications', daemon=True
                )
                self._thread.start()

    def is_up(self, within_s: float) -> bool:
        """Return True if connected; wait at most for the first attempt to connect."""
        self._tried.wait(within_s)
        return self._up

    def close(self) -> None:
        """Stop listening; safe to repeat."""
        with self._lock:
            self._closed.set()
        if self._thread is not None:
            # Not for long: the thread might be connecting to a host that does not answer.
            self._thread.join(timeout=_CLOSE_S)

    def _run(self) -> None:
        for url in itertools.cycle(self._urls):
            try:
                self._listen(url)
            # The client library does not wrap the exceptions of the network and of TLS.
            except Exception as exc:
                host, reason = _host(url), visible(str(exc))
                self.trouble = f'{host}: {reason}'
                if not self._failures:
                    LOG.warning('No notifications from %s, so Nova is polled: %s', host, reason)
                self._failures += 1
                self._tried.set()
            if self._closed.wait(min(self._failures * self._again_s, _LONGEST_AGAIN_S)):
                return

    def _listen(self, url: str) -> None:
        with connect(
            url, ssl=self._tls, connect_timeout=_CONNECT_S, heartbeat=_HEARTBEAT_S
        ) as connection:
            # Without the pauses of the client library: the next broker might answer.
            connection.ensure_connection(
                max_retries=1, interval_start=0, reraise_as_library_errors=False
            )
            # Passive: Nova declares the exchange, and decides whether it is durable.
            exchange = kombu.Exchange(self._exchange, 'topic', passive=True)
            queue = kombu.Queue('', exchange, f'{self._topic}.*', exclusive=True)
            channel = connection.channel()
            with kombu.Consumer(channel, queue, on_message=self._take, no_ack=True):
                LOG.info('Listening to notifications of Nova at %s', _host(url))
                self._failures, self.trouble = 0, None
                self._on_up()
                self._up = True
                self._tried.set()
                try:
                    self._hear(connection)
                finally:
                    self._up = False
                    self._on_down()

    def _hear(self, connection: Any) -> None:
        while not self._closed.wait(self._gather_s):
            with contextlib.suppress(TimeoutError):
                while not self._closed.is_set():
                    connection.drain_events(timeout=0)
            connection.heartbeat_check()

    def _take(self, message: Any) -> None:
        try:
            server = server_of(message.body)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as exc:
            # The next poll of Nova shows what the message would have reported.
            if self._legible:
                LOG.warning(
                    'A message on topic %s is not a versioned notification of Nova (%s); '
                    'further ones are not logged', self._topic, type(exc).__name__,
                )  # fmt: skip
            self._legible = False
            return
        if server is not None:
            self._on_server(server)


def server_of(body: str | bytes) -> dict[str, Any] | None:
    """Return the server in a message, with the field names of Nova's API; pure.

    The state comes from the payload, never from the event type: Nova sends an
    ``instance.create.error`` also for a build that continues on another host, so
    an error event only makes the state doubtful. Only the end comes from the event
    type: Nova sets the state to deleted first, and releases the resources of the
    host afterwards.
    """
    # Half of all messages are skipped here, at a tenth of the cost of parsing them.
    content = body if isinstance(body, str) else bytes(body).decode()
    early = _EVENT.search(content)
    if early is not None and not _telling(early[1]):
        return None
    message = parse_json(parse_json(content)['oslo.message'])
    event = message['event_type']
    if not _telling(event):
        return None
    told = message['payload']['nova_object.data']
    if event.startswith(_TASK):
        # A server without a host is reported by the conductor, with few fields.
        told = {'uuid': told['instance_uuid'], 'task_state': None, 'metadata': {}, **told}
    if told['state'] == 'deleted' and event != 'instance.delete.end':
        return None
    server: dict[str, Any] = {
        'id': str(told['uuid']),
        'OS-EXT-STS:vm_state': _word(told['state']),
        'OS-EXT-STS:task_state': _word(told['task_state']),
        'metadata': dict(told['metadata']),
        # Some event types have no tags, and so has the first event of a server.
        'tags': [str(tag) for tag in told.get('tags') or ()],
    }
    if event.endswith('.error'):
        server[DOUBTFUL] = True
    return server


def _telling(event: str) -> bool:
    # Before a shutdown, the server was already reported as deleting or stopping.
    return event.startswith(('instance.', _TASK)) and not event.startswith('instance.shutdown.')


def _word(value: Any) -> str | None:
    return None if value is None else str(value)


def _places(url: str) -> tuple[list[str], dict[str, Any] | None]:
    """Return the URL of each broker, and TLS settings, from a URL of oslo.messaging."""
    try:
        parts = urllib.parse.urlsplit(url)
        scheme = {'rabbit': 'amqp', 'kombu+memory': 'memory'}[parts.scheme]
        urls = [f'{scheme}://{host}{parts.path}' for host in parts.netloc.split(',')]
        for one in urls:
            urllib.parse.urlsplit(one).port  # noqa: B018  # raises if it is not a number
    except (ValueError, KeyError):
        # Without the cause and the URL, which contains a password.
        raise ConfigurationError(
            'Cannot listen to notifications: notification_url must be like '
            'rabbit://USER:PASSWORD@HOST:PORT/VHOST, with further USER:PASSWORD@HOST:PORT '
            'after commas.'
        ) from None
    query = dict(urllib.parse.parse_qsl(parts.query))
    if query.get('ssl', '').lower() not in ('1', 'true', 'yes', 'on'):
        return urls, None
    given = {ours: query[theirs] for theirs, ours in _TLS.items() if theirs in query}
    # Without a name, the client library uses that of the broker.
    return urls, {'cert_reqs': ssl.CERT_REQUIRED, 'server_hostname': None, **given}


def _host(url: str) -> str:
    return urllib.parse.urlsplit(url).netloc.rpartition('@')[2]
