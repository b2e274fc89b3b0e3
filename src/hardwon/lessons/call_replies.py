"""Reply to tool calls: deny them, hold them once, or add notes.

The fallback imports this module, so keep its imports light.
"""

from __future__ import annotations

import os

from hardwon.lessons.call_texts import list_call_texts
from hardwon.lessons.delivery import (
    add_recalled_items,
    build_firing,
    build_reply,
    count_bytes,
    mark_stale,
    select_lessons,
)
from hardwon.self_protection.commands import judge_call
from hardwon.text.characters import shorten_text
from hardwon.text.fence import SECTION_SEPARATOR, fence_denial, fence_text
from hardwon.types import EDIT_TOOLS, EMPTY_REPLY, HookReply

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hardwon.lessons.delivery import HookSources, SessionClaims
    from hardwon.lessons.manifest_index import ManifestIndex
    from hardwon.types import Event, ManifestEntry

AFTER_CALL_EVENTS = ("PostToolUse", "PostToolUseFailure")
# These agents show the model nothing before a call, but add a note to its result.
AGENTS_NOTED_AFTER_CALL = ("gemini", "opencode", "qwen", "kilo", "droid", "vibe", "cursor")
STOPPING_MODES = ("block", "hold")
# Limits in CPU time after which no more lessons are tried. Blocks get the larger one because they guard most.
_BLOCK_MATCH_SECONDS, _OTHER_MATCH_SECONDS = 0.4, 0.25
HELD_INTRO = "Held once by hardwon: this has gone wrong before. Read why, then decide."
RETRY_HINT = "To run it unchanged, call it again."
_BLOCKED_INTRO = "Blocked by hardwon."
_MAX_QUOTED_COMMAND_CHARS = 120
_FILE_MEMORY_TOOLS = ("Read", *EDIT_TOOLS)
_MAX_PATH_CHARS = 120


def reply_before_call(
    event: Event, index: ManifestIndex, home: str, session_claims: SessionClaims, sources: HookSources
) -> HookReply:
    """Reply to a call that is about to run: deny it, or add notes if the agent shows them now."""
    if denial := deny_protected_call(event, home):
        return denial
    reply = reply_to_call(event, index, session_claims, sources)
    # A denied call is repeated, and memories about its file are delivered then.
    if reply.deny or event.host in AGENTS_NOTED_AFTER_CALL:
        return reply
    return _add_file_memories(reply, event, index, session_claims, sources)


def reply_after_call(
    event: Event, index: ManifestIndex, session_claims: SessionClaims, sources: HookSources
) -> HookReply:
    """Reply to a call that has run; only agents that show no notes before a call get them now."""
    if event.host not in AGENTS_NOTED_AFTER_CALL:
        return EMPTY_REPLY
    reply = reply_to_call(event, index, session_claims, sources)
    return _add_file_memories(reply, event, index, session_claims, sources)


def deny_protected_call(event: Event, home: str) -> HookReply | None:
    """Return the denial of a call that only a person may make, else None; this needs no manifest."""
    for part in event.parts or (event,):  # a patch of several files has a part for each
        if reason := judge_call(part, home):
            denial_text = fence_denial(f"{_BLOCKED_INTRO} {reason}")
            return HookReply(deny=denial_text, notice="hardwon denied a call that only you may make")
    return None


