"""List what a person asked for in a session: each topic once, without what another request replaced."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from hardwon.distil import phrasing
from hardwon.distil.tool_actions import ToolAction
from hardwon.text.similarity import tokenize
from hardwon.types import Turn, frozen

_MAX_LINE_CHARS = 180
_MAX_REQUESTS = 20
_MANY_REQUESTS, _MAX_ASIDE_WORDS = 12, 9  # among this many, a shorter question that was only answered is left out
_SAME_SHARE, _MIN_SHARED_WORDS = 0.65, 3  # a request that shares this much with an earlier one says nothing new
_ACTING_KINDS = ("saved", "check", "ran", "changed")
REVIEWS = re.compile(r"\b(?:re-?)?(?:review|audit)(?:ing)?\b", re.I)
_CHATTER = re.compile(
    r"^\W*(?:\w|yes|no|ok|okay|sure|thanks?|thank you|continue|go(?: ahead| on)?|proceed|do it|next|great|good|nice"
    r"|perfect|please|cool|done|clear|compact|exit|quit|\d+|(?:[\w,]+ ){0,4}(?:commit|push)(?: \w+){0,3}"
    r"|(?:yes|ok|okay|sure|yeah|yep)[, ]+(?:please|go ahead|do it|continue|proceed)(?: \w+){0,2})\W*$",
    re.I,
)
_LEAD_IN = re.compile(
    r"^\W*(?:(?:ok(?:ay)?|yes|yeah|so|and|now|then|please|great|first|just|also|can you|could you|can we|let'?s)\b"
    r"\W*)*",
    re.I,
)
_CLAUSE_END = re.compile(r"\W*(?:[,;.!?\n]|\b(?:and|then)\b)\W*", re.I)
# Steps with git that say nothing of what the work is; what came of them is told by the commit.
_ROUTINE = re.compile(
    r"(?:check ?out|switch(?: back)? to|go back to) (?:the )?(?:main|master|develop|trunk"
    r"|[\w./-]+ branch|branch [\w./-]+)"
    r"|(?:pull|fetch|push|commit|amend|rebase)(?: (?:it|this|that|all|everything|the|latest|changes|branch|main|master"
    r"|origin|upstream|remote|from|to|on|onto|again))*",
    re.I,
)
_STASHES = re.compile(r"(?:git )?stash\b(?: [\w./-]+){0,8}", re.I)
_QUESTION = re.compile(
    r"\?\s*$|^\W*(?:(?:ok(?:ay)?|and|so|but|hm+)\b\W*)*(?:what|why|how|is|are|does|do|did|will|would|should|which|who|where"
    r"|when)\b(?! not\b)",
    re.I,
)
_NAMES_CODE = re.compile(r"`|\b[a-z]+[A-Z]\w|\w_\w|\w\.\w")
_SLASH_COMMAND = re.compile(r"/[a-z]+:[a-z]+(?:[-_][a-z]+)+")
_HEADING = re.compile(r"#{1,6} ")


@frozen
class _Request:
    line: str
    words: frozenset[str]
    is_question: bool
    work: int = 0
    has_changes: bool = False

    @property
    def is_aside(self) -> bool:
        """Whether it is a short question that was answered on the spot."""
        is_short = len(self.line.split()) <= _MAX_ASIDE_WORDS and not _NAMES_CODE.search(self.line)
        return self.is_question and not self.has_changes and is_short


def _rank(request: _Request) -> tuple[bool, bool, int]:
    """Return the order in which requests are told: those that led to changes first, mere questions last."""
    return (not request.has_changes, request.is_question, -request.work)


def count_work(actions: Iterable[ToolAction]) -> int:
    return sum(action.kind in _ACTING_KINDS for action in actions)


def list_requests(turns: Sequence[Turn], actions_by_turn: Sequence[Sequence[ToolAction]]) -> list[str]:
    """Return the requests, each topic once; of many those the first, the last, and those that led to changes."""
    requests = list[_Request]()
    vague_lines = list[str]()
    groups = _group_turns(turns, actions_by_turn)
    for index, (turn, actions) in enumerate(groups):
        has_changes = _has_changes(actions)
        line = _write_line(turn.prompt, has_changes)
        is_telling = phrasing.is_telling_request(line) or _names_task(line)
        if not is_telling or _is_routine(turn.prompt):
            vague_lines.append(line)
            continue
        words = tokenize(line)
        later_prompts = [later.prompt for later, _ in groups[index + 1 :]]
        is_repeated = any(_is_repeated(words, earlier.words) for earlier in requests)
        if is_repeated or (later_prompts and _is_replaced(line, later_prompts)):
            continue
        is_question = bool(_QUESTION.search(line)) and not REVIEWS.search(line)
        requests.append(_Request(line, words, is_question, count_work(actions), has_changes))
    if len(requests) >= _MANY_REQUESTS:
        telling = [request for request in requests if not request.is_aside]
        requests = telling or requests
    if len(requests) > _MAX_REQUESTS:
        last = len(requests) - 1
        ranked = sorted(range(1, last), key=lambda index: _rank(requests[index]))
        requests = [requests[index] for index in sorted([0, *ranked[: _MAX_REQUESTS - 2], last])]
    # A vague request is better than none.
    return [request.line for request in requests] or [line for line in vague_lines if line][:1]


def _group_turns(
    turns: Sequence[Turn], actions_by_turn: Sequence[Sequence[ToolAction]]
) -> list[tuple[Turn, list[ToolAction]]]:
    """Return each turn with a request and its actions, with those after "ok, do it" behind it."""
    groups = list[tuple[Turn, list[ToolAction]]]()
    for turn, actions in zip(turns, actions_by_turn, strict=True):
        if not _CHATTER.match(turn.prompt[:200]):
            groups.append((turn, [*actions]))
        elif groups:
            groups[-1][1].extend(actions)
    return groups


def _has_changes(actions: Iterable[ToolAction]) -> bool:
    return any(action.kind in ("changed", "saved") and not action.failed for action in actions)


def _write_line(prompt: str, has_changes: bool) -> str:
    """Return what a person asked; of text that was pasted behind a colon or as a heading only what was asked of it."""
    if _HEADING.match(prompt) and _QUESTION.search(prompt):
        last_paragraph = prompt.strip().rpartition("\n\n")[2]
        return phrasing.pick_first_sentence(last_paragraph, _MAX_LINE_CHARS)
    first_line, _, rest = prompt.strip().partition("\n")
    if first_line.rstrip().endswith(":") and rest.strip() and not has_changes:
        lead = phrasing.pick_first_sentence(first_line.rstrip(": "), _MAX_LINE_CHARS)
        return lead if len(lead.split()) > _MAX_ASIDE_WORDS else ""
    return phrasing.pick_first_sentence(prompt, _MAX_LINE_CHARS)


def _names_task(line: str) -> bool:
    """Return whether a slash command says what to do: "/kites:check-tails", unlike "/clear"."""
    return _SLASH_COMMAND.fullmatch(line) is not None


def _is_routine(prompt: str) -> bool:
    """Return whether a prompt asks only for steps with git: "check out main, pull the latest"."""
    order = _LEAD_IN.sub("", prompt.strip())
    if _STASHES.fullmatch(order.rstrip(".! ")):
        return True
    clauses = [clause for clause in _CLAUSE_END.split(order) if clause]
    return bool(clauses) and all(_ROUTINE.fullmatch(clause) for clause in clauses)


def _is_replaced(line: str, later_prompts: Sequence[str]) -> bool:
    """Return whether the next prompt wants something else instead, or what a request names was renamed later."""
    if phrasing.replaces_request(later_prompts[0]):
        return True
    return any(phrasing.is_renamed(line, prompt) for prompt in later_prompts)


def _is_repeated(words: frozenset[str], earlier_words: frozenset[str]) -> bool:
    """Return whether a request repeats an earlier one; two words that short requests share say little."""
    shared_count = len(words & earlier_words)
    return words <= earlier_words or shared_count >= max(_SAME_SHARE * len(words), _MIN_SHARED_WORDS)
