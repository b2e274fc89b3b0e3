"""What is near in meaning is found without reading every vector, and never stands for what is gone or is another's."""

from __future__ import annotations

import os
import random

import numpy
import pytest

from hardwon.search import embedding, vector_codes
from hardwon.store import documents
from tests.support.library import BOAT, KITE, Library


@pytest.fixture(scope="module")
def model() -> embedding.Model:
    return embedding.load_model()


def sentences(count: int) -> list[str]:
    """Of words that are common in English, eight each."""
    dice = random.Random(5)
    with open(os.path.join(os.path.dirname(embedding.__file__), "model", "vocabulary.txt"), encoding="utf-8") as file:
        words = [word for word in file.read().split("\n") if word.isascii() and word.isalpha() and len(word) > 3][
            :3_000
        ]
    return [" ".join(dice.sample(words, 8)) for _ in range(count)]


def document_of(library: Library, id: str) -> int:
    found = documents.find_by_source(library.connection, id[0], int(id[1:]), "")
    assert found is not None
    return int(found["id"])


def near(library: Library, vector: numpy.ndarray, *, project: str = KITE, most: int = 60) -> list[int]:
    numbers = documents.find_project_numbers(library.connection, project)
    return vector_codes.find_nearest(library.connection, library.home, embedding.MODEL_VERSION, numbers, vector, most)


def test_of_many_the_truly_nearest_are_found(library: Library, model: embedding.Model) -> None:
    said = sentences(2_000)
    library.observe_many(said)
    library.refresh(model)
    held = library.connection.execute("select document, vector from vectors").fetchall()
    rows = numpy.array([numpy.frombuffer(vector, numpy.int8) for _, vector in held], numpy.float32)
    rows /= numpy.maximum(numpy.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    found, wanted = 0, 0
    for vector in model.embed([" ".join(text.split()[:3]) for text in said[::100]]):
        nearness = rows @ vector
        best = {held[place][0] for place in numpy.argsort(-nearness)[:10]}
        found, wanted = found + len(best.intersection(near(library, vector))), wanted + len(best)
    assert found > 0.8 * wanted, f"{found} of {wanted}"


def test_what_comes_later_is_found_and_what_goes_is_not(library: Library, model: embedding.Model) -> None:
    library.observe_many(sentences(50))
    library.refresh(model)
    vector = model.embed(["an umbrella made of cheese"])[0]
    before = set(near(library, vector, most=1_000))
    id = library.observe("an umbrella made of cheese")
    library.refresh(model)
    new = set(near(library, vector, most=1_000)) - before
    document = document_of(library, id)
    assert document in new
    library.connection.execute("delete from observations where id = ?", (id[1:],))
    assert document not in near(library, vector, most=1_000)


def test_a_project_has_its_own_vectors(library: Library, model: embedding.Model) -> None:
    library.observe("an umbrella made of cheese", project=BOAT, session="s2")
    library.observe("a lamp", project=KITE)
    library.refresh(model)
    vector = model.embed(["an umbrella made of cheese"])[0]
    ours, theirs = (set(near(library, vector, project=project)) for project in (KITE, BOAT))
    assert ours and theirs and not ours & theirs


def test_vectors_of_another_model_are_not_compared_and_are_made_anew(library: Library, model: embedding.Model) -> None:
    library.observe("an umbrella made of cheese")
    library.refresh(model)
    library.connection.execute("update vectors set model = 'an older one'")
    vector = model.embed(["an umbrella made of cheese"])[0]
    vector_codes._loaded_vectors.clear()
    assert near(library, vector) == []
    library.refresh(model)
    assert near(library, vector)
    assert library.connection.execute("select distinct model from vectors").fetchone()[0] == embedding.MODEL_VERSION


def test_a_vector_that_comes_when_its_document_is_gone_is_not_kept(library: Library, model: embedding.Model) -> None:
    id = library.observe("an umbrella made of cheese")
    library.refresh(None)
    document = document_of(library, id)
    library.connection.execute("delete from observations where id = ?", (id[1:],))
    assert documents.store_vectors(library.connection, embedding.MODEL_VERSION, [(document, b"", b"")]) == 0
