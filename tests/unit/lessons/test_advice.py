"""Advice about the lessons in force, decided from facts."""

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

from hardwon.lessons import manifest_index
from hardwon.lessons.advice import DAY_SECONDS, Advice, LessonFacts, find_advice, find_similar, find_stale, replay_calls
from hardwon.lessons.manifest import compile_entries, find_entry_literals
from hardwon.lessons.replay import Replay
from hardwon.store.transcripts import ScannedCall
from hardwon.text import similarity
from hardwon.types import Lesson, Pattern

NOW = 1_800_000_000.0
LONG_AGO, RECENTLY = "2020-01-01T00:00:00Z", "2027-01-10T00:00:00Z"
NO_FACTS = LessonFacts({}, {}, {})


def build_lesson(slug: str = "a", *commands: str, **changes: Any) -> Lesson:
    text = f"{slug}one {slug}two {slug}three {slug}four {slug}five"
    defaults: dict[str, Any] = {
        "summary": text,
        "problem": text,
        "solution": "",
        "delivery": "note",
        "created_at": LONG_AGO,
    }
    patterns = tuple(map(Pattern, commands))
    return Lesson(**{**defaults, "id": slug, "slug": slug, "commands": patterns, **changes})


def build_call(
    command: str, outcome: str = "fine", *, tool: str = "Bash", cwd: str = "/p", file: str = ""
) -> ScannedCall:
    return ScannedCall("", "claude-code", "s1", cwd, "", "", 0, tool, command, file, "", outcome)


def build_replay(fires: int, fine: int, sample: str = "make all") -> Replay:
    return Replay(fires, fires - fine, fine, (build_call(sample),) if fine else ())


def search_pattern(pattern: Pattern, text: str) -> bool:
    return bool(re.search(pattern.source, text, pattern.flags))


def list_advice_kinds(
    lessons: list[Lesson], facts: LessonFacts = NO_FACTS, missing_paths: Collection[str] = ()
) -> list[tuple[str, str]]:
    advice = find_advice(
        lessons, facts, now=NOW, path_exists=lambda path: path not in missing_paths, search_pattern=search_pattern
    )
    return [(item.kind, item.lesson.slug) for item in advice]


def find_only_advice(lesson: Lesson, facts: LessonFacts = NO_FACTS, missing_paths: Collection[str] = ()) -> Advice:
    (advice,) = find_advice(
        [lesson], facts, now=NOW, path_exists=lambda path: path not in missing_paths, search_pattern=search_pattern
    )
    return advice


def test_a_sound_lesson_gets_no_advice() -> None:
    facts = LessonFacts({"a": (3, NOW - DAY_SECONDS)}, {"a": 1000}, {"a": build_replay(20, 18)})
    assert list_advice_kinds([build_lesson("a", r"\bmake\b")], facts) == []
    assert list_advice_kinds([build_lesson("a", r"\bmake\b")]) == []


@pytest.mark.parametrize("pattern", [".", r"\w+", "git", r"^ls\b", r"^cd ", "echo|printf"])
def test_without_history_a_pattern_that_fires_on_everyday_commands_is_too_broad(pattern: str) -> None:
    advice = find_only_advice(build_lesson("a", pattern))
    assert (advice.kind, advice.fix) == ("too broad", "hardwon lessons edit a --command REGEX")
    assert advice.finding.startswith("a fires on a plain '")


def test_unless_patterns_count_before_a_lesson_is_too_broad() -> None:
    assert list_advice_kinds([build_lesson("a", r"\bgit\b", unless=(Pattern("status"),))]) == []


def test_a_trigger_that_fires_often_on_calls_that_went_fine_is_too_broad() -> None:
    advice = find_only_advice(build_lesson("a", r"\bmake\b"), LessonFacts({}, {"a": 200}, {"a": build_replay(11, 6)}))
    assert advice.finding == "a would have fired on 11 of 200 recorded calls; 6 of them went fine, such as 'make all'"


@pytest.mark.parametrize(
    ("chances", "replayed"),
    [(200, build_replay(10, 10)), (200, build_replay(50, 25)), (99, build_replay(99, 99))],
    ids=["a twentieth", "half of them went wrong", "too few calls"],
)
def test_a_trigger_that_fires_seldom_or_rightly_is_not_too_broad(chances: int, replayed: Replay) -> None:
    assert list_advice_kinds([build_lesson("a", r"\bmake\b")], LessonFacts({}, {"a": chances}, {"a": replayed})) == []


