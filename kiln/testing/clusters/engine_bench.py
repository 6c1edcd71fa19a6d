"""Bench of a driver with an engine of its own: how the kit reaches and sees that engine."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from kiln.cluster_drivers.base import ClusterDriver
from kiln.cluster_drivers.calls import open_driver
from kiln.clusters.models import Cluster
from kiln.clusters.spec import MachineSpec
from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.testing.clock import VirtualClock
from kiln.testing.clusters.named_bench import named_bench

#: Real seconds that an engine with a clock of its own is given between two polls.
_REAL_S = 0.02

#: The cluster file that is played, if the bench has no other.
CLUSTER_FILE = """\
cluster: kit
image: kit-1
nodegroups:
  - name: control
    role: control
    count: 1
  - name: work
    count: 3
"""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class EngineNode:
    """A node that stands in the engine; None means that the engine does not know a value."""

    #: The name by which users can name the node.
    name: str
    group: str
    #: Differs for another machine under the same name, and for one that was rebuilt.
    id: str = ''
    #: How often it was booted.
    boots: int | None = dataclasses.field(default=None, compare=False)
    image: str | None = None
    flavor: str | None = None
    #: All parameters that the node was made with as owners set them, without the driver's own
    #: defaults.
    parameters: Mapping[str, Any] | None = None


class EngineBench:
    """How the kit opens a driver on an engine for tests, and what stands in that engine.

    A driver class names its bench, as ``bench = '.bench:StackBench'`` beside its own module or
    with the full path; the kit makes one for each behaviour. Without any, the driver is opened
    as it is, and what the reports of a driver do not show cannot be shown.
    """

    #: The cluster that is played; without its ``driver``, which is the one that is judged.
    cluster_file: str = CLUSTER_FILE
    #: What an update and an upgrade change; not shown if the driver refuses it.
    other: MachineSpec = MachineSpec(image='kit-2')
    #: Values that the driver refuses; each alone, of the cluster or of a group.
    refused: Sequence[MachineSpec] = ()
    #: Deadline of each operation in seconds of the fake clock; not how long the engine takes.
    takes_s: float = 300.0
    #: True if a bench in another process that is given the same folder has the same engine:
    #: the engine is a file or a server, not an object in memory.
    outlives_process: bool = True
    #: Real seconds within which a call returns, if that can be more than the kit's own: a call
    #: that starts a process takes as long as the machine is busy.
    soon_s: float = 0.0

    def __init__(
        self, driver_class: type[ClusterDriver], folder: Path, clock: VirtualClock
    ) -> None:
        """Take an empty folder for the files of the engine, and the clock of the kit."""
        self.driver_class = driver_class
        self.folder = folder
        self.clock = clock

    def open(self) -> ClusterDriver:
        """Return another instance of the driver on the same engine, as another process has."""
        return open_driver(self.driver_class)

    def close(self) -> None:
        """Close what the bench has opened."""

    # ---- what the engine does ------------------------------------------------------

    def pass_time(self, seconds: float) -> None:
        """Let the engine do what it does in that time; the clock has moved by as much.

        The first call after a request is the first time that anything has to happen. By
        default an engine on its own clock gets a moment of real time.
        """
        time.sleep(min(seconds, _REAL_S))

    def fail(self, reason: str) -> None:
        """Have the next piece of work that the engine accepts end in failure."""
        _lacks('fail')

    def go_away(self) -> None:
        """Have the engine give no answer until :meth:`come_back`."""
        _lacks('go_away')

    def come_back(self) -> None:
        """Have the engine answer again; what it had begun goes on."""
        _lacks('come_back')

    def lose(self, cluster: Cluster) -> None:
        """Remove everything of a cluster behind the driver's back."""
        _lacks('lose')

    def make_existing(self, cluster: Cluster) -> str:
        """Make by hand, past the driver, what the cluster can go on with; return its reference.

        It is what ``cluster.spec`` asks for, stands once the call returns, and is nobody's.
        """
        _lacks('make_existing')

    # ---- what stands in the engine ---------------------------------------------------

    def nodes(self, cluster: Cluster) -> Collection[EngineNode]:
        """Return the nodes of a cluster that stand: the engine is done with making them."""
        _lacks('nodes')

    def resources(self) -> Collection[str]:
        """Return the name of everything that is in the engine, whose ever it is."""
        _lacks('resources')

    def outputs(self, cluster: Cluster) -> Mapping[str, Any] | None:
        """Return the outputs of a cluster that stands; None if that is not known."""
        return None

    def credentials(self, cluster: Cluster) -> str:
        """Return a mark of the credentials that a cluster uses; others have another mark."""
        _lacks('credentials')

    def certificate(self, cluster: Cluster) -> str:
        """Return a mark of the certificate authority that a cluster has."""
        _lacks('certificate')


def _lacks(name: str) -> NoReturn:
    raise CannotBeShown(f'{name}() is not among what the bench of the driver offers')


def engine_bench_of(driver_class: type[ClusterDriver]) -> type[EngineBench]:
    """Return the class of the bench that a driver names, or of one that offers nothing.

    :raises DriverLoadError: it names one that cannot be imported.
    """
    return named_bench(driver_class, EngineBench) or EngineBench
