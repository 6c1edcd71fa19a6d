"""Which of kiln's errors each failure of Elder is; the only place that knows.

What matters most is what a failed request left behind. Kiln builds again after
an error that says "nothing was built"; after BuildOutcomeUnknown it looks for
the build key first. Say the first only where the backend promises it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from kiln.exceptions import (
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
    PermissionDenied,
    QuotaExceeded,
    RateLimited,
    ServiceTimeout,
    ServiceUnavailable,
)

from kiln_elder.client import AnswerLostError, RefusedError, UnreachableError

#: What a refusal means, whatever was asked.
ANSWERS: dict[int, type[AmphoraComputeError]] = {
    400: InvalidRequest,
    401: AuthenticationFailed,
    402: QuotaExceeded,
    403: PermissionDenied,
    # Only where the backend itself says so: a 404 from a proxy in between is
    # ServiceUnavailable, or kiln takes machines that run for deleted.
    404: InstanceNotFoundError,
    409: InstanceStateConflict,
    429: RateLimited,
    503: ServiceUnavailable,
}

#: What it means instead where a machine was to be built, or deleted.
BUILD_ANSWERS: dict[int, type[AmphoraComputeError]] = {
    400: InvalidBuildRequest,
    # There is no machine yet, so what was not found is an image or a network.
    404: InvalidBuildRequest,
    409: BuildConflict,
    # Does your backend promise that nothing was made? Some answer 503 and build.
    503: BuildOutcomeUnknown,
    507: InsufficientCapacity,
}
DELETE_ANSWERS: dict[int, type[AmphoraComputeError]] = {400: DeleteFailed, 409: DeleteFailed}


@contextlib.contextmanager
def backend_errors(
    action: str, *, amphora_id: str | None = None, build_key: str | None = None
) -> Iterator[None]:
    """Turn what the client raises into what kiln's callers understand."""
    what = f'Cannot {action} {amphora_id or build_key or "machines"}'
    about: dict[str, Any] = {'amphora_id': amphora_id, 'build_key': build_key}
    try:
        yield
    except RefusedError as exc:
        raise error_class(action, exc.status)(
            f'{what}: Elder says {exc.reason!r}.',
            http_status=exc.status,
            retry_after=exc.retry_after,
            **about,
        ) from exc
    except UnreachableError as exc:
        raise ServiceUnavailable(f'{what}: cannot reach Elder.', **about) from exc
    except AnswerLostError as exc:
        lost = BuildOutcomeUnknown if action == 'build' else ServiceTimeout
        raise lost(f'{what}: Elder is silent.', **about) from exc


def error_class(action: str, status: int) -> type[AmphoraComputeError]:
    """Return the error that an answer is, for what was asked."""
    special = {'build': BUILD_ANSWERS, 'delete': DELETE_ANSWERS}.get(action, {})
    # A status nobody thought of says nothing of what was done.
    unforeseen = BuildOutcomeUnknown if action == 'build' else ServiceTimeout
    return special.get(status) or ANSWERS.get(status, unforeseen)
