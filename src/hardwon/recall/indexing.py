"""Bringing the index up to date, in the background: the words of what is new first, then the vectors.

Reading, parting into words and embedding happen outside of transactions, and these are short, because hooks write too.
What is on a list is taken from it in the transaction that writes its document or its vector, so that a refresh may be
killed anywhere and two may run at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from hardwon import projects as places
from hardwon.core.words_of import ends_of, mark, words_of
from hardwon.errors import UserError
from hardwon.recall import codes, embed, handoffs, manifest, memories, memory_files, records
from hardwon.recall.records import Content
from hardwon.store import documents
from hardwon.store import lessons as shelves
from hardwon.store import projects as kept
from hardwon.store.db import Connection, transaction
from hardwon.store.documents import EVERYWHERE, KINDS, Document

if TYPE_CHECKING:
    import numpy

SLICE_SECONDS = 0.02
PORTION = 300  # rows read at once
EMBEDDED = 128  # texts embedded at once
LONGEST = 8_000  # characters of one text that are indexed
MOST_WORDS = 600


def model_or_none() -> embed.Model | None:
    """The shipped model; None if there is none, and search goes by words alone."""
    try:
        return embed.load()
    except embed.Absent:
        return None


def refresh(connection: Connection, home: str, *, model: embed.Model | None, go_on: Callable[[], bool]) -> Counter[str]:
    """Index what is new or changed, as long as it may go on; gives what was done, by name."""
    done = Counter[str]()
    done["lessons"] += _lessons(connection, home)
    done["memories"] += _memories(connection, home)
    done["handoffs"] += _handoffs(connection, home)
    while go_on() and (count := _portion(connection)):
        done["documents"] += count
    if model is not None:
        while go_on() and (count := documents.drop_stale(connection, embed.VERSION, PORTION)):
            done["stale"] += count
        while go_on() and (count := _embed(connection, home, model)):
            done["vectors"] += count
    return +done


def document_words(content: Content, *, kind: str, host: str) -> tuple[str, ...]:
    """The words of a text, with the marks by which it can be filtered."""
    words = words_of(
        f"{content.title}\n{content.text[:LONGEST]}\n{' '.join(content.files)}\n{' '.join(content.concepts)}"
    )
    marks = [mark("k", kind), mark("t", content.type), mark("h", host)]
    marks += [mark("c", concept) for concept in content.concepts]
    marks += [mark("f", end) for file in content.files[:50] for end in ends_of(file)]
    return (*dict.fromkeys(marks), *words[:MOST_WORDS]) if words else ()


def _portion(connection: Connection) -> int:
    """Index some of what waits; gives how much was seen to."""
    listed = documents.waiting(connection, PORTION)
    found: list[Document] = []
    for letter, group in groupby(listed, key=lambda one: one[0]):
        times = {row: count for _, row, count in group}
        for row in documents.rows_of(connection, KINDS[letter], list(times)):
            words = document_words(records.content_of(letter, row), kind=letter, host=row["host"])
            numbers = (row["session_number"], row["project_number"])
            found.append(Document(letter, row["id"], "", *numbers, row["at"], words, times[row["id"]]))
    there = {(one.kind, one.row) for one in found}
    if gone := [one for one in listed if one[:2] not in there]:
        documents.drop(connection, gone)
    rest = found
    while rest:
        rest = rest[documents.put(connection, rest, seconds=SLICE_SECONDS) :]
    return len(listed)


def _lessons(connection: Connection, home: str) -> int:
    """Make the lessons in the index those in the files, if a file changed since."""
    path, print = shelves.lessons_path(home), repr(manifest.sources(home))
    if documents.print_of(connection, path) == print:
        return 0
    try:
        lessons, _ = manifest.gather(home)
    except UserError:
        return 0  # the person is told elsewhere, and what was known stays
    found = [
        Document(
            "L", 0, lesson.slug, 0, _project(connection, lesson.project), 0.0,
            document_words(records.content_of_lesson(lesson), kind="L", host=""),
        )
        for lesson in lessons
        if lesson.status == "active"
    ]  # fmt: skip
    return len(found) if documents.of_file(connection, "L", path, print, found) else 0


def _memories(connection: Connection, home: str) -> int:
    """Make the memories in the index those that count, as their files say them now."""
    path, print = memory_files.IN_HOME, memories.prints(connection, home)
    if documents.print_of(connection, path) == print:
        return 0
    found = [
        Document(
            "M", 0, str(page.number), 0, _project(connection, page.project), 0.0,
            document_words(records.content_of_memory(page), kind="M", host=""),
        )
        for page in memories.told(connection, home)
    ]  # fmt: skip
    return len(found) if documents.of_file(connection, "M", path, print, found) else 0


def _handoffs(connection: Connection, home: str) -> int:
    """Make the handoffs in the index those that were ratified, as their files say them now."""
    path, print = "handoffs", handoffs.prints(connection)
    if documents.print_of(connection, path) == print:
        return 0
    found = [
        Document(
            "H", 0, str(page.known.id), 0, _project(connection, page.known.project), page.known.at,
            document_words(records.content_of_handoff(page), kind="H", host=""),
        )
        for page in handoffs.told(connection, home)
    ]  # fmt: skip
    return len(found) if documents.of_file(connection, "H", path, print, found) else 0


def _project(connection: Connection, path: str) -> int:
    """The number of a lesson's project; what names none counts everywhere."""
    if not path:
        return EVERYWHERE
    with transaction(connection):
        return kept.resolve(connection, places.home_of(path), "", 0.0) or EVERYWHERE


