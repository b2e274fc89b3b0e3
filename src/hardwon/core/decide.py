"""From an event and the manifest to a reply: the same code warm and cold, so a guard holds in both.

Claims are handed in as functions, because who delivers first is settled by files, not by reasoning.
"""

from __future__ import annotations

from hardwon.core.fence import fenced
from hardwon.core.match import in_scope, match, see, texts
from hardwon.core.select import select, size
from hardwon.words import NOTHING, Injection, Reply

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hardwon.core.index import Index
    from hardwon.core.match import Search
    from hardwon.words import Delivery, Entry, Event, Match

JOINT = "\n\n"
COMMAND_SHOWN = 120
START_LIMIT = 8_800  # agents replace more than 10,000 characters by a preview; the fence and a margin are left
SUBAGENT_LIMIT = 2_000
PROTOCOL = """\
hardwon keeps what agents learned the hard way. When you were corrected, or something failed here and you found out \
what works instead, write this block into your answer, once, with real content. A person reviews it before it is used. \
No block for slips such as a wrong path or a typo.

#lesson
tool: Bash
trigger: <the exact command>
problem: <what went wrong and why>
solution: <what to do instead>
tags: tool:git, severity:error
#/lesson"""
SHORT_PROTOCOL = (
    "Found out the hard way what works here? Say so in your last message: what failed, why, and what works."
)
HELD = "Held once by hardwon: this has gone wrong before. Read why, then decide."
BLOCK_SECONDS, OTHER_SECONDS = 0.4, 0.25
GO_ON = "If the call is right as it stands, make it again: it will run."
BLOCKED = "Blocked by hardwon."


def on_call(
    event: Event,
    index: Index,
    *,
    root: str,
    places: Sequence[str],
    search: Search,
    claim: Callable[[Entry], bool],
    hold: Callable[[Entry], bool],
    allowed: Callable[[Entry], bool],
    seconds: Callable[[], float],
) -> Reply:
    """What to say before a tool call: a block, else what is to be held, else what is to be noted.

    `seconds` tells how much computing this call has had (not how long it waited for a busy machine); when there is
    too much of it, blocks are the last to be given up.
    """
    candidates = index.candidates(event.tool, texts(event))
    if not candidates:
        return NOTHING
    sight = see(event, root=root, places=places)
    matches: list[Match] = []
    for number in candidates:
        entry = index.entry(number)
        if seconds() > (BLOCK_SECONDS if entry.delivery == "block" else OTHER_SECONDS):
            break
        found = match(entry, sight, search)
        if found and entry.delivery != "block":
            matches.append(found)
        elif found and not allowed(entry):
            return _blocked(event, found, index)
    held = _select(matches, "hold", index, claim=hold, around=size(HELD) + size(GO_ON))
    if held:
        body = JOINT.join([HELD, *(text for _, text in held), GO_ON])
        return _reply(event, index, held, deny=fenced(body))
    noted = _select(matches, "note", index, claim=claim, around=0)
    return _reply(event, index, noted, context=fenced(JOINT.join(text for _, text in noted))) if noted else NOTHING


def on_start(
    event: Event,
    index: Index,
    *,
    places: Sequence[str],
    claim: Callable[[Entry], bool],
    tell_protocol: Callable[[], bool],
) -> Reply:
    """What a session opens with: how to report a lesson, and the lessons that are told at the start."""
    protocol = [PROTOCOL] if index.settings["lessonProtocol"] and tell_protocol() else []
    chosen = _told_at_start(index, places, claim, budget=START_LIMIT - size(JOINT.join(protocol)), full=whole)
    body = JOINT.join([*protocol, *(text for _, text in chosen)])
    return _reply(event, index, chosen, context=fenced(body)) if body else NOTHING


def on_subagent(event: Event, index: Index, *, places: Sequence[str], claim: Callable[[Entry], bool]) -> Reply:
    """The same in short: a sub-agent has little room, and reports to the agent that called it."""
    chosen = _told_at_start(index, places, claim, budget=SUBAGENT_LIMIT, full=brief)
    protocol = [SHORT_PROTOCOL] if index.settings["lessonProtocol"] else []
    body = JOINT.join([*protocol, *(text for _, text in chosen)])
    return _reply(event, index, chosen, context=fenced(body)) if body else NOTHING


def _told_at_start(
    index: Index,
    places: Sequence[str],
    claim: Callable[[Entry], bool],
    *,
    budget: int,
    full: Callable[[Entry], str],
) -> Sequence[tuple[Entry, str]]:
    entries = [entry for entry in map(index.entry, index.starts) if in_scope(entry.project, places)]
    return select(
        entries, budget=budget, most=len(entries), full=full, short=brief, joint=JOINT, claim=claim, first_whole=False
    ).chosen


def whole(entry: Entry) -> str:
    """A lesson as the agent reads it, with the name by which a person finds where it came from."""
    return f"{entry.text}\n(lesson {entry.slug})"


def brief(entry: Entry) -> str:
    return f"**Lesson**: {entry.summary} (lesson {entry.slug})"


def _select(
    matches: Iterable[Match], delivery: Delivery, index: Index, *, claim: Callable[[Entry], bool], around: int
) -> Sequence[tuple[Entry, str]]:
    entries = [found.entry for found in matches if found.entry.delivery == delivery]
    budget = index.settings["injectionBudgetBytes"] - size(fenced("")) - around
    most = index.settings["maxLessonsPerInjection"]
    return select(entries, budget=budget, most=most, full=whole, short=brief, joint=JOINT, claim=claim).chosen


def _blocked(event: Event, found: Match, index: Index) -> Reply:
    reason = found.entry.reason.replace("{command}", shown(event.command or event.path))
    body = f"{BLOCKED} {reason}\n(lesson {found.entry.slug})"
    return _reply(event, index, [(found.entry, body)], deny=fenced(body))


def shown(command: str) -> str:
    return command if len(command) <= COMMAND_SHOWN else command[: COMMAND_SHOWN - 1] + "…"


_SAID = {"note": "noted", "hold": "held this call once", "block": "blocked this call", "start": "opened with"}


def _reply(
    event: Event, index: Index, chosen: Sequence[tuple[Entry, str]], *, deny: str = "", context: str = ""
) -> Reply:
    injections = tuple(
        Injection(
            event=event.id,
            at=event.at,
            host=event.host,
            session=event.session,
            agent=event.agent,
            kind=event.kind,
            tool=event.tool,
            lesson=entry.id,
            slug=entry.slug,
            summary=entry.summary,
            delivery=entry.delivery,
        )
        for entry, _ in chosen
    )
    notice = _notice(chosen) if chosen and index.settings["showDeliveries"] else ""
    return Reply(deny, context, notice, injections)


def _notice(chosen: Sequence[tuple[Entry, str]]) -> str:
    """One line for the person; several lessons are counted, the first is named."""
    first = chosen[0][0]
    more = f" (+{len(chosen) - 1} more)" if len(chosen) > 1 else ""
    return f"hardwon {_SAID[first.delivery]}: {first.summary} [{first.slug}]{more}"
