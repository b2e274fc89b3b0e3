"""Store what hooks and transcripts report: sessions with their project, prompts and events, and what agents were told.

Reports come in any order, some twice, some late from the spool. Nothing here depends on the order of arrival: a key
makes each report count once, and a session's status follows from its times.

A project is shown by its folder's name and told apart by the real path. A repository that was moved is the same project
if it has the same remote and its old folder is gone. An import may know a project by its name alone, until a session is
in a folder of that name.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, replace

from hardwon import clock
from hardwon.clock import DUPLICATE_SECONDS
from hardwon.projects import get_folder_name
from hardwon.store import jobs
from hardwon.store.db import Connection, fetch_value, insert_row, parse_json_or_text, to_storable
from hardwon.text.fence import FENCE_OPEN
from hardwon.types import Delivery, dump_record, get_record_key

_QUIET_SECONDS = 600.0  # without an event, after which a turn that nobody ended is distilled
_INSTANT = 1e-6  # by which a live report follows the last one if the clock was set back
_TRANSCRIPT = "transcript"
_OPENING_KINDS = ("SessionStart", "UserPromptSubmit")
_ENDING_KINDS = ("Stop", "SessionEnd")
# Keys that hooks mint have no colon, see `build_transcript_key`.
_IS_TRANSCRIPT_KEY_SQL = "instr(key, ':')"
_DELIVERY_COLUMNS = tuple(map(get_record_key, Delivery.__annotations__))
# `event` is `session:call` where the agent names its calls, else the id that the hook minted, which has no colon.
_NAMES_CALL_SQL = "instr({event}, ':')"
WAS_TOLD_SQL = "arm in ('told', 'live')"  # the other firings were only recorded
# Briefs, recalled records and requests for a lesson are deliveries too; records have ids where a lesson has its slug.
OF_LESSONS_SQL = "slug not in ('brief', 'lesson-request') and slug not glob '[A-Z][0-9:]*'"


@dataclass(frozen=True, slots=True)
class Report:
    """One event, cleaned and ready to be stored."""

    key: str
    host: str
    session: str
    kind: str
    at: float
    cwd: str = ""
    project: int | None = None
    transcript: str = ""
    subagent_id: str = ""
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
    times: int = 1  # how often this prompt's text occurred in the transcript so far, including this one
    imported_at: float | None = None  # when history was imported; None for what hooks report as it happens


def build_transcript_key(agent: str, step: str) -> str:
    """Return the key of something that a transcript reports; the colon tells it from a key that a hook minted."""
    return f"{agent}:{step}"


def store_report(connection: Connection, report: Report, *, live: bool = False) -> bool:
    """Store a report within the caller's transaction; return False if it was known.

    A live report is the latest of its session, whatever the clock says.
    """
    is_prompt = report.kind == "UserPromptSubmit"
    table = "prompts" if is_prompt else "events"
    if fetch_value(connection, f"select 1 from {table} where key = ?", report.key):
        return False  # the same report again
    session, last_at = _find_or_create_session(connection, report)
    at = max(report.at, last_at + _INSTANT) if live else report.at
    if report.origin == "hook" and _is_duplicate_report(connection, session, replace(report, at=at)):
        return False
    if is_prompt:
        # Of a prompt that was private as a whole nothing is left, but it was activity of the session.
        is_new = report.prompt != "" and _store_prompt(connection, session, report, at)
    else:
        if report.kind == "Stop" and not report.subagent_id:
            _delete_transcript_end(connection, session, at)
        is_new = _store_event(connection, session, report, at)
    _update_session(connection, session, report, at)
    if is_new and report.imported_at is not None:
        connection.execute("update sessions set taken_at = ? where id = ?", (report.imported_at, session))
    _enqueue_distilling(connection, session, report)
    return is_new


def _is_duplicate_report(connection: Connection, session: int, report: Report) -> bool:
    """Return whether another hook of ours just reported the same.

    That happens if a plugin is installed besides the settings, or if one agent loads another's hooks. Calls and prompts
    are compared by the agent's id, or by their text if they have none. A prompt with an event after it, or an event
    with a prompt after it, is not a duplicate.
    """
    scope = (session, report.at - DUPLICATE_SECONDS, report.at + DUPLICATE_SECONDS)
    if report.kind == "UserPromptSubmit":
        if report.prompt_name:
            return False  # `_store_prompt` compares the ids
        query = f"""
            select 1 from prompts as earlier where session = ? and at between ? and ? and prompt = ?
            and not {_IS_TRANSCRIPT_KEY_SQL}
            and not exists (select 1 from events where session = earlier.session and at > earlier.at)
            """
        return fetch_value(connection, query, *scope, report.prompt) is not None
    if report.tool_use_id:
        return False  # the table has one row for each id
    query = """
        select 1 from events as earlier where session = ? and at between ? and ? and tool_use_id = '' and kind = ?
        and agent = ? and tool = ? and input = ? and response = ? and origin = 'hook'
        and not exists (select 1 from prompts where session = earlier.session and at > earlier.at)
        """
    values = (report.kind, report.subagent_id, report.tool, report.input, report.response)
    return fetch_value(connection, query, *scope, *values) is not None


def _enqueue_distilling(connection: Connection, session: int, report: Report) -> None:
    """Ask for distilling at once when a turn or a session ends, else after a quiet time."""
    if report.kind == "SessionStart":
        return  # a start brings nothing to distil
    now = clock.now()
    wait = 0.0 if report.kind in _ENDING_KINDS else _QUIET_SECONDS
    due_at = min(report.at, now) + wait  # a report's time in the future must not put distilling off
    priority = jobs.HISTORY if report.origin == _TRANSCRIPT else jobs.LIVE
    jobs.enqueue(connection, jobs.DISTIL, session, priority=priority, now=now, due_at=due_at)


def _find_or_create_session(connection: Connection, report: Report) -> tuple[int, float]:
    """Return the number of the session and when it was last heard of."""
    connection.execute(
        """
        insert or ignore into sessions (host, session, cwd, transcript, first_prompt, prompts, status, reason,
            started_at, opened_at, last_at, to_fill)
        values (?, ?, '', '', '', 0, 'initialized', '', ?, 0, 0, 0)
        """,
        (report.host, report.session, report.at),
    )
    number, last_at = connection.execute(
        "select id, last_at from sessions where host = ? and session = ?", (report.host, report.session)
    ).fetchone()
    return number, last_at


def _store_prompt(connection: Connection, session: int, report: Report, at: float) -> bool:
    """Store a prompt unless a hook or the transcript already reported it; return whether it is new.

    Prompts are compared by the agent's id, or by their text if they have none: the second occurrence in a transcript is
    known if the text is stored twice, and a hook's report replaces that of a transcript.
    """
    row = (report.key, session, at, report.prompt, report.prompt_name)
    if report.origin != _TRANSCRIPT:
        replaced = connection.execute(
            f"""
            update or ignore prompts set key = ?1, at = ?3, name = iif(?5 = '', name, ?5) where id = (
                select id from prompts where session = ?2 and prompt = ?4 and {_IS_TRANSCRIPT_KEY_SQL}
                and (name in ('', ?5) or ?5 = '') order by name != ?5, abs(at - ?3), id limit 1)
            """,
            row,
        ).rowcount
        if replaced:
            _renumber_prompts(connection, session, since=0.0)
            return False
    inserted = connection.execute(
        """
        insert or ignore into prompts (key, session, number, at, prompt, name) select ?1, ?2, 0, ?3, ?4, ?5
        where ?6 = 0
        or (select count(*) from prompts where session = ?2 and prompt = ?4 and (?5 = '' or name = '')) < ?6
        """,
        (*row, report.times if report.origin == _TRANSCRIPT else 0),
    ).rowcount
    if inserted:
        _renumber_prompts(connection, session, at)
    return bool(inserted)


def _renumber_prompts(connection: Connection, session: int, since: float) -> None:
    """Renumber prompts by time after a late one arrived, and reassign their events."""
    connection.execute(
        """
        update prompts set number = (select count(*) from prompts as earlier where earlier.session = prompts.session
            and (earlier.at, earlier.id) <= (prompts.at, prompts.id))
        where session = ? and at >= ?
        """,
        (session, since),
    )
    connection.execute(
        """
        update events set prompt =
            (select count(*) from prompts where prompts.session = events.session and prompts.at <= events.at)
        where session = ? and at >= ?
        """,
        (session, since),
    )


# A hook's report takes precedence over a transcript's, with one exception: `denied` is only hardwon's request. If the
# agent runs the call anyway and a result is reported, the result counts, from either source and in either order.
_RAN = ("fine", "failed", "interrupted")
_DENIED_THOUGH_IT_RAN_SQL = f"(excluded.outcome = 'denied' and outcome in {_RAN})"
_IS_BETTER_SQL = f"""((excluded.origin = 'hook' and origin != 'hook' and not {_DENIED_THOUGH_IT_RAN_SQL})
    or (outcome = 'denied' and excluded.outcome in {_RAN}))"""
_MERGE_EVENT_SQL = f"""
    on conflict (session, tool_use_id, kind) where tool_use_id != '' do update set
    at = iif({_IS_BETTER_SQL}, excluded.at, at),
    prompt = iif({_IS_BETTER_SQL}, excluded.prompt, prompt),
    input = iif(input in ('', 'null') or ({_IS_BETTER_SQL} and excluded.input != ''), excluded.input, input),
    response = iif(response = '' or ({_IS_BETTER_SQL} and excluded.response != ''), excluded.response, response),
    outcome = iif(outcome = '' or {_IS_BETTER_SQL}, excluded.outcome, outcome),
    signature = iif(signature = '' or {_IS_BETTER_SQL}, excluded.signature, signature),
    duration = iif({_IS_BETTER_SQL}, coalesce(excluded.duration, duration), coalesce(duration, excluded.duration)),
    key = iif(excluded.origin = 'hook' and not {_DENIED_THOUGH_IT_RAN_SQL}, excluded.key, key),
    origin = iif(excluded.origin = 'hook', 'hook', origin)
    """
_TURN_NUMBER_SQL = "select count(*) from prompts where session = ? and at <= ?"


def _store_event(connection: Connection, session: int, report: Report, at: float) -> bool:
    """Store an event and return whether it is new; a second report of a call fills in missing fields."""
    tool_use_id = report.tool_use_id
    # What was reported of this call before; the first condition lets SQLite use the partial index.
    earlier = connection.execute(
        """
        select origin, outcome, input from events where tool_use_id != '' and session = ? and tool_use_id = ?
        and kind = ?
        """,
        (session, tool_use_id, report.kind),
    ).fetchone()
    origin = earlier["origin"] if earlier else None
    if earlier and "denied" in (earlier["outcome"], report.outcome):
        _record_ignored_denial(connection, report, earlier_outcome=earlier["outcome"], earlier_input=earlier["input"])
    # Some agents reuse a call's id in a later turn, so a second step of a transcript is another call.
    if origin == report.origin == _TRANSCRIPT:
        tool_use_id = report.key
        origin = None
    row = {
        "key": report.key,
        "session": session,
        "kind": report.kind,
        "at": at,
        "prompt": fetch_value(connection, _TURN_NUMBER_SQL, session, at),
        "agent": report.subagent_id,
        "tool": report.tool,
        "tool_use_id": tool_use_id,
        "input": report.input,
        "response": report.response,
        "outcome": report.outcome,
        "signature": report.signature,
        "duration": report.duration,
        "origin": report.origin,
        "taken_at": report.imported_at,
    }
    insert_row(connection, "events", row, clause=_MERGE_EVENT_SQL)
    return origin is None


def _record_ignored_denial(connection: Connection, report: Report, *, earlier_outcome: str, earlier_input: str) -> None:
    """Record that an agent ran a call although hardwon had denied it, if the two reports of it say so."""
    has_run = earlier_outcome in _RAN or report.outcome in _RAN
    # Some agents report a denial as a failed call, with our own words as its result.
    is_denial = FENCE_OPEN in report.response
    # Some agents reuse ids, so the input must be the same.
    if has_run and not is_denial and _is_same_input(earlier_input, report.input):
        row = {"host": report.host, "session": report.session, "call": report.tool_use_id, "tool": report.tool}
        insert_row(connection, "ignored_denials", {"at": report.at, "version": "", **row}, verb="insert or ignore")


def _is_same_input(first: str, second: str) -> bool:
    """Return whether two reports are of one call; a transcript may have fewer fields of it than a hook."""
    if first == second:
        return True
    first_fields = parse_json_or_text(first)
    second_fields = parse_json_or_text(second)
    if not isinstance(first_fields, dict) or not isinstance(second_fields, dict):
        return False
    for name in ("command", "file_path", "path"):
        if first_fields.get(name) and first_fields[name] == second_fields.get(name):
            return True
    return False


# The values of a session's columns after a report.
_PROMPT_COUNT_SQL = "(select count(*) from prompts where prompts.session = sessions.id)"
_FIRST_PROMPT_SQL = """
    coalesce((select prompt from prompts where prompts.session = sessions.id order by at, id limit 1), '')"""
_OPENED_AT_SQL = "max(opened_at, :opened_at)"
_ENDED_AT_SQL = "iif(:ended_at is null, ended_at, max(coalesce(ended_at, 0), :ended_at))"


def _update_session(connection: Connection, session: int, report: Report, at: float) -> None:
    """Update the session's row; its status follows from when it was last opened, prompted and ended."""
    is_subagents_own = bool(report.subagent_id) and report.origin == _TRANSCRIPT
    connection.execute(
        f"""
        update sessions set
        cwd = iif(cwd = '' or (:at < started_at and :cwd != ''), :cwd, cwd),
        project = iif(project is null or (:at < started_at and :project is not null), :project, project),
        transcript = iif(transcript = '' or (:transcript != '' and :at >= last_at), :transcript, transcript),
        prompts = {_PROMPT_COUNT_SQL},
        first_prompt = {_FIRST_PROMPT_SQL},
        started_at = min(started_at, :at),
        last_at = max(last_at, :at),
        opened_at = {_OPENED_AT_SQL},
        ended_at = {_ENDED_AT_SQL},
        reason = iif(:ended_at is not null and :ended_at >= coalesce(ended_at, 0), :reason, reason),
        status = iif({_ENDED_AT_SQL} >= {_OPENED_AT_SQL}, 'completed',
            iif({_PROMPT_COUNT_SQL} > 0, 'active', 'initialized')),
        to_fill = iif(:should_fill, 1, to_fill)
        where id = :session
        """,
        {
            "at": at,
            "cwd": report.cwd,
            "project": report.project,
            "transcript": "" if is_subagents_own else report.transcript,
            "opened_at": at if report.kind in _OPENING_KINDS else 0.0,
            "ended_at": at if report.kind == "SessionEnd" else None,
            "reason": report.reason,
            "should_fill": report.kind in _ENDING_KINDS and report.origin == "hook",
            "session": session,
        },
    )


