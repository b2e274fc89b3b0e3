"""What was found in transcripts, and what may become a lesson of it.

Signals are kept once each, however many copies of a session there are. Those of one signature are one candidate: its
counts come from its signals, so nothing is counted twice whatever is read again. `fresh` says that a signal has not
been weighed yet, so a scan that died before weighing loses nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hardwon.store.db import Connection, to_storable, transaction
from hardwon.text.lesson_tags import is_cancelled
from hardwon.types import MinedEpisode, frozen, replace

PROPOSED_PREFIX = "proposed "  # begins the signature of what was proposed as a lesson, with no transcript behind it
_OPEN_MARKER = '"open":true'
_SIGNAL = tuple(name for name in MinedEpisode.__annotations__ if name != "errors")
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


@frozen
class Candidate:
    """A candidate: the suggested record, how it was rated, and where it was seen."""

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
    """What a reader made of a candidate; `void` says why it does not count, if it does not."""

    candidate: int
    at: float
    reader: str
    verdict: str
    body: Mapping[str, Any]
    void: str = ""


@frozen
class Scan:
    """One scan, as it went."""

    at: float
    kind: str
    files: int = 0
    bytes: int = 0
    malformed: int = 0
    signals: int = 0
    candidates: int = 0


def store_episode(connection: Connection, episode: MinedEpisode) -> bool:
    """Write a signal within the caller's transaction; True if it is new.

    An error belongs to the signal it was first found in. What is known already is written again when this is the same
    transcript, when the one it was found in is gone, or when this one knows more: a copy may hold the correction. One
    whose end is not known never takes the place of one whose end is.
    """
    errors = [to_storable(error) for error in episode.errors]
    if errors:
        owner = connection.execute("select signal from signal_errors where error = ?", errors[:1]).fetchone()
        if owner and owner["signal"] != to_storable(episode.key):
            return False
    row = {name: to_storable(getattr(episode, name)) for name in _SIGNAL}
    row["body"] = json.dumps(episode.body, separators=(",", ":"))
    previous = connection.execute("select path, score, body from signals where key = ?", (row["key"],)).fetchone()
    is_known = previous and (previous["path"], previous["body"]) == (row["path"], row["body"])
    if previous and (is_known or not _should_replace(connection, row, previous)):
        return False
    names = ", ".join(_SIGNAL)
    changes = ", ".join(f"{name} = excluded.{name}" for name in _SIGNAL if name != "key")
    connection.execute(
        f"insert into signals ({names}, fresh) values ({', '.join('?' * len(_SIGNAL))}, 1)"
        f" on conflict (key) do update set {changes}, fresh = 1",
        tuple(row.values()),
    )
    connection.executemany(
        "insert or ignore into signal_errors (error, signal) values (?, ?)", [(error, row["key"]) for error in errors]
    )
    return previous is None


def _should_replace(connection: Connection, row: Mapping[str, Any], previous: Mapping[str, Any]) -> bool:
    if _OPEN_MARKER in row["body"] and _OPEN_MARKER not in previous["body"]:
        return False
    if row["path"] == previous["path"] or row["score"] > previous["score"]:
        return True
    query = "select 1 from transcripts where purpose = 'scan' and path = ?"
    return connection.execute(query, (previous["path"],)).fetchone() is None


def withdraw_tags(connection: Connection, session: str, problem: str) -> None:
    """Take back tags of a session within the caller's transaction: those with this problem, or the last if it is ""."""
    rows = connection.execute(
        "select key, body from signals where tier = 1 and session = ? order by id", (to_storable(session),)
    ).fetchall()
    withdrawn_keys = [row["key"] for row in rows if is_cancelled(json.loads(row["body"])["problem"], problem)]
    if not problem:
        withdrawn_keys = [row["key"] for row in rows[-1:]]
    for key in withdrawn_keys:
        (signature,) = connection.execute("select signature from signals where key = ?", (key,)).fetchone()
        connection.execute("delete from signals where key = ?", (key,))
        connection.execute("update signals set fresh = 1 where signature = ?", (signature,))
        connection.execute(
            "delete from candidates where signature = ? and status in ('candidate', 'open')"
            " and not exists (select 1 from signals where signals.signature = candidates.signature)",
            (signature,),
        )


def list_fresh_signatures(connection: Connection) -> list[str]:
    """The signatures with signals that were not weighed yet."""
    return [row["signature"] for row in connection.execute("select distinct signature from signals where fresh")]


