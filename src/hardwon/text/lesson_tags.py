"""`#lesson … #/lesson` blocks: what a person types as a prompt, or an agent writes in its answer, to keep a lesson.

Markers may be quoted, listed, bold or fenced. A line that names no field continues the value before it. A new `#lesson`
inside a block that is not closed starts afresh. `#lesson:cancel` takes back the block before it; with a `problem:`, of
which the beginning is enough, and `#/lesson:cancel` it takes back those before it with that problem. Transcripts are
hostile: each line is looked at once, and no pattern looks at the same characters again and again.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hardwon.text.placeholders import PROSE_PATTERN, is_placeholder
from hardwon.text.similarity import normalize_text
from hardwon.types import FILE_TOOLS, SHELL_TOOL, frozen

OLD_KEYS = {"mistake": "problem", "fix": "solution", "remediation": "solution"}
FIELDS = (
    "tool",
    "trigger",
    "summary",
    "problem",
    "solution",
    "tags",
    "delivery",
    "priority",
    "scope",
    "unless",
    "path",
    "content",
    "blockReason",
)
MIN_CANCEL_CHARS, MAX_CANCEL_CHARS = (
    20,
    60,
)  # how much of a problem's beginning names it; a shorter text must be all of it
_SHORTEST_SUMMARY, _LONGEST_SUMMARY = 20, 110
_CANONICAL = {name.lower(): name for name in FIELDS} | OLD_KEYS
_NAMES = "|".join(_CANONICAL)
_DRESS = " \t>*_`+-"  # blanks, quote and list markers, bold, backticks
_MARKER = re.compile(r"(?:\d{1,3}[.)][ \t*_`]*)?#(/?)lesson(:cancel)?[*_`]*(?=[ \t]|$)", re.I)
_TAIL = re.compile(r"[ \t]#/lesson(?::cancel)?[ \t*_`]*$", re.I)
_FIELD = re.compile(
    rf"[ \t]*(?:(?:[-*+]|\d{{1,3}}[.)])[ \t]+)?(\*\*|__|`|)({_NAMES})(?:\1[ \t]*:|[ \t]*:\1|[ \t]*:)[ \t]*(.*)", re.I
)
_INLINE = re.compile(rf"[ \t](?=(?:{_NAMES})[ \t]*:[ \t])", re.I)
_QUOTE = re.compile(r"[ \t]*(?:>[ \t]?)+")
_SENTENCE = re.compile(r".{20,}?(?:[.!?](?=\s+[^a-z\s]|\s*$)|。)")

# What a command as typed hardly has: classes, groups, anchors at the ends, `a|b` without blanks.
_REGEX = re.compile(
    r"\\[bBdDsSwWAZ.|]|\w\\[()\[\]{}*+?]|\(\?|\)[?*+]|\.[*+]|\[[^\[\]\s]+\]|[^\s|]\|[^\s|&]|^\^|[^\s$]\$$"
)
_PATH = re.compile(
    r"(?!.*//)(?=.*/|\*|(?!.*\.\*).*\*|.*\.(?:[cm]?[jt]sx?|pyi?|ipynb|jsonl?|toml|ya?ml|md|rst|txt|html?|s?css|[bz]?a?sh"
    r"|sql|go|rs|rb|java|kts?|[ch](?:c|pp)?|cs|php|lock|cfg|ini|env|xml|csv|vue)$|(?:Docker|Make|Just)file$)"
    r"[\w.@+~{}\[\],!*?/-]+"
)
_TOOLS = {name.lower(): name for name in (SHELL_TOOL, *FILE_TOOLS, "Task", "WebFetch", "WebSearch")}


@frozen
class LessonBlock:
    """One block: its fields as written, under their canonical names, where it stands, and what is wrong with it."""

    fields: dict[str, str]
    start: int
    end: int
    faults: tuple[str, ...] = ()


def find_lesson_blocks(text: str) -> list[LessonBlock]:
    """The closed blocks of a text that it does not take back; markers with no field between them are a mention."""
    return _read(text)[0]


def find_cancellations(text: str) -> list[str]:
    """What a text takes back: problems, for `is_cancelled`; "" for the last block before this text."""
    return _read(text)[1]


def is_cancelled(problem: str, by: str) -> bool:
    """Whether what `cancels` gave names this problem."""
    return bool(by) and by in _names({"problem": problem})


def has_only_blocks(text: str) -> bool:
    """Whether lessons are all that the text holds."""
    found = find_lesson_blocks(text)
    ends = [0, *(tag.end for tag in found)]
    starts = [*(tag.start for tag in found), len(text)]
    return bool(found) and not any(text[end:start].strip() for end, start in zip(ends, starts, strict=True))


def has_unclosed_block(text: str) -> bool:
    """Whether the text ends inside a block: to tell the person who typed it."""
    return any(not cancel and not closed for cancel, closed, *_ in [*_regions(text)][-1:])


def is_unfilled_template(tag: LessonBlock) -> bool:
    """Tell whether it repeats a template with nothing filled in; what is filled in halfway is for a person to mend."""
    told = [tag.fields[name] for name in ("summary", "problem", "solution") if name in tag.fields]
    return bool(told) and all(is_placeholder(text) for text in told)


def _read(text: str) -> tuple[list[LessonBlock], list[str]]:
    kept: list[LessonBlock | None] = []  # None is a block that was begun and not closed
    told: list[str] = []
    until: dict[str, int] = {}
    for cancel, closed, start, end, lines in _regions(text):
        fields, faults = _fields(lines if closed else lines[:2])
        if not cancel:
            if fields or not closed:
                kept.append(LessonBlock(fields, start, end, faults) if closed else None)
        elif by := normalize_text(fields.get("problem", "")).rstrip(". ")[:MAX_CANCEL_CHARS]:
            told.append(by)
            until[by] = start
        elif kept:
            kept.pop()
        else:
            told.append("")
    names = _names if until else lambda _: set()
    return [tag for tag in kept if tag and all(until.get(name, -1) < tag.start for name in names(tag.fields))], told


def _names(fields: Mapping[str, str]) -> set[str]:
    said = normalize_text(fields.get("problem", "")).rstrip(". ")
    return {said[:MAX_CANCEL_CHARS], *(said[:length] for length in range(MIN_CANCEL_CHARS, MAX_CANCEL_CHARS))}


def _regions(text: str) -> Iterator[tuple[bool, bool, int, int, list[str]]]:
    """Whether it cancels, whether it is closed, its span, and the lines between an opening marker and what ends it."""
    lines: list[str] = []
    start, cancel, quoted = -1, False, False
    for found in re.finditer(r"[^\n]*\n?", text):
        line = found[0].rstrip("\r\n")
        kind, rest = _marker(line)
        if kind.startswith("#l"):
            if start >= 0:
                yield cancel, False, start, found.start(), lines
            dress = line.index("#")
            start, cancel, quoted = found.start() + dress, kind == "#lesson:cancel", ">" in line[:dress]
            lines, line = [], rest
        if start < 0:
            continue
        tail = _TAIL.search(line)
        line = line[: tail.start()] if tail else line
        if not kind:
            lines.append(_QUOTE.sub("", line, count=1) if quoted else line)
        elif rest:
            lines += _INLINE.sub("\n", line).split("\n")
        if kind.startswith("#/") or tail:
            yield cancel, True, start, found.start() + len(found[0].rstrip(f"{_DRESS}\r\n")), lines
            start = -1
    if start >= 0:
        yield cancel, False, start, len(text), lines


def _marker(line: str) -> tuple[str, str]:
    """Which marker a line is, if any, and what stands behind it: nothing, or on an opening line the first field."""
    found = _MARKER.match(line.lstrip(_DRESS)) if "#" in line else None
    if not found:
        return "", ""
    rest = found.string[found.end() :].strip()
    if rest and (found[1] or not _FIELD.match(rest)):
        return "", ""
    return f"#{found[1]}lesson{found[2] or ''}".lower(), rest


def _fields(lines: Sequence[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    values: dict[str, list[str]] = {}
    faults: dict[str, None] = {}
    into: list[str] | None = None
    for line in lines:
        found = _FIELD.match(line)
        name = _CANONICAL[found[2].lower()] if found else ""
        if found and name not in values:
            into = values[name] = [found[3]]
            continue
        if found:
            faults[f"{name} is given twice: close the first block with #/lesson, or write it once"] = None
        if into is not None:
            into.append(line)
        elif line.strip() and not line.lstrip().startswith("```"):
            faults.setdefault("text before the first field is not read: begin with a field such as problem:")
    fields = {name: _joined(parts) for name, parts in values.items()}
    return {name: value for name, value in fields.items() if value}, tuple(faults)


def _joined(parts: Sequence[str]) -> str:
    """The lines of a value, without the indent they share and the end of a fence that began before them."""
    text = f"{parts[0].strip()}\n{textwrap.dedent(chr(10).join(part.rstrip() for part in parts[1:]))}".strip()
    return text.removesuffix("```").rstrip() if text.count("```") % 2 else text


def build_block_record(tag: LessonBlock, *, project: str = "") -> dict[str, Any]:
    """The block as a record of lessons.json. What is of the wrong kind stays as written, for `record.read` to name."""
    given = tag.fields
    problem, solution, scope, priority = (given.get(one, "") for one in ("problem", "solution", "scope", "priority"))
    scopes = {"project": {"type": "project", "path": project}, "global": {"type": "global"}}
    made = {
        "summary": " ".join(given.get("summary", "").split()) or build_summary(problem, solution),
        "problem": problem,
        "solution": solution,
        "delivery": given.get("delivery", "").lower(),
        "blockReason": given.get("blockReason", ""),
        "triggers": _triggers(given),
        "unless": [build_regex(one) for one in _lines(given.get("unless", ""))],
        "scope": scopes.get(scope.lower(), scope),
        "priority": int(priority) if re.fullmatch("[0-9]{1,4}", priority) else priority,
        "tags": _listed(given.get("tags", ""), "[]"),
    }
    return {key: value for key, value in made.items() if value != "" and value != []}


def build_summary(problem: str, solution: str) -> str:
    """The problem's first sentence, cut at a word; with the solution behind it where that says too little."""
    text = " ".join(problem[:2000].split())
    if len(text) < _SHORTEST_SUMMARY:
        text = ": ".join(filter(None, (text.rstrip(".:"), " ".join(solution[:2000].split()))))
    first = _SENTENCE.match(text)
    text = (first[0] if first else text).rstrip(" .…")
    if len(text) > _LONGEST_SUMMARY:
        cut = text[: _LONGEST_SUMMARY + 1].rpartition(" ")[0].rstrip(" ,;:.…–—-(")
        text = cut if len(cut) >= _SHORTEST_SUMMARY else text[:_LONGEST_SUMMARY]
    return text


