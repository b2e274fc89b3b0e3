"""Reflections on sessions, their status, and the context of earlier sessions that a reflection gets.

A reflection's status goes from draft, which waits for a person, to ratified or discarded; it is moot if the session was
reflected on again before anybody decided. The files that a reflection wrote are stored with their earlier content, so
that it can be undone. How often people keep an item of the menu is counted by item in `kept`; these counts contain no
text and outlive the reflection.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from hardwon.shell.working_commands import count_first_words
from hardwon.store import memories
from hardwon.store.db import Connection, fetch_value, insert_row, parse_json_or_text, transaction
from hardwon.types import SHELL_TOOL, frozen, replace

FINDING_TARGETS = ("memory", "workstream", "adr", "learning", "convention")
_RECENT_SECONDS = 72 * 3600.0  # sessions that ended earlier are not drafted any more
STATUSES = ("draft", "ratified", "discarded", "moot")
DRAFT, RATIFIED, DISCARDED, MOOT = STATUSES
REFLECTED_KINDS = ("plain", "model")  # others were written: by a `person`, or by the `agent` in the session
_MAX_EARLIER_SESSIONS = 30  # sessions of the project that a reflection gets as context


@frozen
class Evidence:
    """The line of a transcript that says something; the quote is in it, whitespace aside."""

    path: str
    line: int
    quote: str


@frozen
class Finding:
    """A statement of a menu item about a session, a score from 0 to 1, and where it may go.

    `memory` is the type of a memory it suggests, empty for none.
    """

    item: str
    text: str
    score: float
    target: str
    evidence: tuple[Evidence, ...]
    memory: str = ""


@frozen
class SuggestedMemory:
    """A memory that a person's words suggest; `turn` counts from 1."""

    type: str
    text: str
    evidence: tuple[Evidence, ...]
    turn: int = 0


@frozen
class SessionStats:
    """An earlier session of the project: how often each signature failed, and each command's first words were run."""

    session: str
    at: float
    failures: Mapping[str, int] = {}
    commands: Mapping[str, int] = {}


@frozen
class PastHandoff:
    """A handoff that was written for a session of the project."""

    at: float
    session: str
    resume: str


@frozen
class ReflectionContext:
    """Everything that is known beside a session that is reflected on: newest sessions and handoffs first.

    `memories` are pairs of type and text, `documented_code` is what the repository's conventions quote as code.
    """

    sessions: tuple[SessionStats, ...] = ()
    memories: tuple[tuple[str, str], ...] = ()
    handoffs: tuple[PastHandoff, ...] = ()
    documented_code: tuple[str, ...] = ()


@frozen
class WrittenFile:
    """A file that was written, and its earlier content; None if there was none."""

    path: str
    before: str | None = None
    after: str = ""  # fingerprint of the written content, to notice later changes by a person


@frozen
class Reflection:
    """A page about a session: `draft` is its path, `log` that of the raw record of how it was made."""

    id: int
    key: str
    host: str
    session: str
    project: str
    at: float
    kind: str
    status: str = DRAFT
    draft: str = ""
    topic: str = ""
    resume: str = ""
    confidence: str = ""
    findings: tuple[Finding, ...] = ()
    files: tuple[WrittenFile, ...] = ()
    log: str = ""
    decided_at: float | None = None


_COLUMNS = ", ".join(Reflection.__annotations__)


def insert(connection: Connection, reflection: Reflection) -> Reflection:
    """Store a new reflection and return it with its number; an undecided draft of the same session becomes moot."""
    lists = {"findings": _dump_list(reflection.findings), "files": _dump_list(reflection.files)}
    with transaction(connection):
        connection.execute(
            "update reflections set status = ?, decided_at = ? where host = ? and session = ? and status = ?",
            (MOOT, reflection.at, reflection.host, reflection.session, DRAFT),
        )
        cursor = insert_row(connection, "reflections", {**reflection.__dict__, "id": None, **lists})
    return replace(reflection, id=int(cursor.lastrowid or 0))


def _dump_list(values: Sequence[Finding] | Sequence[WrittenFile]) -> str:
    return json.dumps(list(values), default=vars, separators=(",", ":"))


def get(connection: Connection, number: int) -> Reflection | None:
    """Return a reflection by its number; None if there is none."""
    row = connection.execute(f"select {_COLUMNS} from reflections where id = ?", (number,)).fetchone()
    return _build_reflection(row) if row else None


def list_reflections(
    connection: Connection, *statuses: str, project: str | None = None, session: str = "", limit: int = 100
) -> list[Reflection]:
    """Return the reflections of these statuses, or all, newest first."""
    rows = connection.execute(
        f"""
        select {_COLUMNS} from reflections where (?1 = '[]' or status in (select value from json_each(?1)))
        and (?2 is null or project = ?2) and ?3 in ('', session) order by at desc, id desc limit ?4
        """,
        (json.dumps(statuses), project, session, limit),
    )
    return list(map(_build_reflection, rows))


def read_reflection_times(connection: Connection) -> dict[str, float]:
    """Return when each session was last reflected on."""
    return dict(map(tuple, connection.execute("select session, max(at) from reflections group by session")))


