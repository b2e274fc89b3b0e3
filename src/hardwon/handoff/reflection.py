"""Reflect on one session: read its transcript, detect findings, write a draft; every run is logged and can be undone.

The draft goes into the home, never into a repository; the repository gets the page once a person ratified it. A file
that somebody else wrote or edited is never overwritten.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from hardwon.handoff.repository_context import read_documented_code
from hardwon.handoff.transcript_story import Story
from hardwon.privacy.prompt_text import has_sensitive_word
from hardwon.store import reflections
from hardwon.store.db import Connection, read_epoch, transaction
from hardwon.store.memories import list_memories
from hardwon.store.purge import hold_write_lock
from hardwon.store.reflections import Finding, Reflection, ReflectionContext, SuggestedMemory, WrittenFile
from hardwon.types import frozen, replace

DRAFTS_FOLDER = "drafts"
LOGS_FOLDER = os.path.join("logs", "reflections")
LOCK_FILE = "reflect.lock"
DRAFT_SUFFIX = ".draft.md"
# Folders created together with a file, removed when they are empty.
_REMOVABLE_FOLDERS = (projects.SESSIONS_FOLDER, os.sep + "docs", os.path.join(".claude", "memory"), os.sep + ".claude")
_MAX_DRAFT_BYTES = 1_000_000  # read at most this much of a file
_MIN_WEIGHT, _MAX_WEIGHT, _MIN_DECISIONS = 0.25, 1.5, 3

ProposeMemory = Callable[[SuggestedMemory, Story], object]


@frozen
class ReflectionOptions:
    """What a reflection may read, whom it may ask, and where its memories go."""

    ask: AskModel | None = None  # None: drafted without a model
    max_turns: int = model_draft.MAX_TURNS  # of the session, sent to the model
    is_denied: Callable[[str], bool] = lambda cwd: False  # whether nothing of sessions in a folder may be sent
    sensitive_words: Sequence[str] = ()  # sessions with one of them are not drafted
    propose: ProposeMemory | None = None  # called with each new memory
    queue_folder: str = ""  # the user's own if empty


@frozen
class ReflectionResult:
    """The stored record and the draft; `fallback_reason` says why no model was used."""

    record: Reflection
    draft: Draft
    fallback_reason: str = ""


def reflect(
    connection: Connection,
    home: str,
    transcript: str,
    options: ReflectionOptions,
    *,
    agent: str = "",
    now: float,
) -> ReflectionResult:
    """Draft a handoff from a transcript; UserError if it is empty or another process is reflecting on it."""
    # If a purge runs while the draft is made, writing fails, so that deleted text does not come back.
    epoch = read_epoch(connection)
    story = transcript_story.read_story(transcript, agent)
    if not story.steps:
        raise UserError(f"{transcript} holds nothing that may be told of", "a session that is private is left alone")
    if has_sensitive_word((step.text for step in story.steps if step.kind == "person"), options.sensitive_words):
        message = f"session {story.session} is marked as sensitive, so nothing is drafted from it"
        raise UserError(message, "hardwon config get sensitiveWords shows the words that mark a session")
    with lock_session(home, story.session) as is_locked:
        if not is_locked:
            raise UserError(f"session {story.session} is being reflected on already", "wait a moment, then try again")
        return _write_reflection(connection, home, story, options, now=now, epoch=epoch)


def _write_reflection(
    connection: Connection, home: str, story: Story, options: ReflectionOptions, *, now: float, epoch: int
) -> ReflectionResult:
    """Draft the handoff, write it with its log, and record it with all files that this changed.

    Statements of the queue and stated memories are proposed with it. If the model fails, the draft is made by plain
    code, and the result says why. `epoch` is the database's from before the transcript was read: `PurgeConflict` if a
    purge has ended it.
    """
    context = reflections.read_context(connection, story.project, now, agent=story.agent, session=story.session)
    past = replace(context, documented_code=read_documented_code(story.project))
    findings = weigh_findings(detect_findings(story, past), reflections.count_item_decisions(connection))
    queued = memory_queue.read_queue(options.queue_folder or memory_queue.get_queue_folder(), story.session)
    memories = _select_new_memories(connection, story, _suggest_memories(story, queued, findings))
    log: dict[str, Any] = {"session": story.session, "findings": findings}
    draft, fallback_reason = _refine_draft(build_draft(story, findings, memories), past, options, log)
    with hold_write_lock(home, connection, epoch):
        record = _record_draft(connection, home, draft, queued, {**log, "said": fallback_reason}, now)
    if options.propose:
        for entry in draft.memories:
            options.propose(entry, story)
    memory_queue.remove_statements(queued)
    return ReflectionResult(record, draft, fallback_reason)


def _select_new_memories(
    connection: Connection, story: Story, suggested: Iterable[SuggestedMemory]
) -> list[SuggestedMemory]:
    """Return the suggested memories that the project does not have yet, as accepted, rejected or proposed ones."""
    # A proposal of another session is on the page of that session; those of this one belong on its new page too.
    listed = list_memories(connection, "active", "rejected", "candidate", project=story.project)
    known_texts = [entry.text for entry in listed if entry.status != "candidate" or entry.session != story.session]
    return drop_known_memories(suggested, known_texts)


def _refine_draft(
    plain_draft: Draft, past: ReflectionContext, options: ReflectionOptions, log: dict[str, Any]
) -> tuple[Draft, str]:
    """Have a model rewrite the draft, if one may be asked; if it fails, return the plain draft and why."""
    if options.ask is None or options.is_denied(plain_draft.story.cwd):
        return plain_draft, ""
    try:
        return model_draft.refine_draft(plain_draft, past, options.ask, log, max_turns=options.max_turns), ""
    except Failed as error:
        return plain_draft, f"by plain code: {error.reason}"


def _record_draft(
    connection: Connection,
    home: str,
    draft: Draft,
    queued: Sequence[memory_queue.QueuedStatement],
    log: Mapping[str, Any],
    now: float,
) -> Reflection:
    """Write the draft and its log, and store the reflection with all changed files, so that undo can restore them."""
    story = draft.story
    key = clock.create_ulid(now)
    log_path = os.path.join(home, LOGS_FOLDER, f"{key}.json")
    paths.write_private(log_path, _dump_json(log))
    page = _write_draft(connection, home, story, render_draft(draft))
    superseded = _remove_superseded(connection, story, page)
    record = Reflection(
        id=0,  # `insert` gives the number
        key=key,
        host=story.agent,
        session=story.session,
        project=story.project,
        at=now,
        kind="plain" if draft.made_by == "plain" else "model",
        draft=page.path,
        topic=draft.topic,
        resume="\n".join(entry.text for entry in draft.resume),
        confidence=draft.confidence,
        findings=draft.findings,
        files=(page, *superseded, *_list_queue_files(queued)),
        log=log_path,
    )
    return reflections.insert(connection, record)


def weigh_findings(findings: Sequence[Finding], decisions: Mapping[str, tuple[int, int]]) -> list[Finding]:
    """Scale scores by how often people kept findings of the same item; return the best first."""
    scored = []
    for finding in findings:
        kept_count, dropped_count = decisions.get(finding.item, (0, 0))
        weighted_score = finding.score * compute_weight(kept_count, dropped_count)
        scored.append(replace(finding, score=min(weighted_score, 1.0)))
    return sorted(scored, key=lambda finding: -finding.score)


def compute_weight(kept_count: int, dropped_count: int) -> float:
    """Return a weight from 0.25 to 1.5; 1.0 until an item has three decisions."""
    if kept_count + dropped_count < _MIN_DECISIONS:
        return 1.0
    share = (kept_count + 1) / (kept_count + dropped_count + 2)  # one more of each, so that few decisions change little
    return _MIN_WEIGHT + (_MAX_WEIGHT - _MIN_WEIGHT) * share


def list_menu_items(connection: Connection) -> list[dict[str, Any]]:
    """Return the menu with the counts of kept and dropped findings, highest weight first."""
    decisions = reflections.count_item_decisions(connection)
    rows: list[dict[str, Any]] = []
    for item in MENU:
        kept_count, dropped_count = decisions.get(item.name, (0, 0))
        weight = round(compute_weight(kept_count, dropped_count), 2)
        rows.append(
            {
                "item": item.name,
                "group": item.group,
                "help": item.help,
                "kept": kept_count,
                "dropped": dropped_count,
                "weight": weight,
            }
        )
    return sorted(rows, key=lambda row: -row["weight"])


def _suggest_memories(
    story: Story, queued: Sequence[memory_queue.QueuedStatement], findings: Sequence[Finding]
) -> Iterator[SuggestedMemory]:
    """Yield queued statements, others stated in the transcript, and those that findings suggest.

    Statements are located by their words, because the queue counts turns that a transcript does not have.
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
    """Return the files of the queue with their content, each once, so that undo can restore them."""
    content_by_path = {statement.path: statement.raw for statement in queued}
    return [WrittenFile(path, content) for path, content in content_by_path.items()]


