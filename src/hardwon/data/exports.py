"""Export a person's data as lines of JSON, and define the columns of each kind of line.

Lines contain no row numbers of this database: sessions are named by agent and the agent's id, projects by path, other
records by keys. So the lines mean the same in another home, and importing them twice adds nothing. Data that a scan can
recreate from transcripts (calls, read positions, scans) is left out.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from hardwon import clock
from hardwon.errors import UserError
from hardwon.lessons import lessons_file
from hardwon.store.db import fetch_column, fetch_dicts, parse_json_or_text
from hardwon.store.events import WAS_TOLD_SQL
from hardwon.store.migrations import LATEST_VERSION

EXPORT_FORMAT, EXPORT_VERSION = "hardwon-export", 1
ExportRecord = dict[str, Any]  # a line of an export, without what it is made of here


class Column(NamedTuple):
    """A column of a line: its type, and how imported text is cleaned."""

    name: str
    value_type: type
    cleaning: str = ""


@dataclass(frozen=True, slots=True)
class RecordKind:
    """The source of one kind of line; with `has_session` its lines also name the agent and the session."""

    table: str
    columns: tuple[Column, ...]
    selection: str = ""  # the SQL after the select list; empty for kinds that are part of a candidate's line
    has_session: bool = False


# The letter behind a column's colon: its type and its cleaning. `object` is JSON in the database, a value in the line.
_COLUMN_TYPES = {
    "": (str, ""),
    "i": (int, ""),
    "r": (float, ""),
    "o": (object, ""),
    "t": (str, "text"),
    "v": (object, "value"),
    "j": (str, "json"),
}
NULLABLE_COLUMNS = frozenset({"ended_at", "duration", "decided_at"})
_JOIN_PROJECTS_SQL = "left join projects on projects.id = sessions.project"
_IN_SCOPE_SQL = ":project in ('', projects.path) and sessions.last_at >= :since"
_DECIDED_SQL = "where max(at, coalesce(decided_at, 0)) >= :since and :project in ('', project) order by at, key"


def _build_kind(table: str, columns: str, selection: str = "", *, has_session: bool = False) -> RecordKind:
    """Return a kind of line; `columns` is a text of words such as `key` or `at:r`, see _COLUMN_TYPES."""
    parsed_columns = []
    for word in columns.split():
        name, _, letter = word.partition(":")
        parsed_columns.append(Column(name, *_COLUMN_TYPES[letter]))
    return RecordKind(table, tuple(parsed_columns), selection, has_session)


def _build_item_kind(table: str, columns: str) -> RecordKind:
    """Return a kind of which every row belongs to a session."""
    joins = f"join sessions on sessions.id = {table}.session {_JOIN_PROJECTS_SQL}"
    selection = f"{joins} where {_IN_SCOPE_SQL} order by sessions.started_at, host, sessions.session, {table}.at, key"
    return _build_kind(table, columns, selection, has_session=True)


# In export order: an import needs a record's project and session before the record.
KINDS = {
    "project": _build_kind(
        "projects",
        "path name remote at:r",
        """
        where :project in ('', path) and (:since = 0 or id in (select project from sessions where last_at >= :since))
        order by path
        """,
    ),
    "session": _build_kind(
        "sessions",
        "host session cwd:t transcript:t first_prompt:t prompts:i status reason:t started_at:r opened_at:r last_at:r"
        " ended_at:r",
        f"{_JOIN_PROJECTS_SQL} where {_IN_SCOPE_SQL} order by started_at, host, session",
    ),
    "prompt": _build_item_kind("prompts", "key number:i at:r prompt:t name"),
    "event": _build_item_kind(
        "events",
        "key kind at:r prompt:i agent tool tool_use_id input:j response:j outcome signature:t duration:r origin",
    ),
    "observation": _build_item_kind(
        "observations",
        "key at:r prompt:i type title:t subtitle:t narrative:t facts:v concepts:v files_read:o files_modified:o"
        " events:o tokens:i times:i made",
    ),
    "summary": _build_item_kind(
        "summaries", "key at:r request:t investigated:t learned:t completed:t next_steps:t made"
    ),
    "delivery": _build_kind(
        "injections",
        "event at:r host session agent kind tool lesson slug summary:t delivery",
        f"""
        where at >= :since and {WAS_TOLD_SQL} and (:project = '' or (host, session) in (
            select host, session from sessions {_JOIN_PROJECTS_SQL} where projects.path = :project))
        order by at, event, lesson
        """,
    ),
    # A run is identified by its time; the importing home decides which day it counts for.
    "run": _build_kind(
        "runs",
        "at:r purpose provider model project tokens_in:i tokens_out:i tokens_cached:i cost:r duration:r outcome why:t",
        """
        left join sessions on sessions.id = runs.session where at >= :since and :project in ('', runs.project)
        order by at, purpose, provider, model
        """,
        has_session=True,
    ),
    # An export of one project leaves out candidates that other projects share, because their evidence is included.
    "candidate": _build_kind(
        "candidates",
        "id slug signature:t tier:i status score:r parts:o occurrences:i sessions:o projects:o record:v lesson"
        " found_at:r decided_at:r",
        """
        where max(found_at, coalesce(decided_at, 0)) >= :since and (:project = ''
            or (json_array_length(projects) = 1 and json_extract(projects, '$[0]') = :project))
        order by number
        """,
    ),
    "signal": _build_kind(
        "signals",
        "key tier:i signature:t host path session agent project at score:r body:v",
        """
        where signature not in (select signature from candidates) and :project in ('', project)
        and coalesce(cast(strftime('%s', at) as real), 0) >= :since order by key
        """,
    ),
    "judgement": _build_kind("judgements", "at:r reader verdict body:v void:t"),
    "memory": _build_kind(
        "memories", "key type text:t project session status source evidence:v file at:r decided_at:r", _DECIDED_SQL
    ),
    # Overwritten file contents are not exported, because a reflection can be undone only at home.
    "reflection": _build_kind(
        "reflections",
        "key host session project at:r kind status draft topic:t resume:t confidence findings:v decided_at:r",
        _DECIDED_SQL,
    ),
    "kept": _build_kind(
        "kept", "reflection item was at:r", "where at >= :since and :project = '' order by at, reflection, item"
    ),
}


def export_lines(
    connection: sqlite3.Connection, home: str, *, project: str = "", since: float = 0.0, exported_at: float
) -> Iterator[str]:
    """Yield the header and every record, as of one moment, in an order that does not depend on this database.

    An empty project and a time of 0 stand for everything.
    """
    header = {
        "format": EXPORT_FORMAT,
        "version": EXPORT_VERSION,
        "schema": LATEST_VERSION,
        "at": clock.format_iso(exported_at),
    }
    if project:
        header["project"] = project
    if since:
        header["since"] = clock.format_iso(since)
    yield _format_line("header", header)
    # One read transaction, so that records written meanwhile are all left out.
    connection.execute("begin")
    try:
        for name, kind in KINDS.items():
            if kind.selection:
                for record in _read_records(connection, kind, kind.selection, {"project": project, "since": since}):
                    yield _format_line(name, _add_evidence(connection, name, record))
    finally:
        connection.execute("rollback")
    yield from _export_lessons(home, project, since)


def _format_line(kind: str, record: ExportRecord) -> str:
    return json.dumps({"what": kind, **record}, ensure_ascii=False, separators=(",", ":")) + "\n"


def _read_records(
    connection: sqlite3.Connection, kind: RecordKind, selection: str, values: Mapping[str, object]
) -> Iterator[ExportRecord]:
    """Yield the rows of a kind with the values that a line has: JSON columns parsed, sessions and projects by name."""
    names = [f"{kind.table}.{column.name}" for column in kind.columns]
    if kind.has_session:
        names = ["sessions.host", "sessions.session", *names]
    if kind.table == "sessions":
        # A session's project is exported as a path, because row numbers mean nothing elsewhere.
        names.insert(2, "projects.path as project")
    for row in connection.execute(f"select {', '.join(names)} from {kind.table} {selection}", values):
        record = dict(row)
        for column in kind.columns:
            if column.value_type is object:
                value = parse_json_or_text(record[column.name])
                if isinstance(value, dict | list):
                    record[column.name] = value
        yield record


def _add_evidence(connection: sqlite3.Connection, kind: str, record: ExportRecord) -> ExportRecord:
    """Return the record of a candidate with its signals and judgements, that of a signal with its errors."""
    if kind == "signal":
        query = "select error from signal_errors where signal = ? order by error"
        return record | {"errors": fetch_column(connection, query, record["key"])}
    if kind != "candidate":
        return record
    signals = _read_records(connection, KINDS["signal"], "where signature = :signature order by key", record)
    judgements = _read_records(
        connection,
        KINDS["judgement"],
        "where candidate = (select number from candidates where id = :id) order by at, id",
        record,
    )
    return record | {
        "signals": [_add_evidence(connection, "signal", signal) for signal in signals],
        "judgements": list(judgements),
    }


def _export_lessons(home: str, project: str, since: float) -> Iterator[str]:
    """Yield the records of lessons.json unchanged; unreadable ones are skipped."""
    stored = lessons_file.read(lessons_file.get_lessons_path(home))
    oldest = clock.format_iso(since) if since else ""  # sorts before any time
    selected_ids = set()
    for lesson in stored.lessons:
        if project in ("", lesson.project) and lesson.updated_at >= oldest:
            selected_ids.add(lesson.id)
    # The document and not the parsed lessons, so that unknown keys are exported too.
    for record in stored.document["lessons"]:
        if isinstance(record, dict) and record.get("id") in selected_ids:
            yield _format_line("lesson", {"lesson": record})


def resolve_project_name(connection: sqlite3.Connection, name: str, path: str) -> str:
    """Return the path of the project with this name or at this path; UserError if none or several have the name."""
    query = """
        select path from projects where path in (?1, ?2) or name = ?1
        union select project from signals where project in (?1, ?2)
        union select project from reflections where project in (?1, ?2)
        """
    matching_paths = fetch_column(connection, query, name, path)
    # A path is unique, a name may be shared by several projects.
    if path in matching_paths:
        return path
    if len(matching_paths) == 1:
        return str(matching_paths[0])
    if matching_paths:
        raise UserError(f"{name!r} could be {', '.join(matching_paths)}", "give its path")
    raise UserError(f"nothing is known of a project {name!r}", "hardwon sessions list")


def map_unique_project_names(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the paths of the projects whose name no other has."""
    rows = fetch_dicts(connection, "select name, min(path) as path from projects group by name having count(*) = 1")
    return {row["name"]: row["path"] for row in rows}


def list_project_paths(connection: sqlite3.Connection) -> list[str]:
    """Return every project that was recorded, mined or reflected on."""
    query = """
        select path from projects union select project from signals where project != ''
        union select project from reflections where project != ''
        """
    return sorted(fetch_column(connection, query))


def write_lines(path: str, lines: Iterable[str]) -> int:
    """Write a private file, whole or not at all, and return the number of lines."""
    # `remove_unfinished_files` of a purge recognises this name if the process is killed.
    partial_path = f"{path}.{os.getpid()}.new"
    count = 0
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