def set_status(connection: Connection, number: int, status: str, at: float, *, expected_status: str = DRAFT) -> bool:
    """Set a status if the current one is still as expected; return whether it was set."""
    changed = connection.execute(
        "update reflections set status = ?, decided_at = ? where id = ? and status = ?",
        (status, at, number, expected_status),
    ).rowcount
    return changed > 0


def set_files(connection: Connection, number: int, files: Sequence[WrittenFile], *, draft: str | None = None) -> None:
    """Store all the files that it has written so far, and where its page is now."""
    connection.execute(
        "update reflections set files = ?, draft = coalesce(?, draft) where id = ?", (_dump_list(files), draft, number)
    )


def record_item_decision(connection: Connection, reflection: Reflection, item: str, decision: str, at: float) -> None:
    """Record whether a person kept what an item said; the last decision about a reflection counts."""
    row = {"reflection": reflection.key, "item": item, "was": decision, "at": at}
    insert_row(connection, "kept", row, verb="insert or replace")


def count_item_decisions(connection: Connection) -> dict[str, tuple[int, int]]:
    """Return how often people kept and dropped what each item said."""
    rows = connection.execute("select item, sum(was = 'kept'), sum(was = 'dropped') from kept group by item")
    return {item: (kept_count, dropped_count) for item, kept_count, dropped_count in rows}


def read_context(
    connection: Connection, project: str, now: float, *, agent: str = "", session: str = ""
) -> ReflectionContext:
    """Return the context of a session from the database: earlier sessions, handoffs and memories of its project.

    `handoff/repository_context.py` adds the context from the repository.
    """
    query = "select started_at from sessions where host = ? and session = ?"
    until = fetch_value(connection, query, agent, session) or now
    # The last sessions of the project that began before this one and had a prompt.
    rows = connection.execute(
        """
        select sessions.id, session, started_at from sessions join projects on projects.id = sessions.project
        where path = ? and started_at < ? and prompts > 0 and not (host = ? and session = ?)
        order by started_at desc, sessions.id desc limit ?
        """,
        (project, until, agent, session, _MAX_EARLIER_SESSIONS),
    ).fetchall()
    handoffs = []
    for entry in list_reflections(connection, DRAFT, RATIFIED, project=project):
        if entry.session != session and entry.at < now:
            handoffs.append(PastHandoff(entry.at, entry.session, entry.resume))
    active_memories = memories.list_memories(connection, "active", project=project)
    return ReflectionContext(
        sessions=tuple(_build_session_stats(connection, *row) for row in rows),
        memories=tuple((memory.type, memory.text) for memory in active_memories),
        handoffs=tuple(handoffs),
    )


def _build_session_stats(connection: Connection, number: int, session: str, started_at: float) -> SessionStats:
    """Return what failed in a session, and what was run in it."""
    failures = Counter[str]()
    commands = list[str]()
    events = connection.execute(
        "select kind, tool, input, outcome, signature from events where session = ? order by at, id", (number,)
    )
    for kind, tool, call_input, outcome, signature in events:
        if outcome == "failed" and signature:
            failures[signature] += 1
        if kind == "tool" and tool == SHELL_TOOL:
            arguments = parse_json_or_text(call_input)
            if isinstance(arguments, dict) and isinstance(arguments.get("command"), str):
                commands.append(arguments["command"])
    return SessionStats(session, started_at, dict(failures), dict(count_first_words(commands)))


def _build_reflection(row: sqlite3.Row) -> Reflection:
    """Return a reflection from its row; an import may have brought parts that are malformed."""
    fields = dict(row)
    fields["findings"] = _parse_findings(row["findings"])
    files = _filter_objects(parse_json_or_text(row["files"]))
    fields["files"] = tuple(WrittenFile(**file) for file in files)
    return Reflection(**fields)


def _parse_findings(text: str) -> tuple[Finding, ...]:
    """Return the findings, without those that an import brought and that are malformed."""
    findings = []
    for item in _filter_objects(parse_json_or_text(text)):
        try:
            evidence = tuple(Evidence(**quote) for quote in _filter_objects(item.get("evidence")))
            findings.append(Finding(**item | {"evidence": evidence}))
        except TypeError:
            continue
    return tuple(findings)


def _filter_objects(value: Any) -> list[dict[str, Any]]:
    """Return the objects in a list; none if it is no list: an import may bring anything."""
    if not isinstance(value, list):
        return []
    return [item for item in value if isinstance(item, dict)]


def list_drafts(connection: Connection, session: int) -> list[Reflection]:
    """Return the undecided drafts of a recorded session, by its number."""
    session_id = fetch_value(connection, "select session from sessions where id = ?", session)
    if not session_id:
        return []  # the session was deleted
    return list_reflections(connection, DRAFT, session=session_id)


def list_unreflected_sessions(connection: Connection, now: float, idle_seconds: float) -> list[tuple[int, float]]:
    """Return the recent sessions that ended or are idle and were not reflected on since: number, last activity."""
    rows = connection.execute(
        """
        select id, last_at from sessions where prompts > 0 and transcript != '' and last_at > ?
        and (status = 'completed' or (? > 0 and last_at <= ?)) and not exists (select 1 from reflections
            where reflections.session = sessions.session and reflections.at >= sessions.last_at)
        order by id
        """,
        (now - _RECENT_SECONDS, idle_seconds, now - idle_seconds),
    )
    return [(row["id"], row["last_at"]) for row in rows]
