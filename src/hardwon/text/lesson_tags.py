"""`#lesson … #/lesson` blocks, which a person types as a prompt, or an agent writes in its answer, to add a lesson.

Markers may be quoted, bold, or in a list or code fence. A line without a field name continues the value before it. A
new `#lesson` inside an unclosed block starts over. `#lesson:cancel` cancels the block before it; with a `problem:`, or
its beginning, and `#/lesson:cancel` it cancels the earlier blocks with that problem. Transcripts are hostile input, so
each line is read once, and no pattern backtracks over the same characters.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hardwon.text.excerpts import PROSE_PATTERN, is_placeholder
from hardwon.text.similarity import normalize_text
from hardwon.types import FILE_TOOLS, OLD_LESSON_KEYS, SHELL_TOOL, frozen

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
# The length of the beginning of a problem that identifies it; a shorter text must be the whole problem.
_MIN_CANCEL_CHARS, _MAX_CANCEL_CHARS = 20, 60
_MIN_SUMMARY_CHARS, _MAX_SUMMARY_CHARS = 20, 110
_CANONICAL_NAMES = {name.lower(): name for name in FIELDS} | OLD_LESSON_KEYS
_NAME_PATTERN = "|".join(_CANONICAL_NAMES)
_DECORATION = " \t>*_`+-"  # spaces, quote and list markers, bold, backticks
_MARKER = re.compile(r"(?:\d{1,3}[.)][ \t*_`]*)?#(/?)lesson(:cancel)?[*_`]*(?=[ \t]|$)", re.I)
_END_MARKER = re.compile(r"[ \t]#/lesson(?::cancel)?[ \t*_`]*$", re.I)
_FIELD_LINE = re.compile(
    rf"[ \t]*(?:(?:[-*+]|\d{{1,3}}[.)])[ \t]+)?(\*\*|__|`|)({_NAME_PATTERN})(?:\1[ \t]*:|[ \t]*:\1|[ \t]*:)[ \t]*(.*)",
    re.I,
)
_INLINE_FIELD = re.compile(rf"[ \t](?=(?:{_NAME_PATTERN})[ \t]*:[ \t])", re.I)
_QUOTE_PREFIX = re.compile(r"[ \t]*(?:>[ \t]?)+")
_FIRST_SENTENCE = re.compile(r".{20,}?(?:[.!?](?=\s+[^a-z\s]|\s*$)|。)")

# Regex syntax that commands rarely contain: classes, groups, anchors at the ends, `a|b` without spaces.
_REGEX_SYNTAX = re.compile(
    r"\\[bBdDsSwWAZ.|]|\w\\[()\[\]{}*+?]|\(\?|\)[?*+]|\.[*+]|\[[^\[\]\s]+\]|[^\s|]\|[^\s|&]|^\^|[^\s$]\$$"
)
_PATH_PATTERN = re.compile(
    r"(?!.*//)(?=.*/|\*|(?!.*\.\*).*\*|.*\.(?:[cm]?[jt]sx?|pyi?|ipynb|jsonl?|toml|ya?ml|md|rst|txt|html?|s?css|[bz]?a?sh"
    r"|sql|go|rs|rb|java|kts?|[ch](?:c|pp)?|cs|php|lock|cfg|ini|env|xml|csv|vue)$|(?:Docker|Make|Just)file$)"
    r"[\w.@+~{}\[\],!*?/-]+"
)
_TOOL_NAMES = {name.lower(): name for name in (SHELL_TOOL, *FILE_TOOLS, "Task", "WebFetch", "WebSearch")}


@frozen
class LessonBlock:
    """One block: its fields as written under their canonical names, its span, and its faults."""

    fields: dict[str, str]
    start: int
    end: int
    faults: tuple[str, ...] = ()


def find_lesson_blocks(text: str) -> list[LessonBlock]:
    """Return the closed blocks that the text does not cancel; markers with no field between them are ignored."""
    blocks, _ = _read_blocks(text)
    return blocks


def find_cancellations(text: str) -> list[str]:
    """Return the problems that a text cancels, for `is_cancelled`; "" stands for the last block before this text."""
    _, cancellations = _read_blocks(text)
    return cancellations


def is_cancelled(problem: str, cancellation: str) -> bool:
    """Return whether an item of `find_cancellations` names this problem."""
    return bool(cancellation) and cancellation in _list_problem_prefixes({"problem": problem})


def has_only_blocks(text: str) -> bool:
    """Return whether the text consists of lesson blocks and nothing else."""
    blocks = find_lesson_blocks(text)
    if not blocks:
        return False
    read_to = 0
    for block in blocks:
        if text[read_to : block.start].strip():
            return False
        read_to = block.end
    return not text[read_to:].strip()


def has_unclosed_block(text: str) -> bool:
    """Return whether the text ends inside a block, so that the person who typed it can be told."""
    regions = list(_find_regions(text))
    if not regions:
        return False
    last_region = regions[-1]
    return not last_region.is_cancel and not last_region.is_closed


def is_unfilled_template(block: LessonBlock) -> bool:
    """Return whether a block is a template with nothing filled in; a person can fix one that is half filled in."""
    values = [block.fields[name] for name in ("summary", "problem", "solution") if name in block.fields]
    return bool(values) and all(is_placeholder(text) for text in values)


def _read_blocks(text: str) -> tuple[list[LessonBlock], list[str]]:
    """Return the closed blocks that the text does not cancel, and what it cancels, see `find_cancellations`."""
    blocks: list[LessonBlock | None] = []  # None for an unclosed block, which `#lesson:cancel` can still cancel
    cancellations: list[str] = []
    cancelled_before: dict[str, int] = {}  # by a problem: blocks with it that begin before this position
    for region in _find_regions(text):
        # Only the beginning of an unclosed region can be fields; the rest is other text.
        fields, faults = _parse_fields(region.lines if region.is_closed else region.lines[:2])
        if not region.is_cancel:
            if not region.is_closed:
                blocks.append(None)
            elif fields:
                blocks.append(LessonBlock(fields, region.start, region.end, faults))
            continue
        cancelled_problem = normalize_text(fields.get("problem", "")).rstrip(". ")[:_MAX_CANCEL_CHARS]
        if cancelled_problem:
            cancellations.append(cancelled_problem)
            cancelled_before[cancelled_problem] = region.start
        elif blocks:
            blocks.pop()
        else:
            cancellations.append("")
    remaining_blocks = []
    for block in blocks:
        if block is None:
            continue
        prefixes = _list_problem_prefixes(block.fields) if cancelled_before else set()
        if all(cancelled_before.get(prefix, -1) < block.start for prefix in prefixes):
            remaining_blocks.append(block)
    return remaining_blocks, cancellations


def _list_problem_prefixes(fields: Mapping[str, str]) -> set[str]:
    """Return the beginnings of a block's problem by which it can be cancelled."""
    problem = normalize_text(fields.get("problem", "")).rstrip(". ")
    return {problem[:length] for length in range(_MIN_CANCEL_CHARS, _MAX_CANCEL_CHARS + 1)}


