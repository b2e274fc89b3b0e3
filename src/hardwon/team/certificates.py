"""A self-signed authority and a server certificate, for a team on one's own machines and for tests."""

from __future__ import annotations

import datetime
import ipaddress
import os

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from hardwon import paths

_VALID_DAYS = 825  # the longest that common clients accept
AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE = "authority.pem", "server.pem", "server.key"


def create_certificates(folder: str, host: str) -> None:
    """Write an authority, and a certificate for the host that it signed, unless they are there already."""
    if all(os.path.exists(os.path.join(folder, name)) for name in (AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE)):
        return
    paths.make_private_folder(folder)
    authority_key, server_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hardwon team authority")])
    authority = (
        _start_certificate(authority_name, authority_name, authority_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    server_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    certificate = (
        _start_certificate(server_name, authority_name, server_key)
        .add_extension(x509.SubjectAlternativeName([_name_host(host), x509.DNSName("localhost")]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    key_bytes = server_key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    # The authority's key is not kept: a new server gets a new authority.
    contents = {
        AUTHORITY_FILE: authority.public_bytes(serialization.Encoding.PEM),
        CERTIFICATE_FILE: certificate.public_bytes(serialization.Encoding.PEM),
        KEY_FILE: key_bytes,
    }
    for name, content in contents.items():
        paths.write_private(os.path.join(folder, name), content)


def _start_certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))  # machines whose clock is a little behind
        .not_valid_after(now + datetime.timedelta(days=_VALID_DAYS))
    )


def _name_host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
