"""A test is a sentence about behaviour. No sleeps, clocks, mocks of our own code or real home."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator

import pytest

from tests.rules.tree import Function, Source, assert_rule, map_imported_names, python_files, resolve_full_name

# A function with this prefix may sleep: its name says what it waits for, and it has a deadline.
WAITING = "wait_"
MOCKS = ("mock", "unittest.mock", "pytest_mock")
PATCHES = frozenset({"setattr", "delattr", "setitem", "delitem"})
NEWLINE = "\n"
STOPWATCHES = frozenset({"time.perf_counter", "time.perf_counter_ns", "time.process_time", "timeit.timeit"})


def find_sleeps(source: Source) -> list[str]:
    """Return each sleep outside functions that wait; tests of real agents may sleep."""
    if source.path.startswith("tests/real/") or "sleep" not in source.text:
        return []
    waiting_lines = [
        range(node.lineno, (node.end_lineno or node.lineno) + 1)
        for node in source.nodes
        if isinstance(node, Function) and node.name.startswith(WAITING)
    ]
    return [
        f"{location} sleeps"
        for location, name, call in iter_calls(source)
        if name == "time.sleep" and not any(call.lineno in lines for lines in waiting_lines)
    ]


def find_stopwatches(source: Source) -> list[str]:
    if not any(name.rpartition(".")[2] in source.text for name in STOPWATCHES):
        return []
    return [f"{location} measures time with {name}" for location, name, _ in iter_calls(source) if name in STOPWATCHES]


def find_mocks(source: Source) -> list[str]:
    """Return each mock, and each call that replaces a part of hardwon."""
    if "mock" not in source.text and "monkeypatch" not in source.text:
        return []
    imported_names = map_imported_names(source)
    breaches = [
        f"{source.path}: imports {full}"
        for full in imported_names.values()
        if any(full == mock or full.startswith(f"{mock}.") for mock in MOCKS)
    ]
    breaches += [
        f"{source.path}:{node.lineno}: uses the mocker fixture"
        for node in source.nodes
        if isinstance(node, ast.arg) and node.arg == "mocker"
    ]
    for location, name, call in iter_calls(source):
        if name.startswith("monkeypatch.") and name.rpartition(".")[2] in PATCHES and call.args:
            first = call.args[0]
            target = first.value if isinstance(first, ast.Constant) else resolve_full_name(first, imported_names)
            if isinstance(target, str) and target.split(".")[0] == "hardwon":
                breaches.append(f"{location} replaces {target}")
    return breaches


def iter_calls(source: Source) -> Iterator[tuple[str, str, ast.Call]]:
    imported_names = map_imported_names(source)
    for node in source.nodes:
        if isinstance(node, ast.Call):
            yield f"{source.path}:{node.lineno}:", resolve_full_name(node.func, imported_names), node


def find_short_names(source: Source) -> list[str]:
    """Return test names of one or two words, which name a function instead of behaviour."""
    names = re.finditer(r"^ *(?:async )?def (test_\w*)", source.text, re.MULTILINE)
    return [
        f"{source.path}:{source.text.count(NEWLINE, 0, match.start()) + 1}: {match[1]}"
        for match in names
        if len(re.findall(r"[a-z0-9]+", match[1])) < 4
    ]


def list_test_sources() -> list[Source]:
    return python_files("tests")


def test_no_test_sleeps() -> None:
    assert_rule(
        f"a test does not sleep; only a function named {WAITING}… does, for what its name says",
        (breach for source in list_test_sources() for breach in find_sleeps(source)),
        "wait for what you mean (an event, a file, a reply), with a deadline, in such a function",
    )


def test_no_test_measures_time() -> None:
    assert_rule(
        "times are in benchmarks, never in tests",
        (breach for source in list_test_sources() for breach in find_stopwatches(source)),
        "move the measurement to bench/, or pass the clock in",
    )


def test_no_test_replaces_a_part_of_hardwon() -> None:
    assert_rule(
        "no test mocks our own code",
        (breach for source in list_test_sources() for breach in find_mocks(source)),
        "use the real thing (temporary home, real SQLite, real process), or hand the part in as an argument",
    )


def test_every_test_name_is_a_sentence() -> None:
    assert_rule(
        "the name of a test is a sentence about behaviour",
        (breach for source in list_test_sources() for breach in find_short_names(source)),
        "name what happens: test_a_lesson_is_given_once_per_session",
    )


def test_the_real_home_is_out_of_reach(tmp_path_factory: pytest.TempPathFactory) -> None:
    temporary_root = os.path.realpath(tmp_path_factory.getbasetemp())
    homes = {"~": os.path.expanduser("~"), "HARDWON_HOME": os.environ.get("HARDWON_HOME", "")}
    assert_rule(
        f"in a test, every home is below {temporary_root}",
        (
            f"{name} is {folder or 'not set'}"
            for name, folder in homes.items()
            if not os.path.realpath(folder).startswith(temporary_root + os.sep)
        ),
        "let a fixture in tests/conftest.py set HOME and HARDWON_HOME for every test (autouse)",
    )


def test_a_sleep_is_found_by_any_name() -> None:
    text = "import time\nfrom time import sleep as nap\ntime.sleep(1)\nnap(1)\nasyncio.sleep(0)\n"
    assert len(find_sleeps(Source("tests/test_a.py", "test_a", text))) == 2
    assert find_sleeps(Source("tests/real/test_a.py", "test_a", text)) == []
    waiting_function = "import time\ndef wait_for(file):\n    time.sleep(0.01)\n"
    assert find_sleeps(Source("tests/test_a.py", "test_a", waiting_function)) == []


def test_a_stopwatch_is_found() -> None:
    text = "from time import monotonic, perf_counter\nstart = perf_counter()\ndeadline = monotonic() + 5\n"
    assert find_stopwatches(Source("a.py", "a", text)) == ["a.py:2: measures time with time.perf_counter"]


def test_each_way_to_mock_is_found() -> None:
    forbidden_texts = [
        "from unittest import mock",
        "import unittest.mock as m",
        "from unittest.mock import patch",
        "def test_a(mocker): ...",
        "monkeypatch.setattr('hardwon.paths.home', f)",
        "from hardwon import paths as p\nmonkeypatch.setattr(p, 'home', f)",
        "import hardwon.paths\nmonkeypatch.setattr(hardwon.paths, 'home', f)",
    ]
    allowed_texts = ["import unittest", "monkeypatch.setattr(sys, 'argv', [])", "monkeypatch.setenv('A', '1')"]
    assert [text for text in forbidden_texts if not find_mocks(Source("a.py", "a", text))] == []
    assert [text for text in allowed_texts if find_mocks(Source("a.py", "a", text))] == []


def test_a_name_that_is_no_sentence_is_found() -> None:
    text = "def test_match(): ...\ndef test_a_match_is_found(): ...\ndef helper(): ...\n"
    assert find_short_names(Source("a.py", "a", text)) == ["a.py:1: test_match"]
