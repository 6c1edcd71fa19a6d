"""Exit status of the command, and the line that explains an error.

=====  ==============  ======================================================
code   name            when
=====  ==============  ======================================================
0      OK              done
1      UNFORESEEN      the backend failed a build for its own reasons, or an
                       error without a class in kiln
2      USAGE           wrong arguments, an invalid request or configuration, or an
                       extra of kiln that is not installed
3      NOT_FOUND       no amphora, resource or file of that name
4      CONFLICT        forbidden by its state, taken, or ambiguous
5      NO_ROOM         the quota is used up, the backend is full, or more nodes are
                       requested than the site allows
6      UNAVAILABLE     no service, no answer in time, an open circuit, a limit,
                       or the store cannot be used
7      NOT_ALLOWED     wrong credentials, or too few rights
8      UNSUPPORTED     the backend cannot do this at all
9      PARTIAL         some of it was done; each failure has a line
10     CHANGES         ``kiln plan --detailed-exitcode`` found changes
11     BROKEN          the store is damaged, or lacks tables
130    INTERRUPTED     stopped from the keyboard, or cancelled
141    OUTPUT_CLOSED   the reader of the output closed it
143    TERMINATED      stopped by SIGTERM
=====  ==============  ======================================================
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from kiln import exceptions as exc
from kiln.clusters import exceptions as cluster_exc
from kiln.images import exceptions as image_exc

if TYPE_CHECKING:
    from kiln.plugins.extras import NeededExtra


class ExitCode(enum.IntEnum):
    """The exit status of the command."""

    OK = 0
    UNFORESEEN = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    NO_ROOM = 5
    UNAVAILABLE = 6
    NOT_ALLOWED = 7
    UNSUPPORTED = 8
    PARTIAL = 9
    CHANGES = 10
    BROKEN = 11
    INTERRUPTED = 130
    OUTPUT_CLOSED = 141
    TERMINATED = 143


class UsageError(exc.KilnError):
    """The command line is invalid."""

    code = 'usage_error'
    remedy = "See the command's --help."


#: Mistakes of a file that are told at once; a script that writes files can make thousands.
_MOST_PROBLEMS = 40

#: A class covers its subclasses, unless they are listed themselves.
CODES: dict[type[BaseException], ExitCode] = {
    UsageError: ExitCode.USAGE,
    exc.ConfigurationError: ExitCode.USAGE,
    exc.InvalidRequest: ExitCode.USAGE,
    exc.InstanceNotFoundError: ExitCode.NOT_FOUND,
    exc.ResourceNotFoundError: ExitCode.NOT_FOUND,
    exc.AmbiguousInstanceError: ExitCode.CONFLICT,
    exc.BuildConflict: ExitCode.CONFLICT,
    exc.InstanceStateConflict: ExitCode.CONFLICT,
    exc.DeleteFailed: ExitCode.CONFLICT,
    exc.QuotaExceeded: ExitCode.NO_ROOM,
    exc.InsufficientCapacity: ExitCode.NO_ROOM,
    exc.BuildTimeout: ExitCode.UNAVAILABLE,
    exc.BuildOutcomeUnknown: ExitCode.UNAVAILABLE,
    exc.DeleteTimeout: ExitCode.UNAVAILABLE,
    exc.ComputeServiceError: ExitCode.UNAVAILABLE,
    exc.CircuitOpenError: ExitCode.UNAVAILABLE,
    exc.OperationRejected: ExitCode.UNAVAILABLE,
    exc.OperationTimeout: ExitCode.UNAVAILABLE,
    exc.AuthenticationFailed: ExitCode.NOT_ALLOWED,
    exc.PermissionDenied: ExitCode.NOT_ALLOWED,
    exc.UnsupportedOperation: ExitCode.UNSUPPORTED,
    exc.OperationCancelled: ExitCode.INTERRUPTED,
    image_exc.ImageNotFound: ExitCode.NOT_FOUND,
    image_exc.PackageNotFound: ExitCode.NOT_FOUND,
    image_exc.AmbiguousRecipe: ExitCode.CONFLICT,
    image_exc.NoRoomForImage: ExitCode.NO_ROOM,
    image_exc.MirrorUnavailable: ExitCode.UNAVAILABLE,
    image_exc.MirrorUntrusted: ExitCode.NOT_ALLOWED,
    image_exc.ImageBuildForbidden: ExitCode.NOT_ALLOWED,
    image_exc.BuildToolMissing: ExitCode.UNSUPPORTED,
    cluster_exc.ClusterNotFound: ExitCode.NOT_FOUND,
    cluster_exc.HookNotFound: ExitCode.NOT_FOUND,
    cluster_exc.ClusterExists: ExitCode.CONFLICT,
    cluster_exc.ClusterBusy: ExitCode.CONFLICT,
    cluster_exc.ClusterChanged: ExitCode.CONFLICT,
    cluster_exc.ClusterNotEmpty: ExitCode.CONFLICT,
    cluster_exc.LeaseLost: ExitCode.CONFLICT,
    cluster_exc.StoreError: ExitCode.UNAVAILABLE,
    cluster_exc.StoreBroken: ExitCode.BROKEN,
    cluster_exc.TooManyNodes: ExitCode.NO_ROOM,
    # Errors from the state of an object; invalid input has classes of its own.
    cluster_exc.ClusterError: ExitCode.CONFLICT,
    cluster_exc.WithProblems: ExitCode.USAGE,
    cluster_exc.DriverSelectionError: ExitCode.USAGE,
    cluster_exc.MissingCapability: ExitCode.UNSUPPORTED,
    cluster_exc.RemovalRefused: ExitCode.CONFLICT,
    cluster_exc.ClusterDriverError: ExitCode.UNFORESEEN,
}


def code_of(error: BaseException) -> ExitCode:
    """Return the exit status for an error."""
    own = getattr(error, 'exit_code', None)
    if isinstance(own, ExitCode):
        return own
    if _needed(error):
        return ExitCode.USAGE
    for kind in type(error).__mro__:
        if kind in CODES:
            return CODES[kind]
    return ExitCode.UNFORESEEN


def code_for(code: str, otherwise: ExitCode) -> ExitCode:
    """Return the exit status for an error code."""
    for kind in _family(exc.KilnError):
        if vars(kind).get('code') == code:
            found = next((CODES[one] for one in kind.__mro__ if one in CODES), otherwise)
            # A status that says nothing is that of its own class only.
            return found if kind in CODES or found is not ExitCode.UNFORESEEN else otherwise
    return otherwise


def _family(kind: type[exc.KilnError]) -> Iterator[type[exc.KilnError]]:
    yield kind
    for one in kind.__subclasses__():
        yield from _family(one)


def code_of_all(errors: Collection[BaseException], attempts: int) -> ExitCode:
    """Return the exit status of several attempts, some of them failed."""
    if not errors:
        return ExitCode.OK
    codes = {code_of(error) for error in errors}
    return codes.pop() if len(codes) == 1 and len(errors) == attempts else ExitCode.PARTIAL


def explain(error: BaseException) -> str:
    """Return the error and its remedy in one line, without secrets.

    Several problems in a file have a line each.
    """
    if isinstance(error, cluster_exc.WithProblems) and error.problems:
        # The path of a value can be the name of a secret, whose value does not follow it.
        shown = (
            dataclasses.replace(one, message=exc.redact(one.message))
            for one in error.problems[:_MOST_PROBLEMS]
        )
        more = len(error.problems) - _MOST_PROBLEMS
        rest = [f'Not shown: {more} more. Correct these first.'] if more > 0 else []
        return '\n'.join([*(_one_line(str(one)) for one in shown), *rest])
    if isinstance(error, OSError):
        # Commands report errors of files themselves; this is a full disk, for example.
        return exc.redact(_one_line(f'Cannot continue: {error}.'))
    if needed := _needed(error):
        return f'Cannot continue: {needed}.'
    if not isinstance(error, exc.KilnError):
        text = f'Unexpected {type(error).__name__}: {error}'.rstrip(': ')
        text += '. This is a defect of kiln; --debug shows where.'
        return exc.redact(_one_line(text))
    if isinstance(error, exc.ConfigurationError) and ':\n' in str(error):
        # A heading and a line for each mistake in a file.
        return '\n'.join(map(_one_line, str(error).splitlines()))
    text = _one_line(str(error))
    if not text.endswith(('.', '?')):
        text += '.'
    if isinstance(error, exc.CircuitOpenError) and error.__cause__ is not None:
        return f'{text} It opened because: {_one_line(str(error.__cause__))}'
    # The second sentence of a message is its remedy.
    return text if '. ' in text else f'{text} {_remedy(error)}'


def _needed(error: BaseException) -> NeededExtra | None:
    if not isinstance(error, ImportError):
        return None
    # Imported here, because it reads the metadata of packages.
    from kiln.plugins.extras import needed_extra

    return needed_extra(error)


def _remedy(error: exc.KilnError) -> str:
    retry_after = getattr(error, 'retry_after', None)
    pause = 'some' if retry_after is None else f'{max(retry_after, 0.1):.1f}'
    return error.remedy.replace('retry_after', pause)


def _one_line(text: str) -> str:
    return exc.visible(' '.join(text.split()))
