"""The team server: takes records in, gives those that a machine lacks, and forgets nothing.

It has no pages and decides nothing: every machine verifies what it gets. The server keeps strangers, revoked machines
and floods out. All its state is in PostgreSQL; what is cached here can be read again at any time.
"""

from __future__ import annotations

import datetime
import hashlib
import ipaddress
import logging
import os
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, NamedTuple

import orjson
import psycopg
import uvicorn
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hardwon import __version__, paths
from hardwon.errors import UserError
from hardwon.team import postgres
from hardwon.team.postgres import ConnectionPool, TeamTables
from hardwon.team.record import (
    ERASE,
    FOUND,
    JOIN,
    MEMBERS,
    BadRecord,
    CheckedBatch,
    KnownChains,
    Record,
    Vector,
    check_batch,
    compute_digest,
    find_known_positions,
    from_wire,
    is_token_of,
    parse_body,
    select_bodies,
    shorten_vector,
    to_wire,
)
from hardwon.team.state import ADMIN, ERASED, Machine, TeamState, admit_machine, compute_state, hash_code

_MAX_REQUEST_BYTES = 4 * 1024 * 1024
_MAX_RECORDS_PER_REQUEST = 1_000  # a client sends half of it, and evidence of forks
_MAX_RECORDS_PER_ANSWER = 500
_VECTOR_SECONDS = 1.0  # how long another server's records may stay unseen
_TRIES = 4
Payload = Mapping[str, Any]  # a request, parsed
Answer = dict[str, Any]
log = logging.getLogger(__name__)
MAX_CONNECTIONS = 8  # requests are short, and each connection costs PostgreSQL a process
_VALID_DAYS = 825  # the longest that common clients accept


class Refused(Exception):
    """A request that is not carried out, with its HTTP status."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class _LostRace(Exception):
    """Another request stored one of the same records meanwhile, so everything is checked again."""


@dataclass(slots=True)
class _TeamCache:
    """What was committed of a team; `lock` keeps a thread from replacing newer values by what it read before."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    member_count: int = -1
    state: TeamState = field(default_factory=lambda: compute_state(records=(), contents={}, forks={}))
    vector: Vector = field(default_factory=dict)
    read_at: float = float("-inf")


class RateLimiter:
    """Allow each caller a burst and then a steady rate."""

    def __init__(self, per_second: float, burst: float, now: Callable[[], float] = monotonic) -> None:
        self._per_second = per_second
        self._burst = burst
        self._now = now
        self._levels: dict[str, tuple[float, float]] = {}  # what a caller may still do, and when that was so
        self._lock = threading.Lock()

    def spend(self, caller: str, amount: float) -> None:
        """Charge a caller; Refused with 429 if nothing is left, which an amount of 0 only checks."""
        with self._lock:
            now = self._now()
            level, measured_at = self._levels.get(caller, (self._burst, now))
            # A bucket that fills up steadily; it may be overdrawn once, so that a large request passes whole.
            level = min(self._burst, level + (now - measured_at) * self._per_second)
            if level < 0:
                raise Refused(429, "too much at once; try again later")
            self._levels[caller] = (level - amount, now)