def list_episodes(connection: Connection, signature: str, *, limit: int = -1) -> list[MinedEpisode]:
    """The signals of a signature, best first, the newest first among equals."""
    rows = connection.execute(
        f"select {', '.join(_SIGNAL)} from signals where signature = ? order by score desc, at desc, id desc limit ?",
        (signature, limit),
    )
    return [MinedEpisode(**{**dict(row), "body": json.loads(row["body"])}) for row in rows]


def read_occurrences(connection: Connection, signature: str) -> tuple[int, list[str], list[str]]:
    """How often a signature was met, in which sessions (the latest first) and in which projects."""
    rows = connection.execute(
        "select session, project, count(*) as times, max(at) as latest from signals where signature = ?"
        " group by session, project order by latest desc",
        (signature,),
    ).fetchall()
    sessions = list(dict.fromkeys(row["session"] for row in rows))
    return sum(row["times"] for row in rows), sessions, sorted({row["project"] for row in rows if row["project"]})


def find_by_signature(connection: Connection, signature: str) -> Candidate | None:
    return next(iter(_select_candidates(connection, "signature = ?", (signature,))), None)


def find_by_name(connection: Connection, name: str) -> Candidate | None:
    """A candidate by its number, slug or id, whatever its status."""
    number = int(name) if name.isascii() and name.isdigit() and len(name) < 10 else -1
    return next(iter(_select_candidates(connection, "number = ? or slug = ? or id = ?", (number, name, name))), None)


def is_issued_number(connection: Connection, name: str) -> bool:
    """Whether this is a number that a candidate had once."""
    number = int(name) if name.isascii() and name.isdigit() and len(name) < 10 else 0
    query = "select 1 from sqlite_sequence where name = 'candidates' and ? between 1 and seq"
    return connection.execute(query, (number,)).fetchone() is not None


def list_candidates(connection: Connection, status: str = "candidate") -> list[Candidate]:
    """The candidates, best first."""
    return _select_candidates(connection, "status = ?", (status,))


def list_proposed(connection: Connection) -> list[Candidate]:
    """Return the candidates that stand for records of lessons.json, whatever their status."""
    return _select_candidates(connection, "substr(signature, 1, ?) = ?", (len(PROPOSED_PREFIX), PROPOSED_PREFIX))


def list_by_ids(connection: Connection, ids: Iterable[str]) -> list[Candidate]:
    """Return the candidates that have one of these ids, whatever their status."""
    return _select_candidates(connection, "id in (select value from json_each(?))", (json.dumps(list(ids)),))


def insert(connection: Connection, candidate: Candidate) -> None:
    """Write a new candidate within the caller's transaction, unless somebody was faster; its number is given here."""
    row = _build_row(candidate)
    names = [name for name in _CANDIDATE_COLUMNS if name != "number"]
    connection.execute(
        f"insert or ignore into candidates ({', '.join(names)}) values ({', '.join('?' * len(names))})",
        tuple(row[name] for name in names),
    )


def remove(connection: Connection, number: int) -> None:
    """Delete a candidate within the caller's transaction."""
    connection.execute("delete from candidates where number = ?", (number,))


def _select_candidates(connection: Connection, where: str, values: Sequence[object]) -> list[Candidate]:
    rows = connection.execute(
        f"select {', '.join(_CANDIDATE_COLUMNS)} from candidates where {where} order by score desc, number", values
    )
    candidates = []
    for row in rows:
        fields = {name: row[name] for name in _CANDIDATE_COLUMNS}
        for name in ("parts", "record"):
            fields[name] = json.loads(fields[name])
        for name in ("sessions", "projects"):
            fields[name] = tuple(json.loads(fields[name]))
        candidates.append(Candidate(**fields))
    return candidates


def store_candidates(
    connection: Connection, candidates: Iterable[Candidate], *, weighed_signatures: Iterable[str]
) -> None:
    """Write candidates for the first time or anew, and what was weighed.

    What was decided about them stays, and so do the words: a person accepts by a number what they saw under it. Words
    that nothing stands behind any more do go, and the candidate gets another number with its new ones.
    """
    rows, outdated_numbers = [], []
    for candidate in candidates:
        previous = find_by_signature(connection, candidate.signature)
        updated = _keep_wording(candidate, previous) if previous else candidate
        is_newly_listed = previous and (previous.status, candidate.status) == ("open", "candidate")
        should_keep = not is_newly_listed and previous and _should_keep_wording(connection, previous)
        if previous and updated.record != candidate.record and not should_keep:
            outdated_numbers.append((previous.number,))
            updated = candidate
        rows.append(_build_row(updated))
    names = [name for name in _CANDIDATE_COLUMNS if name != "number"]
    updated_columns = ("tier", "score", "parts", "occurrences", "sessions", "projects", "record")
    changes = ", ".join(f"{name} = excluded.{name}" for name in updated_columns)
    changes += ", status = iif(candidates.status in ('candidate', 'open'), excluded.status, candidates.status)"
    with transaction(connection):
        connection.executemany(
            "delete from candidates where number = ? and status in ('candidate', 'open')", outdated_numbers
        )
        connection.executemany(
            f"insert into candidates ({', '.join(names)}) values ({', '.join('?' * len(names))})"
            f" on conflict (signature) do update set {changes}",
            [tuple(row[name] for name in names) for row in rows],
        )
        connection.executemany(
            "update signals set fresh = 0 where signature = ?", [(signature,) for signature in weighed_signatures]
        )


