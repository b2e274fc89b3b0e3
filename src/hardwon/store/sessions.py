"""Sessions, their prompts and their events, as hooks and transcripts reported them.

Reports come in any order, some twice, some late from the spool. So nothing here depends on the order of arrival: a
key makes each report count once, and a session's status follows from its times.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hardwon.store.db import Connection, storable
from hardwon.words import word

STATUSES = ("initialized", "active", "completed")
_OPENS = ("SessionStart", "UserPromptSubmit")


@word
class Report:
    """One event, cleaned and ready to be kept."""

    key: str
    host: str
    session: str
    kind: str
    at: float
    cwd: str = ""
    project: int | None = None
    transcript: str = ""
    agent: str = ""
    prompt: str = ""
    prompt_name: str = ""
    tool: str = ""
    tool_use_id: str = ""
    input: str = ""
    response: str = ""
    outcome: str = ""
    signature: str = ""
    duration: float | None = None
    reason: str = ""
    origin: str = "hook"


def take(connection: Connection, report: Report, *, live: bool = False) -> bool:
    """Keep a report within the caller's transaction; False if it was known. A live one is the latest of its session,
    whatever the clock says."""
    if _is_known(connection, report):
        return False
    session = _session(connection, report)
    at = max(report.at, session["last_at"]) if live else report.at
    if report.kind == "UserPromptSubmit":
        if report.prompt:
            _keep_prompt(connection, session["id"], report, at)
    else:
        _keep_event(connection, session["id"], report, at)
    _touch(connection, session["id"], report, at)
    return True


def _is_known(connection: Connection, report: Report) -> bool:
    table = "prompts" if report.kind == "UserPromptSubmit" else "events"
    return connection.execute(f"select 1 from {table} where key = ?", (storable(report.key),)).fetchone() is not None


def _session(connection: Connection, report: Report) -> Mapping[str, Any]:
    """The session's row, made if this is the first that is heard of it."""
    names = (report.host, storable(report.session))
    connection.execute(
        "insert or ignore into sessions (host, session, cwd, transcript, first_prompt, prompts, status, reason,"
        " started_at, opened_at, last_at, to_fill) values (?, ?, '', '', '', 0, 'initialized', '', ?, 0, 0, 0)",
        (*names, report.at),
    )
    row: Mapping[str, Any] = connection.execute(
        "select id, last_at from sessions where host = ? and session = ?", names
    ).fetchone()
    return row


def _keep_prompt(connection: Connection, session: int, report: Report, at: float) -> None:
    """A prompt that a transcript tells again is known by the host's name for it, or else by its words."""
    if report.origin == "transcript":
        same = connection.execute(
            "select count(*) from prompts where session = ? and (prompt = ? or (name != '' and name = ?))",
            (session, storable(report.prompt), report.prompt_name),
        ).fetchone()[0]
        if same:
            return
    connection.execute(
        "insert or ignore into prompts (key, session, number, at, prompt, name) values (?, ?, 0, ?, ?, ?)",
        (storable(report.key), session, at, storable(report.prompt), storable(report.prompt_name)),
    )
    _renumber(connection, session, at)


def _renumber(connection: Connection, session: int, since: float) -> None:
    """Prompts count in the order of their times; what comes late moves those behind it, and their events."""
    connection.execute(
        "update prompts set number = (select count(*) from prompts as earlier where earlier.session = prompts.session"
        " and (earlier.at, earlier.id) <= (prompts.at, prompts.id)) where session = ? and at >= ?",
        (session, since),
    )
    connection.execute(
        "update events set prompt = (select count(*) from prompts where prompts.session = events.session"
        " and prompts.at <= events.at) where session = ? and at >= ?",
        (session, since),
    )


def _keep_event(connection: Connection, session: int, report: Report, at: float) -> None:
    """What is told again of a call fills in what the first report had not; a hook's word counts more."""
    connection.execute(
        "insert into events (key, session, kind, at, prompt, agent, tool, tool_use_id, input, response, outcome,"
        " signature, duration, origin) values (?, ?, ?, ?,"
        " (select count(*) from prompts where session = ? and at <= ?), ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " on conflict (session, tool_use_id, kind) where tool_use_id != '' do update set"
        " input = iif(input in ('', 'null'), excluded.input, input),"
        " response = iif(response = '', excluded.response, response),"
        " outcome = iif(excluded.origin = 'hook' or outcome = '', excluded.outcome, outcome),"
        " signature = iif(signature = '', excluded.signature, signature),"
        " duration = coalesce(duration, excluded.duration),"
        " key = iif(excluded.origin = 'hook', excluded.key, key),"
        " origin = iif(excluded.origin = 'hook', 'hook', origin)",
        (
            storable(report.key), session, report.kind, at, session, at, storable(report.agent), storable(report.tool),
            storable(report.tool_use_id), storable(report.input), storable(report.response), report.outcome,
            storable(report.signature), report.duration, report.origin,
        ),
    )  # fmt: skip


