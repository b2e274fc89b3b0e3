"""Answer hook events: what to tell an agent, and what a person typed to hardwon.

The fallback imports this module, so keep its imports light.
"""

from __future__ import annotations

import os

from hardwon import claims, paths
from hardwon.clock import DUPLICATE_SECONDS
from hardwon.lessons.call_replies import AGENTS_NOTED_AFTER_CALL, BLOCKED_INTRO, add_recalled_notes, reply_to_call
from hardwon.lessons.manifest_index import ManifestIndex
from hardwon.lessons.reply_parts import merge_replies
from hardwon.lessons.session_claims import OPENED_CLAIM, PROTOCOL_CLAIM, SessionClaims
from hardwon.lessons.start_replies import (
    AGENTS_NEVER_OPENED,
    AGENTS_OPENED_AT_PROMPT,
    build_session_brief,
    reply_to_session_start,
    reply_to_subagent_start,
)
from hardwon.lessons.typed_prompts import (
    can_be_for_hardwon,
    is_allow_command,
    is_answered_by_hardwon,
    is_remember_prompt,
)
from hardwon.projects import find_project_path, list_equivalent_folders
from hardwon.self_protection.commands import judge_call
from hardwon.text.brief_layout import sanitize_line
from hardwon.text.fence import fence_denial, fence_text
from hardwon.text.handoff_request import COMPACTION_PROPOSAL, HANDOFF_PROMPT, HANDOFF_REQUEST, PROPOSAL
from hardwon.types import EDIT_TOOLS, EMPTY_REPLY, HookReply, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from hardwon.lessons.hook_sources import HookSources
    from hardwon.types import Event

FILE_MEMORY_TOOLS = ("Read", *EDIT_TOOLS)
AFTER_CALL_EVENTS = ("PostToolUse", "PostToolUseFailure")
MAX_PATH_CHARS = 120
REFUSED_DECISION = "a decision was not carried out"
MAX_REFUSED_CHARS = 200  # shown part of a refused decision
MAX_LOG_BYTES = 200_000
DUPLICATE_PREFIX = "twice-"
HANDOFF_CLAIM = "handoff-proposed"


def open_index(home: str) -> ManifestIndex:
    """Open the compiled manifest; FileNotFoundError if it is missing, ValueError if it is invalid."""
    return ManifestIndex(os.path.join(home, paths.LESSON_INDEX))


def reply_to_event(event: Event, index: ManifestIndex, home: str, sources: HookSources) -> HookReply:
    """Take the necessary claims and return the reply to an event."""
    session_claims = SessionClaims(home, event)
    if event.kind == "SessionStart":
        if _is_duplicate(event, home, event.source):
            return EMPTY_REPLY
        # Grok CLI does not wait for this hook, so the session's first call may have been held by now.
        if event.source != "startup" or event.host not in AGENTS_NEVER_OPENED:
            release_claims(event, index, home)
        session_claims.release(OPENED_CLAIM)  # a resumed session gets its opening again
        if event.host in AGENTS_OPENED_AT_PROMPT or event.host in AGENTS_NEVER_OPENED:
            return EMPTY_REPLY
        return _reply_to_start(event, index, home, session_claims, sources)
    if event.kind in ("PreCompact", "Stop") and not event.agent:
        return _propose_handoff(event, index, session_claims, sources)
    if event.kind == "SubagentStart":
        folders = list_equivalent_folders(event.cwd)
        return reply_to_subagent_start(event, index, session_claims, equivalent_folders=folders)
    if event.kind == "UserPromptSubmit" and not event.agent:
        reply = _reply_to_prompt(event, index, home, session_claims, sources)
        if not reply.deny and (announcement := sources.announce_proposals()):
            reply = replace(reply, notice="\n".join(filter(None, (reply.notice, announcement))))
        # The model does not see a denied prompt, so the session then opens with the next one.
        if event.host in AGENTS_OPENED_AT_PROMPT and not reply.deny and session_claims.take(OPENED_CLAIM):
            return merge_replies(_reply_to_start(event, index, home, session_claims, sources), reply)
        return reply
    if event.kind == "PreToolUse" and (denial := deny_protected_call(event, home)):
        return denial
    # Notes come before the call, or after it for agents that drop text given before.
    can_note_now = (event.kind != "PreToolUse") == (event.host in AGENTS_NOTED_AFTER_CALL)
    if event.kind != "PreToolUse" and not (event.kind in AFTER_CALL_EVENTS and can_note_now):
        return EMPTY_REPLY
    reply = reply_to_call(event, index, session_claims, sources)
    # A denied call is repeated, and memories about its file are delivered then.
    is_about_file = event.tool in FILE_MEMORY_TOOLS and bool(event.path)
    if reply.deny or not can_note_now or not is_about_file or not index.settings.get("fileMemory"):
        return reply
    display_path = sanitize_line(event.path.removeprefix(f"{event.cwd}/"), MAX_PATH_CHARS)
    return add_recalled_notes(
        reply,
        event,
        index,
        sources.recall_for_file(event),
        session_claims,
        subject_phrase=f"about {display_path}",
        claim_name=f"file {os.path.join(event.cwd, event.path)}",
    )


