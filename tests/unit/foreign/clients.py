"""Every client of kiln, as a function that makes it ask a server on the loopback."""

import contextlib
import ssl
import tempfile
import time
from pathlib import Path

from keystoneauth1.noauth import NoAuth
from keystoneauth1.session import Session

from kiln.clock import SYSTEM_CLOCK, Deadline, deadline_scope
from kiln.cluster_drivers.heat.client import HeatClient
from kiln.cluster_drivers.heat.settings import settings_of
from kiln.cluster_drivers.readiness import WhenHttp, WhenTcp
from kiln.cluster_drivers.swarm_debian_v1.line import TlsLine, trust
from kiln.compute_drivers.appliance.work import probes
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.docker.api import client as docker_client
from kiln.compute_drivers.heat.conf import opts as heat_opts
from kiln.compute_drivers.heat.driver import StackDriver
from kiln.compute_drivers.ironic.api.client import Ironic
from kiln.compute_drivers.ironic.api.neutron import Neutron
from kiln.compute_drivers.nova.api.client import Services
from kiln.compute_drivers.nova.notifications.bus import Bus
from kiln.engine.work_sources.boards import BoardAway
from kiln.engine.work_sources.opening import board_conf, parse
from kiln.engine.work_sources.taskflow_board import TaskflowBoard
from kiln.foreign.exchange import exchange
from kiln.hooks.callers.watchdog import Watchdog
from kiln.hooks.callers.webhooks import call_webhook
from kiln.hooks.hook import Webhook
from kiln.models import Address, Amphora, State
from kiln.openstack import session as nova_session
from kiln.wrappers.circuit.redis import redis_storage
from kiln.wrappers.watcher.probe import HttpProbe, TcpProbe
from tests.unit.cluster_drivers.samples import context, node
from tests.unit.cluster_drivers.swarm.case import a_node
from tests.unit.cluster_drivers.swarm.test_line import authority, certified
from tests.unit.compute_drivers.appliance.samples import machine
from tests.unit.compute_drivers.docker.test_settings import options
from tests.unit.compute_drivers.ironic.written import written as ironic_conf
from tests.unit.compute_drivers.nova.written import written

DOCUMENT = {'point': 'before-build', 'invocation': 'i-1'}
_NODE = a_node(1, address='127.0.0.1')


