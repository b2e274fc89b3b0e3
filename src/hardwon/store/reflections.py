"""What reflecting on sessions wrote, what became of it, and what a reflection is told of the sessions before.

A draft waits for a person. What it put where is kept beside it, with what stood there before, so that it can be undone.
Whether people keep an item of the menu is counted by item alone: it holds no words, and outlives the reflection.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from hardwon.shell.habits import count_first_words
from hardwon.store import memories
from hardwon.store.activity import count_active_minutes
from hardwon.store.db import Connection, to_storable, transaction
from hardwon.store.observations import parse_json_list
from hardwon.store.reflection_types import Evidence, Finding, PastHandoff, ReflectionContext, SessionStats
from hardwon.types import frozen, replace

RECENT_SECONDS = 72 * 3600.0
STATUSES = ("draft", "ratified", "discarded", "moot")
DRAFT, RATIFIED, DISCARDED, MOOT = STATUSES
MAX_EARLIER_SESSIONS = 30  # sessions of the project that a reflection is told of
_MAX_PROMPT_CHARS = 2_000  # characters of a prompt


@frozen
class WrittenFile:
    """A file that was written, and what stood there before; None if there was none."""

    path: str
    before: str | None = None
    after: str = ""  # the print of what was written, so that a person's change since is seen


@frozen
class Reflection:
    """What was written about a session; `draft` is its page, `log` the raw record of how it was made."""

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


_FIELD_NAMES = tuple(Reflection.__annotations__)[1:]
_COLUMNS = ", ".join(("id", *_FIELD_NAMES))


def insert(connection: Connection, reflection: Reflection) -> Reflection:
    """Keep a new one, which gets its number; an earlier draft of the session that nobody decided about is moot."""
    values = [to_storable(_encode_value(getattr(reflection, name))) for name in _FIELD_NAMES]
    with transaction(connection):
        connection.execute(
            "update reflections set status = ?, decided_at = ? where host = ? and session = ? and status = ?",
            (MOOT, reflection.at, reflection.host, to_storable(reflection.session), DRAFT),
        )
        cursor = connection.execute(
            f"insert into reflections ({', '.join(_FIELD_NAMES)}) values ({', '.join('?' * len(_FIELD_NAMES))})", values
        )
    return replace(reflection, id=int(cursor.lastrowid or 0))


def get(connection: Connection, number: int) -> Reflection | None:
    row = connection.execute(f"select {_COLUMNS} from reflections where id = ?", (number,)).fetchone()
    return _build_reflection(row) if row else None


def list_reflections(
    connection: Connection, *statuses: str, project: str | None = None, session: str = "", limit: int = 100
) -> list[Reflection]:
    """Those of these statuses, or all, newest first."""
    rows = connection.execute(
        f"select {_COLUMNS} from reflections where (?1 = '[]' or status in (select value from json_each(?1)))"
        " and (?2 is null or project = ?2) and (?3 = '' or session = ?3) order by at desc, id desc limit ?4",
        (json.dumps(statuses), to_storable(project), to_storable(session), limit),
    )
    return list(map(_build_reflection, rows))


def read_reflection_times(connection: Connection) -> dict[str, float]:
    """When each session was last reflected on."""
    return dict(map(tuple, connection.execute("select session, max(at) from reflections group by session")))


def set_status(connection: Connection, number: int, status: str, at: float, *, expected_status: str = DRAFT) -> bool:
    """False, and nothing changed, if it is not what it was any more."""
    return bool(
        connection.execute(
            "update reflections set status = ?, decided_at = ? where id = ? and status = ?",
            (status, at, number, expected_status),
        ).rowcount
    )


def set_files(connection: Connection, number: int, files: Sequence[WrittenFile], *, draft: str | None = None) -> None:
    """All that it has written so far, and where its page is now."""
    connection.execute(
        "update reflections set files = ?, draft = coalesce(?, draft) where id = ?",
        (to_storable(_encode_value(tuple(files))), to_storable(draft), number),
    )


def record_item_decision(connection: Connection, reflection: Reflection, item: str, decision: str, at: float) -> None:
    """Whether a person kept what an item had to say; of one reflection the last word counts."""
    connection.execute(
        "insert into kept (reflection, item, was, at) values (?, ?, ?, ?)"
        " on conflict (reflection, item) do update set was = excluded.was, at = excluded.at",
        (reflection.key, item, decision, at),
    )


def count_item_decisions(connection: Connection) -> dict[str, tuple[int, int]]:
    """How often people kept and dropped what each item said."""
    rows = connection.execute("select item, sum(was = 'kept'), sum(was = 'dropped') from kept group by item")
    return {item: (kept_count, dropped_count) for item, kept_count, dropped_count in rows}


def read_context(
    connection: Connection, project: str, now: float, *, agent: str = "", session: str = ""
) -> ReflectionContext:
    """What the database knows beside a session: the project's sessions and handoffs before it, newest first, memories.

    What lies in the repository (conventions, workstreams, commits) is not ours to know; see `distil/reflect/around.py`.
    """
    current_row = connection.execute(
        "select id, session, started_at, prompts, first_prompt, tokens_in + tokens_out as tokens from sessions"
        " where host = ? and session = ?",
        (agent, to_storable(session)),
    ).fetchone()
    until = current_row["started_at"] if current_row else now
    rows = connection.execute(
        "select sessions.id, session, started_at, prompts, first_prompt, tokens_in + tokens_out as tokens"
        " from sessions join projects"
        " on projects.id = sessions.project where path = ? and started_at < ? and prompts > 0"
        " and not (host = ? and session = ?) order by started_at desc, sessions.id desc limit ?",
        (to_storable(project), until, agent, to_storable(session), MAX_EARLIER_SESSIONS),
    ).fetchall()
    handoffs = [
        entry for entry in list_reflections(connection, DRAFT, RATIFIED, project=project) if entry.session != session
    ]
    return ReflectionContext(
        sessions=tuple(_build_session_stats(connection, row) for row in rows),
        memories=tuple(
            (entry.type, entry.text) for entry in memories.list_memories(connection, "active", project=project)
        ),
        handoffs=tuple(
            PastHandoff(entry.at, entry.session, entry.resume, entry.confidence, entry.status)
            for entry in handoffs
            if entry.at < now
        ),
        current_session=_build_session_stats(connection, current_row) if current_row else None,
    )


def _build_session_stats(connection: Connection, row: sqlite3.Row) -> SessionStats:
    calls, failures = 0, Counter[str]()
    times, commands = _list_prompt_times(connection, row["id"]), list[str]()
    for at, tool, tool_input, outcome, signature in _iter_events(connection, row["id"]):
        times.append(at)
        calls += bool(tool)
        if outcome == "failed" and signature:
            failures[signature] += 1
        if tool == "Bash" and (command := _parse_command(tool_input)):
            commands.append(command)
    habits = count_first_words(commands)
    return SessionStats(
        session=row["session"],
        at=row["started_at"],
        tokens=row["tokens"],
        minutes=count_active_minutes(times),
        calls=calls,
        failures=dict(failures),
        files=_list_files(connection, row["id"]),
        commands=dict(habits),
        prompts=row["prompts"],
        first_prompt=row["first_prompt"][:_MAX_PROMPT_CHARS],
        has_commit="git commit" in habits,
    )


def _list_prompt_times(connection: Connection, session: int) -> list[float]:
    return [at for (at,) in connection.execute("select at from prompts where session = ?", (session,))]


def _iter_events(connection: Connection, session: int) -> Iterator[tuple[float, str, str, str, str]]:
    rows = connection.execute(
        "select at, iif(kind = 'tool', tool, ''), input, outcome, signature from events"
        " where session = ? order by at, id",
        (session,),
    )
    return (tuple(row) for row in rows)


def _parse_command(tool_input: str) -> str:
    try:
        arguments = json.loads(tool_input)
    except ValueError:
        return ""
    command = arguments.get("command") if isinstance(arguments, dict) else ""
    return command if isinstance(command, str) else ""


def _list_files(connection: Connection, session: int) -> tuple[str, ...]:
    rows = connection.execute("select files_modified from observations where session = ? order by at", (session,))
    return tuple(dict.fromkeys(file for (text,) in rows for file in parse_json_list(text)))


def _encode_value(value: Any) -> Any:
    """Lists of values go in as JSON of their fields."""
    return json.dumps(value, default=vars, separators=(",", ":")) if isinstance(value, tuple) else value


def _build_reflection(row: sqlite3.Row) -> Reflection:
    values = {name: row[name] for name in _FIELD_NAMES}
    return Reflection(
        row["id"],
        **values | {"findings": _parse_findings(row["findings"]), "files": _parse_written_files(row["files"])},
    )


def _parse_findings(text: str) -> tuple[Finding, ...]:
    """What was found; of what came from elsewhere only what is in order."""
    findings = []
    for item in _parse_objects(text):
        evidence = [evidence_item for evidence_item in item.get("evidence") or () if isinstance(evidence_item, dict)]
        try:
            findings.append(
                Finding(**item | {"evidence": tuple(Evidence(**evidence_item) for evidence_item in evidence)})
            )
        except TypeError:
            continue
    return tuple(findings)


def _parse_written_files(text: str) -> tuple[WrittenFile, ...]:
    return tuple(WrittenFile(**item) for item in _parse_objects(text))


def _parse_objects(text: str) -> list[dict[str, Any]]:
    try:
        value = json.loads(text)
    except ValueError:
        return []
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def list_drafts(connection: Connection, session: int) -> list[Reflection]:
    """The drafts of a recorded session, by its number, that nobody decided about."""
    row = connection.execute("select session from sessions where id = ?", (session,)).fetchone()
    return list_reflections(connection, DRAFT, session=row["session"]) if row else []


def list_unreflected_sessions(connection: Connection, now: float, idle_seconds: float) -> list[tuple[int, float]]:
    """The sessions of the last days that ended or are quiet, and of which something was not reflected on; by number,
    with when they were last heard of."""
    rows = connection.execute(
        "select id, last_at from sessions where prompts > 0 and transcript != '' and last_at > ?"
        " and (status = 'completed' or (? > 0 and last_at <= ?)) and not exists (select 1 from reflections where"
        " reflections.session = sessions.session and reflections.at >= sessions.last_at) order by id",
        (now - RECENT_SECONDS, idle_seconds, now - idle_seconds),
    )
    return [(row["id"], row["last_at"]) for row in rows]