def deny_protected_call(event: Event, home: str) -> HookReply | None:
    """Return the denial of a call that only a person may make; this needs no manifest."""
    for part in event.parts or (event,):  # a patch of several files has a part for each
        if reason := judge_call(part, home):
            denial_text = fence_denial(f"{BLOCKED_INTRO} {reason}")
            return HookReply(deny=denial_text, notice="hardwon denied a call that only you may make")
    return None


def _reply_to_start(
    event: Event, index: ManifestIndex, home: str, session_claims: SessionClaims, sources: HookSources
) -> HookReply:
    from hardwon.lessons.agent_notes import read_note_statements  # slow to import, and tool calls do not need it

    session_brief = build_session_brief(
        index,
        sources.read_brief(home, find_project_path(event.cwd)) if event.cwd else (),
        read_note_statements(event.cwd, event.host),
        session_claims,
        equivalent_folders=list_equivalent_folders(event.cwd),
        sources=sources,
    )
    reply = reply_to_session_start(event, index, session_brief, session_claims, viewer_address=sources.viewer_address)
    if event.source == "compact":  # the session continues, and its person has read this
        return reply
    notices = [
        reply.notice,
        sources.announce_approvals(),
        sources.announce_proposals(),
        sources.announce_efficacy(),
        _format_waiting_line(index.waiting_count),
    ]
    return replace(reply, notice="\n".join(filter(None, notices)))


def _propose_handoff(
    event: Event, index: ManifestIndex, session_claims: SessionClaims, sources: HookSources
) -> HookReply:
    """Propose a handoff once a session, if it changed something since the last one. This never blocks a stop."""
    if not index.settings.get("proposeHandoff") or session_claims.is_taken(HANDOFF_CLAIM):
        return EMPTY_REPLY
    work = sources.describe_unrecorded_work(event)
    if not work or not session_claims.take(HANDOFF_CLAIM):
        return EMPTY_REPLY
    context = COMPACTION_PROPOSAL.format(work) if event.kind == "PreCompact" else ""
    return HookReply(context=context, notice=PROPOSAL.format(work))


def _format_waiting_line(count: int) -> str:
    """Format the person's line about unapproved changes to lessons.json."""
    if not count:
        return ""
    changes = "1 change to lessons.json waits" if count == 1 else f"{count} changes to lessons.json wait"
    return f"hardwon: {changes} for your approval: hardwon lessons build"


def _reply_to_prompt(
    event: Event, index: ManifestIndex, home: str, session_claims: SessionClaims, sources: HookSources
) -> HookReply:
    """Carry out a prompt typed to hardwon: `hardwon allow SLUG`, a decision about something waiting, or a lesson.

    Any other prompt goes to the agent, together with what is recalled for it.
    """
    words, is_for_hardwon = event.prompt.split(), can_be_for_hardwon(event.prompt)
    if (is_for_hardwon or is_allow_command(words)) and event.source == "command":
        return HookReply(notice="hardwon: NOT done, a command's text said that and not you; type it yourself")
    if is_for_hardwon:
        if _is_duplicate(event, home, event.prompt):
            return EMPTY_REPLY
        return answer_prompt(event, sources.handle_prompt(event))
    if is_allow_command(words):
        if reason := sources.find_doubt(event):
            return answer_prompt(event, f"hardwon: {refuse_decision(home, event.prompt, reason, event.at)}")
        return _allow_lesson(index, home, session_claims, words[2])
    if words == HANDOFF_PROMPT.split() and event.source != "command":
        return HookReply(context=fence_text(HANDOFF_REQUEST))
    reply = EMPTY_REPLY
    if index.settings.get("promptRecall"):
        recalled_items = sources.recall_for_prompt(event)
        reply = add_recalled_notes(
            reply, event, index, recalled_items, session_claims, subject_phrase="for this prompt"
        )
    is_to_remember = event.source != "command" and is_remember_prompt(event.prompt)
    if is_to_remember and not _is_duplicate(event, home, event.prompt):
        # The person sees that it is remembered; the prompt still goes to the agent.
        notices = [reply.notice, sources.handle_prompt(event)]
        return replace(reply, notice="\n".join(filter(None, notices)))
    return reply


