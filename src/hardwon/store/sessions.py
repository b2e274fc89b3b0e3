"""Sessions, their prompts and their events, as hooks and transcripts report them.

Reports come in any order, some twice, some late from the spool. Nothing here depends on the order of arrival: a key
makes each report count once, and a session's status follows from its times.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

from hardwon import clock
from hardwon.clock import DUPLICATE_SECONDS
from hardwon.store import deletions, jobs
from hardwon.store.db import (
    Connection,
    begin_epoch,
    fetch_column,
    fetch_dicts,
    fetch_value,
    insert_row,
    parse_json_or_text,
    transaction,
)
from hardwon.store.transcripts import HIDDEN_STATE
from hardwon.text.fence import FENCE_OPEN
from hardwon.types import EDIT_TOOLS

STATUSES = ("initialized", "active", "completed")
QUIET_SECONDS = 600.0
ABANDONED_SECONDS = 86_400.0  # after which an empty session counts as ended even without an end event
ENDED_GRACE_SECONDS = 3600.0  # before an ended, empty session is deleted: the spool or its transcript may add to it
PAUSE_SECONDS = 300.0  # a longer gap between two events was a pause
MAX_FILL_TRIES = 5  # to complete a session from its transcript; the next end of a turn allows new tries
# A session has content if it has a prompt, or a call of anything but hardwon. Without content, somebody only asked the
# agent for its version, or only looked at hardwon's data.
HAS_CONTENT = """(sessions.prompts > 0 or exists (select 1 from events where events.session = sessions.id
    and kind = 'tool' and input not like '{"command": "hardwon %'))"""
_INSTANT = 1e-6
_TRANSCRIPT = "transcript"
_OPENING_KINDS = ("SessionStart", "UserPromptSubmit")
_ENDING_KINDS = ("Stop", "SessionEnd")
# Keys that hooks mint have no colon, see `build_transcript_key`.
_IS_TRANSCRIPT_KEY = "instr(key, ':')"


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
    subagent: str = ""
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


@dataclass(frozen=True, slots=True)
class HookCoverage:
    """Counts of a session's events: those that hooks reported, and those that only its transcript did."""

    agent: str
    transcript: str
    hook_events: int
    transcript_events: int


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
        return False
    session, last_at = _find_or_create_session(connection, report)
    at = max(report.at, last_at + _INSTANT) if live else report.at
    if report.origin == "hook" and _is_duplicate_report(connection, session, replace(report, at=at)):
        return False
    if is_prompt:
        is_new = report.prompt != "" and _store_prompt(connection, session, report, at)
    else:
        if report.kind == "Stop" and not report.subagent:
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
        query = f"""
            select 1 from prompts as earlier where session = ? and at between ? and ? and prompt = ?
            and not {_IS_TRANSCRIPT_KEY}
            and not exists (select 1 from events where session = earlier.session and at > earlier.at)
            """
        return not report.prompt_name and fetch_value(connection, query, *scope, report.prompt) is not None
    query = """
        select 1 from events as earlier where session = ? and at between ? and ? and tool_use_id = '' and kind = ?
        and agent = ? and tool = ? and input = ? and response = ? and origin = 'hook'
        and not exists (select 1 from prompts where session = earlier.session and at > earlier.at)
        """
    values = (report.kind, report.subagent, report.tool, report.input, report.response)
    return not report.tool_use_id and fetch_value(connection, query, *scope, *values) is not None


