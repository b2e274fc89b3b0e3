"""What a session means for the things around it: other work, other agents, the repository, what was remembered.

A dependency or a message counts only as long as no page holds it: what somebody wrote down needs no reminder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from hardwon.agents.transcript_steps import Step
from hardwon.handoff.transcript_story import (
    FORGET,
    Exchange,
    Story,
    get_final_message,
    pair_calls,
    quote_step,
    split_exchanges,
)
from hardwon.store.reflection_types import Finding, ReflectionContext, RepositoryPage
from hardwon.text.excerpts import join_names, shorten_line, split_sentences, to_plain_line
from hardwon.text.similarity import tokenize
from hardwon.types import EDIT_TOOLS

CROWDED_FOLDER_FILES = 40  # files in one folder from which on it is hard to find one's way
MIN_ADDED_FILES = 2  # of them that a session must have added
MIN_NOTED_SHARE = 0.3  # of a message's words that a page has if it was folded back
MIN_SHARED_WORDS = 2  # words of a memory in what a person says against it
MAX_SHOWN_CHARS = 160
MAX_AREAS, MAX_MESSAGES = 3, 2

_WAITS = re.compile(
    r"\b(?:blocked (?:by|on|until)|(?:also )?depends? on|(?:has|have|need|needs) to wait (?:for|on)|waits? (?:for|on)"
    r"|waiting (?:for|on)|(?:can't|cannot|can not|won't|must not) [^.;]{1,80}? (?:until|before)|only (?:after|once)"
    r"|needs)\b",
    re.I,
)
_NUMBERED = re.compile(
    r"\b(?:blocked (?:by|on)|(?:also )?depends? on|waiting (?:for|on)|(?:until|once|after))\s+(?:the\s+)?"
    r"(?:(?:pr|issue|pull request|ticket)\s+)?(#\d+|[A-Z][A-Z0-9]+-\d+)\b",
    re.I,
)
_PEERS = re.compile(
    r"mcp__\S*(?:peer|team|agent|mail|inbox)\S*__(?:check|read|get|list|receive|fetch)_?\w*(?:message|inbox|mail)\w*",
    re.I,
)
_MESSAGE = re.compile(
    r"\b(?:block|depend|wait|merge|freez|renam|deprecat|move|chang|break|broke|please|don't|do not|must|instead"
    r"|conflict|taking|owns?|done|finish|deadline)\w*",
    re.I,
)
_MEMORY = re.compile(r"(?:^|/)(?:MEMORY\.md|\.claude/memory/[^/]+\.md|memory/[^/]+\.md)$")
_OUTDATED = re.compile(
    r"\A\W*(?:no\b|nope|wrong|actually)|\b(?:not any ?more|no longer|outdated|out of date|stale|(?:is|was|that's) wrong"
    r"|isn't (?:true|right|correct)|not (?:true|right|correct)|used to|we (?:switched|moved|changed|dropped|replaced)"
    rf"|{FORGET} (?:that|what))\b",
    re.I,
)


def detect_dependencies(story: Story, past: ReflectionContext) -> Iterator[Finding]:
    """Something said to wait for other work that its page does not name."""
    here = _workstream(story, past)
    told = {(page.name, one.lower()) for page in past.workstreams for one in page.depends_on}
    for step in _words(story):
        for sentence in split_sentences(step.text) if _WAITS.search(step.text) or _NUMBERED.search(step.text) else ():
            for what in _awaited(sentence, here, past.workstreams):
                if (here.name if here else "", what.lower()) in told:
                    continue
                told.add((here.name if here else "", what.lower()))
                who = f"{here.name} waits" if here else "This work waits"
                text = f"{who} for {what}, which no page says: {shorten_line(sentence, MAX_SHOWN_CHARS)}"
                yield Finding("dependencies discovered", text, 0.6, "workstream", (quote_step(story, step, sentence),))


def _awaited(sentence: str, here: RepositoryPage | None, pages: tuple[RepositoryPage, ...]) -> Iterator[str]:
    """What the sentence says has to come first: a number, or a workstream that stands behind the words for it."""
    yield from (found[1] for found in _NUMBERED.finditer(sentence))
    if waits := _WAITS.search(sentence):
        behind = to_plain_line(sentence[waits.end() :]).lower()
        for page in pages:
            if page is not here and re.search(rf"(?<![\w-]){re.escape(page.name.lower())}(?![\w-])", behind):
                yield page.name


def _workstream(story: Story, past: ReflectionContext) -> RepositoryPage | None:
    """The workstream that the person speaks of most, or whose page is used."""
    asked = (step.text for step in story.steps if step.kind == "person")
    said = " ".join([*asked, *(step.path for step in story.steps)]).lower()
    best = max(past.workstreams, key=lambda page: said.count(page.name.lower()), default=None)
    return best if best and best.name.lower() in said else None


def detect_peer_messages(story: Story, past: ReflectionContext) -> Iterator[Finding]:
    """What another agent told this one that bears on the work, and that no page was given afterwards."""
    del past
    found = []
    for call, result in pair_calls(story).values():
        if not _PEERS.fullmatch(call.tool) or result is None or result.failed:
            continue
        message = next(
            (one for one in split_sentences(result.text) if _MESSAGE.search(one) and len(tokenize(one)) > 3), ""
        )
        if message and not _folded_back(story, result, message):
            found.append((result, message))
    if found:
        told = "; ".join(shorten_line(message, MAX_SHOWN_CHARS) for _, message in found[:MAX_MESSAGES])
        text = f"Another agent said, and no page holds it: {told}"
        evidence = tuple(quote_step(story, step, message) for step, message in found[:MAX_MESSAGES])
        yield Finding("peer messages", text, 0.55, "workstream", evidence)


def _folded_back(story: Story, after: Step, message: str) -> bool:
    about = tokenize(message)
    pages = (
        step for step in story.steps if step.tool in EDIT_TOOLS and step.path.endswith(".md") and step.line > after.line
    )
    return any(len(about & tokenize(step.content)) >= MIN_NOTED_SHARE * len(about) for step in pages)


def detect_crowded_folders(story: Story, past: ReflectionContext) -> Iterator[Finding]:
    """A folder that holds very many files, to which this session added."""
    added: dict[str, list[Step]] = {}
    for path, step in _changed(story, ("Write",)).items():
        added.setdefault(os.path.dirname(path) or ".", []).append(step)
    for folder, steps in added.items():
        many = past.folder_file_counts.get(folder, 0)
        if many >= CROWDED_FOLDER_FILES and len(steps) >= MIN_ADDED_FILES:
            text = f"{folder} holds {many} files now, {len(steps)} of them written here: time to part it?"
            evidence = tuple(quote_step(story, step, step.path) for step in steps[:2])
            yield Finding("code health", text, min(0.3 + many / 400, 0.6), "adr", evidence)


def detect_unmentioned_files(story: Story, past: ReflectionContext) -> Iterator[Finding]:
    """Folders that were changed beside others, and that neither the person nor the agent's answers speak of."""
    spoken = split_exchanges(story)
    said = " ".join([*(one.prompt.text for one in spoken if one.prompt), *map(get_final_message, spoken)]).lower()
    changed = _changed(story, EDIT_TOOLS)
    areas: dict[str, list[str]] = {}
    for path in (*changed, *(path for files in past.commits for path in files if _by_hand(path))):
        areas.setdefault("/".join(os.path.dirname(path).split("/")[:2]) or ".", []).append(path)
    silent = {area: paths for area, paths in areas.items() if not _is_noted(area, paths, said)}
    steps = [changed[path] for paths in silent.values() for path in paths if path in changed]
    if steps and len(silent) < len(areas):
        each = [f"{area} ({join_names(map(os.path.basename, paths), 2)})" for area, paths in silent.items()]
        text = f"Changed, but never spoken of: {join_names(each, MAX_AREAS)}. Part of the work, or did it grow?"
        evidence = tuple(quote_step(story, step, step.path) for step in steps[:MAX_AREAS])
        yield Finding("files not noted", text, min(0.35 + 0.05 * len(silent), 0.55), "workstream", evidence)