def recount_session(connection: Connection, session: int) -> None:
    """Recompute a session's prompt count and status after an import or a deletion, within the caller's transaction."""
    _renumber_prompts(connection, session, since=0.0)
    connection.execute(
        f"update sessions set prompts = {_PROMPT_COUNT_SQL}, first_prompt = {_FIRST_PROMPT_SQL} where id = ?",
        (session,),
    )
    connection.execute(
        """
        update sessions set status = iif(ended_at is not null and ended_at >= opened_at, 'completed',
            iif(prompts > 0, 'active', 'initialized'))
        where id = ?
        """,
        (session,),
    )


def add_tokens(
    connection: Connection, agent: str, session: str, tokens_in: int, tokens_out: int, tokens_cached: int
) -> None:
    """Add what a transcript counts of a session's tokens, within the caller's transaction."""
    connection.execute(
        """
        update sessions set tokens_in = coalesce(tokens_in, 0) + ?, tokens_out = coalesce(tokens_out, 0) + ?,
            tokens_cached = coalesce(tokens_cached, 0) + ?
        where host = ? and session = ?
        """,
        (tokens_in, tokens_out, tokens_cached, agent, session),
    )


def store_last_words(
    connection: Connection, agent: str, session: str, text: str, *, since: float, until: float
) -> None:
    """Store what the agent said last in a turn, within the caller's transaction.

    It completes the end of the turn that a hook reported without it, or replaces one that no hook reported.
    """
    number = fetch_value(connection, "select id from sessions where host = ? and session = ?", agent, session)
    if number is None:
        return  # nothing of the session was recorded
    key = build_transcript_key(agent, f"{session}:{since}")
    # The end of this turn: the one stored under this key, a hook's within the turn's time, or a transcript's of the
    # turn. A hook's comes first, and the first at or after the words.
    event = connection.execute(
        """
        select id, response, origin from events where key = ?4 or (session = ?1 and kind = 'Stop' and agent = ''
            and at < ?3 and (at >= ?2 or (origin = 'transcript'
                and prompt = (select count(*) from prompts where session = ?1 and at <= ?2))))
        order by origin = 'transcript', at < ?2, at, id limit 1
        """,
        (number, since, until, key),
    ).fetchone()
    report = Report(key, agent, session, "Stop", since, response=text, origin=_TRANSCRIPT, imported_at=clock.now())
    if event is None:
        _store_event(connection, number, report, since)
    elif event["origin"] == _TRANSCRIPT:
        # A copy in a fork has the same words at a time that is only near.
        if event["response"] != text:
            connection.execute("update events set response = ?, at = ? where id = ?", (text, since, event["id"]))
    elif event["response"] == "":
        connection.execute("update events set response = ? where id = ?", (text, event["id"]))
    _enqueue_distilling(connection, number, report)


