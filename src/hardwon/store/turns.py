"""The turns of sessions as they are distilled: a prompt, the calls made for it, what the agent said at the end.

A turn's print says what is stored of it, so that one is distilled again when, and only when, that has changed. Number 0
is what happened before the first prompt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

from hardwon.store import jobs
from hardwon.store import observations as known
from hardwon.store.db import Connection, parse_json_or_text, transaction
from hardwon.types import Call, Observation, Summary, Turn

PLAIN = "plain"
EXPIRED_PREFIX = (
    "worn:"  # before the print of a turn that retention took events of: more is known of it than what is left
)
_IS_TURN_EVENT = "(kind = 'tool' or (kind = 'Stop' and agent = ''))"
# A turn ends where the next begins, which is found by the index that there is; its number alone would not be.
_EVENTS = (
    f"from events where session = ?1 and (?2 is null or prompt = ?2) and {_IS_TURN_EVENT}"
    " and at >= coalesce((select at from prompts where session = ?1 and number = ?2), -1e18)"
    " and at < coalesce((select at from prompts where session = ?1 and number = ?2 + 1), 1e18) order by at, id"
)
_PROMPTS = "from prompts where session = ?1 and (?2 is null or number = ?2) order by number"


def list_changed_turns(connection: Connection, session: int) -> list[int]:
    """The turns of which something else is stored than what they were distilled from, those that are gone included."""
    current = _compute_fingerprints(connection, session)
    stored = _read_stored_fingerprints(connection, session)
    unchanged = {
        number
        for number, fingerprint in stored.items()
        if fingerprint == current.get(number, "") or fingerprint.startswith(EXPIRED_PREFIX)
    }
    return sorted({*current, *stored} - unchanged)


def read_turn(connection: Connection, session: int, number: int) -> tuple[Turn, str]:
    """A turn and the print of exactly that; the print of one that is gone is empty."""
    with _open_snapshot(connection):
        turns = _read_turns(connection, session, number)
        return turns.get(number, Turn(session, number, 0.0)), _compute_fingerprints(connection, session, number).get(
            number, ""
        )


def list_turns(connection: Connection, session: int) -> list[Turn]:
    """Every turn of a session, in order."""
    with _open_snapshot(connection):
        turns = _read_turns(connection, session, None)
    return [turns[number] for number in sorted(turns)]


def store_distilled(
    connection: Connection, turn: Turn, fingerprint: str, observations: Sequence[Observation], maker: str
) -> bool:
    """Put these in place of what was known of a turn, with the print of what they were made from.

    False, and nothing changed, if what is stored of it is not that any more, or a model knew better.
    """
    with transaction(connection):
        if _compute_fingerprints(connection, turn.session_row_id, turn.number).get(turn.number, "") != fingerprint:
            return False
        row = connection.execute(
            "select print, made from turns where session = ? and number = ?", (turn.session_row_id, turn.number)
        ).fetchone()
        if row and (
            row["print"].startswith(EXPIRED_PREFIX) or (row["print"] == fingerprint and maker == PLAIN != row["made"])
        ):
            return False
        known.replace_for_turn(connection, turn.session_row_id, turn.number, observations)
        _store_fingerprint(connection, turn.session_row_id, turn.number, fingerprint, maker)
    return True


def compute_session_fingerprint(connection: Connection, session: int) -> str:
    """The print of all that a session was distilled from; empty if nothing was."""
    fingerprints = sorted(
        (number, fingerprint.removeprefix(EXPIRED_PREFIX))
        for number, fingerprint in _read_stored_fingerprints(connection, session).items()
    )
    return blake2b(repr(fingerprints).encode(), digest_size=12).hexdigest() if fingerprints else ""


def store_summary(connection: Connection, session: int, summary: Summary, fingerprint: str) -> bool:
    """Put this in place of the session's summary, with the print of what it was made from; False, and nothing changed,
    if the session was distilled from something else meanwhile."""
    with transaction(connection):
        return compute_session_fingerprint(connection, session) == fingerprint and known.replace_summary(
            connection, session, summary, fingerprint
        )


def list_turns_made_by(connection: Connection, session: int, maker: str) -> list[int]:
    """The turns that were distilled by plain code, or by a model."""
    rows = connection.execute(
        "select number from turns where session = ? and made = ? and substr(print, 1, ?) != ? order by number",
        (session, maker, len(EXPIRED_PREFIX), EXPIRED_PREFIX),
    )
    return [number for (number,) in rows.fetchall()]


def mark_distilled(connection: Connection, session: int, makers: Mapping[int, str]) -> None:
    """Turns whose observations came from elsewhere, with who made them; those that were distilled here stay."""
    with transaction(connection):
        stored = _read_stored_fingerprints(connection, session)
        for number, fingerprint in _compute_fingerprints(connection, session).items():
            if number in makers and number not in stored:
                _store_fingerprint(connection, session, number, fingerprint, makers[number])
        known.set_summary_fingerprint(connection, session, compute_session_fingerprint(connection, session))


def enqueue_undistilled(connection: Connection, now: float) -> None:
    """Ask for the distilling of every session with a turn that never was, and for which nobody has."""
    rows = connection.execute(
        "select id from sessions where id not in (select session from jobs where kind = 'distil')"
        " and exists (select 1 from (select number from prompts where session = sessions.id"
        f" union select prompt from events where session = sessions.id and {_IS_TURN_EVENT}) as told where not exists"
        " (select 1 from turns where turns.session = sessions.id and turns.number = told.number)) order by last_at desc"
    )
    session_ids = [session_id for (session_id,) in rows.fetchall()]
    with transaction(connection):
        for session_id in session_ids:
            jobs.enqueue(connection, jobs.DISTIL, session_id, priority=jobs.HISTORY, now=now)


def read_prompt_numbers(connection: Connection, session: int) -> dict[int, int]:
    """The number of each prompt of a session, by the prompt's id."""
    rows = connection.execute("select id, number from prompts where session = ?", (session,))
    return dict(rows.fetchall())


