"""The nearest vectors are found without reading all of them, never those of deleted records or other projects."""

from __future__ import annotations

import os
import random

import numpy
import pytest

from hardwon.search import vectors
from hardwon.store import documents
from tests.support.library import BOAT, KITE, Library


@pytest.fixture(scope="module")
def model() -> vectors.Model:
    return vectors.load_model()


def build_sentences(count: int) -> list[str]:
    """Build sentences of eight common English words."""
    generator = random.Random(5)
    with open(os.path.join(os.path.dirname(vectors.__file__), "model", "vocabulary.txt"), encoding="utf-8") as file:
        words = [word for word in file.read().split("\n") if word.isascii() and word.isalpha() and len(word) > 3][
            :3_000
        ]
    return [" ".join(generator.sample(words, 8)) for _ in range(count)]


def find_document_number(library: Library, record_id: str) -> int:
    document = documents.find_by_source(library.connection, record_id[0], int(record_id[1:]), "")
    assert document is not None
    return int(document["id"])


def find_nearest(library: Library, vector: numpy.ndarray, *, project: str = KITE, limit: int = 60) -> list[int]:
    numbers = documents.find_project_numbers(library.connection, project)
    return vectors.find_nearest(library.connection, library.home, vectors.MODEL_VERSION, numbers, vector, limit)


def test_most_of_the_nearest_vectors_are_found(library: Library, model: vectors.Model) -> None:
    titles = build_sentences(2_000)
    library.observe_many(titles)
    library.refresh(model)
    stored_vectors = library.connection.execute("select document, vector from vectors").fetchall()
    rows = numpy.array([numpy.frombuffer(vector, numpy.int8) for _, vector in stored_vectors], numpy.float32)
    rows /= numpy.maximum(numpy.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    found_count, expected_count = 0, 0
    for vector in model.embed([" ".join(text.split()[:3]) for text in titles[::100]]):
        nearness = rows @ vector
        best = {stored_vectors[index][0] for index in numpy.argsort(-nearness)[:10]}
        found_count, expected_count = (
            found_count + len(best.intersection(find_nearest(library, vector))),
            expected_count + len(best),
        )
    assert found_count > 0.8 * expected_count, f"{found_count} of {expected_count}"


def test_added_vectors_are_found_and_deleted_ones_are_not(library: Library, model: vectors.Model) -> None:
    library.observe_many(build_sentences(50))
    library.refresh(model)
    vector = model.embed(["an umbrella made of cheese"])[0]
    earlier_documents = set(find_nearest(library, vector, limit=1_000))
    record_id = library.observe("an umbrella made of cheese")
    library.refresh(model)
    new_documents = set(find_nearest(library, vector, limit=1_000)) - earlier_documents
    document = find_document_number(library, record_id)
    assert document in new_documents
    library.connection.execute("delete from observations where id = ?", (record_id[1:],))
    assert document not in find_nearest(library, vector, limit=1_000)


def test_a_project_has_its_own_vectors(library: Library, model: vectors.Model) -> None:
    library.observe("an umbrella made of cheese", project=BOAT, session="s2")
    library.observe("a lamp", project=KITE)
    library.refresh(model)
    vector = model.embed(["an umbrella made of cheese"])[0]
    kite_documents, boat_documents = (set(find_nearest(library, vector, project=project)) for project in (KITE, BOAT))
    assert kite_documents and boat_documents and not kite_documents & boat_documents


def test_vectors_of_another_model_are_ignored_and_recomputed(library: Library, model: vectors.Model) -> None:
    library.observe("an umbrella made of cheese")
    library.refresh(model)
    library.connection.execute("update vectors set model = 'an older one'")
    vector = model.embed(["an umbrella made of cheese"])[0]
    vectors._loaded_vectors.clear()
    assert find_nearest(library, vector) == []
    library.refresh(model)
    assert find_nearest(library, vector)
    assert library.connection.execute("select distinct model from vectors").fetchone()[0] == vectors.MODEL_VERSION


def test_a_vector_of_a_deleted_document_is_not_stored(library: Library, model: vectors.Model) -> None:
    record_id = library.observe("an umbrella made of cheese")
    library.refresh(None)
    document = find_document_number(library, record_id)
    library.connection.execute("delete from observations where id = ?", (record_id[1:],))
    assert documents.store_vectors(library.connection, vectors.MODEL_VERSION, [(document, b"", b"")]) == 0
