"""Lessons of lessons-learned are adopted as they were: nothing fires on more than it did, and nothing is lost unsaid."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardwon.lessons import record, validation
from hardwon.lessons.foreign_lessons import convert_lessons

SEED = {
    "id": "01JQSEED00000000000000001",
    "slug": "pytest-tty-hanging-k9m2",
    "summary": "pytest hangs in non-interactive envs due to TTY detection",
    "problem": "Running bare `pytest` in Claude Code causes the process to hang",
    "solution": "Use `python -m pytest --no-header -p no:faulthandler`",
    "injection": "## REQUIRED: pytest flags for Claude Code",
    "block": True,
    "blockReason": "Rerun as: {command} --no-header -p no:faulthandler",
    "triggers": {
        "toolNames": ["Bash"],
        "commandPatterns": [r"\bpytest\b(?!.*(--no-header|-p no:faulthandler))"],
        "pathPatterns": [],
        "contentPatterns": [],
        "sessionStart": False,
    },
    "scope": {"type": "global"},
    "priority": 8,
    "confidence": 0.95,
    "needsReview": False,
    "tags": ["lang:python", "tool:pytest", "severity:hang"],
    "sourceSessionIds": [],
    "occurrenceCount": 0,
    "createdAt": "2026-03-29T00:00:00Z",
    "updatedAt": "2026-03-29T00:00:00Z",
    "contentHash": "sha256:theirs",
}

# The manifest of the conformance cases: lessons-learned's own, at b17a025.
MANIFEST = {
    "type": "lessons-learned-manifest",
    "version": 1,
    "lessons": {
        "01JQTEST0000000000000001": {
            "slug": "pytest-no-header-test",
            "type": "guard",
            "priority": 9,
            "toolNames": ["Bash"],
            "commandRegexSources": [
                {"source": r"\bpytest\b(?!.*(--no-header|-p no:faulthandler|TERM=dumb))", "flags": ""}
            ],
            "pathRegexSources": [],
            "tags": ["lang:python", "tool:pytest", "severity:hang"],
            "message": "## REQUIRED: pytest TTY fix\nRerun as: pytest -p no:faulthandler --no-header",
            "summary": "pytest hangs without TTY flags",
        },
        "01JQTEST0000000000000002": {
            "slug": "mock-patch-namespace-test",
            "type": "hint",
            "priority": 7,
            "toolNames": ["Bash", "Edit", "Write"],
            "commandRegexSources": [{"source": r"mock\.patch\(|@patch\(", "flags": ""}],
            "pathRegexSources": [{"source": r"test.*\.py$", "flags": "i"}],
            "tags": ["lang:python", "tool:unittest", "topic:testing"],
            "message": "## Lesson: mock.patch namespace\nPatch where the name is looked up, not where it is defined.",
            "summary": "mock.patch must target the importing module namespace",
        },
    },
}


def one(entry: Any) -> dict[str, Any]:
    (found,) = convert_lessons({"lessons": [entry]})
    return found


def changed(**changes: Any) -> dict[str, Any]:
    return one(SEED | changes)


def triggered(**triggers: Any) -> dict[str, Any]:
    return changed(block=None, blockReason=None, triggers={"toolNames": ["Bash"], **triggers})


def waits(found: dict[str, Any]) -> bool:
    assert found["needsReview"] is (found["status"] == "candidate"), found
    return bool(found["needsReview"])


def test_a_record_of_the_seed_becomes_one_of_ours() -> None:
    lesson = record.parse_lesson(one(SEED))
    assert validation.find_lesson_faults(lesson) == []
    assert (lesson.id, lesson.slug, lesson.delivery, lesson.status) == (SEED["id"], SEED["slug"], "block", "active")
    assert (lesson.block_reason, lesson.injection) == (SEED["blockReason"], SEED["injection"])
    assert (lesson.priority, lesson.confidence, lesson.command_target) == (8, 0.95, "executable")
    assert (lesson.extra, lesson.evidence) == ({"importedFrom": "lessons-learned"}, ())
    assert lesson.content_hash == ""  # theirs is the hash of something else
    assert lesson.commands[0].flags == re.ASCII


def test_the_record_handed_in_is_left_alone() -> None:
    before = json.dumps(MANIFEST), json.dumps(SEED)
    convert_lessons(MANIFEST), one(SEED)
    assert (json.dumps(MANIFEST), json.dumps(SEED)) == before


def test_a_bare_list_and_flat_triggers_are_read() -> None:
    flat = {key: value for key, value in SEED.items() if key != "triggers"} | SEED["triggers"]  # type: ignore[operator]
    assert convert_lessons([flat]) == convert_lessons({"lessons": [SEED]})


def test_old_names_are_understood_and_an_empty_new_one_does_not_hide_them() -> None:
    old = {"mistake": "git stash leaves untracked files", "fix": "use git stash -u for all of them", "problem": ""}
    lesson = record.parse_lesson(one({"summary": "git stash forgets untracked files", **old}))
    assert (lesson.problem, lesson.solution) == (old["mistake"], old["fix"])
    assert one({"remediation": "use git stash -u instead"})["solution"] == "use git stash -u instead"


def test_the_manifest_of_the_conformance_cases_is_adopted() -> None:
    guard, hint = (record.parse_lesson(found) for found in convert_lessons(MANIFEST))
    theirs = MANIFEST["lessons"]["01JQTEST0000000000000002"]  # type: ignore[index]
    assert [validation.find_lesson_faults(lesson) for lesson in (guard, hint)] == [[], []]
    assert (guard.id, guard.delivery, guard.command_target) == ("01JQTEST0000000000000001", "block", "executable")
    assert guard.block_reason.startswith("## REQUIRED: pytest TTY fix")
    assert (hint.delivery, hint.command_target, hint.status) == ("note", "full", "active")
    assert hint.injection == hint.solution == theirs["message"]
    assert (
        hint.problem
        == "Imported from a lessons-learned manifest: mock.patch must target the importing module namespace"
    )
    (path,) = convert_lessons(MANIFEST)[1]["triggers"]["pathRegexes"]
    assert path == {"source": r"test.*\.py\Z", "flags": "ia"}
    assert [lesson.extra["type"] for lesson in (guard, hint)] == ["guard", "hint"]


@pytest.mark.parametrize(
    ("entry", "delivery", "target"),
    [
        ({}, "note", "full"),
        ({"type": "hint"}, "note", "full"),
        ({"type": "hint", "commandMatchTarget": "executable"}, "note", "executable"),
        ({"type": "guard"}, "block", "executable"),
        ({"type": "guard", "commandMatchTarget": "full"}, "block", "full"),
        ({"type": "guard", "sessionStart": True}, "block", "executable"),
        ({"block": True, "blockReason": "do not"}, "block", "executable"),
        ({"sessionStart": True}, "start", "executable"),
        ({"type": "protocol"}, "start", "executable"),
        ({"type": "directive"}, "start", "executable"),
    ],
)
def test_guards_block_hints_note_and_protocols_open_a_session(
    entry: dict[str, Any], delivery: str, target: str
) -> None:
    lesson = record.parse_lesson(one({"toolNames": ["Bash"], "commandPatterns": ["x"], **entry}))
    assert (lesson.delivery, lesson.command_target) == (delivery, target)


def test_a_guard_without_words_of_its_own_says_what_it_would_have_said() -> None:
    found = one({"type": "guard", "summary": "S", "problem": "P", "solution": "F"})
    assert found["blockReason"] == "## Lesson: S\nP\n**Fix**: F"
    assert "importFaults" not in changed(block=False, blockReason=None)
    assert "blockReason" not in changed(block=False)
    assert "not used" in changed(block=False)["importFaults"][0]


def test_patterns_of_javascript_are_translated() -> None:
    found = triggered(commandPatterns=[r"^git\/(?<a>x)\k<a>$", {"source": "a", "flags": "gi"}], unless=[r"\d$"])
    assert found["triggers"]["commandPatterns"] == [
        r"^git/(?P<a>x)(?P=a)\Z",
        {"source": "a", "flags": "ia"},
    ]
    assert found["unless"] == [{"source": r"\d\Z", "flags": "a"}]
    assert not waits(found)


def test_a_glob_stays_a_glob_and_a_regex_among_them_is_told_apart() -> None:
    globs = ["**/*.py", "tests/*", "app/[id]/page.tsx", "src/{a,b}.ts", "routes/$id.tsx", "app/(auth)/x.ts"]
    found = triggered(pathPatterns=[*globs, r".*\.test\.ts$", r"^/srv/.+"])["triggers"]
    assert found["pathPatterns"] == globs
    assert [regex["source"] for regex in found["pathRegexes"]] == [r".*\.test\.ts\Z", r"^/srv/.+"]


def test_one_pattern_lost_of_several_leaves_the_lesson_in_force() -> None:
    found = triggered(commandPatterns=[r"(?<=a+)b", "fine"])
    assert found["triggers"]["commandPatterns"] == ["fine"]
    assert "(?<=a+)b" in found["importFaults"][0]
    assert not waits(found)


@pytest.mark.parametrize(
    "triggers",
    [
        {"commandPatterns": [r"(?<=a+)b"]},
        {"commandPatterns": [r"(a+)+$"]},
        {"commandPatterns": [""]},
        {"commandPatterns": [r"(?<=a+)b"], "pathPatterns": ["*.py"]},
        {"commandPatterns": ["x"], "unless": [r"(?<=a+)b"]},
        {"commandPatterns": 5},
        {"commandPatterns": [None]},
        {"commandPatterns": [{"source": 5}]},
        {"commandPatterns": ["x"], "pathRegexSources": [{"source": "(", "flags": ""}]},
        {"pathPatterns": {"a": 1}},
        {"toolNames": 7, "commandPatterns": ["x"]},
        {"outputPatterns": ["x"]},
        {"commandPatterns": ["x"], "modelScopeRegexSources": [{"source": "x", "flags": ""}]},
        {"commandPatterns": ["x"], "contentRegexSources": [{"source": "x", "flags": ""}]},
        {"commandPatterns": ["x"], "sessionStart": "yes"},
    ],
)
def test_a_lesson_that_would_fire_on_more_than_before_waits_for_a_person(triggers: dict[str, Any]) -> None:
    found = triggered(**triggers)
    assert waits(found)
    assert found["importFaults"]
    record.parse_lesson(found)


@pytest.mark.parametrize(
    ("given", "status", "review"),
    [
        ({}, "active", False),
        ({"needsReview": True}, "active", True),
        ({"disabled": True}, "retired", False),
        ({"status": "disabled"}, "retired", False),
        ({"status": "archived"}, "retired", False),
        ({"status": "reviewed"}, "candidate", False),
        ({"status": "odd"}, "candidate", True),
        ({"disabled": True, "triggers": 5}, "retired", True),
    ],
)
def test_what_was_off_stays_off(given: dict[str, Any], status: str, review: bool) -> None:
    found = changed(**given)
    assert (found["status"], found["needsReview"]) == (status, review)


@pytest.mark.parametrize(
    ("given", "project"),
    [
        ({"scope": None}, ""),
        ({"scope": "global"}, ""),
        ({"scope": {"type": "project", "path": "/srv/app"}}, "/srv/app"),
        ({"scope": "/srv/app"}, "/srv/app"),
        ({"scope": None, "projectPath": "/srv/app"}, "/srv/app"),
        ({"scope": None, "projectPath": None}, ""),
    ],
)
def test_a_lesson_of_a_project_stays_in_it(given: dict[str, Any], project: str) -> None:
    found = changed(**given)
    assert record.parse_lesson(found).project == project
    assert not waits(found)


@pytest.mark.parametrize("scope", ["github.com/me/app", {"type": "project"}, {"type": "project", "path": "x"}, 5, [1]])
def test_a_project_that_is_no_path_waits_for_a_person(scope: Any) -> None:
    found = changed(scope=scope)
    assert waits(found)
    assert found["importedScope"]
    record.parse_lesson(found)


def test_what_nobody_knows_is_kept_and_defaults_are_not_made_up() -> None:
    found = one({"summary": "x", "requires": {"a": 1}, "triggers": {"odd": [1]}, "nothing": None})
    assert (found["requires"], found["triggers"]["odd"], found["nothing"]) == ({"a": 1}, [1], None)
    assert {"priority", "confidence", "id", "slug", "evidence"}.isdisjoint(found)
    assert changed(priority=8.0)["priority"] == 8
    assert "priority" in changed(priority="high")["importFaults"][0]


def test_a_record_of_ours_is_not_translated() -> None:
    ours = record.to_lesson_record(
        record.parse_lesson(one(SEED) | {"delivery": "hold", "block": None, "blockReason": None})
    )
    assert convert_lessons([ours]) == [ours]


@pytest.mark.parametrize(
    "document", [None, 5, "lessons", True, {}, {"lessons": 5}, {"lessons": None}, {"summary": "x"}]
)
def test_what_is_neither_shape_is_refused_with_a_sentence(document: object) -> None:
    with pytest.raises(ValueError, match=r"neither lessons\.json nor a manifest"):
        convert_lessons(document)


@pytest.mark.parametrize("entry", [None, 5, "x", [], True])
def test_an_entry_that_is_no_lesson_is_named_and_cannot_pass(entry: object) -> None:
    found = one(entry)
    assert waits(found)
    assert found["importFaults"][0].startswith("lesson 1 is ")
    assert validation.find_lesson_faults(record.parse_lesson(found))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "x", "/a", "guard", "(", "active"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["source", "flags", "type"]), inner),
    max_leaves=4,
)
KEYS = sorted({*SEED, *SEED["triggers"], *MANIFEST["lessons"]["01JQTEST0000000000000001"]})  # type: ignore[misc,index]
MORE = [
    "mistake",
    "fix",
    "remediation",
    "projectPath",
    "status",
    "disabled",
    "commandMatchTarget",
    "unless",
    "evidence",
    "contentRegexSources",
    "outputPatterns",
    "pathRegexes",
    "importFaults",
    "importedFrom",
]
PATTERNS = [key for key in (*KEYS, *MORE) if key.endswith(("Patterns", "RegexSources", "Regexes"))]
ENTRY = st.dictionaries(st.sampled_from([*KEYS, *MORE]), JSON, max_size=6)


@settings(max_examples=100)
@given(st.lists(ENTRY | JSON, max_size=2) | st.dictionaries(st.sampled_from(["a", "b"]), ENTRY | JSON, max_size=2))
def test_whatever_stands_in_a_file_the_records_can_be_read_and_none_fires_by_its_tool_alone(lessons: Any) -> None:
    entries = lessons if isinstance(lessons, list) else [*lessons.values()]
    for entry, found in zip(entries, convert_lessons({"lessons": lessons}), strict=True):
        lesson = record.parse_lesson(found)
        in_force = lesson.status == "active" and not lesson.needs_review and lesson.delivery != "start"
        if in_force and any(entry.get(key) for key in PATTERNS):
            assert lesson.commands or lesson.paths or lesson.path_regexes or lesson.contents
