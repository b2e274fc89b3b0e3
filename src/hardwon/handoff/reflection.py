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
from hardwon.distil.refinement import Ask
from hardwon.errors import UserError
from hardwon.handoff import memory_queue, model_draft, transcript_story
from hardwon.handoff.draft import Draft, draft, markdown, most_telling, said_to_last, unknown
from hardwon.handoff.menu import MENU, findings
from hardwon.handoff.repository_context import around
from hardwon.handoff.transcript_story import Story
from hardwon.store import memories as remembered
from hardwon.store import reflections
from hardwon.store.db import Connection, epoch, transaction
from hardwon.store.purge_lock import writing_files
from hardwon.store.reflection_types import Finding, Remembered
from hardwon.store.reflections import File, Reflection
from hardwon.types import replace, word

DRAFTS, LOGS, LOCK = "drafts", os.path.join("logs", "reflections"), "reflect.lock"
END = ".draft.md"
# Folders that came with a file, and go with the last one in them.
_MADE = (projects.SESSIONS, os.sep + "docs", os.path.join(".claude", "memory"), os.sep + ".claude")
_LARGEST = 1_000_000  # bytes of a file that may be a draft
_LEAST_WEIGHT, _MOST_WEIGHT, _SEEN_ENOUGH = 0.25, 1.5, 3

Propose = Callable[[Remembered, Story], object]


@word
class Reflected:
    """What came of it: the record, the draft and where it is; `said` is why a model has no part in it."""

    record: Reflection
    draft: Draft
    said: str = ""


def reflect(
    connection: Connection,
    home: str,
    transcript: str,
    *,
    host: str = "",
    now: float,
    ask: Ask | None = None,
    propose: Propose | None = None,
    most_turns: int = model_draft.MOST_TURNS,
    queued_in: str = "",
    shut: Callable[[str], bool] = lambda cwd: False,
) -> Reflected:
    """Draft a handoff of the session in a transcript; UserError if somebody is at it, or it says nothing.

    `propose` is given each memory that nobody knows yet. Of a folder that is `shut` nothing is sent to a model.
    """
    read_in = epoch(connection)
    told = transcript_story.read(transcript, host)
    if not told.steps:
        raise UserError(f"{transcript} holds nothing that may be told of", "a session that is private is left alone")
    with alone(home, told.session) as mine:
        if not mine:
            raise UserError(f"session {told.session} is being reflected on already", "wait a moment, then try again")
        ask = None if shut(told.cwd) else ask
        return _reflect(
            connection, home, told, now, ask, propose, most_turns, queued_in or memory_queue.folder(), read_in
        )


