"""Parse a model's answer into the requested elements, each cut to its limit.

Errors of form are tolerated, because the answer was paid for: a code fence, text around the elements, an unescaped tag
or `&`, a list that is too long. An element without an end is dropped and the others are kept. Content is checked
elsewhere, by `refinement`. Elements are found by their tags, without parsing a document.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from html import unescape
from typing import Any

from hardwon.distil.llm.exchange import Broken
from hardwon.privacy.cleaning import clean_text
from hardwon.text.excerpts import shorten_line
from hardwon.types import frozen

MAX_ANSWER_CHARS = 40_000  # longest answer accepted
MAX_OBSERVATIONS = 4
MIN_QUOTE_CHARS = 5
# The most items of each element, and the longest text of each.
_MAX_TEXT_CHARS = {"type": 40, "title": 120, "subtitle": 240, "narrative": 2_000}
_LIST_LIMITS = {
    "facts": ("fact", 15, 400),
    "concepts": ("concept", 5, 40),
    "files_read": ("file", 30, 400),
    "files_modified": ("file", 30, 400),
    "quotes": ("quote", 5, 400),
}
_MAX_SUMMARY_CHARS = {"request": 600, "investigated": 1_000, "learned": 1_000, "completed": 1_000, "next_steps": 1_000}
_SKIP = re.compile(r"<skip\s*/>|<skip>\s*</skip>")
_FALLBACK_TYPE = "discovery"
_TAG_NAMES = "|".join(
    [*_MAX_TEXT_CHARS, *_LIST_LIMITS, *_MAX_SUMMARY_CHARS, *{row[0] for row in _LIST_LIMITS.values()}]
)
_OWN_TAG = re.compile(rf"</?(?:{_TAG_NAMES})(?:\s[^<>]*)?/?>|<!\[CDATA\[|\]\]>")  # models write these inside text


@frozen
class ModelObservation:
    """An observation from a model, not checked against the events yet."""

    type: str
    title: str
    subtitle: str = ""
    narrative: str = ""
    facts: tuple[str, ...] = ()
    concepts: tuple[str, ...] = ()
    files_read: tuple[str, ...] = ()
    files_modified: tuple[str, ...] = ()
    quotes: tuple[str, ...] = ()


@frozen
class ModelSummary:
    """A summary from a model, not checked yet."""

    request: str
    investigated: str = ""
    learned: str = ""
    completed: str = ""
    next_steps: str = ""
    quotes: tuple[str, ...] = ()


def parse_observations(text: str, types: Collection[str], concepts: Collection[str]) -> tuple[ModelObservation, ...]:
    """Parse the observations, none for `<skip/>`; Broken if the answer has nothing usable."""
    _check_size(text)
    observations = list[ModelObservation]()
    for element in _find_elements(text, "observation"):
        parts = _read_parts(element, _MAX_TEXT_CHARS, _LIST_LIMITS)
        if not parts.get("title") or not parts.get("quotes"):
            continue  # without a quote nothing can be checked
        if parts.get("type") not in types:
            parts["type"] = _FALLBACK_TYPE  # a wrong label is no reason to drop the content
        parts["concepts"] = tuple(name for name in parts.get("concepts", ()) if name in concepts)
        observations.append(ModelObservation(**parts))
    if not observations and ("<observation>" in text or not _SKIP.search(text)):
        raise _build_error("no observation that can be read")
    return tuple(observations[:MAX_OBSERVATIONS])


def parse_summary(text: str) -> ModelSummary | None:
    """Parse the summary, None for `<skip/>`; Broken if the answer has nothing usable."""
    _check_size(text)
    for element in _find_elements(text, "summary"):
        parts = _read_parts(element, _MAX_SUMMARY_CHARS, {"quotes": _LIST_LIMITS["quotes"]})
        if parts.get("request") and parts.get("quotes"):
            return ModelSummary(**parts)
    if _SKIP.search(text):
        return None
    raise _build_error("no summary with a request and a quote")


def _check_size(text: str) -> None:
    if len(text) > MAX_ANSWER_CHARS:
        raise _build_error(f"{len(text):,} characters, and {MAX_ANSWER_CHARS:,} may be")


def _find_elements(text: str, name: str) -> Iterator[str]:
    """Yield the content of each closed element of this name; attributes are ignored."""
    opening, closing = re.compile(rf"<{name}(?:\s[^<>]*)?>"), re.compile(rf"</{name}\s*>")
    position = 0
    while (start := opening.search(text, position)) and (end := closing.search(text, start.end())):
        yield text[start.end() : end.start()]
        position = end.end()


def _read_parts(
    element: str, text_limits: Mapping[str, int], list_limits: Mapping[str, tuple[str, int, int]]
) -> dict[str, Any]:
    """Parse the texts and lists in an element; if one occurs twice, the first counts."""
    parts = dict[str, Any]()
    for name, max_chars in text_limits.items():
        if content := next(_find_elements(element, name), ""):
            parts[name] = shorten_line(_to_clean_text(content), max_chars)
    for name, (item_name, max_items, max_chars) in list_limits.items():
        items = _find_elements(next(_find_elements(element, name), ""), item_name)
        texts = (_fit_text(item_name, _to_clean_text(item), max_chars) for item in items)
        parts[name] = tuple(dict.fromkeys(text for text in texts if text))[:max_items]
    return parts


def _to_clean_text(content: str) -> str:
    plain = unescape(_OWN_TAG.sub(" ", content)).encode("utf-8", "replace").decode()
    return clean_text(" ".join(plain.split()))


def _fit_text(name: str, text: str, max_chars: int) -> str:
    """Shorten a list item; quotes and paths stay exact because they are looked up."""
    if name == "quote":
        return text[:max_chars].rstrip() if len(text) >= MIN_QUOTE_CHARS else ""
    if name == "file":
        return text if len(text) <= max_chars else ""
    return shorten_line(text, max_chars)


def _build_error(reason: str) -> Broken:
    return Broken(f"the answer is not as asked for: {reason}", outcome="malformed")
