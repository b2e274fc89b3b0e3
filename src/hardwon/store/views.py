"""Queries of the viewer: pages of rows by key, and counts.

The cost of a page must not grow with the database. So each page of a list continues after the last row of the previous
one, and counts cover a time span and use an index of only the counted rows.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from hardwon.store.db import Connection, Row, fetch_column, fetch_dicts, fetch_row, fetch_value
from hardwon.store.events import OF_LESSONS_SQL, WAS_TOLD_SQL
from hardwon.store.observations import TITLE_OR_FACT_SQL
from hardwon.store.sessions import HAS_CONTENT_SQL
from hardwon.types import EDIT_TOOLS, frozen

_DAY = "strftime('%Y-%m-%d', at, 'unixepoch', 'localtime')"
_PREVIEW_CHARS = 300  # characters of a long text in a list


@frozen
class TimelinePosition:
    """The step after which a timeline continues: its time, the rank of its kind, its number."""

    at: float = 0.0
    rank: int = 0
    id: int = 0


@frozen
class NewsCursor:
    """The last row seen of each table that live updates are read from."""

    prompts: int = 0
    events: int = 0
    injections: int = 0
    observations: int = 0


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
) -> list[Row]:
    """Return the sessions that match, the latest first, from behind the one with this time and number."""
    conditions = [HAS_CONTENT_SQL]
    values: list[object] = []
    if project is not None:
        conditions.append("project = ?")
        values.append(project)
    if agent:
        # The plus makes SQLite use the index by time; the one by host would read all rows.
        conditions.append("+host = ?")
        values.append(agent)
    if status:
        conditions.append("status = ?")
        values.append(status)
    if since is not None:
        conditions.append("last_at >= ?")
        values.append(since)
    if until is not None:
        conditions.append("started_at < ?")
        values.append(until)
    if before_key is not None:
        conditions.append("(last_at, id) < (?, ?)")
        values += before_key
    # The inner select takes the page of sessions; what is counted and looked up beside them is so for this page alone.
    query = f"""
        select found.id, host, found.session, project, coalesce(projects.name, '') as project_name,
            substr(first_prompt, 1, {_PREVIEW_CHARS}) as first_prompt, prompts, status, started_at, last_at,
            (select count(*) from events where events.session = found.id) as events,
            (select count(*) from events where events.session = found.id and outcome = 'failed') as failed,
            substr(coalesce(summaries.request, ''), 1, {_PREVIEW_CHARS}) as request,
            substr(coalesce(summaries.completed, ''), 1, {_PREVIEW_CHARS}) as completed,
            substr(coalesce(summaries.next_steps, ''), 1, {_PREVIEW_CHARS}) as next_steps
        from (select * from sessions where {" and ".join(conditions)} order by last_at desc, id desc limit ?) as found
        left join projects on projects.id = found.project
        left join summaries on summaries.id =
            (select id from summaries where summaries.session = found.id order by at desc, id desc limit 1)
        order by last_at desc, found.id desc
        """
    return fetch_dicts(connection, query, *values, limit)


def find_session(connection: Connection, number: int) -> Row | None:
    """Return a session for its page in the viewer; None if it was deleted."""
    query = """
        select sessions.id, host, session, project, coalesce(projects.name, '') as project_name,
            coalesce(projects.path, '') as project_path, cwd, transcript, first_prompt, prompts, status, reason,
            started_at, last_at, ended_at, tokens_in, tokens_out, tokens_cached
        from sessions left join projects on projects.id = sessions.project where sessions.id = ?
        """
    return fetch_row(connection, query, number)


def list_timestamps(connection: Connection, session: int) -> list[float]:
    """Return when something happened in a session."""
    query = "select at from events where session = ?1 union all select at from prompts where session = ?1"
    return fetch_column(connection, query, session)


def sum_cost(connection: Connection, session: int) -> Row:
    """Return the cost of distilling a session with a model."""
    query = """
        select count(*) as runs, coalesce(sum(tokens_in + tokens_out), 0) as tokens, coalesce(sum(cost), 0.0) as cost
        from runs where session = ?
        """
    return fetch_dicts(connection, query, session)[0]


def list_projects(connection: Connection, *, limit: int = 200) -> list[Row]:
    """Return the projects, the last active first."""
    query = """
        select projects.id, name, path, max(last_at) as last_at from sessions
        join projects on projects.id = sessions.project group by projects.id order by last_at desc limit ?
        """
    return fetch_dicts(connection, query, limit)


def list_agents(connection: Connection) -> list[str]:
    """Return the agents that sessions were recorded of."""
    return fetch_column(connection, "select distinct host from sessions order by host")


def find_session_number(connection: Connection, session: str, agent: str = "") -> int | None:
    """Return the number of a session by the agent's id of it, the latest if several agents gave the same."""
    query = "select id from sessions where session = ?1 and ?2 in ('', host) order by last_at desc, id desc limit 1"
    number: int | None = fetch_value(connection, query, session, agent)
    return number


