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
from hardwon.handoff.findings import MENU, detect_findings
from hardwon.handoff.repository_context import add_repository_context
from hardwon.handoff.transcript_story import Story
from hardwon.privacy.sensitive_sessions import has_sensitive_word
from hardwon.store import reflections
from hardwon.store.db import Connection, read_epoch, transaction
from hardwon.store.memories import list_memories
from hardwon.store.purge_lock import hold_write_lock
from hardwon.store.reflection_types import Finding, SuggestedMemory
from hardwon.store.reflections import Reflection, WrittenFile
from hardwon.types import frozen, replace

DRAFTS_FOLDER, LOGS_FOLDER, LOCK_FILE = "drafts", os.path.join("logs", "reflections"), "reflect.lock"
DRAFT_SUFFIX = ".draft.md"
# Folders that came with a file, and go with the last one in them.
_REMOVABLE_FOLDERS = (projects.SESSIONS_FOLDER, os.sep + "docs", os.path.join(".claude", "memory"), os.sep + ".claude")
_MAX_DRAFT_BYTES = 1_000_000  # bytes of a file that may be a draft
_MIN_WEIGHT, _MAX_WEIGHT, _MIN_DECISIONS = 0.25, 1.5, 3

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
    sensitive_words: Sequence[str] = (),
) -> ReflectionResult:
    """Draft a handoff of the session in a transcript; UserError if somebody is at it, or it says nothing.

    `propose` is given each memory that nobody knows yet. Of a folder that is `shut` nothing is sent to a model.
    """
    epoch = read_epoch(connection)
    story = transcript_story.read_story(transcript, agent)
    if not story.steps:
        raise UserError(f"{transcript} holds nothing that may be told of", "a session that is private is left alone")
    if has_sensitive_word((step.text for step in story.steps if step.kind == "person"), sensitive_words):
        message = f"session {story.session} is marked as sensitive, so nothing is drafted from it"
        raise UserError(message, "hardwon config get sensitiveWords shows the words that mark a session")
    with alone(home, story.session) as is_alone:
        if not is_alone:
            raise UserError(f"session {story.session} is being reflected on already", "wait a moment, then try again")
        ask = None if is_denied(story.cwd) else ask
        return _write_reflection(
            connection,
            home,
            story,
            now,
            ask,
            propose,
            max_turns,
            queue_folder or memory_queue.get_queue_folder(),
            epoch,
        )


def _write_reflection(
    connection: Connection,
    home: str,
    story: Story,
    now: float,
    ask: AskModel | None,
    propose: ProposeMemory | None,
    max_turns: int,
    queue_folder: str,
    epoch: int,
) -> ReflectionResult:
    context = reflections.read_context(connection, story.project, now, agent=story.agent, session=story.session)
    past = add_repository_context(context, story.project, story.started_at, story.ended_at)
    findings = weigh_findings(detect_findings(story, past), reflections.count_item_decisions(connection))
    queued = memory_queue.read_queue(queue_folder, story.session)
    # One that another session's draft proposes is listed there; this session's own belong on its new page as well.
    listed = list_memories(connection, "active", "rejected", "candidate", project=story.project)
    known_texts = [entry.text for entry in listed if entry.status != "candidate" or entry.session != story.session]
    memories = drop_known_memories(_suggest_memories(story, queued, findings), known_texts)
    draft, fallback_reason, log = build_draft(story, findings, memories), "", dict[str, Any]()
    if ask:
        try:
            draft = model_draft.refine_draft(draft, past, ask, log, max_turns=max_turns)
        except Failed as error:
            fallback_reason = f"by plain code: {error.reason}"
    key = clock.create_ulid(now)
    log_path = os.path.join(home, LOGS_FOLDER, f"{key}.json")
    with hold_write_lock(home, connection, epoch):
        paths.write_private(
            log_path, _dump_json({"session": story.session, "said": fallback_reason, "findings": findings, **log})
        )
        page = _write_draft(connection, home, story, render_draft(draft))
        superseded = _remove_superseded(connection, story, page)
        record = Reflection(
            0,
            key,
            story.agent,
            story.session,
            story.project,
            now,
            "plain" if draft.made_by == "plain" else "model",
            draft=page.path,
            topic=draft.topic,
            resume="\n".join(entry.text for entry in draft.resume),
            confidence=draft.confidence,
            findings=draft.findings,
            files=(page, *superseded, *_list_queue_files(queued)),
            log=log_path,
        )
        record = reflections.insert(connection, record)
    if propose:
        for entry in draft.memories:
            propose(entry, story)
    memory_queue.remove_statements(queued)
    return ReflectionResult(record, draft, fallback_reason)


