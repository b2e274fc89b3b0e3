"""Sessions, their prompts and their events, as hooks and transcripts reported them.

Reports come in any order, some twice, some late from the spool. So nothing here depends on the order of arrival: a
key makes each report count once, and a session's status follows from its times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hardwon import clock
from hardwon.store import deletions, jobs
from hardwon.store.db import Connection, begin_epoch, parse_json_or_text, to_storable, transaction
from hardwon.store.reports import Report as Report
from hardwon.store.reports import is_duplicate_report
from hardwon.types import replace

STATUSES = ("initialized", "active", "completed")
QUIET_SECONDS = 600.0
ABANDONED_SECONDS = 86_400.0  # after which a session without content that nobody ended is over as well
ENDED_GRACE_SECONDS = 3600.0  # for which one that ended stays: what was spooled, or its transcript, may still tell more
# Whether a session has a prompt, or a call of anything but hardwon. One without is no session to people: an agent's
# program was only asked for its version, or somebody only looked at what hardwon knows.
HAS_CONTENT = (
    "(sessions.prompts > 0 or exists (select 1 from events where events.session = sessions.id and kind = 'tool'"
    """ and input not like '{"command": "hardwon %'))"""
)
MAX_FILL_TRIES = 5  # to fill a session; after that its next end of a turn is waited for
_INSTANT = 1e-6
_TRANSCRIPT = "transcript"
_HIDDEN_STATE = '{"hidden":true}'
_OPENING_KINDS = ("SessionStart", "UserPromptSubmit")
_ENDING_KINDS = ("Stop", "SessionEnd")


def store_report(connection: Connection, report: Report, *, live: bool = False) -> bool:
    """Keep a report within the caller's transaction; False if it was known. A live one is the latest of its session,
    whatever the clock says."""
    if _is_stored(connection, report):
        return False
    session = _find_or_create_session(connection, report)
    at = max(report.at, session["last_at"] + _INSTANT) if live else report.at
    if report.origin == "hook" and is_duplicate_report(connection, session["id"], replace(report, at=at)):
        return False
    if report.kind == "UserPromptSubmit":
        is_new = report.prompt != "" and _store_prompt(connection, session["id"], report, at)
    else:
        if report.kind == "Stop" and not report.subagent:
            _delete_transcript_end(connection, session["id"], at)
        is_new = _store_event(connection, session["id"], report, at)
    _update_session(connection, session["id"], report, at)
    if is_new and report.imported_at is not None:
        connection.execute("update sessions set taken_at = ? where id = ?", (report.imported_at, session["id"]))
    _enqueue_distilling(connection, session["id"], report)
    return is_new


def _enqueue_distilling(connection: Connection, session: int, report: Report) -> None:
    """At once when a turn or a session ends; else when it has been quiet for so long that nobody will say so."""
    if report.kind == "SessionStart":
        return
    now = clock.now()
    due_at = min(report.at, now) + (0.0 if report.kind in _ENDING_KINDS else QUIET_SECONDS)
    priority = jobs.HISTORY if report.origin == _TRANSCRIPT else jobs.LIVE
    jobs.enqueue(connection, jobs.DISTIL, session, priority=priority, now=now, due_at=due_at)


def _is_stored(connection: Connection, report: Report) -> bool:
    table = "prompts" if report.kind == "UserPromptSubmit" else "events"
    return connection.execute(f"select 1 from {table} where key = ?", (to_storable(report.key),)).fetchone() is not None


def _find_or_create_session(connection: Connection, report: Report) -> Mapping[str, Any]:
    """The session's row, made if this is the first that is heard of it."""
    session_ref = (report.host, to_storable(report.session))
    query = "select id, last_at from sessions where host = ? and session = ?"
    row: Mapping[str, Any] | None = connection.execute(query, session_ref).fetchone()
    if row is None:
        connection.execute(
            "insert into sessions (host, session, cwd, transcript, first_prompt, prompts, status, reason,"
            " started_at, opened_at, last_at, to_fill) values (?, ?, '', '', '', 0, 'initialized', '', ?, 0, 0, 0)",
            (*session_ref, report.at),
        )
        row = connection.execute(query, session_ref).fetchone()
    assert row is not None
    return row


