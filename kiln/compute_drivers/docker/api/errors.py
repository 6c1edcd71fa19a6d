"""Errors of Docker Engine and Podman translated to kiln's; pure.

The only place of that translation. Docker gives the kind of error by the status and
the details by the text; Podman answers nearly every error with a 500, so the text
decides. One table holds the texts of both engines.
"""

from __future__ import annotations

import dataclasses
import enum
import errno
import re
from collections.abc import Mapping
from typing import Any

from kiln.compute_drivers.authoring.error_context import Asked
from kiln.exceptions import (
    AmphoraBuildError,
    AmphoraComputeError,
    AuthenticationFailed,
    BuildConflict,
    BuildOutcomeUnknown,
    DeleteFailed,
    InstanceNotFoundError,
    InstanceStateConflict,
    InsufficientCapacity,
    InvalidBuildRequest,
    InvalidRequest,
    NotSuspendedError,
    Outcome,
    PermissionDenied,
    RateLimited,
    ResourceNotFoundError,
    ServiceUnavailable,
    UnsupportedOperation,
)
from kiln.foreign.connection_failures import (
    IN_TIME,
    causes_of,
    one_line,
    reason,
    was_sent,
)

_LONGEST_REASON = 500


class Trouble(enum.Enum):
    """Kinds of error that an engine reports, with the words of both engines.

    The first match decides, so narrow patterns precede wide ones.
    """

    NAME_TAKEN = r'container name .* is already in use|that name is already in use'
    NO_SPACE = r'no space left on device|disk quota exceeded|not enough space'
    NO_IMAGE = (
        r'no such image|image not known|manifest (for .* )?(unknown|not found)|'
        r'pull access denied|repository .* not found'
    )
    NO_REGISTRY = (
        r'pinging container registry|https?://[^ ]*/v2/|registry.*(timeout|refused)|'
        r'initializing source docker://|short-name .* did not resolve'
    )
    NO_CONTAINER = r'no such container|no container with name or id'
    NO_NETWORK = (
        r'network [^ ]+ not found|unable to find network|no such network|network not found'
    )
    PORT_TAKEN = (
        r'port is already allocated|bind(\(2\))?: address already in use|'
        r'ports? are not available|failed to bind (host )?port'
    )
    ADDRESS_TAKEN = (
        r'address already in use|requested ip address .* already|ip .* is already allocated'
    )
    WRONG_ADDRESS = (
        r'does not belong to any of this network|not in any subnet|no configured subnet|'
        r'user specified ip address is supported|invalid (ipv[46] )?address|'
        r'not contained in subnet'
    )
    NO_ROOM = (
        r'range of cpus is from|cannot allocate memory|resource temporarily unavailable|'
        r'too many open files|address pools? (have been|has been|fully)|'
        r'non-overlapping ipv4|no available (ipv?4?|ip address)|no free ip|'
        r'failed to find free ip'
    )
    REMOVING = r'removal of container .* already in progress|marked for removal'
    NOT_PAUSED = r'is not paused'
    ALREADY_PAUSED = r'already paused'
    CONNECTED = r'already exists in network|already (connected|attached)'
    NOT_CONNECTED = r'is not connected to'
    IN_USE = r'volume is (in use|being used)|has active endpoints|is being used'
    NO_NETWORKING = r'in private \(none\) mode|invalid network mode'
    NO_LOG = r'logging driver does not support reading|not supported on .none.|no log path'
    NO_DEVICE = (
        r'gathering device information|not a device node|error mounting|'
        r'stat /dev/[^ ]*: no such file|bind source path does not exist'
    )
    NO_RIGHT = (
        r'operation not permitted|permission denied|unable to apply caps|'
        r'oci permission denied'
    )
    NO_COMMAND = (
        r'executable file not found|exec(: |format |user process)|no command specified|'
        r'oci runtime attempted to invoke a command that was not found'
    )
    NO_START = r'oci runtime|shim task|runc (create|run) failed|crun:'
    OTHER_STATE = (
        r'container state improper|is not running|is restarting|paused container|'
        r'is paused|cannot kill|marked dead|is dead'
    )
    NO_PATH = r'could not find the file|no such file or directory'

    def __init__(self, words: str) -> None:
        self.words = re.compile(words, re.IGNORECASE)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """The relevant parts of an HTTP answer."""

    status: int
    #: The engine's own words; None if something other than an engine answered.
    reason: str | None = None
    retry_after: float | None = None


def own_words(body: Any) -> str | None:
    """Return the message in the JSON of an engine's error, as one line."""
    if not isinstance(body, Mapping):
        return None
    text = body.get('message') or body.get('error')
    return ' '.join(text.split())[:_LONGEST_REASON] if isinstance(text, str) and text else None


def trouble_in(text: str | None) -> Trouble | None:
    """Return the kind of error that an engine's text reports, if known."""
    return next((trouble for trouble in Trouble if trouble.words.search(text or '')), None)


_Kind = type[AmphoraComputeError]

