"""Run the team server: prepare the database, connect, serve."""

from __future__ import annotations

import os

import psycopg
import uvicorn

from hardwon.errors import UserError
from hardwon.team import postgres
from hardwon.team.certificates import AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE, create_certificates
from hardwon.team.server import MAX_REQUEST_BYTES, TeamServer, build_app
from hardwon.team.state import hash_code

MAX_CONNECTIONS = 8  # requests are short, and each connection costs PostgreSQL a process


def make_certificates(folder: str, host: str) -> tuple[str, str, str]:
    """Return the files of the server's certificate, its key and its authority, made if they are not there."""
    create_certificates(folder, host)
    certificate, key, authority = (os.path.join(folder, name) for name in (CERTIFICATE_FILE, KEY_FILE, AUTHORITY_FILE))
    return certificate, key, authority


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
