"""The rim around deciding: the index file, the claim files, the folders. Light enough for the cold hook."""

from __future__ import annotations

import os

from hardwon import claims, paths
from hardwon.lessons.decision import (
    AGENTS_NOTED_AFTER_CALL,
    AGENTS_OPENED_AT_PROMPT,
    add_recalled_notes,
    build_session_brief,
    merge_replies,
    reply_to_call,
    reply_to_session_start,
    reply_to_subagent_start,
)
from hardwon.lessons.manifest_index import ManifestIndex
from hardwon.privacy.limits import DUPLICATE_SECONDS
from hardwon.projects import find_git_root, find_project_path, list_equivalent_folders
from hardwon.self_protection.commands import judge_call
from hardwon.text.brief_layout import sanitize_line
from hardwon.text.fence import fence_text
from hardwon.types import EDIT_TOOLS, EMPTY_REPLY, MEMORY_TYPES, HookReply, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hardwon.lessons.matching import PatternSearch
    from hardwon.text.brief_layout import BriefLine, RecalledItem
    from hardwon.types import Event, ManifestEntry

    BriefReader = Callable[[str, str], Sequence[BriefLine]]
    NotesReader = Callable[[Event], Sequence[RecalledItem]]
    Announcer = Callable[[], str]

PROTOCOL_CLAIM = "protocol"
OPENED_CLAIM = "opened"
FIRST_SESSION_CLAIM = "first"
FILE_MEMORY_TOOLS = ("Read", *EDIT_TOOLS)
AFTER_CALL_EVENTS = ("PostToolUse", "PostToolUseFailure")
MAX_PATH_CHARS = 120
MAX_NAMES = 18
MAX_PROMPT_CHARS = 100_000  # characters of a prompt that may be for us: cleaning more takes longer than a hook has
MAX_MEMORY_PROMPT_CHARS = 400  # characters of a prompt that tells to remember something
_VERBS_BY_TOPIC = {
    "": ("accept", "reject"),
    "handoff": ("list", "show", "ratify", "amend", "discard", "write", "resume"),
    "memory": ("list", "show", "add", "edit", "approve", "reject", "retire", "check"),
}
_SHORT_FORMS = {"ratify": "handoff", "discard": "handoff", "resume": "handoff", "approve": "memory"}
VERBS_WITHOUT_NAMES, VERBS_WITH_TEXT = (
    ("list", "check", "resume"),
    ("write", "add", "edit"),
)  # with nothing behind them, with a text
READ_ONLY_VERBS = (*VERBS_WITHOUT_NAMES, "show", "amend")  # what changes nothing, so that only the answer counts
REFUSED_DECISION = "a decision was not carried out"
MAX_REFUSED_CHARS = 200  # characters of a refused decision that are shown
MAX_LOG_BYTES = 200_000
DUPLICATE_PREFIX = "twice-"
PARALLEL_CALL_SECONDS = 0.3  # calls of one message come within it; a model that has read the reason comes later


def open_index(home: str) -> ManifestIndex:
    """The compiled manifest; FileNotFoundError if there is none, ValueError if it is not one."""
    return ManifestIndex(os.path.join(home, paths.LESSON_INDEX))


def _recall_nothing(event: Event) -> Sequence[RecalledItem]:
    return ()


def _announce_nothing() -> str:
    return ""


