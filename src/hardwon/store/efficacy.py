"""Whether lessons help: firings with their verdicts, changes to how lessons are delivered, ignored denials, anchors.

A firing is a row of `injections`; hooks add those of lessons in force, `insert_past_firings` those found in history.
Once what followed is known, the row gets its verdict. From verdicts follow `lesson_changes`, the log of what was
measured, stepped down or retired, and from both `lesson_states`, which a build of the manifest reads. `anchors` has the
code that a lesson or memory names, as it was when that was approved; `efficacy_values` has single values.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, fields

from hardwon import paths
from hardwon.store.db import (
    Connection,
    Row,
    fetch_dicts,
    fetch_row,
    fetch_value,
    insert_row,
    open_unmigrated,
    parse_row_number,
)
from hardwon.store.events import OF_LESSONS_SQL, WAS_TOLD_SQL
from hardwon.types import Delivery, Event, get_record_key

BEFORE = "before"  # the arm of firings found in history, from before the lesson was approved
_NOT_JUDGED = "none"  # the verdict of what is no firing of a trigger: briefs, recalled records, start lessons
# Changes; `retire` is a proposal, `retired` was done.
MEASURED, UNMEASURED, NOTE, SILENT, RETIRE, RETIRED = "measured", "unmeasured", "note", "silent", "retire", "retired"
BY_HARDWON = "hardwon"
_MIN_MODEL_SESSIONS = 3  # with a firing, before a model is one that is used
_MAX_WINDOW_CALLS = 300  # of a long turn; what follows later is not compared


@dataclass(frozen=True, slots=True)
class LessonState:
    """How the manifest delivers a lesson, beyond what its record says."""

    stepped_down_to: str = ""
    silent_share: float = 0.0


@dataclass(frozen=True, slots=True)
class LessonStates:
    """The states by lesson, and the secret that silent sessions are drawn with."""

    by_lesson: Mapping[str, LessonState]
    secret: str


UNCHANGED_STATE = LessonState()
NO_STATES: Mapping[str, LessonState] = {}


@dataclass(frozen=True, slots=True)
class ModelStart:
    """A model, and the time of its first firing; measuring begins anew with it."""

    model: str = ""
    began_at: float = 0.0


_NO_MODEL = ModelStart()


@dataclass(frozen=True, slots=True)
class Firing:
    """A firing of a lesson's trigger, and what followed it; an empty verdict is not known yet."""

    id: int
    event: str
    at: float
    host: str
    session: str
    subagent_id: str
    tool: str
    lesson: str
    slug: str
    delivery: str
    version: str
    model: str
    arm: str
    probability: float
    verdict: str
    ended: str
    instead: int | None


@dataclass(frozen=True, slots=True)
class FiringContext:
    """What the store has of a firing's session: the calls from the firing on, and whether more can follow."""

    cwd: str
    transcript: str
    last_at: float
    is_ended: bool
    is_turn_over: bool
    awaits_transcript: bool  # which may know calls that no hook reported
    turn: int
    calls: tuple[StoredCall, ...]


@dataclass(frozen=True, slots=True)
class StoredCall:
    """A recorded call with what an outcome is judged by."""

    id: int
    key: str
    at: float
    prompt: int
    tool: str
    tool_use_id: str
    input: str
    outcome: str
    signature: str


@dataclass(frozen=True, slots=True)
class LessonChange:
    """A change to how a lesson is delivered, by hardwon or a person."""

    id: int
    at: float
    lesson: str
    slug: str
    change: str
    reason: str
    path: str
    undone_at: float | None


_DELIVERY_COLUMNS = ", ".join(map(get_record_key, Delivery.__annotations__))
_FIRING_COLUMNS = ", ".join(get_record_key(field.name) for field in fields(Firing))
_CALL_COLUMNS = ", ".join(field.name for field in fields(StoredCall))
_CHANGE_COLUMNS = ", ".join(field.name for field in fields(LessonChange))


def read_lesson_states(home: str) -> LessonStates:
    """Return the states for a build of the manifest; none if the database is missing or not migrated yet."""
    path = os.path.join(home, paths.DATABASE)
    if not os.path.exists(path):
        return LessonStates(by_lesson={}, secret="")
    try:
        with closing(open_unmigrated(path)) as connection:
            return LessonStates(list_lesson_states(connection), get_value(connection, "secret"))
    except sqlite3.DatabaseError:
        return LessonStates(by_lesson={}, secret="")  # every lesson is then delivered as its record says