def _store_prompt(connection: Connection, session: int, report: Report, at: float) -> bool:
    """Keep a prompt unless the other account has it; True if it is new.

    Both know it by the host's name for it. Without one its words decide: what a transcript tells for the second time
    is known if they are there twice, and what a hook tells after a transcript takes that one's place.
    """
    row = (to_storable(report.key), session, at, to_storable(report.prompt), to_storable(report.prompt_name))
    if report.origin != _TRANSCRIPT:
        replaced = connection.execute(
            "update or ignore prompts set key = ?1, at = ?3, name = iif(?5 = '', name, ?5) where id = (select id from"
            " prompts where session = ?2 and prompt = ?4 and instr(key, ':') and (name in ('', ?5) or ?5 = '')"
            " order by name != ?5, abs(at - ?3), id limit 1)",
            row,
        ).rowcount
        if replaced:
            _renumber_prompts(connection, session, 0.0)
            return False
    inserted = connection.execute(
        "insert or ignore into prompts (key, session, number, at, prompt, name) select ?1, ?2, 0, ?3, ?4, ?5"
        " where ?6 = 0 or (select count(*) from prompts where session = ?2 and prompt = ?4 and (?5 = '' or name = ''))"
        " < ?6",
        (*row, report.times if report.origin == _TRANSCRIPT else 0),
    ).rowcount
    if inserted:
        _renumber_prompts(connection, session, at)
    return bool(inserted)


def _renumber_prompts(connection: Connection, session: int, since: float) -> None:
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


# A hook's word counts more than a transcript's. That a call was denied is only what we asked for: agents that go on all
# the same tell of a result, and then that counts, whoever tells it and in whichever order the two come.
_RAN = "('fine', 'failed', 'interrupted')"
_DENIED_THOUGH_IT_RAN = f"(excluded.outcome = 'denied' and outcome in {_RAN})"
_BETTER = (
    f"((excluded.origin = 'hook' and origin != 'hook' and not {_DENIED_THOUGH_IT_RAN})"
    f" or (outcome = 'denied' and excluded.outcome in {_RAN}))"
)


def _store_event(connection: Connection, session: int, report: Report, at: float) -> bool:
    """What is told again of a call fills in what the first report had not; a hook's word counts more.

    Some hosts use a call's name again in a later turn: within a transcript another id is another call.
    """
    existing = connection.execute(
        "select origin from events where tool_use_id != '' and session = ? and tool_use_id = ? and kind = ?",
        (session, to_storable(report.tool_use_id), report.kind),
    ).fetchone()
    if existing and report.origin == existing["origin"] == _TRANSCRIPT:
        report, existing = replace(report, tool_use_id=report.key), None
    connection.execute(
        "insert into events (key, session, kind, at, prompt, agent, tool, tool_use_id, input, response, outcome,"
        " signature, duration, origin, taken_at) values (?, ?, ?, ?,"
        " (select count(*) from prompts where session = ? and at <= ?), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " on conflict (session, tool_use_id, kind) where tool_use_id != '' do update set"
        f" at = iif({_BETTER}, excluded.at, at), prompt = iif({_BETTER}, excluded.prompt, prompt),"
        f" input = iif(input in ('', 'null') or ({_BETTER} and excluded.input != ''), excluded.input, input),"
        f" response = iif(response = '' or ({_BETTER} and excluded.response != ''), excluded.response, response),"
        f" outcome = iif(outcome = '' or {_BETTER}, excluded.outcome, outcome),"
        f" signature = iif(signature = '' or {_BETTER}, excluded.signature, signature),"
        f" duration = iif({_BETTER}, coalesce(excluded.duration, duration), coalesce(duration, excluded.duration)),"
        f" key = iif(excluded.origin = 'hook' and not {_DENIED_THOUGH_IT_RAN}, excluded.key, key),"
        " origin = iif(excluded.origin = 'hook', 'hook', origin)",
        (
            to_storable(report.key),
            session,
            report.kind,
            at,
            session,
            at,
            to_storable(report.subagent),
            to_storable(report.tool),
            to_storable(report.tool_use_id),
            to_storable(report.input),
            to_storable(report.response),
            report.outcome,
            to_storable(report.signature),
            report.duration,
            report.origin,
            report.imported_at,
        ),
    )
    return existing is None


# As a session's row has them after a report.
_PROMPTS = "(select count(*) from prompts where prompts.session = sessions.id)"
_OPENED = "max(opened_at, ?5)"
_ENDED = "iif(?6 is null, ended_at, max(coalesce(ended_at, 0), ?6))"


