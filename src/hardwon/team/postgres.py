"""The server's tables in PostgreSQL, and the only place with SQL for them.

The statements are plain SQL without sequences, LISTEN/NOTIFY or locks in the data path, so that they also suit
databases that speak PostgreSQL's protocol. Two walls keep teams apart: every statement names the team, and row-level
security shows only the rows of the team that the transaction is set to, none if it is set to no team.
"""

from __future__ import annotations

import select
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from queue import Empty, LifoQueue
from typing import Any, NamedTuple

import orjson
import psycopg
from psycopg import Connection

from hardwon.errors import UserError
from hardwon.team.record import ERASE, MEMBERS, Record

_SCHEMA_VERSION = 1
_MIN_SERVER_VERSION = 150000  # PostgreSQL 15
_SERVER_ROLE = "hardwon_team_server"
CONNECT_SECONDS = 5
_MIGRATION_LOCK = 0x68617264  # any fixed number; it keeps two starting servers from migrating at once
_COLUMNS = "team, writer, sequence, kind, format, subject, parents, body_hash, hash, signature"
_TEAM_TABLES = ("team_records", "team_bodies", "team_forks", "team_tokens", "team_token_revocations")
_SCHEMA = (
    """
    create table team_records (
        team text not null,
        writer text not null,
        sequence bigint not null,
        kind text not null,
        format integer not null,
        subject text not null,
        parents text not null,
        body_hash text not null,
        hash text not null,
        signature text not null,
        primary key (team, writer, sequence)
    )
    """,
    "create index team_records_by_subject on team_records (team, subject)",
    """
    create table team_bodies (
        team text not null,
        hash text not null,
        body text not null,
        primary key (team, hash)
    )
    """,
    """
    create table team_forks (
        team text not null,
        writer text not null,
        sequence bigint not null,
        evidence text not null,
        primary key (team, writer, sequence)
    )
    """,
    """
    create table team_tokens (
        team text not null,
        token_hash text not null,
        machine text not null,
        name text not null,
        primary key (team, token_hash)
    )
    """,
    """
    create table team_token_revocations (
        team text not null,
        token_hash text not null,
        primary key (team, token_hash)
    )
    """,
    "create table setup_codes (code_hash text primary key)",
    "create table used_setup_codes (code_hash text primary key, team text not null)",
)


class Fork(NamedTuple):
    """The first number that a machine used for two records, and the second of them as JSON."""

    sequence: int
    second_record: str


@dataclass(frozen=True, slots=True)
class Token:
    """Who a token belongs to; a token without a machine can only read."""

    machine: str
    name: str


def migrate(connection: Connection[Any]) -> bool:
    """Create the tables and the role that the server runs as; return whether they were new.

    Several servers may start at once.
    """
    server_version = connection.info.server_version
    if server_version < _MIN_SERVER_VERSION:
        raise UserError(f"PostgreSQL {server_version // 10000} is too old", "use PostgreSQL 15 or later")
    with connection.transaction():
        # The lock is released with the transaction.
        connection.execute("select pg_advisory_xact_lock(%s)", (_MIGRATION_LOCK,))
        connection.execute("create table if not exists hardwon_schema (version integer primary key)")
        version = _fetch_value(connection, "select coalesce(max(version), 0) from hardwon_schema")
        if version > _SCHEMA_VERSION:
            raise UserError(f"the database has schema {version}, newer than {_SCHEMA_VERSION}", "upgrade hardwon")
        if version < 1:
            _create_schema(connection)
            connection.execute("insert into hardwon_schema (version) values (1)")
    return bool(version < 1)


def _create_schema(connection: Connection[Any]) -> None:
    """Create the tables, and give the server's role no more rights than it needs."""
    for statement in _SCHEMA:
        connection.execute(statement)
    # The server may add and read, and it may delete bodies, because an erased text must go; it can change no record.
    if not _fetch_value(connection, "select 1 from pg_roles where rolname = %s", _SERVER_ROLE):
        connection.execute(f"create role {_SERVER_ROLE} nologin")
    connection.execute(f"grant {_SERVER_ROLE} to current_user")
    for table in _TEAM_TABLES:
        connection.execute(f"grant select, insert on {table} to {_SERVER_ROLE}")
        _add_policy(connection, table, "team = current_setting('hardwon.team', true)")
    connection.execute(f"grant delete on team_bodies to {_SERVER_ROLE}")
    # Of the codes that found a team a request sees only the one that it presents.
    for table in ("setup_codes", "used_setup_codes"):
        connection.execute(f"grant select, insert on {table} to {_SERVER_ROLE}")
        _add_policy(connection, table, "code_hash = current_setting('hardwon.setup_code', true)")


def _add_policy(connection: Connection[Any], table: str, condition: str) -> None:
    """Let a transaction see and add only rows of a table that meet the condition."""
    connection.execute(f"alter table {table} enable row level security")
    connection.execute(f"alter table {table} force row level security")  # for the owner of the table, too
    connection.execute(f"create policy own_rows on {table} using ({condition}) with check ({condition})")


