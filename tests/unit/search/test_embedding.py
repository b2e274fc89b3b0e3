"""The static model: texts become vectors, the same everywhere, and a damaged model is refused with a reason."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

from hardwon.search import vectors

SHIPPED = Path(vectors.__file__).parent / "model"


@pytest.fixture(scope="module")
def model() -> vectors.Model:
    return vectors.load_model()


def compute_likeness(model: vectors.Model, first_text: str, second_text: str) -> float:
    first, second = model.embed([first_text, second_text])
    return float(first @ second)


def test_a_text_is_a_vector_of_length_one(model: vectors.Model) -> None:
    vectors = model.embed(["the worker restarts", "日本語", "x"])
    assert vectors.shape == (3, model.dimensions)
    assert vectors.dtype == numpy.float32
    assert numpy.allclose(numpy.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_a_text_without_a_known_word_is_zeros(model: vectors.Model) -> None:
    assert not model.embed(["", "  \n", "!?… -- →", "\x1b\x00"]).any()
    assert model.embed([]).shape == (0, model.dimensions)


@pytest.mark.parametrize(
    ("text", "near", "far"),
    [
        ("the login token has expired", "authentication failed", "the build takes too long"),
        ("getUserById", "look up a user by identifier", "remove stale backup copies"),
        ("src/billing/taxRates.py", "tax percentages", "a lock on a file"),
        ("kubernetes pod evicted", "the container was killed", "a font is too small"),
        ("user_by_id", "getUserById", "deleteOldBackups"),
    ],
)
def test_texts_of_similar_meaning_are_nearer(model: vectors.Model, text: str, near: str, far: str) -> None:
    assert compute_likeness(model, text, near) > compute_likeness(model, text, far)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("The cat, sat!", "the cat sat"),
        ("Größe naïve ÉTÉ", "gr ##o ##ße naive et ##e"),
        ("日本xy", "日 本 x ##y"),
        ("getUserById", "get user by id"),
        ("user_by_id src/auth/token.py", "user by id src auth token py"),
        ("HTTPServerError", "http server error"),
        ("JavaScript kubernetes sqlite", "javascript kubernetes sqlite"),
        ("zero\u200bwidth \x1b[0m red", "zero ##wi ##dt ##h 0 ##m red"),
        ("x" * 101, ""),
    ],
)
def test_words_are_split_into_pieces_and_names_at_their_parts(model: vectors.Model, text: str, pieces: str) -> None:
    vocabulary = (SHIPPED / "vocabulary.txt").read_text(encoding="utf-8").split("\n")
    assert [vocabulary[row] for row in model.find_rows(text)] == pieces.split()


def test_a_vector_does_not_depend_on_the_texts_beside_it(model: vectors.Model) -> None:
    texts = [
        f"{word} number {position}" for position, word in enumerate(("worker", "", "hook", "spool " * 3_000) * 200)
    ]
    together = model.embed(texts)
    for position in (0, 1, 2, 3, 399, 799):
        assert (model.embed([texts[position]])[0] == together[position]).all()


def test_the_end_of_a_very_long_text_is_ignored(model: vectors.Model) -> None:
    long_text = "worker " * 5_000
    assert (model.embed([long_text])[0] == model.embed([long_text + "other words"])[0]).all()


def test_every_shipped_file_has_its_sum_and_licence() -> None:
    description = json.loads((SHIPPED / "model.json").read_text())
    assert description["version"] == vectors.MODEL_VERSION
    assert set(os.listdir(SHIPPED)) == {*description["sha256"], "model.json", "LICENSE", "NOTICE"}
    assert sum(path.stat().st_size for path in SHIPPED.iterdir()) < 6_200_000
    assert "all-MiniLM-L6-v2" in (SHIPPED / "NOTICE").read_text()


@pytest.mark.parametrize("name", ["table.npy", "scales.npy", "vocabulary.txt", "model.json"])
def test_a_missing_or_damaged_file_is_reported(name: str, tmp_path: Path) -> None:
    copy = tmp_path / "model"
    shutil.copytree(SHIPPED, copy)
    assert vectors.load_model(str(copy)).embed(["worker"]).any()
    shipped = (copy / name).read_bytes()
    (copy / name).write_bytes(shipped[:-7])
    with pytest.raises(vectors.ModelUnavailable, match="model"):
        vectors.load_model(str(copy))
    (copy / name).unlink()
    with pytest.raises(vectors.ModelUnavailable, match=name):
        vectors.load_model(str(copy))


@pytest.mark.parametrize(
    "description", ["[]", "null", "{}", '{"version": "0", "sha256": {}}', '{"version": 1, "sha256": 1}']
)
def test_a_model_that_is_not_ours_is_refused(description: str, tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text(description)
    with pytest.raises(vectors.ModelUnavailable, match="cannot be read"):
        vectors.load_model(str(tmp_path))


def test_a_model_of_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text(json.dumps({"version": "minilm-0", "sha256": {}}))
    with pytest.raises(vectors.ModelUnavailable, match=f"it is minilm-0, wanted is {vectors.MODEL_VERSION}"):
        vectors.load_model(str(tmp_path))


def test_numpy_is_imported_only_with_a_model() -> None:
    code = (
        "import sys\nfrom hardwon.search import vectors\nbefore = 'numpy' in sys.modules\nvectors.load_model()\n"
        "print(before, 'numpy' in sys.modules)"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output == "False True\n"


def test_names_of_tools_are_no_words_of_the_model(model: vectors.Model) -> None:
    assert all(map(model.has_word, ["worker", "workers", "reworded", "lookups"]))
    assert not any(map(model.has_word, ["deno", "goreleaser"]))
