"""A site in a folder, which can be copied: a store, a simulated cloud, and what stands in both."""

import collections
import contextlib
import pathlib
import shutil

from kiln.clusters.models import NodeState
from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.db.store import open_store

CONFIG = """\
[compute]
default_backend = noop
owner = us
[compute:noop]
path = {folder}/cloud.db
build_s = 0.03
delete_s = 0.02
[db]
url = {url}
key_file = {folder}/kiln.keys
[clusters]
lease = 5
quiesce = 0
"""
#: A site whose conductors are killed, or lose their clocks, under a cloud that fails at times.
ROUGH = """\
[compute]
default_backend = noop
owner = us
[compute:noop]
path = {folder}/cloud.db
accept_s = 0.05
circuit_open = 0.2
circuit_open_max = 0.5
faults = {faults}
[db]
url = {url}
key_file = {folder}/kiln.keys
[clusters]
lease = {lease}
quiesce = {quiesce}
operation_timeout = 10000000
"""
WEB = """\
cluster: {name}
driver: example_v1
image: {image}
flavor: small
nodegroups:
  - {{name: work, count: {count}{more}}}
"""
#: Nodes that fail are replaced, however many they are.
NO_BRAKE = ', health: {max_unhealthy: 100%}'


class SiteFolder:
    """A folder with a configuration, cluster files, a store and a cloud."""

    def __init__(self, path, config=CONFIG, *, url=None, **options):
        self.path = pathlib.Path(path)
        self.path.mkdir(exist_ok=True)
        self.url = url or f'sqlite:///{self.path}/kiln.db'
        self.more = ''
        self.config = self.path / 'kiln.conf'
        self.config.write_text(config.format(folder=self.path, url=self.url, **options))

    def page(self, name='web', count=3, image='one'):
        path = self.path / f'{name}-{count}-{image}.yaml'
        path.write_text(WEB.format(name=name, count=count, image=image, more=self.more))
        return str(path)

    def argv(self, *words):
        """Return the words of a command; ``{folder}`` in them is that of the site."""
        return [
            '--config-file',
            str(self.config),
            *(one.format(folder=self.path) for one in words),
        ]

    def copied(self, path, url=None):
        """Return a copy, with the same or another store; nobody uses the original meanwhile."""
        shutil.copytree(self.path, path)
        return SiteFolder(path, url=url)

    def store(self):
        return open_store(self.url, keys=self.path / 'kiln.keys')

    def standing(self):
        """Return what stands: clusters with their counts and images, and machines by image.

        Names and ids are chosen by chance, so they are left out.
        """
        with contextlib.closing(self.store()) as store:
            clusters = store.clusters.list()
            found, machines = {}, 0
            for cluster in clusters:
                nodes = [one for one in store.nodes.of(cluster.id)
                         if one.state is not NodeState.GONE]  # fmt: skip
                machines += len(nodes)
                counted = collections.Counter((one.group, one.state.value) for one in nodes)
                groups = [(group.name, group.shape.count) for group in cluster.spec.groups]
                found[cluster.name] = (groups, cluster.spec.machine.image, sorted(counted.items()))
            under_way = [one.kind.value for each in clusters
                         for one in store.operations.open(each.id)]  # fmt: skip
        with contextlib.closing(NoopCloud(str(self.path / 'cloud.db'))) as cloud:
            count = cloud.count()
        return found, under_way, count == machines