#: The exception for each kind of error: for builds, and for other requests.
_TO_BUILD: Mapping[Trouble, _Kind] = {
    Trouble.NAME_TAKEN: BuildConflict,
    Trouble.NO_IMAGE: InvalidBuildRequest,
    Trouble.NO_REGISTRY: InvalidBuildRequest,
    Trouble.NO_NETWORK: InvalidBuildRequest,
    Trouble.PORT_TAKEN: BuildConflict,
    Trouble.ADDRESS_TAKEN: BuildConflict,
    Trouble.WRONG_ADDRESS: InvalidBuildRequest,
    Trouble.NO_SPACE: InsufficientCapacity,
    Trouble.NO_ROOM: InsufficientCapacity,
    Trouble.NO_RIGHT: PermissionDenied,
    Trouble.NO_COMMAND: InvalidBuildRequest,
    Trouble.NO_DEVICE: InvalidBuildRequest,
    Trouble.NO_START: AmphoraBuildError,
    Trouble.NO_CONTAINER: InstanceNotFoundError,
    Trouble.REMOVING: BuildConflict,
    Trouble.NO_PATH: InvalidBuildRequest,
}
_ELSEWHERE: Mapping[Trouble, _Kind] = {
    Trouble.NO_CONTAINER: InstanceNotFoundError,
    Trouble.NO_IMAGE: InvalidRequest,
    Trouble.NO_REGISTRY: InvalidRequest,
    Trouble.NO_NETWORK: ResourceNotFoundError,
    Trouble.NO_PATH: ResourceNotFoundError,
    Trouble.NO_LOG: UnsupportedOperation,
    Trouble.NOT_PAUSED: NotSuspendedError,
    Trouble.ADDRESS_TAKEN: InstanceStateConflict,
    Trouble.PORT_TAKEN: InstanceStateConflict,
    Trouble.CONNECTED: InstanceStateConflict,
    Trouble.NOT_CONNECTED: InstanceStateConflict,
    Trouble.IN_USE: InstanceStateConflict,
    Trouble.WRONG_ADDRESS: InvalidRequest,
    Trouble.NO_NETWORKING: InstanceStateConflict,
    Trouble.ALREADY_PAUSED: InstanceStateConflict,
    Trouble.OTHER_STATE: InstanceStateConflict,
    Trouble.REMOVING: InstanceStateConflict,
    Trouble.NO_RIGHT: PermissionDenied,
}
#: A delete is accepted in every state, so a conflict is a failure of it.
_TO_DELETE: Mapping[Trouble, _Kind] = {
    trouble: DeleteFailed if kind is InstanceStateConflict else kind
    for trouble, kind in _ELSEWHERE.items()
}
#: The engine has refused: the request had no effect, whatever the class of error.
_REFUSED = {'outcome': Outcome.NOT_APPLIED}


def refused(asked: Asked, reply: Reply) -> AmphoraComputeError:
    """Return the exception for an error answer, or for an answer not from an engine."""
    if reply.reason is None:
        why = f'something that is not a container engine answered {reply.status}'
    else:
        why = f'the engine answered {reply.status}: {reply.reason.rstrip(".")}'
    kind, more = _meaning(asked, reply)
    return asked.error(
        kind,
        f'{why}.',
        http_status=reply.status,
        fault=reply.reason,
        retry_after=reply.retry_after,
        **more,
    )


def _meaning(asked: Asked, reply: Reply) -> tuple[_Kind, dict[str, Any]]:
    if reply.status == 429:
        return RateLimited, {}
    if reply.status == 401:
        return AuthenticationFailed, {}
    # A proxy or a wrong address gives no reason of an engine.
    if reply.reason is not None and reply.status != 503:
        trouble = trouble_in(reply.reason)
        table = _table(asked)
        if trouble is not None and trouble in table:
            kind = table[trouble]
            # A removal ends by itself, so a retry can succeed.
            passing = {'retryable': True} if trouble is Trouble.REMOVING else {}
            return kind, _REFUSED | passing
        if plain := _plain(asked, reply.status):
            return plain, _REFUSED
    if asked.making and (reply.status >= 500 or reply.status < 400):
        return BuildOutcomeUnknown, {}
    left = Outcome.UNKNOWN if reply.status >= 500 else Outcome.NOT_APPLIED
    return ServiceUnavailable, {'outcome': left}


def _table(asked: Asked) -> Mapping[Trouble, _Kind]:
    if asked.building:
        return _TO_BUILD
    return _TO_DELETE if asked.verb == 'delete' else _ELSEWHERE


def _plain(asked: Asked, status: int) -> _Kind | None:
    """Return what a status means when the text is not recognized."""
    match status:
        case 400:
            return InvalidBuildRequest if asked.building else InvalidRequest
        case 403:
            return PermissionDenied
        case 404:
            return InvalidBuildRequest if asked.building else ResourceNotFoundError
        case 409:
            if asked.verb == 'delete':
                return DeleteFailed
            return BuildConflict if asked.building else InstanceStateConflict
        case 501:
            return UnsupportedOperation
    return None


def unanswered(asked: Asked, exc: BaseException, *, at: str = '') -> AmphoraComputeError:
    """Return the error for an unanswered request; with ``at`` nothing was sent at all."""
    causes = tuple(causes_of(exc))
    if any(isinstance(cause, OSError) and cause.errno == errno.EACCES for cause in causes):
        # As long as nobody changes that, no other attempt can succeed.
        return asked.error(
            PermissionDenied,
            f'kiln has no access to the socket of the engine{at}. Add its user to the group of '
            f'the socket, which makes it as good as root.',
        )
    slow = any(isinstance(cause, (*IN_TIME, TimeoutError)) for cause in causes)
    last = causes[-1]
    why = reason(causes, slow=slow) or one_line(last) or type(last).__name__
    sent = not at and was_sent(causes)
    return asked.unanswered('the engine', why + at, sent=sent, slow=slow)
