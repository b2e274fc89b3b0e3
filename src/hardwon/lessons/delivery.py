"""The rim around deciding: the index file, the claim files, the folders. Light enough for the cold hook."""

from __future__ import annotations

import os

from hardwon import claims, paths
from hardwon.lessons.decision import (
    NOTES_AFTER,
    OPENED_LATE,
    joined,
    on_call,
    on_start,
    on_subagent,
    opening,
    with_past,
)
from hardwon.lessons.manifest_index import Index
from hardwon.privacy.limits import TWICE_SECONDS
from hardwon.projects import home_of, places, root
from hardwon.self_protection.commands import forbidden
from hardwon.text.brief_layout import one_line
from hardwon.text.fence import fenced
from hardwon.types import EDITS, MEMORY_TYPES, NOTHING, Reply, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hardwon.lessons.matching import Search
    from hardwon.text.brief_layout import Line, Recalled
    from hardwon.types import Entry, Event

    Brief = Callable[[str, str], Sequence[Line]]
    Recall = Callable[[Event], Sequence[Recalled]]
    News = Callable[[], str]

PROTOCOL_CLAIM = "protocol"
OPENED_CLAIM = "opened"
FIRST_CLAIM = "first"
ABOUT_FILES = ("Read", *EDITS)
AFTER = ("PostToolUse", "PostToolUseFailure")
PATH_SHOWN = 120
MOST_NAMES = 18
LONGEST_FOR_US = 100_000  # characters of a prompt that may be for us: cleaning more takes longer than a hook has
LONGEST_TYPED = 400  # characters of a prompt that tells to remember something
_DECISIONS = {
    "": ("accept", "reject"),
    "handoff": ("list", "show", "ratify", "amend", "discard", "write", "resume"),
    "memory": ("list", "show", "add", "edit", "approve", "reject", "retire", "check"),
}
_SHORT = {"ratify": "handoff", "discard": "handoff", "resume": "handoff", "approve": "memory"}
ALONE, WORDED = ("list", "check", "resume"), ("write", "add", "edit")  # with nothing behind them, with a text
ASKING = (*ALONE, "show", "amend")  # what changes nothing, so that only the answer counts
REFUSED = "a decision was not carried out"
LONGEST_COMMAND = 200  # characters of a refused decision that are shown
LOG_BYTES = 200_000
TWICE = "twice-"
TWIN_SECONDS = 0.3  # calls of one message come within it; a model that has read the reason comes later


def open_index(home: str) -> Index:
    """The compiled manifest; FileNotFoundError if there is none, ValueError if it is not one."""
    return Index(os.path.join(home, paths.INDEX))


def _nothing(event: Event) -> Sequence[Recalled]:
    return ()


def _no_news() -> str:
    return ""


def reply_to(
    event: Event,
    index: Index,
    home: str,
    *,
    search: Search,
    seconds: Callable[[], float],
    learn: Callable[[Event], str],
    doubt: Callable[[Event], str],
    brief: Brief | None = None,
    of_file: Recall = _nothing,
    of_prompt: Recall = _nothing,
    news: News = _no_news,
    viewer_address: str = "",
) -> Reply:
    """What to say to this event, with the claims taken that saying it needs.

    `learn` takes a lesson or a decision that was typed as a prompt and gives the answer to the person. `doubt` gives
    why a prompt is not known to be a person's, nothing if it is. The next three recall: what is known in a home of a
    project (if nobody has the store open, what was compiled last), what is known of a file, and what fits a prompt.
    `news` is for the person, at the start of a session: what was approved since the last. The viewer's address is known
    while the worker serves it.
    """
    if event.kind == "SessionStart":
        if _is_asked_twice(event, home, event.source):
            return NOTHING
        free_claims(event, index, home)
        claims.release(_claim_path(event, home, OPENED_CLAIM))
        return NOTHING if event.host in OPENED_LATE else _on_start(event, index, home, brief, news, viewer_address)
    if event.kind == "SubagentStart":
        return on_subagent(event, index, places=places(event.cwd), claim=_once(event, home))
    if event.kind == "UserPromptSubmit" and not event.agent:
        reply = _on_prompt(event, index, home, learn, doubt, of_prompt)
        if reply.deny:
            return reply  # the model does not see this prompt, so what the session opens with waits for the next
        if event.host in OPENED_LATE and _is_ours(event, home, OPENED_CLAIM):
            return joined(_on_start(event, index, home, brief, news, viewer_address), reply)
        return reply
    if event.kind == "PreToolUse" and (why := next(filter(None, (forbidden(one, home) for one in _parts(event))), "")):
        denied = fenced(f"Blocked by hardwon. {why}")
        return Reply(deny=denied, notice="hardwon denied a call that only you may make")
    notes_now = (event.kind != "PreToolUse") == (event.host in NOTES_AFTER)
    if event.kind == "PreToolUse" or (event.kind in AFTER and notes_now):
        reply = on_call(
            event,
            index,
            root=root(event.cwd),
            places=places(event.cwd),
            search=search,
            claim=_once(event, home),
            hold=_held(event, home),
            allowed=lambda entry: os.path.exists(_allow_path(event, home, entry.id)),
            seconds=seconds,
        )
        return _with_file(reply, event, index, home, of_file) if notes_now else reply
    return NOTHING


