"""Code is found by the names that a text gives it, and compared without comments and formatting."""

from __future__ import annotations

import os

import pytest

from hardwon.efficacy.staleness import EXISTS, GONE, find_anchors, hash_symbol


def write_file(folder: str, name: str, text: str) -> str:
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
    return path


@pytest.fixture
def root(own_home: str) -> str:
    write_file(own_home, "src/kite.py", "class Kite:\n    def lift(self):\n        return 1\n\n\nLIMIT = 3\n")
    write_file(own_home, "web/kite.ts", "export const lift = (wind: number) => {\n  return wind + 1;\n};\n")
    return own_home


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("`lift()` in src/kite.py is slow", [("src/kite.py", "lift")]),
        ("call Kite.lift() of src/kite.py first", [("src/kite.py", "Kite.lift")]),
        ("src/kite.py::Kite is abstract", [("src/kite.py", "Kite")]),
        ("edit src/kite.py by hand", [("src/kite.py", "")]),
        ("`lift` in web/kite.ts and `LIMIT` in src/kite.py", [("web/kite.ts", "lift"), ("src/kite.py", "LIMIT")]),
        ("src/other.py and e.g. version 1.2.py do not exist", []),
        ("../outside.py and /etc/hosts.conf are not of the project", []),
    ],
)
def test_files_and_symbols_that_a_text_names_are_found(root: str, text: str, expected: list[tuple[str, str]]) -> None:
    anchors = {(os.path.relpath(anchor.path, root), anchor.symbol) for anchor in find_anchors(text, root)}
    assert anchors >= set(expected)
    assert {path for path, _ in anchors} == {path for path, _ in expected}


def test_a_file_without_a_symbol_is_only_watched_for_its_disappearance(root: str) -> None:
    [anchor] = find_anchors("edit src/kite.py by hand", root)
    assert anchor.hash == EXISTS
    os.unlink(anchor.path)
    assert hash_symbol(anchor.path, "") == GONE


def test_python_that_does_not_parse_is_compared_by_its_tokens(root: str) -> None:
    path = write_file(root, "old.py", "def lift():\n    print 'up'\n")
    first_hash = hash_symbol(path, "lift")
    write_file(root, "old.py", "# old\ndef lift( ):\n    print 'up'  # now\n")
    assert hash_symbol(path, "lift") == first_hash != GONE


def test_a_use_is_not_taken_for_the_definition(root: str) -> None:
    path = write_file(root, "use.ts", "run(lift(1));\nif (lift(2)) {\n  go();\n}\n")
    assert hash_symbol(path, "lift") == GONE


@pytest.mark.parametrize("text", ["{" * 50_000, "(" * 50_000, "class " * 20_000, "\0\udcff"])
def test_odd_files_are_read_without_an_error(root: str, text: str) -> None:
    path = write_file(root, "odd.ts", text.encode("utf-8", "replace").decode())
    assert hash_symbol(path, "lift") == GONE
    assert hash_symbol(write_file(root, "odd.py", text.encode("utf-8", "replace").decode()), "lift") == GONE