def weigh_findings(findings: Sequence[Finding], decisions: Mapping[str, tuple[int, int]]) -> list[Finding]:
    """The findings, scored by how telling they are and by how often people kept what the item said, best first."""
    scored = [
        replace(finding, score=min(finding.score * compute_weight(*decisions.get(finding.item, (0, 0))), 1.0))
        for finding in findings
    ]
    return sorted(scored, key=lambda finding: -finding.score)


def compute_weight(kept_count: int, dropped_count: int) -> float:
    """Between a quarter and one and a half; an item that was seldom decided about stays where it is."""
    if kept_count + dropped_count < _MIN_DECISIONS:
        return 1.0
    share = (kept_count + 1) / (
        kept_count + dropped_count + 2
    )  # with one more of each, so that few decisions move it little
    return _MIN_WEIGHT + (_MAX_WEIGHT - _MIN_WEIGHT) * share


def list_menu_items(connection: Connection) -> list[dict[str, Any]]:
    """The menu as it stands: what people kept and dropped of each item, those that weigh most first."""
    decisions = reflections.count_item_decisions(connection)
    rows = [
        {
            "item": item.name,
            "group": item.group,
            "help": item.help,
            "kept": kept_count,
            "dropped": dropped_count,
            "weight": round(compute_weight(kept_count, dropped_count), 2),
        }
        for item in MENU
        for kept_count, dropped_count in [decisions.get(item.name, (0, 0))]
    ]
    return sorted(rows, key=lambda row: -row["weight"])


def _suggest_memories(
    story: Story, queued: Sequence[memory_queue.QueuedStatement], findings: Sequence[Finding]
) -> Iterator[SuggestedMemory]:
    """What waits in the queue, what was said to be remembered and is not there, and what findings suggest.

    Where it was said is known by the words: the queue counts turns that a transcript does not have.
    """
    prompts = [
        (" ".join(entry.prompt.text.split()), entry.prompt)
        for entry in transcript_story.split_exchanges(story)
        if entry.prompt
    ]
    for entry in queued:
        words = entry.quote or entry.text
        step = next((step for text, step in prompts if words in text), None)
        evidence = (transcript_story.quote_step(story, step, words),) if step else ()
        yield SuggestedMemory(entry.type, entry.text, evidence, entry.turn)
    yield from find_stated_memories(story)
    for finding in select_findings(findings):
        if finding.memory:
            quote = finding.evidence[0].quote if finding.evidence else ""
            is_quoted = quote and finding.text.endswith(f"“{quote}”")
            yield SuggestedMemory(finding.memory, quote if is_quoted else finding.text, finding.evidence)


def _list_queue_files(queued: Sequence[memory_queue.QueuedStatement]) -> list[WrittenFile]:
    return [WrittenFile(path, raw) for path, raw in {statement.path: statement.raw for statement in queued}.items()]


def _write_draft(connection: Connection, home: str, story: Story, text: str) -> WrittenFile:
    """Put the draft into the home, under the names of its project and session."""
    known_files = {
        (file.path, file.after)
        for reflection in reflections.list_reflections(connection, session=story.session)
        for file in reflection.files
    }
    content = text.encode("utf-8", "replace")
    name = paths.build_draft_name(story.project, story.session)
    path, previous_text = _find_free_path(os.path.join(home, DRAFTS_FOLDER), name, known_files, content)
    paths.write_document(home, path, text)
    return WrittenFile(path, previous_text, fingerprint_bytes(content))


def _remove_superseded(connection: Connection, story: Story, page: WrittenFile) -> list[WrittenFile]:
    """Remove earlier drafts of the session that lie elsewhere and nobody edited, such as in a repository.

    Gives them with what they said, so that an undo puts them back.
    """
    removed = list[WrittenFile]()
    for earlier in reflections.list_reflections(connection, reflections.DRAFT, session=story.session):
        content = _read_content(earlier.draft)
        fingerprints = {file.after for file in earlier.files if file.path == earlier.draft}
        is_unchanged = content is not None and fingerprint_bytes(content) in fingerprints
        if earlier.draft == page.path or not is_unchanged or os.path.islink(earlier.draft):
            continue
        os.unlink(earlier.draft)
        _remove_empty_folders(earlier.draft)
        removed.append(WrittenFile(earlier.draft, (content or b"").decode("utf-8", "replace")))
    return removed