def _parts(event: Event) -> Sequence[Event]:
    """The calls that a call is: a patch of several files is one for each."""
    return event.parts or (event,)


def _on_start(event: Event, index: Index, home: str, brief: Brief | None, news: News, viewer_address: str) -> Reply:
    from hardwon.lessons import compiled_brief  # a tool call need not pay for these
    from hardwon.lessons.agent_notes import said_in

    opened = opening(
        index,
        (brief or compiled_brief.read)(home, home_of(event.cwd)) if event.cwd else (),
        said_in(event.cwd, event.host),
        places=places(event.cwd),
        claim=_once(event, home),
        tell_protocol=lambda: _is_ours(event, home, PROTOCOL_CLAIM),
    )
    first = os.path.join(home, compiled_brief.FOLDER, FIRST_CLAIM)
    reply = on_start(
        event,
        index,
        opened,
        is_first=lambda: claims.take(first, event.id, event.at) is None,
        viewer_address=viewer_address,
    )
    if event.source == "compact":  # the session goes on, and its person has read this
        return reply
    lines = [reply.notice, news(), _waiting_line(index.waiting)]
    return replace(reply, notice="\n".join(line for line in lines if line))


def _waiting_line(count: int) -> str:
    """Return what the person is told of changes to lessons.json that nobody approved."""
    if not count:
        return ""
    changes = "1 change to lessons.json waits" if count == 1 else f"{count} changes to lessons.json wait"
    return f"hardwon: {changes} for your approval: hardwon lessons build"


def _with_file(reply: Reply, event: Event, index: Index, home: str, of_file: Recall) -> Reply:
    """The reply with what is known of the file, once a session. A call that is denied is made again: then."""
    if reply.deny or event.tool not in ABOUT_FILES or not event.path or not index.settings.get("fileMemory"):
        return reply
    past = of_file(event)
    name, shown = f"file {os.path.join(event.cwd, event.path)}", event.path.removeprefix(f"{event.cwd}/")
    about = f"about {one_line(shown, PATH_SHOWN)}"
    return with_past(reply, event, index, past, about=about, claim=lambda one: _is_ours(event, home, name))


def _on_prompt(
    event: Event,
    index: Index,
    home: str,
    learn: Callable[[Event], str],
    doubt: Callable[[Event], str],
    of_prompt: Recall,
) -> Reply:
    """The one channel on which a person speaks to us inside an agent: `hardwon allow SLUG`, a decision about what
    waits, or a typed lesson. Anything else is for the agent, with what it calls to mind."""
    words, teaches = event.prompt.split(), is_for_us(event.prompt)
    if (teaches or allows(words)) and event.source == "command":
        return Reply(notice="hardwon: NOT done, a command's text said that and not you; type it yourself")
    if teaches:
        if _is_asked_twice(event, home, event.prompt):
            return NOTHING
        return answer_prompt(event, learn(event))
    if allows(words):
        if why := doubt(event):
            return answer_prompt(event, f"hardwon: {refuse_decision(home, event.prompt, why, event.at)}")
        return _allow(event, index, home, words[2])
    reply = NOTHING
    if index.settings.get("promptRecall"):
        past, about = of_prompt(event), "for this prompt"
        reply = with_past(NOTHING, event, index, past, about=about, claim=lambda one: _is_ours(event, home, one.id))
    return _with_memory(reply, event, home, learn)


