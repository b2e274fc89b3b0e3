"""A person looks at what was recorded: all sessions, one of them, none any more."""

from __future__ import annotations

import json
import os
import time

from tests.support.claude_transcript import TranscriptWriter
from tests.support.house import House, bash, happened, lesson, prompt, used

KITE, BOAT = "/home/dev/kite", "/home/dev/boat"


def lived(house: House, session: str, *, cwd: str = KITE, words: str = "mend the build", ended: bool = False) -> None:
    house.ask(session, happened("SessionStart", source="startup", cwd=cwd))
    house.ask(session, prompt(words, cwd=cwd))
    house.ask(session, used("Bash", {"command": "make"}, {"stdout": "built"}, cwd=cwd, duration_ms=7))
    if ended:
        house.ask(session, happened("SessionEnd", reason="logout", cwd=cwd))


def test_the_latest_session_is_listed_first(house: House) -> None:
    house.ok("start")
    lived(house, "aaaa-1")
    lived(house, "bbbb-2", cwd=BOAT, words="write\nthe docs", ended=True)
    listed = house.ok("sessions", "list", "--json").json()
    assert [(item["session"], item["project"], item["status"]) for item in listed] == [
        ("bbbb-2", "boat", "completed"),
        ("aaaa-1", "kite", "active"),
    ]
    shown = house.ok("sessions", "list", env={"COLUMNS": "80"}).out.splitlines()
    assert shown[0].split() == ["id", "when", "project", "prompts", "events", "status", "first", "prompt"]
    assert shown[1].endswith("write the docs") and len(shown) == 3


def test_the_list_fits_into_80_columns(house: House) -> None:
    house.ok("start")
    lived(house, "aaaa-1", cwd="/home/dev/a-project-with-a-very-long-name", words="mend the build " * 20, ended=True)
    shown = house.ok("sessions", "list", env={"COLUMNS": "80"}).out
    assert max(map(len, shown.splitlines())) <= 80 and "completed" in shown and "mend the build" in shown


def test_the_list_can_be_narrowed(house: House) -> None:
    house.ok("start")
    for session, cwd, ended in (("s1", KITE, True), ("s2", BOAT, False), ("s3", BOAT, True)):
        lived(house, session, cwd=cwd, ended=ended)
    for flags, found in (
        (("--project", "boat"), {"s2", "s3"}),
        (("--project", f"{BOAT}/src/.."), {"s2", "s3"}),
        (("--status", "completed"), {"s1", "s3"}),
        (("--project", "boat", "--status", "active"), {"s2"}),
        (("--limit", "1"), {"s3"}),
        (("--project", "nowhere"), set()),
    ):
        assert {one["session"] for one in house.ok("sessions", "list", "--json", *flags).json()} == found
    assert house.ok("sessions", "list", "--project", "nowhere").out == "no such session\n"


def test_one_session_is_shown_in_the_order_of_time(house: House) -> None:
    house.add(lesson(r"\bgit stash\b", delivery="note"))
    house.ok("start")
    lived(house, "aaaa-1")
    house.ask("aaaa-1", bash("git stash", cwd=KITE))
    house.ask("aaaa-1", used("Bash", {"command": "git stash"}, {"stdout": "saved"}, cwd=KITE))
    whole = house.ok("sessions", "show", "aaaa-1", "--json").json()
    assert whole["counts"] == {"prompts": 1, "events": 3, "deliveries": 1, "observations": 0}
    steps = [(one["what"], one.get("kind", "")) for one in whole["timeline"]]
    assert steps == [
        ("event", "SessionStart"),
        ("prompt", ""),
        ("event", "tool"),
        ("delivery", "PreToolUse"),
        ("event", "tool"),
    ]
    assert (whole["project_path"], whole["status"], whole["timeline"][2]["duration"]) == (KITE, "active", 7)
    shown = house.ok("sessions", "show", "aaaa-1").out
    at = [shown.index(word) for word in ("> mend the build", "Bash: make", "note: made-up", "Bash: git stash")]
    assert at == sorted(at)


def test_a_session_is_named_by_its_number_its_id_or_a_beginning_of_it(house: House) -> None:
    house.ok("start")
    for session in ("abc-1", "abd-2", "ab"):
        lived(house, session)
    for name in ("1", "abc-1", "abc"):
        assert house.ok("sessions", "show", name, "--json").json()["session"] == "abc-1"
    assert house.ok("sessions", "show", "ab", "--json").json()["session"] == "ab"
    many = house.cli("sessions", "show", "a")
    assert many.code == 1 and all(name in many.err for name in ("3 sessions", "abc-1", "abd-2"))
    none = house.cli("sessions", "show", "zzz")
    assert none.code == 1 and "there is no session 'zzz'" in none.err and "abd-2 (number 2)" in none.err
    assert house.cli("sessions", "show", "").code == 1


def test_what_waits_in_the_spool_is_listed_too(house: House) -> None:
    house.stay_cold()
    lived(house, "aaaa-1")
    assert house.ok("sessions", "list", "--json").json()[0]["prompts"] == 1


def test_a_session_shown_cannot_move_the_cursor(house: House) -> None:
    house.ok("start")
    lived(house, "aaaa-1", words="mend \x1b[2J the build")
    assert "\x1b" not in house.ok("sessions", "show", "1").out + house.ok("sessions", "list").out


