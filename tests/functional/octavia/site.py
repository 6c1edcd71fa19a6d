"""The real Octavia with kiln in its worker, and a proxy in front of Nova."""

import contextlib
import json
import os
import signal
import subprocess
import time

from kiln.testing.proxy import FaultProxy
from tests.functional.cloud import ROOT, CloudTestCase
from tools.devcloud.backends import Database
from tools.devcloud.cloud import answers
from tools.devcloud.place import Place
from tools.devcloud.processes import Supervisor, until
from tools.devcloud.services.nova import Nova
from tools.devcloud.settings import render
from tools.devcloud.wishes import Wishes

SETTLE_S = 600.0
POLL_S = 0.3
READY_S = 300.0
GRACE_S = 10.0
#: Octavia's own defaults; the development cloud has shorter ones.
PATIENCE = {'amp_active_wait_sec': 10, 'amp_active_retries': 30}
#: What each program of Octavia logs once it works.
READY_TEXTS = {
    'octavia-worker': b'Starting V2 consumer',
    'octavia-housekeeping': b'DB cleanup interval is set',
}


class Program:
    """An Octavia program that a test starts, beside or instead of the cloud's."""

    def __init__(self, home, config, name, program='octavia-worker'):
        self._python = str(home / 'octavia-venv' / 'bin' / 'python')
        self._ready = READY_TEXTS[program]
        program = str(home / 'octavia-venv' / 'bin' / program)
        shipped = str(home / 'etc' / 'octavia' / 'octavia.conf')
        # If two files set the same option, the later file takes precedence.
        self._command = [
            # A worker that outlives its test would take the messages of another cloud on
            # the same ports.
            'setpriv', '--pdeathsig', 'TERM',
            self._python, program, '--config-file', shipped, '--config-file', str(config),
        ]  # fmt: skip
        self._home = home
        self.log = home / 'log' / f'{name}.log'
        self._process = None

    def start(self):
        with self.log.open('ab') as log:
            offset = log.tell()
            self._process = subprocess.Popen(
                self._command,
                cwd=self._home,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        end = time.monotonic() + READY_S
        while self._ready not in self.log.read_bytes()[offset:]:
            if self._process.poll() is not None or time.monotonic() > end:
                raise AssertionError(f'it does not start: see {self.log}')
            time.sleep(0.1)

    def kill(self):
        """Kill it and its children at once, as a lack of memory or a power cut does."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process = None

    def stop(self):
        """Terminate it gracefully; safe to repeat."""
        if self._process is None:
            return
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE_S)
        # Also any child that it left behind.
        self.kill()


def _environment():
    hidden = ('PYTHONPATH', 'PYTHONHOME', 'VIRTUAL_ENV')
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    return kept | {'PYTHONUNBUFFERED': '1', 'PYTHONWARNINGS': 'ignore'}


class OctaviaCase(CloudTestCase):
    """Load balancers of the administrator, with amphorae that kiln builds."""

    services = ('octavia',)
    #: The options of the worker that serves all tests of a class; without them, each test
    #: has its own worker.
    compute_driver = 'kiln_nova'
    #: Sections of octavia.conf, which override those of the cloud.
    options = {}  # noqa: RUF012  # replaced, never changed

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cloud.run('up', '--octavia-package', str(ROOT))
        cls.prepare()
        base = json.loads((cls.cloud.home / 'wishes.json').read_text())['base_port']
        cls.place = Place(cls.cloud.home, base)
        cls.database = Database(cls.place)
        cls.session = cls.cloud.session()
        cls.proxy = FaultProxy(cls.session.get_endpoint(service_type='compute'))
        cls.proxy.start()
        cls.addClassCleanup(cls.proxy.close)
        # The cloud's own worker would take half of the work.
        cls.cloud.run('down', 'octavia-worker')
        cls.addClassCleanup(cls.cloud.run, 'up')
        if cls.compute_driver:
            cls.worker = cls.new_worker(cls.compute_driver)
            cls.addClassCleanup(cls.worker.stop)
            cls.worker.start()

    @classmethod
    def prepare(cls):
        """Prepare a worker before it starts."""

    @classmethod
    def new_worker(cls, compute_driver, **more):
        """Return a worker, not started, that reaches Nova through the proxy."""
        return cls.new_program('octavia-worker', compute_driver, **more)

    @classmethod
    def new_program(cls, program, compute_driver, **more):
        """Return a program, not started, that reaches Nova through the proxy."""
        sections = {
            'controller_worker': {'compute_driver': compute_driver, **PATIENCE},
            'nova': {'endpoint': cls.proxy.url},
        }
        for name, values in [*cls.options.items(), *more.items()]:
            sections[name] = sections.get(name, {}) | values
        name = f'test-{program}-{cls.__name__}-{compute_driver}'
        config = cls.cloud.home / 'etc' / 'octavia' / f'{name}.conf'
        config.write_text(render(sections))
        cls.addClassCleanup(config.unlink, missing_ok=True)
        return Program(cls.cloud.home, config, name, program)

    def setUp(self):
        super().setUp()
        self.addCleanup(self.heal)
        self.ports_before = {port['id'] for port in self.ports()}
        self.subnet = self.named('network', '/v2.0/subnets', 'subnets', 'sub1')

    def heal(self):
        for rule in self.proxy.faults:
            rule.remove()
        self.proxy.up()
        self.proxy.release()
        self.proxy.forget()

    def nova_down(self):
        self.cloud.run('down', 'nova-api')
        self.addCleanup(self.nova_up)

    def nova_up(self):
        """Start only this program again: `up` would start the cloud's worker too."""
        nova = Nova(self.place, Wishes.load(self.place.wishes))
        (api,) = (process for process in nova.processes() if process.name == 'nova-api')
        supervisor = Supervisor(self.place)
        supervisor.start(api)
        until(lambda: answers(api.url), lambda: supervisor.death(api.name), READY_S, api.name)

    # ---- reading ----------------------------------------------------------

    def ask(self, method, path, **more):
        endpoint = {'service_type': 'load-balancer'}
        return self.session.request(f'/v2/lbaas{path}', method, endpoint_filter=endpoint, **more)

    def listed(self, service, path, what, **query):
        found = self.session.get(
            path,
            params=query,
            endpoint_filter={'service_type': service},
            headers={'OpenStack-API-Version': 'compute 2.96'},
        )
        return found.json()[what]

    def named(self, service, path, what, name):
        (found,) = (row['id'] for row in self.listed(service, path, what) if row['name'] == name)
        return found

    def servers(self):
        return self.listed('compute', '/servers/detail', 'servers', all_tenants=1)

    def groups(self):
        return self.listed('compute', '/os-server-groups', 'server_groups', all_projects=1)

    def ports(self):
        return self.listed('network', '/v2.0/ports', 'ports')

    def new_ports(self):
        return {port['id'] for port in self.ports()} - self.ports_before

    def amphorae(self, identity):
        """The amphorae of a load balancer in Octavia's database."""
        answer = self.ask('GET', f'/../octavia/amphorae?loadbalancer_id={identity}')
        return [one for one in answer.json()['amphorae'] if one['status'] == 'ALLOCATED']

    # ---- actions -----------------------------------------------------------

    def create(self, name, *, whole=False, **more):
        """Create a load balancer; ``whole`` adds a listener, a pool and a member."""
        wanted = {'name': name, 'vip_subnet_id': self.subnet, **more}
        if whole:
            member = {'address': '198.51.100.7', 'protocol_port': 80}
            pool = {
                'name': 'pool', 'protocol': 'HTTP', 'lb_algorithm': 'ROUND_ROBIN',
                'members': [member],
            }  # fmt: skip
            listener = {'protocol': 'HTTP', 'protocol_port': 80, 'default_pool': pool}
            wanted['listeners'] = [listener]
        answer = self.ask('POST', '/loadbalancers', json={'loadbalancer': wanted})
        return answer.json()['loadbalancer']['id']

    def failover(self, identity):
        self.ask('PUT', f'/loadbalancers/{identity}/failover')

    def delete(self, identity):
        self.ask('DELETE', f'/loadbalancers/{identity}?cascade=true')

    def status(self, identity):
        """Return a load balancer's provisioning status, or None if it is gone."""
        answer = self.ask('GET', f'/loadbalancers/{identity}', raise_exc=False)
        if answer.status_code == 404:
            return None
        status = answer.json()['loadbalancer']['provisioning_status']
        return None if status == 'DELETED' else status

    def settled(self, identity, seconds=SETTLE_S):
        """Return the status of a load balancer once it is no longer PENDING."""
        end = time.monotonic() + seconds
        while (status := self.status(identity)) and status.startswith('PENDING'):
            if time.monotonic() > end:
                break
            time.sleep(POLL_S)
        return status

    def all_settle(self, identities, status):
        self.assertEqual(
            dict.fromkeys(identities, status),
            {identity: self.settled(identity) for identity in identities},
        )

    def eventually(self, is_so, seconds=300.0):
        end = time.monotonic() + seconds
        while not is_so():
            self.assertLess(time.monotonic(), end, 'not so in time')
            time.sleep(POLL_S)

    def assert_served(self, *identities):
        """Check that Nova has the servers of these load balancers, and no others."""
        known = [one['compute_id'] for each in identities for one in self.amphorae(each)]
        self.assertEqual(len(known), len(set(known)))
        self.eventually(lambda: {server['id'] for server in self.servers()} == set(known))
        self.assertEqual({'ACTIVE'}, {server['status'] for server in self.servers()})

    def assert_nothing_left(self):
        """Check that Nova and Neutron are as before the test."""
        # Octavia does not wait until Nova has finished its requests.
        self.eventually(lambda: not self.servers())
        self.assertEqual([], self.groups())
        self.eventually(lambda: not self.new_ports())
