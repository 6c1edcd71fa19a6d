"""Protocol between kiln and a program that builds clusters, version 1; no I/O.

A program is called with a verb, reads one JSON document from stdin, and prints JSON objects,
one on each line. Its exit status decides, its lines explain.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from kiln.clusters.exceptions import Problem
from kiln.foreign.answers import NotJson, parse_json, too_deep
from kiln.programs.isolation import LATER
from kiln.programs.output import clean, last_lines

#: The version that kiln speaks: a program that names another number is refused.
API = 'kiln.command/1'
#: The exit status of a request that the program cannot fulfil as it is; nothing was changed.
#: EX_DATAERR in sysexits.h.
REFUSED = 65
#: The most bytes and lines of progress that are read of one run, and the longest line.
MOST_BYTES = 4 * 1024 * 1024
MOST_LINES = 20_000
LONGEST_LINE = 256 * 1024
#: How deep a line is nested at most. A store keeps a state some levels deeper.
DEEPEST = 40
#: Seconds until the next call of a program that says "later" without a time, and the limits.
LATER_S = 10.0
LEAST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 300.0

_NOTHING: Mapping[str, Any] = MappingProxyType({})

#: Returns text or plain data without secrets.
Mask = Callable[[Any], Any]


class Verb(enum.StrEnum):
    """What a program is asked to do."""

    #: Which versions, verbs and parameters the program has; without any cluster.
    DESCRIBE = 'describe'
    #: Which values of the desired cluster are wrong; optional.
    VALIDATE = 'validate'
    #: What a request would change, without changing anything; optional.
    PLAN = 'plan'
    CREATE = 'create'
    UPDATE = 'update'
    DELETE = 'delete'
    #: How the cluster is now.
    STATUS = 'status'
    #: Stop what an abandoned request has begun elsewhere; optional.
    CANCEL = 'cancel'


#: Verbs that a program can leave out.
OPTIONAL = frozenset({Verb.VALIDATE, Verb.PLAN, Verb.CANCEL})


class Ending(enum.StrEnum):
    """How a run of a program ended."""

    DONE = 'done'
    #: Not done, and not a failure: the program is called again with the same request.
    LATER = 'later'
    FAILED = 'failed'
    REFUSED = 'refused'


class Condition(enum.StrEnum):
    """The condition of a cluster, as a program reports it for the verb ``status``."""

    COMPLETE = 'complete'
    IN_PROGRESS = 'in_progress'
    FAILED = 'failed'
    #: The engine answers, and has no such cluster.
    LOST = 'lost'


class Nonsense(ValueError):
    """What a program printed cannot be used; the text has the reason."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Output:
    """What a run has printed."""

    #: Messages of the lines of type ``progress``, in order.
    progress: tuple[str, ...] = ()
    #: The last state and handle that were printed; None without any.
    state: Mapping[str, Any] | None = None
    handle: str | None = None
    result: Mapping[str, Any] | None = None
    #: The message of the last line of type ``error``.
    error: str = ''
    #: Why the output breaks the protocol; empty if it does not.
    nonsense: str = ''


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """How a run ended, and what it has to say."""

    ending: Ending
    message: str = ''
    result: Mapping[str, Any] = dataclasses.field(default_factory=lambda: _NOTHING)
    #: Seconds until the next call; only with LATER.
    after_s: float = LATER_S


def unmasked(value: Any) -> Any:
    """Return a value as it is, where no secret was given."""
    return value


def read_output(content: bytes, *, ended: bool = True, mask: Mask = unmasked) -> Output:
    """Return what a program has printed so far; the protocol is checked line by line.

    After a line that breaks the protocol the others are read all the same: a state that is
    printed later is where the resources are.

    :param ended: False while the program runs; then its last line can be half a line.
    :param mask: takes the secrets out, before anything is cut or put on one line.
    """
    reader = _Reader(mask)
    for number, line in _lines(content, ended):
        try:
            reader.take(number, line)
        except Nonsense as exc:
            reader.nonsense = reader.nonsense or f'line {number} of its output {exc}'
    if len(content) > MOST_BYTES:
        reader.nonsense = f'its output has more than {MOST_BYTES} bytes'
    return reader.output()


