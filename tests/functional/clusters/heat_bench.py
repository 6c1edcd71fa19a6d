"""Bench of Heat drivers on a Heat that is played, and a driver of a folder."""

import functools

from kiln.cluster_drivers.heat.connections import Connections
from kiln.cluster_drivers.heat.names import stack_name
from kiln.cluster_drivers.heat.poller import TICK_S, HeatPoller
from kiln.cluster_drivers.heat.settings import settings_of
from kiln.cluster_drivers.heat_generated_v1.driver import Driver as GeneratedDriver
from kiln.clusters.spec import MachineSpec
from kiln.testing.clusters import samples
from kiln.testing.clusters.engine_bench import EngineBench, EngineNode
from tests.unit.cluster_drivers.heat.fake_heat import SERVER, FakeHeat

GENERATED_FILE = """\
cluster: kit
image: kit-1
flavor: small
networks: [net1]
nodegroups:
  - name: control
    role: control
    count: 1
  - name: work
    count: 3
"""


def read_credentials(url, document):
    """Return the settings with a secret of the kit as the password: it is not a document."""
    return settings_of(
        f'auth_type: http_basic\nusername: kit\npassword: {document}\n'
        f'orchestration_endpoint_override: {url}\n'
    )


class HeatBench(EngineBench):
    """A played Heat; it works while the clock of the kit moves."""

    cluster_file = GENERATED_FILE
    refused = (
        MachineSpec(parameters={'colour': 'red'}),
        MachineSpec(parameters={'user_data': 7}),
    )

    def __init__(self, driver_class, folder, clock):
        super().__init__(driver_class, folder, clock)
        address = folder / 'heat.url'
        self.heat = None
        # Another process finds the server of the first one.
        if not address.exists():
            self.heat = FakeHeat().__enter__()
            address.write_text(self.heat.url)
        self.url = address.read_text()

    def open(self):
        driver = super().open()
        driver.connections = Connections(functools.partial(read_credentials, self.url))
        driver.poller = HeatPoller(self.clock)
        return driver

    def close(self):
        if self.heat is not None:
            self.heat.__exit__()

    # ---- what the engine does ------------------------------------------------------

    def pass_time(self, seconds):
        self.heat.work(seconds)

    def fail(self, reason):
        self.heat.fail(reason)

    def go_away(self):
        self.heat.away = True
        # What a list has said is true until the next one.
        self.clock.advance(TICK_S)

    def come_back(self):
        self.heat.away = False

    def lose(self, cluster):
        stack = self._stack(cluster)
        del self.heat.stacks[stack['id']]
        self.clock.advance(TICK_S)

    # ---- what stands in the engine -------------------------------------------------

    def nodes(self, cluster):
        stack = self._stack(cluster)
        for name, one in (stack or {'live': {}})['live'].items():
            if one['type'] == SERVER:
                yield self.node_of(name, one)

    def node_of(self, name, one):
        properties = one['properties']
        return EngineNode(
            name=name, id=one['id'], group=properties['metadata']['kiln:group'],
            image=properties['image'], flavor=properties['flavor'],
        )  # fmt: skip

    def resources(self):
        return [
            f'{stack["name"]}.{name}'
            for stack in self.heat.stacks.values()
            for name in ('stack', *stack['live'])
        ]

    def outputs(self, cluster):
        return {'nodes': dict(self._addresses(cluster))}

    def _addresses(self, cluster):
        """Yield the name and the address of each server."""
        live = self._stack(cluster)['live']
        servers = sorted(name for name, one in live.items() if one['type'] == SERVER)
        for number, name in enumerate(servers, 1):
            yield name, f'192.0.2.{number}'

    def make_existing(self, cluster):
        definition = self.open().template_definition.extract_definition(
            samples.context(site='kit'), cluster
        )
        return self.heat.make(f'by-hand-{cluster.id}', definition)['name']

    def _stack(self, cluster):
        return self.heat.named(cluster.driver_handle or stack_name('kit', cluster.id))


class Generated(GeneratedDriver):
    """The generated driver on the played Heat."""

    bench = 'tests.functional.clusters.heat_bench:HeatBench'


class GroupBench(HeatBench):
    """The same for the driver with one group: a node is a member by its index."""

    def node_of(self, name, one):
        properties = one['properties']
        group, index = properties['metadata']['kiln:node']['list_join'][1]
        return EngineNode(
            name=f'{group}-{index}', id=one['id'], group=group, image=properties['image'],
            flavor=properties['flavor'],
        )  # fmt: skip

    def outputs(self, cluster):
        live = self._stack(cluster)['live']
        found = self._addresses(cluster)
        return {'nodes': {self.node_of(name, live[name]).name: ip for name, ip in found}}


WEB_FILE = """\
cluster: kit
image: kit-1
flavor: small
networks: [net1]
parameters: {theme: dark}
nodegroups:
  - name: worker
    count: 3
"""


SWARM_FILE = """\
cluster: kit
image: kit-1
flavor: small
networks: [net1]
nodegroups:
  - name: managers
    role: control
    count: 1
  - name: workers
    count: 3
"""


class SwarmBench(HeatBench):
    """The same for the example without Python whose nodes can be named."""

    cluster_file = SWARM_FILE
    refused = (
        MachineSpec(parameters={'colour': 'red'}),
        MachineSpec(parameters={'forget_after': 'soon'}),
    )

    def node_of(self, name, one):
        group, _, number = name.partition('.')
        properties = one['properties']
        return EngineNode(
            name=f'{group}-{number}', id=one['id'], group=group, image=properties['image'],
            flavor=properties['flavor'],
        )  # fmt: skip

    def outputs(self, cluster):
        found = {'managers': {}, 'workers': {}}
        for name, address in self._addresses(cluster):
            found[name.partition('.')[0]][name.replace('.', '-')] = address
        return found


class WebBench(HeatBench):
    """The same for the example without Python: Heat itself chooses which members go."""

    cluster_file = WEB_FILE
    refused = (
        MachineSpec(parameters={'colour': 'red'}),
        MachineSpec(parameters={'theme': 'blue'}),
        MachineSpec(keys=('kit',)),
    )

    def node_of(self, name, one):
        properties = one['properties']
        return EngineNode(
            name=name, id=one['id'], group=one['group'], image=properties['image'],
            flavor=properties['flavor'],
        )  # fmt: skip

    def outputs(self, cluster):
        return {'addresses': ['192.0.2.1'] * len(self._stack(cluster)['live'])}