class TeamServer:
    """Carries out requests; each runs in a thread with a connection and a transaction of its own."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._caches: dict[str, _TeamCache] = {}
        self._cache_lock = threading.Lock()
        self._requests = RateLimiter(per_second=10, burst=50)
        self._records = RateLimiter(per_second=100, burst=20_000)
        self._failed_logins = RateLimiter(per_second=1, burst=20)  # wrong codes and tokens

    def report_health(self) -> Answer:
        with self._pool.open_transaction():
            return {"ok": True, "version": __version__}

    def found_team(self, caller: str, payload: Payload) -> Answer:
        """Found a team with a setup code; the founder's first record says its name and key."""
        self._failed_logins.spend(caller, amount=0)
        records, bodies = _parse_records(payload)
        if len(records) != 1 or records[0].kind != FOUND:
            raise Refused(400, "a team is founded with one record")
        team = records[0].team
        with self._open_team(team) as tables:
            if not tables.use_setup_code(hash_code(str(payload.get("code", "")))):
                raise self._refuse_code(caller)
            self._store(tables, records, bodies)
            return {"team": team, "token": _issue_token(tables, machine=records[0].writer, name="")}

    def show_invite(self, caller: str, payload: Payload) -> Answer:
        """Give whoever shows an open invite's code the newest records about members, on which their join builds."""
        self._failed_logins.spend(caller, amount=0)
        code = str(payload.get("code", ""))
        team, _, _ = code.partition(".")
        with self._open_team(team) as tables:
            state = self._read_members(tables)
            if hash_code(code) not in state.open_invites:
                raise self._refuse_code(caller)
            return {"team": team, "parents": state.member_heads}

    def join_team(self, caller: str, payload: Payload) -> Answer:
        """Admit the machine that wrote this join record, if its code is open or it was admitted before.

        The machine chooses its token and signs it, so that it can come back to a server whose backup is older.
        """
        self._failed_logins.spend(caller, amount=0)
        records, bodies = _parse_records(payload)
        if len(records) != 1 or records[0].kind != JOIN:
            raise Refused(400, "a machine joins with one record")
        team = records[0].team
        token = str(payload.get("token", ""))
        signature = str(payload.get("signature", ""))
        with self._open_team(team) as tables:
            state = self._read_members(tables)
            # Whatever is refused below, the transaction takes back.
            batch = self._store(tables, records, bodies)
            new_state = state
            if batch.new_records:
                content = parse_body(bodies.get(records[0].body_hash, ""))
                admitted_state = admit_machine(state, records[0], content)
                if admitted_state is None:  # only an evaluation of all records can tell
                    admitted_state = _read_state(tables, [MEMBERS])
                new_state = admitted_state
            machine = new_state.machines.get(records[0].writer)
            if machine is None or machine.is_revoked:
                raise self._refuse_code(caller)
            if not token.startswith(f"{team}.") or not is_token_of(token, signature, machine.public_key):
                raise Refused(403, "this token is not signed by the machine")
            tables.insert_token(_hash_token(token), machine.id, name="")
        self._extend_cache(team, batch.new_records)
        cache = self._get_cache(team)
        with cache.lock:
            # Another request may have replaced the state, by one with this machine or without.
            if cache.state is state:
                cache.state = new_state
                cache.member_count += len(batch.new_records)
        return {"team": team}

    @contextmanager
    def _open_team(self, team: str) -> Iterator[TeamTables]:
        """Open a transaction that sees one team; if it fails, what was cached of its records is forgotten."""
        try:
            with self._pool.open_transaction() as connection:
                yield TeamTables(connection, team)
        except Exception as error:
            with self._cache_lock:
                cache = self._caches.get(team)
                # A refused request changes nothing, but a team that a stranger made up must not stay either.
                if cache and (not isinstance(error, Refused) or not cache.state.machines):
                    del self._caches[team]
            raise

    def _refuse_code(self, caller: str) -> Refused:
        """Count a wrong code, so that codes cannot be guessed."""
        self._failed_logins.spend(caller, 1)
        return Refused(403, "this code is unknown or was used before")

    def create_reader_token(self, caller: str, token: str, payload: Payload) -> Answer:
        """Create a token that can only read, for machines that live as long as a job."""
        team, _, _ = token.partition(".")
        with self._open_team(team) as tables:
            machine = self._authenticate(tables, caller, token)
            if machine is None or machine.role != ADMIN:
                raise Refused(403, "only an admin creates tokens")
            name = str(payload.get("name", ""))[:80]
            if not name:
                raise Refused(400, "a token needs a name, by which it can be revoked")
            if payload.get("revoke"):
                return {"revoked": tables.revoke_tokens_named(name)}
            return {"token": _issue_token(tables, machine="", name=name)}

    def sync(self, caller: str, token: str, payload: Payload) -> Answer:
        """Store the records of a request and answer with what the machine asked for.

        A machine asks twice: with the digest of its vector, which is answered with this side's vector if they differ,
        and then with the records that are missing here and the numbers after which it needs some.
        """
        records, bodies = _parse_records(payload)
        team, _, _ = token.partition(".")
        for _ in range(_TRIES):
            try:
                with self._open_team(team) as tables:
                    machine = self._authenticate(tables, caller, token)
                    if records and machine is None:
                        raise Refused(403, "this token can only read")
                    caller_id = machine.id if machine else f"{team} readers"
                    self._requests.spend(caller_id, 1)
                    self._records.spend(caller_id, len(records))
                    batch = self._store(tables, records, bodies, caller_id)
                    answer = self._answer_sync(tables, payload)
                self._extend_cache(team, batch.new_records)
                if batch.refused:
                    answer["refused"] = batch.refused
                return answer
            except _LostRace:
                continue
        raise _LostRace

    def _authenticate(self, tables: TeamTables, caller: str, token: str) -> Machine | None:
        """Return the machine of a token; None for one that can only read."""
        stored_token = tables.find_token(_hash_token(token))
        if stored_token is None:
            self._failed_logins.spend(caller, 1)
            raise Refused(401, "this token is unknown or was revoked")
        if not stored_token.machine:
            return None
        machine = self._read_members(tables).machines.get(stored_token.machine)
        if machine is None or machine.is_revoked:
            raise Refused(403, "this machine was revoked")
        return machine

    def _answer_sync(self, tables: TeamTables, payload: Payload) -> Answer:
        """Answer a digest with this side's vector if that differs, and a list of numbers with what follows them."""
        forks = tables.read_forks()
        client_forks = set(map(str, payload.get("forks") or ()))
        starts = payload.get("after")
        if not isinstance(starts, dict):  # the first call of an exchange, which has only a digest
            vector = self._read_vector(tables)
            if client_forks == set(forks) and payload.get("digest") == compute_digest(vector, forks):
                return {"in_sync": True}
            # After a restored backup the machines know forks that are unknown here.
            return {"vector": shorten_vector(vector), "unknown_forks": sorted(client_forks - set(forks))}
        # `type`, because Python's booleans are instances of int as well.
        starts_by_writer = {str(writer): start for writer, start in starts.items() if type(start) is int}
        records: list[Record] = []
        if starts_by_writer:
            records += tables.list_records_after(starts_by_writer, _MAX_RECORDS_PER_ANSWER)
        # Of a fork that the machine does not know send both records of one number: the machine may have either.
        unseen_forks = sorted(set(forks) - client_forks)
        fork_positions = [(writer, forks[writer].sequence) for writer in unseen_forks]
        if fork_positions:
            records += tables.find_records_at(fork_positions)
        second_records = [orjson.loads(forks[writer].second_record) for writer in unseen_forks]
        bodies = {}
        if records:
            bodies = tables.read_bodies([record.body_hash for record in records])
        return {"records": [*map(to_wire, records), *second_records], "bodies": bodies}

    def _store(
        self,
        tables: TeamTables,
        records: Sequence[Record],
        bodies: Mapping[str, str],
        sender: str = "",
    ) -> CheckedBatch:
        """Check and store records in the caller's transaction."""
        if not records:
            return CheckedBatch()
        vector = self._read_vector(tables)
        state = self._read_members(tables)
        positions = find_known_positions(records, vector)
        known_records = tables.find_records_at(sorted(positions)) if positions else []
        if len(known_records) < len(positions):  # the database was restored since the vector was read
            vector = self._read_vector(tables, max_age=0)
        members = {record.writer for record in records} & state.machines.keys()
        known_chains = KnownChains(
            vector=vector,
            hashes={(record.writer, record.sequence): record.hash for record in known_records},
            public_keys={writer: state.machines[writer].public_key for writer in members},
        )
        batch = check_batch(tables.team, records, bodies, known_chains, tables.read_forks(), [sender])
        batch.new_records = _drop_revoked(batch, state)
        inserted_count = tables.insert_records(batch.new_records)
        if inserted_count < len(batch.new_records):
            raise _LostRace
        for writer, record in batch.forks.items():
            evidence = orjson.dumps(to_wire(record)).decode()
            tables.insert_fork(writer, record.sequence, evidence)
            log.warning("machine %s of team %s wrote two records under number %d", writer, tables.team, record.sequence)
        # Records that came earlier may have come without their bodies.
        known_hashes = {record.hash for record in (*batch.new_records, *known_records)}
        stored_records = [record for record in records if record.hash in known_hashes]
        new_bodies = select_bodies(stored_records, bodies)
        tables.insert_bodies(new_bodies)
        if new_bodies or any(record.kind == ERASE for record in batch.new_records):
            self._delete_erased_bodies(tables, {record.subject for record in stored_records})
        return batch

    def _delete_erased_bodies(self, tables: TeamTables, subjects: set[str]) -> None:
        """Delete the texts of these subjects if they are erased; an erasure by somebody who may not is ignored."""
        erased_subjects = tables.find_erased_subjects(subjects - {MEMBERS})
        if not erased_subjects:
            return
        state = _read_state(tables, [MEMBERS, *erased_subjects])
        for subject in erased_subjects:
            if subject in state.subjects and state.subjects[subject].status == ERASED:
                records = tables.list_records_of_subjects([subject])
                tables.delete_bodies([record.body_hash for record in records])

    def _get_cache(self, team: str) -> _TeamCache:
        with self._cache_lock:
            return self._caches.setdefault(team, _TeamCache())

    def _read_members(self, tables: TeamTables) -> TeamState:
        """Return who belongs to a team; evaluated again as soon as there is a new record about members."""
        cache = self._get_cache(tables.team)
        member_count = tables.count_member_records()
        with cache.lock:
            if member_count != cache.member_count:
                cache.state = _read_state(tables, [MEMBERS])
                cache.member_count = member_count
            return cache.state

    def _read_vector(self, tables: TeamTables, max_age: float = _VECTOR_SECONDS) -> Vector:
        """Return every machine's last record; another server's records may be missing for `max_age` seconds."""
        cache = self._get_cache(tables.team)
        with cache.lock:
            if monotonic() - cache.read_at >= max_age:
                cache.vector = tables.read_vector()
                cache.read_at = monotonic()
            return cache.vector

    def _extend_cache(self, team: str, new_records: Sequence[Record]) -> None:
        """Add committed records to what is cached, which is cheaper than to read it anew."""
        if not new_records:
            return
        cache = self._get_cache(team)
        with cache.lock:
            vector = dict(cache.vector)  # other threads compare the old one meanwhile
            for record in new_records:
                if record.sequence > vector.get(record.writer, (0, ""))[0]:
                    vector[record.writer] = (record.sequence, record.hash)
            cache.vector = vector


