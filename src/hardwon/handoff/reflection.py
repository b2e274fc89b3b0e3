"""Reflecting on one session: read, detect, draft, write; each of it can be looked up afterwards, and undone.

The draft goes into the home, never into a repository: that gets the page once a person ratified it. A file that
somebody wrote or changed is not written over.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b, sha256
from itertools import count
from typing import Any

from hardwon import clock, paths, projects
from hardwon.distil.llm.exchange import Failed
from hardwon.distil.refinement import AskModel
from hardwon.errors import UserError
from hardwon.handoff import memory_queue, model_draft, transcript_story
from hardwon.handoff.draft import (
    Draft,
    build_draft,
    drop_known_memories,
    find_stated_memories,
    render_draft,
    select_findings,
)
from hardwon.handoff.menu import MENU, detect_findings
from hardwon.handoff.repository_context import add_repository_context
from hardwon.handoff.transcript_story import Story
from hardwon.store import memories as remembered
from hardwon.store import reflections
from hardwon.store.db import Connection, read_epoch, transaction
from hardwon.store.purge_lock import hold_write_lock
from hardwon.store.reflection_types import Finding, SuggestedMemory
from hardwon.store.reflections import Reflection, WrittenFile
from hardwon.types import frozen, replace

DRAFTS_FOLDER, LOGS_FOLDER, LOCK_FILE = "drafts", os.path.join("logs", "reflections"), "reflect.lock"
DRAFT_SUFFIX = ".draft.md"
# Folders that came with a file, and go with the last one in them.
_MADE = (projects.SESSIONS_FOLDER, os.sep + "docs", os.path.join(".claude", "memory"), os.sep + ".claude")
_LARGEST = 1_000_000  # bytes of a file that may be a draft
_LEAST_WEIGHT, _MOST_WEIGHT, _SEEN_ENOUGH = 0.25, 1.5, 3

ProposeMemory = Callable[[SuggestedMemory, Story], object]


@frozen
class ReflectionResult:
    """What came of it: the record, the draft and where it is; `said` is why a model has no part in it."""

    record: Reflection
    draft: Draft
    fallback_reason: str = ""


def reflect(
    connection: Connection,
    home: str,
    transcript: str,
    *,
    agent: str = "",
    now: float,
    ask: AskModel | None = None,
    propose: ProposeMemory | None = None,
    max_turns: int = model_draft.MAX_TURNS,
    queue_folder: str = "",
    is_denied: Callable[[str], bool] = lambda cwd: False,
) -> ReflectionResult:
    """Draft a handoff of the session in a transcript; UserError if somebody is at it, or it says nothing.

    `propose` is given each memory that nobody knows yet. Of a folder that is `shut` nothing is sent to a model.
    """
    read_in = read_epoch(connection)
    told = transcript_story.read_story(transcript, agent)
    if not told.steps:
        raise UserError(f"{transcript} holds nothing that may be told of", "a session that is private is left alone")
    with alone(home, told.session) as mine:
        if not mine:
            raise UserError(f"session {told.session} is being reflected on already", "wait a moment, then try again")
        ask = None if is_denied(told.cwd) else ask
        return _reflect(
            connection,
            home,
            told,
            now,
            ask,
            propose,
            max_turns,
            queue_folder or memory_queue.get_queue_folder(),
            read_in,
        )


def _reflect(
    connection: Connection,
    home: str,
    told: Story,
    now: float,
    ask: AskModel | None,
    propose: ProposeMemory | None,
    most_turns: int,
    folder: str,
    read_in: int,
) -> ReflectionResult:
    known = reflections.read_context(connection, told.project, now, agent=told.agent, session=told.session)
    past = add_repository_context(known, told.project, told.started_at, told.ended_at)
    found = weigh_findings(detect_findings(told, past), reflections.count_item_decisions(connection))
    queued = memory_queue.read_queue(folder, told.session)
    # One that another session's draft proposes is listed there; this session's own belong on its new page as well.
    listed = remembered.list_memories(connection, "active", "rejected", "candidate", project=told.project)
    known_texts = [one.text for one in listed if one.status != "candidate" or one.session != told.session]
    memories = drop_known_memories(_memories(told, queued, found), known_texts)
    made, said, log = build_draft(told, found, memories), "", dict[str, Any]()
    if ask:
        try:
            made = model_draft.refine_draft(made, past, ask, log, max_turns=most_turns)
        except Failed as failed:
            said = f"by plain code: {failed.reason}"
    key = clock.create_ulid(now)
    raw = os.path.join(home, LOGS_FOLDER, f"{key}.json")
    with hold_write_lock(home, connection, read_in):
        paths.write_private(raw, _dumped({"session": told.session, "said": said, "findings": found, **log}))
        page = _write(connection, home, told, render_draft(made))
        superseded = _remove_superseded(connection, told, page)
        record = Reflection(
            0,
            key,
            told.agent,
            told.session,
            told.project,
            now,
            "plain" if made.made == "plain" else "model",
            draft=page.path,
            topic=made.topic,
            resume="\n".join(one.text for one in made.resume),
            confidence=made.confidence,
            findings=made.findings,
            files=(page, *superseded, *_taken(queued)),
            log=raw,
        )
        record = reflections.insert(connection, record)
    if propose:
        for one in made.memories:
            propose(one, told)
    memory_queue.remove_statements(queued)
    return ReflectionResult(record, made, said)


def weigh_findings(found: Sequence[Finding], keeping: Mapping[str, tuple[int, int]]) -> list[Finding]:
    """The findings, scored by how telling they are and by how often people kept what the item said, best first."""
    scored = [replace(one, score=min(one.score * compute_weight(*keeping.get(one.item, (0, 0))), 1.0)) for one in found]
    return sorted(scored, key=lambda one: -one.score)


def compute_weight(kept: int, dropped: int) -> float:
    """Between a quarter and one and a half; an item that was seldom decided about stays where it is."""
    if kept + dropped < _SEEN_ENOUGH:
        return 1.0
    share = (kept + 1) / (kept + dropped + 2)  # with one more of each, so that few decisions move it little
    return _LEAST_WEIGHT + (_MOST_WEIGHT - _LEAST_WEIGHT) * share


def list_menu_items(connection: Connection) -> list[dict[str, Any]]:
    """The menu as it stands: what people kept and dropped of each item, those that weigh most first."""
    keeping = reflections.count_item_decisions(connection)
    rows = [
        {
            "item": one.name,
            "group": one.group,
            "help": one.help,
            "kept": kept,
            "dropped": dropped,
            "weight": round(compute_weight(kept, dropped), 2),
        }
        for one in MENU
        for kept, dropped in [keeping.get(one.name, (0, 0))]
    ]
    return sorted(rows, key=lambda row: -row["weight"])


def _memories(
    told: Story, queued: Sequence[memory_queue.QueuedStatement], found: Sequence[Finding]
) -> Iterator[SuggestedMemory]:
    """What waits in the queue, what was said to be remembered and is not there, and what findings suggest.

    Where it was said is known by the words: the queue counts turns that a transcript does not have.
    """
    asked = [
        (" ".join(one.prompt.text.split()), one.prompt) for one in transcript_story.split_exchanges(told) if one.prompt
    ]
    for one in queued:
        step = next((step for text, step in asked if one.text in text), None)
        yield SuggestedMemory(
            one.type, one.text, (transcript_story.quote_step(told, step, one.text),) if step else (), one.turn
        )
    yield from find_stated_memories(told)
    for finding in select_findings(found):
        if finding.memory:
            quote = finding.evidence[0].quote if finding.evidence else ""
            theirs = quote and finding.text.endswith(f"“{quote}”")
            yield SuggestedMemory(finding.memory, quote if theirs else finding.text, finding.evidence)


def _taken(queued: Sequence[memory_queue.QueuedStatement]) -> list[WrittenFile]:
    return [WrittenFile(path, raw) for path, raw in {one.path: one.raw for one in queued}.items()]


def _write(connection: Connection, home: str, told: Story, text: str) -> WrittenFile:
    """Put the draft into the home, under the names of its project and session."""
    known = {
        (file.path, file.after)
        for one in reflections.list_reflections(connection, session=told.session)
        for file in one.files
    }
    content = text.encode("utf-8", "replace")
    name = paths.build_draft_name(told.project, told.session)
    path, before = _free(os.path.join(home, DRAFTS_FOLDER), name, known, content)
    paths.write_document(home, path, text)
    return WrittenFile(path, before, fingerprint_bytes(content))


def _remove_superseded(connection: Connection, told: Story, page: WrittenFile) -> list[WrittenFile]:
    """Remove earlier drafts of the session that lie elsewhere and nobody edited, such as in a repository.

    Gives them with what they said, so that an undo puts them back.
    """
    removed = list[WrittenFile]()
    for earlier in reflections.list_reflections(connection, reflections.DRAFT, session=told.session):
        content = _content(earlier.draft)
        written = {file.after for file in earlier.files if file.path == earlier.draft}
        is_unchanged = content is not None and fingerprint_bytes(content) in written
        if earlier.draft == page.path or not is_unchanged or os.path.islink(earlier.draft):
            continue
        os.unlink(earlier.draft)
        _remove_empty_folders(earlier.draft)
        removed.append(WrittenFile(earlier.draft, (content or b"").decode("utf-8", "replace")))
    return removed


def _free(folder: str, name: str, known: set[tuple[str, str]], content: bytes) -> tuple[str, str | None]:
    """A path for the page, and what stands there: nothing, or a page of ours that nobody changed.

    What says the very same is ours too: somebody was cut off before it could be noted.
    """
    for number in count(1):
        path = os.path.join(folder, f"{name}{f'-{number}' if number > 1 else ''}{DRAFT_SUFFIX}")
        if not os.path.lexists(path):
            return path, None
        there = _content(path) if not os.path.islink(path) else None
        if there and (path, fingerprint_bytes(there)) in known:
            return path, there.decode("utf-8", "replace")
        if there == content:
            return path, None
    raise AssertionError("numbers do not end")


def _content(path: str) -> bytes | None:
    try:
        with open(path, "rb", opener=paths.open_plain_file) as file:
            return file.read(_LARGEST)
    except OSError:
        return None


def fingerprint_bytes(content: bytes) -> str:
    return sha256(content).hexdigest()


def undo(connection: Connection, home: str, number: int, now: float) -> Reflection:
    """Put back every file as it was before; UserError, and nothing touched, if somebody changed one since."""
    one = reflections.get(connection, number)
    if not one:
        raise UserError(f"there is no reflection {number}", "hardwon handoff list")
    if not one.files:
        raise UserError(f"reflection {number} was undone already", "hardwon handoff list")
    for file in one.files:
        there = _content(file.path)
        as_written = not os.path.islink(file.path) and fingerprint_bytes(there or b"") == file.after
        if there is not None and not as_written and not _is_back(file, there):
            raise UserError(f"{file.path} was changed since", "move it away if it is not needed, then try again")
    for file in reversed(one.files):
        _restore(home, file)
    with transaction(connection):
        reflections.set_files(connection, number, ())
        reflections.set_status(connection, number, reflections.DISCARDED, now, expected_status=one.status)
        _count_again(connection, one, now)
    return one


def _is_back(file: WrittenFile, there: bytes | None) -> bool:
    """Whether it is as before already: somebody was cut off while undoing."""
    return file.before is not None and there == file.before.encode("utf-8", "replace")


def _count_again(connection: Connection, undone: Reflection, now: float) -> None:
    """The page that gave way to an undone one is back, so it waits or counts as it did."""
    back = {file.path: file.before for file in undone.files if file.before is not None}
    for one in reflections.list_reflections(connection, reflections.MOOT, session=undone.session):
        written = {file.after for file in one.files if file.path == one.draft}
        if one.draft in back and fingerprint_bytes(back[one.draft].encode("utf-8", "replace")) in written:
            status = reflections.DRAFT if one.draft.endswith(DRAFT_SUFFIX) else reflections.RATIFIED
            reflections.set_status(connection, one.id, status, now, expected_status=reflections.MOOT)
            return


def _restore(home: str, file: WrittenFile) -> None:
    if _is_back(file, _content(file.path)):
        return
    if file.before is not None:
        os.makedirs(os.path.dirname(file.path), exist_ok=True)
        is_private = file.after == "" or paths.is_inside(home, file.path)
        paths.replace_file(file.path, file.before.encode("utf-8", "replace"), 0o600 if is_private else 0o644)
    elif os.path.lexists(file.path):
        os.unlink(file.path)
        _remove_empty_folders(file.path)


def _remove_empty_folders(path: str) -> None:
    """Remove the folders that came with a file of ours, if it was the last in them."""
    for folder in (os.path.dirname(path), os.path.dirname(os.path.dirname(path))):
        if folder.endswith(_MADE) and not os.listdir(folder):
            os.rmdir(folder)


@contextmanager
def alone(home: str, session: str) -> Iterator[bool]:
    """Whether nobody else reflects on this session: each has a byte of one file to lock."""
    paths.make_private_folder(home)
    place = int.from_bytes(blake2b(session.encode("utf-8", "replace"), digest_size=6).digest(), "big")
    with open(os.open(os.path.join(home, LOCK_FILE), os.O_RDWR | os.O_CREAT, 0o600), "r+b") as lock:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
        except OSError:
            yield False
            return
        yield True


def _dumped(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, indent=1, default=vars, ensure_ascii=False).encode("utf-8", "replace")


def to_json(done: ReflectionResult) -> dict[str, Any]:
    """What `hardwon reflect --json` prints."""
    made = done.draft
    return {
        "id": done.record.id,
        "session": made.story.session,
        "draft": done.record.draft,
        "topic": made.topic,
        "made": made.made,
        "said": done.fallback_reason,
        "confidence": made.confidence,
        "findings": [
            {
                "item": one.item,
                "text": one.text,
                "score": one.score,
                "target": one.target,
                "evidence": [vars(each) for each in one.evidence],
            }
            for one in made.findings
        ],
        "memories": [
            {"type": one.type, "text": one.text, "evidence": [vars(each) for each in one.evidence]}
            for one in made.memories
        ],
        "lessons": [
            {
                "problem": one.problem,
                "solution": one.solution,
                "score": one.score,
                "evidence": [vars(each) for each in one.evidence],
            }
            for one in made.lessons
        ],
    }
