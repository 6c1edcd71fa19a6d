"""Bench of Heat drivers on the real Heat of the development cloud."""

import atexit
import contextlib
import functools
import json
import os
import time
import uuid

import keystoneauth1.session
from keystoneauth1.identity import v3

from kiln.cluster_drivers.heat.connections import Connections
from kiln.cluster_drivers.heat.names import site_tag, stack_name
from kiln.cluster_drivers.heat.poller import TICK_S, HeatPoller
from kiln.cluster_drivers.heat.settings import settings_of
from kiln.clusters.spec import MachineSpec
from kiln.testing.clusters.engine_bench import EngineBench, EngineNode
from tests.functional.cloud import Cloud
from tools.devcloud.place import default_home

#: Real seconds that Heat is given for what takes no longer than 5 s of the kit's clock.
REAL_S = 6.0
#: Seconds after which stacks that do not go are left to the cloud.
LEAVE_S = 120.0
SERVER = 'OS::Nova::Server'
GENERATED_FILE = """\
cluster: kit
image: tiny
flavor: tiny
networks: [net1]
nodegroups:
  - name: control
    role: control
    count: 1
  - name: work
    count: 3
"""
WEB_FILE = """\
cluster: kit
image: tiny
flavor: tiny
networks: [net1]
parameters: {theme: dark}
nodegroups:
  - name: worker
    count: 3
"""


@functools.cache
def cloud():
    """Return the development cloud, which is up."""
    return Cloud(default_home())


#: The variable by which processes that this one starts know its project.
PROJECT = 'KILN_HEAT_PROJECT'


@functools.cache
def project():
    """Return the name of a project of this process, and of those it starts; it goes with it.

    Names of stacks belong to a project, and the kit gives the same ones to all clusters.
    """
    if PROJECT in os.environ:
        return os.environ[PROJECT]
    made = f'heat-{uuid.uuid4().hex[:8]}'
    found = _identity('/projects', 'POST', json={'project': {'name': made}}).json()['project']
    (user,) = _identity('/users', params={'name': 'demo'}).json()['users']
    for role in ('member', 'heat_stack_owner'):
        (known,) = _identity('/roles', params={'name': role}).json()['roles']
        _identity(f'/projects/{found["id"]}/users/{user["id"]}/roles/{known["id"]}', 'PUT')
    atexit.register(_leave, found['id'])
    os.environ[PROJECT] = made
    return made


def _leave(id_):
    """Delete the stacks of the project that failed tests have left, and the project."""
    end = time.monotonic() + LEAVE_S
    # A later suite can have put the cloud back to where no such project is.
    gone = (keystoneauth1.exceptions.Unauthorized, keystoneauth1.exceptions.NotFound)
    with contextlib.suppress(*gone):
        while (found := ask('/stacks')['stacks']) and time.monotonic() < end:
            for one in found:
                remove(one)
            time.sleep(2)
        _identity(f'/projects/{id_}', 'DELETE')


def _identity(path, method='GET', **more):
    return (
        cloud()
        .session()
        .request(path, method, endpoint_filter={'service_type': 'identity'}, **more)
    )


def forget_project():
    """Have another project made: the cloud was put back to where no such one is."""
    project.cache_clear()
    os.environ.pop(PROJECT, None)
    session.cache_clear()


def auth():
    """Return how a user of the project authenticates."""
    return {**cloud().auth('kiln-user'), 'project_name': project()}


def credentials():
    """Return the document of a secret with the credentials of a user of the project."""
    # JSON is YAML.
    return json.dumps({**auth(), 'auth_type': 'password', 'timeout': 60})


class OneSecret:
    """A store with these credentials under each name."""

    def get(self, name):
        return credentials()


@functools.cache
def session():
    """Return a session of that user."""
    return keystoneauth1.session.Session(v3.Password(**auth()))


def ask(path, method='GET', *, service='orchestration', **more):
    """Return the JSON of an answer of Heat, or of another service, past the driver."""
    found = session().request(
        path, method, endpoint_filter={'service_type': service}, raise_exc=False, **more
    )
    return found.json() if found.content else None


def stacks(site):
    """Return the stacks of a site."""
    return ask('/stacks', params={'tags': site_tag(site)})['stacks']


def remove(stack):
    """Have a stack deleted."""
    ask(f'/stacks/{stack["stack_name"]}/{stack["id"]}', 'DELETE')


def servers(stack):
    """Return the servers of a stack and its nested ones, as resources."""
    path = f'/stacks/{stack["stack_name"]}/{stack["id"]}/resources'
    found = ask(path, params={'nested_depth': 5})['resources']
    return [one for one in found if one['resource_type'] == SERVER]


def nodes_of(stack):
    """Return the servers of a stack by the names of their nodes, as Nova has them."""
    there = {one['physical_resource_id'] for one in servers(stack)}
    found = ask('/servers/detail', service='compute')['servers']
    return {one['metadata']['kiln:node']: one['id'] for one in found if one['id'] in there}


class RealHeatBench(EngineBench):
    """The real Heat, on a clock of its own."""

    cluster_file = GENERATED_FILE
    other = MachineSpec(flavor='small')
    takes_s = 600.0
    refused = (MachineSpec(parameters={'colour': 'red'}),)

    def open(self):
        driver = super().open()
        driver.connections = Connections(lambda document: settings_of(credentials()))
        driver.poller = HeatPoller(self.clock)
        return driver

    def pass_time(self, seconds):
        end = time.monotonic() + REAL_S
        while time.monotonic() < end:
            if not any(one['stack_status'].endswith('IN_PROGRESS') for one in stacks('kit')):
                return
            time.sleep(0.5)

    def lose(self, cluster):
        for one in stacks('kit'):
            if one['stack_name'] == stack_name('kit', cluster.id):
                remove(one)
        self.pass_time(REAL_S)
        self.clock.advance(TICK_S)

    def nodes(self, cluster):
        for stack in stacks('kit'):
            if stack['stack_name'] == stack_name('kit', cluster.id):
                for one in servers(stack):
                    # INIT_COMPLETE has no server so far.
                    if one['physical_resource_id'] and one['resource_status'].endswith('COMPLETE'):
                        yield self.node_of(one)

    def node_of(self, one):
        name = one['resource_name']
        return EngineNode(name=name, id=one['physical_resource_id'], group=name.rpartition('-')[0])

    def resources(self):
        return [
            f'{stack["stack_name"]}.{name}'
            for stack in stacks('kit')
            for name in ('stack', *(one['physical_resource_id'] for one in servers(stack)))
        ]


class RealGroupBench(RealHeatBench):
    """The same for the driver with one resource group."""

    def node_of(self, one):
        (server,) = [
            server
            for server in ask('/servers/detail', service='compute')['servers']
            if server['id'] == one['physical_resource_id']
        ]
        metadata = server['metadata']
        return EngineNode(
            name=metadata['kiln:node'], id=server['id'], group=metadata['kiln:group']
        )


class RealWebBench(RealHeatBench):
    """The same for the example without Python."""

    cluster_file = WEB_FILE
    refused = (MachineSpec(parameters={'theme': 'blue'}),)

    def node_of(self, one):
        return EngineNode(
            name=one['parent_resource'], id=one['physical_resource_id'], group='worker'
        )