@frozen
class _Region:
    """The text from an opening marker to its end, and the lines between them."""

    is_cancel: bool
    is_closed: bool
    start: int
    end: int
    lines: list[str]


def _find_regions(text: str) -> Iterator[_Region]:
    """Yield the region of each opening marker."""
    lines: list[str] = []
    start = -1
    is_cancel = False
    is_quoted = False
    for line_match in re.finditer(r"[^\n]*\n?", text):
        line = line_match[0].rstrip("\r\n")
        marker, rest = _parse_marker(line)
        if marker.startswith("#l"):
            if start >= 0:
                yield _Region(is_cancel, is_closed=False, start=start, end=line_match.start(), lines=lines)
            marker_offset = line.index("#")
            start = line_match.start() + marker_offset
            is_cancel = marker == "#lesson:cancel"
            is_quoted = ">" in line[:marker_offset]
            lines = []
            line = rest
        if start < 0:
            continue
        end_marker = _END_MARKER.search(line)
        if end_marker:
            line = line[: end_marker.start()]
        if not marker:
            lines.append(_QUOTE_PREFIX.sub("", line, count=1) if is_quoted else line)
        elif rest:
            lines += _INLINE_FIELD.sub("\n", line).split("\n")
        if marker.startswith("#/") or end_marker:
            end = line_match.start() + len(line_match[0].rstrip(f"{_DECORATION}\r\n"))
            yield _Region(is_cancel, is_closed=True, start=start, end=end, lines=lines)
            start = -1
    if start >= 0:
        yield _Region(is_cancel, is_closed=False, start=start, end=len(text), lines=lines)


def _parse_marker(line: str) -> tuple[str, str]:
    """Return the marker on a line, if any, and the first field that may follow an opening marker."""
    match = _MARKER.match(line.lstrip(_DECORATION)) if "#" in line else None
    if not match:
        return "", ""
    rest = match.string[match.end() :].strip()
    if rest and (match[1] or not _FIELD_LINE.match(rest)):
        return "", ""
    return f"#{match[1]}lesson{match[2] or ''}".lower(), rest


