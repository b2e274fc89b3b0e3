"""Read a model's answer: the elements we asked for, cut to their sizes, and nothing else.

The form is forgiven, since the answer was paid for: a code fence, words around the elements, a tag or `&` that was not
escaped, a list that is too long. An element that cannot be read at all is left out, and the others stay. The content is
not forgiven; `refine` checks it against what was sent. No document is parsed, only single elements in which every
markup but our own tags was escaped before, so there are no entities to expand.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from xml.etree import ElementTree

from hardwon.distil.llm.exchange import Broken
from hardwon.privacy.cleaning import clean_text
from hardwon.text.excerpts import shorten_line
from hardwon.types import frozen

MAX_ANSWER_CHARS = 40_000  # characters
MAX_OBSERVATIONS = 4
MIN_QUOTE_CHARS = 5
# How many of an element there may be at most, and how long the text of each.
_MAX_TEXT_CHARS = {"type": 40, "title": 120, "subtitle": 240, "narrative": 2_000}
_LIST_LIMITS = {
    "facts": ("fact", 15, 400),
    "concepts": ("concept", 5, 40),
    "files_read": ("file", 30, 400),
    "files_modified": ("file", 30, 400),
    "quotes": ("quote", 5, 400),
}
_MAX_SUMMARY_CHARS = {"request": 600, "investigated": 1_000, "learned": 1_000, "completed": 1_000, "next_steps": 1_000}
_SKIP_TAG = "skip"
_FALLBACK_TYPE = "discovery"
_ITEM_TAGS = {inner for inner, _, _ in _LIST_LIMITS.values()}
_TAG_PATTERN = "|".join(
    sorted(
        {"observation", "summary", _SKIP_TAG, *_MAX_TEXT_CHARS, *_LIST_LIMITS, *_MAX_SUMMARY_CHARS, *_ITEM_TAGS},
        key=len,
        reverse=True,
    )
)
_OWN_TAG = re.compile(rf"<(/?)({_TAG_PATTERN})(|/|\s[^<>]*)>")  # attributes are let pass, and left out
_BARE_AMPERSAND = re.compile(r"&(?!(?:amp|lt|gt|quot|apos|#\d{1,7}|#x[0-9a-fA-F]{1,6});)")
_INVALID_XML_CHARS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


@frozen
class ModelObservation:
    """One observation as a model told it, not yet checked against the events."""

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
    """A summary as a model told it, not yet checked against what it was given."""

    request: str
    investigated: str = ""
    learned: str = ""
    completed: str = ""
    next_steps: str = ""
    quotes: tuple[str, ...] = ()


def parse_observations(text: str, types: Collection[str], concepts: Collection[str]) -> tuple[ModelObservation, ...]:
    """Return the observations of an answer, none for `<skip/>`; Broken if it holds nothing that can be used."""
    escaped = _escape_foreign_markup(text)
    observations = list[ModelObservation]()
    for element in _find_elements(escaped, "observation"):
        observation = _build_observation(element, types, concepts)
        if observation is not None:
            observations.append(observation)
    if not observations and not _is_skip(escaped):
        raise _build_error("no observation that can be read")
    return tuple(observations[:MAX_OBSERVATIONS])


def parse_summary(text: str) -> ModelSummary | None:
    """Return the summary of an answer, None for `<skip/>`; Broken if it holds none that can be used."""
    escaped = _escape_foreign_markup(text)
    for element in _find_elements(escaped, "summary"):
        texts, lists = _read_parts(element, _MAX_SUMMARY_CHARS, {"quotes": _LIST_LIMITS["quotes"]})
        quotes = _select_quotes(lists)
        if texts.get("request") and quotes:
            return ModelSummary(**texts, quotes=quotes)
    if _is_skip(escaped):
        return None
    raise _build_error("no summary with a request and a quote")


def _escape_foreign_markup(text: str) -> str:
    """Return the answer with everything escaped that looks like markup but is none of our tags."""
    if len(text) > MAX_ANSWER_CHARS:
        raise _build_error(f"{len(text):,} characters, and {MAX_ANSWER_CHARS:,} may be")
    text = _INVALID_XML_CHARS.sub(" ", text.encode("utf-8", "replace").decode())
    text = text.replace("<![CDATA[", "").replace("]]>", "")
    parts, end = list[str](), 0
    for tag in _OWN_TAG.finditer(text):
        slash = "/" if tag[3].endswith("/") else ""
        parts += [_escape_text(text[end : tag.start()]), f"<{tag[1]}{tag[2]}{slash}>"]
        end = tag.end()
    return "".join([*parts, _escape_text(text[end:])])


def _escape_text(text: str) -> str:
    return _BARE_AMPERSAND.sub("&amp;", text).replace("<", "&lt;").replace(">", "&gt;")


def _find_elements(escaped: str, name: str) -> Iterator[ElementTree.Element]:
    """Yield the elements of this name that are whole, each read by itself, so that a broken one spoils no other."""
    opening, closing = f"<{name}>", f"</{name}>"
    start = escaped.find(opening)
    while start >= 0:
        end = escaped.find(closing, start)
        if end < 0:
            return
        end += len(closing)
        try:
            yield ElementTree.fromstring(escaped[start:end])
        except (ElementTree.ParseError, ValueError):
            pass
        start = escaped.find(opening, end)


def _is_skip(escaped: str) -> bool:
    return (
        re.search(rf"<{_SKIP_TAG}/>|<{_SKIP_TAG}>\s*</{_SKIP_TAG}>", escaped) is not None
        and "<observation>" not in escaped
    )


def _build_observation(
    element: ElementTree.Element, types: Collection[str], concepts: Collection[str]
) -> ModelObservation | None:
    """Return what an element says; None without a title, or without a quote to check it by."""
    texts, lists = _read_parts(element, _MAX_TEXT_CHARS, _LIST_LIMITS)
    quotes = _select_quotes(lists)
    if not texts.get("title") or not quotes:
        return None
    if texts.get("type") not in types:
        texts["type"] = _FALLBACK_TYPE  # the label is wrong, which is no reason to lose what was found out
    known_concepts = tuple(name for name in lists.get("concepts", ()) if name in concepts)
    return ModelObservation(**texts, **{**lists, "concepts": known_concepts, "quotes": quotes})  # type: ignore[arg-type]


def _read_parts(
    element: ElementTree.Element, text_limits: dict[str, int], list_limits: dict[str, tuple[str, int, int]]
) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """Return the texts and the lists of texts in an element; of one that comes twice the first."""
    found_texts, found_lists = dict[str, str](), dict[str, tuple[str, ...]]()
    for part in element:
        if part.tag in text_limits:
            found_texts.setdefault(part.tag, shorten_line(_get_clean_text(part), text_limits[part.tag]))
        elif part.tag in list_limits:
            item_tag, max_items, max_chars = list_limits[part.tag]
            texts = (_fit_text(item_tag, _get_clean_text(item), max_chars) for item in part if item.tag == item_tag)
            found_lists.setdefault(part.tag, tuple(dict.fromkeys(text for text in texts if text))[:max_items])
    return found_texts, found_lists


def _get_clean_text(element: ElementTree.Element) -> str:
    return clean_text(" ".join("".join(element.itertext()).split()))


def _fit_text(name: str, text: str, max_chars: int) -> str:
    """Return a text of a list at its size; a quote and a path stay letter by letter, since both are looked up."""
    if name == "quote":
        return text[:max_chars].rstrip()
    if name == "file":
        return text if len(text) <= max_chars else ""
    return shorten_line(text, max_chars)


def _select_quotes(lists: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the quotes that are long enough to tell one place from another."""
    return tuple(quote for quote in lists.get("quotes", ()) if len(quote) >= MIN_QUOTE_CHARS)


def _build_error(reason: str) -> Broken:
    return Broken(f"the answer is not as asked for: {reason}", outcome="malformed")
