"""The rim around deciding: the index file, the claim files, the folders. Light enough for the cold hook."""

from __future__ import annotations

import os

from hardwon import claims, paths
from hardwon.core.decide import on_call, on_start, on_subagent
from hardwon.core.fence import fenced
from hardwon.core.index import Index
from hardwon.core.ours import forbidden
from hardwon.projects import places, root
from hardwon.words import NOTHING, Reply

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hardwon.core.match import Search
    from hardwon.words import Entry, Event

PROTOCOL_CLAIM = "protocol"
TWIN_SECONDS = 0.3  # calls of one message come within it; a model that has read the reason comes later


def open_index(home: str) -> Index:
    """The compiled manifest; FileNotFoundError if there is none, ValueError if it is not one."""
    return Index(os.path.join(home, paths.INDEX))


def reply_to(
    event: Event,
    index: Index,
    home: str,
    *,
    search: Search,
    seconds: Callable[[], float],
    learn: Callable[[Event], str],
) -> Reply:
    """What to say to this event, with the claims taken that saying it needs. `learn` takes a lesson that the person
    typed as a prompt and gives the answer to them."""
    if event.kind == "SessionStart":
        free_claims(event, index, home)
        protocol = _claim_path(event, home, PROTOCOL_CLAIM)
        return on_start(
            event,
            index,
            places=places(event.cwd),
            claim=_once(event, home),
            tell_protocol=lambda: claims.take(protocol, event.id, event.at) is None,
        )
    if event.kind == "SubagentStart":
        return on_subagent(event, index, places=places(event.cwd), claim=_once(event, home))
    if event.kind == "UserPromptSubmit" and not event.agent:
        return _on_prompt(event, index, home, learn)
    if event.kind == "PreToolUse":
        if why := forbidden(event, home):
            denied = fenced(f"Blocked by hardwon. {why}")
            return Reply(deny=denied, notice="hardwon kept an agent from deciding for you")
        return on_call(
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
    return NOTHING


def _on_prompt(event: Event, index: Index, home: str, learn: Callable[[Event], str]) -> Reply:
    """The one channel on which a person speaks to us inside an agent: `hardwon allow SLUG`, `hardwon accept N`,
    `hardwon reject N`, or a typed lesson."""
    words = event.prompt.split()
    if decides(words):
        return Reply(notice=learn(event))
    if words[:2] == ["hardwon", "allow"] and len(words) == 3:
        return _allow(event, index, home, words[2])
    lowered = event.prompt.lower()
    if "#lesson" in lowered and "#/lesson" in lowered:
        return Reply(notice=learn(event))
    return NOTHING


def decides(words: Sequence[str]) -> bool:
    """Whether a prompt is a decision about candidates and nothing else."""
    if len(words) not in range(3, 20) or words[0] != "hardwon" or words[1] not in ("accept", "reject"):
        return False
    return all(name.isdigit() or (len(name) > 5 and "-" in name[1:-1]) for name in words[2:])


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
    """Once per session. The token is the hook's own, so that it may ask again when its worker died on it."""
    return lambda entry: claims.take(_claim_path(event, home, entry.id), event.id, event.at) is None


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
