"""A site with a store, the drivers in tree, and a simulated cloud."""

import contextlib
import pathlib
import tempfile
import types
import unittest

from kiln.cluster_drivers.discovery.activation import DiscoverySettings
from kiln.cluster_drivers.discovery.discovery import discover
from kiln.cluster_file.reading import read
from kiln.cluster_service.drivers import SiteDrivers
from kiln.cluster_service.requests import Declare
from kiln.cluster_service.site import Site
from kiln.clusters.limits import DEFAULT_LIMITS
from kiln.clusters.models import OperationState
from kiln.compute.facade import Compute
from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.engine.context import Backends
from kiln.exceptions import ConfigurationError
from kiln.hooks.registry import Hooks
from tests.self_moving_clock import MovingTime
from tests.unit.db.case import open_new_store
from tests.unit.engine.site import SETTINGS, STACK

WEB = """\
cluster: web
coe: nodes
image: debian-13
nodegroups:
  - name: front
    count: 2
  - name: work
    flavors: {small: 2, large: 1}
    zones: {az1: 2, az2: 1}
"""
CLOUD = types.MappingProxyType(
    {
        'build_s': 0.02,
        'delete_s': 0.01,
        'zones': ('az1', 'az2'),
        'flavors': ('small', 'large'),
        'image_properties': {
            'debian': {'kiln_distro': 'debian'},
            'chosen': {'kiln_driver': 'nodes_v1', 'kiln_distro': 'debian'},
        },
    }
)


def declared(text):
    """Return the request of a cluster file."""
    file = read(text)
    (spec,) = file.clusters
    return Declare(spec=spec, templates=file.templates)


class SiteCase(MovingTime, unittest.TestCase):
    """User requests, and their plans."""

    cloud_options = CLOUD
    settings = SETTINGS
    check_timeout_s = 30.0
    limits = DEFAULT_LIMITS
    conducts = False
    #: How long an operation is allowed to take.
    longest_s = 30.0

    def setUp(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.driver_path = folder / 'drivers'
        self.driver_path.mkdir()
        self.store_url = f'sqlite:///{folder}/kiln.db'
        self.clock = self.open_clock()
        self.cloud = NoopCloud(clock=self.clock, **self.cloud_options)
        self.site = self.open_site()
        self.clusters = self.site.clusters
        if self.conducts:
            self.enterContext(self.site.conducting())

    def open_site(self):
        """Open the site as another process would."""
        site = Site(
            open_new_store(self.store_url, clock=self.clock),
            SiteDrivers(self.discover),
            Backends(self.open_backend, default='noop', clock=self.clock),
            clock=self.clock,
            settings=self.settings,
            open_hooks=lambda: Hooks(clock=self.clock),
            check_timeout_s=self.check_timeout_s,
            limits=self.limits,
        )
        self.addCleanup(site.close)
        return site

    def discover(self):
        return discover(DiscoverySettings(driver_path=(self.driver_path,)))

    def open_backend(self, name):
        if name != 'noop':
            raise ConfigurationError(f'Cannot open backend {name!r}: it does not exist.')
        return Compute(NoopDriver(cloud=self.cloud), settings=STACK)

    def plan(self, text=WEB):
        return self.clusters.plan(declared(text))

    def lines(self, request):
        return list(self.clusters.plan(request).lines())

    def apply(self, request):
        return self.clusters.apply(self.clusters.plan(request))

    def ended(self, operation, *, timeout_s=20.0):
        """Return an operation once it has ended, in whichever process it runs."""
        give_up = self.clock.monotonic() + timeout_s
        while not (found := self.clusters.operation(operation.id)).state.ended:
            self.assertLess(self.clock.monotonic(), give_up, f'{found} has not ended')
            self.clock.sleep(0.2)
        return found


class ConductedCase(SiteCase):
    """... and an engine that works."""

    conducts = True

    def up(self, text=WEB):
        return self.done(declared(text))

    def done(self, request, state=OperationState.SUCCEEDED):
        """Apply a request; return its operation once it has ended."""
        operation = self.apply(request)
        ended = self.ended(operation, timeout_s=self.longest_s)
        self.assertIs(state, ended.state, ended.cause)
        return ended

    def machines(self):
        with contextlib.closing(NoopDriver(cloud=self.cloud)) as driver:
            return list(driver.list_amphorae())
