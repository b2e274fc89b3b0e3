"""Bringing the index up to date, in the background: what carries meaning first, with its vectors, then the events.

Within each the newest comes first, so that a search finds yesterday's work while the history of years still waits.

Reading, parting into words and embedding happen outside of transactions, and these are short, because hooks write too.
What is on a list is taken from it in the transaction that writes its document or its vector, so that a refresh may be
killed anywhere and two may run at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING

from hardwon import projects as places
from hardwon.errors import UserError
from hardwon.handoff import handoffs, memories, memory_files
from hardwon.lessons import lessons_file as shelves
from hardwon.lessons import manifest
from hardwon.search import embedding, records, vector_codes
from hardwon.search.records import Content
from hardwon.store import approvals, documents
from hardwon.store import projects as kept
from hardwon.store.db import Connection, transaction
from hardwon.store.documents import EVERYWHERE, KINDS, Document
from hardwon.text.words import ends_of, mark, words_of

if TYPE_CHECKING:
    import numpy

SLICE_SECONDS = 0.02
PORTION = 300  # rows read at once
PLANNED = 10_000  # rows put in order at once: ordering 200,000 for every portion would take longer than indexing
EMBEDDED = 128  # texts embedded at once
VERSION = "3"  # of how words are made: another one, and all that is indexed is looked at anew
LONGEST, TAIL = 8_000, 2_000  # characters of one text that are indexed, and how many of them are its last
MOST_WORDS, LAST_WORDS = 600, 150


@cache
def model_or_none() -> embedding.Model | None:
    """The shipped model; None if there is none, and search goes by words alone."""
    try:
        return embedding.load()
    except embedding.Absent:
        return None


def refresh(
    connection: Connection,
    home: str,
    *,
    model: embedding.Model | None,
    go_on: Callable[[], bool],
    most: int | None = None,
) -> Counter[str]:
    """Index what is new or changed, as long as it may go on; gives what was done, by name.

    `most` bounds the documents and vectors of this call. If it stopped before the end, `left` says how much remains.
    """
    done = Counter[str]()
    documents.of_version(connection, VERSION)
    lessons_print = repr((manifest.sources(home), approvals.version(connection)))
    done["lessons"] += _of_files(connection, home, "L", shelves.lessons_path(home), lessons_print)
    done["memories"] += _of_files(connection, home, "M", memory_files.IN_HOME, memories.prints(connection, home))
    done["handoffs"] += _of_files(connection, home, "H", "handoffs", handoffs.prints(connection))

    def may_go_on() -> bool:
        is_within_limit = most is None or done["documents"] + done["vectors"] < most
        return is_within_limit and go_on()

    is_finished = False
    while may_go_on():
        before = done.total()
        _index_listed(connection, documents.list_waiting_meaningful(connection, PLANNED), done, may_go_on)
        if model is not None:
            while may_go_on() and (count := documents.drop_stale(connection, embedding.VERSION, PORTION)):
                done["stale"] += count
            _embed_waiting(connection, home, model, done, may_go_on)
        # Only some of the events, so that what came in meanwhile and matters more is not behind all of them.
        _index_listed(connection, documents.list_waiting_events(connection, PLANNED), done, may_go_on)
        if done.total() == before:
            is_finished = may_go_on()
            break
    if not is_finished:
        done["left"] = count_waiting(connection, model)
    return +done


def count_waiting(connection: Connection, model: embedding.Model | None) -> int:
    """Return how much is not indexed yet; without a model nothing waits for a vector."""
    without_words, without_vector = documents.counts_waiting(connection)
    return without_words + (without_vector if model is not None else 0)


def _index_listed(
    connection: Connection, listed: Sequence[tuple[str, int, int]], done: Counter[str], may_go_on: Callable[[], bool]
) -> None:
    for start in range(0, len(listed), PORTION):
        if not may_go_on():
            return
        done["documents"] += _index_portion(connection, listed[start : start + PORTION])


def _embed_waiting(
    connection: Connection, home: str, model: embedding.Model, done: Counter[str], may_go_on: Callable[[], bool]
) -> None:
    waiting = documents.to_embed(connection, PLANNED)
    for start in range(0, len(waiting), EMBEDDED):
        if not may_go_on():
            return
        done["vectors"] += _embed(connection, home, model, waiting[start : start + EMBEDDED])


def document_words(content: Content, *, kind: str, host: str) -> tuple[str, ...]:
    """The words of a text, with the marks by which it can be filtered."""
    words = words_of(f"{content.title}\n{_text(content)}\n{' '.join(content.files)}\n{' '.join(content.concepts)}")
    if len(words) > MOST_WORDS:
        words = [*words[: MOST_WORDS - LAST_WORDS], *words[-LAST_WORDS:]]
    marks = [mark("k", kind), mark("t", content.type), mark("h", host)]
    marks += [mark("c", concept) for concept in content.concepts]
    marks += [mark("f", end) for file in content.files[:50] for end in ends_of(file)]
    return (*dict.fromkeys(marks), *words) if words else ()


def _index_portion(connection: Connection, listed: Sequence[tuple[str, int, int]]) -> int:
    """Index these rows; gives how many were seen to."""
    found: list[Document] = []
    for letter, group in groupby(sorted(listed), key=lambda one: one[0]):
        times = {row: count for _, row, count in group}
        for row in documents.rows_of(connection, KINDS[letter], list(times)):
            words = document_words(records.content_of(letter, row), kind=letter, host=row["host"])
            numbers = (row["session_number"], row["project_number"])
            found.append(Document(letter, row["id"], "", *numbers, row["at"], words, times[row["id"]]))
    there = {(one.kind, one.row) for one in found}
    if gone := [one for one in listed if one[:2] not in there]:
        documents.drop(connection, gone)
    # Full-text search writes a segment whenever numbers go down, so they go up: by project, then by time.
    rest = sorted(found, key=lambda document: (document.project, document.at))
    while rest:
        rest = rest[documents.put(connection, rest, seconds=SLICE_SECONDS) :]
    return len(listed)


def _of_files(connection: Connection, home: str, letter: str, path: str, print: str) -> int:
    """Make what is in the index of a kind what its files say now, if one changed since."""
    if documents.print_of(connection, path) == print:
        return 0
    try:
        pages = _pages(connection, home, letter)
    except UserError:
        return 0  # the person is told elsewhere, and what was known stays
    found = [
        Document(letter, 0, name, 0, _project(connection, project), at, document_words(content, kind=letter, host=host))
        for name, content, project, at, host in pages
    ]
    return len(found) if documents.of_file(connection, letter, path, print, found) else 0


def _pages(connection: Connection, home: str, letter: str) -> list[tuple[str, Content, str, float, str]]:
    """What counts of a kind that is kept in files: its name, content, project, time and host."""
    if letter == "L":
        lessons = [one for one in manifest.gather(home)[0] if one.status == "active"]
        return [(one.slug, records.content_of_lesson(one), one.project, 0.0, "") for one in lessons]
    if letter == "M":
        told = memories.told(connection, home)
        return [(str(page.number), records.content_of_memory(page), page.project, 0.0, "") for page in told]
    ratified = [(page.known, records.content_of_handoff(page)) for page in handoffs.told(connection, home)]
    return [(str(known.id), content, known.project, known.at, known.host) for known, content in ratified]


def _project(connection: Connection, path: str) -> int:
    """The number of a lesson's project; what names none counts everywhere."""
    if not path:
        return EVERYWHERE
    with transaction(connection):
        return kept.resolve(connection, places.home_of(path), "", 0.0) or EVERYWHERE


