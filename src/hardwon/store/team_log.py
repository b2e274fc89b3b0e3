"""This machine's copy of its team's log, and what was decided here about what arrived."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import orjson

from hardwon.store.db import Connection, Row, fetch_column, fetch_dicts, fetch_value

_COLUMNS = "team, writer, sequence, kind, format, subject, parents, body_hash, hash, signature"
RecordRow = tuple[str, str, int, str, int, str, tuple[str, ...], str, str, str]


def list_records(connection: Connection, team: str) -> list[RecordRow]:
    """Return every record of a team, each machine's in order."""
    rows = connection.execute(f"select {_COLUMNS} from team_records where team = ? order by writer, sequence", (team,))
    return [_parse_row(row) for row in rows]


def list_records_after(connection: Connection, team: str, writer: str, sequence: int, limit: int) -> list[RecordRow]:
    """Return the records of one machine after a number, in order."""
    rows = connection.execute(
        f"select {_COLUMNS} from team_records where team = ? and writer = ? and sequence > ? order by sequence limit ?",
        (team, writer, sequence, limit),
    )
    return [_parse_row(row) for row in rows]


def find_last_record(connection: Connection, team: str, writer: str) -> RecordRow | None:
    """Return the last record of a machine; None if there is none."""
    row = connection.execute(
        f"select {_COLUMNS} from team_records where team = ? and writer = ? order by sequence desc limit 1",
        (team, writer),
    ).fetchone()
    return _parse_row(row) if row else None


def _parse_row(row: Sequence[Any]) -> RecordRow:
    """Return a row as a record has it: its seventh column, the parents, is stored as JSON."""
    return cast(RecordRow, (*row[:6], tuple(orjson.loads(row[6])), *row[7:]))


def read_vector(connection: Connection, team: str) -> dict[str, tuple[int, str]]:
    """Return the number and hash of every machine's last record."""
    # SQLite takes the other columns from the row that has the maximum.
    rows = connection.execute(
        "select writer, max(sequence), hash from team_records where team = ? group by writer", (team,)
    )
    return {writer: (sequence, record_hash) for writer, sequence, record_hash in rows}


def find_head(connection: Connection, team: str, writer: str) -> tuple[int, str] | None:
    """Return the number and hash of a machine's last record."""
    row = connection.execute(
        "select sequence, hash from team_records where team = ? and writer = ? order by sequence desc limit 1",
        (team, writer),
    ).fetchone()
    if row is None:
        return None
    sequence, record_hash = row
    return sequence, record_hash


def find_hash(connection: Connection, team: str, writer: str, sequence: int) -> str:
    """Return the hash of a machine's record under a number; empty if there is none."""
    query = "select hash from team_records where team = ? and writer = ? and sequence = ?"
    return str(fetch_value(connection, query, team, writer, sequence) or "")


def find_first_body(connection: Connection, team: str, writer: str) -> str:
    """Return the text of a machine's first record; empty if it is not here."""
    query = """
        select body from team_records join team_bodies on team_bodies.hash = body_hash
        where team = ? and writer = ? and sequence = 1
    """
    return str(fetch_value(connection, query, team, writer) or "")


def has_kind(connection: Connection, team: str, kind: str) -> bool:
    """Return whether there is a record of this kind."""
    query = "select exists (select 1 from team_records where team = ? and kind = ?)"
    return bool(fetch_value(connection, query, team, kind))


def insert_records(connection: Connection, rows: Iterable[RecordRow]) -> None:
    """Add records within the caller's transaction; those that are here already stay as they are."""
    connection.executemany(
        f"insert or ignore into team_records ({_COLUMNS}) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [(*row[:6], orjson.dumps(row[6]).decode(), *row[7:]) for row in rows],
    )


def insert_bodies(connection: Connection, bodies: Mapping[str, str]) -> None:
    """Store texts by their hash, within the caller's transaction; known ones stay."""
    connection.executemany("insert or ignore into team_bodies (hash, body) values (?, ?)", list(bodies.items()))


def read_bodies(connection: Connection, hashes: Sequence[str]) -> dict[str, str]:
    """Return the bodies that are here, by their hash."""
    rows = connection.execute(
        "select hash, body from team_bodies where hash in (select value from json_each(?))",
        (orjson.dumps(list(hashes)).decode(),),
    )
    return dict(rows.fetchall())


def delete_bodies(connection: Connection, hashes: Sequence[str]) -> None:
    """Erase texts by their hash; the records that name them stay, so that the chains stay whole."""
    connection.executemany("delete from team_bodies where hash = ?", [(body_hash,) for body_hash in hashes])


def insert_fork(connection: Connection, team: str, writer: str, sequence: int, evidence: str) -> None:
    """Note that a machine wrote two records under one number; the lowest number counts."""
    connection.execute(
        """
        insert into team_forks (team, writer, sequence, evidence) values (?, ?, ?, ?)
        on conflict (team, writer) do update set sequence = excluded.sequence, evidence = excluded.evidence
        where excluded.sequence < team_forks.sequence
        """,
        (team, writer, sequence, evidence),
    )


def read_forks(connection: Connection, team: str) -> dict[str, int]:
    """Return the quarantined machines with the number from which on they do not count."""
    rows = connection.execute("select writer, sequence from team_forks where team = ?", (team,))
    return dict(rows.fetchall())


def list_fork_evidence(connection: Connection, team: str) -> list[str]:
    """Return the second records of quarantined machines, as JSON."""
    return fetch_column(connection, "select evidence from team_forks where team = ? order by writer", team)


def set_decision(connection: Connection, team: str, subject: str, version: str, decision: str, at: float) -> None:
    """Record what was decided here about a version of a subject."""
    connection.execute(
        """
        insert into team_decisions (team, subject, version, decision, at) values (?, ?, ?, ?, ?)
        on conflict (team, subject) do update set version = excluded.version, decision = excluded.decision,
        at = excluded.at
        """,
        (team, subject, version, decision, at),
    )


def delete_decision(connection: Connection, team: str, subject: str) -> None:
    """Forget what was decided here about a subject."""
    connection.execute("delete from team_decisions where team = ? and subject = ?", (team, subject))


def read_decisions(connection: Connection, team: str) -> dict[str, Row]:
    """Return the last decision about each subject: version, decision and time."""
    rows = fetch_dicts(connection, "select subject, version, decision, at from team_decisions where team = ?", team)
    return {row["subject"]: row for row in rows}


def delete_team(connection: Connection, team: str) -> None:
    """Remove everything of a team within the caller's transaction."""
    body_hashes = fetch_column(connection, "select body_hash from team_records where team = ?", team)
    delete_bodies(connection, body_hashes)
    for table in ("team_records", "team_forks", "team_decisions"):
        connection.execute(f"delete from {table} where team = ?", (team,))
