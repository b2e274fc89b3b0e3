"""Episodes mined from transcripts (table `signals`), and the candidates that may become lessons.

An episode is stored once, however many copies of a session there are. The episodes of one signature form one candidate.
Its counts come from its episodes, so reading a transcript again counts nothing twice. `fresh` marks an episode that has
not been weighed yet, so a scan that dies before weighing loses nothing.

`signal_errors` has the ids of the failed results of each episode: an error belongs to one episode. `judgements` are
what readers said about candidates, and `scans` is the log of scans.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from hardwon.store.db import (
    Connection,
    fetch_column,
    fetch_value,
    insert_row,
    parse_row_number,
    to_storable,
    transaction,
)
from hardwon.types import MINED_TIER, TAG_TIER, MinedEpisode, dump_record, frozen, get_record_key, load_record

PROPOSED_PREFIX = "proposed "  # begins the signature of a lesson proposed without a transcript
UNDECIDED_STATUSES = ("candidate", "open")  # listed for a person's decision, or not sure enough to be listed
_IS_UNDECIDED_SQL = f"status in {UNDECIDED_STATUSES}"
_OPEN_MARKER = '"open":true'
_NO_LIMIT = -1  # as SQLite has it
_SIGNAL_COLUMNS = tuple(get_record_key(name) for name in MinedEpisode.__annotations__ if name != "errors")
_WORDING_FIELDS = (
    "summary",
    "problem",
    "solution",
    "triggers",
    "commandMatchTarget",
    "delivery",
    "blockReason",
    "unless",
    "tags",
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """The suggested record of a lesson, how it was rated, and where it was seen."""

    number: int
    id: str
    slug: str
    signature: str
    tier: int
    status: str
    score: float
    parts: Mapping[str, float]
    occurrences: int
    sessions: tuple[str, ...]
    projects: tuple[str, ...]
    record: Mapping[str, Any]
    lesson: str = ""
    found_at: float = 0.0
    decided_at: float | None = None


_CANDIDATE_COLUMNS = tuple(Candidate.__annotations__)


@frozen
class Judgement:
    """A reader's verdict on a candidate; `void` is why it does not count, empty if it does."""

    candidate: int
    at: float
    reader: str
    verdict: str
    body: Mapping[str, Any]
    void: str = ""


@frozen
class Scan:
    """Counts of what one scan read and found."""

    at: float
    kind: str
    files: int = 0
    bytes: int = 0
    malformed: int = 0
    signals: int = 0
    candidates: int = 0


def store_episode(connection: Connection, episode: MinedEpisode) -> bool:
    """Store an episode within the caller's transaction; return whether it is new.

    An error belongs to the episode it was first found in. A known episode is replaced when this is the same transcript,
    when the one it was found in is gone, or when this one scores higher: a copy may hold the correction.
    """
    record = dump_record(episode)
    row = {name: to_storable(record[name]) for name in _SIGNAL_COLUMNS}
    row["body"] = json.dumps(episode.body, separators=(",", ":"))
    if episode.errors:
        owner = fetch_value(connection, "select signal from signal_errors where error = ?", episode.errors[0])
        if owner not in (None, row["key"]):
            return False  # this failure belongs to another episode
    previous = connection.execute("select path, score, body from signals where key = ?", (row["key"],)).fetchone()
    if previous and not _should_replace(connection, row, previous):
        return False
    row["fresh"] = 1
    changes = ", ".join(f"{name} = excluded.{name}" for name in row if name != "key")
    insert_row(connection, "signals", row, clause=f"on conflict (key) do update set {changes}")
    connection.executemany(
        "insert or ignore into signal_errors (error, signal) values (?, ?)",
        [(error, row["key"]) for error in episode.errors],
    )
    return previous is None


def _should_replace(connection: Connection, row: Mapping[str, Any], previous: Mapping[str, Any]) -> bool:
    """Return whether a report of a known episode is better than the stored one."""
    if (previous["path"], previous["body"]) == (row["path"], row["body"]):
        return False  # it was read again from the same transcript, and says the same
    # An episode without a known end never replaces one that has an end.
    if _OPEN_MARKER in row["body"] and _OPEN_MARKER not in previous["body"]:
        return False
    if row["path"] == previous["path"] or row["score"] > previous["score"]:
        return True
    return not fetch_value(
        connection, "select 1 from transcripts where purpose = 'scan' and path = ?", previous["path"]
    )