def _parse_fields(lines: Sequence[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the fields of a block that have a value, and its faults, each once."""
    values: dict[str, list[str]] = {}
    faults: dict[str, None] = {}
    current_value: list[str] | None = None
    for line in lines:
        match = _FIELD_LINE.match(line)
        name = _CANONICAL_NAMES[match[2].lower()] if match else ""
        if match and name not in values:
            current_value = [match[3]]
            values[name] = current_value
            continue
        if match:
            faults[f"{name} is given twice: close the first block with #/lesson, or write it once"] = None
        if current_value is not None:
            current_value.append(line)
        elif line.strip() and not line.lstrip().startswith("```"):
            faults.setdefault("text before the first field is not read: begin with a field such as problem:")
    fields = {name: _join_parts(parts) for name, parts in values.items()}
    return {name: value for name, value in fields.items() if value}, tuple(faults)


def _join_parts(parts: Sequence[str]) -> str:
    """Join the lines of a value, without their common indent and the end of a fence that began before them."""
    following_lines = "\n".join(part.rstrip() for part in parts[1:])
    text = f"{parts[0].strip()}\n{textwrap.dedent(following_lines)}".strip()
    has_half_fence = text.count("```") % 2 == 1
    return text.removesuffix("```").rstrip() if has_half_fence else text


def build_block_record(block: LessonBlock, *, project: str = "") -> dict[str, Any]:
    """Return the block as a record of lessons.json; invalid values stay as written, for the validation to report."""
    fields = block.fields
    problem = fields.get("problem", "")
    solution = fields.get("solution", "")
    scope = fields.get("scope", "")
    priority = fields.get("priority", "")
    scopes = {"project": {"type": "project", "path": project}, "global": {"type": "global"}}
    record = {
        "summary": " ".join(fields.get("summary", "").split()) or build_summary(problem, solution),
        "problem": problem,
        "solution": solution,
        "delivery": fields.get("delivery", "").lower(),
        "blockReason": fields.get("blockReason", ""),
        "triggers": _build_triggers(fields),
        "unless": [build_regex(item) for item in _split_lines(fields.get("unless", ""))],
        "scope": scopes.get(scope.lower(), scope),
        "priority": int(priority) if re.fullmatch("[0-9]{1,4}", priority) else priority,
        "tags": _split_list(fields.get("tags", ""), "[]"),
    }
    return {key: value for key, value in record.items() if value != "" and value != []}


def build_summary(problem: str, solution: str) -> str:
    """Return the first sentence of the problem, cut between words; a very short problem gets the solution appended."""
    text = " ".join(problem[:2000].split())
    if len(text) < _MIN_SUMMARY_CHARS:
        parts = (text.rstrip(".:"), " ".join(solution[:2000].split()))
        text = ": ".join([part for part in parts if part])
    if sentence := _FIRST_SENTENCE.match(text):
        text = sentence[0]
    text = text.rstrip(" .…")
    if len(text) > _MAX_SUMMARY_CHARS:
        shortened = text[: _MAX_SUMMARY_CHARS + 1].rpartition(" ")[0].rstrip(" ,;:.…–—-(")
        text = shortened if len(shortened) >= _MIN_SUMMARY_CHARS else text[:_MAX_SUMMARY_CHARS]
    return text


def build_regex(text: str) -> str:
    """Return plain text as a regex that matches its words in order; a regex, prose and blank text stay as they are."""
    if _REGEX_SYNTAX.search(text) or PROSE_PATTERN.fullmatch(text) or not text.strip():
        return text
    # `re.escape` also escapes signs that mean nothing outside of a set, and people read these patterns.
    words = [re.sub(r"\\([-#&~])", r"\1", re.escape(word)) for word in text.split()]
    stripped = text.strip()
    prefix = r"\b" if re.match(r"\w", stripped[0]) else ""
    suffix = r"\b" if re.match(r"\w", stripped[-1]) else ""
    return prefix + r"\s+".join(words) + suffix


def _build_triggers(fields: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the triggers of a block: a `trigger:` is a command, or a path or content if its tools run no commands."""
    tools = [_TOOL_NAMES.get(name.lower(), name) for name in _split_list(fields.get("tool", "").replace("|", ","))]
    triggers = _split_lines(fields.get("trigger", ""))
    paths = _split_list(fields.get("path", ""))
    contents = [build_regex(pattern) for pattern in _split_lines(fields.get("content", ""))]
    if triggers and not (tools or paths or contents):
        tools = [SHELL_TOOL]
    commands = []
    for pattern in triggers:
        if not tools or SHELL_TOOL in tools:
            commands.append(build_regex(pattern))
        elif set(tools) == {"Read"} or (set(tools) & set(FILE_TOOLS) and _PATH_PATTERN.fullmatch(pattern)):
            paths.append(pattern)
        else:
            contents.append(build_regex(pattern))
    trigger_lists = {
        "toolNames": tools,
        "commandPatterns": commands,
        "pathPatterns": paths,
        "contentPatterns": contents,
    }
    return {name: values for name, values in trigger_lists.items() if values}


def _split_lines(text: str) -> list[str]:
    """Return one value per line, without surrounding quotes and a final ellipsis."""
    values = []
    for line in text.split("\n"):
        value = re.sub(r"(?<=\s)(?:…|\.\.\.)$", "", line.strip()).strip()
        if value.strip("`'\""):
            values.append(re.sub(r"^([`'\"])(.*)\1$", r"\2", value))
    return values


def _split_list(text: str, extra_chars: str = "") -> list[str]:
    """Split values at commas and newlines; only at newlines if there is a brace, as in the glob `*.{js,ts}`."""
    if "{" not in text:
        text = text.replace(",", "\n")
    stripped_pieces = [piece.strip(f" \t`'\"{extra_chars}") for piece in text.split("\n")]
    return [piece for piece in stripped_pieces if piece]
