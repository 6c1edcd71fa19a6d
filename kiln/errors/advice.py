"""Advice, outcome and circuit verdict: what an error states as data.

Part of :mod:`kiln.exceptions`, where callers import it from.
"""

from __future__ import annotations

import enum


class Outcome(enum.StrEnum):
    """State of the backend after a failed request."""

    NOT_APPLIED = 'not_applied'
    UNKNOWN = 'unknown'
    APPLIED = 'applied'


class Verdict(enum.StrEnum):
    """Effect of an error on the health of the backend that returned it."""

    FAILURE = 'failure'
    # The backend answered, so it is alive; but a refusal does not prove a recovery,
    # and must not erase the history of earlier failures.
    NEUTRAL = 'neutral'
    SUCCESS = 'success'


class Advice(enum.StrEnum):
    """What a caller does after an error; sufficient for continuing.

    A program can follow the first three by itself, and ``retryable`` is then true: none
    of them makes a second machine of a build that has a key.
    """

    #: Make the same call again, a build with the same ``build_key``.
    REPEAT = 'repeat'
    #: This call has left nothing. Build again with the same ``build_key``, in the same
    #: place or in a place with more room. Another key is safe only if no earlier call
    #: left something under this key.
    BUILD_ANEW = 'build_anew'
    #: The obstacle passes by itself. Make the same call again after ``retry_after``
    #: seconds, or if that is None, after increasing pauses.
    WAIT = 'wait'
    #: The request might have taken effect. Check the state of the object, and repeat the
    #: call only if it did not take effect: a second call can have a second effect.
    LOOK = 'look'
    #: Change what the message names, such as an argument, a quota, the configuration or
    #: a machine. Until then each repeat ends in the same error.
    REPAIR = 'repair'
    #: Nothing can be repeated or repaired.
    GIVE_UP = 'give_up'

    @property
    def again(self) -> bool:
        """True if the same call can succeed later although nobody changes anything."""
        return self in _AGAIN


_AGAIN = frozenset({Advice.REPEAT, Advice.BUILD_ANEW, Advice.WAIT})
