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

_MAX_LINE_CHARS = 180
_CHARS_PER_TOKEN, _MIN_PART_CHARS, _MAX_PART_CHARS = 0.018, 160, 900  # characters of a part per token of the session
_MAX_FILES = 10
_RECENT_TURNS = 5  # turns whose failures may stand
_CHATTER = re.compile(
    r"^\W*(?:\w|yes|no|ok|okay|sure|thanks?|thank you|continue|go(?: ahead| on)?|proceed|do it|next|great|good|nice"
    r"|perfect|please|cool|done|clear|compact|exit|quit|\d+|(?:[\w,]+ ){0,4}(?:commit|push)(?: \w+){0,3}"
    r"|(?:yes|ok|okay|sure)[, ]+(?:please|go ahead|do it|continue|proceed))\W*$",
    re.I,
)
_REMAINING_WORK = re.compile(
    r"\b(?:next(?: steps?|(?=:))|remain(?:s|ing)|still (?:needs?|to|has to|have to|open|missing|pending)"
    r"|left to do|(?<!the )(?<!this )(?<!your )to-?do|follow[- ]?ups?|not (?:yet|done|finished|implemented|tested)"
    r"|(?:you|we|I)(?:'ll| will)? (?:may |might |should |could )?(?:still )?(?:want|need) to"
    r"|would you like me to|want me to|shall I|should I|let me know (?:if|when)|once (?:you|that|it)|pending)\b",
    re.I,
)
_TASK_ID = re.compile(r"^task\.id: (\S{1,40})$|#(\d{1,9}) created", re.M)
_CLOSED_STATUSES = ("completed", "deleted", "cancelled")
_NEXT_STEPS_HEADING = re.compile(
    r"^\W*(?:next steps?|remaining(?: work)?|to-?do|follow[- ]?ups?|what's (?:left|next)|still open)\b.{0,30}:?\W*$",
    re.I,
)
_NEXT_STEPS_PREFIX = re.compile(
    r"^(?:next(?: steps?)?|to-?do|remaining)\s*:\s+", re.I
)  # whoever tells it says so themselves
_CAUSE_WORDS = re.compile(
    r"\b(?:turns out|root cause|the (?:problem|issue|bug|cause|reason|culprit) (?:is|was)|because|it seems that"
    r"|happens when|confirmed|verified that)\b",
    re.I,
)


def summarise_session(turns: Sequence[Turn], observations: Sequence[Observation]) -> Summary:
    """The summary of a session's turns and what was observed in them."""
    actions_by_turn = [classify_calls(turn) for turn in turns]
    actions = [action for turn_actions in actions_by_turn for action in turn_actions]
    room = int(min(max(_CHARS_PER_TOKEN * sum(action.tokens for action in actions), _MIN_PART_CHARS), _MAX_PART_CHARS))
    first, last = (turns[0], turns[-1]) if turns else (None, None)
    recent_actions = [action for turn_actions in actions_by_turn[-_RECENT_TURNS:] for action in turn_actions]
    parts = (
        _list_requests(turns),
        _describe_investigation(actions),
        _describe_findings(turns, observations),
        _describe_completion(turns, actions),
        _list_next_steps(turns, actions, recent_actions),
    )
    request_lines = _keep_ends(parts[0], room)
    return Summary(
        key=_compute_key(first) if first else "",
        at=max(
            [*(turn.at for turn in turns), *(action.call.at for action in actions)], default=last.at if last else 0.0
        ),
        request="\n".join(request_lines),
        investigated=_join_fitting(parts[1], room),
        learned=_join_fitting(parts[2], room),
        completed=_join_fitting(parts[3], room),
        next_steps=_join_fitting(parts[4], room),
    )


def has_work(turns: Iterable[Turn]) -> bool:
    """Return whether there is something to sum up: a person asked for something, or a call did something."""
    return any(turn.prompt or any(action.kind != "noise" for action in classify_calls(turn)) for turn in turns)


def _compute_key(turn: Turn) -> str:
    return blake2b(f"{turn.agent}\0{turn.name}\0summary".encode("utf-8", "replace"), digest_size=12).hexdigest()


def _list_requests(turns: Iterable[Turn]) -> list[str]:
    """The first request, then the latest ones, without what only keeps the work going."""
    requests = [
        phrasing.pick_first_sentence(turn.prompt, _MAX_LINE_CHARS)
        for turn in turns
        if not _CHATTER.match(turn.prompt[:200])
    ]
    return list(dict.fromkeys(line for line in requests if line))


def _describe_investigation(actions: Sequence[ToolAction]) -> list[str]:
    """What was read and looked for, without what was then changed."""
    changed_paths = frozenset(phrasing.list_files_modified(actions))
    files_read = [path for path in phrasing.list_files_read(actions) if path not in changed_paths]
    searched = [action.label for action in actions if action.kind == "searched"]
    fetched = [action.label for action in actions if action.kind == "fetched" and action.label]
    agents = [action.label for action in actions if action.kind == "agent" and action.label]
    return [
        *([f"Read {join_names(map(phrasing.shorten_path, files_read), _MAX_FILES)}"] if files_read else []),
        *([f"Searched for {join_names(searched, 4, quote='“{}”')}"] if searched else []),
        *([f"Looked up {join_names(fetched, 3)}"] if fetched else []),
        *([f"Sub-agents: {join_names(agents, 4, quote='“{}”')}"] if agents else []),
    ]


