"""Base of tests of foreign cluster drivers by commands alone: drivers are files of a folder."""

import textwrap

from tests.unit.cli.site_shell import SiteShell

WEB = """\
cluster: web
driver: {driver}
image: debian-13
nodegroups:
  - name: boss
    role: control
    count: 1
  - name: work
    count: 2
"""

#: An engine of its own that keeps stacks in a file; a stack is done when it is requested.
STACK = """\
import json, pathlib
from kiln.cluster_drivers.base import ClusterDriver
from kiln.cluster_drivers.values import *

ENGINE = pathlib.Path(__file__).parents[2] / 'engine.json'


class Driver(ClusterDriver):
    name, version = 'stack_v1', '1.0.0'
    provides = [('*', '*', 'stack')]

    def stacks(self):
        return json.loads(ENGINE.read_text()) if ENGINE.exists() else {}

    def write(self, cluster, state):
        ENGINE.write_text(json.dumps(self.stacks() | {cluster.id: state}))

    def create_cluster(self, context, cluster, cluster_create_timeout):
        self.write(cluster, 'complete')
        handle = 'stack of ' + cluster.name
        return StatusReport(progress=Progress.IN_PROGRESS, driver_handle=handle)

    def update_cluster(self, context, cluster, scale_manager=None, rollback=False):
        self.write(cluster, 'complete')
        return StatusReport(progress=Progress.IN_PROGRESS)

    def delete_cluster(self, context, cluster):
        self.write(cluster, 'complete')
        return StatusReport(progress=Progress.IN_PROGRESS)

    def update_cluster_status(self, context, cluster):
        state = self.stacks().get(cluster.id, 'failed')
        return StatusReport(progress=Progress(state), reason='the stack is ' + state)
"""

#: Machines with nothing on them.
BARE = """\
from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.cluster_drivers.scale import ScaleManager
from kiln.cluster_drivers.templates.definition import TemplateDefinition
from kiln.cluster_drivers.values import *
from kiln.cluster_drivers.verbs import Verb
from kiln.clusters.exceptions import ClusterDriverError


class Driver(NodeClusterDriver):
    name, version = 'bare_v1', '1.0.0'
    provides = [('*', '*', 'bare')]

    def get_template_definition(self):
        return TemplateDefinition(directory=None)

    def bootstrap(self, context, cluster, node):
        return Bootstrap()

    def validate(self, context, cluster, plan):
        return ()
"""


def write_driver(folder, code):
    """Write a cluster driver whose code is one file, in a folder of its name."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / 'version.py').write_text(f"version = '1.0.0'\ndriver = '{folder.name}'\n")
    (folder / 'driver.py').write_text(code)
    return folder / 'driver.py'


class DriverShell(SiteShell):
    """Has ``install`` for a driver, and its name in the cluster file."""

    def setUp(self):
        super().setUp()
        self.drivers = self.folder / 'drivers'
        with self.config.open('a') as config:
            config.write(f'driver_path = {self.drivers}\n')

    def install(self, source, *methods, name=None):
        """Install a driver, with methods that are written after its own; use it for web."""
        name = name or source.partition("name, version = '")[2].partition("'")[0]
        text = source + ''.join(
            '\n' + textwrap.indent(textwrap.dedent(one).strip('\n'), '    ') + '\n'
            for one in methods
        )
        self.page(WEB.format(driver=name))
        return write_driver(self.drivers / name, text)

    def place(self, file, code):
        """Return the file and line of some code, as errors name it."""
        lines = file.read_text().splitlines()
        (line,) = (number for number, one in enumerate(lines, 1) if code in one)
        return f'{file}:{line}'

    def why(self):
        return self.ok('why', 'web')

    def machines(self):
        return self.json('compute', 'list')