def reply_to_event(
    event: Event,
    index: ManifestIndex,
    home: str,
    *,
    search_pattern: PatternSearch,
    get_cpu_seconds: Callable[[], float],
    handle_prompt: Callable[[Event], str],
    find_doubt: Callable[[Event], str],
    read_brief: BriefReader | None = None,
    recall_for_file: NotesReader = _recall_nothing,
    recall_for_prompt: NotesReader = _recall_nothing,
    announce_approvals: Announcer = _announce_nothing,
    viewer_address: str = "",
) -> HookReply:
    """What to say to this event, with the claims taken that saying it needs.

    `handle_prompt` takes a lesson or a decision that was typed as a prompt and gives the answer to the person.
    `find_doubt` gives why a prompt is not known to be a person's, nothing if it is. The next three recall: what is
    known in a home of a project (if nobody has the store open, what was compiled last), what is known of a file, and
    what fits a prompt. `announce_approvals` is for the person, at the start of a session: what was approved since the
    last. The viewer's address is known while the worker serves it.
    """
    if event.kind == "SessionStart":
        if _is_duplicate(event, home, event.source):
            return EMPTY_REPLY
        release_claims(event, index, home)
        claims.release(_get_claim_path(event, home, OPENED_CLAIM))
        return (
            EMPTY_REPLY
            if event.host in AGENTS_OPENED_AT_PROMPT
            else _reply_to_start(event, index, home, read_brief, announce_approvals, viewer_address)
        )
    if event.kind == "SubagentStart":
        return reply_to_subagent_start(
            event, index, equivalent_folders=list_equivalent_folders(event.cwd), claim_entry=_build_claimer(event, home)
        )
    if event.kind == "UserPromptSubmit" and not event.agent:
        reply = _reply_to_prompt(event, index, home, handle_prompt, find_doubt, recall_for_prompt)
        if reply.deny:
            return reply  # the model does not see this prompt, so what the session opens with waits for the next
        if event.host in AGENTS_OPENED_AT_PROMPT and _take_claim(event, home, OPENED_CLAIM):
            return merge_replies(
                _reply_to_start(event, index, home, read_brief, announce_approvals, viewer_address), reply
            )
        return reply
    if event.kind == "PreToolUse" and (
        reason := next(filter(None, (judge_call(part, home) for part in _list_parts(event))), "")
    ):
        denial_text = fence_text(f"Blocked by hardwon. {reason}")
        return HookReply(deny=denial_text, notice="hardwon denied a call that only you may make")
    can_note_now = (event.kind != "PreToolUse") == (event.host in AGENTS_NOTED_AFTER_CALL)
    if event.kind == "PreToolUse" or (event.kind in AFTER_CALL_EVENTS and can_note_now):
        reply = reply_to_call(
            event,
            index,
            project_root=find_git_root(event.cwd),
            equivalent_folders=list_equivalent_folders(event.cwd),
            search_pattern=search_pattern,
            claim_entry=_build_claimer(event, home),
            hold_entry=_build_holder(event, home),
            is_allowed=lambda entry: os.path.exists(_get_allow_path(event, home, entry.id)),
            get_cpu_seconds=get_cpu_seconds,
        )
        return _add_file_notes(reply, event, index, home, recall_for_file) if can_note_now else reply
    return EMPTY_REPLY


def _list_parts(event: Event) -> Sequence[Event]:
    """The calls that a call is: a patch of several files is one for each."""
    return event.parts or (event,)


def _reply_to_start(
    event: Event,
    index: ManifestIndex,
    home: str,
    read_brief: BriefReader | None,
    announce_approvals: Announcer,
    viewer_address: str,
) -> HookReply:
    from hardwon.lessons import compiled_brief  # a tool call need not pay for these
    from hardwon.lessons.agent_notes import read_note_statements

    session_brief = build_session_brief(
        index,
        (read_brief or compiled_brief.read)(home, find_project_path(event.cwd)) if event.cwd else (),
        read_note_statements(event.cwd, event.host),
        equivalent_folders=list_equivalent_folders(event.cwd),
        claim_entry=_build_claimer(event, home),
        should_tell_protocol=lambda: _take_claim(event, home, PROTOCOL_CLAIM),
    )
    first_claim_path = os.path.join(home, compiled_brief.BRIEFS_FOLDER, FIRST_SESSION_CLAIM)
    reply = reply_to_session_start(
        event,
        index,
        session_brief,
        is_first_session=lambda: claims.take(first_claim_path, event.id, event.at) is None,
        viewer_address=viewer_address,
    )
    if event.source == "compact":  # the session goes on, and its person has read this
        return reply
    notices = [reply.notice, announce_approvals(), _format_waiting_line(index.waiting_count)]
    return replace(reply, notice="\n".join(notice for notice in notices if notice))


