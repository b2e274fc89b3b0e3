"""What the viewer's pages ask of the store: pages of rows by key, and counts that an index holds.

No page may cost more because more is stored. So a page of a list goes on behind the last row of the one before, and
what is counted is counted over a stretch of time, in an index that has only what is counted.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hardwon.store.db import Connection, to_storable
from hardwon.store.observations import TITLE_OR_FACT
from hardwon.store.sessions import HAS_CONTENT
from hardwon.types import frozen

_DAY = "strftime('%Y-%m-%d', at, 'unixepoch', 'localtime')"
_PREVIEW_CHARS = 300  # characters of a long text in a list


@frozen
class TimelinePosition:
    """Where a timeline goes on: behind the step of this time, kind and number."""

    at: float = 0.0
    rank: int = 0
    id: int = 0


@frozen
class NewsCursor:
    """The last row that was seen of each table that something new is shown of."""

    prompts: int = 0
    events: int = 0
    injections: int = 0
    observations: int = 0


_SESSION_QUERY = (
    "select found.id, host, session, project, coalesce(projects.name, '') as project_name,"
    f" substr(first_prompt, 1, {_PREVIEW_CHARS}) as first_prompt, prompts, status, started_at, last_at,"
    " (select count(*) from events where events.session = found.id) as events,"
    " (select count(*) from events where events.session = found.id and outcome = 'failed') as failed"
    " from (select * from sessions{where} order by last_at desc, id desc limit ?) as found"
    " left join projects on projects.id = found.project order by last_at desc, found.id desc"
)


def list_session_page(
    connection: Connection,
    *,
    project: int | None = None,
    agent: str = "",
    status: str = "",
    since: float | None = None,
    until: float | None = None,
    before_key: tuple[float, int] | None = None,
    limit: int,
) -> list[dict[str, Any]]:
    """The sessions like that, the latest first, from behind the one with this time and number."""
    conditions: list[tuple[str, Sequence[object]]] = [(HAS_CONTENT, ())]
    if project is not None:
        conditions.append(("project = ?", (project,)))
    if agent:
        conditions.append(("+host = ?", (agent,)))  # by the index of times: that of hosts would read them all
    if status:
        conditions.append(("status = ?", (status,)))
    if since is not None:
        conditions.append(("last_at >= ?", (since,)))
    if until is not None:
        conditions.append(("started_at < ?", (until,)))
    if before_key is not None:
        conditions.append(("(last_at, id) < (?, ?)", before_key))
    where = f" where {' and '.join(condition for condition, _ in conditions)}"
    values = [value for _, condition_values in conditions for value in condition_values]
    rows = connection.execute(_SESSION_QUERY.replace("{where}", where), (*values, limit))
    return [dict(row) for row in rows]


def find_session(connection: Connection, number: int) -> dict[str, Any] | None:
    row = connection.execute(
        "select sessions.id, host, session, project, coalesce(projects.name, '') as project_name,"
        " coalesce(projects.path, '') as project_path, cwd, transcript, first_prompt, prompts, status, reason,"
        " started_at, last_at, ended_at, tokens_in, tokens_out, tokens_cached from sessions"
        " left join projects on projects.id = sessions.project where sessions.id = ?",
        (number,),
    ).fetchone()
    return dict(row) if row else None


def list_timestamps(connection: Connection, session: int) -> list[float]:
    """When something happened in a session."""
    rows = connection.execute(
        "select at from events where session = ?1 union all select at from prompts where session = ?1", (session,)
    )
    return [at for (at,) in rows]


def sum_cost(connection: Connection, session: int) -> dict[str, Any]:
    """What distilling a session took of a model."""
    row = connection.execute(
        "select count(*) as runs, coalesce(sum(tokens_in + tokens_out), 0) as tokens, coalesce(sum(cost), 0.0) as cost"
        " from runs where session = ?",
        (session,),
    ).fetchone()
    return dict(row)


def list_projects(connection: Connection, *, limit: int = 200) -> list[dict[str, Any]]:
    """The projects, those heard of last first."""
    rows = connection.execute(
        "select projects.id, name, path, max(last_at) as last_at from sessions join projects on"
        " projects.id = sessions.project group by projects.id order by last_at desc limit ?",
        (limit,),
    )
    return [dict(row) for row in rows]


def list_agents(connection: Connection) -> list[str]:
    return [host for (host,) in connection.execute("select distinct host from sessions order by host")]


def find_session_number(connection: Connection, session: str, agent: str = "") -> int | None:
    """The number of a session by the host's own id of it, the latest if several hosts gave the same."""
    row = connection.execute(
        "select id from sessions where session = ?1 and ?2 in ('', host) order by last_at desc limit 1",
        (to_storable(session), agent),
    ).fetchone()
    return row["id"] if row else None


