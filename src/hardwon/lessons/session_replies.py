"""Reply to the start of a session, to prompts, and to the moments at which a handoff can be proposed."""

from __future__ import annotations

import os

from hardwon import claims, paths
from hardwon.clock import DUPLICATE_SECONDS
from hardwon.lessons.delivery import OPENED_CLAIM, PROTOCOL_CLAIM, add_recalled_items, join_lines, merge_replies
from hardwon.lessons.start_replies import (
    AGENTS_NEVER_OPENED,
    AGENTS_OPENED_AT_PROMPT,
    build_session_brief,
    reply_to_session_start,
    reply_to_subagent_start,
)
from hardwon.lessons.typed_prompts import (
    answer_prompt,
    can_be_for_hardwon,
    is_allow_command,
    is_remember_prompt,
    refuse_decision,
)
from hardwon.projects import find_project_path, list_equivalent_folders
from hardwon.text.fence import fence_text
from hardwon.text.handoff_request import COMPACTION_PROPOSAL, HANDOFF_PROMPT, HANDOFF_REQUEST, PROPOSAL
from hardwon.types import EMPTY_REPLY, HookReply, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hardwon.lessons.delivery import HookSources, SessionClaims
    from hardwon.lessons.manifest_index import ManifestIndex
    from hardwon.types import Event

DUPLICATE_PREFIX = "twice-"  # of the claim folder that tells a repeated hook event
_HANDOFF_CLAIM = "handoff-proposed"


def reply_to_session_event(
    event: Event, index: ManifestIndex, home: str, session_claims: SessionClaims, sources: HookSources
) -> HookReply:
    """Reply to an event of a session that is not a tool call; EMPTY_REPLY if there is nothing to say."""
    if event.kind == "SessionStart":
        return _reply_to_session_start(event, index, home, session_claims, sources)
    if event.kind == "SubagentStart":
        folders = list_equivalent_folders(event.cwd)
        return reply_to_subagent_start(event, index, session_claims, equivalent_folders=folders)
    if event.subagent_id:  # a sub-agent's prompts come from another agent, and a handoff is about the whole session
        return EMPTY_REPLY
    if event.kind == "UserPromptSubmit":
        return _reply_to_prompt(event, index, home, session_claims, sources)
    if event.kind in ("PreCompact", "Stop"):
        return _propose_handoff(event, index, session_claims, sources)
    return EMPTY_REPLY


def _reply_to_session_start(
    event: Event, index: ManifestIndex, home: str, session_claims: SessionClaims, sources: HookSources
) -> HookReply:
    """Release the claims that a new context makes void, and open the session unless its agent opens later or never."""
    if _is_duplicate(event, home, event.source):
        return EMPTY_REPLY
    # Grok CLI does not wait for this hook, so the session's first call may have been held by now.
    is_late_start = event.source == "startup" and event.host in AGENTS_NEVER_OPENED
    if not is_late_start:
        _release_claims(event, index, home)
    session_claims.release(OPENED_CLAIM)  # a resumed session gets its opening again
    if event.host in AGENTS_OPENED_AT_PROMPT or event.host in AGENTS_NEVER_OPENED:
        return EMPTY_REPLY
    return _open_session(event, index, home, session_claims, sources)


def _release_claims(event: Event, index: ManifestIndex, home: str) -> None:
    """Release claims so that lessons are told again: all in a new context, the most important in a compacted one.

    A resumed or forked session still has in its context what it was told, so its claims stay.
    """
    if event.source in ("startup", "clear"):
        claims.release_matching(home, event.session, lambda claim: True)
    elif event.source == "compact":
        threshold = index.settings["compactionReinjectionThreshold"]
        released_names = {PROTOCOL_CLAIM}
        for entry in index.read_all_entries():
            if entry.delivery == "start" or entry.priority >= threshold:
                released_names.add(paths.to_safe_name(entry.id))

        def is_released(claim: str) -> bool:
            owner, _, name = claim.partition(".")
            return name in released_names and not owner.startswith("+")  # "+allowed" is a person's decision

        claims.release_matching(home, event.session, is_released)


def _open_session(
    event: Event, index: ManifestIndex, home: str, session_claims: SessionClaims, sources: HookSources
) -> HookReply:
    """Reply with the session's brief, and for the person with what happened since the last session."""
    from hardwon.lessons.agent_notes import read_note_statements  # slow to import, and prompts do not need it

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
    notice = join_lines(
        reply.notice,
        sources.announce_approvals(),
        sources.announce_proposals(),
        sources.announce_efficacy(),
        _format_waiting_line(index.waiting_count),
    )
    return replace(reply, notice=notice)


def _format_waiting_line(count: int) -> str:
    """Format the person's line about unapproved changes to lessons.json; empty if there are none."""
    if not count:
        return ""
    changes = "1 change to lessons.json waits" if count == 1 else f"{count} changes to lessons.json wait"
    return f"hardwon: {changes} for your approval: hardwon lessons build"


