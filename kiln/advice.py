"""What an error says as data: what to do, what is left, how the backend is.

Part of :mod:`kiln.exceptions`, where callers import it from.
"""

from __future__ import annotations

import enum


class Outcome(enum.StrEnum):
    """What a failed request left behind in the backend."""

    NOT_APPLIED = 'not_applied'
    UNKNOWN = 'unknown'
    APPLIED = 'applied'


class Verdict(enum.StrEnum):
    """What an error says about the health of the backend that gave it."""

    FAILURE = 'failure'
    # The backend answered, so it is alive; but a refusal proves no recovery
    # either, and must not wipe the history of earlier failures.
    NEUTRAL = 'neutral'
    SUCCESS = 'success'


class Advice(enum.StrEnum):
    """What a caller does after an error: the one word that is enough to go on.

    The first three are for a program to follow by itself, and then ``retryable`` is
    true: none of them makes a second machine of a build that has a key.
    """

    #: Make the same call again, a build with the same ``build_key``.
    REPEAT = 'repeat'
    #: This call has left nothing. Build again with the same ``build_key``, in the same
    #: place or in one that may have more room. Another key is safe only for one who knows
    #: that no earlier call left something under this one.
    BUILD_ANEW = 'build_anew'
    #: What is in the way passes by itself. Make the same call again after
    #: ``retry_after`` seconds, or where there are none after pauses that grow.
    WAIT = 'wait'
    #: It may have happened. Look at the state of the object, and repeat the call only if
    #: it has not: to do it twice is not the same as to do it once.
    LOOK = 'look'
    #: Somebody must change what the message names, such as an argument, a quota, the
    #: configuration or a machine. Until then each repeat ends in the same error.
    REPAIR = 'repair'
    #: There is nothing to repeat and nothing to repair.
    GIVE_UP = 'give_up'

    @property
    def again(self) -> bool:
        """True if the same call can succeed later though nobody changes anything."""
        return self in _AGAIN


_AGAIN = frozenset({Advice.REPEAT, Advice.BUILD_ANEW, Advice.WAIT})