def answer_prompt(event: Event, answer: str) -> HookReply:
    """Reply to a prompt for hardwon; a command stops here, a lesson within other text goes on to the model."""
    is_command = is_answered_by_hardwon(event) or is_allow_command(event.prompt.split())
    return HookReply(deny=answer) if is_command and answer else HookReply(notice=answer)


def refuse_decision(home: str, prompt: str, doubt: str, at: float) -> str:
    """Refuse a decision that may not come from a person, and log it for `hardwon doctor`."""
    from hardwon.privacy.cleaning import clean_text  # imported late because few prompts get here
    from hardwon.text.characters import to_printable_line

    command = to_printable_line(clean_text(prompt), MAX_REFUSED_CHARS)
    append_to_hook_log(home, [f"{REFUSED_DECISION}: {doubt}: {command}"], at)
    fix = "type it to the agent yourself" if is_allow_command(prompt.split()) else f"run it in a terminal: {command}"
    return f"NOT done: {doubt}. If you meant it, {fix}"


def append_to_hook_log(home: str, lines: Sequence[str], at: float) -> None:
    """Append lines for `hardwon doctor`."""
    text = "".join([f"{at:.0f} {line}\n" for line in lines])
    paths.append_to_log(os.path.join(home, paths.HOOK_LOG), text, MAX_LOG_BYTES)


def _is_duplicate(event: Event, home: str, subject: str) -> bool:
    """Return whether another hook just asked the same, as when a plugin is installed beside the settings."""
    # Use a separate folder, because a session start releases the session's claims.
    folder = claims.get_claim_folder(home, DUPLICATE_PREFIX + event.session)
    path = os.path.join(folder, claims.build_claim_name(event.kind, subject))
    for _ in range(2):  # the second round takes the claim after an old one was released
        claimed_at = claims.take(path, event.id, event.at)
        if claimed_at is None or abs(event.at - claimed_at) < DUPLICATE_SECONDS:
            return claimed_at is not None
        claims.release(path)
    return False


def _allow_lesson(index: ManifestIndex, home: str, session_claims: SessionClaims, slug: str) -> HookReply:
    entry = next((entry for entry in map(index.read_entry, range(len(index))) if entry.slug == slug), None)
    if entry is None:
        return HookReply(notice=f"hardwon: there is no lesson {slug} in force; hardwon lessons list has their names")
    if entry.delivery != "block":
        return HookReply(notice=f"hardwon: {slug} does not block, so there is nothing to allow")
    if not session_claims.allow(entry):
        return HookReply(notice=f"hardwon: {slug} still blocks: {home} cannot be written")
    message = f"The person allowed what the lesson {slug} blocks, for this session. The call may be made now."
    return HookReply(context=fence_text(message), notice=f"hardwon: {slug} blocks nothing more in this session")


def release_claims(event: Event, index: ManifestIndex, home: str) -> None:
    """Release claims so that lessons are told again: all in a new context, the most important in a compacted one."""
    if event.source in ("startup", "clear"):
        claims.release_matching(home, event.session, lambda claim: True)
    elif event.source == "compact":
        threshold = index.settings["compactionReinjectionThreshold"]
        released_names = {PROTOCOL_CLAIM}
        for entry in map(index.read_entry, range(len(index))):
            if entry.delivery == "start" or entry.priority >= threshold:
                released_names.add(paths.to_safe_name(entry.id))
        # Keep "+allowed": a person decided it.
        claims.release_matching(
            home, event.session, lambda claim: claim.partition(".")[2] in released_names and claim[0] != "+"
        )