def _enqueue_distilling(connection: Connection, session: int, report: Report) -> None:
    """Ask for distilling at once when a turn or a session ends, else after a quiet time."""
    if report.kind == "SessionStart":
        return
    now = clock.now()
    due_at = min(report.at, now) + (0.0 if report.kind in _ENDING_KINDS else QUIET_SECONDS)
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
                select id from prompts where session = ?2 and prompt = ?4 and {_IS_TRANSCRIPT_KEY}
                and (name in ('', ?5) or ?5 = '') order by name != ?5, abs(at - ?3), id limit 1)
            """,
            row,
        ).rowcount
        if replaced:
            _renumber_prompts(connection, session, 0.0)
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
_DENIED_THOUGH_IT_RAN = f"(excluded.outcome = 'denied' and outcome in {_RAN})"
_BETTER = f"""((excluded.origin = 'hook' and origin != 'hook' and not {_DENIED_THOUGH_IT_RAN})
    or (outcome = 'denied' and excluded.outcome in {_RAN}))"""
_MERGE_EVENT = f"""
    on conflict (session, tool_use_id, kind) where tool_use_id != '' do update set
    at = iif({_BETTER}, excluded.at, at),
    prompt = iif({_BETTER}, excluded.prompt, prompt),
    input = iif(input in ('', 'null') or ({_BETTER} and excluded.input != ''), excluded.input, input),
    response = iif(response = '' or ({_BETTER} and excluded.response != ''), excluded.response, response),
    outcome = iif(outcome = '' or {_BETTER}, excluded.outcome, outcome),
    signature = iif(signature = '' or {_BETTER}, excluded.signature, signature),
    duration = iif({_BETTER}, coalesce(excluded.duration, duration), coalesce(duration, excluded.duration)),
    key = iif(excluded.origin = 'hook' and not {_DENIED_THOUGH_IT_RAN}, excluded.key, key),
    origin = iif(excluded.origin = 'hook', 'hook', origin)
    """
_COUNT_PROMPTS = "select count(*) from prompts where session = ? and at <= ?"


def _store_event(connection: Connection, session: int, report: Report, at: float) -> bool:
    """Store an event and return whether it is new; a second report of a call fills in missing fields."""
    tool_use_id = report.tool_use_id
    earlier = connection.execute(
        "select origin, outcome, input from events where tool_use_id != '' and session = ? and tool_use_id = ?"
        " and kind = ?",
        (session, tool_use_id, report.kind),
    ).fetchone()
    origin = earlier["origin"] if earlier else None
    if earlier and "denied" in (earlier["outcome"], report.outcome):
        _record_ignored_denial(connection, earlier["outcome"], earlier["input"], report)
    # Some agents reuse a call's id in a later turn, so a second step of a transcript is another call.
    if origin == report.origin == _TRANSCRIPT:
        tool_use_id, origin = report.key, None
    row = {
        "key": report.key,
        "session": session,
        "kind": report.kind,
        "at": at,
        "prompt": fetch_value(connection, _COUNT_PROMPTS, session, at),
        "agent": report.subagent,
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
    insert_row(connection, "events", row, clause=_MERGE_EVENT)
    return origin is None


def _record_ignored_denial(connection: Connection, outcome: str, call_input: str, report: Report) -> None:
    """Record that an agent ran a call although hardwon had denied it, if the two reports of it say so.

    Some agents reuse ids, so the input must be the same; some report a denial as a failed call with our own words.
    """
    has_run = any(value in _RAN for value in (outcome, report.outcome))
    if has_run and FENCE_OPEN not in report.response and _is_same_input(call_input, report.input):
        row = {"host": report.host, "session": report.session, "call": report.tool_use_id, "tool": report.tool}
        insert_row(connection, "ignored_denials", {"at": report.at, "version": "", **row}, verb="insert or ignore")


def _is_same_input(first: str, second: str) -> bool:
    """Return whether two reports are of one call; a transcript may have fewer fields of it than a hook."""
    if first == second:
        return True
    first_fields, second_fields = parse_json_or_text(first), parse_json_or_text(second)
    if not isinstance(first_fields, dict) or not isinstance(second_fields, dict):
        return False
    names = ("command", "file_path", "path")
    return any(first_fields.get(name) and first_fields.get(name) == second_fields.get(name) for name in names)


# The columns of a session's row after a report.
_PROMPTS = "(select count(*) from prompts where prompts.session = sessions.id)"
_FIRST_PROMPT = """
    coalesce((select prompt from prompts where prompts.session = sessions.id order by at, id limit 1), '')"""
_OPENED = "max(opened_at, :opened_at)"
_ENDED = "iif(:ended_at is null, ended_at, max(coalesce(ended_at, 0), :ended_at))"


def _update_session(connection: Connection, session: int, report: Report, at: float) -> None:
    """Update the session's row; its status follows from when it was last opened, prompted and ended."""
    is_subagents_own = bool(report.subagent) and report.origin == _TRANSCRIPT
    connection.execute(
        f"""
        update sessions set
        cwd = iif(cwd = '' or (:at < started_at and :cwd != ''), :cwd, cwd),
        project = iif(project is null or (:at < started_at and :project is not null), :project, project),
        transcript = iif(transcript = '' or (:transcript != '' and :at >= last_at), :transcript, transcript),
        prompts = {_PROMPTS},
        first_prompt = {_FIRST_PROMPT},
        started_at = min(started_at, :at),
        last_at = max(last_at, :at),
        opened_at = {_OPENED},
        ended_at = {_ENDED},
        reason = iif(:ended_at is not null and :ended_at >= coalesce(ended_at, 0), :reason, reason),
        status = iif({_ENDED} >= {_OPENED}, 'completed', iif({_PROMPTS} > 0, 'active', 'initialized')),
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
    _renumber_prompts(connection, session, 0.0)
    connection.execute(
        f"update sessions set prompts = {_PROMPTS}, first_prompt = {_FIRST_PROMPT} where id = ?", (session,)
    )
    connection.execute(
        """
        update sessions set status = iif(ended_at is not null and ended_at >= opened_at, 'completed',
            iif(prompts > 0, 'active', 'initialized'))
        where id = ?
        """,
        (session,),
    )


_SELECT = """
    select sessions.id, host, session, coalesce(projects.name, '') as project,
        coalesce(projects.path, '') as project_path, cwd, transcript, first_prompt, prompts, status, reason,
        started_at, last_at, ended_at, (select count(*) from events where events.session = sessions.id) as events
    from sessions left join projects on projects.id = sessions.project
    """


def list_sessions(connection: Connection, *, limit: int, project: str = "", status: str = "") -> list[dict[str, Any]]:
    """Return the sessions with content, the latest first."""
    query = f"""
        {_SELECT} where ?1 in ('', projects.name, projects.path) and ?2 in ('', status) and {HAS_CONTENT}
        order by last_at desc, sessions.id desc limit ?3
        """
    return fetch_dicts(connection, query, project, status, limit)


def find_by_name(connection: Connection, name: str, agent: str = "") -> list[dict[str, Any]]:
    """Return the sessions with this id, else the one with this number, else those whose id begins so."""
    number = int(name) if _is_number(name) else -1
    query = f"""
        {_SELECT} where (sessions.id = ?1 or session = ?2 or substr(session, 1, ?3) = ?2) and ?4 in ('', host)
        order by session = ?2 desc, sessions.id = ?1 desc, last_at desc, sessions.id desc limit 20
        """
    sessions = fetch_dicts(connection, query, number, name, len(name), agent)
    return (
        [session for session in sessions if session["session"] == name]
        or [session for session in sessions if session["id"] == number]
        or sessions
    )


def find_by_session_id(connection: Connection, session: str, agent: str = "") -> list[dict[str, Any]]:
    """Return the sessions to which the agent gave this very id; every agent's if none is named."""
    return fetch_dicts(connection, f"{_SELECT} where session = ? and ? in ('', host)", session, agent)


def find_by_number(connection: Connection, number: str) -> list[dict[str, Any]]:
    """Return the session of this number, if the text is a number and one has it."""
    return fetch_dicts(connection, f"{_SELECT} where sessions.id = ?", int(number)) if _is_number(number) else []


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def find_cwd_by_session_id(connection: Connection, agent: str, session: str) -> str:
    """Return the folder a session worked in, by the agent's id; empty if it is not recorded."""
    return str(fetch_value(connection, "select cwd from sessions where host = ? and session = ?", agent, session) or "")


def get_cwd(connection: Connection, session: int) -> str:
    return str(fetch_value(connection, "select cwd from sessions where id = ?", session) or "")


def get_transcript_path(connection: Connection, session: int) -> str:
    return str(fetch_value(connection, "select transcript from sessions where id = ?", session) or "")


def get_project_path(connection: Connection, session: int) -> str:
    """Return the folder of the project that a session belongs to; empty if there is none."""
    query = "select path from sessions join projects on projects.id = sessions.project where sessions.id = ?"
    return str(fetch_value(connection, query, session) or "")


def list_transcript_paths(connection: Connection) -> list[str]:
    """Return the transcripts that hooks named."""
    return fetch_column(connection, "select transcript from sessions where transcript != ''")


def list_prompt_texts(connection: Connection, session: int) -> list[str]:
    """Return the prompts of a session, in order."""
    return fetch_column(connection, "select prompt from prompts where session = ? order by at, id", session)


def list_session_prompts(connection: Connection, agent: str, session: str) -> list[str]:
    """Return the prompts of a session by the agent's id of it."""
    query = """
        select prompt from prompts join sessions on sessions.id = prompts.session
        where host = ? and sessions.session = ?
        """
    return fetch_column(connection, query, agent, session)


def list_prompt_rows(connection: Connection, session: int) -> list[dict[str, Any]]:
    return fetch_dicts(connection, "select number, at, prompt from prompts where session = ? order by at, id", session)


def list_events(connection: Connection, session: int) -> list[dict[str, Any]]:
    query = """
        select kind, at, prompt, agent, tool, tool_use_id, input, response, outcome, signature, duration, origin
        from events where session = ? order by at, id
        """
    return [row | {"input": parse_json_or_text(row["input"])} for row in fetch_dicts(connection, query, session)]


def list_events_after(connection: Connection, *, after_id: int, limit: int) -> list[dict[str, Any]]:
    """Return the events behind a number, in the order they came in."""
    query = """
        select events.id, host, sessions.session, kind, at, prompt, agent, tool, tool_use_id, input, response, outcome,
            signature, duration
        from events join sessions on sessions.id = events.session where events.id > ? order by events.id limit ?
        """
    rows = fetch_dicts(connection, query, after_id, limit)
    return [row | {"input": parse_json_or_text(row["input"])} for row in rows]


def list_session_deliveries(connection: Connection, agent: str, session: str) -> list[dict[str, Any]]:
    query = """
        select at, agent, kind, tool, lesson, slug, summary, delivery from injections where host = ? and session = ?
        and arm in ('told', 'live') order by at, id
        """
    return fetch_dicts(connection, query, agent, session)


class ChangingCall(NamedTuple):
    """A successful edit, with its file as the subject, or a shell command that names a commit."""

    tool: str
    subject: str
    is_in_last_turn: bool


def list_changing_calls(connection: Connection, agent: str, session: str, since: float) -> list[ChangingCall]:
    """Return a session's edits and commands about commits after a time, without reading their results."""
    query = """
        select tool, coalesce(iif(json_valid(input), coalesce(input ->> '$.file_path', input ->> '$.notebook_path',
            input ->> '$.command'), ''), ''),
            events.at >= (select max(at) from prompts where prompts.session = sessions.id)
        from events join sessions on sessions.id = events.session
        where host = ? and sessions.session = ? and events.kind = 'tool' and outcome = 'fine' and events.at > ?
        and (tool in (select value from json_each(?)) or input like '%commit%')
        order by events.at, events.id
        """
    rows = connection.execute(query, (agent, session, since, json.dumps(EDIT_TOOLS)))
    return [ChangingCall(tool, subject, bool(is_last)) for tool, subject, is_last in rows]


def list_hook_coverage(connection: Connection, limit: int) -> list[HookCoverage]:
    """Return the hook coverage of the last sessions, the latest first."""
    rows = connection.execute(
        """
        select host, transcript, (select count(*) from events where session = sessions.id and origin = 'hook'),
            (select count(*) from events where session = sessions.id and origin != 'hook')
        from sessions order by last_at desc, id desc limit ?
        """,
        (limit,),
    )
    return [HookCoverage(*row) for row in rows]


def count_recorded(connection: Connection) -> dict[str, int]:
    """Return how many sessions, prompts and events there are."""
    query = f"""
        select (select count(*) from sessions where {HAS_CONTENT}) as sessions,
            (select count(*) from prompts) as prompts, (select count(*) from events) as events
        """
    return fetch_dicts(connection, query)[0]


def count_active_minutes(times: Iterable[float]) -> float:
    """Return the minutes between events without the pauses: a session may stay open for days."""
    gaps = (later - earlier for earlier, later in pairwise(sorted(times)))
    return sum(gap for gap in gaps if gap <= PAUSE_SECONDS) / 60


def delete(connection: Connection, session: int) -> int:
    """Delete a session with its prompts, events and deliveries; return how many deliveries there were.

    The read positions of its transcripts stay, so that it does not come back, but the readers' state is deleted. The
    current turn may have been private, so nothing more is read before the next prompt.
    """
    connection.execute("pragma secure_delete = on")
    with transaction(connection):
        counts = {
            table: fetch_value(connection, f"select count(*) from {table} where session = ?", session)
            for table in ("prompts", "events", "observations", "summaries")
        }
        row = connection.execute("delete from sessions where id = ? returning host, session", (session,)).fetchone()
        if row is None:
            return 0
        now = clock.now()
        deletions.record(connection, deletions.SESSIONS_DELETE, deletions.SESSION, {"sessions": 1, **counts}, now)
        deletions.add_tombstones(connection, deletions.SESSION, [row["session"]], now)
        begin_epoch(connection)
        connection.execute(
            """
            update transcripts set reader = '', watch = ? where purpose = 'capture' and host = ? and watch != ''
            and json_extract(watch, '$.session') = ?
            """,
            (HIDDEN_STATE, *row),
        )
        return connection.execute("delete from injections where host = ? and session = ?", tuple(row)).rowcount


def delete_empty_sessions(connection: Connection, now: float) -> int:
    """Delete the sessions that are over and have neither a prompt nor a call; return how many there were."""
    with transaction(connection):
        return connection.execute(
            f"""
            delete from sessions where not {HAS_CONTENT} and (to_fill = 0 or to_fill > ?)
            and (last_at < ? or (status = 'completed' and last_at < ?))
            """,
            (MAX_FILL_TRIES, now - ABANDONED_SECONDS, now - ENDED_GRACE_SECONDS),
        ).rowcount


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


def list_sessions_to_fill(connection: Connection) -> list[dict[str, Any]]:
    """Return the sessions whose transcript may know more than the hooks reported, those tried least first."""
    query = """
        select id, host, session, cwd, transcript from sessions where to_fill and to_fill <= ? order by to_fill, id
        """
    return fetch_dicts(connection, query, MAX_FILL_TRIES)


def begin_fill(connection: Connection, session: int) -> int:
    """Count a try within the caller's transaction; the end of a turn resets the count to 1."""
    query = "update sessions set to_fill = to_fill + 1 where id = ? returning to_fill"
    return int(fetch_value(connection, query, session) or 0)


def finish_fill(connection: Connection, session: int, tries: int) -> None:
    connection.execute("update sessions set to_fill = 0 where id = ? and to_fill = ?", (session, tries))


def set_transcript(connection: Connection, session: int, path: str) -> None:
    """Set the transcript of a session whose hooks named none."""
    connection.execute("update sessions set transcript = ? where id = ? and transcript = ''", (path, session))


def store_last_words(
    connection: Connection, agent: str, session: str, text: str, *, since: float, until: float
) -> None:
    """Store what the agent said last in a turn, within the caller's transaction.

    It completes the end of the turn that a hook reported without it, or replaces one that no hook reported.
    """
    number = fetch_value(connection, "select id from sessions where host = ? and session = ?", agent, session)
    if number is None:
        return
    key = build_transcript_key(agent, f"{session}:{since}")
    event = connection.execute(
        """
        select id, response, origin from events where key = ?4 or (session = ?1 and kind = 'Stop' and agent = ''
            and at < ?3 and (at >= ?2 or (origin = 'transcript'
                and prompt = (select count(*) from prompts where session = ?1 and at <= ?2))))
        order by origin = 'transcript', at, id limit 1
        """,
        (number, since, until, key),
    ).fetchone()
    report = Report(key, agent, session, "Stop", since, response=text, origin=_TRANSCRIPT, imported_at=clock.now())
    if event is None:
        _store_event(connection, number, report, since)
    elif event["origin"] == _TRANSCRIPT:
        connection.execute("update events set response = ?, at = ? where id = ?", (text, since, event["id"]))
    elif event["response"] == "":
        connection.execute("update events set response = ? where id = ?", (text, event["id"]))
    _enqueue_distilling(connection, number, report)


def _delete_transcript_end(connection: Connection, session: int, at: float) -> None:
    """Delete the end of a turn that a transcript told, since a hook reports it now."""
    connection.execute(
        f"""
        delete from events where session = ? and kind = 'Stop' and agent = '' and origin = 'transcript'
        and prompt = ({_COUNT_PROMPTS})
        """,
        (session, session, at),
    )


def list_idle_sessions(connection: Connection, idle_since: float) -> list[tuple[int, str]]:
    """Return the sessions that nobody ended and that have been quiet since, with their transcripts."""
    rows = connection.execute(
        "select id, transcript from sessions where status != 'completed' and last_at < ? and transcript != ''",
        (idle_since,),
    )
    return [(row["id"], row["transcript"]) for row in rows]


def mark_completed(connection: Connection, numbers: Iterable[int]) -> None:
    """Mark sessions as ended at the time of their last activity."""
    with transaction(connection):
        connection.executemany(
            "update sessions set status = 'completed', ended_at = max(last_at, opened_at) where id = ?",
            [(number,) for number in numbers],
        )
