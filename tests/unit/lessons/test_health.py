"""What is worth saying about the lessons in force, decided from facts."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwon.lessons import health, manifest_index
from hardwon.lessons.health import DAY_SECONDS, Advice, LessonFacts
from hardwon.lessons.manifest import compile_entries, find_entry_literals
from hardwon.lessons.replay import Replay
from hardwon.store.transcripts import ScannedCall
from hardwon.text import similarity
from hardwon.types import Lesson, Pattern

NOW = 1_800_000_000.0
LONG_AGO, LATELY = "2020-01-01T00:00:00Z", "2027-01-10T00:00:00Z"
NOTHING_KNOWN = LessonFacts({}, {}, {})


def made(slug: str = "a", *commands: str, **changes: Any) -> Lesson:
    text = f"{slug}one {slug}two {slug}three {slug}four {slug}five"
    plain: dict[str, Any] = {
        "summary": text,
        "problem": text,
        "solution": "",
        "delivery": "note",
        "created_at": LONG_AGO,
    }
    patterns = tuple(map(Pattern, commands))
    return Lesson(**{**plain, "id": slug, "slug": slug, "commands": patterns, **changes})


def a_call(command: str, outcome: str = "fine", *, tool: str = "Bash", cwd: str = "/p", file: str = "") -> ScannedCall:
    return ScannedCall("", "claude-code", "s1", cwd, "", "", 0, tool, command, file, "", outcome)


def fired(fires: int, fine: int, sample: str = "make all") -> Replay:
    return Replay(fires, fires - fine, fine, (a_call(sample),) if fine else ())


def search(pattern: Pattern, text: str) -> bool:
    return bool(re.search(pattern.source, text, pattern.flags))


def kinds(
    lessons: list[Lesson], facts: LessonFacts = NOTHING_KNOWN, gone: Collection[str] = ()
) -> list[tuple[str, str]]:
    found = health.find_advice(
        lessons, facts, now=NOW, path_exists=lambda path: path not in gone, search_pattern=search
    )
    return [(one.kind, one.lesson.slug) for one in found]


def only(lesson: Lesson, facts: LessonFacts = NOTHING_KNOWN, gone: Collection[str] = ()) -> Advice:
    (found,) = health.find_advice(
        [lesson], facts, now=NOW, path_exists=lambda path: path not in gone, search_pattern=search
    )
    return found


def test_a_sound_lesson_is_not_talked_about() -> None:
    known = LessonFacts({"a": (3, NOW - DAY_SECONDS)}, {"a": 1000}, {"a": fired(20, 18)})
    assert kinds([made("a", r"\bmake\b")], known) == []
    assert kinds([made("a", r"\bmake\b")]) == []


@pytest.mark.parametrize("pattern", [".", r"\w+", "git", r"^ls\b", r"^cd ", "echo|printf"])
def test_without_history_a_pattern_that_fires_on_everyday_commands_is_too_broad(pattern: str) -> None:
    said = only(made("a", pattern))
    assert (said.kind, said.fix) == ("too broad", "hardwon lessons edit a --command REGEX")
    assert said.finding.startswith("a fires on a plain '")


def test_what_calls_a_lesson_off_counts_before_it_is_called_too_broad() -> None:
    assert kinds([made("a", r"\bgit\b", unless=(Pattern("status"),))]) == []


def test_by_the_recorded_calls_a_trigger_that_fires_often_on_what_went_fine_is_too_broad() -> None:
    said = only(made("a", r"\bmake\b"), LessonFacts({}, {"a": 200}, {"a": fired(11, 6)}))
    assert said.finding == "a would have fired on 11 of 200 recorded calls; 6 of them went fine, such as 'make all'"


@pytest.mark.parametrize(
    ("chances", "replayed"),
    [(200, fired(10, 10)), (200, fired(50, 25)), (99, fired(99, 99))],
    ids=["a twentieth", "half of them went wrong", "too few calls"],
)
def test_a_trigger_that_fires_seldom_or_rightly_is_not_too_broad(chances: int, replayed: Replay) -> None:
    assert kinds([made("a", r"\bmake\b")], LessonFacts({}, {"a": chances}, {"a": replayed})) == []


def test_with_enough_history_the_looks_of_a_pattern_do_not_count() -> None:
    assert kinds([made("a", r"^cd ")], LessonFacts({}, {"a": 500}, {"a": fired(5, 5)})) == []


@pytest.mark.parametrize(
    ("tool", "flag"), [("Bash", "--command REGEX"), ("Read", "--path GLOB"), ("Edit", "--path GLOB")]
)
def test_a_lesson_by_a_tool_alone_that_is_always_used_is_too_broad(tool: str, flag: str) -> None:
    said = only(made("a", tools=(tool,)))
    assert (said.kind, said.fix) == ("too broad", f"hardwon lessons edit a {flag}")
    assert kinds([made("a", tools=(tool,), delivery="start")]) == []


def test_a_lesson_by_a_rare_tool_or_with_a_path_is_not_too_broad() -> None:
    assert kinds([made("a", tools=("WebFetch",)), made("b", tools=("Edit",), paths=("*.py",))]) == []


def test_an_old_lesson_that_was_never_delivered_and_fires_on_nothing_is_named() -> None:
    said = only(made("a", r"\bmake\b"), LessonFacts({}, {"a": 100}, {}))
    assert said.finding == "a was never delivered, and fires on none of 100 recorded calls"
    assert said.fix == "hardwon lessons edit a, or: hardwon lessons retire a"


@pytest.mark.parametrize(
    ("facts", "created"),
    [
        (LessonFacts({}, {"a": 99}, {}), LONG_AGO),
        (LessonFacts({}, {"a": 100}, {}), LATELY),
        (LessonFacts({}, {"a": 100}, {}), "some day"),
        (LessonFacts({"a": (1, NOW)}, {"a": 100}, {}), LONG_AGO),
        (LessonFacts({}, {"a": 100}, {"a": fired(1, 1)}), LONG_AGO),
    ],
    ids=["too few calls", "a new lesson", "nobody knows its age", "delivered", "it would have fired"],
)
def test_a_lesson_that_may_yet_fire_is_left_alone(facts: LessonFacts, created: str) -> None:
    assert kinds([made("a", r"\bmake\b", created_at=created)], facts) == []


def test_a_lesson_whose_project_is_gone_is_stale() -> None:
    said = only(made("a", r"\bmake\b", project="/gone"), gone=["/gone"])
    assert (said.kind, said.finding) == ("stale", "a belongs to /gone, which is gone")
    assert said.fix == "hardwon lessons retire a"


def test_a_lesson_that_was_delivered_but_not_for_half_a_year_is_stale() -> None:
    lesson = made("a", r"\bmake\b")
    assert "200 days ago" in only(lesson, LessonFacts({"a": (7, NOW - 200 * DAY_SECONDS)}, {}, {})).finding
    assert kinds([lesson], LessonFacts({"a": (7, NOW - 179 * DAY_SECONDS)}, {}, {})) == []


@pytest.mark.parametrize(
    ("glob", "looked_for"),
    [
        ("/etc/app/main.conf", "/etc/app/main.conf"),
        ("/etc/app/**/*.conf", "/etc/app"),
        ("~/notes/*.md", "~/notes"),
        ("/etc/app/", "/etc/app/"),
    ],
)
def test_a_glob_below_a_folder_that_is_gone_is_stale(glob: str, looked_for: str) -> None:
    said = only(made("a", paths=(glob,)), gone=[looked_for])
    assert said.finding == f"a is about {looked_for}, which is gone"


def test_a_glob_that_names_no_place_is_never_stale() -> None:
    globs = ("src/*.py", "*.py", "/*.py", "**/x", "~/*.md", "!/etc/app")
    assert not list(health.find_stale([made("a", paths=globs)], NOTHING_KNOWN, NOW, lambda path: False))


def test_evidence_that_is_gone_is_stale_unless_it_is_quoted() -> None:
    bare, quoted = {"path": "/docs/why.md"}, {"path": "/t/1.jsonl", "line": 3, "quote": "fatal: no such thing"}
    assert kinds([made("a", r"\bmake\b", evidence=(bare,))], gone=["/docs/why.md"]) == [("stale", "a")]
    assert kinds([made("a", r"\bmake\b", evidence=(quoted, {"path": 7}))], gone=["/t/1.jsonl"]) == []


def test_of_two_lessons_alike_both_are_named_and_the_lower_is_to_be_retired() -> None:
    text = "git stash leaves untracked files behind"
    low, high = made("low", "x1", problem=text, priority=3), made("high", "x2", problem=text + " always", priority=8)
    for lessons in ([low, high], [high, low]):
        (said,) = health.find_similar(lessons, NOTHING_KNOWN)
        assert "low" in said.finding and "high" in said.finding and "86%" in said.finding
        assert said.fix == "hardwon lessons retire low"


def test_lessons_alike_in_different_projects_are_not_in_each_others_way() -> None:
    def twins(*projects: str) -> list[Lesson]:
        return [made(str(n), "x", problem="the very same words", project=one) for n, one in enumerate(projects)]

    assert list(health.find_similar(twins("/a", "/b"), NOTHING_KNOWN)) == []
    for places in (("/a", "/a/below"), ("/a", ""), ("", "/a"), ("/a", "/a")):
        assert len(list(health.find_similar(twins(*places), NOTHING_KNOWN))) == 1, places


def test_a_crowd_of_equal_lessons_is_told_one_likeness_each() -> None:
    crowd = [made(f"s{n}", "x", problem="the very same words") for n in range(300)]
    assert len(list(health.find_similar(crowd, NOTHING_KNOWN))) == 299


words = st.lists(st.sampled_from([f"word{n}" for n in range(12)]), max_size=9).map(" ".join)


@given(st.lists(words, max_size=8))
def test_whoever_is_like_another_is_found_as_if_each_were_compared_with_each(problems: list[str]) -> None:
    lessons = [made(f"s{n}", "x", problem=text) for n, text in enumerate(problems)]
    said = {one.slug: similarity.tokenize(f"{one.problem} {one.solution}") for one in lessons}
    same = {
        (a, b)
        for a, b in combinations(said, 2)
        if similarity.compute_jaccard(said[a], said[b]) >= similarity.SAME_THRESHOLD
    }
    found = {
        (text[0], text[2]) for text in (one.finding.split() for one in health.find_similar(lessons, NOTHING_KNOWN))
    }
    later = {pair[1] for pair in found}
    assert found <= same
    assert all(pair in found or later & {*pair} for pair in same)


def test_a_slug_that_a_shell_would_read_otherwise_is_quoted() -> None:
    assert only(made("a; rm x", r"^ls")).fix == "hardwon lessons edit 'a; rm x' --command REGEX"


def compiled(tmp_path: Path, lessons: list[Lesson]) -> manifest_index.ManifestIndex:
    entries = compile_entries(lessons)
    path = os.path.join(tmp_path, "index")
    with open(path, "wb") as file:
        file.write(manifest_index.build(entries, list(map(find_entry_literals, entries)), settings={}, source_stats=[]))
    return manifest_index.ManifestIndex(path)


def test_one_pass_over_the_calls_counts_for_every_lesson_what_it_could_have_and_would_have_met(tmp_path: Path) -> None:
    lessons = [
        made("stash", r"\bgit stash\b"),
        made("here", r"\bmake\b", project="/p"),
        made("files", paths=("*.py",), tools=("Edit",)),
        made("opening", delivery="start"),
    ]
    calls = [
        a_call("git stash"),
        a_call("cd x; git stash", "failed"),
        a_call("echo 'git stash'"),
        a_call("make", cwd="/elsewhere"),
        a_call("make", "refused"),
        a_call("", tool="Edit", file="/p/a.py"),
    ]
    chances, replays = health.replay_calls(
        calls, compiled(tmp_path, lessons), search_pattern=search, locate_folder=lambda folder: (folder, [folder])
    )
    assert chances == {"stash": 5, "here": 4, "files": 1}
    counts = {id: (one.fires, one.failed, one.fine) for id, one in replays.items()}
    assert counts == {"stash": (2, 1, 1), "here": (1, 0, 0), "files": (1, 0, 1)}
    assert replays["stash"].samples == (calls[0],)
