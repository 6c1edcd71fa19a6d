"""Generator of the authorities and certificates that Octavia reads.

usage: certificates.py FOLDER
"""

import datetime
import os
import pathlib
import sys

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

DAYS = 3650


def certificate(name, issuer=None, issuer_key=None):
    """Return a key and its certificate; without an issuer it is an authority."""
    key = rsa.generate_private_key(65537, 2048)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(1))
        .not_valid_after(now + datetime.timedelta(DAYS))
        .add_extension(x509.BasicConstraints(ca=not issuer, path_length=None), critical=True)
    )
    return key, builder.sign(issuer_key or key, hashes.SHA256())


def key_text(key):
    """Return a private key as PEM."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def certificate_text(certificate):
    """Return a certificate as PEM."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def write(path, *parts):
    """Write a file that no other user can read."""
    with path.open('wb') as file:
        os.fchmod(file.fileno(), 0o600)
        file.writelines(parts)


def main(folder):
    """Make a server authority, a client authority and one client."""
    key, authority = certificate('server-ca')
    write(folder / 'server_ca.cert.pem', certificate_text(authority))
    write(folder / 'server_ca.key.pem', key_text(key))
    key, authority = certificate('client-ca')
    write(folder / 'client_ca.cert.pem', certificate_text(authority))
    client_key, client = certificate('client', authority, key)
    write(folder / 'client.cert-and-key.pem', certificate_text(client), key_text(client_key))


main(pathlib.Path(sys.argv[1]))