def _drop_revoked(batch: CheckedBatch, state: TeamState) -> list[Record]:
    """Return the new records without those that revoked machines wrote after their revocation."""
    kept_records = []
    for record in batch.new_records:
        machine = state.machines.get(record.writer)
        if machine and machine.last_sequence is not None and record.sequence > machine.last_sequence:
            batch.refused[record.writer] = "this machine was revoked"
        else:
            kept_records.append(record)
    return kept_records


def _read_state(tables: TeamTables, subjects: Sequence[str]) -> TeamState:
    """Evaluate the records about these subjects alone, which is much faster than the whole log."""
    records = tables.list_records_of_subjects(subjects)
    bodies = tables.read_bodies([record.body_hash for record in records])
    contents = {body_hash: parse_body(body) for body_hash, body in bodies.items()}
    forks = {writer: sequence for writer, (sequence, _) in tables.read_forks().items()}
    return compute_state(records, contents, forks)


def _parse_records(payload: Payload) -> tuple[list[Record], dict[str, str]]:
    """Return the records of a request and the bodies by their hash; Refused if they have not the right shape."""
    wire_records = payload.get("records") or []
    bodies = payload.get("bodies") or {}
    if not isinstance(wire_records, list) or not isinstance(bodies, dict):
        raise Refused(400, "records must be a list, and bodies an object")
    # Checking signatures takes time, and the other requests of the team wait.
    if len(wire_records) > _MAX_RECORDS_PER_REQUEST:
        raise Refused(413, f"at most {_MAX_RECORDS_PER_REQUEST} records in one request")
    if not all(isinstance(body, str) for body in bodies.values()):
        raise Refused(400, "a body must be text")
    try:
        return [from_wire(fields) for fields in wire_records], bodies
    except BadRecord as error:
        raise Refused(400, str(error)) from None


