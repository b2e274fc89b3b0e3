"""Lessons are added, imported and edited; those with secrets are refused."""

from __future__ import annotations

import pytest

from hardwon.errors import UserError
from hardwon.lessons import adding, lessons_file
from tests.support.house import lesson


@pytest.mark.parametrize("kind", ["toolNames", "commandPatterns", "pathPatterns", "pathRegexes", "contentPatterns"])
def test_a_changed_trigger_replaces_its_own_kind(kind: str) -> None:
    changed = adding.apply_changes({"triggers": {kind: ["old"]}}, {kind: ["new"]})
    assert changed["triggers"][kind] == ["new"] and kind not in changed


def test_of_equal_imported_lessons_the_first_is_added(own_home: str) -> None:
    first_record, other_record = lesson(r"\bgit\b"), lesson(r"\bmake\b")
    twin = {**first_record, "summary": "the same in another summary"}
    added, refused = adding.add_imported_records(
        own_home, [first_record, {**other_record, "slug": "made"}, {**twin, "slug": "twin"}]
    )
    assert [lesson.summary for lesson in added] == [first_record["summary"], other_record["summary"]]
    assert list(refused) == ["twin"]


KEY = "ghp_" + "A1b2C3d4E5f6G7h8J9k0" + "L1m2N3p4Q5r6S7t8"
CHANGES_WITH_SECRETS = [
    {"summary": f"Pushing with {KEY} fails on a protected branch"},
    {"problem": f"The registry refuses DB_PASSWORD={KEY[8:20]} because it was rotated"},
    {"solution": f"Log in anew: docker login -u ada -p {KEY[8:20]} registry.local, then push"},
    {"injection": f"Use the token {KEY} and nothing else, it is the only one"},
    {"commandPatterns": [rf"\bcurl .*{KEY}"]},
    {"tags": [f"tool:{KEY}"]},
    {"solution": "Ask the release team first. <private>Ada knows the code</private> Then push."},
]


@pytest.mark.parametrize("change", CHANGES_WITH_SECRETS)
def test_a_lesson_with_a_secret_is_refused_and_the_field_is_named(own_home: str, change: dict[str, object]) -> None:
    record = adding.apply_changes(lesson(r"\bgit push\b"), change)
    (name,) = change
    with pytest.raises(UserError, match=rf"{name} contains (what looks like a secret|a <private> part)"):
        adding.add_record(own_home, record, is_approved=True, source=adding.SOURCE_PERSON)
    added, refused = adding.add_imported_records(own_home, [{**record, "slug": "imported"}, lesson(r"\bmake\b")])
    assert [added_lesson.slug for added_lesson in added] != ["imported"] and len(added) == 1
    assert f"{name} contains" in refused["imported"]
    other = lesson(r"\bnpm ci\b", problem="another cause altogether, which is told here")
    changed = adding.add_record(own_home, other, is_approved=True, source=adding.SOURCE_PERSON)
    with pytest.raises(UserError, match=f"{name} contains"):
        adding.edit_record(own_home, changed.id, change)


def test_a_secret_in_the_evidence_is_redacted(own_home: str) -> None:
    record = {**lesson(r"\bgit push\b"), "evidence": [{"session": "s1", "error": f"denied for {KEY}"}]}
    written = adding.add_record(own_home, record, is_approved=True, source=adding.SOURCE_PERSON)
    with open(lessons_file.get_lessons_path(own_home), encoding="utf-8") as file:
        text = file.read()
    assert KEY not in text and "[redacted:github]" in text
    assert written.slug in text


def test_a_lesson_written_by_hand_can_be_retired_even_with_a_secret(own_home: str) -> None:
    written = adding.add_record(own_home, lesson(r"\bgit push\b"), is_approved=True, source=adding.SOURCE_PERSON)
    path = lessons_file.get_lessons_path(own_home)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace(written.problem, f"{written.problem} The key was {KEY}."))
    assert adding.set_lesson_status(own_home, written.id, "retired").status == "retired"
    with open(path, encoding="utf-8") as file:
        assert KEY in file.read()


@pytest.mark.parametrize(
    "pattern",
    [
        r"--password[= ]\S+",
        r"\bmysql\b.* -p\S+",
        r"ghp_[A-Za-z0-9]{36}",
        r"(?:password|token)\s*[:=]\s*['\"][^'\"]+",
        r"AKIA[0-9A-Z]{16}",
    ],
)
def test_a_pattern_that_matches_secrets_is_no_secret(own_home: str, pattern: str) -> None:
    assert (
        adding.add_record(own_home, lesson(pattern), is_approved=True, source=adding.SOURCE_PERSON).commands[0].source
        == pattern
    )