def count_undecided(connection: Connection) -> dict[str, int]:
    """How much waits for a person, by where it is kept."""
    waiting_statuses = {"candidates": "candidate", "memories": "candidate", "reflections": "draft"}
    return {
        table: connection.execute(f"select count(*) from {table} where status = ?", (status,)).fetchone()[0]
        for table, status in waiting_statuses.items()
    }


def count_handoffs(connection: Connection) -> dict[tuple[str, str], int]:
    """How many there are of each state in each project."""
    rows = connection.execute("select status, project, count(*) as times from reflections group by status, project")
    return {(row["status"], row["project"]): row["times"] for row in rows}


_STEP_QUERIES = (
    f"select 'prompt' as what, id, at, 0 as rank, number, substr(prompt, 1, {_PREVIEW_CHARS * 20}) as text"
    " from prompts where session = :session and at >= :at and (at, 0, id) > (:at, :rank, :id)",
    "select 'delivery' as what, id, at, 1 as rank, agent, tool, lesson, slug, summary, delivery"
    " from injections where session = :name and host = :host and at >= :at and (at, 1, id) > (:at, :rank, :id)",
    "select 'event' as what, id, at, 2 as rank, kind, agent, tool, substr(input, 1, 6000) as input,"
    " substr(response, 1, 4000) as response, length(input) + length(response) as size, outcome, duration, origin"
    " from events where session = :session and at >= :at and (at, 2, id) > (:at, :rank, :id)",
    f"select 'observation' as what, id, at, 3 as rank, type, {TITLE_OR_FACT} as title, subtitle, narrative, facts,"
    " files_modified, made"
    " from observations where session = :session and at >= :at and (at, 3, id) > (:at, :rank, :id)",
)


def list_timeline_steps(
    connection: Connection, session_row: dict[str, Any], *, position: TimelinePosition, limit: int
) -> list[dict[str, Any]]:
    """The next steps of a session in the order of their times; at the same time what was asked comes first."""
    values = {
        "session": session_row["id"],
        "host": session_row["host"],
        "name": to_storable(session_row["session"]),
        **position.__dict__,
    }
    steps = [
        dict(row)
        for query in _STEP_QUERIES
        for row in connection.execute(f"{query} order by at, id limit :limit", {**values, "limit": limit})
    ]
    return sorted(steps, key=lambda step: (step["at"], step["rank"], step["id"]))[:limit]


def find_event(connection: Connection, session: int, event_id: int) -> dict[str, Any] | None:
    """One event, whole."""
    row = connection.execute("select * from events where session = ? and id = ?", (session, event_id)).fetchone()
    return dict(row) if row else None


def find_session_and_time(connection: Connection, table: str, row_id: int) -> tuple[int, float] | None:
    """The session that a prompt, event, observation or summary belongs to, and its time."""
    row = connection.execute(f"select session, at from {table} where id = ?", (row_id,)).fetchone()
    return (row["session"], row["at"]) if row else None