def _issue_token(tables: TeamTables, machine: str, name: str) -> str:
    """Create a token of a machine, or one without a machine that can only read; only its hash is stored."""
    token = f"{tables.team}.{secrets.token_urlsafe(32)}"
    tables.insert_token(_hash_token(token), machine, name)
    return token


def _hash_token(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def build_app(server: TeamServer) -> Starlette:
    """Return the HTTP app: one health check and five calls with JSON bodies."""

    def answer_call(handler: Callable[..., Answer], *, needs_token: bool) -> Callable[[Request], Any]:
        """Return the endpoint that runs a handler in a thread, with the token of the request if it needs one."""

        async def answer(request: Request) -> Response:
            """Answer with the handler's result, or with why the request is refused or cannot be carried out now."""
            caller = request.client.host if request.client else ""
            try:
                payload = await _read_payload(request)
                if needs_token:
                    result = await run_in_threadpool(handler, caller, _read_token(request), payload)
                else:
                    result = await run_in_threadpool(handler, caller, payload)
                return _respond(200, result)
            except Refused as refusal:
                return _respond(refusal.status, {"error": refusal.reason})
            except _LostRace:
                return _respond(503, {"error": "the server is busy; try again later"})
            except psycopg.OperationalError as error:
                return _report_database(error)

        return answer

    async def answer_health(request: Request) -> Response:
        try:
            return _respond(200, await run_in_threadpool(server.report_health))
        except psycopg.OperationalError as error:
            return _report_database(error)

    def route(path: str, handler: Callable[..., Answer], *, needs_token: bool) -> Route:
        return Route(path, answer_call(handler, needs_token=needs_token), methods=["POST"])

    return Starlette(
        routes=[
            Route("/health", answer_health),
            route("/v1/found", server.found_team, needs_token=False),
            route("/v1/invite", server.show_invite, needs_token=False),
            route("/v1/join", server.join_team, needs_token=False),
            route("/v1/tokens", server.create_reader_token, needs_token=True),
            route("/v1/sync", server.sync, needs_token=True),
        ]
    )


def _report_database(error: psycopg.OperationalError) -> Response:
    log.warning("the database does not answer: %s", type(error).__name__)
    return _respond(503, {"ok": False, "error": "the database does not answer"})


async def _read_payload(request: Request) -> Payload:
    """Read a JSON object of bounded size."""
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > _MAX_REQUEST_BYTES:
            raise Refused(413, f"a request may have {_MAX_REQUEST_BYTES // 1024} KB")
    try:
        payload = orjson.loads(bytes(content))
    except orjson.JSONDecodeError:
        raise Refused(400, "the request is not JSON") from None
    if not isinstance(payload, dict):
        raise Refused(400, "the request is not an object")
    return payload


def _read_token(request: Request) -> str:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise Refused(401, "this call needs the header Authorization: Bearer TOKEN")
    return token


def _respond(status: int, content: Mapping[str, Any]) -> Response:
    return Response(orjson.dumps(content), status_code=status, media_type="application/json")


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
        h11_max_incomplete_event_size=_MAX_REQUEST_BYTES,
        limit_concurrency=200,
    )
    uvicorn.Server(config).run()
    pool.close()


class CertificateFiles(NamedTuple):
    """The paths of the server's certificate, of its key, and of the certificate of the authority that signed it."""

    certificate: str
    key: str
    authority: str


def make_certificates(folder: str, host: str) -> CertificateFiles:
    """Return the files of the server's certificate, made if they are not there."""
    files = CertificateFiles(
        certificate=os.path.join(folder, "server.pem"),
        key=os.path.join(folder, "server.key"),
        authority=os.path.join(folder, "authority.pem"),
    )
    if all(map(os.path.exists, files)):
        return files
    paths.make_private_folder(folder)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    server_key = ec.generate_private_key(ec.SECP256R1())
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
    paths.write_private(files.authority, authority.public_bytes(serialization.Encoding.PEM))
    paths.write_private(files.certificate, certificate.public_bytes(serialization.Encoding.PEM))
    paths.write_private(files.key, key_bytes)
    return files


def _start_certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    """Return what the authority's certificate and the server's have in common."""
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
    """Return the host as a certificate names it: an address and a name are different kinds."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