def _update_session(connection: Connection, session: int, report: Report, at: float) -> None:
    """The session's row after this report: its status follows from when it was opened, prompted and ended last."""
    opened_at = at if report.kind in _OPENING_KINDS else 0.0
    ended_at = at if report.kind == "SessionEnd" else None
    transcript = "" if report.subagent and report.origin == "transcript" else report.transcript  # not a sub-agent's own
    connection.execute(
        "update sessions set"
        " cwd = iif(cwd = '' or (?1 < started_at and ?2 != ''), ?2, cwd),"
        " project = iif(project is null or (?1 < started_at and ?3 is not null), ?3, project),"
        " transcript = iif(transcript = '' or (?4 != '' and ?1 >= last_at), ?4, transcript),"
        f" prompts = {_PROMPTS},"
        " first_prompt = coalesce((select prompt from prompts where prompts.session = sessions.id"
        "   order by at, id limit 1), ''),"
        f" started_at = min(started_at, ?1), last_at = max(last_at, ?1), opened_at = {_OPENED}, ended_at = {_ENDED},"
        " reason = iif(?6 is not null and ?6 >= coalesce(ended_at, 0), ?7, reason),"
        f" status = iif({_ENDED} >= {_OPENED}, 'completed', iif({_PROMPTS} > 0, 'active', 'initialized')),"
        " to_fill = iif(?8, 1, to_fill) where id = ?9",
        (
            at,
            to_storable(report.cwd),
            report.project,
            to_storable(transcript),
            opened_at,
            ended_at,
            to_storable(report.reason),
            report.kind in _ENDING_KINDS and report.origin == "hook",
            session,
        ),
    )


def list_sessions(connection: Connection, *, limit: int, project: str = "", status: str = "") -> list[dict[str, Any]]:
    """The sessions, the latest first."""
    rows = connection.execute(
        f"{_SELECT} where (? = '' or projects.name = ? or projects.path = ?) and (? = '' or status = ?)"
        f" and {HAS_CONTENT} order by last_at desc limit ?",
        (project, project, project, status, status, limit),
    )
    return [dict(row) for row in rows]


def find_cwd_by_session_id(connection: Connection, agent: str, session: str) -> str:
    """Return the folder a session worked in, by the agent's id; empty if it is not recorded."""
    row = connection.execute(
        "select cwd from sessions where host = ? and session = ?", (agent, to_storable(session))
    ).fetchone()
    return str(row["cwd"]) if row else ""


def list_prompt_texts(connection: Connection, session: int) -> list[str]:
    """Return what was asked in a session, in order."""
    rows = connection.execute("select prompt from prompts where session = ? order by at, id", (session,))
    return [text for (text,) in rows]


def list_transcript_paths(connection: Connection) -> list[str]:
    """The transcripts that hooks told of."""
    return [row[0] for row in connection.execute("select transcript from sessions where transcript != ''")]


def find_by_name(connection: Connection, name: str, agent: str = "") -> list[dict[str, Any]]:
    """The sessions whose own id is this, else the one whose number is, else those whose id begins so."""
    number = int(name) if name.isascii() and name.isdigit() and len(name) < 10 else -1
    rows = connection.execute(
        f"{_SELECT} where (sessions.id = ?1 or session = ?2 or substr(session, 1, ?3) = ?2) and ?4 in ('', host)"
        " order by session = ?2 desc, sessions.id = ?1 desc, last_at desc limit 20",
        (number, name, len(name), agent),
    ).fetchall()
    sessions = [dict(row) for row in rows]
    return (
        [session for session in sessions if session["session"] == name]
        or [session for session in sessions if session["id"] == number]
        or sessions
    )


def find_by_session_id(connection: Connection, session: str, agent: str = "") -> list[dict[str, Any]]:
    """Return the sessions to which the agent gave this very id; every agent's if none is named."""
    rows = connection.execute(f"{_SELECT} where session = ? and ? in ('', host)", (to_storable(session), agent))
    return [dict(row) for row in rows]


def find_by_number(connection: Connection, number: str) -> list[dict[str, Any]]:
    """Return the session of this number, if the text is a number and one has it."""
    if not number.isascii() or not number.isdigit() or len(number) > 9:
        return []
    return [dict(row) for row in connection.execute(f"{_SELECT} where sessions.id = ?", (int(number),))]


