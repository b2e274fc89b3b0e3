"""The first wording of a lesson: a person or a reader rewrites it, so it says what was seen and no more."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hardwon.distil.errors_seen import QUOTE, program_of, working_parts
from hardwon.hosts.history import Step

_SHORT = 160
_SHOWN = 4


def problem_of(failing: Step, quote: str, refusal: str) -> str:
    call = _shown(failing)
    if refusal:
        return f"{call} was refused: {_short(refusal)}"
    return f"{call} fails: {quote}" if quote else f"{call} fails"


def solution_of(
    failing: Step, worked: Step | None, removed: Sequence[str], added: Sequence[str], reason: str, told: str
) -> str:
    """A person's words first, then the reason the agent gave, then the call that worked and what is different in it."""
    said = [_short(told, QUOTE)] if told else [reason] if reason else []
    if worked:
        changes = [f"{verb} {_listed(what)}" for verb, what in (("without", removed), ("with", added)) if what]
        change = f" ({', '.join(changes)})" if changes and failing.tool == worked.tool else ""
        said.append(f"{_shown(worked)} worked{change}")
    return ". ".join(each.rstrip(".") for each in said)


def trigger_of(failing: Step, removed: Sequence[str], quote: str) -> str:
    """A pattern for the failing call: the program and what in it the error names or the cure left out."""
    if not failing.command:
        _, dot, suffix = failing.path.rpartition(".")
        return f"**/*.{suffix}" if dot and suffix.isalnum() else failing.path
    program = program_of(failing.command, quote)
    part = next((part for part in working_parts(failing.command) if part.program == program), None)
    if part is None or not program:
        return ""
    words = [word.strip("'\"") for word in part.code.split()[1:] if len(word) < _SHORT]
    named = [word for word in words if word in quote and len(word) > 1]
    left_out = [word for word in words if word in removed]
    subcommand = [word for word in words[:1] if re.fullmatch(r"[a-z][\w:-]*", word)]
    chosen = next(iter(named or left_out or subcommand), "")
    start = rf"\b{re.escape(program)}\b"
    if not chosen:
        return start
    gap = r"\s+" if words[:1] == [chosen] else r"\s(?:.*\s)?"
    return f"{start}{gap}{re.escape(chosen)}" + (r"\b" if chosen[-1].isalnum() else "")


def _shown(call: Step) -> str:
    if call.command:
        return f"`{_short(call.command)}`"
    return f"{call.tool} on {call.path}" if call.path else call.tool


def _listed(arguments: Sequence[str]) -> str:
    more = [f"{len(arguments) - _SHOWN} more"] if len(arguments) > _SHOWN else []
    return ", ".join([f"`{_short(argument, 60)}`" for argument in arguments[:_SHOWN]] + more)


def _short(text: str, most: int = _SHORT) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"
