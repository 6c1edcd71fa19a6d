"""Outputs of clusters: reported by drivers, stored as plain data without secrets."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping
from typing import Any

from kiln.cluster_drivers.calls import call_driver
from kiln.cluster_drivers.values import Context, Secrets, StatusReport
from kiln.clusters.models import Node
from kiln.engine.nodes.cluster_state import ClusterState
from kiln.engine.nodes.node_cluster_state import NodeClusterState
from kiln.exceptions import redact

_MASK = '***'
#: Shorter secrets are masked only where they are a whole value.
_SHORTEST = 4
#: Names of values that are masked whatever they are.
_CREDENTIAL = re.compile(
    r'(?:password|passwd|secret|token|api[_-]?key|private[_-]?key|credential)s?', re.IGNORECASE
)


class NotedSecrets:
    """The secrets of one call, which are masked in what the call reports."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._values: set[str] = set()

    def get(self, name: str) -> str:
        """Return a secret."""
        value = self._secrets.get(name)
        self._values.add(value)
        return value

    def masked(self, text: str) -> str:
        """Return a text without the secrets, and without what looks like a credential."""
        # The longest first: one secret can be a part of another.
        for value in sorted(self._values, key=len, reverse=True):
            if text == value:
                return _MASK
            if len(value) >= _SHORTEST:
                text = text.replace(value, _MASK)
        return redact(text)


def noting(context: Context) -> tuple[Context, NotedSecrets]:
    """Return the context of a call, and the secrets that the call will have used."""
    noted = NotedSecrets(context.secrets)
    return dataclasses.replace(context, secrets=noted), noted


def masked(value: Any, noted: NotedSecrets, name: str = '') -> Any:
    """Return plain data with all secrets and credentials masked."""
    if isinstance(value, dict):
        return {noted.masked(key): masked(inner, noted, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [masked(inner, noted, name) for inner in value]
    if value is None or isinstance(value, bool):
        return value
    last = name.rpartition('.')[2]
    if (found := _CREDENTIAL.search(last)) and found.end() == len(last):
        return _MASK
    if isinstance(value, str):
        return noted.masked(value)
    # A secret of digits alone can be reported as a number.
    return value if noted.masked(str(value)) == str(value) else _MASK


class Outputs:
    """Writes the outputs that a driver reports about its cluster."""

    def __init__(self, state: ClusterState) -> None:
        self._tx = state.tx
        #: The last reason that was recorded; polls repeat it.
        self._recorded = ''

    def take(self, outputs: Mapping[str, Any] | None, noted: NotedSecrets) -> None:
        """Write outputs; None keeps those that are stored."""
        if outputs is None:
            return
        fit = masked(outputs, noted)
        if fit != self._tx.cluster.outputs:
            self._tx.cluster = dataclasses.replace(self._tx.cluster, outputs=fit)

    def unknown(self, error: BaseException) -> None:
        """Record why the outputs are not known; those that are stored stay."""
        message = f'The outputs of {self._tx.cluster.name} are not known: {error}'
        if message != self._recorded:
            self._recorded = message
            self._tx.event('outputs-unknown', message)


class OutputRequest:
    """Requests the outputs of a cluster from its driver, once its nodes are at rest.

    An error does not fail the operation: its nodes are ready, and the next operation or
    check requests the outputs again.
    """

    def __init__(self, state: NodeClusterState) -> None:
        self._state = state
        self._outputs = Outputs(state)
        #: True while the driver is called.
        self.busy = False
        #: The nodes whose outputs were requested last.
        self._nodes: tuple[Node, ...] | None = None

    def current(self) -> bool:
        """Return whether the outputs of the nodes as they are now are written.

        If not, they are requested, and a later round has them.
        """
        nodes = self._state.nodes.nodes()
        if not self.busy and self._nodes is not nodes:
            self._nodes, self.busy = nodes, True
            self._state.tx.launches.append(self._launch)
        return not self.busy

    def _launch(self) -> None:
        driver, cluster = self._state.driver, self._state.tx.cluster
        context, noted = noting(self._state.context())
        poll = functools.partial(driver.update_cluster_status, context=context, cluster=cluster)
        call = functools.partial(call_driver, driver.name, 'update_cluster_status', poll)
        self._state.call(call, functools.partial(self._take, noted))

    def _take(
        self, noted: NotedSecrets, report: StatusReport | None, error: BaseException | None
    ) -> None:
        self.busy = False
        if error is not None:
            self._outputs.unknown(error)
        elif report is not None:
            self._outputs.take(report.outputs, noted)
