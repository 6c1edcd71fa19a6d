"""A kiln site on a real engine, behind a proxy that injects faults on demand."""

import contextlib
import functools
import json
import pathlib
import tempfile
import unittest
import uuid
from types import MappingProxyType

import docker
from oslo_config import cfg

import kiln.conf
from kiln.compute.backends import stack_settings
from kiln.compute.facade import Compute
from kiln.compute_drivers.authoring.bench import Refusal
from kiln.compute_drivers.calls import Call
from kiln.compute_drivers.docker.driver import DockerDriver
from kiln.conf import compute as compute_conf
from kiln.models import ImageFile, State
from kiln.testing.proxy import Answer, FaultProxy
from tests.functional.docker.relay import Relay
from tests.functional.engines import COMMAND, engine, make_network, plain_tar
from tests.functional.proxy_bench import ProxyBench

GROUP = 'compute:docker'
#: The path of requests about one container, as opposed to lists.
ONE = r'/containers/[^/]+/json'
PLAIN = 'kiln-tests/plain:1'
FLAVORS = 'tiny: 0.5 cpu, 32 MiB, 64 pids; small: 1 cpu, 64 MiB'


def options_of(**given):
    """Return the options of a backend, with defaults for those not given."""
    conf = cfg.ConfigOpts()
    conf([], default_config_files=[])
    kiln.conf.register(conf, GROUP, compute_conf.BACKEND_OPTS)
    kiln.conf.register(conf, GROUP, DockerDriver.options)
    for name, value in given.items():
        conf.set_override(name, value, GROUP)
    return conf[GROUP]


@functools.cache
def plain_image(url, name=PLAIN, **properties):
    """Make the plain image on the engine; return its id."""
    driver = DockerDriver(options_of(url=url))
    with tempfile.TemporaryDirectory() as folder:
        path = plain_tar(pathlib.Path(folder, 'plain.tar'))
        try:
            return driver.import_image(
                ImageFile(name=name, path=path, command=COMMAND, properties=properties)
            )
        finally:
            driver.close()


class EngineCase(unittest.TestCase):
    """Drivers on one engine, all through one proxy unless they bypass it."""

    engine_kind = 'docker'
    clock = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.place = engine(cls.engine_kind)
        cls.image_id = plain_image(cls.place.url)
        cls.relay = Relay(cls.place.socket)
        cls.addClassCleanup(cls.relay.close)
        cls.proxy = FaultProxy(f'http://127.0.0.1:{cls.relay.port}')
        cls.proxy.start()
        cls.addClassCleanup(cls.proxy.close)
        cls.bare = docker.APIClient(base_url=cls.place.url, version='auto')
        cls.addClassCleanup(cls.bare.close)
        cls.network = cls.make_network()

    @classmethod
    def make_network(cls, **labels):
        name = f'kit-{uuid.uuid4().hex[:8]}'
        made = make_network(cls.bare, name, labels or None)
        cls.addClassCleanup(cls.drop_network, made)
        return name

    @classmethod
    def drop_network(cls, network):
        with contextlib.suppress(docker.errors.APIError):
            cls.bare.remove_network(network)

    def setUp(self):
        super().setUp()
        self.owner = f't-{uuid.uuid4().hex[:8]}'
        self.addCleanup(self.assert_nothing_left)
        self.addCleanup(self.heal)

    def heal(self):
        for rule in self.proxy.faults:
            rule.remove()
        self.proxy.up()
        self.proxy.forget()

    def assert_nothing_left(self):
        """Remove a test's own leftovers, then check that kiln left nothing."""
        for found in self.containers():
            with contextlib.suppress(docker.errors.APIError):
                self.bare.remove_container(found['Id'], v=True, force=True)
        wanted = {'label': [f'kiln.owner={self.owner}']}
        self.assertFalse(self.bare.volumes(filters=wanted).get('Volumes'))

    def containers(self, **labels):
        """Return the engine's containers, read around the proxy."""
        wanted = [f'{key}={value}' for key, value in {'kiln.owner': self.owner, **labels}.items()]
        return self.bare.containers(all=True, filters={'label': wanted})

    def options(self, **given):
        defaults = {
            'url': self.proxy.url.replace('http:', 'tcp:'),
            'image': PLAIN,
            'flavors': FLAVORS,
            'timeout': 30.0,
            'stop_timeout': 1,
        }
        return options_of(**{**defaults, **given})

    def open_driver(self, **given):
        driver = DockerDriver.open(self.options(**given), name='docker', owner=self.owner)
        self.addCleanup(driver.close)
        return driver

    def open_local(self, **given):
        return self.open_driver(url=self.place.url, **given)

    def open_compute(self, **given):
        options = self.options(**given)
        driver = DockerDriver.open(options, name='docker', owner=self.owner)
        compute = Compute(driver, settings=stack_settings(options))
        self.addCleanup(compute.close, 5)
        return compute

    def said_in(self, container_id, *command):
        """Return the output of a command inside a container, which must have some.

        Podman loses output at times, so the command is repeated until it prints something.
        """
        for _ in range(20):
            made = self.bare.exec_create(container_id, list(command))
            if said := self.bare.exec_start(made['Id']).decode():
                return said
        raise AssertionError(f'{command} printed nothing')


