"""One-hour certificates for a server and a client on loopback."""

import datetime
import ipaddress

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_HOUR = datetime.timedelta(hours=1)


def authority(folder):
    """Write an authority and the certificates it signed; return the paths by name."""
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca = _certificate('ca', ca_key, _name('ca'), ca_key, is_ca=True)
    files = {'ca': _write(folder / 'ca.pem', ca.public_bytes(serialization.Encoding.PEM))}
    for who in ('server', 'client'):
        key = ec.generate_private_key(ec.SECP256R1())
        made = _certificate(who, key, ca.subject, ca_key, is_ca=False)
        files[who] = _write(folder / f'{who}.pem', made.public_bytes(serialization.Encoding.PEM))
        files[f'{who}_key'] = _write(
            folder / f'{who}-key.pem',
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ),
        )
    return files


def _name(text):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _certificate(who, key, issuer, issuer_key, *, is_ca):
    now = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address('127.0.0.1'))])
    return (
        x509.CertificateBuilder()
        .subject_name(_name(who))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _HOUR)
        .not_valid_after(now + _HOUR)
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        .add_extension(names, critical=False)
        .sign(issuer_key, hashes.SHA256())
    )


def _write(path, content):
    path.write_bytes(content)
    return str(path)