def renumber_turns(connection: Connection, session: int, old_numbers: Mapping[int, int]) -> None:
    """Follow the prompts that are left after some were deleted, within the caller's transaction; `old_numbers` has
    their numbers until then. What is left of a turn without its prompt belongs to the one before."""
    new_numbers = read_prompt_numbers(connection, session)
    number_changes = {
        old_number: new_numbers[prompt_id] for prompt_id, old_number in old_numbers.items() if prompt_id in new_numbers
    }
    stored = _read_stored_fingerprints(connection, session)
    rows = connection.execute("select distinct prompt from observations where session = ? and prompt > 0", (session,))
    for old in sorted({*stored, *(number for (number,) in rows.fetchall())} - {0}):
        new = max((number for old_number, number in number_changes.items() if old_number <= old), default=0)
        if old in number_changes:
            connection.execute("update turns set number = ? where session = ? and number = ?", (new, session, old))
        else:
            connection.execute("delete from turns where session = ? and number = ?", (session, old))
            new = known.ORPHAN_TURN if stored.get(old, "").startswith(EXPIRED_PREFIX) else new
        connection.execute("update observations set prompt = ? where session = ? and prompt = ?", (new, session, old))


def _store_fingerprint(connection: Connection, session: int, number: int, fingerprint: str, maker: str) -> None:
    if fingerprint:
        connection.execute("replace into turns values (?, ?, ?, ?)", (session, number, fingerprint, maker))
    else:
        connection.execute("delete from turns where session = ? and number = ?", (session, number))


def _read_stored_fingerprints(connection: Connection, session: int) -> dict[int, str]:
    return dict(connection.execute("select number, print from turns where session = ?", (session,)).fetchall())


def _compute_fingerprints(connection: Connection, session: int, number: int | None = None) -> dict[int, str]:
    """The print of each turn that there is; of long texts their lengths, since they are filled in and never edited."""
    hashers: dict[int, Any] = {}
    rows = connection.execute(f"select number, key, prompt {_PROMPTS}", (session, number)).fetchall()
    rows += connection.execute(
        f"select prompt, key, kind, tool, agent, outcome, length(input), length(response), length(signature) {_EVENTS}",
        (session, number),
    ).fetchall()
    for turn_number, *values in rows:
        hashers.setdefault(turn_number, blake2b(digest_size=12)).update(repr(values).encode("utf-8", "replace"))
    return {turn_number: hasher.hexdigest() for turn_number, hasher in hashers.items()}


def _read_turns(connection: Connection, session: int, number: int | None) -> dict[int, Turn]:
    session_row = connection.execute(
        "select host, session, cwd, started_at, coalesce(path, '') as project from sessions"
        " left join projects on projects.id = sessions.project where sessions.id = ?",
        (session,),
    ).fetchone()
    prompts = connection.execute(f"select number, at, prompt {_PROMPTS}", (session, number)).fetchall()
    prompts_by_number = {row["number"]: row for row in prompts}
    calls: dict[int, list[Call]] = {}
    final_messages: dict[int, str] = {}
    for row in connection.execute(
        "select prompt, kind, key, at, tool, input, response, outcome, signature, agent, duration " + _EVENTS,
        (session, number),
    ):
        if row["kind"] == "tool":
            calls.setdefault(row["prompt"], []).append(_build_call(row))
        else:
            final_messages[row["prompt"]] = row["response"] or final_messages.get(row["prompt"], "")
    turns = {}
    for turn_number in {*prompts_by_number, *calls, *final_messages}:
        turn_calls = calls.get(turn_number, [])
        at = (
            prompts_by_number[turn_number]["at"]
            if turn_number in prompts_by_number
            else turn_calls[0].at
            if turn_calls
            else session_row["started_at"]
        )
        turns[turn_number] = Turn(
            session_row_id=session,
            number=turn_number,
            at=at,
            agent=session_row["host"],
            name=session_row["session"],
            project=session_row["project"],
            cwd=session_row["cwd"],
            prompt=prompts_by_number[turn_number]["prompt"] if turn_number in prompts_by_number else "",
            final_message=final_messages.get(turn_number, ""),
            calls=tuple(turn_calls),
        )
    return turns


def _build_call(row: Any) -> Call:
    names = ("key", "at", "tool", "response", "outcome", "signature", "agent", "duration")
    return Call(input=parse_json_or_text(row["input"]), **{name: row[name] for name in names})


@contextmanager
def _open_snapshot(connection: Connection) -> Iterator[None]:
    """Everything read within is of one moment, whoever writes."""
    connection.execute("begin")
    try:
        yield
    finally:
        connection.execute("rollback")