def list_lesson_states(connection: Connection) -> dict[str, LessonState]:
    """Return the state of each lesson that has one."""
    rows = connection.execute("select lesson, stepped_down_to, silent_share from lesson_states")
    return {lesson: LessonState(stepped_down_to, silent_share) for lesson, stepped_down_to, silent_share in rows}


def replace_lesson_states(connection: Connection, states: Mapping[str, LessonState]) -> None:
    """Store the states within the caller's transaction."""
    connection.execute("delete from lesson_states")
    rows = [(lesson, state.stepped_down_to, state.silent_share) for lesson, state in states.items()]
    connection.executemany("insert into lesson_states values (?, ?, ?)", rows)


def list_unjudged_firings(connection: Connection, limit: int) -> list[Firing]:
    """Return firings whose outcome is not known yet, oldest first; those found in history come last."""
    query = f"""
        select {_FIRING_COLUMNS} from injections
        where verdict = '' and delivery != 'start' and {OF_LESSONS_SQL} order by arm = '{BEFORE}', id limit ?
        """
    return [Firing(*row) for row in connection.execute(query, (limit,))]


def skip_other_deliveries(connection: Connection) -> None:
    """Mark what is no firing of a trigger, within the caller's transaction, so that it is not read again."""
    connection.execute(
        f"update injections set verdict = ? where verdict = '' and (delivery = 'start' or not ({OF_LESSONS_SQL}))",
        (_NOT_JUDGED,),
    )


def list_firings(connection: Connection, lesson: str = "", *, since: float = 0.0) -> list[Firing]:
    """Return the firings of a lesson, or of all, in the order of their times."""
    query = f"""
        select {_FIRING_COLUMNS} from injections where ? in ('', lesson) and at >= ? and verdict != ?
        and delivery != 'start' and {OF_LESSONS_SQL} order by at, id
        """
    return [Firing(*row) for row in connection.execute(query, (lesson, since, _NOT_JUDGED))]


def read_firing_context(connection: Connection, firing: Firing) -> FiringContext | None:
    """Return what followed a firing; None if its session is not recorded."""
    session = connection.execute(
        """
        select id, cwd, transcript, last_at, ended_at, opened_at, to_fill from sessions
        where host = ? and session = ?
        """,
        (firing.host, firing.session),
    ).fetchone()
    if session is None:
        return None
    session_id = session["id"]
    turn = fetch_value(connection, "select count(*) from prompts where session = ? and at <= ?", session_id, firing.at)
    # A later prompt, or the end of the turn or of the session.
    is_turn_over = fetch_value(
        connection,
        """
        select 1 where exists (select 1 from prompts where session = ?1 and at > ?2)
        or exists (select 1 from events where session = ?1 and at >= ?2 and kind in ('Stop', 'SessionEnd')
            and agent = '')
        """,
        session_id,
        firing.at,
    )
    # The call that fired may have an earlier time than the firing, so it is also found by its id.
    calls = connection.execute(
        f"""
        select {_CALL_COLUMNS} from events where session = ? and kind = 'tool' and agent = ?
        and (at >= ? or (tool_use_id != '' and tool_use_id = ?)) order by at, id limit ?
        """,
        (session_id, firing.subagent_id, firing.at, _get_call_id(firing), _MAX_WINDOW_CALLS),
    )
    return FiringContext(
        cwd=session["cwd"],
        transcript=session["transcript"],
        last_at=session["last_at"],
        is_ended=session["ended_at"] is not None and session["ended_at"] >= max(session["opened_at"], firing.at),
        is_turn_over=bool(is_turn_over),
        awaits_transcript=bool(session["to_fill"]),
        turn=turn,
        calls=tuple(StoredCall(*row) for row in calls),
    )


def _get_call_id(firing: Firing) -> str:
    """Return the agent's id of the call that fired; empty if the agent gives none."""
    session, _, call = firing.event.rpartition(":")
    return call if session else ""


def is_firing_call(firing: Firing, call: StoredCall) -> bool:
    """Return whether this is the very call that the trigger fired on."""
    if call.key == firing.event:
        return True
    return call.tool_use_id != "" and call.tool_use_id == _get_call_id(firing)


def save_outcomes(connection: Connection, rows: Iterable[tuple[str, str, int | None, str, int]]) -> None:
    """Store verdict, end, call made instead and model of firings by id, within the caller's transaction."""
    connection.executemany(
        "update injections set verdict = ?, ended = ?, instead = ?, model = iif(model = '', ?, model) where id = ?",
        list(rows),
    )


