"""Redis record of a circuit, shared by processes on any number of hosts."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pybreaker import STATE_CLOSED, STATE_HALF_OPEN, STATE_OPEN

from kiln.exceptions import ConfigurationError, DriverLoadError
from kiln.foreign.exchange import exchange, timed_redis
from kiln.plugins.extras import importing
from kiln.wrappers.circuit.shared import LONGEST_S, SharedPhase, SharedStorage

if TYPE_CHECKING:
    from redis import Redis

LOG = logging.getLogger(__name__)

#: How long an unresponsive Redis can delay a connection or an answer, and how long it is
#: then not called.
TIMEOUT_S = 0.5
PAUSE_S = 5.0
#: A record has some hundred bytes.
_MOST_BYTES = 64 * 1024

# All of it in one step, on the clock of Redis: hosts need not agree on the time. Only a
# process that has read the latest record replaces it, so of many changes to the same record
# one succeeds. A record that would last for ever, such as one of a former version with an
# end of -1, ends in a day from when it is first read.
_EXCHANGE = """
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local version = redis.call('HGET', KEYS[1], 'version') or ''
if ARGV[3] ~= '' and (version == '' or version == ARGV[1]) then
    redis.call('HSET', KEYS[1], 'version', ARGV[3], 'state', ARGV[4],
               'ends', string.format('%.0f', now + tonumber(ARGV[5])),
               'trips', ARGV[6], 'successes', ARGV[7], 'opened_by', ARGV[8],
               'manual', ARGV[9])
end
local record = redis.call('HMGET', KEYS[1], 'version', 'state', 'ends', 'trips',
                          'successes', 'opened_by', 'manual')
if not record[1] then return {} end
local ends, last = tonumber(record[3]), now + tonumber(ARGV[2])
if not (ends >= 0 and ends <= last) then
    if ends == -1 then record[7] = '1' end
    ends = last
    redis.call('HSET', KEYS[1], 'ends', string.format('%.0f', ends), 'manual', record[7] or '0')
end
record[3] = string.format('%.0f', math.max(0, ends - now))
return record
"""


class RedisStorage(SharedStorage):
    """The Redis record of one circuit.

    pybreaker's own Redis storage keeps whole seconds of the wall clock, reads Redis several
    times per call and lets each process send its probe. This storage keeps milliseconds of
    the Redis clock and reads a few times a second.
    """

    def __init__(self, name: str, client: Redis, *, timeout_s: float, pause_s: float) -> None:
        from redis.exceptions import RedisError

        super().__init__()
        self._key = f'kiln:circuit:{name}'
        self._client = client
        self._longest_s = 2 * timeout_s
        self._pause_s = pause_s
        self._script = client.register_script(_EXCHANGE)
        self._errors = RedisError
        self._pause_until = -math.inf
        self._in_trouble = False

    def exchange(self, known: str, offered: SharedPhase | None) -> SharedPhase | None:
        # The system clock, even if kiln's clock is virtual, because Redis is real.
        if time.monotonic() < self._pause_until:
            return None
        try:
            with exchange(self._longest_s, _MOST_BYTES):
                answer = self._script(keys=[self._key], args=_arguments(known, offered))
            found = _shared_phase(answer)
        # ValueError and TypeError: another program has written the record.
        except (self._errors, ValueError, TypeError, RecursionError) as exc:
            self._pause_until = time.monotonic() + self._pause_s
            if not self._in_trouble:
                self._in_trouble = True
                LOG.warning('Circuit %s is not shared for now, Redis fails: %s', self._key, exc)
            return None
        if self._in_trouble:
            self._in_trouble = False
            LOG.info('Circuit %s is shared again', self._key)
        return found

    def close(self) -> None:
        """Close the connections; the next exchange opens new ones."""
        self._client.close()


def redis_storage(
    url: str, *, timeout_s: float = TIMEOUT_S, pause_s: float = PAUSE_S
) -> Callable[[str], RedisStorage]:
    """Return a function that creates the storage of a circuit by its name.

    Nothing is sent at first, and an unreachable Redis is not an error: until it is back,
    each process has its own circuits.
    """
    with importing('Cannot share circuits', DriverLoadError):
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry
    try:
        client = redis.Redis.from_url(
            url,
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            # A call is waiting: try once, and pause separately after a failure.
            retry=Retry(NoBackoff(), 0),
            decode_responses=True,
        )
    except ValueError:
        # The URL itself can hold a password.
        raise ConfigurationError(
            'circuit_redis_url must be the URL of a Redis, such as redis://127.0.0.1:6379/0; '
            'rediss:// and unix:// are known too.'
        ) from None
    pool = client.connection_pool
    pool.connection_class = timed_redis(pool.connection_class)
    return lambda name: RedisStorage(name, client, timeout_s=timeout_s, pause_s=pause_s)


def _arguments(known: str, offered: SharedPhase | None) -> list[str | int]:
    longest_ms = round(LONGEST_S * 1000)
    if offered is None:
        return [known, longest_ms, '']
    return [
        known,
        longest_ms,
        offered.version,
        offered.state,
        round(offered.remaining_s * 1000),
        offered.trips,
        offered.successes,
        offered.opened_by,
        int(offered.manual),
    ]


def _shared_phase(answer: list[Any]) -> SharedPhase:
    if not answer:
        return SharedPhase()
    version, state, remaining_ms, trips, successes, opened_by, manual = (
        field.decode() if isinstance(field, bytes) else field for field in answer
    )
    if state not in (STATE_CLOSED, STATE_HALF_OPEN, STATE_OPEN):
        raise ValueError(f'not a state of a circuit: {state!r}')
    if int(trips) < 0 or int(successes) < 0:
        raise ValueError('a circuit has no negative counts')
    return SharedPhase(
        version=version,
        state=state,
        remaining_s=int(remaining_ms) / 1000,
        trips=int(trips),
        successes=int(successes),
        opened_by=opened_by,
        # A former version leaves this field as it was.
        manual=manual == '1' and state == STATE_OPEN,
    )
