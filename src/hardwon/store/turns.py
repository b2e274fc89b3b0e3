"""The turns of sessions as input for distilling: a prompt, the calls made for it, and the agent's last message.

A turn's fingerprint is computed from its stored rows, so that it is distilled again if and only if these change. Turn 0
is everything before the first prompt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

from hardwon.store import documents, jobs
from hardwon.store.db import Connection, fetch_column, fetch_value, parse_json_or_text, transaction
from hardwon.store.migrations import FILL_TO_INDEX
from hardwon.store.observations import (
    ORPHAN_TURN,
    replace_for_turn,
    replace_summary,
    set_summary_fingerprint,
)
from hardwon.types import Call, Observation, Summary, Turn, load_record

PLAIN = "plain"
# Prefix of the fingerprint of a turn whose events retention deleted; its observations hold more than the remaining
# rows. See `_is_expired`; in SQL `_IS_EXPIRED_SQL`.
EXPIRED_PREFIX = "worn:"
_IS_EXPIRED_SQL = f"print like '{EXPIRED_PREFIX}%'"
_IS_TURN_EVENT_SQL = "(kind = 'tool' or (kind = 'Stop' and agent = ''))"
# A turn ends where the next begins. Events are selected by time, which has an index; the turn's number has none.
_FROM_EVENTS_SQL = f"""
    from events where session = ?1 and (?2 is null or prompt = ?2) and {_IS_TURN_EVENT_SQL}
    and at >= coalesce((select at from prompts where session = ?1 and number = ?2), -1e18)
    and at < coalesce((select at from prompts where session = ?1 and number = ?2 + 1), 1e18) order by at, id
    """
_FROM_PROMPTS_SQL = "from prompts where session = ?1 and (?2 is null or number = ?2) order by number"


def _is_expired(fingerprint: str) -> bool:
    return fingerprint.startswith(EXPIRED_PREFIX)


def list_changed_turns(connection: Connection, session: int) -> list[int]:
    """Return the turns that changed since they were distilled, those that are gone included."""
    current = _compute_fingerprints(connection, session)
    stored = _read_stored_fingerprints(connection, session)
    changed = []
    for number in sorted({*current, *stored}):
        fingerprint = stored.get(number)  # None if the turn was never distilled
        is_unchanged = fingerprint is not None and fingerprint == current.get(number, "")
        has_expired = fingerprint is not None and _is_expired(fingerprint)
        if not is_unchanged and not has_expired:
            changed.append(number)
    return changed


def read_turn(connection: Connection, session: int, number: int) -> tuple[Turn, str]:
    """Return a turn and its fingerprint; the fingerprint of one that is gone is empty."""
    with _open_snapshot(connection):
        turns = _read_turns(connection, session, number)
        fingerprints = _compute_fingerprints(connection, session, number)
    empty_turn = Turn(session, number, at=0.0)
    return turns.get(number, empty_turn), fingerprints.get(number, "")


def list_turns(connection: Connection, session: int) -> list[Turn]:
    """Return every turn of a session, in order."""
    with _open_snapshot(connection):
        turns = _read_turns(connection, session, number=None)
    return [turns[number] for number in sorted(turns)]


def store_distilled(
    connection: Connection, turn: Turn, fingerprint: str, observations: Sequence[Observation], maker: str
) -> bool:
    """Replace what is known of a turn, with the fingerprint of what it was made from.

    Return False, and change nothing, if the turn changed meanwhile or a model has distilled it.
    """
    session = turn.session_row_id
    number = turn.number
    with transaction(connection):
        if _compute_fingerprints(connection, session, number).get(number, "") != fingerprint:
            return False  # the turn changed while it was distilled
        row = connection.execute(
            "select print, made from turns where session = ? and number = ?", (session, number)
        ).fetchone()
        if row and _is_expired(row["print"]):
            return False  # the turn's observations hold more than the rows that are left
        is_made_by_model = row and row["print"] == fingerprint and row["made"] != PLAIN
        if is_made_by_model and maker == PLAIN:
            return False  # a model's words are better, and cost money
        replace_for_turn(connection, session, number, observations)
        _store_fingerprint(connection, session, number, fingerprint, maker)
    return True


def compute_session_fingerprint(connection: Connection, session: int) -> str:
    """Return the fingerprint of all that a session was distilled from; empty if nothing was."""
    fingerprints = []
    for number, fingerprint in sorted(_read_stored_fingerprints(connection, session).items()):
        # That its events expired does not change what the turn came to.
        fingerprints.append((number, fingerprint.removeprefix(EXPIRED_PREFIX)))
    if not fingerprints:
        return ""
    return blake2b(repr(fingerprints).encode(), digest_size=12).hexdigest()


def store_summary(connection: Connection, session: int, summary: Summary, fingerprint: str) -> bool:
    """Replace the session's summary, with the fingerprint of its input.

    Return False, and change nothing, if the session's turns were distilled again meanwhile.
    """
    with transaction(connection):
        if compute_session_fingerprint(connection, session) != fingerprint:
            return False
        return replace_summary(connection, session, summary, fingerprint)


def list_turns_made_by(connection: Connection, session: int, maker: str) -> list[int]:
    """Return the turns that this maker distilled and that have not expired."""
    query = f"select number from turns where session = ? and made = ? and not {_IS_EXPIRED_SQL} order by number"
    return fetch_column(connection, query, session, maker)


def mark_distilled(connection: Connection, session: int, makers: Mapping[int, str]) -> None:
    """Mark turns whose observations were imported, with who made them; those that were distilled here stay."""
    with transaction(connection):
        stored = _read_stored_fingerprints(connection, session)
        for number, fingerprint in _compute_fingerprints(connection, session).items():
            if number in makers and number not in stored:
                _store_fingerprint(connection, session, number, fingerprint, makers[number])
        set_summary_fingerprint(connection, session, compute_session_fingerprint(connection, session))


def enqueue_undistilled(connection: Connection, now: float) -> None:
    """Request distilling for every session with a turn that was never distilled and no job."""
    # Turns have no table of their own before they are distilled: they are the numbers of prompts and events.
    query = f"""
        select id from sessions where id not in (select session from jobs where kind = 'distil') and exists (
            select 1 from (select number from prompts where session = sessions.id
                union select prompt from events where session = sessions.id and {_IS_TURN_EVENT_SQL}) as turn
            where not exists (
                select 1 from turns where turns.session = sessions.id and turns.number = turn.number))
        order by last_at desc
        """
    _enqueue_distilling(connection, fetch_column(connection, query), now)


def _enqueue_distilling(connection: Connection, sessions: Sequence[int], now: float) -> None:
    """Ask for these sessions to be distilled, behind the live ones."""
    with transaction(connection):
        for session in sessions:
            jobs.enqueue(connection, jobs.DISTIL, session, priority=jobs.HISTORY, now=now)


def read_prompt_numbers(connection: Connection, session: int) -> dict[int, int]:
    """Return the number of each prompt of a session, by the prompt's id."""
    rows = connection.execute("select id, number from prompts where session = ?", (session,))
    return dict(rows.fetchall())