def count_undecided(connection: Connection) -> dict[str, int]:
    """Return how much waits for a person's decision, by table."""
    waiting_statuses = {"candidates": "candidate", "memories": "candidate", "reflections": "draft"}
    return {
        table: fetch_value(connection, f"select count(*) from {table} where status = ?", status)
        for table, status in waiting_statuses.items()
    }


def count_handoffs(connection: Connection) -> dict[tuple[str, str], int]:
    """Return how many handoffs there are of each status in each project."""
    rows = connection.execute("select status, project, count(*) as times from reflections group by status, project")
    return {(row["status"], row["project"]): row["times"] for row in rows}


# An observation is stored with the time of the first call that it sums up, and stands after the last one.
_OBSERVATION_END_SQL = """
    max(at, coalesce(
        (select max(summed_up.at) from json_each(observations.events)
        join events as summed_up on summed_up.key = json_each.value), 0.0))
    """
# At equal times the order is prompt, delivery, event, observation.
_STEP_QUERIES = (
    f"""
    select 'prompt' as what, id, at, 0 as rank, number, substr(prompt, 1, {_PREVIEW_CHARS * 20}) as text
    from prompts where session = :session and at >= :at and (at, 0, id) > (:at, :rank, :id)
    """,
    f"""
    select 'delivery' as what, id, at, 1 as rank, agent, tool, lesson, slug, summary, delivery
    from injections where session = :name and host = :host and {WAS_TOLD_SQL} and at >= :at
        and (at, 1, id) > (:at, :rank, :id)
    """,
    """
    select 'event' as what, id, at, 2 as rank, kind, agent, tool, substr(input, 1, 6000) as input,
        substr(response, 1, 4000) as response, length(input) + length(response) as size, outcome, duration, origin
    from events where session = :session and at >= :at and (at, 2, id) > (:at, :rank, :id)
        and case :filter
            when 'messages' then kind != 'tool' and response != ''
            when 'failures' then outcome in ('failed', 'denied')
            when 'changes' then tool in (select value from json_each(:edit_tools)) and outcome = 'fine'
            else true end
    """,
    f"""
    select * from (
        select 'observation' as what, id, {_OBSERVATION_END_SQL} as at, 3 as rank, type, {TITLE_OR_FACT_SQL} as title,
            subtitle,
            narrative, facts, files_modified, made
        from observations where session = :session)
    where (at, 3, id) > (:at, :rank, :id)
    """,
)


def list_timeline_steps(
    connection: Connection,
    session_row: Row,
    *,
    position: TimelinePosition,
    limit: int,
    event_filter: str = "",
) -> list[Row]:
    """Return the next steps of a session in the order of their times.

    `event_filter` keeps only messages, failures or changes among the events; prompts are always there.
    """
    values = {
        "session": session_row["id"],
        "host": session_row["host"],
        "name": session_row["session"],
        "limit": limit,
        "filter": event_filter,
        "edit_tools": json.dumps(EDIT_TOOLS),
        **position.__dict__,
    }
    # Each kind may fill the whole page, so up to `limit` of each are read, and the earliest of all are taken.
    steps: list[Row] = []
    for query in _STEP_QUERIES:
        steps += map(dict, connection.execute(f"{query} order by at, id limit :limit", values))
    steps.sort(key=lambda step: (step["at"], step["rank"], step["id"]))
    return steps[:limit]


def find_event(connection: Connection, session: int, event_id: int) -> Row | None:
    """Return one event, whole."""
    return fetch_row(connection, "select * from events where session = ? and id = ?", session, event_id)


