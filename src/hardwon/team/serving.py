"""Run the team server: prepare the database, make a self-signed certificate if one is asked for, serve."""

from __future__ import annotations

import datetime
import ipaddress
import os

import psycopg
import uvicorn
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from hardwon import paths
from hardwon.errors import UserError
from hardwon.team import postgres
from hardwon.team.server import MAX_REQUEST_BYTES, TeamServer, build_app
from hardwon.team.state import hash_code

MAX_CONNECTIONS = 8  # requests are short, and each connection costs PostgreSQL a process


_VALID_DAYS = 825  # the longest that common clients accept


def prepare_database(database: str) -> bool:
    """Create or migrate the tables; return whether the database was new. UserError if it cannot be used."""
    try:
        with psycopg.connect(database, autocommit=True, connect_timeout=postgres.CONNECT_SECONDS) as connection:
            return postgres.migrate(connection)
    except psycopg.Error as error:
        raise UserError(f"the database: {str(error).strip()}", "check the URL and that the server runs") from None


def add_setup_code(database: str, code: str) -> None:
    """Let whoever shows this code found a team, once."""
    with psycopg.connect(database, connect_timeout=postgres.CONNECT_SECONDS) as connection:
        postgres.add_setup_code(connection, hash_code(code))


def run(database: str, host: str, port: int, certificate: str | None, key: str | None) -> None:
    """Serve until interrupted."""
    pool = postgres.ConnectionPool(database, MAX_CONNECTIONS)
    config = uvicorn.Config(
        build_app(TeamServer(pool)),
        host=host,
        port=port,
        ssl_certfile=certificate,
        ssl_keyfile=key,
        access_log=False,  # addresses of members are nobody's business
        server_header=False,
        log_level="warning",
        h11_max_incomplete_event_size=MAX_REQUEST_BYTES,
        limit_concurrency=200,
    )
    uvicorn.Server(config).run()
    pool.close()


def make_certificates(folder: str, host: str) -> tuple[str, str, str]:
    """Return the files of the server's certificate, its key and its authority, made if they are not there."""
    certificate_file, key_file, authority_file = (
        os.path.join(folder, name) for name in ("server.pem", "server.key", "authority.pem")
    )
    if all(map(os.path.exists, (certificate_file, key_file, authority_file))):
        return certificate_file, key_file, authority_file
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
    paths.write_private(authority_file, authority.public_bytes(serialization.Encoding.PEM))
    paths.write_private(certificate_file, certificate.public_bytes(serialization.Encoding.PEM))
    paths.write_private(key_file, key_bytes)
    return certificate_file, key_file, authority_file


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