def _lines(content: bytes, ended: bool) -> Iterator[tuple[int, bytes]]:
    lines = content[:MOST_BYTES].split(b'\n')
    if not ended or len(content) > MOST_BYTES:
        lines.pop()
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield number, line


class _Reader:
    """Collects the lines of an output."""

    def __init__(self, mask: Mask) -> None:
        self.nonsense = ''
        self._mask = mask
        self._progress: list[str] = []
        self._state: Mapping[str, Any] | None = None
        self._handle: str | None = None
        self._result: Mapping[str, Any] | None = None
        self._error = ''

    def take(self, number: int, line: bytes) -> None:
        """Take a line.

        :raises Nonsense: it breaks the protocol.
        """
        found = _object(line, self._mask)
        # The names of fields are words of the protocol, whatever a secret is.
        said = {name: self._mask(value) for name, value in found.items()}
        match found.get('type'):
            case 'progress':
                if number > MOST_LINES:
                    raise Nonsense(f'is one too many: {MOST_LINES} are read')
                self._progress.append(clean(_text(said, 'message')))
            case 'state':
                self._take_state(said)
            case 'error':
                self._error = clean(_text(said, 'message'))
            case 'result':
                self._take_result(said)
            case str():
                pass  # of a later minor version
            case _:
                raise Nonsense('has no type, such as "progress" or "result"')

    def _take_state(self, said: Mapping[str, Any]) -> None:
        state, handle = said.get('state'), said.get('handle')
        if state is not None:
            if not isinstance(state, Mapping):
                raise Nonsense('has a state that is not a JSON object')
            self._state = state
        if handle is not None:
            if not isinstance(handle, str) or not 0 < len(handle) <= 255:
                raise Nonsense('has a handle that is not a text of 1 to 255 characters')
            if not handle.isprintable():
                raise Nonsense('has a handle with characters that cannot be printed')
            self._handle = handle
        if state is None and handle is None:
            raise Nonsense('has neither a state nor a handle')

    def _take_result(self, said: Mapping[str, Any]) -> None:
        if self._result is not None:
            raise Nonsense('is a second result')
        self._result = said

    def output(self) -> Output:
        """Return what was collected."""
        return Output(
            progress=tuple(self._progress), state=self._state, handle=self._handle,
            result=self._result, error=self._error, nonsense=self.nonsense,
        )  # fmt: skip


def _object(line: bytes, mask: Mask) -> Mapping[str, Any]:
    if len(line) > LONGEST_LINE:
        raise Nonsense(f'has more than {LONGEST_LINE} bytes')
    if too_deep(line, DEEPEST):
        raise Nonsense(f'is nested more than {DEEPEST} deep')
    try:
        said = parse_json(line)
    except NotJson as exc:
        shown = clean(mask(line.decode(errors='replace')))
        raise Nonsense(f'is not JSON: {shown[:60]!r}') from exc
    if not isinstance(said, Mapping):
        raise Nonsense('is not a JSON object')
    return said


def _text(said: Mapping[str, Any], name: str) -> str:
    found = said.get(name)
    if not isinstance(found, str) or not found.strip():
        raise Nonsense(f'has no {name}')
    return found


# ---- what a run means ------------------------------------------------------------------


def answer(status: int, output: Output, errors: bytes) -> Answer:
    """Return how a run ended: the exit status decides, the output explains.

    :param status: the exit status, or minus the number of the signal that ended the program.
    :param errors: the end of what the program wrote to stderr.
    """
    result = output.result or _NOTHING
    words = output.error or _optional_text(result, 'message')
    if status == LATER:
        return Answer(ending=Ending.LATER, message=words, result=result, after_s=pause(result))
    if status == REFUSED:
        words = words or last_lines(errors) or 'it gives no reason'
        return Answer(ending=Ending.REFUSED, message=words, result=result)
    if status:
        ended = f'signal {-status}' if status < 0 else f'status {status}'
        words = words or last_lines(errors) or output.nonsense
        return Answer(
            ending=Ending.FAILED,
            message=f'it ended with {ended}: {words}' if words else f'it ended with {ended}',
        )
    if output.nonsense:
        return Answer(ending=Ending.FAILED, message=output.nonsense)
    if output.result is None:
        return Answer(ending=Ending.FAILED, message='it ended with status 0 and without a result')
    return Answer(ending=Ending.DONE, message=words, result=result)


