"""A model's answer, read strictly: the elements we asked for, within their sizes, and nothing else.

What does not fit is refused as a whole: an answer that breaks the form has not followed the instructions, and the plain
observation is there anyway. Declarations are refused before parsing, so there are no entities to expand.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from xml.etree import ElementTree

from hardwon.core.clean import clean
from hardwon.distil.llm.said import Broken
from hardwon.words import word

LONGEST = 40_000  # characters
MOST_OBSERVATIONS = 4
SHORTEST_QUOTE = 5
# How many of an element there may be at most, and how long the text of each.
_ONE = {"type": 40, "title": 120, "subtitle": 240, "narrative": 2_000}
_MANY = {
    "facts": ("fact", 15, 400),
    "concepts": ("concept", 5, 40),
    "files_read": ("file", 30, 400),
    "files_modified": ("file", 30, 400),
    "quotes": ("quote", 5, 400),
}
_SUMMARY = {"request": 600, "investigated": 1_000, "learned": 1_000, "completed": 1_000, "next_steps": 1_000}
_DECLARATION = re.compile(r"<[!?]")
_SKIP = "skip"


@word
class Told:
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


@word
class ToldSummary:
    """A summary as a model told it, not yet checked against what it was given."""

    request: str
    investigated: str = ""
    learned: str = ""
    completed: str = ""
    next_steps: str = ""
    quotes: tuple[str, ...] = ()


def observations(text: str, types: Collection[str], concepts: Collection[str]) -> tuple[Told, ...]:
    """The observations of an answer, none for `<skip/>`; Broken if it is anything else."""
    found = _elements(text)
    if [each.tag for each in found] == [_SKIP]:
        return ()
    if not 1 <= len(found) <= MOST_OBSERVATIONS:
        raise _wrong(f"{len(found)} elements, and 1 to {MOST_OBSERVATIONS} may be")
    return tuple(_observation(each, types, concepts) for each in found)


def summary(text: str) -> ToldSummary | None:
    """The summary of an answer, None for `<skip/>`; Broken if it is anything else."""
    found = _elements(text)
    if [each.tag for each in found] == [_SKIP]:
        return None
    if [each.tag for each in found] != ["summary"]:
        raise _wrong("not one summary")
    one, many = _parts(found[0], _SUMMARY, {"quotes": _MANY["quotes"]})
    if not one.get("request"):
        raise _wrong("a summary without request")
    return ToldSummary(**one, quotes=_quotes(many))


def _elements(text: str) -> list[ElementTree.Element]:
    """What stands beside each other in the answer."""
    if len(text) > LONGEST:
        raise _wrong(f"{len(text):,} characters, and {LONGEST:,} may be")
    if _DECLARATION.search(text):
        raise _wrong("a declaration, comment or section in it")
    try:
        root = ElementTree.fromstring(f"<answer>{text.encode('utf-8', 'replace').decode()}</answer>")
    except (ElementTree.ParseError, ValueError):
        raise _wrong("it is no XML") from None
    _only_elements(root)
    for each in root:
        if each.tag == _SKIP and (len(each) or (each.text or "").strip()):
            raise _wrong("a skip that is not empty")
    return list(root)


def _observation(element: ElementTree.Element, types: Collection[str], concepts: Collection[str]) -> Told:
    if element.tag != "observation":
        raise _wrong(f"an element {element.tag[:40]!r}")
    one, many = _parts(element, _ONE, _MANY)
    if one.get("type") not in types:
        raise _wrong(f"the type {one.get('type', '')!r}")
    if not one.get("title"):
        raise _wrong("an observation without title")
    if unknown := [name for name in many.get("concepts", ()) if name not in concepts]:
        raise _wrong(f"the concept {unknown[0]!r}")
    return Told(**one, **{**many, "quotes": _quotes(many)})  # type: ignore[arg-type]


def _parts(
    element: ElementTree.Element, singles: dict[str, int], lists: dict[str, tuple[str, int, int]]
) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """The texts and the lists of texts in an element, each at most once."""
    _only_elements(element)
    one, many = dict[str, str](), dict[str, tuple[str, ...]]()
    for part in element:
        name = part.tag
        if name in one or name in many:
            raise _wrong(f"{name} twice")
        if name in singles:
            one[name] = _text(part, singles[name])
        elif name in lists:
            inner, most, longest = lists[name]
            _only_elements(part)
            if len(part) > most or any(each.tag != inner for each in part):
                raise _wrong(f"{name} holds more than {most}, or something other than {inner}")
            texts = (_text(each, longest) for each in part)
            many[name] = tuple(dict.fromkeys(each for each in texts if each))
        else:
            raise _wrong(f"an element {name[:40]!r}")
    return one, many


def _only_elements(element: ElementTree.Element) -> None:
    around = [element.text, *(each.tail for each in element)]
    if any(text and text.strip() for text in around) or element.attrib:
        raise _wrong("text or attributes where only elements may be")


def _text(element: ElementTree.Element, longest: int) -> str:
    if len(element) or element.attrib:
        raise _wrong(f"elements or attributes within {element.tag[:40]}")
    text = " ".join((element.text or "").split())
    if len(text) > longest:
        raise _wrong(f"{element.tag[:40]} has {len(text):,} characters, and {longest:,} may be")
    return clean(text)


def _quotes(many: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    quotes = many.get("quotes", ())
    if not quotes or any(len(quote) < SHORTEST_QUOTE for quote in quotes):
        raise _wrong(f"no quote, or one below {SHORTEST_QUOTE} characters")
    return quotes


def _wrong(what: str) -> Broken:
    return Broken(f"the answer is not as asked for: {what}", outcome="malformed")
