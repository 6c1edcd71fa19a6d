"""Driver records as discovery returns them, and a base for tests of selection."""

import unittest

from kiln.cluster_drivers.records import ClusterType, DriverRecord, DriverState
from kiln.cluster_drivers.selection.request import Image, Request
from kiln.cluster_drivers.selection.selection import resolve

UBUNTU = ('vm', 'ubuntu', 'kubernetes')
FLATCAR = ('vm', 'flatcar', 'kubernetes')
SWARM = ('vm', 'fedora-atomic', 'swarm')


def driver(name, *provides, version='1.0.0', state='active', reason='', **more):
    """Return the record of a driver that provides these tuples."""
    more.setdefault('origin', f'package {name.replace("_", "-")} {version}')
    return DriverRecord(
        name=name,
        version=version,
        digest=f'digest of {name} {version}',
        state=DriverState(state),
        reason=reason,
        provides=tuple(ClusterType(*offer) for offer in provides),
        **more,
    )


def image(**properties):
    """Return an image with these properties."""
    return Image(id='7c1e', name='ubuntu-24.04', properties=properties)


HELM = driver('k8s_capi_helm_v1', UBUNTU, FLATCAR, version='1.4.0')
HEAT = driver(
    'k8s_ubuntu_v1',
    UBUNTU,
    version='2.0.1',
    origin='directory /usr/share/kiln/drivers/k8s_ubuntu_v1',
)
SWARMS = driver('swarm_atomic_v1', SWARM)
KUBERNETES = Request(coe='kubernetes')


class SelectionCase(unittest.TestCase):
    def choose(self, *records, request=KUBERNETES, **inputs):
        inputs.setdefault('image', image(kiln_distro='ubuntu'))
        return resolve(request, records=records, **inputs)

    def chosen(self, *records, **inputs):
        return self.choose(*records, **inputs).pin.name

    def refused(self, kind, *records, **inputs):
        with self.assertRaises(kind) as caught:
            self.choose(*records, **inputs)
        self.assertIs(kind, type(caught.exception))
        return str(caught.exception)