def test_with_enough_history_only_recorded_calls_count() -> None:
    assert list_advice_kinds([build_lesson("a", r"^cd ")], LessonFacts({}, {"a": 500}, {"a": build_replay(5, 5)})) == []


@pytest.mark.parametrize(
    ("tool", "flag"), [("Bash", "--command REGEX"), ("Read", "--path GLOB"), ("Edit", "--path GLOB")]
)
def test_a_lesson_by_a_tool_alone_that_is_always_used_is_too_broad(tool: str, flag: str) -> None:
    advice = find_only_advice(build_lesson("a", tools=(tool,)))
    assert (advice.kind, advice.fix) == ("too broad", f"hardwon lessons edit a {flag}")
    assert list_advice_kinds([build_lesson("a", tools=(tool,), delivery="start")]) == []


def test_a_lesson_by_a_rare_tool_or_with_a_path_is_not_too_broad() -> None:
    assert (
        list_advice_kinds([build_lesson("a", tools=("WebFetch",)), build_lesson("b", tools=("Edit",), paths=("*.py",))])
        == []
    )


def test_an_old_lesson_that_was_never_delivered_and_fires_on_nothing_is_named() -> None:
    advice = find_only_advice(build_lesson("a", r"\bmake\b"), LessonFacts({}, {"a": 100}, {}))
    assert advice.finding == "a was never delivered, and fires on none of 100 recorded calls"
    assert advice.fix == "hardwon lessons edit a, or: hardwon lessons retire a"


@pytest.mark.parametrize(
    ("facts", "created"),
    [
        (LessonFacts({}, {"a": 99}, {}), LONG_AGO),
        (LessonFacts({}, {"a": 100}, {}), RECENTLY),
        (LessonFacts({}, {"a": 100}, {}), "some day"),
        (LessonFacts({"a": (1, NOW)}, {"a": 100}, {}), LONG_AGO),
        (LessonFacts({}, {"a": 100}, {"a": build_replay(1, 1)}), LONG_AGO),
    ],
    ids=["too few calls", "a new lesson", "nobody knows its age", "delivered", "it would have fired"],
)
def test_a_lesson_that_may_still_fire_gets_no_advice(facts: LessonFacts, created: str) -> None:
    assert list_advice_kinds([build_lesson("a", r"\bmake\b", created_at=created)], facts) == []


def test_a_lesson_whose_project_is_gone_is_stale() -> None:
    advice = find_only_advice(build_lesson("a", r"\bmake\b", project="/gone"), missing_paths=["/gone"])
    assert (advice.kind, advice.finding) == ("stale", "a belongs to /gone, which is gone")
    assert advice.fix == "hardwon lessons retire a"


def test_a_lesson_that_was_delivered_but_not_for_half_a_year_is_stale() -> None:
    lesson = build_lesson("a", r"\bmake\b")
    assert "200 days ago" in find_only_advice(lesson, LessonFacts({"a": (7, NOW - 200 * DAY_SECONDS)}, {}, {})).finding
    assert list_advice_kinds([lesson], LessonFacts({"a": (7, NOW - 179 * DAY_SECONDS)}, {}, {})) == []


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
    advice = find_only_advice(build_lesson("a", paths=(glob,)), missing_paths=[looked_for])
    assert advice.finding == f"a is about {looked_for}, which is gone"


def test_a_glob_that_names_no_place_is_never_stale() -> None:
    globs = ("src/*.py", "*.py", "/*.py", "**/x", "~/*.md", "!/etc/app")
    assert not list(find_stale([build_lesson("a", paths=globs)], NO_FACTS, NOW, lambda path: False))


def test_evidence_that_is_gone_is_stale_unless_it_is_quoted() -> None:
    bare_evidence, quoted_evidence = (
        {"path": "/docs/why.md"},
        {"path": "/t/1.jsonl", "line": 3, "quote": "fatal: no such thing"},
    )
    assert list_advice_kinds(
        [build_lesson("a", r"\bmake\b", evidence=(bare_evidence,))], missing_paths=["/docs/why.md"]
    ) == [("stale", "a")]
    assert (
        list_advice_kinds(
            [build_lesson("a", r"\bmake\b", evidence=(quoted_evidence, {"path": 7}))], missing_paths=["/t/1.jsonl"]
        )
        == []
    )


