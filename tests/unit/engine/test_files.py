"""Files that a driver puts on machines reach them."""

import threading

from kiln.cluster_drivers.values import Bootstrap
from kiln.compute.facade import Compute
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.models import InjectedFile
from tests.unit.engine.site import STACK, Plain, Site, group

FILE = InjectedFile(path='/etc/node', content=b'here', mode=0o600, owner='node')


class WithFile(Plain):
    """Puts one file on each machine."""

    def bootstrap(self, context, cluster, node):
        return Bootstrap(user_data=b'#!/bin/sh', files=(FILE,))


class Files(Site):
    driver = WithFile()

    def setUp(self):
        self.requests = []
        self.lock = threading.Lock()
        super().setUp()

    def open_backend(self, name):
        site = self

        class Noting(NoopDriver):
            def _build(self, request):
                with site.lock:
                    site.requests.append(request)
                return super()._build(request)

        return Compute(Noting(cloud=self.cloud), settings=STACK)

    def test_each_machine_gets_the_files_with_their_permissions(self):
        self.assert_whole(self.created(group(2)), 2)
        self.assertEqual([(FILE,)] * 2, [request.files for request in self.requests])
