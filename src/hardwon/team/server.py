"""The team server: takes records in, gives those that a machine lacks, and forgets nothing.

It has no pages and decides nothing: every machine verifies what it gets. The server keeps strangers, revoked machines
and floods out. All its state is in PostgreSQL; what is cached here can be read again at any time.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import orjson
import psycopg
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hardwon import __version__
from hardwon.team import postgres
from hardwon.team.chains import (
    HASH_PREFIX_CHARS,
    CheckedBatch,
    KnownChains,
    Vector,
    check_batch,
    compute_digest,
    select_bodies,
)
from hardwon.team.record import (
    ERASE,
    FOUND,
    JOIN,
    MEMBERS,
    BadRecord,
    Record,
    from_wire,
    is_token_of,
    parse_body,
    to_wire,
)
from hardwon.team.state import ADMIN, ERASED, Machine, TeamState, compute_state, hash_code

MAX_REQUEST_BYTES = 4 * 1024 * 1024
MAX_RECORDS_PER_REQUEST = 500
MAX_RECORDS_PER_ANSWER = 500
VECTOR_SECONDS = 1.0  # how long another server's records may stay unseen
_TRIES = 4
log = logging.getLogger(__name__)


class Refused(Exception):
    """A request that is not carried out, with its HTTP status."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


class _LostRace(Exception):
    """Another request stored one of the same records meanwhile, so everything is checked again."""


@dataclass(slots=True)
class _TeamCache:
    member_count: int = -1
    state: TeamState | None = None
    vector: Vector = field(default_factory=dict)
    read_at: float = float("-inf")


class RateLimiter:
    """Allow each caller a burst and then a steady rate."""

    def __init__(self, per_second: float, burst: float, now: Callable[[], float] = monotonic) -> None:
        self._per_second, self._burst, self._now = per_second, burst, now
        self._levels: dict[str, tuple[float, float]] = {}  # what a caller may still do, and when that was so
        self._lock = threading.Lock()

    def spend(self, caller: str, amount: float) -> None:
        """Charge a caller; Refused with 429 if nothing is left."""
        with self._lock:
            now = self._now()
            level, measured_at = self._levels.get(caller, (self._burst, now))
            level = min(self._burst, level + (now - measured_at) * self._per_second)
            if level < 0:
                raise Refused(429, "too much at once; try again later")
            self._levels[caller] = (level - amount, now)