_NEWS_QUERIES = {
    "prompts": "select 'prompt' as what, prompts.id, prompts.at, host, sessions.id as number,"
    f" coalesce(projects.name, '') as project, substr(prompt, 1, {_PREVIEW_CHARS}) as text, '' as tool, '' as outcome,"
    " '' as slug from prompts join sessions on sessions.id = prompts.session",
    "events": "select 'event' as what, events.id, events.at, host, sessions.id as number,"
    " coalesce(projects.name, '') as project, substr(iif(kind = 'tool', input, response), 1, 2000) as text,"
    " iif(kind = 'tool', tool, kind) as tool, outcome, '' as slug from events join sessions on"
    " sessions.id = events.session",
    "injections": "select 'delivery' as what, injections.id, injections.at, injections.host, sessions.id as number,"
    " coalesce(projects.name, '') as project, summary as text, tool, delivery as outcome, slug from injections"
    " left join sessions on sessions.host = injections.host and sessions.session = injections.session",
    "observations": "select 'observation' as what, observations.id, observations.at, host, sessions.id as number,"
    f" coalesce(projects.name, '') as project, {TITLE_OR_FACT} as text, type as tool, '' as outcome, '' as slug"
    " from observations join sessions on sessions.id = observations.session",
}


def read_news(connection: Connection, *, cursor: NewsCursor, limit: int) -> tuple[list[dict[str, Any]], NewsCursor]:
    """What came last, the latest first, with the marks behind which the next of it will stand."""
    items: list[dict[str, Any]] = []
    last_ids = dict(cursor.__dict__)
    for table, query in _NEWS_QUERIES.items():
        rows = connection.execute(
            f"{query} left join projects on projects.id = sessions.project where {table}.id > ?"
            f" order by {table}.id desc limit ?",
            (last_ids[table], limit),
        ).fetchall()
        items += map(dict, rows)
        last_ids[table] = max([last_ids[table], *(row["id"] for row in rows)])
    items.sort(key=lambda item: (-item["at"], item["what"]))
    return items[:limit], NewsCursor(**last_ids)


def count_failures_by_day(connection: Connection, since: float) -> dict[str, int]:
    rows = connection.execute(
        f"select {_DAY} as day, count(*) from events where outcome = 'failed' and at >= ? group by day", (since,)
    )
    return dict(map(tuple, rows))


def list_repeated_errors(connection: Connection, since: float, *, limit: int) -> list[dict[str, Any]]:
    """The errors that came most often, each with the latest call that met it."""
    rows = connection.execute(
        "select signature, count(*) as times, count(distinct events.session) as sessions, max(at) as at,"
        " max(events.id) as id from events where outcome = 'failed' and at >= ? and signature != ''"
        " group by signature order by times desc, at desc limit ?",
        (since, limit),
    ).fetchall()
    calls = {row["id"]: read_call(connection, row["id"]) for row in rows}
    return [{**dict(row), "call": calls[row["id"]]} for row in rows]


def read_call(connection: Connection, event_id: int) -> dict[str, Any]:
    """One call with what a trigger looks at."""
    row = connection.execute(
        "select events.id, sessions.id as number, host, cwd, tool, input, outcome, at from events"
        " join sessions on sessions.id = events.session where events.id = ?",
        (event_id,),
    ).fetchone()
    return dict(row)


# A brief and what is known of a file or fits a prompt are delivered too: they have ids where a lesson has its slug.
_OF_LESSONS = "lesson != 'brief' and slug not glob '[A-Z][0-9:]*'"


def count_deliveries_by_day(connection: Connection, since: float) -> dict[str, int]:
    """How many lessons were delivered."""
    rows = connection.execute(
        f"select {_DAY} as day, count(*) from injections where at >= ? and {_OF_LESSONS} group by day", (since,)
    )
    return dict(map(tuple, rows))


