"""Lessons of lessons-learned are converted: none fires on more than it did, and what is lost is named."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwon.lessons.lessons_learned_import import convert_lessons
from hardwon.lessons.record import BadRecord, parse_lesson, to_lesson_record
from hardwon.lessons.validation import find_lesson_faults

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


def convert_entry(entry: Any) -> dict[str, Any]:
    (record,) = convert_lessons({"lessons": [entry]})
    return record


def convert_seed(**changes: Any) -> dict[str, Any]:
    return convert_entry(SEED | changes)


def convert_with_triggers(**triggers: Any) -> dict[str, Any]:
    return convert_seed(block=None, blockReason=None, triggers={"toolNames": ["Bash"], **triggers})


def is_waiting(record: dict[str, Any]) -> bool:
    assert record.get("needsReview", False) is (record["status"] == "candidate"), record
    return bool(record["status"] == "candidate")


def test_a_record_of_the_seed_becomes_one_of_ours() -> None:
    lesson = parse_lesson(convert_entry(SEED))
    assert find_lesson_faults(lesson) == []
    assert (lesson.id, lesson.slug, lesson.delivery, lesson.status) == (SEED["id"], SEED["slug"], "block", "active")
    assert (lesson.block_reason, lesson.injection) == (SEED["blockReason"], SEED["injection"])
    assert (lesson.priority, lesson.confidence, lesson.command_target) == (8, 0.95, "executable")
    assert (lesson.extra, lesson.evidence) == ({"importedFrom": "lessons-learned"}, ())
    assert lesson.content_hash == ""  # the hash of lessons-learned covers other fields


def test_the_document_is_not_changed() -> None:
    texts_before = json.dumps(MANIFEST), json.dumps(SEED)
    convert_lessons(MANIFEST), convert_entry(SEED)
    assert (json.dumps(MANIFEST), json.dumps(SEED)) == texts_before


def test_a_bare_list_and_flat_triggers_are_read() -> None:
    flat = {key: value for key, value in SEED.items() if key != "triggers"} | SEED["triggers"]  # type: ignore[operator]
    assert convert_lessons([flat]) == convert_lessons({"lessons": [SEED]})


def test_old_names_are_understood_and_an_empty_new_one_does_not_hide_them() -> None:
    old = {"mistake": "git stash leaves untracked files", "fix": "use git stash -u for all of them", "problem": ""}
    lesson = parse_lesson(convert_entry({"summary": "git stash forgets untracked files", **old}))
    assert (lesson.problem, lesson.solution) == (old["mistake"], old["fix"])
    assert convert_entry({"remediation": "use git stash -u instead"})["solution"] == "use git stash -u instead"


def test_the_manifest_of_the_conformance_cases_is_converted() -> None:
    guard, hint = map(parse_lesson, convert_lessons(MANIFEST))
    message = MANIFEST["lessons"]["01JQTEST0000000000000002"]["message"]  # type: ignore[index]
    assert [find_lesson_faults(lesson) for lesson in (guard, hint)] == [[], []]
    assert (guard.id, guard.delivery, guard.command_target) == ("01JQTEST0000000000000001", "block", "executable")
    assert guard.block_reason.startswith("## REQUIRED: pytest TTY fix")
    assert (hint.delivery, hint.command_target, hint.status) == ("note", "full", "active")
    assert hint.injection == hint.solution == message
    assert (
        hint.problem
        == "Imported from a lessons-learned manifest: mock.patch must target the importing module namespace"
    )
    assert [pattern.source for pattern in hint.path_regexes] == [r"test.*\.py$"]
    assert [lesson.extra["type"] for lesson in (guard, hint)] == ["guard", "hint"]


def test_guards_block_hints_note_and_protocols_open_a_session() -> None:
    expected_deliveries: list[tuple[dict[str, Any], str, str]] = [
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
    ]
    for entry, delivery, target in expected_deliveries:
        lesson = parse_lesson(convert_entry({"toolNames": ["Bash"], "commandPatterns": ["x"], **entry}))
        assert (lesson.delivery, lesson.command_target) == (delivery, target), entry


def test_a_guard_without_a_reason_gives_its_texts_as_the_reason() -> None:
    record = convert_entry({"type": "guard", "summary": "S", "problem": "P", "solution": "F"})
    assert record["blockReason"] == "## Lesson: S\nP\n**Fix**: F"
    assert "importFaults" not in convert_seed(block=False, blockReason=None)
    assert "blockReason" not in convert_seed(block=False)
    assert "not used" in convert_seed(block=False)["importFaults"][0]


def test_patterns_that_python_accepts_are_kept_as_they_are() -> None:
    record = convert_with_triggers(commandPatterns=[r"^git\/x$", {"source": "a", "flags": "gi"}], unless=[r"\d$"])
    lesson = parse_lesson(record)
    assert [(pattern.source, pattern.flags) for pattern in lesson.commands] == [(r"^git\/x$", 0), ("a", 2)]
    assert [pattern.source for pattern in lesson.unless] == [r"\d$"]
    assert not is_waiting(record)


def test_a_glob_stays_a_glob_and_a_regex_among_them_is_recognised() -> None:
    globs = ["**/*.py", "tests/*", "app/[id]/page.tsx", "src/{a,b}.ts", "routes/$id.tsx", "app/(auth)/x.ts"]
    record = convert_with_triggers(pathPatterns=[*globs, r".*\.test\.ts$", r"^/srv/.+"])
    assert record["pathPatterns"] == globs
    assert [regex["source"] for regex in record["pathRegexes"]] == [r".*\.test\.ts$", r"^/srv/.+"]


def test_a_lesson_that_may_fire_on_more_than_before_becomes_a_candidate_with_the_reason() -> None:
    triggers_with_faults: list[tuple[dict[str, Any], str]] = [
        ({"commandPatterns": [r"(?<=a+)b"]}, "fixed-width"),
        ({"commandPatterns": [r"(?<name>b)"]}, "a named group is (?P<name>…)"),
        ({"commandPatterns": [r"(a+)+$"]}, "can take forever"),
        ({"commandPatterns": ["["]}, "unterminated"),
        ({"commandPatterns": [r"(?<=a+)b"], "pathPatterns": ["*.py"]}, "commandPatterns '(?<=a+)b' is left out"),
        ({"commandPatterns": ["x"], "unless": [r"(?<=a+)b"]}, "unless '(?<=a+)b' is left out"),
        ({"commandPatterns": ["x"], "pathRegexSources": [{"source": "(", "flags": ""}]}, "pathRegexes '('"),
        ({"outputPatterns": ["x"]}, "outputPatterns narrows it"),
        ({"commandPatterns": ["x"], "modelScopeRegexSources": [{"source": "x"}]}, "modelScopeRegexSources narrows it"),
        ({"commandPatterns": ["x"], "contentRegexSources": [{"source": "x"}]}, "must both match there"),
    ]
    for triggers, fault in triggers_with_faults:
        record = convert_with_triggers(**triggers)
        assert is_waiting(record), triggers
        assert fault in record["importFaults"][0], triggers
        parse_lesson(record)


def test_values_of_the_wrong_type_are_refused_by_name() -> None:
    wrong_values: list[tuple[dict[str, Any], str]] = [
        ({"priority": "high"}, "priority is 'high'"),
        ({"scope": "github.com/me/app"}, "scope is"),
        ({"scope": {"type": "project", "path": "x"}}, "scope is"),
        ({"triggers": 5}, "triggers is 5"),
        ({"triggers": {"commandPatterns": 5}}, "commandPatterns is 5"),
        ({"triggers": {"commandPatterns": [{"source": 5}]}}, "commandPatterns contains an object"),
        ({"triggers": {"toolNames": 7}}, "toolNames is 7"),
        ({"summary": ["x"]}, "summary is a list"),
    ]
    for changes, fault in wrong_values:
        with pytest.raises(BadRecord) as refusal:
            parse_lesson(convert_seed(**changes))
        assert fault in str(refusal.value), changes


def test_a_disabled_lesson_stays_disabled() -> None:
    expected_statuses: list[tuple[dict[str, Any], str, bool]] = [
        ({}, "active", False),
        ({"needsReview": True}, "active", True),
        ({"disabled": True}, "retired", False),
        ({"status": "disabled"}, "retired", False),
        ({"status": "archived"}, "retired", False),
        ({"status": "reviewed"}, "candidate", False),
        ({"status": "odd"}, "candidate", True),
    ]
    for changes, status, needs_review in expected_statuses:
        record = convert_seed(**changes)
        assert (record["status"], record.get("needsReview", False)) == (status, needs_review), changes


def test_a_lesson_of_a_project_stays_in_it() -> None:
    expected_projects: list[tuple[dict[str, Any], str]] = [
        ({"scope": None}, ""),
        ({"scope": "global"}, ""),
        ({"scope": {"type": "project", "path": "/srv/app"}}, "/srv/app"),
        ({"scope": "/srv/app"}, "/srv/app"),
        ({"scope": {"type": "global"}, "projectPath": "/srv/app"}, "/srv/app"),
        ({"scope": None, "projectPath": None}, ""),
    ]
    for changes, project in expected_projects:
        assert parse_lesson(convert_seed(**changes)).project == project, changes


def test_unknown_keys_are_kept_and_defaults_are_not_made_up() -> None:
    record = convert_entry({"summary": "x", "requires": {"a": 1}, "triggers": {"odd": [1]}})
    assert (record["requires"], record["odd"]) == ({"a": 1}, [1])
    assert {"priority", "confidence", "id", "slug", "evidence"}.isdisjoint(record)


def test_a_record_of_ours_is_not_converted() -> None:
    lesson = parse_lesson(convert_entry(SEED) | {"delivery": "hold", "block": None, "blockReason": None})
    record = to_lesson_record(lesson)
    assert convert_lessons([record]) == [record]


def test_a_file_of_neither_shape_is_refused() -> None:
    for document in (None, 5, "lessons", True, {}, {"lessons": 5}, {"lessons": None}, {"summary": "x"}):
        with pytest.raises(ValueError, match=r"neither lessons\.json nor a manifest"):
            convert_lessons(document)


def test_an_entry_that_is_no_object_is_named_and_cannot_pass() -> None:
    entries: list[object] = [None, 5, "x", [], True]
    for entry in entries:
        record = convert_entry(entry)
        assert record["importFaults"][0].startswith("lesson 1 is "), entry
        assert find_lesson_faults(parse_lesson(record)), entry


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


@given(st.lists(ENTRY | JSON, max_size=2) | st.dictionaries(st.sampled_from(["a", "b"]), ENTRY | JSON, max_size=2))
def test_no_imported_lesson_with_patterns_fires_by_its_tool_alone(lessons: Any) -> None:
    entries = lessons if isinstance(lessons, list) else [*lessons.values()]
    for entry, record in zip(entries, convert_lessons({"lessons": lessons}), strict=True):
        try:
            lesson = parse_lesson(record)
        except BadRecord:
            continue  # adding it is refused
        is_in_force = lesson.status == "active" and not lesson.needs_review and lesson.delivery != "start"
        if is_in_force and isinstance(entry, dict) and any(entry.get(key) for key in PATTERNS):
            assert lesson.commands or lesson.paths or lesson.path_regexes or lesson.contents
