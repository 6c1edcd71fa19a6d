"""Bench of the conformance kit: an engine for tests, and what stands in it."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kiln.cluster_drivers.base import ClusterDriver
from kiln.clusters.models import Cluster
from kiln.clusters.spec import MachineSpec
from kiln.testing.clusters import EngineBench, EngineNode

from .driver import Driver, stack_of


class StackBench(EngineBench):
    """The stand-in with a folder of its own; it works whenever the driver looks at a stack."""

    cluster_file = """\
cluster: kit
credentials: kit
parameters: {theme: dark}
nodegroups:
  - {name: edge, count: 1}
  - {name: web, count: 3}
"""
    other = MachineSpec(parameters={'theme': 'light'})
    refused = (
        MachineSpec(parameters={'colour': 'red'}),
        MachineSpec(parameters={'theme': 'blue'}),
    )
    _failure = ''
    _before: Mapping[Path, str] = MappingProxyType({})

    def open(self) -> ClusterDriver:
        """Return the driver, with a file that names the folder of the bench."""
        driver = super().open()
        assert isinstance(driver, Driver)
        driver.config = self.folder / 'client.conf'
        driver.config.write_text(f'[stack]\nfolder = {self._stacks}\n')
        return driver

    # ---- what the engine does ------------------------------------------------------

    def pass_time(self, seconds: float) -> None:
        """Let the work fail that was accepted since :meth:`fail`."""
        for path, text in self._texts().items() if self._failure else ():
            if text != self._before.get(path):
                path.write_text(json.dumps({**json.loads(text), 'trouble': self._failure}))
                self._failure = ''
                return

    def fail(self, reason: str) -> None:
        """Have the next work fail."""
        self._failure, self._before = reason, self._texts()

    def go_away(self) -> None:
        """Hide the folder behind a file of its name."""
        self._stacks.mkdir(exist_ok=True)
        self._stacks.rename(self.folder / 'hidden')
        self._stacks.touch()

    def come_back(self) -> None:
        """Show the folder again."""
        self._stacks.unlink()
        (self.folder / 'hidden').rename(self._stacks)

    def lose(self, cluster: Cluster) -> None:
        """Remove the file of a stack."""
        (self._stacks / f'{stack_of(cluster)}.json').unlink()

    # ---- what stands in the engine -------------------------------------------------

    def nodes(self, cluster: Cluster) -> Collection[EngineNode]:
        """Return a node for each machine; it has no name that lasts."""
        stack = self._stack(cluster)
        return [
            EngineNode(name=f'{group}-{number}', group=group, parameters={'theme': stack['theme']})
            for group, count in stack['built'].items()
            for number in range(count)
        ]

    def resources(self) -> Collection[str]:
        """Return the stacks and their machines."""
        found = []
        for path, text in self._texts().items():
            built = json.loads(text)['built']
            found += [path.name, *(f'{path.name}: {count} of {of}' for of, count in built.items())]
        return found

    def credentials(self, cluster: Cluster) -> str:
        """Return the account that a stack belongs to."""
        return str(self._stack(cluster)['account'])

    @property
    def _stacks(self) -> Path:
        return self.folder / 'stacks'

    def _texts(self) -> Mapping[Path, str]:
        return {path: path.read_text() for path in self._stacks.glob('*.json')}

    def _stack(self, cluster: Cluster) -> dict[str, Any]:
        path = self._stacks / f'{stack_of(cluster)}.json'
        stack: dict[str, Any] = {'built': {}, 'theme': ''}
        if path.is_file():
            stack = json.loads(path.read_text())
        return stack