_SELECT = (
    "select sessions.id, host, session, coalesce(projects.name, '') as project, coalesce(projects.path, '') as"
    " project_path, cwd, transcript, first_prompt, prompts, status, reason, started_at, last_at, ended_at,"
    " (select count(*) from events where events.session = sessions.id) as events"
    " from sessions left join projects on projects.id = sessions.project"
)


def list_prompt_rows(connection: Connection, session: int) -> list[dict[str, Any]]:
    rows = connection.execute("select number, at, prompt from prompts where session = ? order by at, id", (session,))
    return [dict(row) for row in rows]


def list_events(connection: Connection, session: int) -> list[dict[str, Any]]:
    rows = connection.execute(
        "select kind, at, prompt, agent, tool, tool_use_id, input, response, outcome, signature, duration, origin"
        " from events where session = ? order by at, id",
        (session,),
    )
    return [{**dict(row), "input": parse_json_or_text(row["input"])} for row in rows]


def count_recorded(connection: Connection) -> dict[str, int]:
    """How many sessions, prompts and events there are."""
    row = connection.execute(
        f"select (select count(*) from sessions where {HAS_CONTENT}) as sessions,"
        " (select count(*) from prompts) as prompts,"
        " (select count(*) from events) as events"
    ).fetchone()
    return dict(row)


def get_cwd(connection: Connection, session: int) -> str:
    row = connection.execute("select cwd from sessions where id = ?", (session,)).fetchone()
    return row["cwd"] if row else ""


def get_transcript_path(connection: Connection, session: int) -> str:
    row = connection.execute("select transcript from sessions where id = ?", (session,)).fetchone()
    return row["transcript"] if row else ""


def get_project_path(connection: Connection, session: int) -> str:
    """The folder of the project that a session belongs to; empty if there is none."""
    row = connection.execute(
        "select path from sessions join projects on projects.id = sessions.project where sessions.id = ?", (session,)
    ).fetchone()
    return row["path"] if row else ""


def list_session_deliveries(connection: Connection, agent: str, session: str) -> list[dict[str, Any]]:
    rows = connection.execute(
        "select at, agent, kind, tool, lesson, slug, summary, delivery from injections where host = ? and session = ?"
        " order by at, id",
        (agent, to_storable(session)),
    )
    return [dict(row) for row in rows]


def delete(connection: Connection, session: int) -> int:
    """Delete a session with its prompts, events and deliveries; gives how many deliveries there were.

    How far its transcripts were read stays, so that it does not come back, but nothing of what was under way in them;
    and as that may have been private, nothing more comes in before the next prompt.
    """
    connection.execute("pragma secure_delete = on")
    with transaction(connection):
        counts = {
            table: connection.execute(f"select count(*) from {table} where session = ?", (session,)).fetchone()[0]
            for table in ("prompts", "events", "observations", "summaries")
        }
        row = connection.execute("delete from sessions where id = ? returning host, session", (session,)).fetchone()
        if row is None:
            return 0
        now = clock.now()
        deletions.record(connection, deletions.SESSIONS_DELETE, deletions.SESSION, {"sessions": 1, **counts}, now)
        deletions.bury(connection, deletions.SESSION, [row["session"]], now)
        begin_epoch(connection)
        connection.execute(
            "update transcripts set reader = '', watch = ? where purpose = 'capture' and host = ? and watch != ''"
            " and json_extract(watch, '$.session') = ?",
            (_HIDDEN_STATE, *row),
        )
        return connection.execute("delete from injections where host = ? and session = ?", tuple(row)).rowcount


def add_tokens(
    connection: Connection, agent: str, session: str, tokens_in: int, tokens_out: int, tokens_cached: int
) -> None:
    """Add what a transcript counts of a session's tokens, within the caller's transaction."""
    connection.execute(
        "update sessions set tokens_in = coalesce(tokens_in, 0) + ?, tokens_out = coalesce(tokens_out, 0) + ?,"
        " tokens_cached = coalesce(tokens_cached, 0) + ? where host = ? and session = ?",
        (tokens_in, tokens_out, tokens_cached, agent, to_storable(session)),
    )


def delete_empty_sessions(connection: Connection, now: float) -> int:
    """Delete the sessions that are over and have neither a prompt nor a call; return how many there were."""
    with transaction(connection):
        return connection.execute(
            f"delete from sessions where not {HAS_CONTENT} and (to_fill = 0 or to_fill > ?)"
            " and (last_at < ? or (status = 'completed' and last_at < ?))",
            (MAX_FILL_TRIES, now - ABANDONED_SECONDS, now - ENDED_GRACE_SECONDS),
        ).rowcount


