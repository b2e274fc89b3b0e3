"""A person looks at what was recorded: all sessions, one of them, none any more."""

from __future__ import annotations

import json
import os
import time

from tests.support.claude_transcript import TranscriptWriter
from tests.support.house import House, bash, happened, lesson, prompt, used

KITE, BOAT = "/home/dev/kite", "/home/dev/boat"


def report_session(
    house: House, session: str, *, cwd: str = KITE, words: str = "mend the build", with_end: bool = False
) -> None:
    house.ask(session, happened("SessionStart", source="startup", cwd=cwd))
    house.ask(session, prompt(words, cwd=cwd))
    house.ask(session, used("Bash", {"command": "make"}, {"stdout": "built"}, cwd=cwd, duration_ms=7))
    if with_end:
        house.ask(session, happened("SessionEnd", reason="logout", cwd=cwd))


def test_the_latest_session_is_listed_first(house: House) -> None:
    house.ok("start")
    report_session(house, "aaaa-1")
    report_session(house, "bbbb-2", cwd=BOAT, words="write\nthe docs", with_end=True)
    listed = house.ok("sessions", "list", "--json").json()
    assert [(item["session"], item["project"], item["status"]) for item in listed] == [
        ("bbbb-2", "boat", "completed"),
        ("aaaa-1", "kite", "active"),
    ]
    output = house.ok("sessions", "list", env={"COLUMNS": "80"}).out.splitlines()
    assert output[0].split() == ["id", "when", "project", "prompts", "events", "status", "first", "prompt"]
    assert output[1].endswith("write the docs") and len(output) == 3


def test_the_list_fits_into_80_columns(house: House) -> None:
    house.ok("start")
    report_session(
        house, "aaaa-1", cwd="/home/dev/a-project-with-a-very-long-name", words="mend the build " * 20, with_end=True
    )
    output = house.ok("sessions", "list", env={"COLUMNS": "80"}).out
    assert max(map(len, output.splitlines())) <= 80 and "completed" in output and "mend the build" in output


def test_the_list_can_be_narrowed(house: House) -> None:
    house.ok("start")
    for session, cwd, with_end in (("s1", KITE, True), ("s2", BOAT, False), ("s3", BOAT, True)):
        report_session(house, session, cwd=cwd, with_end=with_end)
    for flags, expected in (
        (("--project", "boat"), {"s2", "s3"}),
        (("--project", f"{BOAT}/src/.."), {"s2", "s3"}),
        (("--status", "completed"), {"s1", "s3"}),
        (("--project", "boat", "--status", "active"), {"s2"}),
        (("--limit", "1"), {"s3"}),
        (("--project", "nowhere"), set()),
    ):
        assert {row["session"] for row in house.ok("sessions", "list", "--json", *flags).json()} == expected
    assert house.ok("sessions", "list", "--project", "nowhere").out == "no such session\n"


def test_one_session_is_shown_in_the_order_of_time(house: House) -> None:
    house.add(lesson(r"\bgit stash\b", delivery="note"))
    house.ok("start")
    report_session(house, "aaaa-1")
    house.ask("aaaa-1", bash("git stash", cwd=KITE))
    house.ask("aaaa-1", used("Bash", {"command": "git stash"}, {"stdout": "saved"}, cwd=KITE))
    session_record = house.ok("sessions", "show", "aaaa-1", "--json").json()
    assert session_record["counts"] == {"prompts": 1, "events": 3, "deliveries": 1, "observations": 0}
    steps = [(step["what"], step.get("kind", "")) for step in session_record["timeline"]]
    assert steps == [
        ("event", "SessionStart"),
        ("prompt", ""),
        ("event", "tool"),
        ("delivery", "PreToolUse"),
        ("event", "tool"),
    ]
    assert (session_record["project_path"], session_record["status"], session_record["timeline"][2]["duration"]) == (
        KITE,
        "active",
        7,
    )
    house.ask("aaaa-1", used("Read", {"file_path": f"{KITE}/src/mast.py"}, {"file": {}}, cwd=KITE))
    output = house.ok("sessions", "show", "aaaa-1").out
    shown = ("> mend the build", "Bash: make", "note: made-up", "Bash: git stash", "Read: src/mast.py")
    at = [output.index(word) for word in shown]
    assert at == sorted(at)


def test_a_session_is_named_by_its_number_its_id_or_a_beginning_of_it(house: House) -> None:
    house.ok("start")
    for session in ("abc-1", "abd-2", "ab"):
        report_session(house, session)
    for name in ("1", "abc-1", "abc"):
        assert house.ok("sessions", "show", name, "--json").json()["session"] == "abc-1"
    assert house.ok("sessions", "show", "ab", "--json").json()["session"] == "ab"
    result = house.cli("sessions", "show", "a")
    assert result.code == 1 and all(name in result.err for name in ("3 sessions", "abc-1", "abd-2"))
    none = house.cli("sessions", "show", "zzz")
    assert none.code == 1 and "there is no session 'zzz'" in none.err and "abd-2 (number 2)" in none.err
    assert house.cli("sessions", "show", "").code == 1


def test_what_waits_in_the_spool_is_listed_too(house: House) -> None:
    house.stay_cold()
    report_session(house, "aaaa-1")
    assert house.ok("sessions", "list", "--json").json()[0]["prompts"] == 1