def server_tls():
    """Return the TLS settings of the engine of a node."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        certified(Path(folder), _NODE, authority())
        tls.load_cert_chain(Path(folder) / 'cert.pem', Path(folder) / 'key.pem')
    return tls


def node_engine(port, limit_s):
    line = TlsLine(_NODE, trust(authority(), time.time()), port=port)
    try:
        return line.ask('GET', '/info', timeout_s=limit_s)
    finally:
        line.close()


def ready_http(port, limit_s):
    with deadline_scope(Deadline.after(limit_s)):
        return WhenHttp(port)(context(), node(address='127.0.0.1')).reason


def ready_tcp(port, limit_s):
    with deadline_scope(Deadline.after(limit_s)):
        return WhenTcp(port)(context(), node(address='127.0.0.1')).reason


def _amphora():
    return Amphora(
        id='a-1', name='web-1', state=State.ACTIVE, addresses=(Address(address='127.0.0.1'),)
    )


def probe_http(port, limit_s):
    return HttpProbe(port, timeout_s=limit_s)(_amphora())


def probe_tcp(port, limit_s):
    return TcpProbe(port, timeout_s=limit_s)(_amphora())


def webhook(port, limit_s):
    hook = Webhook(f'http://127.0.0.1:{port}/')
    return call_webhook(Watchdog(), hook, DOCUMENT, limit_s).message


def appliance_probe(port, limit_s):
    one = machine(f'probe = {{http = "http://{{address}}:{port}/"}}\n', '127.0.0.1')
    return probes.ask(one, one.probe, limit_s).words


def docker_engine(port, limit_s):
    engine = docker_client.Engine(options(url=f'tcp://127.0.0.1:{port}'), SYSTEM_CLOCK)
    try:
        with deadline_scope(Deadline.after(limit_s)):
            return engine.ask(Asked.of('check', 'engine'), docker_client.Session.info)
    finally:
        engine.close()


def docker_ssh(port, limit_s):
    relay = f'exec 3<>/dev/tcp/127.0.0.1/{port}; cat <&3 & exec cat >&3'
    engine = docker_client.Engine(options(url='ssh://far'), SYSTEM_CLOCK)
    engine._ssh = ('bash', '-c', relay)
    try:
        with deadline_scope(Deadline.after(limit_s)):
            return engine.ask(Asked.of('check', 'engine'), docker_client.Session.info)
    finally:
        engine.close()


def nova_behind(port, limit_s):
    conf = written(f'network_endpoint_override = http://127.0.0.1:{port}', 'timeout = 1')
    session = Session(auth=NoAuth())
    session.session = nova_session._connections(conf, 1)
    services = Services(conf, session, region=None, clock=SYSTEM_CLOCK)
    try:
        with exchange(limit_s):
            return services._behind.look() or 'it answers'
    finally:
        services.close()


def nova(port, limit_s):
    conf = written(
        f'compute_endpoint_override = http://127.0.0.1:{port}', 'microversion = 2.96',
        'timeout = 1',
    )  # fmt: skip
    session = Session(auth=NoAuth())
    session.session = nova_session._connections(conf, 1)
    services = Services(conf, session, region=None, clock=SYSTEM_CLOCK)
    try:
        with deadline_scope(Deadline.after(limit_s)):
            return services.ask(Asked.of('list', 'servers'), 'GET', '/servers')
    finally:
        services.close()


def keystone(port, limit_s):
    conf = written(
        f'auth_url = http://127.0.0.1:{port}/v3', 'username = demo', 'password = x', 'timeout = 1',
        'project_name = demo', 'user_domain_name = Default', 'project_domain_name = Default',
    )  # fmt: skip
    session, region = nova_session.open_session(conf)
    services = Services(conf, session, region=region, clock=SYSTEM_CLOCK)
    try:
        with deadline_scope(Deadline.after(limit_s)):
            return services.ask(Asked.of('list', 'servers'), 'GET', '/servers')
    finally:
        services.close()


def heat(port, limit_s):
    url = f'http://127.0.0.1:{port}/v1/p'
    lines = 'auth_type: none', f'orchestration_endpoint_override: {url}', f'timeout: {limit_s}'
    client = HeatClient(settings_of('\n'.join(lines)))
    try:
        return client.named('one')
    finally:
        client.close()


def heat_compute(port, limit_s):
    conf = written(
        'auth_type = none', f'orchestration_endpoint_override = http://127.0.0.1:{port}/v1/p',
        'timeout = 1', driver='heat', opts=heat_opts,
    )  # fmt: skip
    driver = StackDriver.open(conf, name='heat', owner='east')
    try:
        with deadline_scope(Deadline.after(limit_s)):
            return driver.find_build('k-1')
    finally:
        driver.close()


def ironic(port, limit_s):
    conf = ironic_conf(
        f'baremetal_endpoint_override = http://127.0.0.1:{port}', 'microversion = 1.100',
        'auth_type = none', 'timeout = 1',
    )  # fmt: skip
    session, region = nova_session.open_session(conf)
    client = Ironic(conf, session, region=region, clock=SYSTEM_CLOCK)
    try:
        with deadline_scope(Deadline.after(limit_s)):
            return client.ask(Asked.of('list', 'nodes'), 'GET', '/nodes')
    finally:
        client.close()


def ironic_neutron(port, limit_s):
    conf = ironic_conf(
        f'network_endpoint_override = http://127.0.0.1:{port}', 'auth_type = none', 'timeout = 1'
    )
    session, region = nova_session.open_session(conf)
    client = Neutron(conf, session, region=region, clock=SYSTEM_CLOCK)
    try:
        with deadline_scope(Deadline.after(limit_s)):
            return client.ask(Asked.of('list', 'ports'), 'GET', '/ports')
    finally:
        session.session.close()


def redis_circuit(port, limit_s):
    storage = redis_storage(f'redis://127.0.0.1:{port}')('east')
    try:
        # The text is that of its log.
        assert storage.exchange('', None) is None
        return 'it is not shared'
    finally:
        storage.close()


def _board(where, port, limit_s):
    address = parse(f'{where}://127.0.0.1:{port}/kiln')
    conf = board_conf(address, claim_s=1.0, answer_s=limit_s)
    board = TaskflowBoard(conf, name=where, owner='me', claim_s=1.0, answer_s=limit_s)
    try:
        board.connect(lambda: None)
        return board.posted()
    finally:
        with contextlib.suppress(BoardAway):
            board.close()


def board_redis(port, limit_s):
    return _board('redis', port, limit_s)


def board_etcd(port, limit_s):
    return _board('etcd', port, limit_s)


def board_zookeeper(port, limit_s):
    return _board('zookeeper', port, limit_s)


def notifications(port, limit_s):
    bus = Bus(
        f'rabbit://me:x@127.0.0.1:{port}/', exchange='nova', topic='versioned_notifications',
        on_server=lambda server: None, on_up=lambda: None, on_down=lambda: None,
    )  # fmt: skip
    bus.start()
    try:
        # The text is that of its log. It reads on its own thread, which holds up nobody.
        assert not bus.is_up(limit_s)
        return 'it does not listen'
    finally:
        bus.close()


CLIENTS = {
    one.__name__: one
    for one in (
        node_engine, ready_http, ready_tcp, probe_http, probe_tcp, webhook, appliance_probe,
        docker_engine, docker_ssh, nova, nova_behind, keystone, heat, heat_compute, ironic,
        ironic_neutron, redis_circuit, board_redis, board_etcd, board_zookeeper, notifications,
    )
}  # fmt: skip

#: The client of each module that talks to others.
COVERED = {
    'kiln.cluster_drivers.heat.client': 'heat',
    'kiln.cluster_drivers.readiness': 'ready_http',
    'kiln.cluster_drivers.swarm_debian_v1.line': 'node_engine',
    'kiln.cluster_drivers.swarm_debian_v1.view': 'node_engine',
    'kiln.compute_drivers.appliance.work.probes': 'appliance_probe',
    'kiln.foreign.http_adapter': 'docker_engine',
    'kiln.compute_drivers.docker.api.client': 'docker_engine',
    'kiln.compute_drivers.docker.api.ssh': 'docker_ssh',
    'kiln.compute_drivers.ironic.api.client': 'ironic',
    'kiln.compute_drivers.ironic.api.neutron': 'ironic_neutron',
    'kiln.compute_drivers.ironic.api.service': 'ironic_neutron',
    'kiln.compute_drivers.nova.api.behind': 'nova_behind',
    'kiln.compute_drivers.nova.api.client': 'nova',
    'kiln.compute_drivers.authoring.openstack_failures': 'keystone',
    'kiln.openstack.session': 'keystone',
    'kiln.compute_drivers.nova.notifications.broker': 'notifications',
    'kiln.compute_drivers.nova.notifications.bus': 'notifications',
    'kiln.engine.work_sources.board_clients': 'board_zookeeper',
    'kiln.engine.work_sources.taskflow_board': 'board_redis',
    'kiln.foreign.exchange': 'probe_tcp',
    'kiln.foreign.http': 'probe_http',
    'kiln.hooks.callers.webhooks': 'webhook',
    'kiln.wrappers.circuit.redis': 'redis_circuit',
    'kiln.wrappers.watcher.probe': 'probe_http',
}
#: Modules that import such a library without asking anybody else, and why.
NO_CLIENT = {
    'kiln.cli.site.service_notify': 'it sends to systemd, and reads nothing',
    'kiln.adapters.octavia.settings': 'it loads options of keystoneauth',
    'kiln.foreign.connection_failures': 'it reads exceptions',
    'kiln.openstack.identity': 'it lists options of keystoneauth',
    'kiln.engine.work_sources.opening': 'it reads the name of this host',
}
