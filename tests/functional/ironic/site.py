"""A kiln site on the real Ironic with simulated nodes, behind a proxy that injects faults.

The Ironic is that of the development cloud, or the one without Keystone whose URL is in
KILN_IRONIC_URL.
"""

import atexit
import base64
import dataclasses
import functools
import gzip
import json
import os
import re
import unittest
import uuid

from oslo_config import cfg

import kiln.conf
from kiln.compute.backends import stack_settings
from kiln.compute.facade import Compute
from kiln.compute_drivers.authoring.bench import Refusal
from kiln.compute_drivers.calls import Call
from kiln.compute_drivers.ironic.driver import IronicDriver
from kiln.conf import compute as compute_conf
from kiln.testing.proxy import Answer, Fault, FaultProxy, Serve
from kiln.testing.proxy.exchanges import Request
from tests.functional.cloud import CloudTestCase
from tests.functional.ironic.nodes import ZONE, Nodes
from tests.functional.proxy_bench import ProxyBench

GROUP = 'compute:ironic'
URL = os.environ.get('KILN_IRONIC_URL')
IMAGE = f'http://127.0.0.1/none.img#sha256={"0" * 64}'
#: As many as a behaviour of the kit has at a time, and those that it has just deleted.
NODES = 12


def options_of(given):
    """Return the options of a backend."""
    conf = cfg.ConfigOpts()
    conf([], default_config_files=[])
    kiln.conf.register(conf, GROUP, compute_conf.BACKEND_OPTS)
    kiln.conf.register(conf, GROUP, IronicDriver.options)
    for name, value in given.items():
        conf.set_override(name, value, GROUP)
    return conf[GROUP]


@functools.cache
def the_nodes(cloud):
    """Return the operator's access to the Ironic of a cloud, or to the one without a cloud."""
    if cloud is not None:
        session = cloud.session('kiln-system')
        return Nodes(session, session.get_endpoint(service_type='baremetal', interface='public'))
    # Only functional tests need it.
    from keystoneauth1 import noauth, session

    return Nodes(session.Session(noauth.NoAuth()), URL)


@functools.cache
def enrolled(nodes):
    """Return two resource classes: of nodes that deploy at once, and of nodes that wait.

    Nodes of the second class wait for the agent of a deploy, which never comes.
    """
    mark = uuid.uuid4().hex[:8]
    at_once, waiting = f'kit-{mark}', f'kit-{mark}-waiting'
    for one in (at_once, waiting):
        atexit.register(nodes.remove, one)
    nodes.enrol(at_once, NODES, deploy_interface='fake')
    nodes.enrol(waiting, 2, deploy_interface='custom-agent')
    return at_once, waiting


class IronicCase(CloudTestCase if URL is None else unittest.TestCase):
    """Drivers of one Ironic, which reach it through one proxy."""

    services = ('ironic',)
    clock = None
    alone = False
    who = 'kiln-system'

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.nodes = the_nodes(None if URL else cls.cloud)
        cls.proxy = FaultProxy(cls.nodes.url)
        cls.proxy.start()
        cls.addClassCleanup(cls.proxy.close)
        cls.flavor, cls.waiting = cls.enrol()

    @classmethod
    def enrol(cls):
        """Return two resource classes of nodes, as enrolled() does."""
        return enrolled(cls.nodes)

    def setUp(self):
        super().setUp()
        self.owner = f't-{uuid.uuid4().hex[:8]}'
        self.addCleanup(self.heal)
        #: The bodies of all requests for a state.
        self.sent = []
        self.proxy.fault(Serve(), 'PUT', '.*/states/.*', when=self.record)

    def record(self, request):
        """Record the body of a request; it is passed on to the next rule."""
        self.sent.append(json.loads(request.body))
        return False

    def heal(self):
        for rule in self.proxy.faults:
            rule.remove()
        self.proxy.up()
        self.proxy.forget()

    def options(self, **given):
        """Return the options of a backend, which a test can change."""
        return options_of(self.plain_options(**given))

    def plain_options(self, **given):
        """Return them as plain data, for another process too."""
        if URL is None:
            auth = {**self.cloud.auth(self.who), 'valid_interfaces': ['public']}
        else:
            auth = {'auth_type': 'none'}
        defaults = {
            'baremetal_endpoint_override': self.proxy.url,
            'flavor': self.flavor,
            'image': IMAGE,
            'zone_property': ZONE,
            'timeout': 120.0,
        }
        return {**auth, **defaults, **given}

    def open_driver(self, owner=None, **given):
        driver = IronicDriver.open(self.options(**given), name='ironic', owner=owner or self.owner)
        self.addCleanup(driver.close)
        return driver

    def open_compute(self, listeners=(), **given):
        options = self.options(**given)
        driver = IronicDriver.open(options, name='ironic', owner=self.owner)
        compute = Compute(driver, settings=stack_settings(options), listeners=listeners)
        self.addCleanup(compute.close, 5)
        return compute

    def claims(self, *owners):
        """Return the claims of this test, or of other owners, that Ironic itself has."""
        found = self.nodes.ask('GET', '/allocations?limit=1000')['allocations']
        owners = owners or (self.owner,)
        return [one for one in found if one['extra'].get('kiln', {}).get('owner') in owners]


