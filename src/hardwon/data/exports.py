"""Everything a person would want to take along, as lines of JSON, and where each value of a line belongs.

A line names nothing by a number of this database: sessions go by host and the host's own id, projects by path, the
rest by keys that were theirs from the beginning. So the lines mean the same in another home, and come in there twice
without doubling. What a scan makes anew from the transcripts (calls, marks, scans) is left out.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from hardwon import clock
from hardwon.errors import UserError
from hardwon.lessons import lessons_file as shelves
from hardwon.store.db import parse_json_or_text
from hardwon.store.migrations import MIGRATIONS

EXPORT_FORMAT, EXPORT_VERSION = "hardwon-export", 1
_SECONDS = "coalesce(cast(strftime('%s', at) as real), 0)"  # of a transcript's own way to write a time


class Column(NamedTuple):
    """A value of a line: its type, and whether text from outside may stand in it, plain, as JSON, or in a value."""

    name: str
    value_type: type
    cleaning: str = ""


def _columns(text: str, /, **cleaned: str) -> tuple[Column, ...]:
    types = {"i": int, "r": float, "o": object}
    pairs = (word.partition(":") for word in text.split())
    return tuple(Column(name, types.get(kind, str), cleaned.get(name, "")) for name, _, kind in pairs)


_FIELDS = {"title": "text", "subtitle": "text", "narrative": "text", "facts": "value", "concepts": "value"}
_SUMMED = dict.fromkeys(("request", "investigated", "learned", "completed", "next_steps"), "text")
COLUMNS = {
    "project": _columns("path name remote at:r"),
    "session": _columns(
        "host session cwd transcript first_prompt prompts:i status reason started_at:r opened_at:r last_at:r"
        " ended_at:r",
        first_prompt="text",
        reason="text",
        cwd="text",
        transcript="text",
    ),
    "prompt": _columns("key number:i at:r prompt name", prompt="text"),
    "event": _columns(
        "key kind at:r prompt:i agent tool tool_use_id input response outcome signature duration:r origin",
        input="json",
        response="json",
        signature="text",
    ),
    "observation": _columns(
        "key at:r prompt:i type title subtitle narrative facts:o concepts:o files_read:o files_modified:o events:o"
        " tokens:i times:i made",
        **_FIELDS,
    ),
    "summary": _columns("key at:r request investigated learned completed next_steps made", **_SUMMED),
    "delivery": _columns("event at:r host session agent kind tool lesson slug summary delivery", summary="text"),
    "signal": _columns(
        "key tier:i signature host path session agent project at score:r body:o", signature="text", body="value"
    ),
    "candidate": _columns(
        "id slug signature tier:i status score:r parts:o occurrences:i sessions:o projects:o record:o lesson"
        " found_at:r decided_at:r",
        signature="text",
        record="value",
    ),
    "judgement": _columns("at:r reader verdict body:o void", body="value", void="text"),
    "memory": _columns(
        "key type text project session status source evidence:o file at:r decided_at:r", text="text", evidence="value"
    ),
    # What it wrote over stays at home: it can be undone only there.
    "reflection": _columns(
        "key host session project at:r kind status draft topic resume confidence findings:o decided_at:r",
        topic="text",
        resume="text",
        findings="value",
    ),
    "kept": _columns("reflection item was at:r"),
    "run": _columns(
        "at:r purpose provider model project tokens_in:i tokens_out:i tokens_cached:i cost:r duration:r outcome why",
        why="text",
    ),
}
TABLES = {
    "project": "projects",
    "session": "sessions",
    "prompt": "prompts",
    "event": "events",
    "signal": "signals",
    "observation": "observations",
    "summary": "summaries",
    "delivery": "injections",
    "candidate": "candidates",
    "judgement": "judgements",
    "run": "runs",
    "memory": "memories",
    "reflection": "reflections",
    "kept": "kept",
}
SESSION_KINDS = ("prompt", "event", "observation", "summary")
NULLABLE_COLUMNS = frozenset({"ended_at", "duration", "decided_at"})


def join_column_names(kind: str) -> str:
    return ", ".join(f"{TABLES[kind]}.{column.name}" for column in COLUMNS[kind])


def export_lines(
    connection: sqlite3.Connection, home: str, *, project: str = "", since: float = 0.0, exported_at: float
) -> Iterator[str]:
    """The header and every record, in an order that does not depend on this database; all as of one moment."""
    header = {
        "format": EXPORT_FORMAT,
        "version": EXPORT_VERSION,
        "schema": len(MIGRATIONS),
        "at": clock.format_iso(exported_at),
    }
    narrowed = {"project": project, "since": clock.format_iso(since) if since else ""}
    yield _line("header", header | {name: value for name, value in narrowed.items() if value})
    connection.execute("begin")
    try:
        yield from _plain(connection, "project", project, since)
        yield from _sessions(connection, project, since)
        yield from _plain(connection, "delivery", project, since)
        yield from _runs(connection, project, since)
        yield from _found(connection, project, since)
        for kind in ("memory", "reflection", "kept"):
            yield from _plain(connection, kind, project, since)
    finally:
        connection.execute("rollback")
    yield from _lessons(home, project, since)


def _line(kind: str, record: Mapping[str, Any]) -> str:
    return json.dumps({"what": kind, **record}, ensure_ascii=False, separators=(",", ":")) + "\n"


def _record(kind: str, row: sqlite3.Row) -> dict[str, Any]:
    """A row as it goes out: what is JSON in the database is a value in the line."""
    return {
        column.name: _value(row[column.name]) if column.value_type is object else row[column.name]
        for column in COLUMNS[kind]
    }


def _value(text: str) -> Any:
    found = parse_json_or_text(text)
    return found if isinstance(found, dict | list) else text


_DECIDED = "max(at, coalesce(decided_at, 0)) >= :since and (:project = '' or project = :project) order by at, key"
_WANTED = {
    "project": "(:project = '' or path = :project)"
    " and (:since = 0 or id in (select project from sessions where last_at >= :since)) order by path",
    "delivery": "at >= :since and (:project = '' or (host, session) in (select host, session from sessions"
    " join projects on projects.id = sessions.project where projects.path = :project)) order by at, event, lesson",
    "memory": _DECIDED,  # what an approved one says now is in its file
    "reflection": _DECIDED,
    "kept": "at >= :since and :project = '' order by at, reflection, item",  # of no project: it goes with all
}


def _plain(connection: sqlite3.Connection, kind: str, project: str, since: float) -> Iterator[str]:
    """The rows of a table as they stand in it."""
    query = f"select {join_column_names(kind)} from {TABLES[kind]} where {_WANTED[kind]}"
    for row in connection.execute(query, {"project": project, "since": since}):
        yield _line(kind, _record(kind, row))


def _sessions(connection: sqlite3.Connection, project: str, since: float) -> Iterator[str]:
    """Each session that was heard of since, whole: first itself, then what happened in it."""
    rows = connection.execute(
        f"select sessions.id, projects.path as project, {join_column_names('session')} from sessions"
        " left join projects on projects.id = sessions.project where (? = '' or projects.path = ?) and last_at >= ?"
        " order by started_at, host, session",
        (project, project, since),
    )
    for row in rows:
        known_as = {"host": row["host"], "session": row["session"]}
        yield _line("session", {**known_as, "project": row["project"], **_record("session", row)})
        for kind in SESSION_KINDS:
            inner = connection.execute(
                f"select {join_column_names(kind)} from {TABLES[kind]} where session = ? order by at, key", (row["id"],)
            )
            for one in inner:
                yield _line(kind, {**known_as, **_record(kind, one)})


def _runs(connection: sqlite3.Connection, project: str, since: float) -> Iterator[str]:
    """What was asked of models; a run's time is its name. The day it counts for is the importing clock's to say."""
    rows = connection.execute(
        f"select sessions.host, sessions.session, {join_column_names('run')} from runs"
        " left join sessions on sessions.id = runs.session where at >= ? and (? = '' or runs.project = ?)"
        " order by at, purpose, provider, model",
        (since, project, project),
    )
    for row in rows:
        yield _line("run", {"host": row["host"], "session": row["session"], **_record("run", row)})


def _found(connection: sqlite3.Connection, project: str, since: float) -> Iterator[str]:
    """The candidates with what speaks for them, then the signals that none was made of.

    For one project only those that no other project has a part in: the evidence would be the other's.
    """
    rows = connection.execute(
        f"select number, {join_column_names('candidate')} from candidates where max(found_at, "
        "coalesce(decided_at, 0)) >= ?"
        " and (? = '' or projects = ?) order by number",
        (since, project, json.dumps([project])),
    )
    for row in rows:
        signals = connection.execute(
            f"select {join_column_names('signal')} from signals where signature = ? order by key", (row["signature"],)
        )
        judged = connection.execute(
            f"select {join_column_names('judgement')} from judgements where candidate = ? order by at, id",
            (row["number"],),
        )
        told = {
            "signals": [_signal(connection, one) for one in signals],
            "judgements": [_record("judgement", one) for one in judged],
        }
        yield _line("candidate", _record("candidate", row) | told)
    others = connection.execute(
        f"select {join_column_names('signal')} from signals where signature not in (select signature from candidates)"
        f" and (? = '' or project = ?) and {_SECONDS} >= ? order by key",
        (project, project, since),
    )
    for row in others:
        yield _line("signal", _signal(connection, row))


def _signal(connection: sqlite3.Connection, row: sqlite3.Row) -> dict[str, Any]:
    errors = connection.execute("select error from signal_errors where signal = ? order by error", (row["key"],))
    return {**_record("signal", row), "errors": [error for (error,) in errors]}


def _lessons(home: str, project: str, since: float) -> Iterator[str]:
    """The records of lessons.json as they stand there; one that cannot be read stays at home."""
    shelf = shelves.read(shelves.get_lessons_path(home))
    wanted = {
        one.id
        for one in shelf.lessons
        if (not project or one.project == project) and (not since or one.updated_at >= clock.format_iso(since))
    }
    for one in shelf.document["lessons"]:
        if isinstance(one, dict) and one.get("id") in wanted:
            yield _line("lesson", {"lesson": one})


def resolve_project_name(connection: sqlite3.Connection, name: str, path: str) -> str:
    """The path of the project that is called so, or that lies there."""
    rows = connection.execute(
        "select path from projects where path in (?1, ?2) or name = ?1 union select project from signals"
        " where project in (?1, ?2) union select project from reflections where project in (?1, ?2)",
        (name, path),
    ).fetchall()
    found = [str(one) for (one,) in rows]
    if path in found:
        return path
    if len(found) == 1:
        return found[0]
    if found:
        raise UserError(f"{name!r} could be {', '.join(found)}", "give its path")
    raise UserError(f"nothing is known of a project {name!r}", "hardwon sessions list")


def map_unique_project_names(connection: sqlite3.Connection) -> dict[str, str]:
    """The paths of the projects whose name no other has."""
    rows = connection.execute("select name, min(path) from projects group by name having count(*) = 1").fetchall()
    return dict(rows)


def list_project_paths(connection: sqlite3.Connection) -> list[str]:
    """Every project that was met: recorded, mined or reflected on."""
    rows = connection.execute(
        "select path from projects union select project from signals where project != ''"
        " union select project from reflections where project != ''"
    )
    return sorted(path for (path,) in rows)