def _with_memory(reply: Reply, event: Event, home: str, learn: Callable[[Event], str]) -> Reply:
    """Tell the person that what they said to remember is remembered; the prompt goes to the agent all the same."""
    if event.source == "command" or not opens_with_remember(event.prompt):
        return reply
    if _is_asked_twice(event, home, event.prompt):
        return reply
    notices = [line for line in (reply.notice, learn(event)) if line]
    return replace(reply, notice="\n".join(notices))


def opens_with_remember(prompt: str) -> bool:
    """Whether a prompt may tell us to remember something; `core.typed_memory` looks closer, once there is time."""
    text = prompt.strip()
    if len(text) > LONGEST_TYPED or "\n" in text or text.endswith("?"):
        return False
    words = text[:40].lower().replace(",", " ").split()
    if words[:1] == ["please"]:
        words = words[1:]
    return words[:2] == ["remember", "that"] or words[:2] == ["remember", "that:"]


def answer_prompt(event: Event, said: str) -> Reply:
    """Reply to a prompt that is a command to us, so that it does not go on to the model; a lesson among other text is
    answered beside it."""
    is_command = is_answered_here(event) or allows(event.prompt.split())
    return Reply(deny=said) if is_command and said else Reply(notice=said)


def is_answered_here(event: Event) -> bool:
    """Whether an event is a prompt that we answer and the model does not see: then it is no prompt of its session."""
    if event.kind != "UserPromptSubmit" or event.agent or event.source == "command" or not is_for_us(event.prompt):
        return False
    from hardwon.text.lesson_tags import is_all_blocks  # few prompts come this far

    return decides(event.prompt.split()) is not None or is_all_blocks(event.prompt)


def refuse_decision(home: str, prompt: str, doubt: str, at: float) -> str:
    """Return the answer to a decision that is not known to be a person's, noted where `hardwon doctor` shows it."""
    from hardwon.privacy.cleaning import clean  # few prompts come this far
    from hardwon.text.printable import in_line

    command = in_line(clean(prompt), LONGEST_COMMAND)
    note_in_hook_log(home, [f"{REFUSED}: {doubt}: {command}"], at)
    fix = "type it to the agent yourself" if allows(prompt.split()) else f"run it in a terminal: {command}"
    return f"NOT done: {doubt}. If you meant it, {fix}"


def note_in_hook_log(home: str, lines: Sequence[str], at: float) -> None:
    """Write lines for `hardwon doctor`. The file before this one is kept, so that nobody fills the disk."""
    path = os.path.join(home, paths.HOOK_LOG)
    try:
        paths.private_folder(os.path.dirname(path))
        if os.path.exists(path) and os.path.getsize(path) > LOG_BYTES:
            os.replace(path, path + ".old")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", errors="replace") as file:
            file.writelines(f"{at:.0f} {line}\n" for line in lines)
    except OSError:
        pass  # the answer still goes out


def allows(words: Sequence[str]) -> bool:
    """Whether a prompt lifts a block for its session."""
    return words[:2] == ["hardwon", "allow"] and len(words) == 3


def _is_asked_twice(event: Event, home: str, about: str) -> bool:
    """Whether another hook has just been answered the same: a plugin may stand beside the settings."""
    folder = claims.folder(home, TWICE + event.session)  # its own: a session that starts frees its claims
    path = os.path.join(folder, claims.name(event.kind, about))
    for _ in range(2):
        taken = claims.take(path, event.id, event.at)
        if taken is None or abs(event.at - taken) < TWICE_SECONDS:
            return taken is not None
        claims.release(path)
    return False


def is_for_us(prompt: str) -> bool:
    """Whether it decides something, or may hold a lesson: `learn` takes it."""
    if len(prompt) > LONGEST_FOR_US:
        return False
    lowered = prompt.lower()
    return bool(decides(prompt.split()) or ("#lesson" in lowered and "#/lesson" in lowered))


