"""A lesson's record survives reading and writing, with unknown keys."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwon.lessons.record import (
    KEYS,
    BadRecord,
    hash_authored_fields,
    hash_lesson_content,
    parse_lesson,
    to_lesson_record,
)
from hardwon.lessons.validation import find_lesson_faults
from hardwon.types import DELIVERY_MODES, STATUSES, Lesson, replace

PLAIN: dict[str, Any] = {
    "id": "01K9ZJ4M7Q8R5T6V7W8X9YA2B3",
    "slug": "git-stash-leaves-7kq2",
    "summary": "git stash leaves untracked files behind",
    "problem": "git stash only stashes tracked files; untracked ones stay",
    "solution": "use git stash -u to keep untracked files as well",
    "triggers": {"toolNames": ["Bash"], "commandPatterns": [r"\bgit stash\b"]},
}
names = st.text(st.characters(categories=["L", "N", "P", "Zs"]), max_size=12)
patterns = names | st.builds(
    lambda source, flags: {"source": source, "flags": flags}, names, st.sampled_from(["", "i", "ms"])
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
records_made = st.fixed_dictionaries(
    {
        "id": names.filter(bool),
        "slug": names.filter(bool),
        "summary": names,
        "problem": names,
        "solution": names,
        "delivery": st.sampled_from(DELIVERY_MODES),
        "status": st.sampled_from(STATUSES),
        "triggers": st.fixed_dictionaries(
            {
                "toolNames": st.lists(names, max_size=2),
                "commandPatterns": st.lists(patterns, max_size=2),
                "pathPatterns": st.lists(names, max_size=2),
                "contentPatterns": st.lists(patterns, max_size=2),
            }
        ),
    },
    optional={
        "injection": names,
        "blockReason": names,
        "unless": st.lists(patterns, max_size=2),
        "commandMatchTarget": st.sampled_from(["executable", "full"]),
        "scope": st.just({"type": "global"}) | names.map(lambda name: {"type": "project", "path": "/" + name}),
        "priority": st.integers(-5, 15),
        "confidence": st.floats(0, 1),
        "needsReview": st.booleans(),
        "tags": st.lists(names, max_size=2),
        "evidence": st.lists(st.dictionaries(names, names, max_size=2), max_size=2),
    },
)


@given(records_made, st.dictionaries(names.map(lambda name: f"x-{name}"), anything, max_size=3))
def test_reading_what_was_written_gives_the_same_lesson(record: dict[str, Any], unknown: dict[str, Any]) -> None:
    lesson = parse_lesson({**record, **unknown})
    written = to_lesson_record(lesson)
    assert parse_lesson(json.loads(json.dumps(written))) == lesson
    assert {key: written[key] for key in unknown} == unknown
    assert (
        list(written)[: len(KEYS)]
        == [key for key in KEYS if key in written]
        + list(unknown)[: max(0, len(KEYS) - len([k for k in KEYS if k in written]))]
    )


def test_old_names_and_flat_triggers_are_understood() -> None:
    flat = {key: value for key, value in PLAIN.items() if key not in ("triggers", "problem", "solution")}
    for old in ("fix", "remediation"):
        record_with_old_names = {**flat, "mistake": PLAIN["problem"], old: PLAIN["solution"], **PLAIN["triggers"]}
        assert to_lesson_record(parse_lesson(record_with_old_names)) == to_lesson_record(parse_lesson(PLAIN))


def test_unknown_keys_inside_triggers_and_scope_stay() -> None:
    original_record = {
        **PLAIN,
        "triggers": {**PLAIN["triggers"], "mine": 1},
        "scope": {"type": "global", "why": "because"},
    }
    written_record = to_lesson_record(replace(parse_lesson(original_record), priority=9), previous=original_record)
    assert (written_record["triggers"]["mine"], written_record["scope"]["why"], written_record["priority"]) == (
        1,
        "because",
        9,
    )


def test_the_seeds_spelling_of_block_and_start_is_the_delivery() -> None:
    assert parse_lesson({**PLAIN, "block": True, "blockReason": "no"}).delivery == "block"
    assert parse_lesson({**PLAIN, "triggers": {"sessionStart": True}}).delivery == "start"
    with pytest.raises(BadRecord, match="delivery is 'note', but block is true"):
        parse_lesson({**PLAIN, "block": True, "delivery": "note"})


def test_the_content_hash_depends_on_the_content_only() -> None:
    plain = parse_lesson(PLAIN)
    flat = parse_lesson({**{k: v for k, v in PLAIN.items() if k != "triggers"}, **PLAIN["triggers"]})
    assert hash_lesson_content(plain) == hash_lesson_content(flat)
    assert hash_lesson_content(plain) == hash_lesson_content(replace(plain, priority=9, id="other"))
    assert hash_lesson_content(plain) != hash_lesson_content(replace(plain, solution="something else"))


@pytest.mark.parametrize(
    ("key", "value", "expected_fault"),
    [
        ("summary", None, ""),
        ("problem", 3, "problem is 3; expected text"),
        ("priority", "high", "priority is 'high'; expected a whole number"),
        ("priority", 5.5, "priority is 5.5; expected a whole number"),
        ("tags", {"a": 1}, "tags is an object; expected a list"),
        ("tags", [1], "tags contains 1; expected texts"),
        ("triggers", [], ""),
        ("triggers", "x", "triggers is 'x'; expected an object"),
        ("unless", [{}], "unless contains an object; expected patterns as text"),
        ("scope", "here", 'scope is "here"; expected'),
        ("scope", {"type": "project"}, "expected"),
        ("status", "maybe", "status is 'maybe'; expected one of candidate, active, retired, rejected"),
        ("needsReview", "yes", "needsReview is 'yes'; expected true or false"),
    ],
)
def test_wrong_types_are_reported_with_the_expected_type(key: str, value: object, expected_fault: str) -> None:
    if not expected_fault:
        assert isinstance(parse_lesson({**PLAIN, key: value}), Lesson)
        return
    with pytest.raises(BadRecord) as refused:
        parse_lesson({**PLAIN, key: value})
    assert expected_fault in str(refused.value)


@pytest.mark.parametrize(
    ("change", "expected_fault"),
    [
        ({"summary": "short"}, "summary is too short (5 characters, at least 20)"),
        ({"summary": "x" * 121}, "summary is too long (121 characters, at most 120)"),
        ({"summary": "a summary that trails off..."}, "summary ends in '...'"),
        ({"problem": "it fails because <what_went_wrong>"}, "placeholder <what_went_wrong>"),
        ({"solution": "do {{the right thing}} instead of this"}, "placeholder {{the right thing}}"),
        ({"triggers": {"commandPatterns": ["running the tests"]}}, "is prose"),
        ({"triggers": {"commandPatterns": [""]}}, "the pattern is empty"),
        ({"triggers": {"pathPatterns": ["#comment"]}}, "can match nothing"),
        ({"priority": 0}, "priority is 0; expected 1 to 10"),
        ({"confidence": 1.5}, "confidence is 1.5; expected 0 to 1"),
        ({"block": True}, "block without blockReason"),
        ({"blockReason": "no"}, "blockReason with delivery 'note'"),
        ({"tags": ["git"]}, "tag 'git' is not category:value"),
        ({"sourceSessionIds": list("abcdef")}, "sourceSessionIds has 6 entries; at most 5 are allowed"),
        ({"injection": "x" * 7000}, "the texts are too long (7000 characters"),
        ({"triggers": {}}, "no trigger"),
    ],
)
def test_each_rule_refuses_with_one_sentence(change: dict[str, Any], expected_fault: str) -> None:
    faults = find_lesson_faults(parse_lesson({**PLAIN, **change}))
    assert len(faults) == 1 and expected_fault in faults[0], faults


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"problem": "git push <branch_name> pushes only that branch, and nothing else"},
        {"triggers": {"commandPatterns": ["ping google", r"string\b", "npm ci"]}},
        {"triggers": {"toolNames": ["Bash"]}},
        {"delivery": "start", "triggers": {}},
        {"tags": ["tool:git", "severity:data-loss", "lang:c++"]},
    ],
)
def test_a_valid_record_is_accepted(change: dict[str, Any]) -> None:
    assert find_lesson_faults(parse_lesson({**PLAIN, **change})) == []


BOOKKEEPING: list[dict[str, Any]] = [
    {"occurrenceCount": 41},
    {"createdAt": "2020-01-01T00:00:00Z", "updatedAt": "2026-11-17T00:00:00Z"},
    {"confidence": 0.71},
    {"needsReview": True},
    {"status": "retired"},
    {"sourceSessionIds": ["s1"], "evidence": [{"path": "/x", "quote": "q"}]},
    {"contentHash": "sha256:0"},
    {"steppedDown": "hold", "source": "human"},
]


def test_bookkeeping_does_not_change_what_was_approved() -> None:
    approved_hash = hash_authored_fields(parse_lesson(PLAIN))
    for changes in BOOKKEEPING:
        assert hash_authored_fields(parse_lesson({**PLAIN, **changes})) == approved_hash, changes


AUTHORED: list[dict[str, Any]] = [
    {"slug": "run-this-first"},
    {"summary": "git stash leaves some files behind"},
    {"problem": "git stash only stashes tracked files; others stay"},
    {"solution": "use git stash --all to keep untracked files as well"},
    {"injection": "Stop."},
    {"delivery": "hold"},
    {"delivery": "block", "blockReason": "no {command}"},
    {"triggers": {"toolNames": ["Bash"], "commandPatterns": [r"\bgit\b"]}},
    {"triggers": {"toolNames": ["Read"], "commandPatterns": [r"\bgit stash\b"]}},
    {"triggers": {**PLAIN["triggers"], "pathPatterns": ["*.py"]}},
    {"triggers": {**PLAIN["triggers"], "pathRegexes": ["py$"]}},
    {"triggers": {**PLAIN["triggers"], "contentPatterns": ["x"]}},
    {"unless": [" -u"]},
    {"commandMatchTarget": "full"},
    {"scope": {"type": "project", "path": "/home/dev/kite"}},
    {"priority": 9},
    {"tags": ["tool:git"]},
]


def test_every_authored_field_changes_what_was_approved() -> None:
    approved_hash = hash_authored_fields(parse_lesson(PLAIN))
    for changes in AUTHORED:
        assert hash_authored_fields(parse_lesson({**PLAIN, **changes})) != approved_hash, changes


def test_another_spelling_of_a_record_does_not_change_what_was_approved() -> None:
    flat = {**PLAIN, **PLAIN["triggers"], "mistake": PLAIN["problem"], "fix": PLAIN["solution"], "scope": "global"}
    for name in ("triggers", "problem", "solution"):
        flat.pop(name)
    written_record = to_lesson_record(parse_lesson(PLAIN))
    assert {hash_authored_fields(parse_lesson(record)) for record in (PLAIN, flat, written_record)} == {
        hash_authored_fields(parse_lesson(PLAIN))
    }
