"""Find, list, complete and delete recorded sessions, their prompts and their events; `events` stores them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from hardwon import clock
from hardwon.store import deletions
from hardwon.store.db import (
    Connection,
    Row,
    begin_epoch,
    fetch_column,
    fetch_dicts,
    fetch_value,
    parse_json_or_text,
    parse_row_number,
    transaction,
)
from hardwon.store.transcripts import HIDDEN_STATE
from hardwon.types import EDIT_TOOLS

STATUSES = ("initialized", "active", "completed")
ABANDONED_SECONDS = 86_400.0  # after which an empty session counts as ended even without an end event
_LEFT_SECONDS = 3600.0  # without an event, after which an active session is shown as left
ENDED_GRACE_SECONDS = 3600.0  # before an ended, empty session is deleted: the spool or its transcript may add to it
_PAUSE_SECONDS = 300.0  # a longer gap between two events was a pause
MAX_FILL_TRIES = 5  # to complete a session from its transcript; the next end of a turn allows new tries
# A session has content if it has a prompt, or a call of anything but hardwon. Without content, somebody only asked the
# agent for its version, or only looked at hardwon's data.
HAS_CONTENT_SQL = """(sessions.prompts > 0 or exists (select 1 from events where events.session = sessions.id
    and kind = 'tool' and input not like '{"command": "hardwon %'))"""


@dataclass(frozen=True, slots=True)
class HookCoverage:
    """Counts of a session's events: those that hooks reported, and those that only its transcript did."""

    agent: str
    transcript: str
    hook_events: int
    transcript_events: int


_SELECT_SQL = """
    select sessions.id, host, session, coalesce(projects.name, '') as project,
        coalesce(projects.path, '') as project_path, cwd, transcript, first_prompt, prompts, status, reason,
        started_at, last_at, ended_at, (select count(*) from events where events.session = sessions.id) as events
    from sessions left join projects on projects.id = sessions.project
    """


def describe_status(status: str, last_at: float) -> str:
    """Return a session's status for people: an active one in which nothing has happened for an hour was left."""
    is_left = status == "active" and clock.now() - last_at > _LEFT_SECONDS
    return "left" if is_left else status


def list_sessions(connection: Connection, *, limit: int, project: str = "", status: str = "") -> list[Row]:
    """Return the sessions with content, the latest first."""
    query = f"""
        {_SELECT_SQL} where ?1 in ('', projects.name, projects.path) and ?2 in ('', status) and {HAS_CONTENT_SQL}
        order by last_at desc, sessions.id desc limit ?3
        """
    return fetch_dicts(connection, query, project, status, limit)


def find_by_name(connection: Connection, name: str, agent: str = "") -> list[Row]:
    """Return the sessions with this id, else the one with this number, else those whose id begins so."""
    number = parse_row_number(name)
    query = f"""
        {_SELECT_SQL} where (sessions.id = ?1 or session = ?2 or substr(session, 1, ?3) = ?2) and ?4 in ('', host)
        order by session = ?2 desc, sessions.id = ?1 desc, last_at desc, sessions.id desc limit 20
        """
    sessions = fetch_dicts(connection, query, number, name, len(name), agent)
    with_this_id = [session for session in sessions if session["session"] == name]
    with_this_number = [session for session in sessions if session["id"] == number]
    return with_this_id or with_this_number or sessions


def find_by_session_id(connection: Connection, session: str, agent: str = "") -> list[Row]:
    """Return the sessions to which the agent gave this very id; every agent's if none is named."""
    return fetch_dicts(connection, f"{_SELECT_SQL} where session = ? and ? in ('', host)", session, agent)


def find_by_number(connection: Connection, number: str) -> list[Row]:
    """Return the session of this number, if the text is a number and one has it."""
    return fetch_dicts(connection, f"{_SELECT_SQL} where sessions.id = ?", parse_row_number(number))


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


def list_prompt_rows(connection: Connection, session: int) -> list[Row]:
    """Return the prompts of a session with their numbers and times, in order."""
    return fetch_dicts(connection, "select number, at, prompt from prompts where session = ? order by at, id", session)


def list_events(connection: Connection, session: int) -> list[Row]:
    """Return the events of a session in order, with each call's input parsed."""
    query = """
        select kind, at, prompt, agent, tool, tool_use_id, input, response, outcome, signature, duration, origin
        from events where session = ? order by at, id
        """
    return [row | {"input": parse_json_or_text(row["input"])} for row in fetch_dicts(connection, query, session)]


def list_events_after(connection: Connection, *, after_id: int, limit: int) -> list[Row]:
    """Return the events behind a number, in the order they came in."""
    query = """
        select events.id, host, sessions.session, kind, at, prompt, agent, tool, tool_use_id, input, response, outcome,
            signature, duration
        from events join sessions on sessions.id = events.session where events.id > ? order by events.id limit ?
        """
    rows = fetch_dicts(connection, query, after_id, limit)
    return [row | {"input": parse_json_or_text(row["input"])} for row in rows]


class ChangingCall(NamedTuple):
    """A successful edit, with its file as the subject, or a shell command that names a commit."""

    tool: str
    subject: str
    is_in_last_turn: bool


def list_changing_calls(connection: Connection, agent: str, session: str, since: float) -> list[ChangingCall]:
    """Return a session's edits and commands about commits after a time, without reading their results."""
    # The subject is the first of these fields that the input has; the last column says that no prompt came since.
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


def count_active_minutes(times: Iterable[float]) -> float:
    """Return the minutes between events without the pauses: a session may stay open for days."""
    gaps = (later - earlier for earlier, later in pairwise(sorted(times)))
    return sum(gap for gap in gaps if gap <= _PAUSE_SECONDS) / 60


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
            delete from sessions where not {HAS_CONTENT_SQL} and (to_fill = 0 or to_fill > ?)
            and (last_at < ? or (status = 'completed' and last_at < ?))
            """,
            (MAX_FILL_TRIES, now - ABANDONED_SECONDS, now - ENDED_GRACE_SECONDS),
        ).rowcount


def list_sessions_to_fill(connection: Connection) -> list[Row]:
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
    """Mark a session as complete, unless a turn has ended since the count of tries was read."""
    connection.execute("update sessions set to_fill = 0 where id = ? and to_fill = ?", (session, tries))


def set_transcript(connection: Connection, session: int, path: str) -> None:
    """Set the transcript of a session whose hooks named none."""
    connection.execute("update sessions set transcript = ? where id = ? and transcript = ''", (path, session))


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


def record_set_up_time(connection: Connection, now: float) -> None:
    """Note that hardwon is set up now, unless it was before."""
    connection.execute("insert or ignore into set_up (id, at) values (1, ?)", (now,))


def read_set_up_time(connection: Connection) -> float:
    """Return when hardwon was set up; 0 if it was not recorded, so that every session counts."""
    return float(fetch_value(connection, "select at from set_up") or 0.0)
