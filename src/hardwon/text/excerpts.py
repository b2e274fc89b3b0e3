"""Lines, sentences and short names for people, made from session text, without control characters."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Sequence

ELLIPSIS = "…"
_INVISIBLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]+"
)
_SENTENCE_END = re.compile(
    r"(?<=[.!?])(?<!\b[a-z]\.)(?<!e\.g\.)(?<!i\.e\.)(?<!etc\.)\s+(?=[\"'“`(*]*[A-Z0-9\u0080-\uffff])|(?<=。)"
)
_MARKUP = re.compile(r"^\s*(?:[#>]+\s+|[-*+•]\s+(?:\[[ xX]\]\s+)?|\d+[.)]\s+)|^\s*\|?[-|: ]{4,}$")
_BOLD = re.compile(r"(`[^`]*`)|\*\*")  # inside code, as in `src/**`, the asterisks are no markup
_LINK = re.compile(r"\[([^\[\]]{1,200})\]\(([^()\s]{1,400})\)")
_FENCE = re.compile(r"^\s*(?:```|~~~)")
# Prose where a pattern belongs, such as "running tests"; `ping host` and its relatives are commands.
PROSE_PATTERN = re.compile(r"(?!(?:f|ar|h|t|nc)?ping\b)[a-z]{2,}ing(?: [a-z']+)+", re.I)
_ONLY_PLACEHOLDER = re.compile(r"<[^<>]*>|\{\{[^{}]*\}\}|\[[^\[\]]*\]|…|\.{3,}|[^\w]*")
_TRAILING_MARKS = " ,;:-–—/|&("
_LONG_WORD_LENGTH = 20
_MAX_SLUG_STEM = 36


def collapse_spaces(text: str) -> str:
    return " ".join(text.split())


def to_plain_line(text: str) -> str:
    """Return the text on one line, without invisible characters."""
    return collapse_spaces(_INVISIBLE.sub(" ", text))


def shorten_line(text: str, max_length: int) -> str:
    """Return the text on one line of at most `max_length` characters, cut between words."""
    line = to_plain_line(text[: 4 * max_length + 400])
    if len(line) <= max_length:
        return line
    full_words, _, last_word = line[: max_length - 1].rpartition(" ")
    if len(last_word) > _LONG_WORD_LENGTH or not full_words:
        return _cut_long_word(line, max_length)
    return f"{full_words.rstrip(_TRAILING_MARKS)} {ELLIPSIS}"


def _cut_long_word(line: str, max_length: int) -> str:
    """Cut a line that ends in a long word, such as a path or a URL, at a separator inside it."""
    end = max(line.rfind(separator, 1, max_length - 1) for separator in "/?&=.:_|-, ")
    return line[:end].rstrip(_TRAILING_MARKS) + ELLIPSIS if end > 0 else ELLIPSIS


def list_prose_lines(text: str) -> list[str]:
    """Return the lines of an agent's answer without its markup, code and tables."""
    prose_lines: list[str] = []
    in_fence = False
    for raw_line in text.splitlines():
        is_fence = _FENCE.match(raw_line) is not None
        if is_fence:
            in_fence = not in_fence
        if is_fence or in_fence or raw_line.lstrip().startswith("|"):
            continue
        line = to_plain_line(_strip_markup(raw_line))
        if line:
            prose_lines.append(_LINK.sub(_format_link, line) if "](" in line else line)
    return prose_lines


def _strip_markup(line: str) -> str:
    line = _MARKUP.sub("", line)
    return _BOLD.sub(lambda match: match[1] or "", line) if "**" in line else line


def _format_link(link: re.Match[str]) -> str:
    return f"{link[1]} ({link[2]})" if link[2].startswith("http") else link[1]


def split_sentences(text: str) -> list[str]:
    sentences: list[str] = []
    for line in list_prose_lines(text):
        sentences += filter(None, _SENTENCE_END.split(line))
    return sentences


def is_informative(sentence: str) -> bool:
    """Return whether a sentence is neither a heading nor the introduction of a list."""
    has_ending = sentence.endswith((".", "!", "?", ")", "`", "。"))
    if sentence.endswith(":") or sentence.startswith(ELLIPSIS):
        return False
    return has_ending or sentence.count(" ") > 3


def join_names(names: Iterable[str], limit: int, *, quote: str = "{}") -> str:
    """Join unique names as in `a, b and 3 more`, or `a, b and c` if there are no more; empty without names."""
    unique_names = list(dict.fromkeys(names))
    shown_names = [quote.format(name) for name in unique_names[:limit]]
    if len(unique_names) > limit:
        return ", ".join(shown_names) + f" and {len(unique_names) - limit} more"
    if len(shown_names) < 2:
        return "".join(shown_names)
    *first_names, last_name = shown_names
    return f"{', '.join(first_names)} and {last_name}"


def format_times(count: int) -> str:
    if count == 1:
        return ""
    return " twice" if count == 2 else f" {count} times"


def select_fitting(items: Sequence[str], max_chars: int) -> list[str]:
    """Return the items that fit into `max_chars`, each with a character between them; the first is always included."""
    selected = list[str]()
    used_chars = 0
    for item in items:
        size = len(item) + 1
        if not selected or used_chars + size <= max_chars:
            selected.append(item)
            used_chars += size
    return selected


def create_slug(summary: str, used_slugs: Container[str], make_suffix: Callable[[], str]) -> str:
    """Return a slug that people can read aloud: the summary in kebab case and a suffix that makes it unique."""
    stem = re.sub(r"[^a-z0-9]+", "-", summary.lower()).strip("-") or "lesson"
    if len(stem) > _MAX_SLUG_STEM:
        stem = stem[: _MAX_SLUG_STEM + 1].rpartition("-")[0] or stem[:_MAX_SLUG_STEM]
    slug = f"{stem}-{make_suffix()}"
    while slug in used_slugs:
        slug = f"{stem}-{make_suffix()}"
    return slug


def is_placeholder(text: str) -> bool:
    """Return whether a text is only a template's placeholder, such as `<problem>` or `…`."""
    return _ONLY_PLACEHOLDER.fullmatch(text.strip("\"'` ")) is not None
