"""What a session was about so far, by plain code: request, investigated, learned, completed, next steps.

Each is taken from what was asked, done and said. What the events do not tell stays empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from hashlib import blake2b

from hardwon.agents.fields import get_text
from hardwon.distil import check_results, phrasing
from hardwon.distil.failure_fixes import describe_failure, find_failure_fixes, find_standing_failures
from hardwon.distil.phrasing import is_acknowledgement
from hardwon.distil.tool_actions import ToolAction, classify_calls
from hardwon.text.excerpts import is_informative, join_names, select_fitting, shorten_line, split_sentences
from hardwon.types import Observation, Summary, Turn

_LINE = 180
_SHARE, _LEAST, _MOST = 0.018, 160, 900  # characters of a part per token of the session
_MOST_FILES = 10
_RECENT = 5  # turns whose failures may stand
_CHATTER = re.compile(
    r"^\W*(?:\w|yes|no|ok|okay|sure|thanks?|thank you|continue|go(?: ahead| on)?|proceed|do it|next|great|good|nice"
    r"|perfect|please|cool|done|clear|compact|exit|quit|\d+|(?:[\w,]+ ){0,4}(?:commit|push)(?: \w+){0,3}"
    r"|(?:yes|ok|okay|sure)[, ]+(?:please|go ahead|do it|continue|proceed))\W*$",
    re.I,
)
_REMAINS = re.compile(
    r"\b(?:next(?: steps?|(?=:))|remain(?:s|ing)|still (?:needs?|to|has to|have to|open|missing|pending)"
    r"|left to do|(?<!the )(?<!this )(?<!your )to-?do|follow[- ]?ups?|not (?:yet|done|finished|implemented|tested)"
    r"|(?:you|we|I)(?:'ll| will)? (?:may |might |should |could )?(?:still )?(?:want|need) to"
    r"|would you like me to|want me to|shall I|should I|let me know (?:if|when)|once (?:you|that|it)|pending)\b",
    re.I,
)
_TASK = re.compile(r"^task\.id: (\S{1,40})$|#(\d{1,9}) created", re.M)
_ENDED = ("completed", "deleted", "cancelled")
_HEADS_NEXT = re.compile(
    r"^\W*(?:next steps?|remaining(?: work)?|to-?do|follow[- ]?ups?|what's (?:left|next)|still open)\b.{0,30}:?\W*$",
    re.I,
)
_LEADS_NEXT = re.compile(r"^(?:next(?: steps?)?|to-?do|remaining)\s*:\s+", re.I)  # whoever tells it says so themselves
_LEARNS = re.compile(
    r"\b(?:turns out|root cause|the (?:problem|issue|bug|cause|reason|culprit) (?:is|was)|because|it seems that"
    r"|happens when|confirmed|verified that)\b",
    re.I,
)


def summarise_session(turns: Sequence[Turn], observations: Sequence[Observation]) -> Summary:
    """The summary of a session's turns and what was observed in them."""
    by_turn = [classify_calls(turn) for turn in turns]
    done = [deed for own in by_turn for deed in own]
    room = int(min(max(_SHARE * sum(deed.tokens for deed in done), _LEAST), _MOST))
    first, last = (turns[0], turns[-1]) if turns else (None, None)
    recent = [deed for own in by_turn[-_RECENT:] for deed in own]
    parts = (
        _request(turns),
        _investigated(done),
        _learned(turns, observations),
        _completed(turns, done),
        _next(turns, done, recent),
    )
    asked = _ends(parts[0], room)
    return Summary(
        key=_key(first) if first else "",
        at=max([*(turn.at for turn in turns), *(deed.call.at for deed in done)], default=last.at if last else 0.0),
        request="\n".join(asked),
        investigated=_text(parts[1], room),
        learned=_text(parts[2], room),
        completed=_text(parts[3], room),
        next_steps=_text(parts[4], room),
    )


def has_work(turns: Iterable[Turn]) -> bool:
    """Return whether there is something to sum up: a person asked for something, or a call did something."""
    return any(turn.prompt or any(deed.kind != "noise" for deed in classify_calls(turn)) for turn in turns)


def _key(turn: Turn) -> str:
    return blake2b(f"{turn.agent}\0{turn.name}\0summary".encode("utf-8", "replace"), digest_size=12).hexdigest()


def _request(turns: Iterable[Turn]) -> list[str]:
    """The first request, then the latest ones, without what only keeps the work going."""
    asked = [
        phrasing.pick_first_sentence(turn.prompt, _LINE) for turn in turns if not _CHATTER.match(turn.prompt[:200])
    ]
    return list(dict.fromkeys(line for line in asked if line))