def find_session_and_time(connection: Connection, table: str, row_id: int) -> tuple[int, float] | None:
    """Return the session of a prompt, event, observation or summary, and where it stands in the timeline."""
    at = _OBSERVATION_END_SQL if table == "observations" else "at"
    row = connection.execute(f"select session, {at} as at from {table} where id = ?", (row_id,)).fetchone()
    return (row["session"], row["at"]) if row else None


_NEWS_SESSION_SQL = """
    sessions.id as number, coalesce(projects.name, '') as project, coalesce(projects.path, '') as folder"""
_NEWS_QUERIES = {
    "prompts": f"""
        select 'prompt' as what, prompts.id, prompts.at, host, {_NEWS_SESSION_SQL},
            substr(prompt, 1, {_PREVIEW_CHARS}) as text, '' as tool, '' as outcome, '' as slug
        from prompts join sessions on sessions.id = prompts.session
        """,
    "events": f"""
        select 'event' as what, events.id, events.at, host, {_NEWS_SESSION_SQL},
            substr(iif(kind = 'tool', input, response), 1, 2000) as text,
            iif(kind = 'tool', tool, kind) as tool, outcome, '' as slug
        from events join sessions on sessions.id = events.session
        """,
    "injections": f"""
        select 'delivery' as what, injections.id, injections.at, injections.host, {_NEWS_SESSION_SQL}, summary as text,
            tool, delivery as outcome, slug
        from (select * from injections where {WAS_TOLD_SQL}) as injections
        left join sessions on sessions.host = injections.host and sessions.session = injections.session
        """,
    "observations": f"""
        select 'observation' as what, observations.id, observations.at, host, {_NEWS_SESSION_SQL},
            {TITLE_OR_FACT_SQL} as text,
            type as tool, '' as outcome, '' as slug
        from observations join sessions on sessions.id = observations.session
        """,
}


def read_news(connection: Connection, *, cursor: NewsCursor, limit: int) -> tuple[list[Row], NewsCursor]:
    """Return the rows since the cursor, latest first, and the cursor after them."""
    items: list[Row] = []
    last_ids = dict(cursor.__dict__)
    for table, query in _NEWS_QUERIES.items():
        newer = f"left join projects on projects.id = sessions.project where {table}.id > ? order by {table}.id desc"
        rows = fetch_dicts(connection, f"{query} {newer} limit ?", last_ids[table], limit)
        items += rows
        last_ids[table] = max([last_ids[table], *(row["id"] for row in rows)])
    items.sort(key=lambda item: (-item["at"], item["what"]))
    return items[:limit], NewsCursor(**last_ids)


def count_activity(connection: Connection, since: float) -> dict[str, int]:
    """Return how many sessions, calls and failed calls there were since a time."""
    query = f"""
        select (select count(*) from sessions where last_at >= ?1 and {HAS_CONTENT_SQL}) as sessions,
            count(*) as calls, count(*) filter (where outcome = 'failed') as failed
        from events where at >= ?1 and kind = 'tool'
        """
    return fetch_dicts(connection, query, since)[0]


def find_first_event_time(connection: Connection) -> float | None:
    """Return when the oldest event was; None if there is none."""
    first_at: float | None = fetch_value(connection, "select min(at) from events where at > 0")
    return first_at


def count_failures_by_day(connection: Connection, since: float) -> dict[str, int]:
    """Return how many calls failed on each day since a time, days without any left out."""
    return _count_by_day(connection, "events", "outcome = 'failed' and at >= ?", since)


def _count_by_day(connection: Connection, table: str, condition: str, *values: object) -> dict[str, int]:
    """Return how many rows meet a condition on each day, by the person's clock."""
    query = f"select {_DAY} as day, count(*) from {table} where {condition} group by day"
    return dict(map(tuple, connection.execute(query, values)))


def list_repeated_errors(connection: Connection, since: float, *, limit: int) -> list[Row]:
    """Return the errors that came most often, each with the latest call that met it."""
    query = """
        select signature, count(*) as times, count(distinct events.session) as sessions, max(at) as at,
            max(events.id) as id
        from events where outcome = 'failed' and at >= ? and signature != ''
        group by signature having count(*) > 1 order by times desc, at desc limit ?
        """
    rows = fetch_dicts(connection, query, since, limit)
    return [row | {"call": read_call(connection, row["id"])} for row in rows]