def _reflect(
    connection: Connection,
    home: str,
    told: Story,
    now: float,
    ask: Ask | None,
    propose: Propose | None,
    most_turns: int,
    folder: str,
    read_in: int,
) -> Reflected:
    known = reflections.past(connection, told.project, now, host=told.host, session=told.session)
    past = around(known, told.project, told.began, told.ended)
    found = weighed(findings(told, past), reflections.keeping(connection))
    queued = memory_queue.read(folder, told.session)
    # One that another session's draft proposes is listed there; this session's own belong on its new page as well.
    listed = remembered.listed(connection, "active", "rejected", "candidate", project=told.project)
    known_texts = [one.text for one in listed if one.status != "candidate" or one.session != told.session]
    memories = unknown(_memories(told, queued, found), known_texts)
    made, said, log = draft(told, found, memories), "", dict[str, Any]()
    if ask:
        try:
            made = model_draft.refined(made, past, ask, log, most_turns=most_turns)
        except Failed as failed:
            said = f"by plain code: {failed.why}"
    key = clock.ulid(now)
    raw = os.path.join(home, LOGS, f"{key}.json")
    with writing_files(home, connection, read_in):
        paths.write_private(raw, _dumped({"session": told.session, "said": said, "findings": found, **log}))
        page = _write(connection, home, told, markdown(made))
        superseded = _remove_superseded(connection, told, page)
        record = Reflection(
            0,
            key,
            told.host,
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
        record = reflections.put(connection, record)
    if propose:
        for one in made.memories:
            propose(one, told)
    memory_queue.remove(queued)
    return Reflected(record, made, said)


def weighed(found: Sequence[Finding], keeping: Mapping[str, tuple[int, int]]) -> list[Finding]:
    """The findings, scored by how telling they are and by how often people kept what the item said, best first."""
    scored = [replace(one, score=min(one.score * weight(*keeping.get(one.item, (0, 0))), 1.0)) for one in found]
    return sorted(scored, key=lambda one: -one.score)


def weight(kept: int, dropped: int) -> float:
    """Between a quarter and one and a half; an item that was seldom decided about stays where it is."""
    if kept + dropped < _SEEN_ENOUGH:
        return 1.0
    share = (kept + 1) / (kept + dropped + 2)  # with one more of each, so that few decisions move it little
    return _LEAST_WEIGHT + (_MOST_WEIGHT - _LEAST_WEIGHT) * share


def menu(connection: Connection) -> list[dict[str, Any]]:
    """The menu as it stands: what people kept and dropped of each item, those that weigh most first."""
    keeping = reflections.keeping(connection)
    rows = [
        {
            "item": one.name,
            "group": one.group,
            "help": one.help,
            "kept": kept,
            "dropped": dropped,
            "weight": round(weight(kept, dropped), 2),
        }
        for one in MENU
        for kept, dropped in [keeping.get(one.name, (0, 0))]
    ]
    return sorted(rows, key=lambda row: -row["weight"])


def _memories(told: Story, queued: Sequence[memory_queue.Queued], found: Sequence[Finding]) -> Iterator[Remembered]:
    """What waits in the queue, what was said to be remembered and is not there, and what findings suggest.

    Where it was said is known by the words: the queue counts turns that a transcript does not have.
    """
    asked = [(" ".join(one.asked.text.split()), one.asked) for one in transcript_story.exchanges(told) if one.asked]
    for one in queued:
        step = next((step for text, step in asked if one.text in text), None)
        yield Remembered(one.type, one.text, (transcript_story.quote(told, step, one.text),) if step else (), one.turn)
    yield from said_to_last(told)
    for finding in most_telling(found):
        if finding.memory:
            quote = finding.evidence[0].quote if finding.evidence else ""
            theirs = quote and finding.text.endswith(f"“{quote}”")
            yield Remembered(finding.memory, quote if theirs else finding.text, finding.evidence)


def _taken(queued: Sequence[memory_queue.Queued]) -> list[File]:
    return [File(path, raw) for path, raw in {one.path: one.raw for one in queued}.items()]


def _write(connection: Connection, home: str, told: Story, text: str) -> File:
    """Put the draft into the home, under the names of its project and session."""
    known = {
        (file.path, file.after) for one in reflections.listed(connection, session=told.session) for file in one.files
    }
    content = text.encode("utf-8", "replace")
    name = paths.draft_name(told.project, told.session)
    path, before = _free(os.path.join(home, DRAFTS), name, known, content)
    paths.write_page(home, path, text)
    return File(path, before, print_of(content))


def _remove_superseded(connection: Connection, told: Story, page: File) -> list[File]:
    """Remove earlier drafts of the session that lie elsewhere and nobody edited, such as in a repository.

    Gives them with what they said, so that an undo puts them back.
    """
    removed = list[File]()
    for earlier in reflections.listed(connection, reflections.DRAFT, session=told.session):
        content = _content(earlier.draft)
        written = {file.after for file in earlier.files if file.path == earlier.draft}
        is_unchanged = content is not None and print_of(content) in written
        if earlier.draft == page.path or not is_unchanged or os.path.islink(earlier.draft):
            continue
        os.unlink(earlier.draft)
        _remove_empty_folders(earlier.draft)
        removed.append(File(earlier.draft, (content or b"").decode("utf-8", "replace")))
    return removed


def _free(folder: str, name: str, known: set[tuple[str, str]], content: bytes) -> tuple[str, str | None]:
    """A path for the page, and what stands there: nothing, or a page of ours that nobody changed.

    What says the very same is ours too: somebody was cut off before it could be noted.
    """
    for number in count(1):
        path = os.path.join(folder, f"{name}{f'-{number}' if number > 1 else ''}{END}")
        if not os.path.lexists(path):
            return path, None
        there = _content(path) if not os.path.islink(path) else None
        if there and (path, print_of(there)) in known:
            return path, there.decode("utf-8", "replace")
        if there == content:
            return path, None
    raise AssertionError("numbers do not end")


def _content(path: str) -> bytes | None:
    try:
        with open(path, "rb", opener=paths.plain_file) as file:
            return file.read(_LARGEST)
    except OSError:
        return None


def print_of(content: bytes) -> str:
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
        as_written = not os.path.islink(file.path) and print_of(there or b"") == file.after
        if there is not None and not as_written and not _is_back(file, there):
            raise UserError(f"{file.path} was changed since", "move it away if it is not needed, then try again")
    for file in reversed(one.files):
        _restore(home, file)
    with transaction(connection):
        reflections.wrote(connection, number, ())
        reflections.decide(connection, number, reflections.DISCARDED, now, was=one.status)
        _count_again(connection, one, now)
    return one


def _is_back(file: File, there: bytes | None) -> bool:
    """Whether it is as before already: somebody was cut off while undoing."""
    return file.before is not None and there == file.before.encode("utf-8", "replace")


def _count_again(connection: Connection, undone: Reflection, now: float) -> None:
    """The page that gave way to an undone one is back, so it waits or counts as it did."""
    back = {file.path: file.before for file in undone.files if file.before is not None}
    for one in reflections.listed(connection, reflections.MOOT, session=undone.session):
        written = {file.after for file in one.files if file.path == one.draft}
        if one.draft in back and print_of(back[one.draft].encode("utf-8", "replace")) in written:
            status = reflections.DRAFT if one.draft.endswith(END) else reflections.RATIFIED
            reflections.decide(connection, one.id, status, now, was=reflections.MOOT)
            return


def _restore(home: str, file: File) -> None:
    if _is_back(file, _content(file.path)):
        return
    if file.before is not None:
        os.makedirs(os.path.dirname(file.path), exist_ok=True)
        is_private = file.after == "" or paths.is_in(home, file.path)
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
    paths.private_folder(home)
    place = int.from_bytes(blake2b(session.encode("utf-8", "replace"), digest_size=6).digest(), "big")
    with open(os.open(os.path.join(home, LOCK), os.O_RDWR | os.O_CREAT, 0o600), "r+b") as lock:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
        except OSError:
            yield False
            return
        yield True


def _dumped(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, indent=1, default=vars, ensure_ascii=False).encode("utf-8", "replace")


def as_json(done: Reflected) -> dict[str, Any]:
    """What `hardwon reflect --json` prints."""
    made = done.draft
    return {
        "id": done.record.id,
        "session": made.story.session,
        "draft": done.record.draft,
        "topic": made.topic,
        "made": made.made,
        "said": done.said,
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