def _investigated(done: Sequence[ToolAction]) -> list[str]:
    """What was read and looked for, without what was then changed."""
    changed = frozenset(phrasing.list_files_modified(done))
    read = [path for path in phrasing.list_files_read(done) if path not in changed]
    searched = [deed.label for deed in done if deed.kind == "searched"]
    fetched = [deed.label for deed in done if deed.kind == "fetched" and deed.label]
    agents = [deed.label for deed in done if deed.kind == "agent" and deed.label]
    return [
        *([f"Read {join_names(map(phrasing.shorten_path, read), _MOST_FILES)}"] if read else []),
        *([f"Searched for {join_names(searched, 4, quote='“{}”')}"] if searched else []),
        *([f"Looked up {join_names(fetched, 3)}"] if fetched else []),
        *([f"Sub-agents: {join_names(agents, 4, quote='“{}”')}"] if agents else []),
    ]


def _learned(turns: Iterable[Turn], observations: Iterable[Observation]) -> list[str]:
    """Failures and what put them right, what was decided, and sentences that give a cause."""
    mended = [f"{one.title}{_cause(one)}" for one in observations if "problem-solution" in one.concepts]
    decided = [one.title for one in observations if one.type == "decision"]
    said = [
        shorten_line(sentence, _LINE)
        for turn in turns
        for sentence in split_sentences(turn.final_message[:8_000])
        if _LEARNS.search(sentence) and is_informative(sentence)
    ]
    return [*said[-3:], *mended, *decided]


def _cause(one: Observation) -> str:
    _, found, reason = one.facts[0].partition(": ") if one.facts else ("", "", "")
    return f": {shorten_line(reason, 120)}" if found else ""


def _completed(turns: Sequence[Turn], done: Sequence[ToolAction]) -> list[str]:
    made = [commit for deed in done if deed.kind == "saved" for commit in check_results.parse_commits(deed.text)]
    pulls = [found for deed in done if deed.kind == "saved" and (found := check_results.find_pull_request(deed.text))]
    changed = phrasing.list_files_modified(done)
    checks = {deed.label: deed for deed in done if deed.kind == "check"}
    passed = [deed for deed in checks.values() if not deed.failed]
    said = phrasing.pick_first_sentence(phrasing.strip_opener(turns[-1].final_message), _LINE) if turns else ""
    return [
        *([said] if said and is_informative(said) and not said.endswith("?") and not is_acknowledgement(said) else []),
        *(f"Committed {name}: “{shorten_line(subject, 90)}”" for _, name, subject, _ in made[-6:]),
        *(f"Pull request {pull}" for pull in pulls),
        *([f"Changed {join_names(map(phrasing.shorten_path, changed), _MOST_FILES)}"] if changed else []),
        *([f"Passing at the end: {'; '.join(map(_passed, passed[-3:]))}"] if passed else []),
    ]


def _passed(deed: ToolAction) -> str:
    return f"`{shorten_line(deed.label, 70)}`" + (f" ({deed.tally.text})" if deed.tally else "")


def _next(turns: Sequence[Turn], done: Sequence[ToolAction], recent: Sequence[ToolAction]) -> list[str]:
    """What the agent said remains or has on its list, and the checks that failed lately and were not seen to pass."""
    left = [one.failed_actions[-1] for one in find_standing_failures(find_failure_fixes(recent), recent)]
    fails = [
        f"`{shorten_line(deed.label, 90)}` fails: {shorten_line(describe_failure(deed), 140)}" for deed in left[-3:]
    ]
    return [*_remaining(turns[-1].final_message if turns else ""), *_listed_open(done), *fails]


def _listed_open(done: Iterable[ToolAction]) -> list[str]:
    """What stands unfinished on the agent's own list, however the host keeps one."""
    open: dict[str, str] = {}
    for deed in done:
        given = deed.call.input if isinstance(deed.call.input, dict) else {}
        if deed.call.tool == "TaskCreate":
            number = _TASK.search(deed.text)
            open[(number[1] or number[2]) if number else ""] = get_text(given, "subject")
        elif deed.call.tool == "TaskUpdate" and get_text(given, "status") in _ENDED:
            open.pop(get_text(given, "taskId"), None)
        elif deed.call.tool == "TodoWrite" and isinstance(todos := given.get("todos"), list):
            items = [item for item in todos if isinstance(item, dict) and get_text(item, "status") not in _ENDED]
            open = {str(number): get_text(item, "content") for number, item in enumerate(items)}
    return [f"Open: {shorten_line(item, _LINE)}" for item in open.values() if item][:5]


def _text(lines: Sequence[str], room: int) -> str:
    return "\n".join(select_fitting(list(dict.fromkeys(lines)), room))


def _ends(lines: list[str], room: int) -> list[str]:
    """The first line and as many of the last as fit."""
    latest = select_fitting(lines[:0:-1], room - len(lines[0])) if len(lines) > 1 else []
    return [*lines[:1], *latest[::-1]]


def _remaining(said: str) -> list[str]:
    every = split_sentences(said[:12_000])
    heads = [place for place, sentence in enumerate(every) if _HEADS_NEXT.match(sentence)]
    if heads:
        return [shorten_line(sentence, _LINE) for sentence in every[heads[-1] + 1 : heads[-1] + 5]]
    found = [_LEADS_NEXT.sub("", sentence) or sentence for sentence in every if _REMAINS.search(sentence)]
    return [shorten_line(sentence, _LINE) for sentence in found][-3:]