def find_newest_model(connection: Connection) -> ModelStart:
    """Return the model that came last, and since when.

    A model that was tried for a session or two does not count, and neither does going back to an earlier one: else
    somebody who uses two agents would begin anew with every session.
    """
    query = f"""
        select model, min(at) as began_at from injections where model != '' and arm != '{BEFORE}'
        group by model having count(distinct session) >= {_MIN_MODEL_SESSIONS} order by began_at desc limit 1
        """
    row = connection.execute(query).fetchone()
    if row is None:
        return _NO_MODEL  # no model was used often enough, or no agent names its own
    return ModelStart(row["model"], row["began_at"])


def iter_history(connection: Connection, tools: Sequence[str], *, after_id: int, limit: int) -> Iterator[Row]:
    """Yield recorded calls of these tools after an event, the latest `limit`, each with its session."""
    qmarks = ", ".join("?" * len(tools))
    query = f"""
        select events.id, sessions.host, sessions.session, sessions.cwd, events.key, events.at, events.agent, tool,
            tool_use_id, input
        from events join sessions on sessions.id = events.session
        where events.id > ? and kind = 'tool' and tool in ({qmarks}) order by events.id desc limit ?
        """
    for row in connection.execute(query, (after_id, *tools, limit)):
        yield dict(row)


def find_first_told(connection: Connection, lesson: str) -> float:
    """Return when a lesson was first told; infinity if it never was."""
    first_at = fetch_value(connection, f"select min(at) from injections where lesson = ? and {WAS_TOLD_SQL}", lesson)
    return float("inf") if first_at is None else float(first_at)


def insert_past_firings(connection: Connection, rows: Iterable[Mapping[str, object]]) -> None:
    """Store firings that a replay of history found, within the caller's transaction; known ones stay."""
    for row in rows:
        insert_row(connection, "injections", row, verb="insert or ignore")


def delete_past_firings(connection: Connection, lesson: str) -> None:
    """Delete the firings that a replay of history found for a lesson, within the caller's transaction."""
    connection.execute("delete from injections where lesson = ? and arm = ?", (lesson, BEFORE))


def add_change(
    connection: Connection, lesson: str, slug: str, change: str, *, reason: str, path: str, now: float
) -> None:
    """Record a change within the caller's transaction; a person's own needs no announcement."""
    announced_at = None if path == BY_HARDWON else now
    row = {"at": now, "lesson": lesson, "slug": slug, "change": change, "reason": reason, "path": path}
    insert_row(connection, "lesson_changes", {**row, "announced_at": announced_at})


def list_changes(
    connection: Connection, *, only_live: bool = True, only_unannounced: bool = False
) -> list[LessonChange]:
    """Return the changes, oldest first."""
    query = f"""
        select {_CHANGE_COLUMNS} from lesson_changes where (undone_at is null or not ?)
        and (announced_at is null or not ?) order by id
        """
    return [LessonChange(*row) for row in connection.execute(query, (only_live, only_unannounced))]


def mark_changes_announced(connection: Connection, numbers: Iterable[int], now: float) -> None:
    """Record that these changes were told to the person, within the caller's transaction."""
    rows = [(now, number) for number in numbers]
    connection.executemany("update lesson_changes set announced_at = ? where id = ?", rows)


def undo_changes(connection: Connection, lesson: str, changes: Sequence[str], now: float) -> int:
    """Mark a lesson's live changes of these kinds undone, within the caller's transaction; return how many."""
    qmarks = ", ".join("?" * len(changes))
    query = f"update lesson_changes set undone_at = ? where lesson = ? and undone_at is null and change in ({qmarks})"
    return connection.execute(query, (now, lesson, *changes)).rowcount


def forget_step_down(connection: Connection, lesson: str, now: float) -> None:
    """Deliver a lesson again in the way that its record names, because a person approves it anew.

    Runs within the transaction of that approval.
    """
    undo_changes(connection, lesson, (NOTE, SILENT, RETIRE, RETIRED), now)
    connection.execute("update lesson_states set stepped_down_to = '' where lesson = ?", (lesson,))


def list_ignored_denials(connection: Connection, *, only_unannounced: bool = False, since: float = 0.0) -> list[Row]:
    """Return the denied calls that ran all the same, oldest first, with the transcript of their session."""
    query = """
        select ignored_denials.*, coalesce(transcript, '') as transcript from ignored_denials
        left join sessions on sessions.host = ignored_denials.host and sessions.session = ignored_denials.session
        where at >= ? and (announced_at is null or not ?) order by ignored_denials.id
        """
    return fetch_dicts(connection, query, since, only_unannounced)


