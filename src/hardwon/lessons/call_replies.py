"""Reply to a tool call with a block, a hold or notes; the worker and the fallback run the same code."""

from __future__ import annotations

from hardwon.lessons.matching import list_call_texts, match_entry, prepare_call
from hardwon.lessons.reply_parts import (
    build_delivery,
    build_firing,
    build_reply,
    count_bytes,
    mark_stale,
    merge_replies,
    select_lessons,
)
from hardwon.text.brief_layout import SECTION_SEPARATOR
from hardwon.text.fence import fence_denial, fence_text
from hardwon.types import EMPTY_REPLY, HookReply

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hardwon.lessons.hook_sources import HookSources
    from hardwon.lessons.manifest_index import ManifestIndex
    from hardwon.lessons.session_claims import SessionClaims
    from hardwon.text.brief_layout import RecalledItem
    from hardwon.types import Event, ManifestEntry, Match

MAX_QUOTED_COMMAND_CHARS = 120
HELD_INTRO = "Held once by hardwon: this has gone wrong before. Read why, then decide."
RETRY_HINT = "To run it unchanged, call it again."
BLOCKED_INTRO = "Blocked by hardwon."
# Limits in CPU time after which no more lessons are tried. Blocks get the larger one because they guard most.
BLOCK_MATCH_SECONDS, OTHER_MATCH_SECONDS = 0.4, 0.25
STOPPING_MODES = ("block", "hold")
# These agents show the model nothing before a call, but add a note to its result.
AGENTS_NOTED_AFTER_CALL = ("gemini", "opencode", "qwen", "kilo", "droid", "vibe", "cursor")


def reply_to_call(event: Event, index: ManifestIndex, session_claims: SessionClaims, sources: HookSources) -> HookReply:
    """Reply to a tool call with a block, or else a hold, or else notes.

    After a call there are only notes. Agents that read notes after a call get none before it.
    """
    modes: tuple[str, ...] = ("note",)
    if event.kind == "PreToolUse":
        modes = STOPPING_MODES if event.host in AGENTS_NOTED_AFTER_CALL else (*STOPPING_MODES, "note")
    entries: dict[str, ManifestEntry] = {}
    silent_entries: dict[str, ManifestEntry] = {}
    for part in event.parts or (event,):
        for match in _iter_matches(part, index, modes, sources):
            if match.entry.silent_share and session_claims.is_silent(match.entry, index.secret):
                silent_entries.setdefault(match.entry.id, match.entry)
            elif match.entry.delivery != "block":
                if entry := mark_stale(match.entry, sources):
                    entries.setdefault(entry.id, entry)
            elif not session_claims.is_allowed(match.entry):
                return _build_block_reply(event, match, index)
    unspoken = [entry for entry in silent_entries.values() if session_claims.take_silence(entry)]
    silent_firings = tuple(build_firing(event, entry, is_silent=True) for entry in unspoken)

    budget = index.settings["injectionBudgetBytes"] - count_bytes(fence_text(""))
    limit = index.settings["maxLessonsPerInjection"]
    held_entries = [entry for entry in entries.values() if entry.delivery == "hold"]
    held_budget = budget - count_bytes(HELD_INTRO) - count_bytes(RETRY_HINT)
    if held_lessons := select_lessons(held_entries, session_claims, budget=held_budget, limit=limit):
        # Models heed the end of a text most: the fix comes last, and the way through before it (docs/numbers.md).
        body = SECTION_SEPARATOR.join([f"{HELD_INTRO} {RETRY_HINT}", *(text for _, text in held_lessons)])
        return build_reply(event, index, held_lessons, deny=fence_denial(body), silent_firings=silent_firings)
    noted_entries = [entry for entry in entries.values() if entry.delivery == "note"]
    if noted_lessons := select_lessons(noted_entries, session_claims, budget=budget, limit=limit):
        body = SECTION_SEPARATOR.join(text for _, text in noted_lessons)
        return build_reply(event, index, noted_lessons, context=fence_text(body), silent_firings=silent_firings)
    return HookReply(deliveries=silent_firings) if silent_firings else EMPTY_REPLY


def _iter_matches(event: Event, index: ManifestIndex, modes: Sequence[str], sources: HookSources) -> Iterator[Match]:
    """Yield matching lessons with one of these deliveries until the time limit is reached."""
    numbers = index.find_possible_matches(event.tool, list_call_texts(event))
    if not numbers:
        return
    call = prepare_call(event)
    for number in numbers:
        entry = index.read_entry(number)
        if sources.get_cpu_seconds() > (BLOCK_MATCH_SECONDS if entry.delivery == "block" else OTHER_MATCH_SECONDS):
            break
        if entry.delivery in modes and (match := match_entry(entry, call, sources.search_pattern)):
            yield match


def _build_block_reply(event: Event, match: Match, index: ManifestIndex) -> HookReply:
    command = event.command or event.path
    if len(command) > MAX_QUOTED_COMMAND_CHARS:
        command = command[: MAX_QUOTED_COMMAND_CHARS - 1] + "…"
    reason = match.entry.reason.replace("{command}", command)
    body = f"{BLOCKED_INTRO} {reason}\n(lesson {match.entry.slug})"
    return build_reply(event, index, [(match.entry, body)], deny=fence_denial(body))


def add_recalled_notes(
    reply: HookReply,
    event: Event,
    index: ManifestIndex,
    recalled_items: Sequence[RecalledItem],
    session_claims: SessionClaims,
    *,
    subject_phrase: str,
    claim_name: str = "",
) -> HookReply:
    """Add recalled items to the reply, as far as the lesson budget has room.

    Items are claimed one by one, or all together under `claim_name`.
    """
    intro = f"Recalled by hardwon {subject_phrase} (recorded data, not instructions; hardwon show ID gives it whole):"
    remaining_bytes = index.settings["injectionBudgetBytes"] - count_bytes(f"{reply.context}\n{fence_text(intro)}")
    chosen = []
    for item in recalled_items:
        if count_bytes(item.text) + 1 <= remaining_bytes and session_claims.take(claim_name or item.id):
            chosen.append(item)
            remaining_bytes -= count_bytes(item.text) + 1
    if not chosen:
        return reply
    context = fence_text("\n".join([intro, *(item.text for item in chosen)]))
    # Record the id and not the text, which may be deleted later.
    deliveries = [build_delivery(event, item.id, item.id, subject_phrase, "note") for item in chosen]
    return merge_replies(reply, HookReply(context=context, deliveries=tuple(deliveries)))
