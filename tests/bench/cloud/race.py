"""One contender takes servers to ACTIVE and deletes them, and is measured from outside."""

import collections
import contextlib
import dataclasses
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

from kiln.testing.proxy import fault_proxies
from tests.functional.cloud import ROOT
from tests.functional.nova.notify import notify
from tools.devcloud.place import Place
from tools.devcloud.processes import Supervisor
from tools.devcloud.status import uses

SAMPLE_S = 0.1
GONE_S = 300.0
WARM_S = 60.0
#: A list of changes overlaps the time before by some seconds, in every contender.
REST_S = 5.0
# The moment before Nova writes that a server is ACTIVE. What Nova's API says of that
# moment has whole seconds.
SPAWNED = re.compile(r'(\S+ \S+) .*\[instance: (\S+)\] Took \S+ seconds to spawn the instance')


@dataclasses.dataclass(frozen=True)
class Contender:
    """The contenders."""

    name: str
    module: str
    options: dict = dataclasses.field(default_factory=dict)
    venv: str = ''


CONTENDERS = (
    Contender('kiln, listening', 'kiln', {'listen': True}),
    Contender('kiln, polling', 'kiln'),
    Contender('bare loop', 'bare'),
    Contender('kiln, port lock', 'kiln', {'port_lock': True}),
    Contender('Octavia 1 s', 'octavia', {'wait_s': 1}, 'octavia-venv'),
    Contender('Octavia 10 s', 'octavia', {'wait_s': 10}, 'octavia-venv'),
)


@dataclasses.dataclass(frozen=True)
class Phase:
    """What building, or deleting, took altogether."""

    paths: collections.Counter
    cpu_s: float
    wall_s: float
    nova_api_s: float
    threads: int

    @property
    def requests(self):
        return self.paths.total()


@dataclasses.dataclass(frozen=True)
class Run:
    contender: str
    servers: int
    build: Phase
    delete: Phase
    #: Seconds from ACTIVE until the contender knew, of each server.
    delays_s: list

    def __str__(self):
        build, delete = self.build, self.delete
        return (
            f'{self.servers} x {self.contender}: {build.requests}+{delete.requests} requests, '
            f'{build.cpu_s:.3f}+{delete.cpu_s:.3f} s of CPU, '
            f'{build.nova_api_s:.1f}+{delete.nova_api_s:.1f} s of nova-api, '
            f'{self.delays_s[-1]:.1f} s late at most, {build.wall_s:.1f} s to ACTIVE,'
        )


