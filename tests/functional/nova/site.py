"""A kiln site on the real OpenStack, behind proxies that inject faults on demand."""

import dataclasses
import json
import re
import uuid
from types import MappingProxyType

from oslo_config import cfg

import kiln.conf
from kiln.compute.backends import stack_settings
from kiln.compute.facade import Compute
from kiln.compute_drivers.calls import Call
from kiln.compute_drivers.nova.driver import NovaDriver
from kiln.conf import compute as compute_conf
from kiln.testing.proxy import Fault, FaultProxy, nova_error
from kiln.testing.proxy.exchanges import Request
from tests.functional.cloud import CloudTestCase
from tests.functional.proxy_bench import ProxyBench

NEUTRON = {'endpoint_filter': {'service_type': 'network'}}
#: The path of one server, which distinguishes its requests from requests for lists.
ONE = r'/servers/[0-9a-f-]{36}'


def options_of(given, driver_class=NovaDriver):
    """Return the options of a backend."""
    group = f'compute:{driver_class.name}'
    conf = cfg.ConfigOpts()
    conf([], default_config_files=[])
    kiln.conf.register(conf, group, compute_conf.BACKEND_OPTS)
    kiln.conf.register(conf, group, driver_class.options)
    for name, value in given.items():
        conf.set_override(name, value, group)
    return conf[group]


class NovaCase(CloudTestCase):
    """Drivers of one project, which all reach Nova, or another service, through one proxy."""

    driver_class = NovaDriver
    proxied = 'compute'
    who = 'kiln-user'
    clock = None
    # The servers of each test have their own owner.
    alone = False

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.admin = cls.cloud.session()
        cls.session = cls.cloud.session(cls.who)
        cls.net_id = cls.find('network', 'networks', name='net1')['id']
        real = cls.session.get_endpoint(service_type=cls.proxied, interface='public')
        cls.proxy = FaultProxy(real)
        cls.proxy.start()
        cls.addClassCleanup(cls.proxy.close)
        # A key pair belongs to the user, not to the project.
        cls.session.post(
            '/os-keypairs',
            endpoint_filter={'service_type': 'compute'},
            json={'keypair': {'name': 'key1'}},
            raise_exc=False,
        )

    @classmethod
    def find(cls, service, what, **query):
        (found,) = cls.list(service, what, **query)
        return found

    @classmethod
    def list(cls, service, what, session=None, **query):
        base = {'network': '/v2.0', 'image': '/v2', 'compute': ''}[service]
        answer = (session or cls.session).get(
            f'{base}/{what}',
            endpoint_filter={'service_type': service},
            params=query,
            headers={'OpenStack-API-Version': 'compute 2.96'},
        )
        return answer.json()[what.partition('/')[0]]

    def setUp(self):
        super().setUp()
        self.owner = f't-{uuid.uuid4().hex[:8]}'
        self.addCleanup(self.heal)

    def heal(self):
        for rule in self.proxy.faults:
            rule.remove()
        self.proxy.up()
        self.proxy.forget()

    def options(self, **given):
        auth = self.cloud.auth(self.who)
        defaults = {
            f'{self.proxied}_endpoint_override': self.proxy.url,
            'valid_interfaces': ['public'],
            'networks': [self.net_id],
            'flavor': 'tiny',
            'image': 'tiny',
            'timeout': 120.0,
        }
        return options_of({**auth, **defaults, **given}, self.driver_class)

    def open_driver(self, owner=None, **given):
        driver = self.driver_class.open(
            self.options(**given), name=self.driver_class.name, owner=owner or self.owner
        )
        self.addCleanup(driver.close)
        return driver

    def open_compute(self, listeners=(), **given):
        options = self.options(**given)
        driver = self.driver_class.open(options, name=self.driver_class.name, owner=self.owner)
        compute = Compute(driver, settings=stack_settings(options), listeners=listeners)
        self.addCleanup(compute.close, 5)
        return compute

    def servers(self, owner=None):
        """The servers that Nova itself returns, without the proxy."""
        tag = f'kiln-site:{owner or self.owner}'
        return self.list('compute', 'servers/detail', tags=tag)

    def make_port(self, **more):
        port = self.session.post(
            '/v2.0/ports',
            endpoint_filter={'service_type': 'network'},
            json={'port': {'network_id': self.net_id, 'name': 'spare', **more}},
        ).json()['port']['id']
        self.addCleanup(
            self.admin.delete,
            f'/v2.0/ports/{port}',
            endpoint_filter={'service_type': 'network'},
            raise_exc=False,
        )
        return port

    def make_group(self):
        """Create a group that lets nothing in; return its id and its name."""
        name = f'kiln-ports-{uuid.uuid4().hex[:8]}'
        made = self.session.post(
            '/v2.0/security-groups', json={'security_group': {'name': name}}, **NEUTRON
        ).json()['security_group']
        self.addCleanup(self.session.delete, f'/v2.0/security-groups/{made["id"]}', **NEUTRON)
        return made['id'], name

    def open_port(self, group, port, **remote):
        number, _, protocol = port.partition('/')
        rule = {
            'security_group_id': group, 'direction': 'ingress', 'protocol': protocol,
            'port_range_min': number, 'port_range_max': number, **remote,
        }  # fmt: skip
        self.session.post(
            '/v2.0/security-group-rules', json={'security_group_rule': rule}, **NEUTRON
        )


