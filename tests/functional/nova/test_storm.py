"""Storm of builds and deletes on the real Nova, with random faults and outages.

KILN_STORM_BUILDS sets the size; a soak runs 500.
"""

import asyncio
import collections
import concurrent.futures
import contextlib
import os
import random
import time

from kiln.compute.goals import Until
from kiln.exceptions import AmphoraComputeError, Outcome
from kiln.testing.proxy import (
    Answer,
    Close,
    Delay,
    Fault,
    Hang,
    LoseAnswer,
    Reset,
    Truncate,
    html_page,
    nova_error,
)
from tests.functional.nova.site import NovaCase

BUILDS = int(os.environ.get('KILN_STORM_BUILDS', '8'))
SEED = int(os.environ.get('KILN_STORM_SEED', '7'))
SETTLE_S = 600 + 6 * BUILDS


class Late(Fault):
    """The client times out, and the server gets the request later anyway."""

    async def play(self, visit):
        await asyncio.sleep(8)
        await visit.forward()
        visit.close()


class StormCase(NovaCase):
    """Many calls at once, and then a comparison of the servers with the reported results."""

    def calm(self):
        """End all faults, and wait until no server is changing."""
        for rule in self.proxy.faults:
            rule.remove()
        self.proxy.up()
        self.proxy.release()

    def settle(self, operations, seconds=SETTLE_S):
        deadline = time.monotonic() + seconds
        for operation in operations:
            operation.exception(max(0.1, deadline - time.monotonic()))
        self.assertEqual([], [op for op in operations if not op.done()])

    def eventually(self, is_so, seconds=600.0):
        deadline = time.monotonic() + seconds
        while not is_so():
            if time.monotonic() > deadline:
                self.fail(f'not settled in time: servers {self.servers()}, ports {self.ports()}')
            time.sleep(1.0)

    def server_ids(self):
        return sorted(server['id'] for server in self.servers())

    def ports(self):
        return self.list('network', 'ports', description=f'kiln-site:{self.owner}')


class RandomFaults(StormCase):
    locked = False

    def test_the_servers_afterwards_match_the_reported_results(self):
        dice = random.Random(SEED)
        compute = self.open_compute(
            # This many calls keep a small cloud from answering any of them soon.
            timeout=6.0 if BUILDS < 100 else 20.0,
            call_timeout=120.0,
            build_timeout=SETTLE_S,
            circuit_open=2.0,
            circuit_open_max=5.0,
            port_lock=self.locked,
        )
        faults = [
            LoseAnswer(Answer(502)), LoseAnswer(Hang()), LoseAnswer(Reset()), Reset(), Close(),
            Hang(), Late(), Truncate(), Delay(before=2), nova_error(500), html_page(503),
            nova_error(504), nova_error(429, retry_after=1), html_page(413), Answer(502),
        ]  # fmt: skip
        for fault in faults:
            self.proxy.fault(fault, 'POST', '/servers', chance=0.04)
            self.proxy.fault(fault, chance=0.01)
        builds = [
            compute.build(name=f'storm-{number}', until=Until.ACTIVE, metadata=self.dice(dice))
            for number in range(BUILDS)
        ]
        self.settle(builds)
        self.calm()
        counted = collections.Counter(
            getattr(build.exception(), 'code', 'built') for build in builds
        )
        met = collections.Counter(
            type(one.fault).__name__ for one in self.proxy.requests if one.fault is not None
        )
        print(f'{BUILDS} builds: {dict(counted)}; faults met: {dict(met)}')
        self.assertGreater(counted['built'], BUILDS / 2)
        self.proxy.settle(seconds=30)
        built = sorted([*self.results(builds), *self.results(self.repeated(compute, builds))])
        self.eventually(lambda: self.server_ids() == built)
        if self.locked:
            self.eventually(lambda: len(self.ports()) == len(built))
        deletes = [compute.delete(amphora_id, wait=True, timeout=SETTLE_S) for amphora_id in built]
        self.settle(deletes)
        self.assertEqual([], [op.exception() for op in deletes if op.exception()])
        self.eventually(lambda: not self.servers() and not self.ports())

    def results(self, builds):
        return [build.result() for build in builds if build.exception() is None]

    def repeated(self, compute, builds):
        """Repeat the builds that might have made a server, as their errors advise.

        A server that ran before its removal was reached is left under the key that the
        error names, so only this build finds it.
        """
        repeats = [
            compute.build(name=build.subject, until=Until.ACTIVE, build_key=error.build_key)
            for build in builds
            if (error := build.exception()) and error.outcome is not Outcome.NOT_APPLIED
        ]
        self.settle(repeats)
        self.assertEqual([], [one.exception() for one in repeats if one.exception()])
        return repeats

    def dice(self, dice):
        roll = dice.random()
        if roll < 0.05:
            return {'devcloud:spawn_abort': 'as the storm wills'}
        return {'devcloud:spawn_delay': '3'} if roll < 0.15 else {}


class RandomFaultsWithLocks(RandomFaults):
    locked = True


class Outage(StormCase):
    """Nova is down for a while in the middle of builds and deletes."""

    away_s = float(os.environ.get('KILN_OUTAGE_S', '15'))
    count = max(6, BUILDS // 5)

    def test_callers_never_wait_and_all_calls_are_done_afterwards(self):
        compute = self.open_compute(
            build_timeout=SETTLE_S,
            call_timeout=SETTLE_S,
            circuit_open=2.0,
            circuit_open_max=5.0,
        )
        doomed = [compute.build(name=f'old-{n}', until=Until.ACTIVE) for n in range(self.count)]
        self.settle(doomed)
        ids = [build.result() for build in doomed]
        waits = []

        def timed(call, *args, **more):
            started = time.perf_counter()
            try:
                return call(*args, **more)
            finally:
                waits.append(time.perf_counter() - started)

        with concurrent.futures.ThreadPoolExecutor(2 * self.count) as callers:
            taken = []
            for number in range(self.count):
                if number == self.count // 2:
                    self.proxy.down()
                    down_at = time.monotonic()
                new = {'name': f'new-{number}', 'until': Until.ACTIVE}
                taken.append(callers.submit(self.until_taken, timed, compute.build, **new))
                old = {'amphora_id': ids[number], 'wait': True}
                taken.append(callers.submit(self.until_taken, timed, compute.delete, **old))
            opened = set()
            while time.monotonic() < down_at + self.away_s:
                opened |= {one.name for one in compute.circuits() if one.state != 'closed'}
                with contextlib.suppress(AmphoraComputeError):
                    timed(compute.status, ids[-1])
                time.sleep(0.05)
            self.proxy.up()
            operations = [one.result(SETTLE_S) for one in taken]
        self.assertTrue(opened)
        self.settle(operations)
        self.assertEqual([], [op.exception() for op in operations if op.exception()])
        waits.sort()
        print(f'{len(waits)} calls: p99 {1000 * waits[int(len(waits) * 0.99)]:.2f} ms')
        built = sorted(op.result() for op in operations if op.kind == 'build')
        self.eventually(lambda: self.server_ids() == built)

    def until_taken(self, timed, call, **arguments):
        """Repeat a call that an open circuit refuses, as callers do."""
        while True:
            try:
                return timed(call, **arguments)
            except AmphoraComputeError as exc:
                if not exc.retryable:
                    raise
                time.sleep(0.1)


del StormCase