def _propose_handoff(
    event: Event, index: ManifestIndex, session_claims: SessionClaims, sources: HookSources
) -> HookReply:
    """Propose a handoff once a session, if it changed something since the last one. This never blocks a stop."""
    if not index.settings.get("proposeHandoff") or session_claims.is_taken(_HANDOFF_CLAIM):
        return EMPTY_REPLY
    work = sources.describe_unrecorded_work(event)
    # Claimed only if there is work, so that a later stop of this session can still propose.
    if not work or not session_claims.take(_HANDOFF_CLAIM):
        return EMPTY_REPLY
    # Before compaction a model writes a summary and can act on this; at a stop only the person is asked.
    context = COMPACTION_PROPOSAL.format(work) if event.kind == "PreCompact" else ""
    return HookReply(context=context, notice=PROPOSAL.format(work))


def _reply_to_prompt(
    event: Event, index: ManifestIndex, home: str, session_claims: SessionClaims, sources: HookSources
) -> HookReply:
    """Answer a prompt, with an announcement for the person, and with the opening if its agent opens at a prompt."""
    reply = _answer_or_recall(event, index, home, session_claims, sources)
    if reply.deny:
        # The model does not see a denied prompt, so the session opens with the next one.
        return reply
    reply = replace(reply, notice=join_lines(reply.notice, sources.announce_proposals()))
    if event.host in AGENTS_OPENED_AT_PROMPT and session_claims.take(OPENED_CLAIM):
        return merge_replies(_open_session(event, index, home, session_claims, sources), reply)
    return reply


def _answer_or_recall(
    event: Event, index: ManifestIndex, home: str, session_claims: SessionClaims, sources: HookSources
) -> HookReply:
    """Carry out a prompt typed to hardwon: `hardwon allow SLUG`, a decision about something waiting, or a lesson.

    Any other prompt goes to the agent, together with what is recalled for it.
    """
    words = event.prompt.split()
    is_for_hardwon = can_be_for_hardwon(event.prompt)
    is_allowing = is_allow_command(words)
    # The text of a slash command may come from a repository, so it decides nothing.
    is_slash_command = event.source == "command"
    if is_slash_command and (is_for_hardwon or is_allowing):
        return HookReply(notice="hardwon: NOT done, a command's text said that and not you; type it yourself")
    if is_for_hardwon:
        if _is_duplicate(event, home, event.prompt):
            return EMPTY_REPLY
        return answer_prompt(event, sources.handle_prompt(event))
    if is_allowing:
        # Lifting a block is a person's decision like any other, so it is verified in the same way.
        if doubt := sources.find_doubt(event):
            return answer_prompt(event, f"hardwon: {refuse_decision(home, event.prompt, doubt, event.at)}")
        return _allow_lesson(index, home, session_claims, words[2])
    if words == HANDOFF_PROMPT.split() and not is_slash_command:
        return HookReply(context=fence_text(HANDOFF_REQUEST))
    reply = EMPTY_REPLY
    if index.settings.get("promptRecall"):
        recalled_items = sources.recall_for_prompt(event)
        reply = add_recalled_items(
            reply, event, index, recalled_items, session_claims, subject_phrase="for this prompt"
        )
    is_to_remember = not is_slash_command and is_remember_prompt(event.prompt)
    if is_to_remember and not _is_duplicate(event, home, event.prompt):
        # The person sees that it is remembered; the prompt still goes to the agent.
        return replace(reply, notice=join_lines(reply.notice, sources.handle_prompt(event)))
    return reply


def _is_duplicate(event: Event, home: str, subject: str) -> bool:
    """Return whether another hook just asked the same, as when a plugin is installed beside the settings."""
    # Use a separate folder, because a session start releases the session's claims.
    folder = claims.get_claim_folder(home, DUPLICATE_PREFIX + event.session)
    path = os.path.join(folder, claims.build_claim_name(event.kind, subject))
    for _ in range(2):  # the second round takes the claim after an old one was released
        claimed_at = claims.take(path, event.id, event.at)
        if claimed_at is None:
            return False
        if abs(event.at - claimed_at) < DUPLICATE_SECONDS:
            return True
        claims.release(path)
    return False


def _allow_lesson(index: ManifestIndex, home: str, session_claims: SessionClaims, slug: str) -> HookReply:
    """Lift a block for this session; only the notice says so if that is not possible."""
    entry = next((entry for entry in index.read_all_entries() if entry.slug == slug), None)
    if entry is None:
        return HookReply(notice=f"hardwon: there is no lesson {slug} in force; hardwon lessons list has their names")
    if entry.delivery != "block":
        return HookReply(notice=f"hardwon: {slug} does not block, so there is nothing to allow")
    if not session_claims.allow(entry):
        return HookReply(notice=f"hardwon: {slug} still blocks: {home} cannot be written")
    message = f"The person allowed what the lesson {slug} blocks, for this session. The call may be made now."
    return HookReply(context=fence_text(message), notice=f"hardwon: {slug} blocks nothing more in this session")