def _format_waiting_line(count: int) -> str:
    """Return what the person is told of changes to lessons.json that nobody approved."""
    if not count:
        return ""
    changes = "1 change to lessons.json waits" if count == 1 else f"{count} changes to lessons.json wait"
    return f"hardwon: {changes} for your approval: hardwon lessons build"


def _add_file_notes(
    reply: HookReply, event: Event, index: ManifestIndex, home: str, recall_for_file: NotesReader
) -> HookReply:
    """The reply with what is known of the file, once a session. A call that is denied is made again: then."""
    if reply.deny or event.tool not in FILE_MEMORY_TOOLS or not event.path or not index.settings.get("fileMemory"):
        return reply
    recalled_items = recall_for_file(event)
    claim_name, display_path = f"file {os.path.join(event.cwd, event.path)}", event.path.removeprefix(f"{event.cwd}/")
    subject_phrase = f"about {sanitize_line(display_path, MAX_PATH_CHARS)}"
    return add_recalled_notes(
        reply,
        event,
        index,
        recalled_items,
        subject_phrase=subject_phrase,
        claim_recalled=lambda item: _take_claim(event, home, claim_name),
    )


def _reply_to_prompt(
    event: Event,
    index: ManifestIndex,
    home: str,
    handle_prompt: Callable[[Event], str],
    find_doubt: Callable[[Event], str],
    recall_for_prompt: NotesReader,
) -> HookReply:
    """The one channel on which a person speaks to us inside an agent: `hardwon allow SLUG`, a decision about what
    waits, or a typed lesson. Anything else is for the agent, with what it calls to mind."""
    words, is_for_hardwon = event.prompt.split(), can_be_for_hardwon(event.prompt)
    if (is_for_hardwon or is_allow_command(words)) and event.source == "command":
        return HookReply(notice="hardwon: NOT done, a command's text said that and not you; type it yourself")
    if is_for_hardwon:
        if _is_duplicate(event, home, event.prompt):
            return EMPTY_REPLY
        return answer_prompt(event, handle_prompt(event))
    if is_allow_command(words):
        if reason := find_doubt(event):
            return answer_prompt(event, f"hardwon: {refuse_decision(home, event.prompt, reason, event.at)}")
        return _allow_lesson(event, index, home, words[2])
    reply = EMPTY_REPLY
    if index.settings.get("promptRecall"):
        recalled_items, subject_phrase = recall_for_prompt(event), "for this prompt"
        reply = add_recalled_notes(
            EMPTY_REPLY,
            event,
            index,
            recalled_items,
            subject_phrase=subject_phrase,
            claim_recalled=lambda item: _take_claim(event, home, item.id),
        )
    return _add_memory_notice(reply, event, home, handle_prompt)


def _add_memory_notice(reply: HookReply, event: Event, home: str, handle_prompt: Callable[[Event], str]) -> HookReply:
    """Tell the person that what they said to remember is remembered; the prompt goes to the agent all the same."""
    if event.source == "command" or not is_remember_prompt(event.prompt):
        return reply
    if _is_duplicate(event, home, event.prompt):
        return reply
    notices = [line for line in (reply.notice, handle_prompt(event)) if line]
    return replace(reply, notice="\n".join(notices))


def is_remember_prompt(prompt: str) -> bool:
    """Whether a prompt may tell us to remember something; `core.typed_memory` looks closer, once there is time."""
    text = prompt.strip()
    if len(text) > MAX_MEMORY_PROMPT_CHARS or "\n" in text or text.endswith("?"):
        return False
    words = text[:40].lower().replace(",", " ").split()
    if words[:1] == ["please"]:
        words = words[1:]
    return words[:2] == ["remember", "that"] or words[:2] == ["remember", "that:"]