def _embed(connection: Connection, home: str, model: embed.Model) -> int:
    """Give some documents their vectors; gives how many waited."""
    waiting = documents.to_embed(connection, EMBEDDED)
    texts = dict(_texts(connection, home, waiting))
    if texts:
        found = pack(model.embed(list(texts.values())))
        documents.put_vectors(connection, embed.VERSION, ((id, *pair) for id, pair in zip(texts, found, strict=True)))
    documents.leave_out(connection, [id for id, *_ in waiting if id not in texts])
    return len(waiting)


def _texts(
    connection: Connection, home: str, waiting: Sequence[tuple[int, str, int, str]]
) -> Iterator[tuple[int, str]]:
    for letter, group in groupby(sorted(waiting, key=lambda one: one[1]), key=lambda one: one[1]):
        kind, listed = KINDS[letter], list(group)
        if kind.table:
            ids = {row: id for id, _, row, _ in listed}
            for row in documents.rows_of(connection, kind, list(ids)):
                yield ids[row["id"]], _text(records.content_of(letter, row))
        elif letter == "L":
            named = {lesson.slug: lesson for lesson in records.lessons(home)}
            yield from (
                (id, _text(records.content_of_lesson(named[name]))) for id, _, _, name in listed if name in named
            )
        elif letter == "M":
            pages = {str(page.number): records.content_of_memory(page) for page in memories.told(connection, home)}
            yield from ((id, _text(pages[name])) for id, _, _, name in listed if name in pages)
        elif letter == "H":
            pages = {str(page.known.id): records.content_of_handoff(page) for page in handoffs.told(connection, home)}
            yield from ((id, _text(pages[name])) for id, _, _, name in listed if name in pages)


def _text(content: Content) -> str:
    return content.text[:LONGEST]


def pack(rows: numpy.ndarray) -> Iterable[tuple[bytes, bytes]]:
    """Each vector as a bit per dimension, to look for it among many, and as a byte per dimension, to compare it."""
    import numpy

    most = numpy.maximum(numpy.abs(rows).max(axis=1, keepdims=True), 1e-9)
    small = numpy.rint(rows / most * 127).astype(numpy.int8)
    return ((code.tobytes(), row.tobytes()) for code, row in zip(codes.bits_of(rows), small, strict=True))