def _delete_transcript_end(connection: Connection, session: int, at: float) -> None:
    """Delete the end of a turn that a transcript told, since a hook reports it now."""
    connection.execute(
        f"""
        delete from events where session = ? and kind = 'Stop' and agent = '' and origin = 'transcript'
        and prompt = ({_TURN_NUMBER_SQL})
        """,
        (session, session, at),
    )


def insert_deliveries(connection: Connection, deliveries: Iterable[Delivery]) -> None:
    """Store deliveries within the caller's transaction; known ones stay unchanged.

    A delivery comes twice when a hook spooled it and the worker then answered, or when two hooks of hardwon ran. If the
    agent gives its calls no ids, two deliveries close together in time count as one.
    """
    connection.executemany(
        f"""
        insert or ignore into injections ({", ".join(_DELIVERY_COLUMNS)})
        select {", ".join(f":{name}" for name in _DELIVERY_COLUMNS)}
        where {_NAMES_CALL_SQL.format(event=":event")} or not exists (
            select 1 from injections where session = :session and at between :at - :twice and :at + :twice
            and not {_NAMES_CALL_SQL.format(event="event")} and event != :event and lesson = :lesson and host = :host
            and agent = :agent and kind = :kind and tool = :tool)
        """,
        [{**dump_record(delivery), "twice": DUPLICATE_SECONDS} for delivery in deliveries],
    )