def decides(words: Sequence[str]) -> tuple[str, str, Sequence[str]] | None:
    """What a prompt decides or asks about (nothing said: lessons), the verb and the names, or the words of a text; None
    if it is anything else.

    A command as we print it counts, and its short form: `hardwon handoff ratify 3`, `hardwon ratify 3`.
    """
    if len(words) < 2 or words[0] != "hardwon":
        return None
    about, verb, names = _SHORT.get(words[1], ""), words[1], words[2:]
    if verb in _DECISIONS and names:
        about, verb, names = words[1], words[2], words[3:]
    elif verb == "reject" and all(name.startswith("M:") for name in names):
        about = "memory"
    return (about, verb, names) if verb in _DECISIONS[about] and _fits(verb, names) else None


def _fits(verb: str, names: Sequence[str]) -> bool:
    if verb in ALONE or not names:
        return verb in ALONE and not names
    if verb in WORDED:
        first = names[0]
        return verb == "write" or (_is_name(first) if verb == "edit" else first in MEMORY_TYPES and len(names) > 1)
    return len(names) < MOST_NAMES and all(map(_is_name, names))


def _is_name(word: str) -> bool:
    """Whether it is a number, with or without its letter, a slug or a session's id, and no word of a sentence."""
    return (word[2:] if word[:2] in ("H:", "M:") else word).isdigit() or (len(word) > 5 and "-" in word[1:-1])


def _allow(event: Event, index: Index, home: str, slug: str) -> Reply:
    entry = next((entry for entry in map(index.entry, range(len(index))) if entry.slug == slug), None)
    if entry is None:
        return Reply(notice=f"hardwon: there is no lesson {slug} in force; hardwon lessons list has their names")
    if entry.delivery != "block":
        return Reply(notice=f"hardwon: {slug} does not block, so there is nothing to allow")
    claims.take(_allow_path(event, home, entry.id), event.id, event.at)
    if not os.path.exists(_allow_path(event, home, entry.id)):
        return Reply(notice=f"hardwon: {slug} still blocks: {home} cannot be written")
    told = f"The person allowed what the lesson {slug} blocks, for this session. The call may be made now."
    return Reply(context=fenced(told), notice=f"hardwon: {slug} blocks nothing more in this session")


def free_claims(event: Event, index: Index, home: str) -> None:
    """A new context has been told nothing; a compacted one has forgotten, so what matters most comes again."""
    if event.source in ("startup", "clear"):
        claims.wipe(home, event.session, lambda claim: True)
    elif event.source == "compact":
        threshold = index.settings["compactionReinjectionThreshold"]
        entries = map(index.entry, range(len(index)))
        again = {paths.safe_name(e.id) for e in entries if e.delivery == "start" or e.priority >= threshold}
        again.add(PROTOCOL_CLAIM)
        claims.wipe(home, event.session, lambda claim: claim.partition(".")[2] in again and claim[0] != "+")


def _allow_path(event: Event, home: str, lesson: str) -> str:
    return os.path.join(claims.folder(home, event.session), f"+allowed.{paths.safe_name(lesson)}")


def _claim_path(event: Event, home: str, lesson: str) -> str:
    return os.path.join(claims.folder(home, event.session), claims.name(event.agent, lesson))


def _once(event: Event, home: str) -> Callable[[Entry], bool]:
    return lambda entry: _is_ours(event, home, entry.id)


def _is_ours(event: Event, home: str, name: str) -> bool:
    """Once per session. The token is the hook's own, so that it may ask again when its worker died on it."""
    return claims.take(_claim_path(event, home, name), event.id, event.at) is None


def _held(event: Event, home: str) -> Callable[[Entry], bool]:
    """Held until the model can have read why: the call itself whenever it is asked about again, and its twins."""

    def hold(entry: Entry) -> bool:
        path, token = _claim_path(event, home, entry.id), event.tool_use_id or event.id
        taken = claims.take(path, token, event.at)
        if taken is None:
            return True
        if abs(event.at - taken) >= TWIN_SECONDS:  # a twin stamped earlier may have come second
            return False
        claims.join(path, token)
        return True

    return hold