def answer_prompt(event: Event, answer: str) -> HookReply:
    """Reply to a prompt that is a command to us, so that it does not go on to the model; a lesson among other text is
    answered beside it."""
    is_command = is_answered_by_hardwon(event) or is_allow_command(event.prompt.split())
    return HookReply(deny=answer) if is_command and answer else HookReply(notice=answer)


def is_answered_by_hardwon(event: Event) -> bool:
    """Whether an event is a prompt that we answer and the model does not see: then it is no prompt of its session."""
    if (
        event.kind != "UserPromptSubmit"
        or event.agent
        or event.source == "command"
        or not can_be_for_hardwon(event.prompt)
    ):
        return False
    from hardwon.text.lesson_tags import has_only_blocks  # few prompts come this far

    return parse_decision(event.prompt.split()) is not None or has_only_blocks(event.prompt)


def refuse_decision(home: str, prompt: str, doubt: str, at: float) -> str:
    """Return the answer to a decision that is not known to be a person's, noted where `hardwon doctor` shows it."""
    from hardwon.privacy.cleaning import clean_text  # few prompts come this far
    from hardwon.text.printable import to_printable_line

    command = to_printable_line(clean_text(prompt), MAX_REFUSED_CHARS)
    append_to_hook_log(home, [f"{REFUSED_DECISION}: {doubt}: {command}"], at)
    fix = "type it to the agent yourself" if is_allow_command(prompt.split()) else f"run it in a terminal: {command}"
    return f"NOT done: {doubt}. If you meant it, {fix}"


def append_to_hook_log(home: str, lines: Sequence[str], at: float) -> None:
    """Write lines for `hardwon doctor`. The file before this one is kept, so that nobody fills the disk."""
    path = os.path.join(home, paths.HOOK_LOG)
    try:
        paths.make_private_folder(os.path.dirname(path))
        if os.path.exists(path) and os.path.getsize(path) > MAX_LOG_BYTES:
            os.replace(path, path + ".old")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", errors="replace") as file:
            file.writelines(f"{at:.0f} {line}\n" for line in lines)
    except OSError:
        pass  # the answer still goes out


def is_allow_command(prompt_words: Sequence[str]) -> bool:
    """Whether a prompt lifts a block for its session."""
    return prompt_words[:2] == ["hardwon", "allow"] and len(prompt_words) == 3


def _is_duplicate(event: Event, home: str, subject: str) -> bool:
    """Whether another hook has just been answered the same: a plugin may stand beside the settings."""
    folder = claims.get_claim_folder(
        home, DUPLICATE_PREFIX + event.session
    )  # its own: a session that starts frees its claims
    path = os.path.join(folder, claims.build_claim_name(event.kind, subject))
    for _ in range(2):
        claimed_at = claims.take(path, event.id, event.at)
        if claimed_at is None or abs(event.at - claimed_at) < DUPLICATE_SECONDS:
            return claimed_at is not None
        claims.release(path)
    return False


def can_be_for_hardwon(prompt: str) -> bool:
    """Whether it decides something, or may hold a lesson: `learn` takes it."""
    if len(prompt) > MAX_PROMPT_CHARS:
        return False
    lowered = prompt.lower()
    return bool(parse_decision(prompt.split()) or ("#lesson" in lowered and "#/lesson" in lowered))


def parse_decision(prompt_words: Sequence[str]) -> tuple[str, str, Sequence[str]] | None:
    """What a prompt decides or asks about (nothing said: lessons), the verb and the names, or the words of a text; None
    if it is anything else.

    A command as we print it counts, and its short form: `hardwon handoff ratify 3`, `hardwon ratify 3`.
    """
    if len(prompt_words) < 2 or prompt_words[0] != "hardwon":
        return None
    topic, verb, names = _SHORT_FORMS.get(prompt_words[1], ""), prompt_words[1], prompt_words[2:]
    if verb in _VERBS_BY_TOPIC and names:
        topic, verb, names = prompt_words[1], prompt_words[2], prompt_words[3:]
    elif verb == "reject" and all(name.startswith("M:") for name in names):
        topic = "memory"
    return (topic, verb, names) if verb in _VERBS_BY_TOPIC[topic] and _has_valid_names(verb, names) else None