def build_regex(text: str) -> str:
    """A regular expression as it is; a plain text as one that finds it, word by word."""
    if _REGEX.search(text) or PROSE_PATTERN.fullmatch(text) or not text.strip():
        return text
    words = (re.sub(r"\\([-#&~])", r"\1", re.escape(one)) for one in text.split())
    first, last = (r"\b" if re.match(r"\w", char) else "" for char in (text.strip()[0], text.strip()[-1]))
    return first + r"\s+".join(words) + last


def _triggers(given: Mapping[str, str]) -> dict[str, list[str]]:
    tools = [_TOOLS.get(name.lower(), name) for name in _listed(given.get("tool", "").replace("|", ","))]
    triggers = _lines(given.get("trigger", ""))
    paths = _listed(given.get("path", ""))
    contents = [build_regex(one) for one in _lines(given.get("content", ""))]
    if triggers and not (tools or paths or contents):
        tools = [SHELL_TOOL]
    commands = []
    for one in triggers:
        if not tools or SHELL_TOOL in tools:
            commands.append(build_regex(one))
        elif set(tools) == {"Read"} or (set(tools) & set(FILE_TOOLS) and _PATH.fullmatch(one)):
            paths.append(one)
        else:
            contents.append(build_regex(one))
    made = {"toolNames": tools, "commandPatterns": commands, "pathPatterns": paths, "contentPatterns": contents}
    return {name: values for name, values in made.items() if values}


def _lines(text: str) -> list[str]:
    """One value per line, without the quotes around it and an ellipsis behind it."""
    lines = (re.sub(r"(?<=\s)(?:…|\.\.\.)$", "", line.strip()).strip() for line in text.split("\n"))
    return [re.sub(r"^([`'\"])(.*)\1$", r"\2", line) for line in lines if line.strip("`'\"")]


def _listed(text: str, around: str = "") -> list[str]:
    """Values parted by commas or lines; commas in the braces of a glob part nothing."""
    pieces = text.split("\n") if "{" in text else text.replace(",", "\n").split("\n")
    return [piece for piece in (one.strip(f" \t`'\"{around}") for one in pieces) if piece]
