"""Rule 15: a test is a sentence about behaviour. No sleeps, clocks, mocks of our own code or real home."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator

import pytest

from tests.rules.tree import Function, Source, full_name, origins, python_files, uphold

# Waiting is no sleep where it has a name that says what for; waiting for another process has a deadline too.
WAITING = "wait_"
MOCKS = ("mock", "unittest.mock", "pytest_mock")
PATCHES = frozenset({"setattr", "delattr", "setitem", "delitem"})
NEWLINE = "\n"
STOPWATCHES = frozenset({"time.perf_counter", "time.perf_counter_ns", "time.process_time", "timeit.timeit"})


def sleeps(source: Source) -> list[str]:
    """Each sleep that is not in a function for waiting; what drives real agents may sleep."""
    if source.place.startswith("tests/real/") or "sleep" not in source.text:
        return []
    waiting = [
        range(node.lineno, (node.end_lineno or node.lineno) + 1)
        for node in source.nodes
        if isinstance(node, Function) and node.name.startswith(WAITING)
    ]
    return [
        f"{place} sleeps"
        for place, name, call in calls(source)
        if name == "time.sleep" and not any(call.lineno in lines for lines in waiting)
    ]


def stopwatches(source: Source) -> list[str]:
    if not any(name.rpartition(".")[2] in source.text for name in STOPWATCHES):
        return []
    return [f"{place} measures time with {name}" for place, name, _ in calls(source) if name in STOPWATCHES]


def mocks(source: Source) -> list[str]:
    """Each mock, and each place where a part of hardwon is replaced."""
    if "mock" not in source.text and "monkeypatch" not in source.text:
        return []
    known = origins(source)
    wrong = [
        f"{source.place}: imports {full}"
        for full in known.values()
        if any(full == mock or full.startswith(f"{mock}.") for mock in MOCKS)
    ]
    wrong += [
        f"{source.place}:{node.lineno}: uses the mocker fixture"
        for node in source.nodes
        if isinstance(node, ast.arg) and node.arg == "mocker"
    ]
    for place, name, call in calls(source):
        if name.startswith("monkeypatch.") and name.rpartition(".")[2] in PATCHES and call.args:
            first = call.args[0]
            target = first.value if isinstance(first, ast.Constant) else full_name(first, known)
            if isinstance(target, str) and target.split(".")[0] == "hardwon":
                wrong.append(f"{place} replaces {target}")
    return wrong


def calls(source: Source) -> Iterator[tuple[str, str, ast.Call]]:
    known = origins(source)
    for node in source.nodes:
        if isinstance(node, ast.Call):
            yield f"{source.place}:{node.lineno}:", full_name(node.func, known), node


def no_sentences(source: Source) -> list[str]:
    """Test names of one or two words, which name a function instead of saying what happens."""
    names = re.finditer(r"^ *(?:async )?def (test_\w*)", source.text, re.MULTILINE)
    return [
        f"{source.place}:{source.text.count(NEWLINE, 0, match.start()) + 1}: {match[1]}"
        for match in names
        if len(re.findall(r"[a-z0-9]+", match[1])) < 4
    ]


def suite() -> list[Source]:
    return python_files("tests")


def test_no_test_sleeps() -> None:
    uphold(
        f"a test does not sleep; only a function named {WAITING}… does, for what its name says",
        (breach for source in suite() for breach in sleeps(source)),
        "wait for what you mean (an event, a file, a reply), with a deadline, in such a function",
    )


def test_no_test_measures_time() -> None:
    uphold(
        "times are in benchmarks, never in tests",
        (breach for source in suite() for breach in stopwatches(source)),
        "move the measurement to bench/, or pass the clock in",
    )


def test_no_test_replaces_a_part_of_hardwon() -> None:
    uphold(
        "no test mocks our own code",
        (breach for source in suite() for breach in mocks(source)),
        "use the real thing (temporary home, real SQLite, real process), or hand the part in as an argument",
    )


def test_every_test_is_a_sentence() -> None:
    uphold(
        "the name of a test is a sentence about behaviour",
        (breach for source in suite() for breach in no_sentences(source)),
        "name what happens: test_a_lesson_is_given_once_per_session",
    )


def test_the_real_home_is_out_of_reach(tmp_path_factory: pytest.TempPathFactory) -> None:
    temporary = os.path.realpath(tmp_path_factory.getbasetemp())
    homes = {"~": os.path.expanduser("~"), "HARDWON_HOME": os.environ.get("HARDWON_HOME", "")}
    uphold(
        f"in a test, every home is below {temporary}",
        (
            f"{name} is {place or 'not set'}"
            for name, place in homes.items()
            if not os.path.realpath(place).startswith(temporary + os.sep)
        ),
        "let a fixture in tests/conftest.py set HOME and HARDWON_HOME for every test (autouse)",
    )


def test_a_sleep_is_found_by_any_name() -> None:
    text = "import time\nfrom time import sleep as nap\ntime.sleep(1)\nnap(1)\nasyncio.sleep(0)\n"
    assert len(sleeps(Source("tests/test_a.py", "test_a", text))) == 2
    assert sleeps(Source("tests/real/test_a.py", "test_a", text)) == []
    named = "import time\ndef wait_for(file):\n    time.sleep(0.01)\n"
    assert sleeps(Source("tests/test_a.py", "test_a", named)) == []


def test_a_stopwatch_is_found() -> None:
    text = "from time import monotonic, perf_counter\nstart = perf_counter()\ndeadline = monotonic() + 5\n"
    assert stopwatches(Source("a.py", "a", text)) == ["a.py:2: measures time with time.perf_counter"]


def test_each_way_to_mock_is_found() -> None:
    bad = [
        "from unittest import mock",
        "import unittest.mock as m",
        "from unittest.mock import patch",
        "def test_a(mocker): ...",
        "monkeypatch.setattr('hardwon.paths.home', f)",
        "from hardwon import paths as p\nmonkeypatch.setattr(p, 'home', f)",
        "import hardwon.paths\nmonkeypatch.setattr(hardwon.paths, 'home', f)",
    ]
    good = ["import unittest", "monkeypatch.setattr(sys, 'argv', [])", "monkeypatch.setenv('A', '1')"]
    assert [text for text in bad if not mocks(Source("a.py", "a", text))] == []
    assert [text for text in good if mocks(Source("a.py", "a", text))] == []


def test_a_name_that_is_no_sentence_is_found() -> None:
    text = "def test_match(): ...\ndef test_a_match_is_found(): ...\ndef helper(): ...\n"
    assert no_sentences(Source("a.py", "a", text)) == ["a.py:1: test_match"]
