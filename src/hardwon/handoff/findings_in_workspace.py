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
_NUMBERED_BLOCKER = re.compile(
    r"\b(?:blocked (?:by|on)|(?:also )?depends? on|waiting (?:for|on)|(?:until|once|after))\s+(?:the\s+)?"
    r"(?:(?:pr|issue|pull request|ticket)\s+)?(#\d+|[A-Z][A-Z0-9]+-\d+)\b",
    re.I,
)
_PEER_TOOL = re.compile(
    r"mcp__\S*(?:peer|team|agent|mail|inbox)\S*__(?:check|read|get|list|receive|fetch)_?\w*(?:message|inbox|mail)\w*",
    re.I,
)
_RELEVANT_MESSAGE = re.compile(
    r"\b(?:block|depend|wait|merge|freez|renam|deprecat|move|chang|break|broke|please|don't|do not|must|instead"
    r"|conflict|taking|owns?|done|finish|deadline)\w*",
    re.I,
)
_MEMORY_PATH = re.compile(r"(?:^|/)(?:MEMORY\.md|\.claude/memory/[^/]+\.md|memory/[^/]+\.md)$")
_OUTDATED = re.compile(
    r"\A\W*(?:no\b|nope|wrong|actually)|\b(?:not any ?more|no longer|outdated|out of date|stale|(?:is|was|that's) wrong"
    r"|isn't (?:true|right|correct)|not (?:true|right|correct)|used to|we (?:switched|moved|changed|dropped|replaced)"
    rf"|{FORGET} (?:that|what))\b",
    re.I,
)


def detect_dependencies(story: Story, past: ReflectionContext) -> Iterator[Finding]:
    """Something said to wait for other work that its page does not name."""
    workstream = _find_workstream(story, past)
    reported = {(page.name, dependency.lower()) for page in past.workstreams for dependency in page.depends_on}
    for step in _list_messages(story):
        for sentence in (
            split_sentences(step.text) if _WAITS.search(step.text) or _NUMBERED_BLOCKER.search(step.text) else ()
        ):
            for blocker in _find_blockers(sentence, workstream, past.workstreams):
                if (workstream.name if workstream else "", blocker.lower()) in reported:
                    continue
                reported.add((workstream.name if workstream else "", blocker.lower()))
                subject = f"{workstream.name} waits" if workstream else "This work waits"
                text = f"{subject} for {blocker}, which no page says: {shorten_line(sentence, MAX_SHOWN_CHARS)}"
                yield Finding("dependencies discovered", text, 0.6, "workstream", (quote_step(story, step, sentence),))


def _find_blockers(
    sentence: str, workstream: RepositoryPage | None, pages: tuple[RepositoryPage, ...]
) -> Iterator[str]:
    """What the sentence says has to come first: a number, or a workstream that stands behind the words for it."""
    yield from (match[1] for match in _NUMBERED_BLOCKER.finditer(sentence))
    if waits := _WAITS.search(sentence):
        following_text = to_plain_line(sentence[waits.end() :]).lower()
        for page in pages:
            if page is not workstream and re.search(
                rf"(?<![\w-]){re.escape(page.name.lower())}(?![\w-])", following_text
            ):
                yield page.name


def _find_workstream(story: Story, past: ReflectionContext) -> RepositoryPage | None:
    """The workstream that the person speaks of most, or whose page is used."""
    prompts = (step.text for step in story.steps if step.kind == "person")
    all_text = " ".join([*prompts, *(step.path for step in story.steps)]).lower()
    best = max(past.workstreams, key=lambda page: all_text.count(page.name.lower()), default=None)
    return best if best and best.name.lower() in all_text else None


def detect_peer_messages(story: Story, past: ReflectionContext) -> Iterator[Finding]:
    """What another agent told this one that bears on the work, and that no page was given afterwards."""
    del past
    messages = []
    for call, result in pair_calls(story).values():
        if not _PEER_TOOL.fullmatch(call.tool) or result is None or result.failed:
            continue
        message = next(
            (
                sentence
                for sentence in split_sentences(result.text)
                if _RELEVANT_MESSAGE.search(sentence) and len(tokenize(sentence)) > 3
            ),
            "",
        )
        if message and not _is_folded_back(story, result, message):
            messages.append((result, message))
    if messages:
        summary = "; ".join(shorten_line(message, MAX_SHOWN_CHARS) for _, message in messages[:MAX_MESSAGES])
        text = f"Another agent said, and no page holds it: {summary}"
        evidence = tuple(quote_step(story, step, message) for step, message in messages[:MAX_MESSAGES])
        yield Finding("peer messages", text, 0.55, "workstream", evidence)


def _is_folded_back(story: Story, result: Step, message: str) -> bool:
    message_words = tokenize(message)
    pages = (
        step
        for step in story.steps
        if step.tool in EDIT_TOOLS and step.path.endswith(".md") and step.line > result.line
    )
    return any(len(message_words & tokenize(step.content)) >= MIN_NOTED_SHARE * len(message_words) for step in pages)