_REQUESTS = {
    Call.BUILD: ('POST', '/containers/create'),
    Call.DELETE: ('DELETE', '/containers/[^/]+'),
    Call.GET: ('GET', ONE),
    Call.STATUS: ('GET', ONE),
    Call.LIST: ('GET', '/containers/json'),
    Call.FIND: ('GET', '/containers/json'),
    Call.FIND_BUILD: ('GET', ONE),
    Call.CHANGES: ('GET', '/containers/json'),
    Call.STATUSES: ('GET', f'/containers/json|{ONE}'),
    Call.CHECK: ('GET', '/info'),
    Call.DELETE_RESOURCE: ('DELETE', '/(volumes|networks)/.+'),
}
#: Status and words of an engine that refuses a request.
_REFUSALS = {
    Refusal.WRONG: (400, 'invalid reference format'),
    Refusal.UNKNOWN: (404, 'No such image: nothing:latest'),
    Refusal.NO_LOGIN: (401, 'unauthorized'),
    Refusal.FORBIDDEN: (403, 'authorization denied by plugin'),
    Refusal.CONFLICT: (409, 'it is being changed'),
    Refusal.BROKEN: (500, 'something went wrong'),
}
#: What an inspect tells of a container, by a word for its state.
_TOLD = {
    'created': {'Status': 'created'},
    'never started': {'Status': 'created', 'Error': 'no such command', 'ExitCode': 127},
    'starting': {'Status': 'running', 'Health': {'Status': 'starting'}},
    'unhealthy': {'Status': 'running', 'Health': {'Status': 'unhealthy'}},
    'restarting': {'Status': 'restarting', 'ExitCode': 0},
    'failing': {'Status': 'restarting', 'ExitCode': 1},
    'paused': {'Status': 'paused'},
    'ended': {'Status': 'exited', 'ExitCode': 0},
    'killed': {'Status': 'exited', 'ExitCode': 137},
    'failed': {'Status': 'exited', 'ExitCode': 1},
    'out of memory': {'Status': 'exited', 'ExitCode': 137, 'OOMKilled': True},
    'removing': {'Status': 'removing'},
    'dead': {'Status': 'dead'},
    'of a later version': {'Status': 'frozen'},
}


class DockerBench(ProxyBench):
    """Makes the real engine fail, by faults of the proxy."""

    requests = _REQUESTS
    states = MappingProxyType(
        {
            'created': State.BUILDING, 'never started': State.ERROR, 'starting': State.ACTIVE,
            'unhealthy': State.ERROR, 'restarting': State.ACTIVE, 'failing': State.ERROR,
            'paused': State.SUSPENDED, 'ended': State.STOPPED, 'killed': State.STOPPED,
            'failed': State.ERROR, 'out of memory': State.ERROR, 'removing': State.DELETING,
            'dead': State.ERROR, 'of a later version': State.UNKNOWN,
        }
    )  # fmt: skip
    _told = None

    def refuse_for(self, call, reason):
        status, said = _REFUSALS[reason]
        self.fail_next(call, Answer(status, body=json.dumps({'message': said})))
        return status

    def enter_state(self, amphora_id, state):
        # An engine brings no container into most of them on demand.
        found = self.case.bare.inspect_container(amphora_id)
        answer = Answer(200, body=json.dumps({**found, 'State': _TOLD[state]}))
        self.leave_state()
        self._told = self.case.proxy.fault(answer, 'GET', ONE)
        self.case.addCleanup(self.leave_state)

    def leave_state(self):
        if self._told is not None:
            self._told.remove()
            self._told = None

    def exhaust_capacity(self):
        said = '{"message": "write /var/lib: no space left on device"}'
        self.fail_next(Call.BUILD, Answer(500, body=said))

    def vanish(self, amphora_id):
        self.case.bare.remove_container(amphora_id, force=True, v=True)