def reply_to_call(event: Event, index: ManifestIndex, session_claims: SessionClaims, sources: HookSources) -> HookReply:
    """Reply to a tool call with the lessons that match it: a block, or else a hold, or else notes.

    A call that has run can only be noted. A measured lesson may stay silent in this session; then its firing is
    recorded, and the agent is told nothing about it.
    """
    modes = _list_possible_modes(event)
    # By id, because several parts of a call may match the same lesson.
    told_entries: dict[str, ManifestEntry] = {}
    silent_entries: dict[str, ManifestEntry] = {}
    for part in event.parts or (event,):
        for entry in _iter_matching_lessons(part, index, modes, sources):
            if entry.silent_share and session_claims.is_silent(entry, index.secret):
                silent_entries[entry.id] = entry
            elif entry.delivery == "block":
                if not session_claims.is_allowed(entry):
                    return _build_block_reply(event, entry, index)
            elif current_entry := mark_stale(entry, sources):
                told_entries[entry.id] = current_entry
    firings = []
    for entry in silent_entries.values():
        if session_claims.take_silence(entry):
            firings.append(build_firing(event, entry, is_silent=True))
    silent_firings = tuple(firings)

    budget = index.settings["injectionBudgetBytes"] - count_bytes(fence_text(""))
    limit = index.settings["maxLessonsPerInjection"]
    held_entries = [entry for entry in told_entries.values() if entry.delivery == "hold"]
    held_budget = budget - count_bytes(HELD_INTRO) - count_bytes(RETRY_HINT)
    held_lessons = select_lessons(held_entries, session_claims, budget=held_budget, limit=limit)
    if held_lessons:
        # The fix comes last: measured so, a small model took it in 64 % of cases, and in 44 % with the hint last.
        body = SECTION_SEPARATOR.join([f"{HELD_INTRO} {RETRY_HINT}", *(text for _, text in held_lessons)])
        return build_reply(event, index, held_lessons, deny=fence_denial(body), silent_firings=silent_firings)
    noted_entries = [entry for entry in told_entries.values() if entry.delivery == "note"]
    noted_lessons = select_lessons(noted_entries, session_claims, budget=budget, limit=limit)
    if noted_lessons:
        body = SECTION_SEPARATOR.join(text for _, text in noted_lessons)
        return build_reply(event, index, noted_lessons, context=fence_text(body), silent_firings=silent_firings)
    return HookReply(deliveries=silent_firings)


def _list_possible_modes(event: Event) -> tuple[str, ...]:
    """Return how lessons can be delivered now: before a call, after it, or, with most agents, all at once before it."""
    if event.kind != "PreToolUse":
        return ("note",)
    if event.host in AGENTS_NOTED_AFTER_CALL:
        return STOPPING_MODES
    return (*STOPPING_MODES, "note")


def _iter_matching_lessons(
    event: Event, index: ManifestIndex, modes: Sequence[str], sources: HookSources
) -> Iterator[ManifestEntry]:
    """Yield the lessons with one of these deliveries that match a call, blocks first, until the time is up."""
    numbers = index.find_possible_matches(event.tool, list_call_texts(event))
    if not numbers:
        return  # most calls: what parses and matches the command need not even be imported
    from hardwon.lessons.matching import match_entry, prepare_call

    call = prepare_call(event)
    for number in numbers:
        entry = index.read_entry(number)
        time_limit = _BLOCK_MATCH_SECONDS if entry.delivery == "block" else _OTHER_MATCH_SECONDS
        if sources.get_cpu_seconds() > time_limit:
            break
        if entry.delivery in modes and match_entry(entry, call, sources.search_pattern):
            yield entry


def _build_block_reply(event: Event, entry: ManifestEntry, index: ManifestIndex) -> HookReply:
    """Return the denial of a call, with the lesson's reason; `{command}` in it stands for what was blocked."""
    blocked_action = shorten_text(event.command or event.path, _MAX_QUOTED_COMMAND_CHARS)
    reason = entry.reason.replace("{command}", blocked_action)
    body = f"{_BLOCKED_INTRO} {reason}\n(lesson {entry.slug})"
    return build_reply(event, index, [(entry, body)], deny=fence_denial(body))


def _add_file_memories(
    reply: HookReply, event: Event, index: ManifestIndex, session_claims: SessionClaims, sources: HookSources
) -> HookReply:
    """Add to the reply what was recorded about the file that a call reads or edits; once per session and file."""
    is_about_file = event.tool in _FILE_MEMORY_TOOLS and bool(event.path)
    if not is_about_file or not index.settings.get("fileMemory"):
        return reply
    from hardwon.text.brief_layout import sanitize_line  # only this setting needs it

    display_path = sanitize_line(event.path.removeprefix(f"{event.cwd}/"), _MAX_PATH_CHARS)
    return add_recalled_items(
        reply,
        event,
        index,
        sources.recall_for_file(event),
        session_claims,
        subject_phrase=f"about {display_path}",
        claim_name=f"file {os.path.join(event.cwd, event.path)}",
    )