def test_of_two_similar_lessons_the_lower_priority_is_to_be_retired() -> None:
    text = "git stash leaves untracked files behind"
    low, high = (
        build_lesson("low", "x1", problem=text, priority=3),
        build_lesson("high", "x2", problem=text + " always", priority=8),
    )
    for lessons in ([low, high], [high, low]):
        (advice,) = find_similar(lessons, NO_FACTS)
        assert "low" in advice.finding and "high" in advice.finding and "86%" in advice.finding
        assert advice.fix == "hardwon lessons retire low"


def test_similar_lessons_of_different_projects_get_no_advice() -> None:
    def build_twins(*projects: str) -> list[Lesson]:
        return [
            build_lesson(str(n), "x", problem="the very same words", project=project)
            for n, project in enumerate(projects)
        ]

    assert list(find_similar(build_twins("/a", "/b"), NO_FACTS)) == []
    for projects in (("/a", "/a/below"), ("/a", ""), ("", "/a"), ("/a", "/a")):
        assert len(list(find_similar(build_twins(*projects), NO_FACTS))) == 1, projects


def test_each_of_many_equal_lessons_is_reported_once() -> None:
    crowd = [build_lesson(f"s{n}", "x", problem="the very same words") for n in range(300)]
    assert len(list(find_similar(crowd, NO_FACTS))) == 299


words = st.lists(st.sampled_from([f"word{n}" for n in range(12)]), max_size=9).map(" ".join)


@given(st.lists(words, max_size=8))
def test_similar_lessons_are_found_as_by_comparing_every_pair(problems: list[str]) -> None:
    lessons = [build_lesson(f"s{n}", "x", problem=text) for n, text in enumerate(problems)]
    tokens_by_slug = {lesson.slug: similarity.tokenize(f"{lesson.problem} {lesson.solution}") for lesson in lessons}
    similar_pairs = {
        (a, b)
        for a, b in combinations(tokens_by_slug, 2)
        if similarity.compute_jaccard(tokens_by_slug[a], tokens_by_slug[b]) >= similarity.SAME_THRESHOLD
    }
    reported_pairs = {
        (text[0], text[2]) for text in (advice.finding.split() for advice in find_similar(lessons, NO_FACTS))
    }
    second_slugs = {pair[1] for pair in reported_pairs}
    assert reported_pairs <= similar_pairs
    assert all(pair in reported_pairs or second_slugs & {*pair} for pair in similar_pairs)


def test_a_slug_is_quoted_for_the_shell() -> None:
    assert find_only_advice(build_lesson("a; rm x", r"^ls")).fix == "hardwon lessons edit 'a; rm x' --command REGEX"


def compile_index(tmp_path: Path, lessons: list[Lesson]) -> manifest_index.ManifestIndex:
    entries = compile_entries(lessons)
    path = os.path.join(tmp_path, "index")
    with open(path, "wb") as file:
        file.write(manifest_index.build(entries, list(map(find_entry_literals, entries)), settings={}, source_stats=[]))
    return manifest_index.ManifestIndex(path)


def test_one_pass_over_the_calls_counts_chances_and_firings_of_every_lesson(tmp_path: Path) -> None:
    lessons = [
        build_lesson("stash", r"\bgit stash\b"),
        build_lesson("here", r"\bmake\b", project="/p"),
        build_lesson("files", paths=("*.py",), tools=("Edit",)),
        build_lesson("opening", delivery="start"),
    ]
    calls = [
        build_call("git stash"),
        build_call("cd x; git stash", "failed"),
        build_call("echo 'git stash'"),
        build_call("make", cwd="/elsewhere"),
        build_call("make", "refused"),
        build_call("", tool="Edit", file="/p/a.py"),
    ]
    chances, replays = replay_calls(calls, compile_index(tmp_path, lessons), search_pattern)
    assert chances == {"stash": 5, "here": 4, "files": 1}
    counts = {lesson_id: (replay.fires, replay.failed, replay.fine) for lesson_id, replay in replays.items()}
    assert counts == {"stash": (2, 1, 1), "here": (1, 0, 0), "files": (1, 0, 1)}
    assert replays["stash"].samples == (calls[0],)
