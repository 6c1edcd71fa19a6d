"""Clusters, contexts and drivers for tests of Heat."""

import dataclasses

from kiln.cluster_drivers.heat.connections import Connections
from kiln.cluster_drivers.heat.poller import HeatPoller
from kiln.cluster_drivers.heat.settings import settings_of
from kiln.cluster_drivers.heat_generated_v1.driver import Driver
from kiln.cluster_file.reading import read
from kiln.testing.clock import VirtualClock
from kiln.testing.clusters import samples

FILE = """\
cluster: shop
image: debian-12
flavor: small
networks: [net1]
nodegroups:
  - {name: control, role: control, count: 1}
  - {name: work, count: 3}
"""


def spec_of(text=FILE):
    """Return the cluster of a file."""
    (found,) = read(text).clusters
    return found


def cluster_of(text=FILE, *, id_='c1', **changes):
    """Return a cluster as the store has it."""
    spec = spec_of(text)
    made = samples.cluster(Driver, spec.machine, 0, id_=id_)
    return dataclasses.replace(made, name=spec.name, spec=spec, **changes)


def context(**more):
    """Return the context of a call, with credentials."""
    return samples.context(credentials='heat', **{'site': 'east', **more})


def client_settings(url, **more):
    """Return settings of a client of a played Heat."""
    lines = {
        'auth_type': 'none', 'orchestration_endpoint_override': url, 'timeout': 5, **more,
    }  # fmt: skip
    return settings_of('\n'.join(f'{name}: {value}' for name, value in lines.items()))


def generated(heat, clock=None):
    """Return the generated driver on a played Heat."""
    return on_heat(Driver, heat, clock)


def on_heat(driver_class, heat, clock=None):
    """Return a driver on a played Heat."""
    driver = driver_class.open()
    driver.connections = Connections(lambda document: client_settings(heat.url))
    driver.poller = HeatPoller(clock or VirtualClock())
    return driver
