"""What put a failure right: the call that worked, what was changed in it, and what was said about it.

The difference between the failing and the working call is the lesson. Where files were edited in between, the code was
at fault and not the call; where the same call worked later, something around it had changed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from hardwon.agents.transcript_steps import Step
from hardwon.shell.failures import LOOKED_AT, QUOTE, Failure, code_in, only_looks, working_parts
from hardwon.text.similarity import tokens
from hardwon.types import EDITS

ALIKE = 0.7
# A person answers these with what they want next: nothing was done that could be wrong.
ASKS_A_PERSON = frozenset(("ExitPlanMode", "EnterPlanMode", "AskUserQuestion"))

_ARGUMENT = re.compile(r"\"[^\"]{0,400}\"|'[^']{0,400}'|[^\s\"']+")
_WRITES = re.compile(
    r"\bsed\s+(?:-\w+\s+)*-i|\bperl\s+-\w*i|[^2&]>>?\s*[\w./~$-]+\.\w+|\btee\s|[-:]fix\b|--write\b|\bfmt\b|\bgofmt\b.*\s-w\b"
)
_SCRIPT_WRITES = re.compile(r"\.write\(|write_text\(|writeFileSync\(")
_BECAUSE = re.compile(
    r"\b(?:because|instead|turns out|(?:issue|problem|reason|cause) (?:is|was|seems)|requires?|must|rather than"
    r"|correct (?:way|form|syntax|name))\b|n't (?:support|accept|match|have|exist|allow|work)"
    r"|\bnot (?:support|available|installed)",
    re.I,
)
_CORRECTS = re.compile(
    r"\b(?:instead|rather|don'?t|do not|never|always|should(?:n't)?|must(?:n't)?|prefer|better|wrong|stop|avoid"
    r"|actually|not what|no need|make sure|why|can't we|use|you (?:can't|cannot|need to))\b|\A\W*no\b",
    re.I,
)
_TO = re.compile(r"\s*\d?&?>>?\s*(?:&\d|/dev/null)")
_SENTENCE = re.compile(r"[^.!?\n]+(?:[.!?](?!\s|$)[^.!?\n]*)*[.!?]?")


def alike(a: Step, b: Step, error: Failure | None = None) -> bool:
    """Whether two calls want the same thing; what the first one's error says to be unknown is no part of its aim."""
    if a.tool != b.tool:
        return bool(a.tool in EDITS and a.path and _writes_by_hand(a.path, b))
    if a.tool == "Bash":
        if only_looks(b.command) and not only_looks(a.command):
            return False
        wanted, other = _aim(a.command), _aim(b.command)
        known = wanted - tokens(error.quote) if error and error.about == "interface" else frozenset()
        return overlap(wanted, other) >= ALIKE or (len(known) > 1 and known <= other)
    if a.path != b.path or not (a.path or a.content or a.command):
        return False  # nothing is known of a call but its tool
    if a.command or b.command:
        return _said_alike(a.command, b.command)
    return a.content == b.content or _said_alike(a.content, b.content)


def same(a: Step, b: Step, unfiltered: bool) -> bool:
    """Whether it is the same call once more; `unfiltered`: whatever its output is filtered with."""
    if (a.tool, a.path, a.content) != (b.tool, b.path, b.content):
        return False
    return _whole(a.command) == _whole(b.command) if unfiltered else a.command.split() == b.command.split()


def forms(errors: Sequence[Failure]) -> int:
    """How many forms of a call were tried; the same one with its output cut otherwise is no other form."""
    return len({_aim(error.command) or number for number, error in enumerate(errors)})


def changes_files(call: Step) -> bool:
    command = call.command[:LOOKED_AT]
    if call.tool in EDITS or _SCRIPT_WRITES.search(command):
        return True
    return bool(_WRITES.search(command) and _WRITES.search(code_in(call.command)))


def overlap(a: frozenset[str], b: frozenset[str]) -> float:
    """The share of the smaller set that is in the other: leaving something out keeps the aim."""
    return len(a & b) / min(len(a), len(b)) if a and b else 0.0


def difference(failing: str, working: str) -> tuple[list[str], list[str]]:
    """The arguments that only the failing command has, and those that only the working one has, each in order."""
    if (shown := (_whole(failing), _whole(working)))[0] == shown[1]:
        shown = failing[:LOOKED_AT], working[:LOOKED_AT]
    before, after = map(_ARGUMENT.findall, shown)
    return _only(before, after), _only(after, before)


def because(words: str) -> str:
    """The sentence that gives a reason, as it was said; nothing if none does."""
    if not _BECAUSE.search(words):  # most words give none, and cutting them into sentences takes longer
        return ""
    found = (sentence[0].strip() for sentence in _SENTENCE.finditer(words) if _BECAUSE.search(sentence[0]))
    return next(found, "")[:QUOTE].rstrip()


def corrects(words: str) -> bool:
    """Whether a person tells how to do it, rather than what to do next."""
    return bool(_CORRECTS.search(words[: QUOTE * 2]))


def _only(these: list[str], those: list[str]) -> list[str]:
    others = frozenset(those)
    return [each for each in dict.fromkeys(these) if each not in others]


@lru_cache(maxsize=256)
def _whole(command: str) -> str:
    return " ".join(_TO.sub("", part.full) if ">" in part.full else part.full for part in working_parts(command))


@lru_cache(maxsize=256)
def _aim(command: str) -> frozenset[str]:
    return tokens(_whole(command))


def _said_alike(a: str, b: str) -> bool:
    return overlap(tokens(a[:LOOKED_AT]), tokens(b[:LOOKED_AT])) >= ALIKE


def _writes_by_hand(path: str, call: Step) -> bool:
    name = path.replace("\\", "/").rpartition("/")[2]
    return call.path == path if call.tool in EDITS else name in call.command and changes_files(call)
