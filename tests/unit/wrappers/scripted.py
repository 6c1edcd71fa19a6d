"""A small cloud that misbehaves as its script states, with an executor before it."""

import contextlib
import itertools
import random
import threading
import unittest

import futurist

from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.exceptions import (
    BuildOutcomeUnknown,
    InstanceNotFoundError,
    QuotaExceeded,
    ServiceTimeout,
    ServiceUnavailable,
)
from kiln.models import Amphora, BuildRequest, Limits, State
from kiln.testing.clock import VirtualClock
from kiln.wrappers.executor.executor import ExecutorDriver
from kiln.wrappers.executor.settings import ExecutorSettings
from kiln.wrappers.operations.scheduler import Scheduler
from tests.self_moving_clock import SelfMovingClock


def request(key='key-1'):
    return BuildRequest(build_key=key, name=f'name-of-{key}', owner='kiln')


class ScriptedDriver(AmphoraComputeDriver):
    """Each hook takes the next word of its script; without a word it works.

    A word is an exception to raise, a function to call, or one of: 'refuse'
    (nothing happens), 'lose' (it happens, the answer is lost), 'vanish' (it
    does not happen, and neither is known), 'crash' (it happens, and the driver
    falls over it), 'exit' (the same with SystemExit), 'quota'. What is built is in the
    state ``born``.
    """

    limits = Limits()
    name = 'east'
    born = State.BUILDING

    def __init__(self, clock, **scripts):
        self.clock = clock
        self.scripts = {name: list(words) for name, words in scripts.items()}
        self.refusals = {}
        self.instances = {}
        self.sent = []
        self.closed = 0
        self._ids = itertools.count(1)
        self._lock = threading.Lock()

    def refusal(self, call):
        refused = self.refusals.get(call)
        if callable(refused):
            refused = refused()
        return refused or super().refusal(call)

    def close(self):
        self.closed += 1

    def keys(self):
        return sorted(amphora.build_key for amphora in self.instances.values())

    def _play(self, hook, subject, effect=lambda: None):
        with self._lock:
            self.sent.append((hook, subject))
            words = self.scripts.get(hook)
            word = words.pop(0) if words else None
        if callable(word):
            word = word()
        if isinstance(word, BaseException):
            raise word
        lost = BuildOutcomeUnknown if hook == 'build' else ServiceTimeout
        if word == 'refuse':
            raise ServiceUnavailable('refused')
        if word == 'quota':
            raise QuotaExceeded('no quota')
        if word == 'vanish':
            raise lost('no answer')
        with self._lock:
            result = effect()
        if word == 'lose':
            raise lost('no answer')
        if word == 'crash':
            raise KeyError('id')
        if word == 'exit':
            raise SystemExit(3)
        return result

    def _made(self, asked):
        # As a real backend of the simplest kind does: it knows no build keys.
        amphora = Amphora(
            id=f'id-{next(self._ids)}',
            name=asked.name,
            state=self.born,
            build_key=asked.build_key,
            owner=asked.owner,
        )
        self.instances[amphora.id] = amphora
        return amphora.id

    def _build(self, request):
        return self._play('build', request.build_key, lambda: self._made(request))

    def _delete(self, amphora_id):
        self._play('delete', amphora_id, lambda: self.instances.pop(amphora_id, None))

    def _get(self, amphora_id):
        self._play('get', amphora_id)
        if amphora_id not in self.instances:
            raise InstanceNotFoundError(f'Cannot read {amphora_id}: not found.')
        return self.instances[amphora_id]

    def _list(self, owner):
        self._play('list', owner)
        return tuple(self.instances.values())

    def _find_build(self, build_key):
        def find():
            for amphora in self.instances.values():
                if amphora.build_key == build_key:
                    return amphora
            return None

        return self._play('find_build', build_key, find)

    def _suspend(self, amphora_id):
        self._play('suspend', amphora_id)

    def _attach_port(self, amphora_id, port_id):
        return self._play('attach_port', (amphora_id, port_id), lambda: 'attached')

    def _delete_resource(self, resource):
        self._play('delete_resource', resource)


class Stage(contextlib.ExitStack):
    """An executor before a scripted driver, on a virtual clock."""

    def __init__(
        self, *, threads=False, settings=None, listener=None, pool=None, moving=True, **scripts
    ):
        super().__init__()
        # Moving, it spends no real time on steps; nothing may then hang outside of the clock.
        self.clock = SelfMovingClock() if moving else VirtualClock()
        if moving:
            self.callback(self.clock.close)
        self.driver = ScriptedDriver(self.clock, **scripts)
        self.scheduler = Scheduler(clock=self.clock)
        self.callback(self.scheduler.close)
        if pool is None and not threads:
            pool = futurist.SynchronousExecutor()
        self.executor = ExecutorDriver(
            self.driver,
            scheduler=self.scheduler,
            settings=settings or ExecutorSettings(max_workers=4),
            listener=listener,
            pool=pool,
            # The number of polls in a given time must not depend on chance.
            rng=random.Random(1),
        )
        self.callback(self.executor.close, 0.0)

    def gate(self):
        """Return an event that is set at the latest when the stage is left."""
        event = threading.Event()
        self.callback(event.set)
        return event

    def until(self, done):
        if isinstance(self.clock, SelfMovingClock):
            self.clock.until(done)
            return
        self.clock.run_until(done, step_s=0.5, real_timeout_s=120)

    def settle(self, operation):
        self.until(operation.done)
        return operation

    def idle(self):
        executor = self.executor
        return not executor._tasks and not executor._workers.running and not executor._turns


class StageCase(unittest.TestCase):
    def stage(self, **options):
        return self.enterContext(Stage(**options))

    def hung(self, stage, hook='get', count=1):
        """Let a hook hang; return its gate, and a semaphore of the hanging calls."""
        gate, inside = stage.gate(), threading.Semaphore(0)

        def hang():
            inside.release()
            gate.wait(120)

        stage.driver.scripts.setdefault(hook, []).extend([hang] * count)
        return gate, inside

    def arrive(self, inside, count=1):
        for _ in range(count):
            self.assertTrue(inside.acquire(timeout=120))