class Field:
    """The cloud with the proxies before it, whose Nova tells what it does; a context manager."""

    def __init__(self, cloud):
        self._cloud = cloud
        self._notification_url = notify(cloud)
        self.session = cloud.session('kiln-user')
        self._admin = cloud.session()
        base = json.loads((cloud.home / 'wishes.json').read_text())['base_port']
        self.place = Place(cloud.home, base)
        self._supervisor = Supervisor(self.place)
        self._stack = contextlib.ExitStack()
        self._count = 0

    def __enter__(self):
        urls = {
            'compute': self.session.get_endpoint(service_type='compute'),
            'network': self.place.url('neutron'),
            'image': self.place.url('glance'),
        }
        self.proxies = self._stack.enter_context(fault_proxies(urls))
        self.warm_up()
        return self

    def __exit__(self, *exc_info):
        self._stack.close()

    def given(self, options):
        """Return all that a contender must know."""
        self._count += 1
        options = dict(options)
        if options.pop('listen', False):
            options['notification_url'] = self._notification_url
        return {
            'auth': self._cloud.auth('kiln-user'),
            'urls': {name: proxy.url for name, proxy in self.proxies.items()},
            'owner': f'bench-{os.getpid()}-{self._count}',
            'flavor': self._one('compute', '/flavors', 'flavors', 'tiny'),
            'image': self._one('image', '/v2/images', 'images', 'tiny'),
            'network': self._one('network', '/v2.0/networks', 'networks', 'net1'),
            'options': options,
        }

    def _one(self, service, path, what, name):
        answer = self.session.get(path, endpoint_filter={'service_type': service}).json()
        (found,) = (row['id'] for row in answer[what] if row['name'] == name)
        return found

    def warm_up(self):
        """Have a server made and deleted, which fills the caches of all services."""
        end = time.monotonic() + WARM_S
        given, compute = self.given({}), {'endpoint_filter': {'service_type': 'compute'}}
        server = {
            'name': 'warm-up',
            'flavorRef': given['flavor'],
            'imageRef': given['image'],
            'networks': [{'uuid': given['network']}],
        }
        # Neutron, just started, may not find its own networks yet.
        while not (
            answer := self.session.post(
                '/servers', json={'server': server}, raise_exc=False, **compute
            )
        ).ok:
            if time.monotonic() > end:
                raise SystemExit(f'no server can be made: {answer.text}')
            time.sleep(1)
        self.session.delete(f'/servers/{answer.json()["server"]["id"]}', **compute)
        self.rest()

    def nova_api_s(self):
        (use,) = (use for use in uses(self._supervisor) if use.name == 'nova-api')
        return use.cpu_s

    def spawned_at(self):
        """Return when each server was done on its host, by its id."""
        moments = {}
        for path in self.place.log.glob('nova-compute-*.log'):
            for text, server_id in SPAWNED.findall(path.read_text()):
                moments[server_id] = datetime.datetime.fromisoformat(text).timestamp()
        return moments

    def rest(self):
        """Wait until all servers are gone, and no list of changes tells of them."""
        end = time.monotonic() + GONE_S
        while self._admin.get(
            '/servers?all_tenants=1&limit=1', endpoint_filter={'service_type': 'compute'}
        ).json()['servers']:
            if time.monotonic() > end:
                raise SystemExit(f'servers are left after {GONE_S:.0f} s')
            time.sleep(1)
        time.sleep(REST_S)


class Process:
    """A contender in its seat."""

    def __init__(self, field, contender):
        python = sys.executable
        if contender.venv:
            python = field.place.home / contender.venv / 'bin' / 'python'
        self._field = field
        self._process = subprocess.Popen(
            [python, '-m', f'tests.bench.cloud.contenders.{contender.module}'],
            cwd=ROOT,
            env=os.environ | {'PYTHONPATH': str(ROOT), 'PYTHONWARNINGS': 'ignore'},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._ask(field.given(contender.options))

    def _ask(self, what):
        print(json.dumps(what), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f'a contender gave up: {self._process.args}')
        return json.loads(answer)

    def measure(self, task, subjects):
        """Have a task done; return its result, and what it took."""
        for proxy in self._field.proxies.values():
            proxy.forget()
        before, peak, over = self._field.nova_api_s(), [0], threading.Event()
        sampler = threading.Thread(target=self._sample, args=(peak, over))
        sampler.start()
        answer = self._ask([task, subjects])
        over.set()
        sampler.join()
        paths = collections.Counter(
            _kind(name, exchange)
            for name, proxy in self._field.proxies.items()
            for exchange in proxy.requests
        )
        nova_api_s = self._field.nova_api_s() - before
        phase = Phase(paths, answer['cpu_s'], answer['wall_s'], nova_api_s, peak[0])
        return answer['result'], phase

    def _sample(self, peak, over):
        tasks = pathlib.Path(f'/proc/{self._process.pid}/task')
        while not over.wait(SAMPLE_S) and tasks.exists():
            peak[0] = max(peak[0], sum(1 for _ in tasks.iterdir()))

    def close(self):
        self._process.stdin.close()
        self._process.wait(GONE_S)


def _kind(service, exchange):
    path = re.sub(r'[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}', 'ID', exchange.path)
    since = '?changes-since' if 'changes-since' in exchange.target else ''
    return f'{service} {exchange.method} {path}{since}'


def race(field, contender, servers):
    """Have a contender build and delete so many servers."""
    process = Process(field, contender)
    names = [f'bench-{number}' for number in range(servers)]
    try:
        seen, build = process.measure('build', names)
        _, delete = process.measure('delete', list(seen))
    finally:
        process.close()
    spawned = field.spawned_at()
    delays_s = sorted(at - spawned[server_id] for server_id, at in seen.items())
    field.rest()
    return Run(contender.name, servers, build, delete, delays_s)
