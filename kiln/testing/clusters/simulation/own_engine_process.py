"""Call of a driver with an engine of its own in another process."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import pickle
import subprocess
import sys
from typing import Any

from kiln.cluster_drivers.calls import call_driver
from kiln.clusters.models import Cluster
from kiln.testing.clock import VirtualClock
from kiln.testing.clusters import samples
from kiln.testing.clusters.engine_bench import EngineBench
from kiln.testing.clusters.fingerprint import absolute
from kiln.testing.clusters.simulation.own_engine_calls import promptly, without_sleep
from kiln.testing.clusters.subjects import find_driver

_PROGRAM = 'from kiln.testing.clusters.simulation.own_engine_process import main; main()'
#: Starting another process can be slow on a busy machine.
_LONGEST_S = 600
#: Seconds within which the call returns.
_SOON_S = 5.0


def call_in_process(
    reference: str, bench: EngineBench, cluster: Cluster, method: str
) -> tuple[str, Any]:
    """Call a method of a driver about a cluster in another process, and another directory.

    Return the progress and the outputs that it reports.

    :raises AssertionError: the process failed; its message has what the process wrote.
    """
    path = os.pathsep.join(map(os.path.abspath, sys.path))
    environment = {**os.environ, 'PYTHONPATH': path}
    given = pickle.dumps((type(bench), bench.folder, cluster, method))
    done = subprocess.run(  # noqa: S603  # this interpreter
        [sys.executable, '-c', _PROGRAM, absolute(reference)], env=environment,
        timeout=_LONGEST_S, capture_output=True, input=given, check=False, cwd=bench.folder,
    )  # fmt: skip
    if done.returncode:
        last = done.stderr.decode().strip().splitlines()[-1:]
        raise AssertionError(f'{method} failed in another process: {" ".join(last)}')
    # What the driver prints comes first.
    progress, outputs = json.loads(done.stdout.decode().splitlines()[-1])
    return progress, outputs


def main() -> None:
    """Call the driver that is named, and print the progress that it reports."""
    # What is pickled can be from the driver's own folder, which is imported with the driver.
    driver_class = find_driver(sys.argv[1])
    bench_class, folder, cluster, method = pickle.load(sys.stdin.buffer)  # noqa: S301  # ours
    bench = bench_class(driver_class, folder, VirtualClock())
    driver = bench.open()
    context = dataclasses.replace(samples.context(), credentials='kit')
    call = functools.partial(getattr(driver, method), context=context, cluster=cluster)
    soon_s = max(_SOON_S, bench.soon_s)
    with without_sleep():
        report = call_driver(driver.name, method, lambda: promptly(call, soon_s, method))
    progress = report.progress if report else None
    outputs = dict(report.outputs or {}) if report else {}
    sys.stdout.write('\n' + json.dumps([progress.value if progress else 'none', outputs]))
    bench.close()