def _is_noted(area: str, paths: list[str], said: str) -> bool:
    names = [os.path.basename(path).split(".")[0] or os.path.basename(path) for path in paths]
    return any(name.lower() in said for name in (*names, *([os.path.basename(area)] if area != "." else ())))


def _by_hand(path: str) -> bool:
    return not path.endswith((".lock", ".sum", ".snap")) and "lock" not in os.path.basename(path)


def detect_doubted_memories(story: Story, past: ReflectionContext) -> Iterator[Finding]:
    """A memory that was at hand, a person who says it is not so, and nobody who changed it."""
    spoken = split_exchanges(story)
    read = list(_memories_read(story))
    for place, one in enumerate(spoken[1:], 1):
        if one.prompt is None or not _OUTDATED.search(one.prompt.text[:400]):
            continue
        about = frozenset(word for word in tokenize(one.prompt.text[:1_000]) if len(word) > 3)
        for step, text in (*read, *((None, text) for _, text in past.memories)):
            late = step is not None and step.line > one.prompt.line
            if late or len(about & tokenize(text)) < MIN_SHARED_WORDS or _rewritten(spoken[place:]):
                continue
            said = (
                f"A memory may be wrong: {shorten_line(text, MAX_SHOWN_CHARS)} The person said: "
                f"{shorten_line(one.prompt.text, MAX_SHOWN_CHARS)}"
            )
            proof = [quote_step(story, one.prompt), *([quote_step(story, step)] if step else ())]
            yield Finding("memory hits without writes", said, 0.65, "memory", tuple(proof), "feedback")
            break


def _memories_read(story: Story) -> Iterator[tuple[Step, str]]:
    """The lines of memories that the agent read, each with the result that shows it."""
    for call, result in pair_calls(story).values():
        if call.tool == "Read" and result and not result.failed and _MEMORY.search(call.path):
            yield from ((result, line) for line in split_sentences(result.text))


def _rewritten(spoken: Sequence[Exchange]) -> bool:
    return any(step.tool in EDIT_TOOLS and _MEMORY.search(step.path) for one in spoken for step in one.steps)


def _changed(story: Story, tools: tuple[str, ...]) -> dict[str, Step]:
    """The files below the project that a call changed, relative to it, each with the first call."""
    top = f"{story.project or story.cwd}/".replace("\\", "/")
    found: dict[str, Step] = {}
    for call, result in pair_calls(story).values():
        path = call.path.replace("\\", "/")
        if call.tool in tools and path.startswith(top) and not (result and result.failed):
            found.setdefault(path[len(top) :], call)
    return found


def _words(story: Story) -> list[Step]:
    return [step for step in story.steps if step.kind in ("person", "agent") and not step.agent]