def find_or_create_project(connection: Connection, path: str, remote: str, at: float) -> int | None:
    """Return the project's number, within the caller's transaction; None for no path."""
    if not path:
        return None
    row = connection.execute("select id, path, remote from projects where path = ?", (path,)).fetchone()
    if row is None:
        row = _find_moved_project(connection, remote) or find_project_by_folder_name(connection, path)
        if row is not None:
            _move_project(connection, row, path)
    if row is None:
        cursor = insert_row(
            connection, "projects", {"path": path, "name": get_folder_name(path), "remote": remote, "at": at}
        )
        return cursor.lastrowid
    if remote and remote != row["remote"]:
        connection.execute("update projects set remote = ? where id = ?", (remote, row["id"]))
    return int(row["id"])


def _find_moved_project(connection: Connection, remote: str) -> sqlite3.Row | None:
    """Return the only project of this remote whose folder is gone; None if there is none, or several."""
    if not remote:
        return None
    rows = connection.execute("select id, path, remote from projects where remote = ?", (remote,)).fetchall()
    missing = [row for row in rows if not os.path.exists(row["path"])]
    return missing[0] if len(missing) == 1 else None


def find_project_by_folder_name(connection: Connection, path: str) -> sqlite3.Row | None:
    """Return the project that is known by this folder's name and no path, if no other has that name."""
    name = to_storable(get_folder_name(path))
    rows: list[sqlite3.Row] = connection.execute(
        "select id, path, remote from projects where name = ?", (name,)
    ).fetchall()
    # An import that knows no path stores the name in its place.
    if len(rows) == 1 and rows[0]["path"] == name:
        return rows[0]
    return None


def _move_project(connection: Connection, row: sqlite3.Row, path: str) -> None:
    """Give a project its new path, within the caller's transaction, and its memories too."""
    connection.execute("update projects set path = ?, name = ? where id = ?", (path, get_folder_name(path), row["id"]))
    connection.execute("update memories set project = ? where project = ?", (path, row["path"]))


def read_project_paths(connection: Connection) -> dict[str, str]:
    """Return the folder of each repository that is known by its remote; of several clones the one used last."""
    rows = connection.execute("select remote, path from projects where remote != '' order by at")
    return {row["remote"]: row["path"] for row in rows if os.path.isabs(row["path"])}