def test_a_deleted_session_leaves_nothing_behind(house: House, own_home: str) -> None:
    house.add(lesson(r"\bgit stash\b", delivery="note"))
    house.ok("config", "set", "autoScanIntervalHours", "-1")
    told = TranscriptWriter(own_home, session="aaaa-1").person("it is called nightjar")
    told.call("Bash", {"command": "deploy nightjar"})
    told.write()
    house.ok("import", "transcripts")
    lived(house, "aaaa-1", words="it is called nightjar")
    lived(house, "bbbb-2")
    for session in ("aaaa-1", "bbbb-2"):
        house.ask(session, bash("git stash", cwd=KITE))
    said = house.ok("sessions", "delete", "aaaa-1", "--yes").out
    assert "session aaaa-1: 1 prompt and 2 events, 1 delivery" in said and "what hardwon scan found" in said
    house.ok("stop")
    assert [one["session"] for one in house.ok("sessions", "list", "--json").json()] == ["bbbb-2"]
    assert {delivery["session"] for delivery in house.deliveries()} == {"bbbb-2"}
    for name in os.listdir(house.home):
        if name.startswith("hardwon.db"):
            with open(os.path.join(house.home, name), "rb") as file:
                assert b"nightjar" not in file.read(), name
    assert house.ok("import", "transcripts", "--json").json()["sessions"] == 0


def test_deleting_is_asked_for_and_is_a_persons_to_do(house: House) -> None:
    house.ok("start")
    lived(house, "aaaa-1")
    nobody = house.cli("sessions", "delete", "aaaa-1")
    assert nobody.code == 1 and "hardwon sessions delete aaaa-1 --yes" in nobody.err
    agent = house.cli("sessions", "delete", "aaaa-1", "--yes", env={"CLAUDECODE": "1"})
    assert agent.code == 1 and "is for a person" in agent.err
    assert "Only the user" in house.ask("s9", bash("hardwon sessions delete aaaa-1 --yes")).denied
    assert house.ask("s9", bash("hardwon sessions list")).denied == ""
    assert len(house.ok("sessions", "list", "--json").json()) == 1


def test_history_is_imported_once(house: House, own_home: str) -> None:
    old = TranscriptWriter(own_home).person("run the tests").mistake().agent("Done.")
    os.utime(old.write(), (time.time() - 100_000,) * 2)
    TranscriptWriter(own_home, project=BOAT).person("write the docs").works("ls").write()
    first = house.ok("import", "transcripts", "--json").json()
    assert {what: first[what] for what in ("files", "sessions", "prompts", "events")} == {
        "files": 2,
        "sessions": 2,
        "prompts": 2,
        "events": 4,
    }
    again = house.ok("import", "transcripts", "--json").json()
    assert (again["sessions"], again["prompts"], again["events"]) == (0, 0, 0)
    listed = {one["session"]: one for one in house.ok("sessions", "list", "--json").json()}
    assert listed[old.session]["status"] == "completed"
    assert [(item["project"], item["status"]) for item in listed.values() if item["session"] != old.session] == [
        ("boat", "active")
    ]
    timeline = house.ok("sessions", "show", old.session, "--json").json()["timeline"]
    calls = [(one["outcome"], one["origin"]) for one in timeline if one.get("kind") == "tool"]
    assert calls == [("failed", "transcript"), ("fine", "transcript")]
    assert listed[old.session]["started_at"] == old.lines[0]["timestamp"].replace(".000Z", "Z")


def test_a_session_that_grew_old_since_its_import_is_completed_and_active_when_resumed(
    house: House, own_home: str
) -> None:
    told = TranscriptWriter(own_home).person("run the tests")
    path = told.write()
    house.ok("import", "transcripts")
    os.utime(path, (time.time() - 100_000,) * 2)
    house.ok("import", "transcripts")
    assert house.ok("sessions", "list", "--json").json()[0]["status"] == "completed"
    house.ok("start")
    lived(house, told.session)
    assert house.ok("sessions", "list", "--json").json()[0]["status"] == "active"


def test_an_import_can_be_narrowed_to_a_place_a_host_or_a_time(house: House, own_home: str) -> None:
    here, there = TranscriptWriter(own_home).person("here"), TranscriptWriter(own_home, project=BOAT).person("there")
    os.utime(here.write(), (time.time() - 10 * 86_400,) * 2)
    there.write()
    assert house.ok("import", "transcripts", "--agent", "codex", "--json").json()["files"] == 0
    since = time.strftime("%Y-%m-%d", time.localtime(time.time() - 5 * 86_400))
    assert house.ok("import", "transcripts", "--since", since, "--json").json()["files"] == 1
    assert "1 session, 1 prompt" in house.ok("import", "transcripts", "--path", here.path).out
    assert {one["first_prompt"] for one in house.ok("sessions", "list", "--json").json()} == {"here", "there"}
    wrong = house.cli("import", "transcripts", "--path", "/nowhere/at/all")
    assert wrong.code == 1 and "/nowhere/at/all" in wrong.err


def test_a_copy_of_a_session_and_a_damaged_line_add_nothing(house: House, own_home: str) -> None:
    told = TranscriptWriter(own_home).person("run the tests").works("make")
    told.write()
    copy = TranscriptWriter(own_home, session="copied")
    copy.lines = [json.loads(json.dumps(line).replace(told.session, "copied")) for line in told.lines]
    with open(copy.write(), "ab") as file:
        file.write(b'{"type": "user", "mess\n\xff\xfe\n')
    said = house.ok("import", "transcripts", "--json").json()
    assert (said["prompts"], said["events"], said["faults"]) == (1, 1, [])
