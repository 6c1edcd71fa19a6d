"""What runs in a machine of a Swarm with its certificates, and what nobody can do with them."""

import datetime
import ipaddress
import math
import os
import pathlib
import ssl
import stat
import subprocess
import tempfile

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

HOME = '/etc/kiln-swarm'
SERVER, CLIENT = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH
#: By the standard of certificates, a program that does not know one of these has to refuse.
_CRITICAL = (x509.BasicConstraints, x509.KeyUsage, x509.NameConstraints)


def server(machine):
    """Return the server's side of TLS: the machine's own script makes the certificate.

    None if the script ends with an error; the engine does not start then.
    """
    files = {file.path: file.content for file in machine.given.files}
    with tempfile.TemporaryDirectory(prefix='kiln-kit-') as name:
        folder = pathlib.Path(name)
        for path, content in files.items():
            if path.startswith(HOME):
                (folder / path.rpartition('/')[2]).write_bytes(content)
        hostname = f'hostname() {{ echo {machine.node.address}; }}\n'
        script = hostname + files[f'{HOME}/certify'].decode().replace(HOME, name)
        made = subprocess.run(['/bin/sh', '-c', script], capture_output=True, check=False)
        if made.returncode:
            return None
        return _Server(folder)


class _Server:
    """A server with the certificate of a machine."""

    def __init__(self, folder):
        self.open_key = bool(stat.S_IMODE((folder / 'key.pem').stat().st_mode) & 0o077)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.verify_mode = ssl.CERT_REQUIRED
        self.context.load_verify_locations(folder / 'ca.pem')
        self.context.load_cert_chain(folder / 'cert.pem', folder / 'key.pem')


def wrongs(machine, found, *, name, by_address):
    """Yield what is wrong with the papers of a machine, and with what can be done with them."""
    where = machine.node.name
    if found.open_key:
        yield f'every user of {where} can read the key of its engine'
    files = {file.path: file.content for file in machine.given.files}
    own, root = files[f'{HOME}/authority.pem'], files[f'{HOME}/ca.pem'].decode()
    authority = x509.load_pem_x509_certificate(own)
    for certificate in (authority, x509.load_pem_x509_certificate(root.encode())):
        yield from (
            f'{one} of a certificate of {where} is not critical' for one in _lax(certificate)
        )
    signer = serialization.load_pem_private_key(own[own.index(b'-----BEGIN PRIVATE') :], None)
    as_client = _leaf(authority, signer, x509.DNSName(name), CLIENT)
    if not handshake(found.context, _client(root, as_client), name):
        yield f'the files of {where} are enough to control every engine'
    address = ipaddress.ip_address('203.0.113.9')
    for what, allowed in (
        (x509.DNSName('other.1.kiln'), False),
        (x509.IPAddress(address), by_address),
    ):
        forged = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        _load(forged, _leaf(authority, signer, what, SERVER))
        reached = not handshake(forged, _client(root), str(what.value))
        if reached != allowed:
            yield f'{where} {"can" if reached else "cannot"} be taken for {what.value}'


def person(folder, address, context):
    """Return why a person with the files of a folder does not reach an engine; else empty."""
    client = ssl.create_default_context(cafile=folder / 'ca.pem')
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    client.load_cert_chain(folder / 'cert.pem', folder / 'key.pem')
    return handshake(context, client, address)


def valid(folder):
    """Return whom the certificate in a folder names, and for how many days it is valid."""
    found = x509.load_pem_x509_certificate((folder / 'cert.pem').read_bytes())
    (name,) = (one.value for one in found.subject if one.oid == NameOID.COMMON_NAME)
    now = datetime.datetime.now(datetime.UTC)
    return name, math.ceil((found.not_valid_after_utc - now) / datetime.timedelta(days=1))


def handshake(server_context, client_context, name):
    """Return why client and server do not trust each other; empty if they do."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server, server_hostname=name)
    engine = server_context.wrap_bio(to_server, to_client, server_side=True)
    try:
        # With TLS 1.3 a server reads the client's certificate last.
        for side in (client, engine, client, engine):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
        engine.write(b'.')
        client.read(1)
    except ssl.SSLError as exc:
        return str(exc)
    return ''


def _lax(certificate):
    for one in certificate.extensions:
        if isinstance(one.value, _CRITICAL) and not one.critical:
            yield type(one.value).__name__


def _client(root, leaf=None):
    context = ssl.create_default_context(cadata=root)
    if leaf is not None:
        _load(context, leaf)
    return context


def _leaf(authority, signer, name, usage):
    """Return what an authority signs for a name: a chain and a key."""
    key, since = Ed25519PrivateKey.generate(), datetime.datetime.now(datetime.UTC)
    leaf = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(since - datetime.timedelta(hours=1))
        .not_valid_after(since + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([name]), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .sign(signer, None)
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )  # fmt: skip
    chain = (one.public_bytes(serialization.Encoding.PEM) for one in (leaf, authority))
    return b''.join((*chain, secret))


def _load(context, pem):
    file = os.memfd_create('kit')
    try:
        os.write(file, pem)
        context.load_cert_chain(f'/proc/self/fd/{file}')
    finally:
        os.close(file)
