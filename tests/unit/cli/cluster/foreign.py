"""A site with a cluster driver of another author, in a directory as its guide describes."""

import json
import textwrap

from tests.unit.cli.cluster.driver_shell import write_driver
from tests.unit.cli.site_shell import SiteShell

#: What the source of each driver begins with.
HEAD = '''
import json
import pathlib

from kiln.cluster_drivers.base import ClusterDriver, NodeClusterDriver
from kiln.cluster_drivers.scale import ScaleManager
from kiln.cluster_drivers.templates.definition import TemplateDefinition
from kiln.cluster_drivers.values import Progress, StatusReport
from kiln.clusters.exceptions import ClusterDriverError
from kiln.clusters.models import NodeState

FOLDER = pathlib.Path({folder!r})


def record(*call):
    """Write a call down for the test."""
    with (FOLDER / 'calls').open('a') as file:
        file.write(json.dumps(call) + chr(10))


'''


class ForeignShell(SiteShell):
    """Installs the driver ``source`` as ``name``, with ``page`` as its cluster file."""

    name: str
    source: str
    cluster_file: str

    def setUp(self):
        super().setUp()
        self.install(self.name, self.source)
        with self.config.open('a') as file:
            file.write(f'driver_path = {self.folder}/drivers\n')
        self.page(self.cluster_file)

    def install(self, name, source):
        head = HEAD.replace('{folder!r}', repr(str(self.folder)))
        write_driver(self.folder / 'drivers' / name, head + textwrap.dedent(source))

    def calls(self, name=None):
        """Return the calls that the driver has written down."""
        path = self.folder / 'calls'
        lines = path.read_text().splitlines() if path.exists() else []
        found = [json.loads(line) for line in lines]
        return [one[1:] for one in found if one[0] == name] if name else found

    def forget_calls(self):
        (self.folder / 'calls').unlink(missing_ok=True)
