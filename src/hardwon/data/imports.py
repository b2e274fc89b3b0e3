"""Import lines of JSON from an export, or records converted from another memory tool.

A file may have been changed on its way, so each line is checked and cleaned like a hook's report. Cleaning clean text
changes nothing, so an unchanged export is imported as it was. Records with a known key are skipped.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from hardwon import clock
from hardwon.data.exports import EXPORT_FORMAT, EXPORT_VERSION, KINDS, NULLABLE_COLUMNS, ExportRecord
from hardwon.errors import UserError
from hardwon.privacy.cleaning import clean_text
from hardwon.privacy.identifiers import clean_id
from hardwon.privacy.private_tags import map_strings, strip_private_deep
from hardwon.privacy.redaction import redact_value
from hardwon.projects import strip_credentials
from hardwon.store import deletions, events, runs, turns
from hardwon.store.db import Connection, fetch_column, fetch_value, insert_row, transaction
from hardwon.store.observations import FROM_CLAUDE_MEM
from hardwon.text.excerpts import create_slug
from hardwon.types import frozen

_BATCH_SIZE = 200  # lines in one transaction
_SAME_PROMPT_SECONDS = 120.0  # within which equal text is the same prompt, from whichever source
_SESSION_ITEMS = ("prompt", "event", "observation", "summary")
# An id that looks like a secret is replaced by a hash, so that records with the same id still belong together.
_CLEANED_IDS = frozenset({"host", "session", "agent", "tool", "tool_use_id"})
# Changing one of these would part a record from what refers to it.
_UNCLEANED_KEYS = frozenset({"path", "sourceSessionIds", "id", "slug", "contentHash", "host", "session"})
# Of a lesson only what was written by somebody is cleaned; its patterns are code.
_PROSE_KEYS = frozenset(
    {"summary", "problem", "solution", "mistake", "fix", "remediation", "injection", "blockReason", "quote"}
)
# SQLite's integers end at 2**63.
_MAX_NUMBER = 2**62
_DATED_WHEN_IMPORTED = ("session", "event")  # retention counts these from when they were imported
NumberedRecord = tuple[int, ExportRecord]


class BadLine(Exception):
    """A line that cannot be imported, and why."""


@frozen
class ImportResult:
    """The result of an import.

    Counts of records by kind, failed lines with the reasons, the lessons for the caller to import or propose, and the
    keys of new memories and reflections.
    """

    imported_counts: Mapping[str, int]
    faults: tuple[tuple[int, str], ...]
    lesson_records: tuple[NumberedRecord, ...]
    new_memory_keys: tuple[str, ...] = ()
    new_reflection_keys: tuple[str, ...] = ()
    deleted: int = 0  # records left out, since they were deleted here


def check_header(line: str, name: str) -> None:
    """Raise UserError if this is not the first line of an export that we can read."""
    try:
        header = json.loads(line)
    except ValueError:
        header = None
    if not isinstance(header, dict) or header.get("format") != EXPORT_FORMAT:
        raise UserError(f"{name} does not begin with the header of an export", "write one with: hardwon export")
    version = header.get("version")
    # Older versions stay readable; a newer one may mean something else by the same name.
    if not isinstance(version, int) or version > EXPORT_VERSION:
        message = f"{name} has version {version} of the format, this hardwon knows {EXPORT_VERSION}"
        raise UserError(message, "upgrade hardwon")


def parse_records(lines: Iterable[str], faults: list[tuple[int, str]]) -> Iterator[NumberedRecord]:
    """Yield the records behind a header, with the numbers of their lines."""
    for number, line in enumerate(lines, 2):
        if not line.strip():
            continue  # such as the last line
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if isinstance(record, dict):
            yield number, record
        else:
            faults.append((number, "it is not a JSON object"))


def import_records(
    connection: Connection,
    records: Iterable[NumberedRecord],
    faults: list[tuple[int, str]],
    *,
    is_approved: bool,
    restore_deleted: bool = False,
) -> ImportResult:
    """Import all valid records; decisions about candidates are included only if a person approved the import.

    Records that were deleted here stay out, unless a person asks for them.
    """
    importer = _Importer(connection, is_approved, restore_deleted=restore_deleted)
    remaining = iter(records)
    while batch := list(islice(remaining, _BATCH_SIZE)):
        valid_records = []
        for number, record in batch:  # outside the transaction, since cleaning is slow and hooks write too
            try:
                valid_records.append((number, str(record.get("what")), _check_record(record)))
            except BadLine as error:
                faults.append((number, str(error)))
        with transaction(connection):
            for number, kind, record in valid_records:
                try:
                    importer.import_record(number, kind, record)
                except BadLine as error:
                    faults.append((number, str(error)))
            # In the same transaction, so that counts and rows never disagree.
            importer.recount_sessions()
    importer.finish()
    return ImportResult(
        imported_counts=importer.imported_counts,
        faults=tuple(sorted(faults)),
        lesson_records=tuple(importer.lesson_records),
        new_memory_keys=tuple(importer.new_keys["memory"]),
        new_reflection_keys=tuple(importer.new_keys["reflection"]),
        deleted=importer.deleted_count,
    )


def _check_record(record: ExportRecord) -> ExportRecord:
    """Return the record with the right types and nothing in it that may not be stored; BadLine if it is not one."""
    name = record.get("what")
    if name == "lesson":
        if not isinstance(record.get("lesson"), dict):
            raise BadLine("it has no lesson")
        lesson = map_strings(record["lesson"], lambda text, key: clean_text(text) if key in _PROSE_KEYS else text)
        return {"lesson": lesson}
    # Judgements come only inside their candidate.
    if not isinstance(name, str) or name not in KINDS or name == "judgement":
        raise BadLine(f"{name!r} is no kind of record")
    fields = _check_fields(name, record)
    if KINDS[name].has_session:
        fields |= _check_session_reference(name, record)
    must_name_session = name == "session" or name in _SESSION_ITEMS
    if must_name_session and not (fields["host"] and fields["session"]):
        raise BadLine(f"{name}: host and session are empty")
    if name == "project":
        fields["remote"] = strip_credentials(fields["remote"])
    elif name == "session":
        fields["project"] = record.get("project") and _check_type(name, "project", str, record["project"])
    elif name == "signal":
        fields["errors"] = [str(error) for error in record.get("errors") or ()]
    elif name == "candidate":
        fields |= _check_evidence(record)
    return fields


def _check_session_reference(kind: str, record: ExportRecord) -> dict[str, str]:
    """Return the agent and the session that a record belongs to; BadLine if it names none.

    Only a run may name none: those for a scan or a judgement belong to no session.
    """
    reference = {}
    for name in ("host", "session"):
        value = record.get(name)
        if kind == "run" and not value:
            reference[name] = ""
        else:
            reference[name] = clean_id(_check_type(kind, name, str, value))
    return reference


def _check_evidence(candidate: ExportRecord) -> dict[str, list[ExportRecord]]:
    """Return the checked signals and judgements of a candidate."""
    signals = candidate.get("signals") or ()
    judgements = candidate.get("judgements") or ()
    if not all(isinstance(item, dict) for item in (*signals, *judgements)):
        raise BadLine("what speaks for a candidate is not an object")
    return {
        "signals": [_check_record({**signal, "what": "signal"}) for signal in signals],
        "judgements": [_check_fields("judgement", judgement) for judgement in judgements],
    }


def _check_fields(kind: str, record: ExportRecord) -> ExportRecord:
    """Return the columns of a kind from a record, checked and cleaned."""
    fields = {}
    for column in KINDS[kind].columns:
        value = _check_type(kind, column.name, column.value_type, record.get(column.name))
        if column.name in _CLEANED_IDS and isinstance(value, str):
            fields[column.name] = clean_id(value)
        else:
            fields[column.name] = _clean_value(column.cleaning, value)
    return fields


def _check_type(kind: str, name: str, value_type: type, value: Any) -> Any:
    """Return the value if it has the type of its column (`object` is JSON or text); BadLine if it has not."""
    if value is None and name in NULLABLE_COLUMNS:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    is_too_large = is_number and not -_MAX_NUMBER < value < _MAX_NUMBER
    # Other tools write 3.0 as 3.
    if value_type is float and is_number and not is_too_large:
        value = float(value)
    expected_type = str | dict | list if value_type is object else value_type
    # To Python a bool is an int, but no column holds one.
    if not isinstance(value, expected_type) or isinstance(value, bool) or is_too_large:
        problem = "missing" if value is None else "not what it should be"
        raise BadLine(f"{kind}: {name} is {problem}")
    return value


def _clean_value(cleaning: str, value: Any) -> Any:
    """Return a value cleaned as its column says; one that is clean is returned as it is."""
    if cleaning == "text":
        return clean_text(value)
    if cleaning == "value":
        return map_strings(value, lambda text, key: text if key in _UNCLEANED_KEYS else clean_text(text))
    if cleaning == "json":
        return _clean_json(value)
    return value


def _clean_json(text: str) -> str:
    """Clean a text value by value if it is JSON, else as prose; JSON with nothing to clean keeps its spaces."""
    if not text.startswith(("{", "[", '"')):
        return clean_text(text)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return clean_text(text)
    cleaned = redact_value(strip_private_deep(value))
    return text if cleaned == value else json.dumps(cleaned)


def _is_covered(tombstones: deletions.Tombstones, kind: str, record: ExportRecord) -> bool:
    """Return whether a record was deleted here after it happened: by its session, its project, or its words."""
    happened_at = record.get("last_at" if kind == "session" else "at")
    # A signal's time is a text; without a time it counts as old.
    at = float(happened_at) if isinstance(happened_at, int | float) else None
    project = record.get("path") if kind == "project" else record.get("project")
    if tombstones.covers(deletions.SESSION, str(record.get("session") or ""), at):
        return True
    if tombstones.covers(deletions.PROJECT, str(project or ""), at):
        return True
    for signal in record.get("signals") or ():
        if _is_covered(tombstones, "signal", signal):
            return True
    return tombstones.covers_text(json.dumps(record, ensure_ascii=False), at)


class _Importer:
    """The state of one import.

    A record with a known key is not imported again, but a session that is here already may get new ones; it is then
    counted again. Sessions are known by their agents' ids in the lines, and by row numbers in the database.
    """

    def __init__(self, connection: Connection, is_approved: bool, *, restore_deleted: bool) -> None:
        self._connection = connection
        self._is_approved = is_approved  # whether a person imports; what an agent imports is only proposed

        # What was deleted here, and what of the export belongs to it.
        self._tombstones = None if restore_deleted else deletions.read_tombstones(connection)
        self._deleted_sessions: set[tuple[str, str]] = set()  # agent and session id
        # By path. A project that was deleted comes back only with a session from after that.
        self._deleted_projects: dict[str, ExportRecord] = {}

        # Sessions and turns of the export that are here now, by the sessions' row numbers.
        self._session_ids: dict[tuple[str, str], int] = {}  # the row numbers by agent and session id
        self._existing_sessions: set[int] = set()  # here before the import
        self._changed_sessions: set[int] = set()  # existing ones that are to be counted again
        self._private_turns: set[tuple[int, int]] = set()  # session and number of the prompt
        self._distilled_turns: dict[int, dict[int, str]] = {}  # by session and number of the prompt: what distilled it

        # The result.
        self.deleted_count = 0
        self.imported_counts: Counter[str] = Counter()  # by kind of record
        self.lesson_records: list[NumberedRecord] = []
        self.new_keys: dict[str, list[str]] = {"memory": [], "reflection": []}

    def import_record(self, number: int, kind: str, record: ExportRecord) -> None:
        """Import the checked record of a line; BadLine if it refers to a project or session that is not here."""
        if self._tombstones and self._note_deleted(self._tombstones, kind, record):
            self.deleted_count += 1
        elif kind == "lesson":
            self.lesson_records.append((number, record["lesson"]))
        elif kind == "session":
            self._import_session(record)
        elif kind == "candidate":
            self._import_candidate(record)
        elif kind == "signal":
            self._import_signal(record, fresh=True)
        elif kind in _SESSION_ITEMS:
            self._import_session_item(kind, record)
        elif kind == "run":
            self._import_run(record)
        # What an agent imports is proposed: only a person can approve.
        elif kind == "memory" and not self._is_approved:
            self._insert_record(kind, record, status="candidate", decided_at=None, file="")
        elif kind == "reflection" and not self._is_approved:  # a reflection names a file, and agents get its next step
            self._insert_record(kind, record, status="moot", draft="")
        else:
            self._insert_record(kind, record)

    def _note_deleted(self, tombstones: deletions.Tombstones, kind: str, record: ExportRecord) -> bool:
        """Return whether a record was deleted here, by its session, project or words; remember the first two."""
        session = (record.get("host") or "", record.get("session") or "")
        if session in self._deleted_sessions:
            return True
        is_deleted = _is_covered(tombstones, kind, record)
        if is_deleted and kind == "session":
            self._deleted_sessions.add(session)
        if is_deleted and kind == "project":
            self._deleted_projects[record["path"]] = record
        return is_deleted

    def recount_sessions(self) -> None:
        """Count the sessions again that were here before and got something."""
        for session in self._changed_sessions:
            events.recount_session(self._connection, session)
        self._changed_sessions.clear()

    def finish(self) -> None:
        """Mark turns that came with their observations as distilled, and have the others distilled."""
        # Turns of sessions that existed before may have more data than the import, so they are distilled.
        for session, makers in self._distilled_turns.items():
            turns.mark_distilled(self._connection, session, makers)
        turns.enqueue_undistilled(self._connection, clock.now())

    def _insert_record(self, kind: str, record: ExportRecord, **extra: Any) -> bool:
        """Insert a record's columns and these; return whether it is new."""
        row = {column.name: record[column.name] for column in KINDS[kind].columns} | extra
        for name, value in row.items():
            if isinstance(value, dict | list):
                row[name] = json.dumps(value, separators=(",", ":"))
        if kind in _DATED_WHEN_IMPORTED:
            row["taken_at"] = clock.now()
        # A record with a known key is the same record, so the first one stays.
        inserted = insert_row(self._connection, KINDS[kind].table, row, verb="insert or ignore").rowcount
        self.imported_counts[kind] += inserted
        if inserted and kind in self.new_keys:
            self.new_keys[kind].append(str(row["key"]))
        return bool(inserted)

    def _import_session(self, record: ExportRecord) -> None:
        """Import a session; one that is here already only gets the times and the project that it lacks."""
        path = record["project"]
        if path in self._deleted_projects:  # this session is from after the project was deleted
            self._insert_record("project", self._deleted_projects.pop(path))
        project = fetch_value(self._connection, "select id from projects where path = ?", path)
        if path and not project:
            raise BadLine(f"session: nothing was told before of the project {path!r}")
        is_new = self._insert_record("session", record, project=project, to_fill=0)
        session = self._find_session_id(record)
        if is_new:
            return  # the new session has the columns of the line
        self._existing_sessions.add(session)
        # The times of the existing session are widened by those of the export.
        changed = self._connection.execute(
            """
            update sessions set project = coalesce(project, :project), started_at = min(started_at, :started_at),
                opened_at = max(opened_at, :opened_at), last_at = max(last_at, :last_at),
                ended_at = iif(:ended_at is null, ended_at, max(coalesce(ended_at, 0), :ended_at))
            where id = :id and (iif(project is null, :project, null) is not null or started_at > :started_at
                or opened_at < :opened_at or last_at < :last_at or coalesce(ended_at, 0) < :ended_at)
            """,
            {**record, "project": project, "id": session},
        ).rowcount
        if changed:
            self._changed_sessions.add(session)

    def _find_session_id(self, record: ExportRecord) -> int:
        """Return the row number of the session that a record names; BadLine if its line did not come before."""
        reference = (record["host"], record["session"])
        if reference not in self._session_ids:
            query = "select id from sessions where host = ? and session = ?"
            session_id = fetch_value(self._connection, query, *reference)
            if session_id is None:
                raise BadLine(f"nothing was told before of the session {record['session']!r}")
            self._session_ids[reference] = session_id
        return self._session_ids[reference]

    def _import_session_item(self, kind: str, record: ExportRecord) -> None:
        """Import what happened in a session; of a turn whose prompt was wholly private nothing comes in."""
        session = self._find_session_id(record)
        turn = record.get("prompt")  # of an event or observation, the number of its prompt; a summary has none
        if kind == "prompt":
            turn = record["number"]
            if not record["prompt"].strip():  # cleaning left nothing of it
                self._private_turns.add((session, turn))
                self._changed_sessions.add(session)
        if (session, turn) in self._private_turns:
            return
        if kind == "prompt" and session in self._existing_sessions and self._has_prompt(session, record):
            return
        is_new = self._insert_record(kind, record, session=session)
        if is_new and session in self._existing_sessions:
            self._changed_sessions.add(session)
        elif is_new and kind == "observation" and record["made"] != FROM_CLAUDE_MEM:
            # Distilling leaves claude-mem's observations in place, so their turns need no mark.
            self._distilled_turns.setdefault(session, {})[record["prompt"]] = record["made"]

    def _has_prompt(self, session: int, record: ExportRecord) -> bool:
        """Return whether the session has this prompt already, from a hook or a transcript, under another key."""
        query = "select 1 from prompts where session = ? and prompt = ? and abs(at - ?) < ?"
        return bool(fetch_value(self._connection, query, session, record["prompt"], record["at"], _SAME_PROMPT_SECONDS))

    def _import_run(self, record: ExportRecord) -> None:
        """Import a run unless one of its time and purpose is here; it counts for its day as if it was made here."""
        try:
            # The exporting machine may have been in any time zone, so its day differs by at most a day and a half.
            first_day, day, last_day = (runs.to_local_day(record["at"] + hours * 3600) for hours in (-36, 0, 36))
        except (OverflowError, ValueError, OSError):
            raise BadLine("run: at is no time") from None
        query = "select 1 from runs where day between ? and ? and (at, purpose, provider, model) = (?, ?, ?, ?)"
        identity = (record["at"], record["purpose"], record["provider"], record["model"])
        if not fetch_value(self._connection, query, first_day, last_day, *identity):
            session = self._find_session_id(record) if record["session"] else None
            self._insert_record("run", record, day=day, session=session)

    def _import_signal(self, record: ExportRecord, *, fresh: bool) -> None:
        """Import a signal with the keys of its errors; a `fresh` one makes its candidate be weighed again."""
        if self._insert_record("signal", record, fresh=fresh):
            self._connection.executemany(
                "insert or ignore into signal_errors (error, signal) values (?, ?)",
                [(error, record["key"]) for error in record["errors"]],
            )

    def _import_candidate(self, record: ExportRecord) -> None:
        """Import a candidate under a number of its own here. One that is here stays, and is weighed again."""
        query = "select 1 from candidates where signature = ? or id = ?"
        is_here = bool(fetch_value(self._connection, query, record["signature"], record["id"]))
        for signal in record["signals"]:
            self._import_signal(signal, fresh=is_here)
        if is_here:
            return  # with what was decided about it here
        if not self._is_approved:
            record |= {"status": "candidate", "decided_at": None, "lesson": ""}
        used_slugs = set(fetch_column(self._connection, "select slug from candidates"))
        if record["slug"] in used_slugs:
            record["slug"] = create_slug(record["slug"], used_slugs, clock.create_suffix)
        self._insert_record("candidate", record)
        number = fetch_value(self._connection, "select number from candidates where id = ?", record["id"])
        for judgement in record["judgements"]:
            self._insert_record("judgement", judgement, candidate=number)
