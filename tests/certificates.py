"""A certificate authority for the duration of a test, and its certificates."""

import datetime
import ipaddress

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """Writes PEM files to a folder: ``ca.pem``, and NAME.pem with NAME.key beside it."""

    def __init__(self, folder):
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name('the authority of a test')
        self.ca = folder / 'ca.pem'
        self.ca.write_bytes(_pem(self._signed(self._name, self._key, is_authority=True)))

    def issue(self, name, host='127.0.0.1'):
        """Return the paths of a certificate for a host, the loopback at first, and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._folder / f'{name}.pem'
        certificate.write_bytes(_pem(self._signed(_name(name), key, host)))
        secret = self._folder / f'{name}.key'
        secret.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return certificate, secret

    def _signed(self, subject, key, host='127.0.0.1', *, is_authority=False):
        now = datetime.datetime.now(datetime.UTC)
        subject_id = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        issuer_id = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        names = [x509.DNSName(host)]
        if host == '127.0.0.1':
            address = x509.IPAddress(ipaddress.ip_address(host))
            names = [x509.DNSName('localhost'), address]
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(_usage(is_authority), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            # Python 3.13 believes no certificate without the two.
            .add_extension(subject_id, critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer_id),
                critical=False,
            )
            .sign(self._key, hashes.SHA256())
        )


def _name(text):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _usage(is_authority):
    return x509.KeyUsage(
        digital_signature=not is_authority, key_cert_sign=is_authority, crl_sign=is_authority,
        content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _pem(certificate):
    return certificate.public_bytes(serialization.Encoding.PEM)