class TeamServer:
    """Carries out requests; each runs in a thread with a connection and a transaction of its own."""

    def __init__(self, pool: postgres.ConnectionPool) -> None:
        self._pool = pool
        self._caches: dict[str, _TeamCache] = {}
        self._cache_lock = threading.Lock()
        self._requests = RateLimiter(per_second=10, burst=50)
        self._records = RateLimiter(per_second=100, burst=20_000)
        self._strangers = RateLimiter(per_second=1, burst=20)  # wrong codes and tokens

    def report_health(self) -> dict[str, Any]:
        with self._pool.open_transaction():
            return {"ok": True, "version": __version__}

    def found_team(self, caller: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Found a team with a setup code; the founder's first record says its name and key."""
        self._strangers.spend(caller, 0)
        records, bodies = _parse_records(payload)
        if len(records) != 1 or records[0].kind != FOUND:
            raise Refused(400, "a team is founded with one record")
        team = records[0].team
        with self._pool.open_transaction() as connection:
            if not postgres.use_setup_code(connection, hash_code(str(payload.get("code", ""))), team):
                raise self._refuse_code(caller)
            postgres.enter_team(connection, team)
            self._store(connection, team, records, bodies, _TeamCache())
            return {"team": team, "token": _issue_token(connection, team, records[0].writer, "")}

    def show_invite(self, caller: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Give whoever shows an open invite's code the newest records about members, on which their join builds."""
        self._strangers.spend(caller, 0)
        code = str(payload.get("code", ""))
        team, _, _ = code.partition(".")
        with self._open_team(team) as connection:
            cache = self._refresh_cache(connection, team)
            if cache.state is None or hash_code(code) not in cache.state.open_invites:
                raise self._refuse_code(caller)
            return {"team": team, "parents": cache.state.member_heads}

    def join_team(self, caller: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Admit the machine that wrote this join record, if its code is open or it was admitted before.

        The machine chooses its token and signs it, so that it can come back to a server whose backup is older.
        """
        self._strangers.spend(caller, 0)
        records, bodies = _parse_records(payload)
        if len(records) != 1 or records[0].kind != JOIN:
            raise Refused(400, "a machine joins with one record")
        team, token, signature = records[0].team, str(payload.get("token", "")), str(payload.get("signature", ""))
        with self._open_team(team) as connection:
            self._store(connection, team, records, bodies, self._refresh_cache(connection, team))
            state = self._refresh_cache(connection, team).state
            machine = state.machines.get(records[0].writer) if state else None
            if machine is None or machine.is_revoked:
                raise self._refuse_code(caller)
            if not token.startswith(f"{team}.") or not is_token_of(token, signature, machine.public_key):
                raise Refused(403, "this token is not signed by the machine")
            postgres.insert_token(connection, team, _hash_token(token), machine.id, "")
            return {"team": team}

    @contextmanager
    def _open_team(self, team: str) -> Iterator[psycopg.Connection[Any]]:
        """Open a transaction that sees one team; if it fails, what was cached of its records is forgotten."""
        try:
            with self._pool.open_transaction() as connection:
                postgres.enter_team(connection, team)
                yield connection
        except Exception:
            with self._cache_lock:
                self._caches.pop(team, None)
            raise

    def _refuse_code(self, caller: str) -> Refused:
        """Count a wrong code, so that codes cannot be guessed."""
        self._strangers.spend(caller, 1)
        return Refused(403, "this code is unknown or was used before")

    def create_reader_token(self, caller: str, token: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Create a token that can only read, for machines that live as long as a job."""
        team, machine = self._authenticate(caller, token)
        if machine is None or machine.role != ADMIN:
            raise Refused(403, "only an admin creates tokens")
        name = str(payload.get("name", ""))[:80]
        if not name:
            raise Refused(400, "a token needs a name, by which it can be revoked")
        with self._open_team(team) as connection:
            if payload.get("revoke"):
                return {"revoked": postgres.revoke_tokens_named(connection, team, name)}
            return {"token": _issue_token(connection, team, "", name)}

    def sync(self, caller: str, token: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Store the records of a request and answer with those that the machine lacks."""
        team, machine = self._authenticate(caller, token)
        records, bodies = _parse_records(payload)
        if records and machine is None:
            raise Refused(403, "this token can only read")
        caller_id = machine.id if machine else f"{team} readers"
        self._requests.spend(caller_id, 1)
        self._records.spend(caller_id, len(records))
        for _ in range(_TRIES):
            try:
                with self._open_team(team) as connection:
                    sender = machine.id if machine else ""
                    return self._sync_once(connection, team, records, bodies, payload, sender)
            except _LostRace:
                continue
        raise Refused(503, "the server is busy; try again later")

    def _authenticate(self, caller: str, token: str) -> tuple[str, Machine | None]:
        """Return the team and machine of a token; no machine for one that can only read."""
        team, _, _ = token.partition(".")
        with self._open_team(team) as connection:
            stored_token = postgres.find_token(connection, team, _hash_token(token))
            if stored_token is None:
                self._strangers.spend(caller, 1)
                raise Refused(401, "this token is unknown or was revoked")
            if not stored_token.machine:
                return team, None
            cache = self._refresh_cache(connection, team)
        machine = cache.state.machines.get(stored_token.machine) if cache.state else None
        if machine is None or machine.is_revoked:
            raise Refused(403, "this machine was revoked")
        return team, machine

    def _sync_once(
        self,
        connection: psycopg.Connection[Any],
        team: str,
        records: Sequence[Record],
        bodies: Mapping[str, str],
        payload: Mapping[str, Any],
        sender: str,
    ) -> dict[str, Any]:
        cache = self._refresh_cache(connection, team)
        answer: dict[str, Any] = {}
        if records:
            batch = self._store(connection, team, records, bodies, cache, sender)
            if batch.refused:
                answer["refused"] = batch.refused
            if any(record.subject == MEMBERS for record in batch.new_records):
                cache = self._refresh_cache(connection, team)
        forks = postgres.read_forks(connection, team)
        client_forks = set(map(str, payload.get("forks") or ()))
        unseen_forks, unknown_forks = set(forks) - client_forks, client_forks - set(forks)
        own_digest = compute_digest(cache.vector, forks)
        if payload.get("digest") == own_digest and not unseen_forks and not unknown_forks:
            return {**answer, "in_sync": True}
        client_vector = payload.get("vector")
        if not isinstance(client_vector, dict):
            return {**answer, "in_sync": False}
        starts, behind, divergent = _compare_vectors(cache.vector, client_vector)
        missing_records = (
            postgres.list_records_after(connection, team, starts, MAX_RECORDS_PER_ANSWER) if starts else []
        )
        answer |= _write_records(connection, team, missing_records)
        # Both records under the number in question: the machine may have either.
        fork_positions = [(writer, forks[writer][0]) for writer in sorted(unseen_forks)]
        first_records = postgres.find_records_at(connection, team, fork_positions)
        second_records = [orjson.loads(forks[writer][1]) for writer in unseen_forks]
        answer["evidence"] = [*map(to_wire, first_records), *second_records]
        return {
            **answer,
            "in_sync": False,
            "more": len(missing_records) >= MAX_RECORDS_PER_ANSWER,
            "behind": behind,
            "resend": sorted(set(divergent) - set(forks)),
            "unknown_forks": sorted(unknown_forks),  # after a restored backup the machines know more
        }

    def _store(
        self,
        connection: psycopg.Connection[Any],
        team: str,
        records: Sequence[Record],
        bodies: Mapping[str, str],
        cache: _TeamCache,
        sender: str = "",
    ) -> CheckedBatch:
        """Check and store records in the caller's transaction."""
        quarantined = postgres.read_forks(connection, team)
        known = self._read_known_chains(connection, team, records, cache)
        batch = check_batch(team, records, bodies, known, quarantined, [sender])
        if cache.state is not None:
            batch.new_records = _drop_revoked(batch, cache.state)
        if postgres.insert_records(connection, batch.new_records) < len(batch.new_records):
            raise _LostRace
        for writer, record in batch.forks.items():
            evidence = orjson.dumps(to_wire(record)).decode()
            postgres.insert_fork(connection, team, writer, record.sequence, evidence)
            log.warning("machine %s of team %s wrote two records under number %d", writer, team, record.sequence)
        # Records that came earlier may have come without their bodies.
        known_hashes = {record.hash for record in batch.new_records} | set(known.hashes.values())
        stored_records = [record for record in records if record.hash in known_hashes]
        new_bodies = select_bodies(stored_records, bodies)
        postgres.insert_bodies(connection, team, new_bodies)
        _extend_vector(cache, batch.new_records)
        subjects = {record.subject for record in stored_records}
        if new_bodies or any(record.kind == ERASE for record in batch.new_records):
            self._delete_erased_bodies(connection, team, subjects)
        return batch

    def _read_known_chains(
        self, connection: psycopg.Connection[Any], team: str, records: Sequence[Record], cache: _TeamCache
    ) -> KnownChains:
        positions = {(record.writer, record.sequence) for record in records}
        positions |= {(writer, sequence - 1) for writer, sequence in positions}
        writers = {record.writer for record in records}
        positions |= {(writer, cache.vector[writer][0]) for writer in writers if writer in cache.vector}
        known_records = postgres.find_records_at(connection, team, sorted(positions))
        heads: dict[str, Record] = {}
        for record in known_records:
            if record.writer not in heads or record.sequence > heads[record.writer].sequence:
                heads[record.writer] = record
        machines = cache.state.machines if cache.state else {}
        return KnownChains(
            heads,
            {(record.writer, record.sequence): record.hash for record in known_records},
            {writer: machines[writer].public_key for writer in writers if writer in machines},
        )

    def _delete_erased_bodies(self, connection: psycopg.Connection[Any], team: str, subjects: set[str]) -> None:
        erased_subjects = postgres.find_erased_subjects(connection, team, subjects - {MEMBERS})
        if not erased_subjects:
            return
        state = _read_state(connection, team, [MEMBERS, *erased_subjects])
        for subject in erased_subjects:
            if subject in state.subjects and state.subjects[subject].status == ERASED:
                records = postgres.list_records_of_subjects(connection, team, [subject])
                postgres.delete_bodies(connection, team, [record.body_hash for record in records])

    def _refresh_cache(self, connection: psycopg.Connection[Any], team: str) -> _TeamCache:
        """Return what is known of a team; read again what changed or is older than a second."""
        with self._cache_lock:
            cache = self._caches.setdefault(team, _TeamCache())
        member_count = postgres.count_member_records(connection, team)
        if member_count != cache.member_count:
            cache.state = _read_state(connection, team, [MEMBERS])
            cache.member_count = member_count
        if monotonic() - cache.read_at > VECTOR_SECONDS:
            cache.read_at = monotonic()
            cache.vector = postgres.read_vector(connection, team)
        return cache


def _extend_vector(cache: _TeamCache, new_records: Sequence[Record]) -> None:
    """Add stored records to the cached vector, which is cheaper than to read it anew."""
    vector = dict(cache.vector)  # other threads compare the old one meanwhile
    for record in new_records:
        if record.sequence > vector.get(record.writer, (0, ""))[0]:
            vector[record.writer] = (record.sequence, record.hash)
    cache.vector = vector


def _compare_vectors(
    own_vector: Mapping[str, tuple[int, str]], client_vector: Mapping[str, Any]
) -> tuple[dict[str, int], dict[str, int], list[str]]:
    """Return after which numbers the client needs records, which the server needs, and which chains differ."""
    starts: dict[str, int] = {}
    behind: dict[str, int] = {}
    divergent: list[str] = []
    for writer, (sequence, record_hash) in own_vector.items():
        client_sequence, hash_prefix = _parse_entry(client_vector.get(writer))
        if client_sequence < sequence:
            starts[writer] = client_sequence
        elif client_sequence > sequence:
            behind[writer] = sequence
        elif hash_prefix != record_hash[:HASH_PREFIX_CHARS]:
            divergent.append(writer)
    for writer in client_vector.keys() - own_vector.keys():
        behind[writer] = 0
    return starts, behind, divergent


def _parse_entry(entry: Any) -> tuple[int, str]:
    if isinstance(entry, list) and len(entry) == 2 and type(entry[0]) is int and isinstance(entry[1], str):
        return max(entry[0], 0), entry[1]
    return 0, ""


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


def _read_state(connection: psycopg.Connection[Any], team: str, subjects: Sequence[str]) -> TeamState:
    records = postgres.list_records_of_subjects(connection, team, subjects)
    bodies = postgres.read_bodies(connection, team, [record.body_hash for record in records])
    contents = {body_hash: parse_body(body) for body_hash, body in bodies.items()}
    forks = {writer: sequence for writer, (sequence, _) in postgres.read_forks(connection, team).items()}
    return compute_state(records, contents, forks)


def _write_records(connection: psycopg.Connection[Any], team: str, records: Sequence[Record]) -> dict[str, Any]:
    bodies = postgres.read_bodies(connection, team, [record.body_hash for record in records]) if records else {}
    return {"records": [to_wire(record) for record in records], "bodies": bodies}


def _parse_records(payload: Mapping[str, Any]) -> tuple[list[Record], dict[str, str]]:
    wire_records, bodies = payload.get("records") or [], payload.get("bodies") or {}
    if not isinstance(wire_records, list) or not isinstance(bodies, dict):
        raise Refused(400, "records must be a list, and bodies an object")
    if len(wire_records) > MAX_RECORDS_PER_REQUEST:
        raise Refused(413, f"at most {MAX_RECORDS_PER_REQUEST} records in one request")
    if not all(isinstance(body, str) for body in bodies.values()):
        raise Refused(400, "a body must be text")
    try:
        return [from_wire(fields) for fields in wire_records], bodies
    except BadRecord as error:
        raise Refused(400, str(error)) from None


def _issue_token(connection: psycopg.Connection[Any], team: str, machine: str, name: str) -> str:
    token = f"{team}.{secrets.token_urlsafe(32)}"
    postgres.insert_token(connection, team, _hash_token(token), machine, name)
    return token


def _hash_token(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def build_app(server: TeamServer) -> Starlette:
    """Return the HTTP app: one health check and five calls with JSON bodies."""

    def answer_call(handler: Callable[..., dict[str, Any]], *, needs_token: bool) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            caller = request.client.host if request.client else ""
            try:
                payload = await _read_payload(request)
                arguments = [caller, _read_token(request), payload] if needs_token else [caller, payload]
                return _respond(200, await run_in_threadpool(handler, *arguments))
            except Refused as refusal:
                return _respond(refusal.status, {"error": refusal.reason})
            except psycopg.OperationalError as error:
                return _report_database(error)

        return answer

    async def answer_health(request: Request) -> Response:
        try:
            return _respond(200, await run_in_threadpool(server.report_health))
        except psycopg.OperationalError as error:
            return _report_database(error)

    def route(path: str, handler: Callable[..., dict[str, Any]], *, needs_token: bool) -> Route:
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


async def _read_payload(request: Request) -> dict[str, Any]:
    """Read a JSON object of bounded size."""
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > MAX_REQUEST_BYTES:
            raise Refused(413, f"a request may have {MAX_REQUEST_BYTES // 1024} KB")
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