def withdraw_tags(connection: Connection, session: str, problem: str) -> None:
    """Delete the signals of a session's tags with this problem, or of its last tag if `problem` is empty.

    Runs within the caller's transaction.
    """
    rows = connection.execute(
        f"select key, signature, body from signals where tier = {TAG_TIER} and session = ? order by id", (session,)
    ).fetchall()
    from hardwon.text.lesson_tags import is_cancelled  # its patterns take 9 ms, which a list need not pay

    if problem:
        withdrawn_rows = [row for row in rows if is_cancelled(json.loads(row["body"])["problem"], problem)]
    else:
        withdrawn_rows = rows[-1:]
    for row in withdrawn_rows:
        connection.execute("delete from signals where key = ?", (row["key"],))
        connection.execute("update signals set fresh = 1 where signature = ?", (row["signature"],))
        connection.execute(
            f"""
            delete from candidates where signature = ? and {_IS_UNDECIDED_SQL}
            and not exists (select 1 from signals where signals.signature = candidates.signature)
            """,
            (row["signature"],),
        )


def list_fresh_signatures(connection: Connection) -> list[str]:
    """Return the signatures with signals that were not weighed yet."""
    return fetch_column(connection, "select distinct signature from signals where fresh")


def list_episodes(connection: Connection, signature: str, *, limit: int = _NO_LIMIT) -> list[MinedEpisode]:
    """Return the signals of a signature, best first, the newest first among equals."""
    return _select_episodes(connection, "signature = ?", (signature,), limit=limit)


def _select_episodes(
    connection: Connection, where: str, values: Sequence[object] = (), *, limit: int = _NO_LIMIT
) -> list[MinedEpisode]:
    """Return the episodes that meet a condition, the best first; `values` fill its placeholders."""
    rows = connection.execute(
        f"""
        select {", ".join(_SIGNAL_COLUMNS)} from signals where {where}
        order by score desc, at desc, id desc limit ?
        """,
        (*values, limit),
    )
    episodes = []
    for row in rows:
        fields = dict(row)
        fields["body"] = json.loads(fields["body"])
        episodes.append(load_record(MinedEpisode, fields))
    return episodes


def list_fresh_tags(connection: Connection) -> list[MinedEpisode]:
    """Return the agents' `#lesson` tags that were not weighed yet."""
    return _select_episodes(connection, f"fresh and tier = {TAG_TIER}")


def list_session_episodes(connection: Connection, host: str, session: str) -> list[MinedEpisode]:
    """Return the episodes of a session that may become lessons, the newest first."""
    where = f"host = ? and session = ? and tier = {MINED_TIER} and score > 0"
    return sorted(_select_episodes(connection, where, (host, session)), key=lambda episode: episode.at, reverse=True)


def list_unfixed_episodes(connection: Connection, rejection: str, *, limit: int) -> list[MinedEpisode]:
    """Return the newest episodes that were rejected for this reason and name the wrong word of a call."""
    was_rejected = "score = 0 and json_extract(body, '$.rejection') = ?"
    names_wrong_word = "signature like 'call %'"  # as mining writes the signature of a call with a known wrong word
    where = f"tier = {MINED_TIER} and {was_rejected} and {names_wrong_word}"
    # All scores are 0, so the order is by time.
    return _select_episodes(connection, where, (rejection,), limit=limit)


def move_episode(connection: Connection, key: str, signature: str) -> None:
    """Count a signal under another signature."""
    with transaction(connection):
        connection.execute("update signals set signature = ?, fresh = 1 where key = ?", (signature, key))


class Occurrences(NamedTuple):
    """How often a signature occurred, in which sessions (latest first) and in which projects."""

    times: int
    sessions: list[str]
    projects: list[str]


def read_occurrences(connection: Connection, signature: str) -> Occurrences:
    """Return the occurrences of a signature; a tag about an episode is no further occurrence of it."""
    # How often in each session and project: so many episodes, or once if only a tag tells of it.
    rows = connection.execute(
        f"""
        select session, project, max(sum(tier = {MINED_TIER}), 1) as times, max(at) as latest
        from signals where signature = ?
        group by session, project order by latest desc
        """,
        (signature,),
    ).fetchall()
    times = sum(row["times"] for row in rows)
    sessions = list(dict.fromkeys(row["session"] for row in rows))
    projects = {row["project"] for row in rows} - {""}
    return Occurrences(times, sessions, sorted(projects))