def renumber_turns(connection: Connection, session: int, old_numbers: Mapping[int, int]) -> None:
    """Renumber turns after prompts were deleted, within the caller's transaction.

    `old_numbers` has the numbers of all prompts before the deletion. The rest of a turn that lost its prompt belongs to
    the turn before.
    """
    new_numbers = read_prompt_numbers(connection, session)
    number_changes = {}
    for prompt_id, old_number in old_numbers.items():
        if prompt_id in new_numbers:
            number_changes[old_number] = new_numbers[prompt_id]
    stored = _read_stored_fingerprints(connection, session)
    query = "select distinct prompt from observations where session = ? and prompt > 0"
    # From the lowest up, so that a new number is free: it is never above the old one.
    for old in sorted({*stored, *fetch_column(connection, query, session)} - {0}):
        earlier_numbers = [number for old_number, number in number_changes.items() if old_number <= old]
        new = max(earlier_numbers, default=0)  # the number of its own prompt, or of the last one before it
        if old in number_changes:
            connection.execute("update turns set number = ? where session = ? and number = ?", (new, session, old))
        else:
            connection.execute("delete from turns where session = ? and number = ?", (session, old))
            if _is_expired(stored.get(old, "")):
                new = ORPHAN_TURN
        connection.execute("update observations set prompt = ? where session = ? and prompt = ?", (new, session, old))


def _store_fingerprint(connection: Connection, session: int, number: int, fingerprint: str, maker: str) -> None:
    """Store that a turn was distilled; an empty fingerprint means that the turn is gone."""
    if fingerprint:
        connection.execute("replace into turns values (?, ?, ?, ?)", (session, number, fingerprint, maker))
    else:
        connection.execute("delete from turns where session = ? and number = ?", (session, number))


def _read_stored_fingerprints(connection: Connection, session: int) -> dict[int, str]:
    """Return the fingerprint of each turn as it was distilled."""
    return dict(connection.execute("select number, print from turns where session = ?", (session,)).fetchall())


def _compute_fingerprints(connection: Connection, session: int, number: int | None = None) -> dict[int, str]:
    """Return the fingerprint of each turn; long texts count by length, since they are filled in and never edited."""
    hashers: dict[int, Any] = {}
    # Rows of both kinds begin with the turn's number; `number` is null for all turns.
    rows = connection.execute(f"select number, key, prompt {_FROM_PROMPTS_SQL}", (session, number)).fetchall()
    rows += connection.execute(
        f"""
        select prompt, key, kind, tool, agent, outcome, length(input), length(response), length(signature)
        {_FROM_EVENTS_SQL}
        """,
        (session, number),
    ).fetchall()
    for turn_number, *values in rows:
        hasher = hashers.setdefault(turn_number, blake2b(digest_size=12))
        hasher.update(repr(values).encode("utf-8", "replace"))
    return {turn_number: hasher.hexdigest() for turn_number, hasher in hashers.items()}


