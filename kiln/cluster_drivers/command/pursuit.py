"""Pursuit of one request: runs of a program are begun, found again, ended and reported.

A run is begun by one call after the call that has reported it, so it is stored before where and
until when it can be at work: another host then knows that it has to wait.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any

from kiln.clock import Clock
from kiln.cluster_drivers.answers import MOST_EVENTS
from kiln.cluster_drivers.command import protocol
from kiln.cluster_drivers.command.documents import Secrets, document
from kiln.cluster_drivers.command.program import Program
from kiln.cluster_drivers.command.protocol import Answer, Ending, Nonsense, Output, Verb
from kiln.cluster_drivers.command.requests import (
    MOST_LOST,
    Memory,
    Request,
    Seen,
    Step,
    last_step,
    next_step,
)
from kiln.cluster_drivers.parameters import Parameter
from kiln.cluster_drivers.values import Context, Progress, StatusReport
from kiln.clusters.exceptions import ClusterDriverError
from kiln.clusters.models import Cluster
from kiln.programs.detached import Job, Run, Runs, RunState
from kiln.programs.watching import RunWatcher

#: Seconds after which a run is certain to have ended, beyond its deadline and its time to end.
_SPARE_S = 60.0
#: Seconds that a cancellation has, even if the deadline of its request is over.
_CANCEL_S = 300.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pursuit:
    """What one call of a driver does about the request of its cluster."""

    program: Program
    context: Context
    cluster: Cluster
    parameters: Mapping[str, Parameter]
    runs: Runs
    watcher: RunWatcher
    host: str
    clock: Clock
    grace_s: float
    can_cancel: bool

    def begin(self, memory: Memory, request: Request) -> StatusReport:
        """Take what is asked, or find the run that was begun for it; a later call begins one.

        :raises ClusterDriverError: a run of another host can still be at work, or the program
            cannot run.
        """
        self._check()
        with self.runs.locked():
            memory = self._here(memory)
            last = self._last(memory)
            new = dataclasses.replace(request, first=_first(memory, request, last))
            memory = dataclasses.replace(memory, request=new, lost=0, deleted=False)
            return self._pursue(memory, last)

    def go_on(self, memory: Memory) -> StatusReport:
        """Report how far the request is, and begin the next run of it if it is time."""
        with self.runs.locked():
            memory = self._here(memory)
            return self._pursue(memory, self._last(memory))

    def leave(self, memory: Memory) -> StatusReport:
        """End what is at work for a request that is no longer wanted, and begin nothing of it.

        COMPLETE once nothing is left of it.
        """
        with self.runs.locked():
            memory = self._here(memory)
            return self._pursue(memory, self._last(memory), wanted=False)

    # ---- where runs are ----------------------------------------------------------------------

    def _here(self, memory: Memory) -> Memory:
        """Return the memory for the runs of this host.

        :raises ClusterDriverError: a run of another host can still be at work.
        """
        place = self.runs.identity
        if memory.place in ('', place):
            return dataclasses.replace(memory, place=place, host=self.host)
        request, now = memory.request, self.clock.time()
        if request and now < max(memory.over_at, self._over_at(request.deadline_at)):
            raise ClusterDriverError(
                f'Its program was begun on host {memory.host}, which this host cannot look at.',
                'It goes on there; otherwise it is begun again here after its deadline.',
                retryable=True,
            )
        if request:
            # The time that it was given was that of the other host.
            request = dataclasses.replace(request, deadline_at=now + request.timeout_s)
        # A host that has begun nothing has not ended what it found either.
        left = memory.left or (request.id if request and memory.over_at else '')
        # Numbers go on above those of the other host.
        return dataclasses.replace(
            memory, place=place, host=self.host, told=0, over_at=0.0, request=request, left=left
        )

    def _over_at(self, deadline_at: float) -> float:
        return deadline_at + self.grace_s + _SPARE_S

    def _last(self, memory: Memory) -> Run | None:
        """Return the last run of this host, unless another host had later ones."""
        last = self.runs.latest()
        if last is None or last.number >= memory.run or last.state is RunState.RUNNING:
            return last
        return None

    # ---- steps ---------------------------------------------------------------------------

    def _pursue(self, memory: Memory, last: Run | None, *, wanted: bool = True) -> StatusReport:
        secrets = Secrets(self.context, self.cluster, self.parameters)
        now = self.clock.time()
        found = _Look(last, secrets, now) if last else None
        events: tuple[str, ...] = ()
        is_told = True
        # A run with a lower number is one before those of another host.
        if found and found.seen.number >= memory.run:
            memory, events = self._remember(memory, found)
            is_told = memory.told == len(found.output.progress)
        seen = found.seen if found else Seen.elsewhere(memory)
        decide = next_step if wanted else last_step
        step = decide(memory, seen, now, can_cancel=self.can_cancel)
        if is_told or step is Step.WATCH:
            report = self._take(step, memory, found, seen, secrets)
        else:
            report = self._busy_soon(memory, 'The events of its program are told.')
        return dataclasses.replace(report, events=events, driver_handle=memory.handle)

    def _remember(self, memory: Memory, found: _Look) -> tuple[Memory, tuple[str, ...]]:
        """Return the memory with what a run has printed, and its lines that are new."""
        seen, told = found.seen, memory.told if memory.run == found.seen.number else 0
        new = found.output.progress[told : told + MOST_EVENTS]
        is_first = memory.run != seen.number or not memory.again_at
        again_at = memory.again_at
        if seen.answer and seen.answer.ending is Ending.LATER and is_first:
            again_at = self.clock.time() + seen.answer.after_s
        memory = dataclasses.replace(
            memory, program=found.state, run=seen.number, told=told + len(new), again_at=again_at,
            handle=memory.handle if found.handle is None else found.handle,
        )  # fmt: skip
        return memory, new

    def _take(
        self, step: Step, memory: Memory, found: _Look | None, seen: Seen | None, secrets: Secrets
    ) -> StatusReport:
        request = memory.request
        assert request is not None
        if step is Step.FORGET:
            return _ended(memory, Progress.COMPLETE, '')
        if step is Step.STOP:
            assert found is not None
            found.run.stop()
            self._watch(found.run, found.size)
            return _busy(memory, 'A former run of its program is ending.')
        if step is Step.CANCEL:
            assert seen is not None
            return self._cancel(memory, seen, secrets)
        if step is Step.START:
            return self._start(memory, found, secrets)
        if step is Step.TOO_LATE:
            said = found.seen.answer if found else None
            why = 'Its program was not done by its deadline'
            why += f'; it said last: {said.message}.' if said and said.message else '.'
            return _ended(memory, Progress.FAILED, why)
        assert found is not None
        if step is Step.WATCH:
            self._watch(found.run, found.size)
            lines = found.output.progress[-1:]
            return _busy(memory, lines[0] if lines else 'Its program is at work.')
        if step is Step.WAIT:
            assert found.seen.answer is not None
            return _busy(memory, found.seen.answer.message or 'Its program says "later".')
        if step is Step.GIVE_UP:
            why = (
                f'Its program ended without a result {MOST_LOST} times: it was killed, or its '
                'host has no room.'
            )
            return _ended(memory, Progress.FAILED, why)
        return self._finish(memory, found)

    def _start(self, memory: Memory, found: _Look | None, secrets: Secrets) -> StatusReport:
        request = memory.request
        assert request is not None
        is_again = found is not None and found.seen.number >= request.first
        lost = is_again and found is not None and found.seen.answer is None
        reason = (
            'Its program was killed, and is called again.' if lost else 'Its program is at work.'
        )
        return self._begun(memory, request.verb, request, secrets, lost=lost, reason=reason)

    def _cancel(self, memory: Memory, seen: Seen, secrets: Secrets) -> StatusReport:
        request = memory.request
        assert request is not None
        cancelled = dataclasses.replace(
            request, id=seen.request, kind='cancel',
            deadline_at=max(request.deadline_at, self.clock.time() + _CANCEL_S),
        )  # fmt: skip
        lost = seen.verb is Verb.CANCEL and seen.answer is None
        reason = 'Its program cancels what it has begun before.'
        return self._begun(memory, Verb.CANCEL, cancelled, secrets, lost=lost, reason=reason)

    def _begun(
        self, memory: Memory, verb: Verb, request: Request, secrets: Secrets,
        *, lost: bool, reason: str,
    ) -> StatusReport:  # fmt: skip
        """Begin a run, if where and until when it can be at work is stored by now."""
        over_at = self._over_at(request.deadline_at)
        stored = Memory.read(self.cluster.driver_state)
        is_noted = stored.place == memory.place and stored.request == memory.request
        if not is_noted or stored.over_at < over_at:
            # With some room: what is begun by the next call ends a little later.
            memory = dataclasses.replace(memory, over_at=over_at + _SPARE_S)
            return self._busy_soon(memory, 'Its program is about to be called.')
        memory = dataclasses.replace(memory, lost=memory.lost + 1 if lost else 0)
        run = self._run(memory, verb, request, secrets)
        memory = dataclasses.replace(memory, run=run.number, told=0, again_at=0.0, left='')
        return _busy(memory, reason)

    def _busy_soon(self, memory: Memory, reason: str) -> StatusReport:
        self.context.poll_soon()
        return _busy(memory, reason)

    def _run(self, memory: Memory, verb: Verb, request: Request, secrets: Secrets) -> Run:
        self._check()
        asked = document(
            verb, self.context, self.cluster, self.parameters, state=memory.program,
            handle=memory.handle,
            request_id=request.id, kind=request.kind, remove=dict(request.remove),
            deadline=request.deadline_at,
        )  # fmt: skip
        job = Job(
            argv=self.program.argv(verb), document=json.dumps(asked).encode() + b'\n',
            secrets=secrets.document(), variables=self.program.variables,
            account=self.program.account,
            facts={
                'request': request.id, 'verb': verb.value, 'state': dict(memory.program),
                'handle': memory.handle, 'over_at': self._over_at(request.deadline_at),
            },
            seconds=max(request.deadline_at - self.clock.time(), 0.0), grace_s=self.grace_s,
            most_bytes=protocol.MOST_BYTES,
        )  # fmt: skip
        try:
            run = self.runs.start(job, above=memory.run)
        except OSError as exc:
            raise ClusterDriverError(
                f'The program of driver {self.program.driver} cannot be begun: {exc.strerror}.',
                retryable=True,
            ) from exc
        self._watch(run, 0)
        return run

    def _check(self) -> None:
        if wrong := self.program.unusable():
            raise ClusterDriverError(
                f'The program of driver {self.program.driver} cannot run: {wrong}.'
            )

    def _watch(self, run: Run, size: int) -> None:
        """Have the driver polled as soon as a run goes on, so that its state is stored then."""
        self.watcher.once(run, size, self.context.poll_soon)

    def _finish(self, memory: Memory, found: _Look) -> StatusReport:
        answer, request = found.seen.answer, memory.request
        assert answer is not None
        assert request is not None
        if answer.ending is not Ending.DONE:
            words = {'refused': 'Its program refuses'}.get(
                answer.ending.value, 'Its program failed'
            )
            return _ended(memory, Progress.FAILED, f'{words}: {answer.message}.')
        try:
            outputs = protocol.outputs(answer.result)
        except Nonsense as exc:
            return _ended(memory, Progress.FAILED, f'Its program cannot be understood: {exc}.')
        if request.verb is Verb.DELETE:
            self.runs.forget()
            memory = dataclasses.replace(memory, deleted=True)
        report = _ended(memory, Progress.COMPLETE, answer.message)
        return dataclasses.replace(report, outputs=outputs)


class _Look:
    """One look at a run: what it has printed, without secrets, and how it ended."""

    def __init__(self, run: Run, secrets: Secrets, now: float) -> None:
        self.run = run
        state = run.state
        content = run.output(protocol.MOST_BYTES)
        #: The bytes that it has printed.
        self.size = len(content)
        running = state is RunState.RUNNING
        self.output: Output = protocol.read_output(content, ended=not running, mask=secrets.mask)
        #: The program's state and handle after the run, or so far: those that it was given until
        #: it prints others.
        given, printed = run.facts, self.output
        self.state: Mapping[str, Any] = given['state'] if printed.state is None else printed.state
        self.handle = given.get('handle') if printed.handle is None else printed.handle
        why, answer = '', None
        if state is RunState.ENDED:
            result = run.result
            assert result is not None
            why = result['why']
            errors = secrets.mask(run.errors().decode(errors='replace')).encode()
            answer = _answer(result, self.output, errors)
        self.seen = Seen(
            number=run.number, request=run.facts['request'], verb=Verb(run.facts['verb']),
            running=running, stopping=run.is_stopping, answer=answer, why=why,
            # Without its supervisor, nobody else ends it.
            overdue=running and now > run.facts.get('over_at', math.inf),
        )  # fmt: skip


def _answer(result: Mapping[str, Any], output: Output, errors: bytes) -> Answer | None:
    """Return how a run ended; None if it was stopped."""
    if result['why'] == 'stopped':
        return None
    if result['why'] == 'deadline':
        return Answer(ending=Ending.FAILED, message='it was ended at its deadline')
    if result['why'] == 'output':
        message = f'it printed more than {protocol.MOST_BYTES} bytes, and was ended'
        return Answer(ending=Ending.FAILED, message=message)
    return protocol.answer(result['status'], output, errors)


def _first(memory: Memory, request: Request, last: Run | None) -> int:
    """Return the number of the first run that counts for a request."""
    if last is None:
        return memory.run + 1
    # A run that is not remembered was begun by a process that was killed before it could tell.
    unknown = last.number > memory.run
    is_own = _label(last) == (request.id, request.verb)
    return (
        last.number if is_own and (unknown or last.state is RunState.RUNNING) else last.number + 1
    )


def _label(run: Run) -> tuple[str, Verb]:
    return run.facts['request'], Verb(run.facts['verb'])


def _busy(memory: Memory, reason: str) -> StatusReport:
    return StatusReport(progress=Progress.IN_PROGRESS, reason=reason, driver_state=memory.stored())


def _ended(memory: Memory, progress: Progress, reason: str) -> StatusReport:
    memory = dataclasses.replace(memory, request=None, again_at=0.0, lost=0)
    return StatusReport(progress=progress, reason=reason, driver_state=memory.stored())