def _describe_findings(turns: Iterable[Turn], observations: Iterable[Observation]) -> list[str]:
    """Failures and what put them right, what was decided, and sentences that give a cause."""
    fixes = [
        f"{observation.title}{_format_cause(observation)}"
        for observation in observations
        if "problem-solution" in observation.concepts
    ]
    decisions = [observation.title for observation in observations if observation.type == "decision"]
    cause_sentences = [
        shorten_line(sentence, _MAX_LINE_CHARS)
        for turn in turns
        for sentence in split_sentences(turn.final_message[:8_000])
        if _CAUSE_WORDS.search(sentence) and is_informative(sentence)
    ]
    return [*cause_sentences[-3:], *fixes, *decisions]


def _format_cause(observation: Observation) -> str:
    _, separator, reason = observation.facts[0].partition(": ") if observation.facts else ("", "", "")
    return f": {shorten_line(reason, 120)}" if separator else ""


def _describe_completion(turns: Sequence[Turn], actions: Sequence[ToolAction]) -> list[str]:
    commits = [
        commit for action in actions if action.kind == "saved" for commit in check_results.parse_commits(action.text)
    ]
    pulls = [
        url for action in actions if action.kind == "saved" and (url := check_results.find_pull_request(action.text))
    ]
    changed_paths = phrasing.list_files_modified(actions)
    checks = {action.label: action for action in actions if action.kind == "check"}
    passed_checks = [action for action in checks.values() if not action.failed]
    closing_sentence = (
        phrasing.pick_first_sentence(phrasing.strip_opener(turns[-1].final_message), _MAX_LINE_CHARS) if turns else ""
    )
    return [
        *(
            [closing_sentence]
            if closing_sentence
            and is_informative(closing_sentence)
            and not closing_sentence.endswith("?")
            and not is_acknowledgement(closing_sentence)
            else []
        ),
        *(f"Committed {short_hash}: “{shorten_line(subject, 90)}”" for _, short_hash, subject, _ in commits[-6:]),
        *(f"Pull request {pull}" for pull in pulls),
        *([f"Changed {join_names(map(phrasing.shorten_path, changed_paths), _MAX_FILES)}"] if changed_paths else []),
        *([f"Passing at the end: {'; '.join(map(_format_check, passed_checks[-3:]))}"] if passed_checks else []),
    ]


def _format_check(action: ToolAction) -> str:
    return f"`{shorten_line(action.label, 70)}`" + (f" ({action.tally.text})" if action.tally else "")


def _list_next_steps(
    turns: Sequence[Turn], actions: Sequence[ToolAction], recent_actions: Sequence[ToolAction]
) -> list[str]:
    """What the agent said remains or has on its list, and the checks that failed lately and were not seen to pass."""
    failed_actions = [
        fix.failed_actions[-1] for fix in find_standing_failures(find_failure_fixes(recent_actions), recent_actions)
    ]
    failure_lines = [
        f"`{shorten_line(action.label, 90)}` fails: {shorten_line(describe_failure(action), 140)}"
        for action in failed_actions[-3:]
    ]
    return [*_find_remaining_work(turns[-1].final_message if turns else ""), *_list_open_tasks(actions), *failure_lines]


def _list_open_tasks(actions: Iterable[ToolAction]) -> list[str]:
    """What stands unfinished on the agent's own list, however the host keeps one."""
    open_tasks: dict[str, str] = {}
    for action in actions:
        arguments = action.call.input if isinstance(action.call.input, dict) else {}
        if action.call.tool == "TaskCreate":
            number = _TASK_ID.search(action.text)
            open_tasks[(number[1] or number[2]) if number else ""] = get_text(arguments, "subject")
        elif action.call.tool == "TaskUpdate" and get_text(arguments, "status") in _CLOSED_STATUSES:
            open_tasks.pop(get_text(arguments, "taskId"), None)
        elif action.call.tool == "TodoWrite" and isinstance(todos := arguments.get("todos"), list):
            items = [
                item for item in todos if isinstance(item, dict) and get_text(item, "status") not in _CLOSED_STATUSES
            ]
            open_tasks = {str(number): get_text(item, "content") for number, item in enumerate(items)}
    return [f"Open: {shorten_line(item, _MAX_LINE_CHARS)}" for item in open_tasks.values() if item][:5]


def _join_fitting(lines: Sequence[str], room: int) -> str:
    return "\n".join(select_fitting(list(dict.fromkeys(lines)), room))


def _keep_ends(lines: list[str], room: int) -> list[str]:
    """The first line and as many of the last as fit."""
    latest = select_fitting(lines[:0:-1], room - len(lines[0])) if len(lines) > 1 else []
    return [*lines[:1], *latest[::-1]]


def _find_remaining_work(final_message: str) -> list[str]:
    sentences = split_sentences(final_message[:12_000])
    heading_positions = [position for position, sentence in enumerate(sentences) if _NEXT_STEPS_HEADING.match(sentence)]
    if heading_positions:
        return [
            shorten_line(sentence, _MAX_LINE_CHARS)
            for sentence in sentences[heading_positions[-1] + 1 : heading_positions[-1] + 5]
        ]
    remaining = [
        _NEXT_STEPS_PREFIX.sub("", sentence) or sentence for sentence in sentences if _REMAINING_WORK.search(sentence)
    ]
    return [shorten_line(sentence, _MAX_LINE_CHARS) for sentence in remaining][-3:]
