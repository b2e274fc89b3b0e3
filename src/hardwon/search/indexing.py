"""Bring the search index up to date in the background: first the records that carry meaning, then the events.

Within each the newest comes first, so that a search finds yesterday's work while years of history are still pending.

Reading, splitting into words and embedding happen outside transactions. These are short, because hooks write too. An
entry leaves its queue in the transaction that writes its document or its vector, so a refresh can be killed at any time
and two can run at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from hardwon import projects
from hardwon.errors import UserError
from hardwon.handoff import handoffs
from hardwon.lessons import lessons_file, manifest
from hardwon.memories import memories, memory_files
from hardwon.search import records, vectors
from hardwon.search.words import build_filter_word, extract_words, list_path_ends
from hardwon.store import approvals, documents
from hardwon.store.db import Connection, transaction
from hardwon.store.documents import DOCUMENT_KINDS, EVERYWHERE, Document
from hardwon.store.events import find_or_create_project

if TYPE_CHECKING:
    import numpy

SLICE_SECONDS = 0.02  # of one transaction: a hook that stores an event must not wait for more
READ_BATCH_SIZE = 300  # rows read at once
_PLAN_BATCH_SIZE = 10_000  # rows sorted at once: sorting 200,000 for every batch would take longer than indexing
_EMBED_BATCH_SIZE = 128  # texts embedded at once
_WORDS_VERSION = "4"  # of `search.words` and of the documents' ids; a new version reindexes everything
MAX_CHARS, _TAIL_CHARS = 8_000, 2_000  # indexed characters of a text, and how many of them come from its end
MAX_WORDS, _TAIL_WORDS = 600, 150


@cache
def load_model_or_none() -> vectors.Model | None:
    """Return the shipped model; None if it is unavailable, and search then uses words only."""
    try:
        return vectors.load_model()
    except vectors.ModelUnavailable:
        return None


def refresh_index(
    connection: Connection,
    home: str,
    *,
    model: vectors.Model | None,
    should_continue: Callable[[], bool],
) -> Counter[str]:
    """Index what is new or changed, as long as it should continue; return what was done, by name.

    If it stopped early, `left` is how much remains.
    """
    counts = Counter[str]()
    documents.ensure_index_version(connection, _WORDS_VERSION)
    lessons_fingerprint = repr((manifest.stat_sources(home), approvals.read_version(connection)))
    counts["lessons"] += _index_files(connection, home, "L", lessons_file.get_lessons_path(home), lessons_fingerprint)
    counts["memories"] += _index_files(
        connection, home, "M", memory_files.HOME_FOLDER, memories.fingerprint_approved(connection, home)
    )
    counts["handoffs"] += _index_files(connection, home, "H", "handoffs", handoffs.fingerprint_ratified(connection))

    def can_continue() -> bool:
        """Index something in any case: on a slow machine the time may be up before the first record is read."""
        has_begun = counts["documents"] + counts["vectors"] + counts["stale"] > 0
        return not has_begun or should_continue()

    is_finished = False
    while can_continue():
        previous_total = counts.total()
        _index_waiting(
            connection, documents.list_waiting_meaningful(connection, _PLAN_BATCH_SIZE), counts, can_continue
        )
        if model is not None:
            while can_continue():
                dropped = documents.drop_stale_vectors(connection, vectors.MODEL_VERSION, READ_BATCH_SIZE)
                if not dropped:
                    break
                counts["stale"] += dropped
            _embed_waiting(connection, home, model, counts, can_continue)
        # Index only some events per round, so that more important records that arrive meanwhile need not wait.
        _index_waiting(connection, documents.list_waiting_events(connection, _PLAN_BATCH_SIZE), counts, can_continue)
        if counts.total() == previous_total:
            is_finished = can_continue()
            break
    if not is_finished:
        counts["left"] = _count_waiting(connection, model)
    return +counts


def _count_waiting(connection: Connection, model: vectors.Model | None) -> int:
    """Return how many records are not indexed yet; without a model none counts as waiting for a vector."""
    without_words, without_vector = documents.count_backlog(connection)
    return without_words + (without_vector if model is not None else 0)


def _index_waiting(
    connection: Connection,
    waiting: Sequence[tuple[str, int, int]],
    counts: Counter[str],
    can_continue: Callable[[], bool],
) -> None:
    """Index the words of waiting records in batches, as long as `can_continue`, and count them."""
    for start in range(0, len(waiting), READ_BATCH_SIZE):
        if not can_continue():
            return
        counts["documents"] += _index_batch(connection, waiting[start : start + READ_BATCH_SIZE])


def _embed_waiting(
    connection: Connection, home: str, model: vectors.Model, counts: Counter[str], can_continue: Callable[[], bool]
) -> None:
    """Embed some of the documents without a vector in batches, as long as `can_continue`, and count them."""
    waiting = documents.list_unembedded(connection, _PLAN_BATCH_SIZE)
    for start in range(0, len(waiting), _EMBED_BATCH_SIZE):
        if not can_continue():
            return
        counts["vectors"] += _embed_batch(connection, home, model, waiting[start : start + _EMBED_BATCH_SIZE])


def _build_document_words(record: Mapping[str, Any], letter: str) -> tuple[str, ...]:
    """Return the words of a record, with the filter words by which it can be found."""
    names = [" ".join(record["files"]), " ".join(record["concepts"])]
    words = extract_words("\n".join([record["title"], _clip_text(record["text"]), *names]))
    if not words:
        return ()
    if len(words) > MAX_WORDS:
        words = [*words[: MAX_WORDS - _TAIL_WORDS], *words[-_TAIL_WORDS:]]
    marks = [
        build_filter_word("k", letter),
        build_filter_word("t", record["type"]),
        build_filter_word("h", record["host"]),
    ]
    marks += [build_filter_word("c", concept) for concept in record["concepts"]]
    for file in record["files"][:50]:
        marks += [build_filter_word("f", end) for end in list_path_ends(file)]
    return (*dict.fromkeys(marks), *words)


def _index_batch(connection: Connection, waiting: Sequence[tuple[str, int, int]]) -> int:
    """Index these rows; return how many there were."""
    new_documents: list[Document] = []
    get_letter = itemgetter(0)
    for letter, group in groupby(sorted(waiting), key=get_letter):
        counts_by_row = {row: count for _, row, count in group}
        kind = DOCUMENT_KINDS[letter]
        for row in documents.read_source_rows(connection, kind, list(counts_by_row)):
            words = _build_document_words(records.build_record(kind, row, with_details=False), letter)
            new_documents.append(
                Document(
                    letter,
                    row["id"],
                    "",
                    row["session_number"],
                    row["project_number"],
                    row["at"],
                    words,
                    counts_by_row[row["id"]],
                    is_call=letter == "E" and row["kind"] == "tool",
                )
            )
    existing_keys = {(item.kind, item.row) for item in new_documents}
    if missing := [item for item in waiting if item[:2] not in existing_keys]:
        documents.drop_waiting(connection, missing)
    # FTS5 writes a segment whenever row ids decrease, so write them in ascending order: by project, then by time.
    remaining = sorted(new_documents, key=lambda document: (document.project, document.at))
    while remaining:
        remaining = remaining[documents.write_documents(connection, remaining, max_seconds=SLICE_SECONDS) :]
    return len(waiting)


def _index_files(connection: Connection, home: str, letter: str, path: str, fingerprint: str) -> int:
    """Index what the files of a kind say now, if one changed; return how many documents there are."""
    if documents.read_fingerprint(connection, path) == fingerprint:
        return 0
    try:
        file_records = records.list_file_records(connection, home, letter)
    except UserError:
        return 0  # the error is reported elsewhere; keep the indexed documents
    new_documents = []
    for record in file_records:
        project = _find_project_number(connection, record["project"])
        words = _build_document_words(record, letter)
        new_documents.append(Document(letter, 0, records.get_name(record), 0, project, record["at"], words))
    is_new = documents.replace_file_documents(connection, letter, path, fingerprint, new_documents)
    return len(new_documents) if is_new else 0


def _find_project_number(connection: Connection, path: str) -> int:
    """Return the number of a project; EVERYWHERE without one."""
    if not path:
        return EVERYWHERE
    with transaction(connection):
        return find_or_create_project(connection, projects.find_project_path(path), remote="", at=0.0) or EVERYWHERE


def _embed_batch(
    connection: Connection, home: str, model: vectors.Model, waiting: Sequence[tuple[int, str, int, str]]
) -> int:
    """Give these documents their vectors; return how many there were."""
    texts = dict(_iter_texts(connection, home, waiting))
    if texts:
        packed_rows = _pack_vectors(model.embed(list(texts.values())))
        documents.store_vectors(
            connection,
            vectors.MODEL_VERSION,
            ((document_id, *pair) for document_id, pair in zip(texts, packed_rows, strict=True)),
        )
    documents.skip_embedding(connection, [document_id for document_id, *_ in waiting if document_id not in texts])
    return len(waiting)


def _iter_texts(
    connection: Connection, home: str, waiting: Sequence[tuple[int, str, int, str]]
) -> Iterator[tuple[int, str]]:
    """Yield the id and the text of each waiting document, read from its table or file; missing ones are skipped."""
    get_letter = itemgetter(1)
    for letter, group in groupby(sorted(waiting, key=get_letter), key=get_letter):
        kind = DOCUMENT_KINDS[letter]
        items = list(group)
        if kind.table:
            ids_by_row = {row: document_id for document_id, _, row, _ in items}
            for row in documents.read_source_rows(connection, kind, list(ids_by_row)):
                record = records.build_record(kind, row, with_details=False)
                yield ids_by_row[row["id"]], _clip_text(record["text"])
        else:
            ids_by_name = {name: document_id for document_id, _, _, name in items}
            with suppress(UserError):
                for record in records.list_file_records(connection, home, letter):
                    if (name := records.get_name(record)) in ids_by_name:
                        yield ids_by_name[name], _clip_text(record["text"])


def _clip_text(text: str) -> str:
    """Return the indexed part of a text: the beginning and the end, where the question after a pasted log is."""
    return text if len(text) <= MAX_CHARS else f"{text[: MAX_CHARS - _TAIL_CHARS]}\n{text[-_TAIL_CHARS:]}"


def _pack_vectors(rows: numpy.ndarray) -> Iterable[tuple[bytes, bytes]]:
    """Return each vector as a bit per dimension, to find it among many, and as a byte per dimension, to compare it."""
    import numpy

    largest = numpy.maximum(numpy.abs(rows).max(axis=1, keepdims=True), 1e-9)
    quantized = numpy.rint(rows / largest * 127).astype(numpy.int8)
    return ((code.tobytes(), row.tobytes()) for code, row in zip(vectors.pack_bits(rows), quantized, strict=True))
