"""Bench of swarm_debian_v1: Docker Engines over TLS, with the rules of the simulated swarm."""

import contextlib
import datetime
import json
import os
import ssl

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kiln.cluster_drivers.swarm_debian_v1.line import Refused
from kiln.testing.clusters import MachineBench, Response
from tests.unit.cluster_drivers.swarm.sim import Sim, task

PORT = 2376
HOME = '/etc/kiln-swarm'


class Engines(Sim):
    """The simulated engines, which also know by which token a node has joined."""

    def __init__(self):
        super().__init__()
        self.used = set()

    def _join(self, machine, body):
        super()._join(machine, body)
        self.used.add(body['JoinToken'])


class SwarmBench(MachineBench):
    """What the image runs on each machine, with the files that the driver gave it."""

    ports = frozenset({PORT})
    groups = {'control': 3, 'worker': 3}  # noqa: RUF012
    refused_groups = ({'worker': 2}, {'control': 2, 'worker': 1})

    def __init__(self, clock):
        super().__init__(clock)
        self._engines = Engines()
        self._machines = {}
        self._papers = {}
        self._busy_until = {}

    # ---- machines --------------------------------------------------------------------

    def boot(self, machine):
        self._engines.boot(machine.node)
        self._machines[machine.node.name] = machine

    def stop(self, machine):
        self._engines.destroy(machine.node)
        if self._machines.get(machine.node.name) is machine:
            del self._machines[machine.node.name]

    def tls(self, machine, port):
        if machine not in self._papers:
            self._papers[machine] = _server(machine)
        return self._papers[machine]

    def answer(self, machine, request):
        self._work()
        name = _identity(machine)
        body = json.loads(request.body) if request.body else None
        try:
            found = self._engines.ask(name, request.method, request.path, body)
        except Refused as exc:
            return Response(status=503, body=json.dumps({'message': exc.reason}))
        except (AssertionError, KeyError, ValueError) as exc:
            return Response(status=404, body=json.dumps({'message': f'page not found: {exc}'}))
        return Response(body='' if found is None else json.dumps(found))

    def _work(self):
        """Let nodes have tasks for as long as they serve."""
        self._engines.tasks.clear()
        for name, until in self._busy_until.items():
            if name in self._machines and self.clock.monotonic() < until:
                peer_id = self._engines.of(self._machines[name].node).peer_id
                self._engines.tasks[name] = [task(peer_id)]

    # ---- the cluster -----------------------------------------------------------------

    @property
    def _swarm(self):
        """The swarm of the first machine that manages one."""
        found = (one.swarm for one in self._engines.machines.values() if one.manages)
        return next(found, None)

    def members(self):
        return [self._name_of(one) for one in self._swarm.peers.values()] if self._swarm else []

    def _name_of(self, peer):
        node_id = peer['Spec']['Labels'].get('kiln.node', peer['machine'].name)
        names = {one.node.id: name for name, one in self._machines.items()}
        return names.get(node_id, f'{node_id}, which is gone')

    def wrongs(self):
        swarm = self._swarm
        if swarm is None:
            return
        if len(self._engines.living) > 1:
            yield f'there are {len(self._engines.living)} swarms'
        if len(self._engines.swarms) > 1:
            yield f'a swarm was founded {len(self._engines.swarms)} times'
        if self._engines.used & set(swarm.tokens.values()):
            yield 'a token with which a node has joined is valid still'
        for name, machine in self._machines.items():
            with contextlib.suppress(KeyError):
                peer = swarm.peers[self._engines.of(machine.node).peer_id]
                yield from _differences(name, machine.node, peer['Spec'])

    def serve(self, name, seconds):
        self._busy_until[name] = self.clock.monotonic() + seconds

    def certificate(self):
        return str(self._swarm.spec.get('CAConfig'))


def _differences(name, node, spec):
    role = 'manager' if node.group == 'control' else 'worker'
    if spec['Role'] != role:
        yield f'{name} is a {spec["Role"]}'
    if spec['Availability'] != 'active':
        yield f'{name} is set to {spec["Availability"]}'
    zone = {'kiln.zone': node.place.zone} if node.place.zone else {}
    labels = {'kiln.node': node.id, 'kiln.group': node.group, **zone}
    if spec['Labels'] != labels:
        yield f'{name} has the labels {spec["Labels"]}'


# ---- what an engine does with its files ------------------------------------------------


def _identity(machine):
    return f'{machine.node.id}.{machine.node.attempt}.kiln'


def _server(machine):
    """Return the server's side of TLS, as certify and dockerd make it from the files."""
    files = {file.path: file.content for file in machine.given.files}
    own = files[f'{HOME}/authority.pem']
    authority = x509.load_pem_x509_certificate(own)
    signer = serialization.load_pem_private_key(own[own.index(b'-----BEGIN PRIVATE') :], None)
    (name,) = (one.value for one in authority.subject if one.oid == NameOID.COMMON_NAME)
    key = Ed25519PrivateKey.generate()
    leaf = _leaf(authority, name, key).sign(signer, None)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=files[f'{HOME}/ca.pem'].decode())
    chain = leaf.public_bytes(serialization.Encoding.PEM)
    chain += authority.public_bytes(serialization.Encoding.PEM)
    chain += key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    file = os.memfd_create('kit')
    try:
        os.write(file, chain)
        context.load_cert_chain(f'/proc/self/fd/{file}')
    finally:
        os.close(file)
    return context


def _leaf(authority, name, key):
    since = authority.not_valid_before_utc + datetime.timedelta(minutes=1)
    issuer = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, 'engine')]))
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(since)
        .not_valid_after(since + datetime.timedelta(days=7300))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer),
            critical=False,
        )
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    )
