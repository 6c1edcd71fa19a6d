"""Crash tests of clusters on the real Nova and on Noop: site and scenario."""

import contextlib
import dataclasses
from collections.abc import Mapping
from pathlib import Path

import kiln
from kiln.compute.backends import stack_settings
from kiln.compute.facade import Compute
from kiln.compute_drivers.nova.driver import NovaDriver
from kiln.engine.context import EngineSettings
from kiln.testing.clusters import Site
from kiln.testing.clusters.behaviours.crashes import AtRandom
from kiln.testing.clusters.simulation.operations import CREATE, DELETE, REPLACE, RESIZE
from tests.functional.nova.site import options_of

#: Nova takes seconds where the simulated cloud takes none.
SLOW = EngineSettings(lease_s=3.0, quiesce_s=1.0, poll_s=0.2, settle_s=1.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class NovaSite(Site):
    """A site with its store in a folder and its machines on Nova; can be pickled."""

    settings: EngineSettings = SLOW
    #: The options of the backend, by name.
    options: Mapping[str, object]
    #: The kiln site that owns the machines.
    owner: str

    backend = 'nova'
    driver_class = NovaDriver

    def open_backend(self, faults=()):
        options = options_of(self.options, self.driver_class)
        return Compute(self.open_driver(), settings=stack_settings(options))

    def open_driver(self):
        options = options_of(self.options, self.driver_class)
        return self.driver_class.open(options, name=self.backend, owner=self.owner)

    def machines(self):
        with contextlib.closing(self.open_driver()) as driver:
            return tuple(driver.list_amphorae())


def options_for(case):
    """Return the options of the backend of a site, for the cloud of a test."""
    return {
        **case.cloud.auth(case.who),
        'valid_interfaces': ['public'],
        'networks': [case.net_id],
        'flavor': 'tiny',
        'image': 'tiny',
        'timeout': 120.0,
        'watch_interval': 0.5,
        'watch_max_interval': 2.0,
    }


class ClusterLifecycle(AtRandom):
    """Clusters that are created, resized, repaired and deleted while processes are killed."""

    driver = str(Path(kiln.__file__).parent / 'cluster_drivers' / 'nodes_v1')
    life = (CREATE, RESIZE, REPLACE, DELETE)
    #: Changes of the cloud itself are not checked.
    troubles: Mapping[str, tuple[str, ...]] = {}
    within_s = 120.0