def find_by_signature(connection: Connection, signature: str) -> Candidate | None:
    """Return the candidate of a signature, whatever its status; None if there is none."""
    return next(iter(_select_candidates(connection, "signature = ?", (signature,))), None)


def find_by_name(connection: Connection, name: str) -> Candidate | None:
    """Return a candidate by its number, slug or id, whatever its status."""
    where = "number = ? or slug = ? or id = ?"
    return next(iter(_select_candidates(connection, where, (parse_row_number(name), name, name))), None)


def is_issued_number(connection: Connection, name: str) -> bool:
    """Return whether this is a number that a candidate once had."""
    query = "select 1 from sqlite_sequence where name = 'candidates' and ? between 1 and seq"
    return bool(fetch_value(connection, query, parse_row_number(name)))


def list_candidates(connection: Connection, status: str = "candidate") -> list[Candidate]:
    """Return the candidates of a status, best first."""
    return _select_candidates(connection, "status = ?", (status,))


def list_reported(connection: Connection, *, since: float) -> list[Candidate]:
    """Return the lessons that agents reported in their sessions and that wait for a decision."""
    where = f"status = 'candidate' and tier = {TAG_TIER} and found_at >= ? and substr(signature, 1, ?) != ?"
    return _select_candidates(connection, where, (since, len(PROPOSED_PREFIX), PROPOSED_PREFIX))


def list_all(connection: Connection) -> list[Candidate]:
    """Return every candidate, whatever its status."""
    return _select_candidates(connection, "true")


def list_proposed(connection: Connection) -> list[Candidate]:
    """Return the candidates that stand for records of lessons.json, whatever their status."""
    return _select_candidates(connection, "substr(signature, 1, ?) = ?", (len(PROPOSED_PREFIX), PROPOSED_PREFIX))


def list_by_ids(connection: Connection, ids: Iterable[str]) -> list[Candidate]:
    """Return the candidates that have one of these ids, whatever their status."""
    return _select_candidates(connection, "id in (select value from json_each(?))", (json.dumps(list(ids)),))


def insert(connection: Connection, candidate: Candidate) -> None:
    """Store a new candidate within the caller's transaction, unless it exists; SQLite assigns its number."""
    insert_row(connection, "candidates", _build_row(candidate), verb="insert or ignore")


def remove(connection: Connection, number: int) -> None:
    """Delete a candidate within the caller's transaction."""
    connection.execute("delete from candidates where number = ?", (number,))


def _select_candidates(connection: Connection, where: str, values: Sequence[object] = ()) -> list[Candidate]:
    """Return the candidates that meet a condition, best first; `values` fill its placeholders."""
    rows = connection.execute(
        f"select {', '.join(_CANDIDATE_COLUMNS)} from candidates where {where} order by score desc, number", values
    )
    candidates = []
    for row in rows:
        fields = dict(row)
        for name in ("parts", "record"):
            fields[name] = json.loads(row[name])
        for name in ("sessions", "projects"):
            fields[name] = tuple(json.loads(row[name]))
        candidates.append(Candidate(**fields))
    return candidates


def store_candidates(
    connection: Connection, candidates: Iterable[Candidate], *, weighed_signatures: Iterable[str]
) -> None:
    """Store candidates for the first time or again, and mark signatures as weighed.

    Decisions stay, and so does the wording, because a person accepts by number what they saw under that number. If no
    signal supports the wording any more, it is replaced and the candidate gets a new number.
    """
    rows = []
    outdated_numbers = []
    for candidate in candidates:
        previous = find_by_signature(connection, candidate.signature)
        if previous is None:
            rows.append(_build_row(candidate))
            continue
        with_old_wording = _keep_wording(candidate, previous)
        has_same_wording = with_old_wording.record == candidate.record
        if has_same_wording or _should_keep_wording(connection, candidate, previous):
            rows.append(_build_row(with_old_wording))
        else:
            outdated_numbers.append(previous.number)
            rows.append(_build_row(candidate))
    with transaction(connection):
        connection.executemany(
            f"delete from candidates where number = ? and {_IS_UNDECIDED_SQL}",
            [(number,) for number in outdated_numbers],
        )
        for row in rows:
            insert_row(connection, "candidates", row, clause=_build_update_clause())
        connection.executemany(
            "update signals set fresh = 0 where signature = ?", [(signature,) for signature in weighed_signatures]
        )


