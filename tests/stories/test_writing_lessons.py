"""A person writes lessons: with flags, as a record, from a file or a pipe; what is not fit is refused with a reason."""

from __future__ import annotations

import json
import os

import pytest

from tests.support.house import GIT_STASH, House, bash, lesson

FLAGS = [
    "--summary",
    GIT_STASH["summary"],
    "--problem",
    GIT_STASH["problem"],
    "--solution",
    GIT_STASH["solution"],
    "--command",
    r"\bgit stash\b",
    "--tool",
    "Bash",
    "--delivery",
    "hold",
    "--priority",
    "8",
    "--tag",
    "tool:git",
]


def test_flags_a_record_a_file_and_a_pipe_say_the_same(house: House, own_home: str) -> None:
    record = json.dumps({**GIT_STASH, "delivery": "hold", "priority": 8, "tags": ["tool:git"]})
    path = os.path.join(own_home, "lesson.json")
    with open(path, "w") as file:
        file.write(record)
    stored_records = []
    for words, stdin in (
        (FLAGS, ""),
        (["--json", record], ""),
        (["--file", path], ""),
        (["--json", "-"], record),
        ([], record),
    ):
        house.ok("lessons", "add", *words, stdin=stdin)
        [stored_lesson] = house.ok("lessons", "list", "--json").json()
        stored_records.append(
            {key: stored_lesson[key] for key in stored_lesson if key not in ("id", "slug", "createdAt", "updatedAt")}
        )
        os.unlink(os.path.join(house.home, "lessons.json"))
        house.ok("lessons", "build")
    assert all(record == stored_records[0] for record in stored_records)
    assert stored_records[0]["triggers"]["commandPatterns"] == [r"\bgit stash\b"]


def test_a_lesson_is_listed_shown_and_found_by_the_beginning_of_its_slug(house: House) -> None:
    slug = house.add({**GIT_STASH, "delivery": "hold"})
    assert slug in house.ok("lessons", "list").out
    assert house.ok("lessons", "show", slug[:9], "--json").json()["slug"] == slug
    refused = house.cli("lessons", "show", "nothing-like-it")
    assert (refused.code, refused.err) == (
        1,
        "error: there is no lesson 'nothing-like-it'\n  fix: hardwon lessons list\n",
    )


def test_what_is_left_out_is_filled_in(house: House) -> None:
    house.add(GIT_STASH)
    [stored_lesson] = house.ok("lessons", "list", "--json").json()
    assert (
        stored_lesson["confidence"],
        stored_lesson["priority"],
        stored_lesson["delivery"],
        stored_lesson["status"],
    ) == (
        0.9,
        5,
        "note",
        "active",
    )
    assert len(stored_lesson["id"]) == 26 and stored_lesson["slug"].startswith("git-stash-leaves-untracked-files-")
    assert stored_lesson["contentHash"].startswith("sha256:")


@pytest.mark.parametrize(
    ("change", "say"),
    [
        ({"triggers": {"commandPatterns": ["(a+)+$"]}}, "commandPatterns '(a+)+$'"),
        ({"triggers": {"commandPatterns": ["(unclosed"]}}, "commandPatterns '(unclosed'"),
        ({"summary": 7}, "summary is 7; expected text"),
        ({"solution": "too short"}, "solution is too short (9 characters"),
        ({"delivery": "shout"}, "delivery is 'shout'; expected one of note, hold, block, start"),
        ({"triggers": {}}, "no trigger"),
        ({"priority": 11}, "priority is 11; expected 1 to 10"),
    ],
)
def test_what_is_not_fit_is_refused_and_nothing_is_written(house: House, change: dict[str, object], say: str) -> None:
    refused = house.cli("lessons", "add", "--json", json.dumps({**GIT_STASH, **change}))
    assert refused.code == 1 and say in refused.err and "fix:" in refused.err
    assert not os.path.exists(os.path.join(house.home, "lessons.json"))


def test_a_record_that_is_not_json_is_said_to_be_so(house: House) -> None:
    assert "the record is not JSON" in house.cli("lessons", "add", "--json", "{not").err
    assert "the record is not an object" in house.cli("lessons", "add", "--json", "[]").err


def test_the_same_lesson_twice_is_refused_by_name(house: House) -> None:
    slug = house.add(GIT_STASH)
    assert slug in house.cli("lessons", "add", "--json", json.dumps(GIT_STASH)).err


def test_what_we_do_not_know_in_the_file_stays(house: House) -> None:
    house.add({**GIT_STASH, "mine": {"x": 1}})
    path = os.path.join(house.home, "lessons.json")
    with open(path) as file:
        document = json.load(file)
    document["also mine"] = [1.0]
    with open(path, "w") as file:
        json.dump(document, file)
    house.add(lesson(r"\bmake\b"))
    with open(path) as file:
        text = file.read()
    written_document = json.loads(text)
    assert (written_document["also mine"], written_document["lessons"][0]["mine"], text[:4]) == (
        [1.0],
        {"x": 1},
        "{\n  ",
    )


def test_an_agent_only_proposes_and_may_not_pause(house: House) -> None:
    for mark in ("CLAUDECODE", "AI_AGENT", "GEMINI_CLI", "CODEX_SANDBOX"):
        record = json.dumps(lesson(r"\bgit stash\b", delivery="block"))
        assert "proposed as a candidate" in house.ok("lessons", "add", "--json", record, env={mark: "1"}).out
        assert house.cli("pause", env={mark: "1"}).code == 1
    assert [proposal["status"] for proposal in house.ok("lessons", "list", "--json").json()] == ["candidate"] * 4
    assert house.ask("s1", bash("git stash")).raw == b"{}"


def test_what_an_agent_proposes_has_names_of_our_making(house: House) -> None:
    record = lesson(r"\bls\b", id="01ARZ3NDEKTSV4RRFFQ69G5FAV", slug="chosen")
    house.ok("lessons", "add", "--json", json.dumps(record), env={"CLAUDECODE": "1"})
    [stored_lesson] = house.ok("lessons", "list", "--json").json()
    assert stored_lesson["id"] != record["id"] and stored_lesson["slug"] != "chosen"
    house.ok("lessons", "add", "--json", json.dumps(lesson(r"\bcd\b", slug="chosen")))


def test_check_says_what_is_wrong_and_where(house: House) -> None:
    house.add(GIT_STASH)
    assert house.ok("lessons", "check").out == "1 lesson in force\n"
    path = os.path.join(house.home, "config.json")
    with open(path, "w") as file:
        file.write('{"maxLessonsPerInjection": "three", "colour": "red"}')
    result = house.cli("lessons", "check")
    assert result.code == 1
    assert "maxLessonsPerInjection is 'three', expected a number such as 3" in result.out
    assert "colour is not a setting" in result.out


def test_an_error_does_not_move_the_cursor(house: House) -> None:
    ran = house.cli("lessons", "show", "zap\x1b]0;title\x07")
    assert (ran.code, "\x1b" in ran.err, "zap" in ran.err) == (1, False, True)