def _keep_wording(candidate: Candidate, previous: Candidate) -> Candidate:
    """The proposal in the words it had before. What an agent's tag says of scope and priority are its words too."""
    wording_fields = (*_WORDING_FIELDS, "scope", "priority") if candidate.tier == 1 else _WORDING_FIELDS
    other_fields = {key: value for key, value in candidate.record.items() if key not in wording_fields}
    return replace(
        candidate,
        record={**other_fields, **{key: previous.record[key] for key in wording_fields if key in previous.record}},
    )


def _should_keep_wording(connection: Connection, previous: Candidate) -> bool:
    """Whether the words are to stay: they are whole and a signal says them still, or a person has decided about them.

    An episode that was under way when it was first read may end in other words, and a tag may be taken back.
    """
    if previous.status not in ("candidate", "open"):
        return True
    problem, solution = previous.record["problem"], previous.record["solution"]
    wordings = (
        (episode.body["problem"], episode.body["solution"]) for episode in list_episodes(connection, previous.signature)
    )
    return bool(solution) and (problem, solution) in wordings


def _build_row(candidate: Candidate) -> dict[str, object]:
    row = {name: getattr(candidate, name) for name in _CANDIDATE_COLUMNS}
    for name in ("parts", "record", "sessions", "projects"):
        row[name] = json.dumps(row[name], separators=(",", ":"))
    return row


def record_decision(connection: Connection, candidate_id: str, status: str, at: float | None, lesson: str = "") -> None:
    """By the id, which stays when a scan gives another number while a person makes up their mind."""
    with transaction(connection):
        set_status(connection, candidate_id, status, at, lesson)


def set_status(connection: Connection, candidate_id: str, status: str, at: float | None, lesson: str = "") -> None:
    """The same within the caller's transaction."""
    connection.execute(
        "update candidates set status = ?, decided_at = ?, lesson = ? where id = ?",
        (status, at, lesson, candidate_id),
    )


def list_slugs(connection: Connection) -> set[str]:
    return {row["slug"] for row in connection.execute("select slug from candidates")}


def store_judgements(connection: Connection, judgements: Iterable[Judgement]) -> None:
    rows = [
        (
            judgement.candidate,
            judgement.at,
            judgement.reader,
            judgement.verdict,
            json.dumps(judgement.body),
            judgement.void,
        )
        for judgement in judgements
    ]
    with transaction(connection):
        connection.executemany(
            "insert into judgements (candidate, at, reader, verdict, body, void) values (?, ?, ?, ?, ?, ?)", rows
        )


def list_latest_judgements(connection: Connection) -> dict[int, Judgement]:
    """The latest judgement of each candidate that has one that counts; else the latest void one."""
    rows = connection.execute(
        "select candidate, at, reader, verdict, body, void from judgements order by void = '', at, id"
    )
    return {
        row["candidate"]: Judgement(
            row["candidate"], row["at"], row["reader"], row["verdict"], json.loads(row["body"]), row["void"]
        )
        for row in rows
    }


def add_scan(connection: Connection, scan: Scan) -> None:
    names = tuple(Scan.__annotations__)
    with transaction(connection):
        connection.execute(
            f"insert into scans ({', '.join(names)}) values ({', '.join('?' * len(names))})",
            tuple(getattr(scan, name) for name in names),
        )


def find_last_scan_time(connection: Connection, *kinds: str) -> float | None:
    """When the latest scan of these kinds was, of any kind if none is named."""
    where = f"where kind in ({', '.join('?' * len(kinds))})" if kinds else ""
    last_at: float | None = connection.execute(f"select max(at) from scans {where}", kinds).fetchone()[0]
    return last_at