def test_a_session_shown_cannot_move_the_cursor(house: House) -> None:
    house.ok("start")
    report_session(house, "aaaa-1", words="mend \x1b[2J the build")
    assert "\x1b" not in house.ok("sessions", "show", "1").out + house.ok("sessions", "list").out


def test_a_deleted_session_leaves_nothing_behind(house: House, own_home: str) -> None:
    house.add(lesson(r"\bgit stash\b", delivery="note"))
    house.ok("config", "set", "autoScanIntervalHours", "-1")
    transcript = TranscriptWriter(own_home, session="aaaa-1").person("it is called nightjar")
    transcript.call("Bash", {"command": "deploy nightjar"})
    transcript.write()
    house.ok("import", "transcripts")
    report_session(house, "aaaa-1", words="it is called nightjar")
    report_session(house, "bbbb-2")
    for session in ("aaaa-1", "bbbb-2"):
        house.ask(session, bash("git stash", cwd=KITE))
    output = house.ok("sessions", "delete", "aaaa-1", "--yes").out
    assert "session aaaa-1: 1 prompt and 2 events, 1 delivery" in output and "what hardwon scan found" in output
    house.ok("stop")
    assert [row["session"] for row in house.ok("sessions", "list", "--json").json()] == ["bbbb-2"]
    assert {delivery["session"] for delivery in house.deliveries()} == {"bbbb-2"}
    for name in os.listdir(house.home):
        if name.startswith("hardwon.db"):
            with open(os.path.join(house.home, name), "rb") as file:
                assert b"nightjar" not in file.read(), name
    assert house.ok("import", "transcripts", "--json").json()["sessions"] == 0


def test_deleting_is_asked_for_and_is_a_persons_to_do(house: House) -> None:
    house.ok("start")
    report_session(house, "aaaa-1")
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
    assert {count_name: first[count_name] for count_name in ("files", "sessions", "prompts", "events")} == {
        "files": 2,
        "sessions": 2,
        "prompts": 2,
        "events": 4,
    }
    second = house.ok("import", "transcripts", "--json").json()
    assert (second["sessions"], second["prompts"], second["events"]) == (0, 0, 0)
    listed = {row["session"]: row for row in house.ok("sessions", "list", "--json").json()}
    assert listed[old.session]["status"] == "completed"
    assert [(item["project"], item["status"]) for item in listed.values() if item["session"] != old.session] == [
        ("boat", "active")
    ]
    timeline = house.ok("sessions", "show", old.session, "--json").json()["timeline"]
    calls = [(row["outcome"], row["origin"]) for row in timeline if row.get("kind") == "tool"]
    assert calls == [("failed", "transcript"), ("fine", "transcript")]
    assert listed[old.session]["started_at"] == old.lines[0]["timestamp"].replace(".000Z", "Z")


def test_a_session_that_grew_old_since_its_import_is_completed_and_active_when_resumed(
    house: House, own_home: str
) -> None:
    transcript = TranscriptWriter(own_home).person("run the tests")
    path = transcript.write()
    house.ok("import", "transcripts")
    os.utime(path, (time.time() - 100_000,) * 2)
    house.ok("import", "transcripts")
    assert house.ok("sessions", "list", "--json").json()[0]["status"] == "completed"
    house.ok("start")
    report_session(house, transcript.session)
    assert house.ok("sessions", "list", "--json").json()[0]["status"] == "active"


def test_an_import_can_be_narrowed_to_a_place_a_host_or_a_time(house: House, own_home: str) -> None:
    first_transcript, second_transcript = (
        TranscriptWriter(own_home).person("here"),
        TranscriptWriter(own_home, project=BOAT).person("there"),
    )
    os.utime(first_transcript.write(), (time.time() - 10 * 86_400,) * 2)
    second_transcript.write()
    assert house.ok("import", "transcripts", "--agent", "codex", "--json").json()["files"] == 0
    since = time.strftime("%Y-%m-%d", time.localtime(time.time() - 5 * 86_400))
    assert house.ok("import", "transcripts", "--since", since, "--json").json()["files"] == 1
    assert "1 session, 1 prompt" in house.ok("import", "transcripts", "--path", first_transcript.path).out
    assert {row["first_prompt"] for row in house.ok("sessions", "list", "--json").json()} == {"here", "there"}
    wrong = house.cli("import", "transcripts", "--path", "/nowhere/at/all")
    assert wrong.code == 1 and "/nowhere/at/all" in wrong.err


def test_a_copy_of_a_session_and_a_damaged_line_add_nothing(house: House, own_home: str) -> None:
    transcript = TranscriptWriter(own_home).person("run the tests").works("make")
    transcript.write()
    copy = TranscriptWriter(own_home, session="copied")
    copy.lines = [json.loads(json.dumps(line).replace(transcript.session, "copied")) for line in transcript.lines]
    with open(copy.write(), "ab") as file:
        file.write(b'{"type": "user", "mess\n\xff\xfe\n')
    report = house.ok("import", "transcripts", "--json").json()
    assert (report["prompts"], report["events"], report["faults"]) == (1, 1, [])


def test_an_imported_search_is_shown_by_its_pattern(house: House, own_home: str) -> None:
    transcript = TranscriptWriter(own_home).person("where is the mast made?")
    transcript.result(transcript.call("Grep", {"pattern": "build_mast", "path": f"{KITE}/src"}), "src/mast.py").write()
    house.ok("import", "transcripts")
    assert "Grep: build_mast\n" in house.ok("sessions", "show", transcript.session).out