class ConnectionPool:
    """A few connections that can only read and insert, and that see no rows until they enter a team.

    It is our own because a pool that reconnects in the background waits longer after each failure: after PostgreSQL was
    restarted the server would stay away for as long again.
    """

    def __init__(self, database: str, max_size: int) -> None:
        self._database = database
        self._idle: LifoQueue[Connection[Any]] = LifoQueue()
        self._slots = threading.BoundedSemaphore(max_size)

    @contextmanager
    def open_transaction(self) -> Iterator[Connection[Any]]:
        """Yield a connection in a transaction, which is committed unless the block raises."""
        with self._slots:
            connection = self._take_connection()
            try:
                with connection.transaction():
                    yield connection
            finally:
                if connection.closed:
                    self.close()  # the others are of the same server, which has ended
                else:
                    self._idle.put(connection)

    def _take_connection(self) -> Connection[Any]:
        """Return an idle connection that is still open, or a new one with the rights of the server's role alone."""
        while True:
            try:
                connection = self._idle.get_nowait()
            except Empty:
                break
            # Nothing arrives on an idle connection unless PostgreSQL closed it, such as for a restart.
            if not select.select([connection], [], [], 0)[0]:
                return connection
            connection.close()
        connection = psycopg.connect(self._database, autocommit=True, connect_timeout=CONNECT_SECONDS)
        # From here on the connection has no rights of the role that logged in.
        connection.execute(f"set role {_SERVER_ROLE}")
        return connection

    def close(self) -> None:
        while True:
            try:
                self._idle.get_nowait().close()
            except Empty:
                return


def enter_team(connection: Connection[Any], team: str) -> None:
    """Limit the current transaction to the rows of one team."""
    connection.execute("select set_config('hardwon.team', %s, true)", (team,))


def _fetch_value(connection: Connection[Any], query: str, *values: object) -> Any:
    row = connection.execute(query, values).fetchone()
    return row[0] if row else None


def add_setup_code(connection: Connection[Any], code_hash: str) -> None:
    """Allow whoever shows this code to found a team, once."""
    connection.execute("select set_config('hardwon.setup_code', %s, true)", (code_hash,))
    connection.execute("insert into setup_codes (code_hash) values (%s) on conflict do nothing", (code_hash,))


def _list_columns(table: str) -> str:
    """Return the columns of a record, each with the table or alias that it is read from."""
    return ", ".join(f"{table}.{name}" for name in _COLUMNS.split(", "))


def _parse_row(row: Sequence[Any]) -> Record:
    record = Record(*row)
    return record._replace(parents=tuple(orjson.loads(row[6])))  # the column with the parents as JSON