def _touch(connection: Connection, session: int, report: Report, at: float) -> None:
    """The session's row after this report: its status follows from when it was opened, prompted and ended last."""
    opens = at if report.kind in _OPENS else 0.0
    ends = at if report.kind == "SessionEnd" else None
    connection.execute(
        "update sessions set"
        " cwd = iif(cwd = '', ?, cwd), transcript = iif(? != '', ?, transcript), project = coalesce(project, ?),"
        " prompts = (select count(*) from prompts where prompts.session = sessions.id),"
        " first_prompt = coalesce((select prompt from prompts where prompts.session = sessions.id"
        "   order by at, id limit 1), ''),"
        " started_at = min(started_at, ?), last_at = max(last_at, ?), opened_at = max(opened_at, ?),"
        " ended_at = iif(? is null, ended_at, max(coalesce(ended_at, 0), ?)),"
        " reason = iif(? is not null and ? >= coalesce(ended_at, 0), ?, reason),"
        " to_fill = max(to_fill, ?) where id = ?",
        (
            storable(report.cwd), report.transcript, storable(report.transcript), report.project,
            at, at, opens, ends, ends, ends, ends, storable(report.reason),
            report.kind in ("Stop", "SessionEnd") and report.origin == "hook", session,
        ),
    )  # fmt: skip
    connection.execute(
        "update sessions set status = iif(ended_at is not null and ended_at >= opened_at, 'completed',"
        " iif(prompts > 0, 'active', 'initialized')) where id = ?",
        (session,),
    )


def listed(connection: Connection, *, limit: int, project: str = "", status: str = "") -> list[dict[str, Any]]:
    """The sessions, the latest first."""
    rows = connection.execute(
        f"{_SELECT} where (? = '' or projects.name = ? or projects.path = ?) and (? = '' or status = ?)"
        " order by last_at desc limit ?",
        (project, project, project, status, status, limit),
    )
    return [dict(row) for row in rows]


def found(connection: Connection, name: str) -> list[dict[str, Any]]:
    """The sessions whose own id, or a beginning of it, is this; or whose number is."""
    number = int(name) if name.isascii() and name.isdigit() and len(name) < 10 else -1
    rows = connection.execute(
        f"{_SELECT} where sessions.id = ? or session = ? or substr(session, 1, ?) = ? order by last_at desc limit 20",
        (number, name, len(name), name),
    ).fetchall()
    exact = [dict(row) for row in rows if name in (row["session"], str(row["id"]))]
    return exact or [dict(row) for row in rows]


_SELECT = (
    "select sessions.id, host, session, coalesce(projects.name, '') as project, coalesce(projects.path, '') as"
    " project_path, cwd, transcript, first_prompt, prompts, status, reason, started_at, last_at, ended_at,"
    " (select count(*) from events where events.session = sessions.id) as events"
    " from sessions left join projects on projects.id = sessions.project"
)


def prompts_of(connection: Connection, session: int) -> list[dict[str, Any]]:
    rows = connection.execute("select number, at, prompt from prompts where session = ? order by at, id", (session,))
    return [dict(row) for row in rows]


def events_of(connection: Connection, session: int) -> list[dict[str, Any]]:
    rows = connection.execute(
        "select kind, at, prompt, agent, tool, tool_use_id, input, response, outcome, signature, duration, origin"
        " from events where session = ? order by at, id",
        (session,),
    )
    return [{**dict(row), "input": _value(row["input"])} for row in rows]


def _value(text: str) -> Any:
    try:
        return json.loads(text) if text else None
    except ValueError:
        return text


def delete(connection: Connection, session: int) -> None:
    """Within the caller's transaction; prompts, events and deliveries go with it."""
    row = connection.execute("select session from sessions where id = ?", (session,)).fetchone()
    connection.execute("delete from sessions where id = ?", (session,))
    if row:
        connection.execute("delete from injections where session = ?", (row["session"],))


def to_fill(connection: Connection) -> list[dict[str, Any]]:
    """The sessions whose transcript may know more than the hooks told."""
    rows = connection.execute("select id, host, session, cwd, transcript from sessions where to_fill")
    return [dict(row) for row in rows]


def is_filled(connection: Connection, session: int) -> None:
    connection.execute("update sessions set to_fill = 0 where id = ?", (session,))


def last_words(connection: Connection, host: str, session: str, said: str) -> None:
    """What the agent said last, for the latest end of a turn that did not tell; within the caller's transaction."""
    connection.execute(
        "update events set response = ? where id = (select events.id from events join sessions on sessions.id ="
        " events.session where host = ? and sessions.session = ? and kind = 'Stop' order by at desc, events.id desc"
        " limit 1) and response = ''",
        (storable(said), host, storable(session)),
    )
