"""Phase of a circuit: one value that is replaced, never changed."""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

from pybreaker import STATE_CLOSED, STATE_HALF_OPEN, STATE_OPEN

from kiln.clock import clock_time
from kiln.exceptions import Advice, CircuitOpenError

#: What opened a circuit, if no error did.
BY_HAND = 'by_hand'
SLOW_CALLS = 'slow_calls'

#: When to repeat a call that is refused during a probe: most probes end soon, so the
#: rest of the lease would be too long a wait.
PROBE_HINT_S = 1.0


class Ticket(NamedTuple):
    """Permission for one call, to be returned with its outcome."""

    generation: int
    started: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Phase:
    """One period of a circuit's life; each change begins the next phase.

    A result belongs to the phase whose generation is on its ticket, and is dropped once
    another phase has begun.
    """

    generation: int = 0
    state: str = STATE_CLOSED
    #: Open: when a probe can go; infinite if opened by hand for this process alone.
    #: Half-open: when the current probe is given up, and another can go. Closed: until when
    #: earlier trips make the next open period longer.
    until: float = 0.0
    trips: int = 0
    successes: int = 0
    opened_by: str | None = None
    cause: BaseException | None = None
    #: True if it was opened by hand, to stay open until it is closed by hand.
    manual: bool = False

    def opened(
        self, *, until: float, trips: int, opened_by: str, cause: BaseException | None
    ) -> Phase:
        """Return the phase that refuses calls."""
        return Phase(self.generation + 1, STATE_OPEN, until, trips, 0, opened_by, cause)

    def isolated(self, *, until: float) -> Phase:
        """Return the phase that refuses calls until the circuit is closed by hand."""
        phase = self.opened(until=until, trips=self.trips, opened_by=BY_HAND, cause=None)
        return dataclasses.replace(phase, manual=True)

    def half_opened(self, *, until: float, successes: int = 0) -> Phase:
        """Return the phase that admits one probe; if ``until`` has passed, no probe is out."""
        return dataclasses.replace(
            self,
            generation=self.generation + 1,
            state=STATE_HALF_OPEN,
            until=until,
            successes=successes,
            manual=False,
        )

    def closed(self, *, until: float, trips: int) -> Phase:
        """Return the phase that admits all calls."""
        return Phase(self.generation + 1, STATE_CLOSED, until, trips)

    def refusal(self, name: str, now: float, time: float) -> CircuitOpenError:
        """Return the error of a call that the circuit of that name refuses.

        :param now: the monotonic time.
        :param time: the time of day. The text has the time at which the circuit lets a call
            pass, instead of a duration: it can be read much later.
        """
        left_s = self.until - now
        retry_after: float | None = left_s
        advice = Advice.WAIT
        if self.manual:
            # It ends too late to wait for.
            longest = '' if self.until == math.inf else f', for {left_s / 3600:.1f} h at most'
            retry_after, advice = None, Advice.REPAIR
            text = f'was opened by hand, until it is closed by hand{longest}.'
        elif self.state == STATE_HALF_OPEN:
            retry_after = min(left_s, PROBE_HINT_S)
            text = f'waits for its probe after {self.opened_by}.'
        else:
            text = f'is open after {self.opened_by}; {_again(time + left_s)}.'
        error = CircuitOpenError(
            f'Circuit {name} {text}',
            retry_after=retry_after,
            advice=advice,
            backend=name,
        )
        error.__cause__ = self.cause
        return error


def _again(at: float) -> str:
    return f'again at {clock_time(math.ceil(at))}'