def _has_valid_names(verb: str, names: Sequence[str]) -> bool:
    if verb in VERBS_WITHOUT_NAMES or not names:
        return verb in VERBS_WITHOUT_NAMES and not names
    if verb in VERBS_WITH_TEXT:
        first = names[0]
        return verb == "write" or (_is_name(first) if verb == "edit" else first in MEMORY_TYPES and len(names) > 1)
    return len(names) < MAX_NAMES and all(map(_is_name, names))


def _is_name(word: str) -> bool:
    """Whether it is a number, with or without its letter, a slug or a session's id, and no word of a sentence."""
    return (word[2:] if word[:2] in ("H:", "M:") else word).isdigit() or (len(word) > 5 and "-" in word[1:-1])


def _allow_lesson(event: Event, index: ManifestIndex, home: str, slug: str) -> HookReply:
    entry = next((entry for entry in map(index.read_entry, range(len(index))) if entry.slug == slug), None)
    if entry is None:
        return HookReply(notice=f"hardwon: there is no lesson {slug} in force; hardwon lessons list has their names")
    if entry.delivery != "block":
        return HookReply(notice=f"hardwon: {slug} does not block, so there is nothing to allow")
    claims.take(_get_allow_path(event, home, entry.id), event.id, event.at)
    if not os.path.exists(_get_allow_path(event, home, entry.id)):
        return HookReply(notice=f"hardwon: {slug} still blocks: {home} cannot be written")
    message = f"The person allowed what the lesson {slug} blocks, for this session. The call may be made now."
    return HookReply(context=fence_text(message), notice=f"hardwon: {slug} blocks nothing more in this session")


def release_claims(event: Event, index: ManifestIndex, home: str) -> None:
    """A new context has been told nothing; a compacted one has forgotten, so what matters most comes again."""
    if event.source in ("startup", "clear"):
        claims.release_matching(home, event.session, lambda claim: True)
    elif event.source == "compact":
        threshold = index.settings["compactionReinjectionThreshold"]
        entries = map(index.read_entry, range(len(index)))
        released_names = {
            paths.to_safe_name(entry.id)
            for entry in entries
            if entry.delivery == "start" or entry.priority >= threshold
        }
        released_names.add(PROTOCOL_CLAIM)
        claims.release_matching(
            home, event.session, lambda claim: claim.partition(".")[2] in released_names and claim[0] != "+"
        )


def _get_allow_path(event: Event, home: str, lesson_id: str) -> str:
    return os.path.join(claims.get_claim_folder(home, event.session), f"+allowed.{paths.to_safe_name(lesson_id)}")


def _get_claim_path(event: Event, home: str, claim_name: str) -> str:
    return os.path.join(claims.get_claim_folder(home, event.session), claims.build_claim_name(event.agent, claim_name))


def _build_claimer(event: Event, home: str) -> Callable[[ManifestEntry], bool]:
    return lambda entry: _take_claim(event, home, entry.id)


def _take_claim(event: Event, home: str, claim_name: str) -> bool:
    """Once per session. The token is the hook's own, so that it may ask again when its worker died on it."""
    return claims.take(_get_claim_path(event, home, claim_name), event.id, event.at) is None


def _build_holder(event: Event, home: str) -> Callable[[ManifestEntry], bool]:
    """Held until the model can have read why: the call itself whenever it is asked about again, and its twins."""

    def hold_entry(entry: ManifestEntry) -> bool:
        path, token = _get_claim_path(event, home, entry.id), event.tool_use_id or event.id
        claimed_at = claims.take(path, token, event.at)
        if claimed_at is None:
            return True
        if abs(event.at - claimed_at) >= PARALLEL_CALL_SECONDS:  # a twin stamped earlier may have come second
            return False
        claims.join(path, token)
        return True

    return hold_entry
