"""doctor reads the lessons themselves: what fires on everything, on nothing, or about what is gone."""

from __future__ import annotations

import json
import os
from typing import Any

from hardwon import clock
from hardwon.store import db, events, transcripts
from hardwon.store.transcripts import Portion, ScannedCall
from hardwon.types import Delivery, ReadPosition
from tests.support.house import GIT_STASH, House, bash, lesson

DAY = 86_400
KINDS = ("too broad", "never fires", "stale", "alike")


def read_advice(house: House) -> dict[str, list[dict[str, Any]]]:
    """Return doctor's advice about lessons by kind, after checking that none of it is a failure."""
    checks: dict[str, list[dict[str, Any]]] = {}
    for check in house.ok("doctor", "--json").json():
        if check["name"] in KINDS:
            assert check["well"] is None
            checks.setdefault(check["name"], []).append(check)
    return checks


def record_calls(house: House, commands: list[str]) -> None:
    """Store calls that succeeded, as a scan does."""
    calls = [
        ScannedCall(
            f"c{n}", "claude-code", "s1", "/home/dev/project", "", "/t.jsonl", n, "Bash", command, "", "", "fine"
        )
        for n, command in enumerate(commands)
    ]
    connection = db.connect(house.home)
    transcripts.store_portions(
        connection, [Portion("/t.jsonl", "claude-code", ReadPosition(), tuple(calls))], clock.now()
    )
    connection.close()


def edit_record(house: House, slug: str, **changes: Any) -> None:
    """Edit the record by hand."""
    path = os.path.join(house.home, "lessons.json")
    with open(path) as file:
        document = json.load(file)
    next(record for record in document["lessons"] if record["slug"] == slug).update(changes)
    with open(path, "w") as file:
        json.dump(document, file)


def test_good_lessons_are_passed_over_and_looking_makes_no_database(house: House) -> None:
    house.cli("doctor")
    assert not os.path.exists(os.path.join(house.home, "hardwon.db"))
    house.add({**GIT_STASH, "delivery": "hold"})
    assert read_advice(house) == {}


def test_a_pattern_for_everything_is_shown_with_the_command_that_mends_it(house: House) -> None:
    slug = house.add(lesson(r"\w+"))
    output = house.ok("doctor").out
    assert f"--  too broad    {slug} fires on a plain 'ls'\n" in output
    assert f"    fix:         hardwon lessons edit {slug} --command REGEX\n" in output
    house.ok("lessons", "edit", slug, "--command", r"\bterraform apply\b")
    assert read_advice(house) == {}


def test_the_recorded_calls_tell_what_fires_too_often_and_what_never(house: House) -> None:
    broad, never, good = house.add(lesson(r"\bmake\b")), house.add(lesson(r"\bfrobnicate\b")), house.add(GIT_STASH)
    for slug in (broad, never, good):
        edit_record(house, slug, createdAt="2020-01-01T00:00:00Z")
    record_calls(house, [*(f"make target{n}" for n in range(30)), *(f"cat file{n}" for n in range(80)), "git stash"])
    advice = read_advice(house)
    assert sorted(advice) == ["never fires", "too broad"]
    assert f"{broad} would have fired on 30 of 111 recorded calls" in advice["too broad"][0]["found"]
    assert f"{never} was never delivered" in advice["never fires"][0]["found"]
    house.ok("lessons", "retire", broad)
    house.ok("lessons", "retire", never)
    assert read_advice(house) == {}


def test_a_lesson_that_reaches_an_agent_is_not_said_to_be_silent(house: House) -> None:
    slug = house.add(lesson(r"\bfrobnicate\b"))
    edit_record(house, slug, createdAt="2020-01-01T00:00:00Z")
    record_calls(house, [f"cat file{n}" for n in range(120)])
    assert list(read_advice(house)) == ["never fires"]
    house.ok("lessons", "build")
    assert house.ask("s1", bash("frobnicate")).context
    assert [delivery["slug"] for delivery in house.deliveries()] == [slug]
    assert read_advice(house) == {}


def test_what_is_gone_or_was_of_use_long_ago_is_stale(house: House, own_home: str) -> None:
    project = os.path.join(own_home, "app")
    os.makedirs(os.path.join(project, "conf"))
    scoped = house.add(lesson(r"\bnpm ci\b", scope={"type": "project", "path": project}))
    about_path = house.add(lesson(triggers={"toolNames": ["Edit"], "pathPatterns": [f"{project}/conf/*.toml"]}))
    once = house.add(lesson(r"\bcargo\b"))
    assert read_advice(house) == {}
    os.rmdir(os.path.join(project, "conf"))
    os.rmdir(project)
    connection = db.connect(house.home)
    long_ago = clock.now() - 300 * DAY
    delivery = Delivery(
        "e1", long_ago, "claude-code", "s1", "", "PreToolUse", "Bash", get_lesson_id(house, once), once, "", "note"
    )
    events.insert_deliveries(connection, [delivery])
    connection.close()
    advice = {check["found"].split()[0]: check for check in read_advice(house)["stale"]}
    assert sorted(advice) == sorted([scoped, about_path, once])
    assert (f"{project}/conf" in advice[about_path]["found"], "300 days ago" in advice[once]["found"]) == (True, True)
    assert advice[scoped]["fix"] == f"hardwon lessons retire {scoped}"


def get_lesson_id(house: House, slug: str) -> str:
    return str(house.ok("lessons", "show", slug, "--json").json()["id"])


def test_lessons_alike_are_named_five_at_most(house: House) -> None:
    text = "git stash only stashes tracked files, and others stay where they are"
    records = [
        {**lesson(rf"\btool{n}\b"), "id": f"L{n}", "slug": f"s{n}", "problem": text, "solution": text} for n in range(9)
    ]
    os.makedirs(house.home, mode=0o700)
    with open(os.path.join(house.home, "lessons.json"), "w") as file:
        json.dump({"version": 1, "lessons": records}, file)
    house.ok("lessons", "build")
    advice = read_advice(house)
    assert [check["found"] for check in advice["alike"]][-1] == "and 3 more"
    assert len(advice["alike"]) == 6
    assert advice["alike"][0]["found"].startswith("s0 and s1 have 100%")
    assert advice["alike"][0]["fix"] == "hardwon lessons retire s1"


def test_a_repositorys_lesson_is_mended_in_the_repository(house: House, own_home: str) -> None:
    project = os.path.join(own_home, "app")
    os.makedirs(os.path.join(project, ".hardwon"))
    carried = os.path.join(project, ".hardwon", "lessons.json")
    with open(carried, "w") as file:
        json.dump({"lessons": [{**lesson(r"\w+"), "id": "R1", "slug": "r1"}]}, file)
    house.ok("trust", project, "--yes")
    (check,) = read_advice(house)["too broad"]
    assert check["fix"] == f"edit {carried}, then: hardwon trust {project}"


def test_a_file_that_is_no_database_is_a_fault_and_the_lessons_stay_in_force(house: House) -> None:
    house.add(lesson(r"\w+"))
    with open(os.path.join(house.home, "hardwon.db"), "w") as file:
        file.write("this is no database, whatever its name says\n" * 100)
    result = house.cli("doctor", "--json")
    checks = {check["name"]: check for check in result.json()}
    assert (result.code, checks["lessons"]["well"]) == (1, False)
    assert "not a database" in checks["lessons"]["found"] and "last good manifest" in checks["lessons"]["found"]
