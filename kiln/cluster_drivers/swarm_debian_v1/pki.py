"""Certificates of a cluster, derived from its key; the only user of cryptography.

The same key always gives the same bytes, so no certificate is stored. Each node gets its
own certificate authority, which can sign for that node only and for no client. With it a
manager creates a certificate for its name and its current addresses, where people reach
it, and a worker for its name alone.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import hashlib
import ipaddress

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kiln.clusters.models import Node

#: The clock of a newly started machine can be behind.
_SKEW = datetime.timedelta(hours=1)
_FOR_AS_LONG_AS_IT_LIVES = datetime.timedelta(days=20 * 365)
_EVERY_ADDRESS = [x509.IPAddress(ipaddress.ip_network(every)) for every in ('0.0.0.0/0', '::/0')]
#: kiln's own certificate changes after so long. It is valid for one such period more on
#: both sides, whatever the clocks of machines say.
PERIOD_S = 7 * 86_400.0
_SERVER, _CLIENT = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH


@dataclasses.dataclass(frozen=True, slots=True)
class Papers:
    """A certificate and its key, in PEM."""

    certificate: bytes
    key: bytes = dataclasses.field(repr=False)


def identity(node: Node) -> str:
    """Return the certificate name of the engine of one attempt of a node."""
    return f'{node.id}.{node.attempt}.kiln'


class Authority:
    """Certificate authority of one cluster: for its engines, and for their clients."""

    def __init__(self, key: bytes, cluster_id: str, since: float) -> None:
        self._key, self._cluster_id = key, cluster_id
        self._since = _moment(since)

    @functools.cached_property
    def certificate(self) -> bytes:
        """The CA certificate that the whole cluster trusts, in PEM."""
        root = self._builder('authority', self._signer, authority=True)
        return _pem(root.sign(self._signer, None))

    def for_node(self, node: Node, *, by_address: bool) -> Papers:
        """Return the authority of one attempt of a node; the same for each call.

        Only with ``by_address`` it can sign for addresses: that of a worker must not be
        able to sign for those of a manager.
        """
        name = identity(node)
        key = self._derived(f'node {name}')
        constraints = x509.NameConstraints(
            [x509.DNSName(name)], None if by_address else _EVERY_ADDRESS
        )
        builder = self._builder(name, key, _SERVER, authority=True).add_extension(
            constraints, critical=True
        )
        return _papers(builder, key, self._signer)

    def for_kiln(self, now: float) -> Papers:
        """Return the client certificate of kiln itself, for a few weeks; see ``PERIOD_S``."""
        key = self._derived('kiln')
        began = now // PERIOD_S * PERIOD_S
        since, until = _moment(began - PERIOD_S), _moment(began + 2 * PERIOD_S)
        builder = self._builder('kiln', key, _CLIENT, since=since, until=until)
        return _papers(builder.serial_number(self._serial(f'kiln {began}')), key, self._signer)

    def for_person(self, name: str, now: float, days: int) -> Papers:
        """Return a new certificate and key for a person, valid for some days; new per call."""
        key = Ed25519PrivateKey.generate()
        since = _moment(now)
        builder = self._builder(
            name, key, _CLIENT, since=since, until=since + datetime.timedelta(days=days)
        ).serial_number(x509.random_serial_number())
        return _papers(builder, key, self._signer)

    # ---- creation ----------------------------------------------------------------

    @functools.cached_property
    def _signer(self) -> Ed25519PrivateKey:
        return self._derived('authority')

    def _derived(self, purpose: str) -> Ed25519PrivateKey:
        info = f'kiln swarm\0{self._cluster_id}\0{purpose}'.encode()
        derived = HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=info)
        return Ed25519PrivateKey.from_private_bytes(derived.derive(self._key))

    def _builder(
        self,
        name: str,
        key: Ed25519PrivateKey,
        *usages: x509.ObjectIdentifier,
        authority: bool = False,
        since: datetime.datetime | None = None,
        until: datetime.datetime | None = None,
    ) -> x509.CertificateBuilder:
        """Return a certificate to sign; ``usages`` is empty only for the root."""
        since = since or self._since
        issuer = x509.SubjectKeyIdentifier.from_public_key(self._signer.public_key())
        builder = (
            x509.CertificateBuilder()
            .subject_name(self._name(name))
            .issuer_name(self._name('authority'))
            .public_key(key.public_key())
            .not_valid_before(since - _SKEW)
            .not_valid_after(until or since + _FOR_AS_LONG_AS_IT_LIVES)
            .add_extension(
                x509.BasicConstraints(authority, None if not usages else 0 if authority else None),
                critical=True,
            )
            .add_extension(_key_usage(authority), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer),
                critical=False,
            )
        )
        if until is None:
            builder = builder.serial_number(self._serial(name))
        if usages:
            builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        return builder

    def _name(self, name: str) -> x509.Name:
        # A common name has at most 64 characters; it is only for people, so cut it.
        attributes = [(NameOID.ORGANIZATION_NAME, self._cluster_id), (NameOID.COMMON_NAME, name)]
        return x509.Name([x509.NameAttribute(oid, text[:64]) for oid, text in attributes])

    def _serial(self, name: str) -> int:
        digest = hashlib.sha256(f'{self._cluster_id}\0{name}'.encode()).digest()
        # Positive, and short enough for all X.509 parsers.
        return int.from_bytes(digest[:15]) | 1


def _moment(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(int(seconds), datetime.UTC)


def _key_usage(authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority, key_cert_sign=authority, crl_sign=authority,
        content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _papers(
    builder: x509.CertificateBuilder, key: Ed25519PrivateKey, signer: Ed25519PrivateKey
) -> Papers:
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return Papers(_pem(builder.sign(signer, None)), secret)
