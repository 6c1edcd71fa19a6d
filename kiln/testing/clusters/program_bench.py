"""Bench of drivers whose engine is a program: its runs wait for the clock of the kit."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import select
import subprocess
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kiln.cluster_drivers.base import ClusterDriver
from kiln.cluster_drivers.command import protocol
from kiln.cluster_drivers.command.command_driver import CommandDriver
from kiln.cluster_drivers.command.documents import Secrets, document
from kiln.cluster_drivers.command.protocol import Output, Verb, read_output
from kiln.cluster_drivers.values import Context
from kiln.clusters.models import Cluster
from kiln.clusters.spec import MachineSpec
from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.exceptions import DriverLoadError
from kiln.programs.detached import Job, Run, Runs, RunState
from kiln.programs.isolation import environment
from kiln.testing.clock import VirtualClock
from kiln.testing.clusters.engine_bench import EngineBench, EngineNode

#: The variable with the folder of the bench, for the program and for its bench program.
VARIABLE = 'KILN_BENCH'
#: Runs wait for the end of a pipe, so that nothing happens before the clock has moved.
_WAIT = ('/bin/sh', '-c', 'read -r _ <"$0"; exec "$@"')
#: Real seconds that all runs together are waited for, until the bench no longer waits.
_PATIENCE_S = 120.0
_SHORT_S = 60.0
_LOOK_S = 0.005


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Once:
    """One run of a program, as it was printed."""

    status: int
    #: Processes that it has left behind.
    left: int
    content: bytes
    errors: bytes

    @property
    def output(self) -> Output:
        """What it has printed."""
        return read_output(self.content)


class ProgramBench(EngineBench):
    """Opens the driver with a folder for its runs, and lets them work when the clock moves."""

    soon_s = 1.5 * _SHORT_S

    def __init__(
        self, driver_class: type[ClusterDriver], folder: Path, clock: VirtualClock
    ) -> None:
        super().__init__(driver_class, folder, clock)
        self._gate = folder / 'gate'
        if not self._gate.exists():
            os.mkfifo(self._gate)
        self._runs = folder / 'runs'
        self._left_s = _PATIENCE_S

    def open(self) -> ClusterDriver:
        driver = self.driver
        driver.runs_in, driver.clock = self._runs, self.clock
        driver.short_s = _SHORT_S
        driver.variables, driver.before = self._variables, (*_WAIT, str(self._gate))
        return driver

    def close(self) -> None:
        for run in self._at_work():
            run.kill()

    def pass_time(self, seconds: float) -> None:
        """Let all runs work, and wait until they have ended."""
        begun = time.monotonic()
        while self._at_work() and time.monotonic() - begun < self._left_s:
            self.let_go()
        self._left_s -= time.monotonic() - begun

    def let_go(self) -> None:
        """Let the runs work that wait at this moment."""
        # Without a reader there is nobody to let go.
        with contextlib.suppress(OSError):
            os.close(os.open(self._gate, os.O_WRONLY | os.O_NONBLOCK))
        select.select([], [], [], _LOOK_S)

    # ---- single runs -----------------------------------------------------------------------

    def once(self, verb: Verb, cluster: Cluster, context: Context, **more: Any) -> Once:
        """Run the program once, and wait for its end."""
        run = self.begin(verb, cluster, context, **more)
        run.wait()
        return self.ended(run)

    def begin(self, verb: Verb, cluster: Cluster, context: Context, **more: Any) -> Run:
        """Begin a run of the program, which works at once."""
        driver = self.driver
        asked = document(
            verb, context, cluster, driver.parameters, state=cluster.driver_state,
            handle=cluster.driver_handle,
            **{'request_id': f'kit-{verb.value}', 'kind': verb.value, 'remove': {},
               'deadline': self.clock.time() + self.takes_s, **more},
        )  # fmt: skip
        secrets = Secrets(context, cluster, driver.parameters)
        job = Job(
            argv=(str(driver.program.path), verb.value), document=json.dumps(asked).encode(),
            secrets=secrets.document(), variables=self._variables,
            facts={'request': '', 'verb': verb.value, 'state': {}}, seconds=self.takes_s,
            grace_s=driver.grace_s, most_bytes=protocol.MOST_BYTES,
        )  # fmt: skip
        runs = Runs(self._runs, f'{cluster.id}.once')
        with runs.locked():
            return runs.start(job)

    def wait_for_output(self, run: Run) -> None:
        """Wait until a run has printed a line, or has ended."""
        ends_at = time.monotonic() + self._left_s
        while run.state is RunState.RUNNING and not run.output(1):
            if time.monotonic() > ends_at:
                raise CannotBeShown('the program prints nothing while it works')
            select.select([], [], [], _LOOK_S)

    def state_of(self, cluster: Cluster, number: int) -> Mapping[str, Any] | None:
        """Return the state that a single run has printed; None without any."""
        run = Run(self._runs / f'{cluster.id}.once' / str(number))
        return read_output(run.output(protocol.MOST_BYTES)).state

    def ended(self, run: Run) -> Once:
        """Return what a run that has ended has printed."""
        result = run.result or {'status': -9}
        return Once(
            status=result['status'], left=result.get('left', 0),
            content=run.output(protocol.MOST_BYTES), errors=run.errors(),
        )  # fmt: skip

    @property
    def driver(self) -> CommandDriver:
        """The driver, without a check of its program."""
        driver = self.driver_class()
        assert isinstance(driver, CommandDriver)
        # Another user could not reach the folder of the bench.
        driver.account = None
        return driver

    @property
    def _variables(self) -> Mapping[str, str]:
        return {VARIABLE: str(self.folder)}

    def _at_work(self) -> list[Run]:
        return [run for run in self._last_runs() if run.state is RunState.RUNNING]

    def _last_runs(self) -> Iterator[Run]:
        for folder in self._runs.iterdir() if self._runs.is_dir() else ():
            if folder.is_dir() and (run := Runs(self._runs, folder.name).latest()):
                yield run


class BenchProgram(ProgramBench):
    """The same, and a program that shows what stands in the engine."""

    def __init__(
        self, driver_class: type[ClusterDriver], folder: Path, clock: VirtualClock
    ) -> None:
        super().__init__(driver_class, folder, clock)
        said = self._ask('describe')
        if not isinstance(said, Mapping):
            raise DriverLoadError(f'The bench of {driver_class.name!r} does not describe itself.')
        self.cluster_file = said.get('cluster_file', self.cluster_file)
        if 'other' in said:
            self.other = MachineSpec(**said['other'])
        self.refused: Sequence[MachineSpec] = [
            MachineSpec(**one) for one in said.get('refused', ())
        ]
        self.takes_s = said.get('takes_s', self.takes_s)

    def fail(self, reason: str) -> None:
        self._ask('fail', reason=reason)

    def go_away(self) -> None:
        self._ask('go_away')

    def come_back(self) -> None:
        self._ask('come_back')

    def lose(self, cluster: Cluster) -> None:
        self._ask('lose', cluster)

    def nodes(self, cluster: Cluster) -> Collection[EngineNode]:
        known = {field.name for field in dataclasses.fields(EngineNode)}
        return [
            EngineNode(**{name: value for name, value in one.items() if name in known})
            for one in self._ask('nodes', cluster)
        ]

    def resources(self) -> Collection[str]:
        found: list[str] = self._ask('resources')
        return found

    def outputs(self, cluster: Cluster) -> Mapping[str, Any] | None:
        with contextlib.suppress(CannotBeShown):
            found: Mapping[str, Any] | None = self._ask('outputs', cluster)
            return found
        return None

    def credentials(self, cluster: Cluster) -> str:
        return str(self._ask('credentials', cluster))

    def certificate(self, cluster: Cluster) -> str:
        return str(self._ask('certificate', cluster))

    def _ask(self, verb: str, cluster: Cluster | None = None, **more: Any) -> Any:
        """Return what the bench program prints.

        :raises CannotBeShown: it does not have the verb, or fails.
        """
        asked = dict(more)
        if cluster is not None:
            asked['cluster'] = {'id': cluster.id, 'name': cluster.name}
            asked['driver_state'] = dict(cluster.driver_state.get('program', {}))
        driver = self.driver
        done = subprocess.run(  # noqa: S603  # the author's own
            [driver.directory / str(driver.bench_file), verb], input=json.dumps(asked).encode(),
            capture_output=True, check=False, cwd=self.folder,
            env={**environment(str(self.folder)), **self._variables},
        )  # fmt: skip
        if done.returncode:
            last = done.stderr.decode(errors='replace').strip().splitlines()[-1:]
            raise CannotBeShown(f'the bench program cannot {verb}: {" ".join(last)}')
        return json.loads(done.stdout or b'null')