@dataclasses.dataclass(frozen=True)
class Knob(Fault):
    """Sets a knob of the hypervisor for the server that a request creates."""

    name: str
    value: str
    #: Where in the request the metadata of the server is.
    place: str = 'server'

    async def play(self, visit):
        message = visit.request.message
        body = json.loads(message.raw[message.body_at :])
        body[self.place]['metadata'][f'devcloud:{self.name}'] = self.value
        content = json.dumps(body).encode()
        length = b'Content-Length: %d' % len(content)
        head = re.sub(rb'(?i)content-length: *\d+', length, message.raw[: message.body_at])
        visit.request = Request(
            dataclasses.replace(message, raw=head + content, body_at=len(head))
        )
        answer = await visit.forward()
        visit.send(answer.raw, answer.status)


_REQUESTS = {
    Call.BUILD: ('POST', '/servers'),
    Call.DELETE: ('DELETE', ONE),
    Call.GET: ('GET', ONE),
    Call.STATUS: ('GET', ONE),
    Call.LIST: ('GET', '/servers/detail'),
    Call.FIND: ('GET', '/servers/detail'),
    Call.FIND_BUILD: ('GET', '/servers/detail'),
    Call.CHANGES: ('GET', '/servers/detail'),
    Call.REACHED: ('GET', '/servers'),
    Call.STATUSES: ('GET', rf'/servers/detail|{ONE}'),
    Call.CLAIM: ('PUT', rf'{ONE}/tags/kiln-[a-z]+:.*'),
}


class NovaBench(ProxyBench):
    """Makes the real Nova fail: by the proxy in front of it, and by knobs of its hypervisor."""

    requests = _REQUESTS
    fault_codes = MappingProxyType(
        {'No valid host was found.': 'insufficient_capacity', 'Quota exceeded.': 'quota_exceeded'}
    )

    def unavailable(self):
        return nova_error(503)

    def slow_down(self, retry_after):
        return nova_error(429, retry_after=retry_after)

    def exhaust_quota(self):
        said = 'Quota exceeded for instances: Requested 1, but already used 2 of 2 instances'
        self.fail_next(Call.BUILD, nova_error(403, said))

    def fail_build(self, text):
        self.fail_next(Call.BUILD, Knob('spawn_abort', text))

    def stall_build(self):
        self.fail_next(Call.BUILD, Knob('spawn_delay', '20'))

    def vanish(self, amphora_id):
        self.case.admin.delete(
            f'/servers/{amphora_id}', endpoint_filter={'service_type': 'compute'}
        )