def update_ignored_denial(connection: Connection, number: int, version: str, announced_at: float) -> None:
    """Set the agent's version of an ignored denial, and when it was told to the person."""
    connection.execute(
        "update ignored_denials set version = ?, announced_at = ? where id = ?", (version, announced_at, number)
    )


def replace_anchors(
    connection: Connection, kind: str, subject: str, rows: Iterable[tuple[str, str, str, str]], now: float
) -> None:
    """Store the path, symbol, hash and revision of the code that a subject names, within the caller's transaction."""
    connection.execute("delete from anchors where kind = ? and subject = ?", (kind, subject))
    connection.executemany(
        "insert or ignore into anchors values (?, ?, ?, ?, ?, ?, ?)", [(kind, subject, *row, now) for row in rows]
    )


def list_anchors(connection: Connection, kind: str) -> dict[str, list[tuple[str, str, str]]]:
    """Return path, symbol and hash of the code that each subject of a kind names."""
    anchors: dict[str, list[tuple[str, str, str]]] = {}
    rows = connection.execute("select subject, path, symbol, hash from anchors where kind = ?", (kind,))
    for subject, path, symbol, code_hash in rows:
        anchors.setdefault(subject, []).append((path, symbol, code_hash))
    return anchors


def list_anchor_rows(connection: Connection, kind: str) -> list[tuple[str, str, str, str]]:
    """Return subject, path, symbol and revision of every anchor of a kind."""
    query = "select subject, path, symbol, revision from anchors where kind = ?"
    return [tuple(row) for row in connection.execute(query, (kind,)).fetchall()]


def find_call(connection: Connection, name: str) -> Row | None:
    """Return the latest call with this id: `E12`, or the one that its agent gave it."""
    number = parse_row_number(name[1:]) if name[:1] in "Ee" else -1
    query = """
        select id, session, at, agent, tool, input, outcome from events
        where kind = 'tool' and (id = ? or (tool_use_id != '' and tool_use_id = ?)) order by at desc, id desc limit 1
        """
    return fetch_row(connection, query, number, name)


def read_calls(connection: Connection, numbers: Sequence[int]) -> dict[int, Row]:
    """Return these calls by their numbers; those that retention has deleted are missing."""
    query = "select id, tool, input, outcome from events where id in (select value from json_each(?))"
    return {row["id"]: row for row in fetch_dicts(connection, query, json.dumps(list(numbers)))}


def list_told(connection: Connection, host: str, session: str) -> list[Row]:
    """Return everything that a session was told, oldest first."""
    query = f"""
        select at, agent, kind, tool, lesson, slug, summary, delivery from injections
        where host = ? and session = ? and {WAS_TOLD_SQL} order by at, id
        """
    return fetch_dicts(connection, query, host, session)


def list_latest_deliveries(connection: Connection, *, limit: int, after_id: int = 0) -> list[tuple[int, Delivery]]:
    """Return the last deliveries with their numbers, oldest first."""
    rows = connection.execute(
        f"""
        select id, {_DELIVERY_COLUMNS} from injections where id > ? and {WAS_TOLD_SQL} order by id desc limit ?
        """,
        (after_id, limit),
    ).fetchall()
    oldest_first = reversed(rows)
    return [(row_id, Delivery(*values)) for row_id, *values in oldest_first]


def count_by_lesson(connection: Connection) -> dict[str, tuple[int, float]]:
    """Return how often each lesson was delivered, and when last."""
    rows = connection.execute(f"select lesson, count(*), max(at) from injections where {WAS_TOLD_SQL} group by lesson")
    return {lesson: (count, latest) for lesson, count, latest in rows}


def count_requests(connection: Connection, event: Event, slug: str, name: str) -> tuple[int, int]:
    """Return how often an agent was asked for a lesson in the event's session, and about this episode in any."""
    in_session, of_episode = connection.execute(
        """
        select coalesce(sum(host = ? and session = ?), 0), coalesce(sum(lesson = ?), 0) from injections where slug = ?
        """,
        (event.host, event.session, name, slug),
    ).fetchone()
    return in_session, of_episode


def get_value(connection: Connection, name: str) -> str:
    """Return a single value of the ledger; empty if it was never set."""
    return str(fetch_value(connection, "select value from efficacy_values where name = ?", name) or "")


def set_value(connection: Connection, name: str, value: str) -> None:
    connection.execute("insert or replace into efficacy_values values (?, ?)", (name, value))