@dataclasses.dataclass(frozen=True)
class Claimed(Fault):
    """Claims a node of another resource class than the request names."""

    resource_class: str

    async def play(self, visit):
        message = visit.request.message
        body = json.loads(message.raw[message.body_at :])
        body['resource_class'] = self.resource_class
        body.pop('candidate_nodes', None)
        content = json.dumps(body).encode()
        length = b'Content-Length: %d' % len(content)
        head = re.sub(rb'(?i)content-length: *\d+', length, message.raw[: message.body_at])
        visit.request = Request(
            dataclasses.replace(message, raw=head + content, body_at=len(head))
        )
        answer = await visit.forward()
        visit.send(answer.raw, answer.status)


_REQUESTS = {
    Call.BUILD: ('POST', '/allocations'),
    Call.DELETE: ('PUT', r'/nodes/[0-9a-f-]{36}/states/provision'),
    Call.GET: ('GET', r'/allocations/[0-9a-f-]{36}'),
    Call.STATUS: ('GET', r'/allocations/[0-9a-f-]{36}'),
    Call.LIST: ('GET', '/allocations'),
    Call.FIND: ('GET', '/allocations'),
    Call.FIND_BUILD: ('GET', '/allocations/kiln-[0-9a-f]{40}'),
    Call.CHANGES: ('GET', '/allocations'),
    Call.STATUSES: ('GET', '/allocations(/[0-9a-f-]{36})?'),
    Call.CHECK: ('GET', '/allocations'),
    Call.CLAIM: ('POST', '/allocations'),
}
_STATUS = {
    Refusal.WRONG: 400, Refusal.UNKNOWN: 400, Refusal.NO_LOGIN: 401, Refusal.FORBIDDEN: 403,
    Refusal.CONFLICT: 409, Refusal.BROKEN: 500,
}  # fmt: skip


def ironic_error(status, said='the kit refused it', **more):
    """Return an error in the form of Ironic."""
    fault = {'faultcode': 'Client', 'faultstring': said, 'debuginfo': None}
    return Answer(status, body=json.dumps({'error_message': json.dumps(fault)}), **more)


class IronicFaults(ProxyBench):
    """Makes the real Ironic fail: by the proxy in front of it, and by nodes that wait."""

    requests = _REQUESTS
    timeout_s, soon_s = 60.0, 30.0
    page_size = 4

    def unavailable(self):
        return ironic_error(503)

    def slow_down(self, retry_after):
        return ironic_error(429, retry_after=retry_after)

    def refuse_for(self, call, reason):
        status = _STATUS[reason]
        # With a new token keystoneauth asks once more.
        times = 2 if reason is Refusal.NO_LOGIN and URL is None else 1
        self.case.proxy.fault(ironic_error(status), *self.requests[call], times=times)
        return status

    def exhaust_capacity(self):
        # The class exists, for the build names it; the claim finds no node.
        self.fail_next(Call.BUILD, Claimed('none-of-it'))

    def stall_build(self):
        self.fail_next(Call.BUILD, Claimed(self.case.waiting))

    def vanish(self, amphora_id):
        nodes = self.case.nodes
        nodes.provision(nodes.ask('GET', f'/allocations/{amphora_id}')['node_uuid'], 'deleted')

    def make_unowned(self, name):
        nodes = self.case.nodes
        nodes.switch_on(self.case.flavor)
        free = '&provision_state=available&associated=false'
        node = nodes.of(self.case.flavor, free)[0]['uuid']
        url, _, digest = IMAGE.partition('#sha256=')
        info = {
            'display_name': name, 'image_source': url,
            'image_os_hash_algo': 'sha256', 'image_os_hash_value': digest,
        }  # fmt: skip
        theirs = str(uuid.uuid4())
        changes = {'instance_uuid': theirs, 'instance_info': info}
        body = [{'op': 'add', 'path': f'/{at}', 'value': one} for at, one in changes.items()]
        nodes.ask('PATCH', f'/nodes/{node}', json=body)
        nodes.provision(node, 'active')
        fields = 'provision_state,power_state'
        done = {'provision_state': 'active', 'power_state': 'power on'}
        nodes.until(
            lambda: nodes.ask('GET', f'/nodes/{node}?fields={fields}').items() >= done.items()
        )
        return theirs

    def lacking(self, amphora_id, request):
        """Return what is not in the config drive that was sent to Ironic."""
        (drive,) = [
            body['configdrive']
            for body in self.case.sent
            if body.get('configdrive', {}).get('meta_data', {}).get('uuid') == amphora_id
        ]
        text = drive.get('user_data', '')
        keys = drive['meta_data'].get('public_keys', {}).values()
        has = {
            'keys': set(request.keys) <= set(keys),
            'user_data': request.user_data is None or _has(text, request.user_data),
            'files': all(_has(text, file.content) for file in request.files),
        }
        return [name for name, there in has.items() if not there]

    def reboots_hard(self, amphora_id):
        # Ironic itself shows both as a change to "power on".
        return [body['target'] for body in self.case.sent if 'target' in body][-1] == 'rebooting'


def _has(text, content):
    """Return True if user data has a content, plain or in one of the encodings of cloud-init."""
    forms = [content, base64.b64encode(content), gzip.compress(content, 9, mtime=0)]
    forms.append(base64.b64encode(forms[2]))
    forms.append(base64.encodebytes(content).strip())
    return any(form in text.encode() for form in forms)