def _write_draft(connection: Connection, home: str, story: Story, text: str) -> WrittenFile:
    """Write the draft into the home, named by project and session."""
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
    """Remove unedited earlier drafts of the session in other places, such as a repository.

    Returns them with their content, so that undo can restore them.
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
    """Return a path for the draft and the text it replaces, if that is an unedited draft of ours.

    A file with exactly this content is ours too: an earlier run was interrupted before it was recorded.
    """
    for number in count(1):
        numbering = f"-{number}" if number > 1 else ""
        path = os.path.join(folder, f"{name}{numbering}{DRAFT_SUFFIX}")
        if not os.path.lexists(path):
            return path, None
        existing = _read_content(path) if not os.path.islink(path) else None
        if existing and (path, fingerprint_bytes(existing)) in known_files:
            return path, existing.decode("utf-8", "replace")
        if existing == content:
            return path, None
    raise AssertionError("numbers do not end")


def _read_content(path: str) -> bytes | None:
    """Return the beginning of a plain file; None if it cannot be read."""
    try:
        with open(path, "rb", opener=paths.open_plain_file) as file:
            return file.read(_MAX_DRAFT_BYTES)
    except OSError:
        return None


def fingerprint_bytes(content: bytes) -> str:
    return sha256(content).hexdigest()


def undo(connection: Connection, home: str, number: int, now: float) -> Reflection:
    """Restore every file to its previous content; UserError, with nothing changed, if somebody edited one since."""
    reflection = reflections.get(connection, number)
    if not reflection:
        raise UserError(f"there is no reflection {number}", "hardwon handoff list")
    if not reflection.files:
        raise UserError(f"reflection {number} was undone already", "hardwon handoff list")
    # Check all files before changing any.
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
    """Return whether the file is already restored, by an undo that was interrupted."""
    return file.before is not None and content == file.before.encode("utf-8", "replace")


def _reactivate_replaced(connection: Connection, undone: Reflection, now: float) -> None:
    """Restore the status of the handoff that the undone one had replaced."""
    restored = {file.path: file.before for file in undone.files if file.before is not None}
    for reflection in reflections.list_reflections(connection, reflections.MOOT, session=undone.session):
        fingerprints = {file.after for file in reflection.files if file.path == reflection.draft}
        if reflection.draft not in restored:
            continue
        content = restored[reflection.draft].encode("utf-8", "replace")
        if fingerprint_bytes(content) in fingerprints:
            status = reflections.DRAFT if reflection.draft.endswith(DRAFT_SUFFIX) else reflections.RATIFIED
            reflections.set_status(connection, reflection.id, status, now, expected_status=reflections.MOOT)
            return


def _restore_file(home: str, file: WrittenFile) -> None:
    """Write a file's previous content, or remove the file if it had none."""
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
    """Remove the folders created together with a file, if they are empty now."""
    for folder in (os.path.dirname(path), os.path.dirname(os.path.dirname(path))):
        if folder.endswith(_REMOVABLE_FOLDERS) and not os.listdir(folder):
            os.rmdir(folder)


@contextmanager
def lock_session(home: str, session: str) -> Iterator[bool]:
    """Lock a session for reflection; yield False if another process has it.

    Each session locks its own byte of one lock file, so that sessions do not block each other.
    """
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
    """Build the output of `hardwon reflect --json`."""
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