def _find_free_path(
    folder: str, name: str, known_files: set[tuple[str, str]], content: bytes
) -> tuple[str, str | None]:
    """A path for the page, and what stands there: nothing, or a page of ours that nobody changed.

    What says the very same is ours too: somebody was cut off before it could be noted.
    """
    for number in count(1):
        path = os.path.join(folder, f"{name}{f'-{number}' if number > 1 else ''}{DRAFT_SUFFIX}")
        if not os.path.lexists(path):
            return path, None
        existing = _read_content(path) if not os.path.islink(path) else None
        if existing and (path, fingerprint_bytes(existing)) in known_files:
            return path, existing.decode("utf-8", "replace")
        if existing == content:
            return path, None
    raise AssertionError("numbers do not end")


def _read_content(path: str) -> bytes | None:
    try:
        with open(path, "rb", opener=paths.open_plain_file) as file:
            return file.read(_MAX_DRAFT_BYTES)
    except OSError:
        return None


def fingerprint_bytes(content: bytes) -> str:
    return sha256(content).hexdigest()


def undo(connection: Connection, home: str, number: int, now: float) -> Reflection:
    """Put back every file as it was before; UserError, and nothing touched, if somebody changed one since."""
    reflection = reflections.get(connection, number)
    if not reflection:
        raise UserError(f"there is no reflection {number}", "hardwon handoff list")
    if not reflection.files:
        raise UserError(f"reflection {number} was undone already", "hardwon handoff list")
    for file in reflection.files:
        current = _read_content(file.path)
        is_unchanged = not os.path.islink(file.path) and fingerprint_bytes(current or b"") == file.after
        if current is not None and not is_unchanged and not _is_restored(file, current):
            raise UserError(f"{file.path} was changed since", "move it away if it is not needed, then try again")
    for file in reversed(reflection.files):
        _restore_file(home, file)
    with transaction(connection):
        reflections.set_files(connection, number, ())
        reflections.set_status(connection, number, reflections.DISCARDED, now, expected_status=reflection.status)
        _reactivate_replaced(connection, reflection, now)
    return reflection


def _is_restored(file: WrittenFile, content: bytes | None) -> bool:
    """Whether it is as before already: somebody was cut off while undoing."""
    return file.before is not None and content == file.before.encode("utf-8", "replace")


def _reactivate_replaced(connection: Connection, undone: Reflection, now: float) -> None:
    """The page that gave way to an undone one is back, so it waits or counts as it did."""
    restored = {file.path: file.before for file in undone.files if file.before is not None}
    for reflection in reflections.list_reflections(connection, reflections.MOOT, session=undone.session):
        fingerprints = {file.after for file in reflection.files if file.path == reflection.draft}
        if (
            reflection.draft in restored
            and fingerprint_bytes(restored[reflection.draft].encode("utf-8", "replace")) in fingerprints
        ):
            status = reflections.DRAFT if reflection.draft.endswith(DRAFT_SUFFIX) else reflections.RATIFIED
            reflections.set_status(connection, reflection.id, status, now, expected_status=reflections.MOOT)
            return


def _restore_file(home: str, file: WrittenFile) -> None:
    if _is_restored(file, _read_content(file.path)):
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
        if folder.endswith(_REMOVABLE_FOLDERS) and not os.listdir(folder):
            os.rmdir(folder)


@contextmanager
def alone(home: str, session: str) -> Iterator[bool]:
    """Whether nobody else reflects on this session: each has a byte of one file to lock."""
    paths.make_private_folder(home)
    lock_offset = int.from_bytes(blake2b(session.encode("utf-8", "replace"), digest_size=6).digest(), "big")
    with open(os.open(os.path.join(home, LOCK_FILE), os.O_RDWR | os.O_CREAT, 0o600), "r+b") as lock:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, lock_offset)
        except OSError:
            yield False
            return
        yield True


def _dump_json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, indent=1, default=vars, ensure_ascii=False).encode("utf-8", "replace")


def to_json(result: ReflectionResult) -> dict[str, Any]:
    """What `hardwon reflect --json` prints."""
    draft = result.draft
    return {
        "id": result.record.id,
        "session": draft.story.session,
        "draft": result.record.draft,
        "topic": draft.topic,
        "made": draft.made_by,
        "said": result.fallback_reason,
        "confidence": draft.confidence,
        "findings": [
            {
                "item": entry.item,
                "text": entry.text,
                "score": entry.score,
                "target": entry.target,
                "evidence": [vars(source) for source in entry.evidence],
            }
            for entry in draft.findings
        ],
        "memories": [
            {"type": entry.type, "text": entry.text, "evidence": [vars(source) for source in entry.evidence]}
            for entry in draft.memories
        ],
        "lessons": [
            {
                "problem": entry.problem,
                "solution": entry.solution,
                "score": entry.score,
                "evidence": [vars(source) for source in entry.evidence],
            }
            for entry in draft.lessons
        ],
    }