def list_sessions_to_fill(connection: Connection) -> list[dict[str, Any]]:
    """The sessions whose transcript may know more than the hooks told, those tried least first."""
    rows = connection.execute(
        "select id, host, session, cwd, transcript from sessions where to_fill and to_fill <= ? order by to_fill, id",
        (MAX_FILL_TRIES,),
    )
    return [dict(row) for row in rows]


def begin_fill(connection: Connection, session: int) -> int:
    """Count a try, within the caller's transaction; an end of a turn that comes meanwhile sets it back to 1."""
    row = connection.execute(
        "update sessions set to_fill = to_fill + 1 where id = ? returning to_fill", (session,)
    ).fetchone()
    return int(row["to_fill"]) if row else 0


def set_transcript(connection: Connection, session: int, path: str) -> None:
    """Where a session that does not say so is written down."""
    connection.execute(
        "update sessions set transcript = ? where id = ? and transcript = ''", (to_storable(path), session)
    )


def finish_fill(connection: Connection, session: int, tries: int) -> None:
    connection.execute("update sessions set to_fill = 0 where id = ? and to_fill = ?", (session, tries))


def store_last_words(
    connection: Connection, agent: str, session: str, text: str, *, since: float, until: float
) -> None:
    """What the agent said last in a turn, for the end of it if that did not tell, or in place of one that no hook told;
    within the caller's transaction."""
    row = connection.execute(
        "select id from sessions where host = ? and session = ?", (agent, to_storable(session))
    ).fetchone()
    if row is None:
        return
    key = f"{agent}:{session}:{since}"
    event = connection.execute(
        "select id, response, origin from events where key = ?4 or (session = ?1 and kind = 'Stop' and agent = ''"
        " and at < ?3 and (at >= ?2 or (origin = 'transcript' and prompt = (select count(*) from prompts where"
        " session = ?1 and at <= ?2)))) order by origin = 'transcript', at, id limit 1",
        (row["id"], since, until, to_storable(key)),
    ).fetchone()
    if event is None:
        report = Report(key, agent, session, "Stop", since, response=text, origin=_TRANSCRIPT, imported_at=clock.now())
        _store_event(connection, row["id"], report, since)
    elif event["origin"] == _TRANSCRIPT:
        values = (to_storable(text), since, event["id"])
        connection.execute("update events set response = ?, at = ? where id = ?", values)
    elif event["response"] == "":
        connection.execute("update events set response = ? where id = ?", (to_storable(text), event["id"]))
    _enqueue_distilling(connection, row["id"], Report("", agent, session, "Stop", since, origin=_TRANSCRIPT))


def _delete_transcript_end(connection: Connection, session: int, at: float) -> None:
    """A hook tells the end of a turn: it takes the place of what a transcript told of it."""
    connection.execute(
        "delete from events where session = ?1 and kind = 'Stop' and agent = '' and origin = 'transcript'"
        " and prompt = (select count(*) from prompts where session = ?1 and at <= ?2)",
        (session, at),
    )


def list_idle_sessions(connection: Connection, idle_since: float) -> list[tuple[int, str]]:
    """The sessions that nobody ended and that have been quiet since, with their transcripts."""
    rows = connection.execute(
        "select id, transcript from sessions where status != 'completed' and last_at < ? and transcript != ''",
        (idle_since,),
    )
    return [(row["id"], row["transcript"]) for row in rows]


def mark_completed(connection: Connection, numbers: Iterable[int]) -> None:
    """Count sessions as ended when they were last heard of."""
    with transaction(connection):
        connection.executemany(
            "update sessions set status = 'completed', ended_at = max(last_at, opened_at) where id = ?",
            [(number,) for number in numbers],
        )


def list_events_after(connection: Connection, *, after_id: int, limit: int) -> list[dict[str, Any]]:
    """Events in the order they came in, behind a number."""
    rows = connection.execute(
        "select events.id, host, sessions.session, kind, at, prompt, agent, tool, tool_use_id, input, response,"
        " outcome, signature, duration from events join sessions on sessions.id = events.session where events.id > ?"
        " order by events.id limit ?",
        (after_id, limit),
    )
    return [{**dict(row), "input": parse_json_or_text(row["input"])} for row in rows]