def _embed(
    connection: Connection, home: str, model: embedding.Model, waiting: Sequence[tuple[int, str, int, str]]
) -> int:
    """Give these documents their vectors; gives how many there were."""
    texts = dict(_texts(connection, home, waiting))
    if texts:
        found = pack(model.embed(list(texts.values())))
        documents.put_vectors(
            connection, embedding.VERSION, ((id, *pair) for id, pair in zip(texts, found, strict=True))
        )
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
        else:
            with suppress(UserError):
                named = {name: content for name, content, *_ in _pages(connection, home, letter)}
                yield from ((id, _text(named[name])) for id, _, _, name in listed if name in named)


def _text(content: Content) -> str:
    """What is indexed of a text: of a long one its beginning and its end, where the question behind a log stands."""
    text = content.text
    return text if len(text) <= LONGEST else f"{text[: LONGEST - TAIL]}\n{text[-TAIL:]}"


def pack(rows: numpy.ndarray) -> Iterable[tuple[bytes, bytes]]:
    """Each vector as a bit per dimension, to look for it among many, and as a byte per dimension, to compare it."""
    import numpy

    most = numpy.maximum(numpy.abs(rows).max(axis=1, keepdims=True), 1e-9)
    small = numpy.rint(rows / most * 127).astype(numpy.int8)
    return ((code.tobytes(), row.tobytes()) for code, row in zip(vector_codes.bits_of(rows), small, strict=True))
