"""Everything a person would want to take along, as lines of JSON, and where each value of a line belongs.

A line names nothing by a number of this database: sessions go by host and the host's own id, projects by path, the
rest by keys that were theirs from the beginning. So the lines mean the same in another home, and come in there twice
without doubling. What a scan makes anew from the transcripts (calls, marks, scans) is left out.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from hardwon import clock
from hardwon.errors import UserError
from hardwon.lessons import lessons_file as shelves
from hardwon.store.db import parse_json_or_text
from hardwon.store.migrations import MIGRATIONS

EXPORT_FORMAT, EXPORT_VERSION = "hardwon-export", 1
_AT_SECONDS = "coalesce(cast(strftime('%s', at) as real), 0)"  # of a transcript's own way to write a time


class Column(NamedTuple):
    """A value of a line: its type, and whether text from outside may stand in it, plain, as JSON, or in a value."""

    name: str
    value_type: type
    cleaning: str = ""


def _parse_columns(text: str, /, **cleaning: str) -> tuple[Column, ...]:
    types = {"i": int, "r": float, "o": object}
    pairs = (word.partition(":") for word in text.split())
    return tuple(Column(name, types.get(kind, str), cleaning.get(name, "")) for name, _, kind in pairs)


_OBSERVATION_CLEANING = {
    "title": "text",
    "subtitle": "text",
    "narrative": "text",
    "facts": "value",
    "concepts": "value",
}
_SUMMARY_CLEANING = dict.fromkeys(("request", "investigated", "learned", "completed", "next_steps"), "text")
COLUMNS = {
    "project": _parse_columns("path name remote at:r"),
    "session": _parse_columns(
        "host session cwd transcript first_prompt prompts:i status reason started_at:r opened_at:r last_at:r"
        " ended_at:r",
        first_prompt="text",
        reason="text",
        cwd="text",
        transcript="text",
    ),
    "prompt": _parse_columns("key number:i at:r prompt name", prompt="text"),
    "event": _parse_columns(
        "key kind at:r prompt:i agent tool tool_use_id input response outcome signature duration:r origin",
        input="json",
        response="json",
        signature="text",
    ),
    "observation": _parse_columns(
        "key at:r prompt:i type title subtitle narrative facts:o concepts:o files_read:o files_modified:o events:o"
        " tokens:i times:i made",
        **_OBSERVATION_CLEANING,
    ),
    "summary": _parse_columns("key at:r request investigated learned completed next_steps made", **_SUMMARY_CLEANING),
    "delivery": _parse_columns("event at:r host session agent kind tool lesson slug summary delivery", summary="text"),
    "signal": _parse_columns(
        "key tier:i signature host path session agent project at score:r body:o", signature="text", body="value"
    ),
    "candidate": _parse_columns(
        "id slug signature tier:i status score:r parts:o occurrences:i sessions:o projects:o record:o lesson"
        " found_at:r decided_at:r",
        signature="text",
        record="value",
    ),
    "judgement": _parse_columns("at:r reader verdict body:o void", body="value", void="text"),
    "memory": _parse_columns(
        "key type text project session status source evidence:o file at:r decided_at:r", text="text", evidence="value"
    ),
    # What it wrote over stays at home: it can be undone only there.
    "reflection": _parse_columns(
        "key host session project at:r kind status draft topic resume confidence findings:o decided_at:r",
        topic="text",
        resume="text",
        findings="value",
    ),
    "kept": _parse_columns("reflection item was at:r"),
    "run": _parse_columns(
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
    filters = {"project": project, "since": clock.format_iso(since) if since else ""}
    yield _format_line("header", header | {name: value for name, value in filters.items() if value})
    connection.execute("begin")
    try:
        yield from _export_table(connection, "project", project, since)
        yield from _export_sessions(connection, project, since)
        yield from _export_table(connection, "delivery", project, since)
        yield from _export_runs(connection, project, since)
        yield from _export_candidates(connection, project, since)
        for kind in ("memory", "reflection", "kept"):
            yield from _export_table(connection, kind, project, since)
    finally:
        connection.execute("rollback")
    yield from _export_lessons(home, project, since)


def _format_line(kind: str, record: Mapping[str, Any]) -> str:
    return json.dumps({"what": kind, **record}, ensure_ascii=False, separators=(",", ":")) + "\n"


def _build_record(kind: str, row: sqlite3.Row) -> dict[str, Any]:
    """A row as it goes out: what is JSON in the database is a value in the line."""
    return {
        column.name: _parse_value(row[column.name]) if column.value_type is object else row[column.name]
        for column in COLUMNS[kind]
    }


def _parse_value(text: str) -> Any:
    value = parse_json_or_text(text)
    return value if isinstance(value, dict | list) else text


_DECIDED_CONDITION = (
    "max(at, coalesce(decided_at, 0)) >= :since and (:project = '' or project = :project) order by at, key"
)
_CONDITIONS = {
    "project": "(:project = '' or path = :project)"
    " and (:since = 0 or id in (select project from sessions where last_at >= :since)) order by path",
    "delivery": "at >= :since and (:project = '' or (host, session) in (select host, session from sessions"
    " join projects on projects.id = sessions.project where projects.path = :project)) order by at, event, lesson",
    "memory": _DECIDED_CONDITION,  # what an approved one says now is in its file
    "reflection": _DECIDED_CONDITION,
    "kept": "at >= :since and :project = '' order by at, reflection, item",  # of no project: it goes with all
}


def _export_table(connection: sqlite3.Connection, kind: str, project: str, since: float) -> Iterator[str]:
    """The rows of a table as they stand in it."""
    query = f"select {join_column_names(kind)} from {TABLES[kind]} where {_CONDITIONS[kind]}"
    for row in connection.execute(query, {"project": project, "since": since}):
        yield _format_line(kind, _build_record(kind, row))


def _export_sessions(connection: sqlite3.Connection, project: str, since: float) -> Iterator[str]:
    """Each session that was heard of since, whole: first itself, then what happened in it."""
    rows = connection.execute(
        f"select sessions.id, projects.path as project, {join_column_names('session')} from sessions"
        " left join projects on projects.id = sessions.project where (? = '' or projects.path = ?) and last_at >= ?"
        " order by started_at, host, session",
        (project, project, since),
    )
    for row in rows:
        session_ref = {"host": row["host"], "session": row["session"]}
        yield _format_line("session", {**session_ref, "project": row["project"], **_build_record("session", row)})
        for kind in SESSION_KINDS:
            child_rows = connection.execute(
                f"select {join_column_names(kind)} from {TABLES[kind]} where session = ? order by at, key", (row["id"],)
            )
            for child_row in child_rows:
                yield _format_line(kind, {**session_ref, **_build_record(kind, child_row)})


def _export_runs(connection: sqlite3.Connection, project: str, since: float) -> Iterator[str]:
    """What was asked of models; a run's time is its name. The day it counts for is the importing clock's to say."""
    rows = connection.execute(
        f"select sessions.host, sessions.session, {join_column_names('run')} from runs"
        " left join sessions on sessions.id = runs.session where at >= ? and (? = '' or runs.project = ?)"
        " order by at, purpose, provider, model",
        (since, project, project),
    )
    for row in rows:
        yield _format_line("run", {"host": row["host"], "session": row["session"], **_build_record("run", row)})


def _export_candidates(connection: sqlite3.Connection, project: str, since: float) -> Iterator[str]:
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
        judgements = connection.execute(
            f"select {join_column_names('judgement')} from judgements where candidate = ? order by at, id",
            (row["number"],),
        )
        evidence = {
            "signals": [_build_signal(connection, child_row) for child_row in signals],
            "judgements": [_build_record("judgement", child_row) for child_row in judgements],
        }
        yield _format_line("candidate", _build_record("candidate", row) | evidence)
    other_signals = connection.execute(
        f"select {join_column_names('signal')} from signals where signature not in (select signature from candidates)"
        f" and (? = '' or project = ?) and {_AT_SECONDS} >= ? order by key",
        (project, project, since),
    )
    for row in other_signals:
        yield _format_line("signal", _build_signal(connection, row))


def _build_signal(connection: sqlite3.Connection, row: sqlite3.Row) -> dict[str, Any]:
    errors = connection.execute("select error from signal_errors where signal = ? order by error", (row["key"],))
    return {**_build_record("signal", row), "errors": [error for (error,) in errors]}


def _export_lessons(home: str, project: str, since: float) -> Iterator[str]:
    """The records of lessons.json as they stand there; one that cannot be read stays at home."""
    stored = shelves.read(shelves.get_lessons_path(home))
    selected_ids = {
        lesson.id
        for lesson in stored.lessons
        if (not project or lesson.project == project) and (not since or lesson.updated_at >= clock.format_iso(since))
    }
    for lesson in stored.document["lessons"]:
        if isinstance(lesson, dict) and lesson.get("id") in selected_ids:
            yield _format_line("lesson", {"lesson": lesson})


def resolve_project_name(connection: sqlite3.Connection, name: str, path: str) -> str:
    """The path of the project that is called so, or that lies there."""
    rows = connection.execute(
        "select path from projects where path in (?1, ?2) or name = ?1 union select project from signals"
        " where project in (?1, ?2) union select project from reflections where project in (?1, ?2)",
        (name, path),
    ).fetchall()
    matching_paths = [str(matching_path) for (matching_path,) in rows]
    if path in matching_paths:
        return path
    if len(matching_paths) == 1:
        return matching_paths[0]
    if matching_paths:
        raise UserError(f"{name!r} could be {', '.join(matching_paths)}", "give its path")
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


def write_lines(path: str, lines: Iterable[str]) -> int:
    """Write a private file, whole or not at all, and return the number of lines."""
    partial_path, count = f"{path}.{os.getpid()}.new", 0
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise UserError(f"there is no folder {folder}", f"mkdir -p {folder}")
    try:
        with open(os.open(partial_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            for line in lines:
                file.write(line.encode("utf-8", "replace"))
                count += 1
        os.replace(partial_path, path)
    except BaseException:
        if os.path.exists(partial_path):
            os.unlink(partial_path)
        raise
    return count