def pause(result: Mapping[str, Any]) -> float:
    """Return the seconds until the next call that a result asks for, within limits."""
    asked = result.get('after_s', LATER_S)
    if isinstance(asked, bool) or not isinstance(asked, int | float):
        asked = LATER_S
    # Not a float before it is small: a number of hundreds of digits has none.
    return float(min(max(asked, LEAST_PAUSE_S), LONGEST_PAUSE_S))


def _optional_text(result: Mapping[str, Any], name: str) -> str:
    found = result.get(name)
    return clean(found) if isinstance(found, str) else ''


# ---- results of single verbs ---------------------------------------------------------------


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Description:
    """What a program says about itself."""

    verbs: frozenset[Verb]


def description(result: Mapping[str, Any]) -> Description:
    """Return what the result of ``describe`` says; unknown fields and verbs are ignored.

    :raises Nonsense: it does not speak this version, or lacks a verb.
    """
    spoken = result.get('api')
    versions = [spoken] if isinstance(spoken, str) else spoken
    if not isinstance(versions, list) or not all(isinstance(one, str) for one in versions):
        raise Nonsense(f'its result has no "api", which names a version such as "{API}"')
    if not any(one == API or one.startswith(f'{API}.') for one in versions):
        named = ', '.join(map(repr, versions)) or 'no version'
        raise Nonsense(f'it speaks {clean(named)}, and this kiln speaks {API!r}')
    words = result.get('verbs')
    if not isinstance(words, list):
        raise Nonsense('its result has no list of "verbs"')
    verbs = frozenset(one for one in Verb if one.value in words)
    if lacking := sorted(set(Verb) - OPTIONAL - verbs):
        raise Nonsense(f'it lacks the verbs {", ".join(lacking)}')
    return Description(verbs=verbs)


def condition(result: Mapping[str, Any]) -> Condition:
    """Return the condition in the result of ``status``.

    :raises Nonsense: it has none.
    """
    try:
        return Condition(str(result.get('condition')))
    except ValueError:
        known = ', '.join(one.value for one in Condition)
        raise Nonsense(f'its result has no "condition", which is one of {known}') from None


def outputs(result: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the outputs in a result; None if it has none.

    :raises Nonsense: they are not a JSON object.
    """
    found = result.get('outputs')
    if found is not None and not isinstance(found, Mapping):
        raise Nonsense('its result has "outputs" that are not a JSON object')
    return found


def changes(result: Mapping[str, Any]) -> Sequence[str]:
    """Return the changes in the result of ``plan``, a text for each.

    :raises Nonsense: they are not a list of texts.
    """
    found = result.get('changes')
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise Nonsense('its result has no "changes" that are a list of texts')
    return [clean(one) for one in found]


def lost(result: Mapping[str, Any]) -> int:
    """Return how many changes in the result of ``plan``, the first ones, lose nodes.

    :raises Nonsense: it is not the number of some of them.
    """
    found = result.get('lost', 0)
    if isinstance(found, bool) or not isinstance(found, int):
        raise Nonsense('its result has a "lost" that is not a number')
    if not 0 <= found <= len(changes(result)):
        raise Nonsense('its result has a "lost" that is not the number of some of its "changes"')
    return found


def problems(result: Mapping[str, Any]) -> Sequence[Problem]:
    """Return the problems in the result of ``validate``.

    :raises Nonsense: they are not a list of objects with a message.
    """
    found = result.get('problems', [])
    if not isinstance(found, list) or not all(isinstance(one, Mapping) for one in found):
        raise Nonsense('its result has "problems" that are not a list of JSON objects')
    return [
        Problem(message=clean(_text_of_problem(one)), path=_optional_text(one, 'path'))
        for one in found
    ]


def _text_of_problem(problem: Mapping[str, Any]) -> str:
    found = problem.get('message')
    if not isinstance(found, str) or not found.strip():
        raise Nonsense('one of the problems in its result has no message')
    return found