def list_lesson_deliveries(
    connection: Connection, *, lesson: str = "", since: float = 0.0, before_id: int = 1 << 62, limit: int
) -> list[dict[str, Any]]:
    """Deliveries of this lesson or of any, the latest first, with the session's number if it is still there."""
    rows = connection.execute(
        "select injections.id, event, at, injections.host, injections.session, sessions.id as number, tool, lesson,"
        " slug, summary, delivery, agent from injections left join sessions on sessions.host = injections.host"
        " and sessions.session = injections.session"
        f" where {'lesson = ?' if lesson else f'? is not null and {_OF_LESSONS}'} and injections.id < ? and at >= ?"
        " order by injections.id desc limit ?",
        (lesson, before_id, since, limit),
    )
    return [dict(row) for row in rows]


def count_lesson_by_day(connection: Connection, lesson: str, since: float) -> dict[str, int]:
    rows = connection.execute(
        f"select {_DAY} as day, count(*) from injections where lesson = ? and at >= ? group by day", (lesson, since)
    )
    return dict(map(tuple, rows))


_SAME_CALL_SECONDS = 60.0  # within which a transcript has the denial that a hook gave
_CALL_QUERY = (
    "select id, at, tool, substr(input, 1, 4000) as input, outcome from events where session = ? and kind = 'tool'"
)


def find_denied_call(connection: Connection, session: int, delivery: dict[str, Any]) -> dict[str, Any] | None:
    """The call that was denied with this delivery: by the hook's id of it, else the first denied one since."""
    row = connection.execute(
        f"{_CALL_QUERY} and outcome = 'denied' and (key = ? or (at between ? and ? and tool = ? and agent = ?))"
        " order by key != ?, at, id limit 1",
        (
            session,
            delivery["event"],
            delivery["at"],
            delivery["at"] + _SAME_CALL_SECONDS,
            delivery["tool"],
            delivery["agent"],
            delivery["event"],
        ),
    ).fetchone()
    return dict(row) if row else None


def list_calls_after(
    connection: Connection, session: int, delivery: dict[str, Any], *, limit: int
) -> list[dict[str, Any]]:
    """The calls of the delivery's tool and agent that came after it and were not denied, in their order."""
    rows = connection.execute(
        f"{_CALL_QUERY} and at > ? and outcome != 'denied' and ? in ('', tool) and agent = ? order by at, id limit ?",
        (session, delivery["at"], delivery["tool"], delivery["agent"], limit),
    )
    return [dict(row) for row in rows]


def list_failures_after(connection: Connection, deliveries: Sequence[int], *, limit: int) -> list[dict[str, Any]]:
    """The calls that failed after each of these deliveries in the same session, those after the last ones first."""
    rows = connection.execute(
        "select injections.id as delivery, lesson, events.tool, events.input, cwd, sessions.host from injections"
        " join sessions on sessions.host = injections.host and sessions.session = injections.session"
        " join events on events.session = sessions.id and events.at > injections.at and events.outcome = 'failed'"
        " where injections.id in (select value from json_each(?)) order by injections.id desc, events.at limit ?",
        (json.dumps(list(deliveries)), limit),
    )
    return [dict(row) for row in rows]


def count_sessions_by_project(connection: Connection, since: float, *, limit: int) -> list[tuple[str, int]]:
    rows = connection.execute(
        "select coalesce(name, ''), count(*) as times from sessions"
        f" left join projects on projects.id = sessions.project where last_at >= ? and {HAS_CONTENT}"
        " group by sessions.project"
        " order by times desc limit ?",
        (since, limit),
    )
    return [(name, times) for name, times in rows]


def count_sessions_by_hour(connection: Connection, since: float) -> dict[int, int]:
    rows = connection.execute(
        "select cast(strftime('%H', started_at, 'unixepoch', 'localtime') as integer) as hour, count(*) from sessions"
        f" where last_at >= ? and {HAS_CONTENT} group by hour",
        (since,),
    )
    return dict(map(tuple, rows))


def count_rows(connection: Connection, tables: Sequence[str]) -> dict[str, int]:
    """How many rows these tables have."""
    return {table: connection.execute(f"select count(*) from {table}").fetchone()[0] for table in tables}
