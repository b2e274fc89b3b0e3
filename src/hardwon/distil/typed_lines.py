"""Tell the lines of a prompt that a person typed from terminal output, logs, diffs and reviews that they pasted."""

from __future__ import annotations

import re

# Shell prompts, logs, diffs, review findings, and text that starts with an address or a position.
_PASTED_LINE = re.compile(
    r"[❯$%>✗✓×●⎿☒☐\[{<|+=]|@@|[-=]{2,}|(?:\(\w+\) )?\S+@\S+|\d{4}-\d\d|\d\d:\d\d|(?:/|~/|https?:)\S+$"
    r"|[\w./-]{1,200}\.\w{1,9}:\d+|(?:env )?[A-Z][A-Z_]+=\S+ |(?:\w+ ){0,3}error:|fail(?:ed)?\s+\S+[/.]\S|.* took \d"
    r"|(?:error|fatal|warning|traceback|stop says|(?:\d+\. )?(?:critical|high|medium|low)(?: severity)?:)(?!\w)"
    r"|(?![\w“‘])[^\x00-\x7f]",
    re.I,
)
# The label of a pasted review finding; a person who pastes one asks to see to it.
_SEVERITY = re.compile(r"^\W*(?:\d+[.)]\s*)?(?:critical|high|medium|low)(?: severity)?:\s*", re.I)
_LOG_TAIL = re.compile(r"\s\[?\d\d:\d\d:\d\d.*")  # a log pasted behind typed words
_CONTINUED_OUTPUT = re.compile(r"\s{2,}\S|\t|\S+$")  # an indented line, or a single word


def strip_severity(text: str) -> str:
    """Remove the label of a review finding: "1. High severity: …"."""
    return _SEVERITY.sub("", text)


def is_pasted_line(text: str) -> bool:
    """Return whether a text begins like terminal output, a log, a diff or a review."""
    return _PASTED_LINE.match(text.lstrip()) is not None


def remove_pasted_lines(text: str) -> str:
    """Return the text without pasted lines.

    Of the same output are the lines between two pasted ones of a paragraph, indented lines and single words.
    """
    lines = [_LOG_TAIL.sub("", line) for line in text.splitlines()]
    pasted = [is_pasted_line(line) for line in lines]
    if any(pasted):
        pasted = [pasted[number] or bool(_CONTINUED_OUTPUT.match(line)) for number, line in enumerate(lines)]
    start: int | None = None  # the last pasted line of the paragraph
    for number, line in enumerate(lines):
        if not line.strip():
            start = None
        elif pasted[number]:
            if start is not None:
                pasted[start:number] = [True] * (number - start)
            start = number
    return "\n".join(line for line, is_pasted in zip(lines, pasted, strict=True) if not is_pasted)