def read_call(connection: Connection, event_id: int) -> Row | None:
    """Return one call with what a trigger looks at, and its result."""
    query = """
        select events.id, sessions.id as number, host, cwd, tool, input, response, outcome, at from events
        join sessions on sessions.id = events.session where events.id = ?
        """
    return fetch_row(connection, query, event_id)


_TOLD_LESSONS = f"{OF_LESSONS_SQL} and {WAS_TOLD_SQL}"


def count_deliveries_by_day(connection: Connection, since: float) -> dict[str, int]:
    """Return how many lessons were delivered."""
    return _count_by_day(connection, "injections", f"at >= ? and {_TOLD_LESSONS}", since)


def list_lesson_deliveries(
    connection: Connection, *, lesson: str = "", since: float = 0.0, before_id: int = 1 << 62, limit: int
) -> list[Row]:
    """Return the deliveries of this lesson or of any, the latest first, with the session's number if it is there."""
    # Of any lesson: briefs and recalled records are deliveries, too.
    condition = f"?1 = '' and {_TOLD_LESSONS}"
    if lesson:
        condition = f"lesson = ?1 and {WAS_TOLD_SQL}"
    query = f"""
        select injections.id, event, at, injections.host, injections.session, sessions.id as number, tool, lesson,
            slug, summary, delivery, agent
        from injections
        left join sessions on sessions.host = injections.host and sessions.session = injections.session
        where {condition} and injections.id < ?2 and at >= ?3 order by injections.id desc limit ?4
        """
    return fetch_dicts(connection, query, lesson, before_id, since, limit)


def count_lesson_by_day(connection: Connection, lesson: str, since: float) -> dict[str, int]:
    """Return how often a lesson was told on each day since a time."""
    return _count_by_day(connection, "injections", f"lesson = ? and at >= ? and {WAS_TOLD_SQL}", lesson, since)


_SAME_CALL_SECONDS = 60.0  # within which a hook's denial appears in the transcript
_CALL_QUERY = """
    select id, at, tool, substr(input, 1, 4000) as input, outcome from events
    where session = ?1 and kind = 'tool'
    """


def find_denied_call(connection: Connection, session: int, delivery: Row) -> Row | None:
    """Return the call that was denied with this delivery: by the hook's id of it, else the first denied one since."""
    query = f"""
        {_CALL_QUERY} and outcome = 'denied' and (key = ?2 or (at between ?3 and ?4 and tool = ?5 and agent = ?6))
        order by key != ?2, at, id limit 1
        """
    at = delivery["at"]
    values = (session, delivery["event"], at, at + _SAME_CALL_SECONDS, delivery["tool"], delivery["agent"])
    return fetch_row(connection, query, *values)


def list_calls_after(connection: Connection, session: int, delivery: Row, *, limit: int) -> list[Row]:
    """Return the calls of the delivery's tool and agent that came after it and were not denied, in their order."""
    query = f"""
        {_CALL_QUERY} and at > ?2 and outcome != 'denied' and ?3 in ('', tool) and agent = ?4
        order by at, id limit ?5
        """
    return fetch_dicts(connection, query, session, delivery["at"], delivery["tool"], delivery["agent"], limit)


def list_failures_after(connection: Connection, deliveries: Sequence[int], *, limit: int) -> list[Row]:
    """Return the calls that failed after each of these deliveries in the same session, after the last ones first."""
    query = """
        select injections.id as delivery, lesson, events.tool, events.input, cwd, sessions.host from injections
        join sessions on sessions.host = injections.host and sessions.session = injections.session
        join events on events.session = sessions.id and events.at > injections.at and events.outcome = 'failed'
        where injections.id in (select value from json_each(?)) order by injections.id desc, events.at limit ?
        """
    return fetch_dicts(connection, query, json.dumps(list(deliveries)), limit)


def count_sessions_by_project(connection: Connection, since: float, *, limit: int) -> list[tuple[str, int]]:
    """Return the paths of the projects with the most sessions, and how many they had."""
    rows = connection.execute(
        f"""
        select coalesce(path, ''), count(*) as times from sessions
        left join projects on projects.id = sessions.project where last_at >= ? and {HAS_CONTENT_SQL}
        group by sessions.project order by times desc limit ?
        """,
        (since, limit),
    )
    return [(path, times) for path, times in rows]