class TeamTables:
    """The rows of one team, within the transaction of a connection."""

    def __init__(self, connection: Connection[Any], team: str) -> None:
        enter_team(connection, team)
        self._connection = connection
        self.team = team

    def use_setup_code(self, code_hash: str) -> bool:
        """Use up a code for founding this team; False if there is no such code or it was used before."""
        # The row's policy shows a code only to a transaction that names it.
        self._connection.execute("select set_config('hardwon.setup_code', %s, true)", (code_hash,))
        if not _fetch_value(self._connection, "select 1 from setup_codes where code_hash = %s", code_hash):
            return False
        cursor = self._connection.execute(
            "insert into used_setup_codes (code_hash, team) values (%s, %s) on conflict do nothing",
            (code_hash, self.team),
        )
        return cursor.rowcount == 1

    def insert_records(self, records: Sequence[Record]) -> int:
        """Add records; return how many were new. Fewer than given means that another request was faster."""
        if not records:
            return 0
        rows = [(*record[:6], orjson.dumps(record.parents).decode(), *record[7:]) for record in records]
        # Lists travel in binary (%b), because psycopg escapes each text of a list in Python otherwise.
        cursor = self._connection.execute(
            f"""
            insert into team_records ({_COLUMNS})
            select * from unnest(%b::text[], %b::text[], %b::bigint[], %b::text[], %b::integer[], %b::text[],
                        %b::text[], %b::text[], %b::text[], %b::text[])
                 as arriving ({_COLUMNS})
            on conflict do nothing
            """,
            list(map(list, zip(*rows, strict=True))),
        )
        return cursor.rowcount

    def insert_bodies(self, bodies: Mapping[str, str]) -> None:
        if bodies:
            self._connection.execute(
                """
                insert into team_bodies (team, hash, body)
                select %s, hash, body from unnest(%b::text[], %b::text[]) as arriving (hash, body)
                on conflict do nothing
                """,
                (self.team, list(bodies), list(bodies.values())),
            )

    def delete_bodies(self, hashes: Sequence[str]) -> None:
        self._connection.execute(
            "delete from team_bodies where team = %s and hash = any(%s)", (self.team, list(hashes))
        )

    def read_bodies(self, hashes: Iterable[str]) -> dict[str, str]:
        rows = self._connection.execute(
            "select hash, body from team_bodies where team = %s and hash = any(%s)", (self.team, list(hashes))
        )
        return dict(rows.fetchall())

    def read_vector(self) -> dict[str, tuple[int, str]]:
        """Return the number and hash of every machine's last record, with one look into the index per machine."""
        rows = self._connection.execute(
            """
            with recursive machines as (
                (select writer from team_records where team = %(team)s order by writer limit 1)
                union all
                select (select writer from team_records where team = %(team)s and writer > machines.writer
                        order by writer limit 1)
                from machines where machines.writer is not null
            )
            select machines.writer, last.sequence, last.hash
            from machines cross join lateral (
                select sequence, hash from team_records
                where team = %(team)s and writer = machines.writer order by sequence desc limit 1
            ) as last
            """,
            {"team": self.team},
        )
        return {writer: (sequence, record_hash) for writer, sequence, record_hash in rows.fetchall()}

    def list_records_after(self, starts: Mapping[str, int], limit: int) -> list[Record]:
        """Return records of several machines, each after its number, at most `limit` in all."""
        rows = self._connection.execute(
            f"""
            select {_list_columns("following")}
            from unnest(%s::text[], %s::bigint[]) as start (writer, sequence)
            cross join lateral (
                select * from team_records
                where team = %s and writer = start.writer and sequence > start.sequence order by sequence limit %s
            ) as following
            limit %s
            """,
            (list(starts), list(starts.values()), self.team, limit, limit),
        )
        return [_parse_row(row) for row in rows.fetchall()]

    def list_records_of_subjects(self, subjects: Iterable[str]) -> list[Record]:
        rows = self._connection.execute(
            f"select {_COLUMNS} from team_records where team = %s and subject = any(%s)", (self.team, list(subjects))
        )
        return [_parse_row(row) for row in rows.fetchall()]

    def find_records_at(self, positions: Sequence[tuple[str, int]]) -> list[Record]:
        """Return the records at these positions: machines and numbers."""
        rows = self._connection.execute(
            f"""
            select {_list_columns("team_records")}
            from unnest(%s::text[], %s::bigint[]) as position (writer, sequence)
            join team_records on team_records.team = %s and team_records.writer = position.writer
                and team_records.sequence = position.sequence
            """,
            ([writer for writer, _ in positions], [sequence for _, sequence in positions], self.team),
        )
        return [_parse_row(row) for row in rows.fetchall()]

    def find_erased_subjects(self, subjects: Iterable[str]) -> list[str]:
        """Return those of the subjects that somebody wrote an erasure about."""
        rows = self._connection.execute(
            "select distinct subject from team_records where team = %s and subject = any(%s) and kind = %s",
            (self.team, list(subjects), ERASE),
        )
        return [subject for (subject,) in rows.fetchall()]

    def count_member_records(self) -> int:
        """Return a number that grows with every decision about members."""
        query = "select count(*) from team_records where team = %s and subject = %s"
        return int(_fetch_value(self._connection, query, self.team, MEMBERS))

    def insert_fork(self, writer: str, sequence: int, evidence: str) -> None:
        self._connection.execute(
            "insert into team_forks (team, writer, sequence, evidence) values (%s, %s, %s, %s) on conflict do nothing",
            (self.team, writer, sequence, evidence),
        )

    def read_forks(self) -> dict[str, Fork]:
        """Return the fork of each quarantined machine."""
        rows = self._connection.execute(
            "select writer, sequence, evidence from team_forks where team = %s order by writer, sequence desc",
            (self.team,),
        )
        return {writer: Fork(sequence, evidence) for writer, sequence, evidence in rows.fetchall()}

    def insert_token(self, token_hash: str, machine: str, name: str) -> None:
        self._connection.execute(
            "insert into team_tokens (team, token_hash, machine, name) values (%s, %s, %s, %s) on conflict do nothing",
            (self.team, token_hash, machine, name),
        )

    def find_token(self, token_hash: str) -> Token | None:
        """Return whose token this is; None if it is unknown or was revoked."""
        row = self._connection.execute(
            """
            select machine, name from team_tokens where team = %(team)s and token_hash = %(hash)s and not exists
            (select 1 from team_token_revocations where team = %(team)s and token_hash = %(hash)s)
            """,
            {"team": self.team, "hash": token_hash},
        ).fetchone()
        return Token(*row) if row else None

    def revoke_tokens_named(self, name: str) -> int:
        """Revoke the read-only tokens with this name; return how many there were."""
        cursor = self._connection.execute(
            """
            insert into team_token_revocations (team, token_hash)
            select team, token_hash from team_tokens where team = %s and name = %s and machine = ''
            on conflict do nothing
            """,
            (self.team, name),
        )
        return cursor.rowcount