def detect_crowded_folders(story: Story, past: ReflectionContext) -> Iterator[Finding]:
    """A folder that holds very many files, to which this session added."""
    steps_by_folder: dict[str, list[Step]] = {}
    for path, step in _list_changed_files(story, ("Write",)).items():
        steps_by_folder.setdefault(os.path.dirname(path) or ".", []).append(step)
    for folder, steps in steps_by_folder.items():
        file_count = past.folder_file_counts.get(folder, 0)
        if file_count >= CROWDED_FOLDER_FILES and len(steps) >= MIN_ADDED_FILES:
            text = f"{folder} holds {file_count} files now, {len(steps)} of them written here: time to part it?"
            evidence = tuple(quote_step(story, step, step.path) for step in steps[:2])
            yield Finding("code health", text, min(0.3 + file_count / 400, 0.6), "adr", evidence)


def detect_unmentioned_files(story: Story, past: ReflectionContext) -> Iterator[Finding]:
    """Folders that were changed beside others, and that neither the person nor the agent's answers speak of."""
    exchanges = split_exchanges(story)
    conversation = " ".join(
        [*(exchange.prompt.text for exchange in exchanges if exchange.prompt), *map(get_final_message, exchanges)]
    ).lower()
    changed_files = _list_changed_files(story, EDIT_TOOLS)
    areas: dict[str, list[str]] = {}
    for path in (*changed_files, *(path for files in past.commits for path in files if _is_handwritten(path))):
        areas.setdefault("/".join(os.path.dirname(path).split("/")[:2]) or ".", []).append(path)
    unmentioned = {area: paths for area, paths in areas.items() if not _is_mentioned(area, paths, conversation)}
    steps = [changed_files[path] for paths in unmentioned.values() for path in paths if path in changed_files]
    if steps and len(unmentioned) < len(areas):
        descriptions = [
            f"{area} ({join_names(map(os.path.basename, paths), 2)})" for area, paths in unmentioned.items()
        ]
        text = f"Changed, but never spoken of: {join_names(descriptions, MAX_AREAS)}. Part of the work, or did it grow?"
        evidence = tuple(quote_step(story, step, step.path) for step in steps[:MAX_AREAS])
        yield Finding("files not noted", text, min(0.35 + 0.05 * len(unmentioned), 0.55), "workstream", evidence)


def _is_mentioned(area: str, paths: list[str], conversation: str) -> bool:
    names = [os.path.basename(path).split(".")[0] or os.path.basename(path) for path in paths]
    return any(name.lower() in conversation for name in (*names, *([os.path.basename(area)] if area != "." else ())))


def _is_handwritten(path: str) -> bool:
    return not path.endswith((".lock", ".sum", ".snap")) and "lock" not in os.path.basename(path)


def detect_doubted_memories(story: Story, past: ReflectionContext) -> Iterator[Finding]:
    """A memory that was at hand, a person who says it is not so, and nobody who changed it."""
    exchanges = split_exchanges(story)
    memory_lines = list(_list_read_memories(story))
    for index, exchange in enumerate(exchanges[1:], 1):
        if exchange.prompt is None or not _OUTDATED.search(exchange.prompt.text[:400]):
            continue
        prompt_words = frozenset(word for word in tokenize(exchange.prompt.text[:1_000]) if len(word) > 3)
        for step, text in (*memory_lines, *((None, text) for _, text in past.memories)):
            is_later = step is not None and step.line > exchange.prompt.line
            if is_later or len(prompt_words & tokenize(text)) < MIN_SHARED_WORDS or _has_memory_edit(exchanges[index:]):
                continue
            description = (
                f"A memory may be wrong: {shorten_line(text, MAX_SHOWN_CHARS)} The person said: "
                f"{shorten_line(exchange.prompt.text, MAX_SHOWN_CHARS)}"
            )
            evidence = [quote_step(story, exchange.prompt), *([quote_step(story, step)] if step else ())]
            yield Finding("memory hits without writes", description, 0.65, "memory", tuple(evidence), "feedback")
            break


def _list_read_memories(story: Story) -> Iterator[tuple[Step, str]]:
    """The lines of memories that the agent read, each with the result that shows it."""
    for call, result in pair_calls(story).values():
        if call.tool == "Read" and result and not result.failed and _MEMORY_PATH.search(call.path):
            yield from ((result, line) for line in split_sentences(result.text))


def _has_memory_edit(exchanges: Sequence[Exchange]) -> bool:
    return any(
        step.tool in EDIT_TOOLS and _MEMORY_PATH.search(step.path) for exchange in exchanges for step in exchange.steps
    )


def _list_changed_files(story: Story, tools: tuple[str, ...]) -> dict[str, Step]:
    """The files below the project that a call changed, relative to it, each with the first call."""
    top = f"{story.project or story.cwd}/".replace("\\", "/")
    changed_files: dict[str, Step] = {}
    for call, result in pair_calls(story).values():
        path = call.path.replace("\\", "/")
        if call.tool in tools and path.startswith(top) and not (result and result.failed):
            changed_files.setdefault(path[len(top) :], call)
    return changed_files


def _list_messages(story: Story) -> list[Step]:
    return [step for step in story.steps if step.kind in ("person", "agent") and not step.agent]