def _read_turns(connection: Connection, session: int, number: int | None) -> dict[int, Turn]:
    """Return the turns of a session by number, all of them or this one."""
    session_row = connection.execute(
        """
        select host, session, cwd, started_at, coalesce(path, '') as project from sessions
        left join projects on projects.id = sessions.project where sessions.id = ?
        """,
        (session,),
    ).fetchone()
    prompts = connection.execute(f"select number, at, prompt {_FROM_PROMPTS_SQL}", (session, number)).fetchall()
    prompts_by_number = {row["number"]: (row["at"], row["prompt"]) for row in prompts}
    calls: dict[int, list[Call]] = {}
    final_messages: dict[int, str] = {}
    for row in connection.execute(
        "select prompt, kind, key, at, tool, input, response, outcome, signature, agent, duration " + _FROM_EVENTS_SQL,
        (session, number),
    ):
        if row["kind"] == "tool":
            calls.setdefault(row["prompt"], []).append(_build_call(row))
        else:
            final_messages.setdefault(row["prompt"], "")
            if row["response"]:  # a hook may report the end of a turn without the words
                final_messages[row["prompt"]] = row["response"]
    turns = {}
    for turn_number in {*prompts_by_number, *calls, *final_messages}:
        turn_calls = calls.get(turn_number, [])
        prompt = ""
        at = session_row["started_at"]
        if turn_number in prompts_by_number:
            at, prompt = prompts_by_number[turn_number]
        elif turn_calls:
            at = turn_calls[0].at
        turns[turn_number] = Turn(
            session_row_id=session,
            number=turn_number,
            at=at,
            agent=session_row["host"],
            name=session_row["session"],
            project=session_row["project"],
            cwd=session_row["cwd"],
            prompt=prompt,
            final_message=final_messages.get(turn_number, ""),
            calls=tuple(turn_calls),
        )
    return turns


def _build_call(row: Any) -> Call:
    """Return a call from its row, with its input parsed."""
    names = ("key", "at", "tool", "response", "outcome", "signature", "agent", "duration")
    fields = {name: row[name] for name in names}
    return load_record(Call, {**fields, "input": parse_json_or_text(row["input"])})


@contextmanager
def _open_snapshot(connection: Connection) -> Iterator[None]:
    """Read a consistent snapshot inside the block while others may write."""
    connection.execute("begin")
    try:
        yield
    finally:
        connection.execute("rollback")


# A rebuild drops everything that can be derived again from the stored rows. Results of models and imports stay, and so
# do results of events that were deleted since, because they cannot be made again. Observations keep their rows and
# numbers, since memories name them as evidence; distilling updates each in place.
_OF_TURN_SQL = "observations.session = turns.session and observations.prompt = turns.number"
# An import may bring observations without their events; these cannot be made again.
_HAS_LOST_EVENTS_SQL = f"""
    exists (select 1 from observations,
        json_each(iif(json_valid(observations.events), observations.events, '[]')) as cited
        where {_OF_TURN_SQL} and not exists (select 1 from events where events.key = cited.value))
    """
_HAS_EVENTS_SQL = "exists (select 1 from events where events.session = turns.session and events.prompt = turns.number)"
_FORGET_TURNS_SQL = f"""
    delete from turns where not {_IS_EXPIRED_SQL} and {_HAS_EVENTS_SQL} and not {_HAS_LOST_EVENTS_SQL}
    and (made = '{PLAIN}' or not exists (select 1 from observations where {_OF_TURN_SQL}))
    """
_FORGET_SUMMARIES_SQL = f"""
    update summaries set print = '' where made = '{PLAIN}'
    and not exists (select 1 from turns where turns.session = summaries.session)
    and exists (select 1 from events where events.session = summaries.session)
    """


def forget_derived(connection: Connection, now: float) -> int:
    """Empty the index and ask for every session to be distilled again; return how many sessions there are."""
    sessions: list[int] = fetch_column(connection, "select id from sessions")
    with transaction(connection):
        connection.execute(_FORGET_TURNS_SQL)
        connection.execute(_FORGET_SUMMARIES_SQL)
    _enqueue_distilling(connection, sessions, now)
    with transaction(connection):
        # Delete the word index first: if it is damaged, the trigger that deletes a document's words would fail.
        documents.rebuild_word_index(connection)
        for table in ("documents", "vectors", "to_embed", "to_index"):
            connection.execute(f"delete from {table}")
        documents.delete_file_documents(connection)
        for statement in FILL_TO_INDEX:
            connection.execute(statement)
        # Fires the trigger that fills `observation_files`.
        connection.execute("update observations set files_read = files_read")
    return len(sessions)


def count_unrebuildable(connection: Connection) -> int:
    """Return how many turns were distilled from events that are gone."""
    return int(fetch_value(connection, f"select count(*) from turns where {_IS_EXPIRED_SQL} or {_HAS_LOST_EVENTS_SQL}"))
