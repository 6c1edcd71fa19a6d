"""How each act of a node's life is done: calls that return at once and tell when it is over."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.cluster_drivers.values import Context
from kiln.cluster_models import Cluster, Node
from kiln.cluster_spec import MachineSpec, Place
from kiln.compute import Compute
from kiln.engine.lifecycle import Act
from kiln.engine.news import News
from kiln.engine.parts import Backends, labels
from kiln.exceptions import AmphoraComputeError
from kiln.models import AmphoraType

Tell = Callable[[News], None]
Run = Callable[[Callable[[], None]], Any]


def build_key(node: Node) -> str:
    """Return the build key of an attempt: what finds it in the backend after a crash."""
    return f'{node.id}.{node.attempt}'


class Due(NamedTuple):
    """A node for which something is to be done, and all that it takes."""

    context: Context
    cluster: Cluster
    node: Node
    machine: MachineSpec
    place: Place
    #: A reboot is one by the power switch.
    hard: bool = False
    #: How long a machine may take to come back.
    patience_s: float | None = None


class Acts:
    """Does what is due for the nodes of one cluster, and tells what became of it.

    Nothing here waits, and nothing here is written: that is the turn's affair.
    """

    def __init__(
        self, backends: Backends, driver: NodeClusterDriver, run: Run, tell: Tell
    ) -> None:
        self._backends = backends
        self._driver = driver
        self._run = run
        self._tell = tell
        self._ways: dict[Act, Callable[[Due], None]] = {
            Act.BUILD: self._build,
            Act.FIND: self._find,
            Act.WATCH: self._watch,
            Act.ASK_READY: self._ask_ready,
            Act.DRAIN: functools.partial(self._drain, Act.DRAIN),
            Act.RELIEVE: functools.partial(self._drain, Act.RELIEVE),
            Act.REBOOT: self._reboot,
            Act.REBUILD: self._rebuild,
            Act.DELETE: self._delete,
            Act.LOOK: self._look,
        }

    def begin(self, act: Act, due: Due) -> None:
        """Begin an act; its outcome is told, be it that it cannot even begin."""
        try:
            self._ways[act](due)
        # Whatever goes wrong belongs to the node, and must not end the turn.
        except Exception as exc:
            self._tell(News(due.node.cluster_id, due.node.id, act, error=exc))

    # ---- each of them ----------------------------------------------------

    def _build(self, due: Due) -> None:
        bootstrap = self._driver.bootstrap(due.context, due.cluster, due.node)
        self._follow(
            Act.BUILD,
            due.node,
            self._of(due.node).build(
                due.machine.server_type or AmphoraType.VM,
                due.place.flavor or due.machine.flavor,
                due.machine.image,
                keys=due.machine.keys,
                sec_groups=due.machine.sec_groups,
                network_ids=due.machine.networks,
                config_drive_files=bootstrap.config_drive_files or None,
                user_data=bootstrap.user_data,
                name=due.node.name,
                build_key=build_key(due.node),
                availability_zone=due.place.zone,
                metadata=labels(due.cluster.id, due.node.group),
                # It is looked for by its key, if not by us then by whoever took the
                # cluster over; and what they have adopted must not be removed.
                discard=False,
            ),
        )

    def _find(self, due: Due) -> None:
        self._follow(Act.FIND, due.node, self._of(due.node).find_build(build_key(due.node)))

    def _watch(self, due: Due) -> None:
        assert due.node.compute_id is not None
        watch = self._of(due.node).watch(due.node.compute_id)

        def active(done: Any) -> None:
            if (error := done.exception()) is not None:
                self._tell(News(due.node.cluster_id, due.node.id, Act.WATCH, error=error))
                return
            try:
                got = self._of(due.node).get_amphora(amphora_id=due.node.compute_id)
                self._follow(Act.WATCH, due.node, got)
            except AmphoraComputeError as exc:
                self._tell(News(due.node.cluster_id, due.node.id, Act.WATCH, error=exc))

        watch.add_done_callback(active)

    def _ask_ready(self, due: Due) -> None:
        ask = functools.partial(self._driver.is_ready, due.context, due.cluster, due.node)
        self._run(functools.partial(self._ask, Act.ASK_READY, due.node, ask))

    def _drain(self, act: Act, due: Due) -> None:
        ask = functools.partial(self._driver.drain, due.context, due.cluster, due.node)
        self._run(functools.partial(self._ask, act, due.node, ask))

    def _reboot(self, due: Due) -> None:
        assert due.node.compute_id is not None
        compute = self._of(due.node)
        rebooted = compute.reboot(
            due.node.compute_id, hard=due.hard, wait=True, timeout=due.patience_s
        )
        self._follow(Act.REBOOT, due.node, rebooted)

    def _rebuild(self, due: Due) -> None:
        assert due.node.compute_id is not None
        compute = self._of(due.node)
        rebuilt = compute.rebuild(
            due.node.compute_id, image_id=due.machine.image, wait=True, timeout=due.patience_s
        )
        self._follow(Act.REBUILD, due.node, rebuilt)

    def _delete(self, due: Due) -> None:
        assert due.node.compute_id is not None
        deletion = self._of(due.node).delete(due.node.compute_id, wait=True)
        self._follow(Act.DELETE, due.node, deletion)

    def _look(self, due: Due) -> None:
        assert due.node.compute_id is not None
        self._follow(Act.LOOK, due.node, self._of(due.node).status(due.node.compute_id))

    def console(self, node: Node) -> str:
        """Return what a node wrote on its console; blocks.

        :raises AmphoraComputeError: it cannot be read.
        """
        assert node.compute_id is not None
        return self._of(node).console_log(node.compute_id).result()

    # ---- how they tell ---------------------------------------------------

    def _of(self, node: Node) -> Compute:
        return self._backends.get(node.backend)

    def _follow(self, act: Act, node: Node, promise: Any) -> None:
        def done(promise: Any) -> None:
            error = promise.exception()
            value = None if error is not None else promise.result()
            self._tell(News(node.cluster_id, node.id, act, value, error))

        promise.add_done_callback(done)

    def _ask(self, act: Act, node: Node, ask: Callable[[], object]) -> None:
        try:
            value = ask()
        # A driver's author may let through anything; it is his node's affair.
        except Exception as exc:
            self._tell(News(node.cluster_id, node.id, act, error=exc))
        else:
            self._tell(News(node.cluster_id, node.id, act, value))