def _build_update_clause() -> str:
    """Return the clause that updates a known candidate, whose decision stays whatever the new weighing says."""
    updated_columns = ("tier", "score", "parts", "occurrences", "sessions", "projects", "record")
    changes = ", ".join(f"{name} = excluded.{name}" for name in updated_columns)
    new_status = f"iif(candidates.{_IS_UNDECIDED_SQL}, excluded.status, candidates.status)"
    return f"on conflict (signature) do update set {changes}, status = {new_status}"


def _keep_wording(candidate: Candidate, previous: Candidate) -> Candidate:
    """Return the proposal with its earlier wording."""
    # An agent's tag also names the scope and the priority.
    wording_fields = (*_WORDING_FIELDS, "scope", "priority") if candidate.tier == TAG_TIER else _WORDING_FIELDS
    record = dict(candidate.record)
    for name in wording_fields:
        record.pop(name, None)
        if name in previous.record:
            record[name] = previous.record[name]
    return replace(candidate, record=record)


def _should_keep_wording(connection: Connection, candidate: Candidate, previous: Candidate) -> bool:
    """Return whether a person may have seen the earlier wording, and decided about it or can still decide.

    They can if it is complete and a signal still supports it: an episode that was under way when it was first read may
    end differently, and a tag may be cancelled.
    """
    is_newly_listed = (previous.status, candidate.status) == ("open", "candidate")
    # A candidate without its earlier number has a wording that was not proposed before.
    if candidate.number == 0 or is_newly_listed:
        return False
    if previous.status not in UNDECIDED_STATUSES:
        return True
    problem = previous.record["problem"]
    solution = previous.record["solution"]
    if not solution:
        return False  # the earlier wording is not complete, so nothing is lost
    for episode in list_episodes(connection, previous.signature):
        if (episode.body["problem"], episode.body["solution"]) == (problem, solution):
            return True
    return False


def _build_row(candidate: Candidate) -> dict[str, object]:
    """Return a candidate's columns without its number, which SQLite assigns."""
    row = {name: getattr(candidate, name) for name in _CANDIDATE_COLUMNS if name != "number"}
    for name in ("parts", "record", "sessions", "projects"):
        row[name] = json.dumps(row[name], separators=(",", ":"))
    return row


def record_decision(connection: Connection, candidate_id: str, status: str, at: float | None, lesson: str = "") -> None:
    """Record a decision by the candidate's id, since a scan may change its number meanwhile."""
    with transaction(connection):
        set_status(connection, candidate_id, status, at, lesson)


def set_status(connection: Connection, candidate_id: str, status: str, at: float | None, lesson: str = "") -> None:
    """Record a decision within the caller's transaction."""
    connection.execute(
        "update candidates set status = ?, decided_at = ?, lesson = ? where id = ?",
        (status, at, lesson, candidate_id),
    )


def list_slugs(connection: Connection) -> set[str]:
    """Return the slugs that are taken."""
    return set(fetch_column(connection, "select slug from candidates"))


def store_judgements(connection: Connection, judgements: Iterable[Judgement]) -> None:
    with transaction(connection):
        for judgement in judgements:
            insert_row(connection, "judgements", judgement.__dict__ | {"body": json.dumps(judgement.body)})


def list_latest_judgements(connection: Connection) -> dict[int, Judgement]:
    """Return each candidate's latest valid judgement, or its latest void one if it has no valid one."""
    # The one to take comes last: valid ones after void ones, later ones after earlier ones.
    rows = connection.execute(
        "select candidate, at, reader, verdict, body, void from judgements order by void = '', at, id"
    )
    judgements = {}
    for row in rows:
        judgements[row["candidate"]] = Judgement(**dict(row) | {"body": json.loads(row["body"])})
    return judgements


def add_scan(connection: Connection, scan: Scan) -> None:
    insert_row(connection, "scans", scan.__dict__)


def find_last_scan_time(connection: Connection, *kinds: str) -> float | None:
    """Return when the latest scan of these kinds was, of any kind if none is named; None if there was none."""
    where = f"where kind in ({', '.join('?' * len(kinds))})" if kinds else ""
    last_at: float | None = fetch_value(connection, f"select max(at) from scans {where}", *kinds)
    return last_at
