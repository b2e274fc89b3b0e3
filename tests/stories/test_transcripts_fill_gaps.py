"""What a hook did not tell, the transcript does: once, and nothing that a hook would not have been let in with."""

from __future__ import annotations

import itertools
import json
import os
import sqlite3
import subprocess
import sys
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from hardwon import settings
from hardwon.sessions import transcript_import
from hardwon.store import db, jobs, sessions
from tests.support.claude_transcript import TranscriptWriter
from tests.support.house import House, bash, failed, happened, lesson, prompt, used

KEY = "ghp_" + "A1b2C3d4E5f6G7h8J9k0L1m2N3p4Q5r6S7t8"
Payload = dict[str, Any]


def run_distil_job(house: House) -> int:
    """Run the job that the worker starts at the end of a turn; return its exit code."""
    command = [sys.executable, "-I", "-m", "hardwon.worker.job_process", "distil"]
    code = jobs.EXIT_UNFINISHED
    while code == jobs.EXIT_UNFINISHED:  # the worker goes on as well when a process has run out of time
        code = subprocess.run(command, env=house.environment()).returncode
    return code


class Day:
    """Owns one session: its transcript, and which of its hooks were reported."""

    def __init__(self, house: House, own_home: str) -> None:
        self.house, self.transcript, self._timed = house, TranscriptWriter(own_home), 0

    def write(self, *, upto: int | None = None) -> str:
        self.date_lines()
        return self.transcript.write(upto=upto)

    def date_lines(self) -> None:
        """Date the new lines of the transcript now."""
        for line in self.transcript.lines[self._timed :]:
            line["timestamp"] = datetime.now(UTC).isoformat()
        self._timed = len(self.transcript.lines)

    def report_hook(self, payload: Payload) -> None:
        self.date_lines()
        self.house.ask(
            self.transcript.session,
            {**payload, "cwd": self.transcript.project, "transcript_path": self.transcript.path},
        )

    def prompt(self, text: str, *, heard: bool = True, **more: Any) -> None:
        self.transcript.person(text)
        if heard:
            self.report_hook(prompt(text, **more))

    def call(self, command: str, output: str = "done", *, heard: bool = True, wrong: bool = False) -> str:
        tool_input = {"command": command}
        call_id = self.transcript.call("Bash", tool_input)
        self.transcript.result(call_id, output, failed=wrong)
        if heard:
            payload = failed("Bash", tool_input, output) if wrong else used("Bash", tool_input, {"stdout": output})
            self.report_hook({**payload, "tool_use_id": call_id})
        return call_id

    def stop(self, words: str = "All done.", **more: Any) -> None:
        """End the turn, and wait until its transcript was imported."""
        self.end_turn(words, **more)
        wait_until_imported(self.house)

    def end_turn(self, words: str = "All done.", **more: Any) -> None:
        self.transcript.agent(words)
        self.write()
        self.report_hook(happened("Stop", **more))

    def list_events(self) -> list[tuple[str, str, str]]:
        tool_rows = [row for row in self.house.stored("events") if row["kind"] == "tool"]
        return [(json.loads(row["input"])["command"], row["outcome"], row["origin"]) for row in tool_rows]

    def list_prompts(self) -> list[str]:
        return [row["prompt"] for row in sorted(self.house.stored("prompts"), key=lambda row: row["number"])]


@pytest.fixture
def day(house: House, own_home: str) -> Day:
    house.ok("start")
    return Day(house, own_home)


def wait_until_imported(house: House) -> None:
    """Wait until the transcript of every waiting session was imported."""
    deadline = time.monotonic() + 300
    while any(row["to_fill"] for row in read_rows(house, "sessions")):
        assert time.monotonic() < deadline, "no session was filled"
        time.sleep(0.05)


def read_rows(house: House, table: str) -> list[dict[str, Any]]:
    connection = sqlite3.connect(os.path.join(house.home, "hardwon.db"))
    connection.row_factory = sqlite3.Row
    try:
        return [dict(row) for row in connection.execute(f"select * from {table}")]
    finally:
        connection.close()


def import_transcript_once(house: House, path: str) -> int:
    """Import a transcript as the worker would; return how much was new."""
    connection = db.connect(house.home)
    try:
        values = settings.resolve_settings(settings.read_config(house.home))
        return transcript_import.import_transcript(house.home, connection, "claude-code", path, values)
    finally:
        connection.close()


def read_all_files(house: House) -> bytes:
    """Return the content of every file of the home."""
    paths = [os.path.join(folder, name) for folder, _, names in os.walk(house.home) for name in names]
    return b"\n".join(open(path, "rb").read() for path in paths if os.path.isfile(path))


def test_where_hooks_told_everything_the_transcript_adds_nothing(day: Day) -> None:
    day.prompt("run the tests", prompt_id="p1")
    day.call("make test", "Exit code 2\nno rule", wrong=True)
    day.call("make check")
    day.stop(last_assistant_message="All done.")
    assert day.list_events() == [("make test", "failed", "hook"), ("make check", "fine", "hook")]
    assert (day.list_prompts(), [row["kind"] for row in read_rows(day.house, "events")]) == (
        ["run the tests"],
        ["tool", "tool", "Stop"],
    )


def test_a_call_whose_end_no_hook_reported_is_imported_once_from_the_transcript(day: Day) -> None:
    day.prompt("run the tests")
    day.call("make test", "Exit code 2\nno rule to make target", wrong=True, heard=False)
    day.call("make check")
    day.stop()
    day.prompt("again")
    day.stop()
    assert sorted(day.list_events()) == [("make check", "fine", "hook"), ("make test", "failed", "transcript")]
    [missed] = [row for row in day.house.stored("events") if row["origin"] == "transcript"]
    assert (missed["response"], missed["prompt"]) == ("Exit code 2\nno rule to make target", 1)
    assert "no rule to make target" in missed["signature"]


def test_a_late_hook_merges_with_what_the_transcript_reported(day: Day) -> None:
    day.prompt("run the tests", heard=False)
    call_id = day.call("make test", "ok", heard=False)
    day.stop()
    late = used("Bash", {"command": "make test", "description": "try"}, {"stdout": "ok"}, duration_ms=12)
    day.report_hook({**late, "tool_use_id": call_id})
    day.report_hook(prompt("run the tests", prompt_id="p1"))
    assert (day.list_events(), day.list_prompts()) == ([("make test", "fine", "hook")], ["run the tests"])
    [call] = [row for row in day.house.stored("events") if row["kind"] == "tool"]
    assert (call["duration"], json.loads(call["input"])["description"]) == (12, "try")


def test_a_prompt_that_no_hook_reported_gets_the_number_of_its_place(day: Day) -> None:
    day.prompt("first", heard=False)
    day.call("ls", heard=False)
    day.transcript.person("second")
    day.write()
    day.report_hook(prompt("second"))
    day.stop()
    assert day.list_prompts() == ["first", "second"]
    [session] = read_rows(day.house, "sessions")
    assert (session["first_prompt"], session["prompts"]) == ("first", 2)


def test_the_same_words_twice_are_two_prompts_by_hook_or_transcript(house: House, own_home: str) -> None:
    """In one house, because a process reads the transcripts of all sessions that ended together."""
    house.ok("start")
    days: dict[str, Day] = {}
    for heard in itertools.product((True, False), repeat=2):
        for names in (("", ""), ("p1", "p2")):
            day = days[f"heard {heard}, prompt ids {names}"] = Day(house, own_home)
            for is_heard, name in zip(heard, names, strict=True):
                day.prompt("go on", heard=is_heard, **({"prompt_id": name} if name else {}))
                day.call("ls")
    for _ in range(2):
        for day in days.values():
            day.end_turn()
        wait_until_imported(house)
    session_ids = {session["id"]: session["session"] for session in read_rows(house, "sessions")}
    prompts = [(session_ids[prompt["session"]], prompt["prompt"]) for prompt in read_rows(house, "prompts")]
    for case, day in days.items():
        assert [text for session, text in prompts if session == day.transcript.session] == ["go on", "go on"], case


def test_nothing_of_a_private_turn_comes_in_by_the_transcript(day: Day) -> None:
    day.prompt("<private>the merger is called nightjar</private>")
    day.call("deploy nightjar", heard=False)
    day.stop("nightjar is deployed")
    day.prompt("now the log")
    day.call("git log", heard=False)
    day.stop("Here is the log.")
    assert (day.list_prompts(), day.list_events()) == (["now the log"], [("git log", "fine", "transcript")])
    assert b"nightjar" not in read_all_files(day.house)
    ends = [row["response"] for row in day.house.stored("events") if row["kind"] == "Stop"]
    assert ends == ["", "Here is the log."]


def write_subagent_transcript(day: Day, name: str, command: str) -> str:
    """Write a sub-agent's transcript beside its session's; return the path."""
    subagent_transcript = TranscriptWriter("/", session=day.transcript.session, project=day.transcript.project)
    subagent_transcript.works(command)
    for line in subagent_transcript.lines:
        line.update(isSidechain=True, agentId=name, timestamp=datetime.now(UTC).isoformat())
    subagent_transcript.path = os.path.join(
        day.transcript.path.removesuffix(".jsonl"), "subagents", f"agent-{name}.jsonl"
    )
    return subagent_transcript.write()


def test_what_a_sub_agent_did_comes_from_its_own_file(day: Day) -> None:
    day.prompt("look around")
    day.write()
    write_subagent_transcript(day, "a1", "ls docs")
    day.stop()
    [call] = [row for row in day.house.stored("events") if row["kind"] == "tool"]
    assert (json.loads(call["input"])["command"], call["agent"], call["outcome"]) == ("ls docs", "a1", "fine")
    assert read_rows(day.house, "sessions")[0]["transcript"] == day.transcript.path


def test_no_sub_agent_of_a_session_with_a_private_turn_comes_in(day: Day) -> None:
    day.prompt("<private>the merger is called nightjar</private>")
    write_subagent_transcript(day, "a1", "deploy nightjar")
    day.stop()
    assert (day.list_events(), b"nightjar" in read_all_files(day.house)) == ([], False)


def test_a_sub_agents_file_whose_session_is_gone_is_left_alone(day: Day) -> None:
    day.prompt("look around")
    path = write_subagent_transcript(day, "a1", "deploy nightjar")
    assert (import_transcript_once(day.house, path), b"nightjar" in read_all_files(day.house)) == (0, False)
    beside = os.path.join(os.path.dirname(day.transcript.path), "agent-a1.jsonl")
    os.rename(path, beside)
    assert (import_transcript_once(day.house, beside), b"nightjar" in read_all_files(day.house)) == (0, False)
    day.write()
    assert import_transcript_once(day.house, write_subagent_transcript(day, "a2", "ls docs")) == 1


def test_what_the_settings_leave_out_stays_out(day: Day) -> None:
    config = {"skipTools": ["Bash"], "denyPaths": ["*.pem", "/home/dev/vault"]}
    with open(os.path.join(day.house.home, "config.json"), "w") as file:
        json.dump(config, file)
    day.prompt("look around")
    day.call("nightjar --list", heard=False)
    for path in ("/home/dev/kite/nightjar.pem", "/home/dev/vault/nightjar", "/home/dev/kite/plain"):
        day.transcript.result(day.transcript.call("Write", {"file_path": path, "content": "new"}), "done")
    day.transcript.call("Write", {"file_path": "/home/dev/vault/other", "content": "nightjar, under way"})
    day.stop()
    [call] = [row for row in day.house.stored("events") if row["kind"] == "tool"]
    assert json.loads(call["input"])["file_path"] == "/home/dev/kite/plain"
    assert b"nightjar" not in read_all_files(day.house)


def test_in_a_denied_project_nothing_is_imported(house: House, own_home: str) -> None:
    house.ok("config", "set", "denyProjects", '["/home/dev/secret"]')
    transcript = TranscriptWriter(own_home, project="/home/dev/secret").person("it is called nightjar")
    transcript.works("deploy nightjar").agent("nightjar is deployed").write()
    assert house.ok("import", "transcripts", "--json").json()["sessions"] == 0
    assert b"nightjar" not in read_all_files(house)


def test_no_secret_is_kept_of_what_is_done_or_under_way(day: Day) -> None:
    day.prompt(f"log in with {KEY}", heard=False)
    day.call(f"login {KEY}", f"welcome {KEY}", heard=False)
    day.transcript.call("Bash", {"command": KEY})
    day.transcript.call("Write", {"file_path": f"/home/dev/{KEY}", "content": KEY})
    day.stop(KEY)
    assert [command for command, _, _ in day.list_events()] == ["login [redacted:github]"]
    [mark] = [row for row in read_rows(day.house, "transcripts") if row["purpose"] == "capture"]
    assert "redacted" in mark["watch"] and KEY.encode() not in read_all_files(day.house)


def test_a_transcript_that_is_cut_rewritten_or_gone_repeats_nothing(day: Day) -> None:
    day.prompt("run the tests", heard=False)
    day.call("make test", heard=False)
    day.stop()
    rows_before = (day.list_events(), day.list_prompts())
    day.write(upto=2)
    assert import_transcript_once(day.house, day.transcript.path) == 0
    day.transcript.lines = [{**line, "version": "2.1.400"} for line in day.transcript.lines]
    day.write()
    assert (import_transcript_once(day.house, day.transcript.path), day.list_events(), day.list_prompts()) == (
        0,
        *rows_before,
    )
    os.unlink(day.transcript.path)
    day.report_hook(happened("SessionEnd", reason="logout"))
    wait_until_imported(day.house)
    assert (day.list_events(), day.list_prompts()) == rows_before


def test_a_line_that_is_half_written_is_taken_once_it_is_whole(day: Day) -> None:
    day.prompt("run the tests", heard=False)
    day.call("make test", heard=False)
    path = day.write()
    with open(path, "rb") as file:
        text = file.read()
    for size in (len(text) // 2, len(text) - 5, len(text)):
        with open(path, "r+b") as file:
            file.write(text[:size])
            file.truncate()
        import_transcript_once(day.house, path)
    assert (day.list_events(), day.list_prompts()) == ([("make test", "fine", "transcript")], ["run the tests"])


def test_the_last_words_of_each_turn_come_from_the_transcript_if_the_hook_had_none(day: Day) -> None:
    day.prompt("one")
    day.transcript.agent("I will look.")
    day.call("ls")
    day.stop("It is one.")
    day.prompt("two")
    day.stop("It is two.")
    ends = [row["response"] for row in day.house.stored("events") if row["kind"] == "Stop"]
    assert ends == ["It is one.", "It is two."]


FINDING = (
    "The tail comes loose because the knot is tied before the spar is bent, so the line is too long by the width of a"
    f" hand once the wind takes it. The key of the test account is {KEY}."
)


def list_messages(day: Day) -> list[str]:
    return [row["response"] for row in day.house.stored("events") if row["kind"] == "AgentMessage"]


def test_what_the_agent_says_between_its_calls_is_stored_once_and_found(day: Day) -> None:
    day.prompt("why does the tail come loose?")
    day.transcript.agent("Let me look at the knots.")
    day.call("cat knots.txt")
    day.transcript.agent(FINDING)
    day.call("cat spars.txt")
    day.stop("Tied it after bending.", last_assistant_message="Tied it after bending.")
    [message] = list_messages(day)
    assert message == FINDING.replace(KEY, "[redacted:github]")
    import_transcript_once(day.house, day.write())
    assert list_messages(day) == [message]
    assert "knot is tied before the spar" in day.house.ok("search", "--all", "line too long by the width of a hand").out
    assert "< The tail comes loose because the knot" in day.house.ok("sessions", "show", "1").out


def test_a_message_is_stored_once_even_if_the_import_stops_between_it_and_its_call(day: Day) -> None:
    day.prompt("why does the tail come loose?", heard=False)
    day.transcript.agent(FINDING)
    import_transcript_once(day.house, day.write())
    assert list_messages(day) == []
    day.call("cat spars.txt", heard=False)
    import_transcript_once(day.house, day.write())
    assert len(list_messages(day)) == 1
    day.call("cat knots.txt", heard=False)
    day.stop("Tied it after bending.")
    assert len(list_messages(day)) == 1
    ends = [row["response"] for row in day.house.stored("events") if row["kind"] == "Stop"]
    assert ends == ["Tied it after bending."]


def test_no_message_of_a_private_turn_is_stored(day: Day) -> None:
    day.prompt("<private>why does the tail come loose?</private>")
    day.transcript.agent(FINDING)
    day.call("cat spars.txt", heard=False)
    day.stop("Tied it.")
    assert list_messages(day) == []


def test_a_call_that_we_denied_or_a_person_refused_is_no_failure(day: Day) -> None:
    day.house.add(lesson(r"\brm -r\b", delivery="block"))
    day.prompt("clean up")
    transcript = day.transcript
    refused = "The user doesn't want to proceed with this tool use. The tool use was rejected"
    call_id = transcript.call("Bash", {"command": "rm -r build"})
    denied = day.house.ask(transcript.session, bash("rm -r build", cwd=transcript.project, tool_use_id=call_id)).denied
    assert denied
    transcript.result(call_id, denied, failed=True)
    transcript.result(transcript.call("Bash", {"command": "make clean"}), refused, failed=True)
    transcript.result(transcript.call("Bash", {"command": "true"}), "")
    day.stop()
    assert sorted(day.list_events()) == [
        ("make clean", "refused", "transcript"),
        ("rm -r build", "denied", "hook"),
        ("true", "fine", "transcript"),
    ]
    assert {row["signature"] for row in read_rows(day.house, "events")} == {""}


def test_a_session_left_over_by_a_worker_that_was_killed_is_filled_by_the_next(day: Day) -> None:
    day.prompt("run the tests")
    day.call("make test", heard=False)
    day.write()
    day.report_hook(happened("Stop"))
    day.house.kill()
    day.house.ok("start")
    wait_until_imported(day.house)
    assert day.list_events() == [("make test", "fine", "transcript")]


def test_stopping_cuts_a_filling_off_and_the_next_worker_ends_it(day: Day) -> None:
    day.prompt("run the tests")
    for number in range(3000):
        day.transcript.works(f"make part-{number}")
    day.write()
    day.report_hook(happened("Stop"))
    wait_for_job_process(day.house)
    day.house.ok("stop")
    assert [
        command_line for command_line in list_processes(day.house) if "hardwon.worker.job_process" in command_line
    ] == []
    day.house.ok("start")
    wait_until_imported(day.house)
    assert len(day.list_events()) == 3000


def wait_for_job_process(house: House) -> None:
    deadline = time.monotonic() + 300
    while not any("hardwon.worker.job_process" in command_line for command_line in list_processes(house)):
        assert time.monotonic() < deadline, "no session is being filled"
        time.sleep(0.01)


def list_processes(house: House) -> list[str]:
    """Return the command lines of the processes that run for this home."""
    command_lines = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                is_ours = f"HARDWON_HOME={house.home}".encode() in file.read().split(b"\0")
            with open(f"/proc/{name}/cmdline", "rb") as file:
                command_lines += [file.read().replace(b"\0", b" ").decode()] if is_ours else []
        except OSError:
            continue
    return command_lines


def test_a_session_that_cannot_be_filled_is_not_tried_for_ever(day: Day) -> None:
    day.prompt("run the tests")
    day.house.ok("stop")
    connection = db.connect(day.house.home)
    [session] = connection.execute("select id from sessions").fetchone()
    connection.execute("update sessions set to_fill = 1")
    for _ in range(sessions.MAX_FILL_TRIES):
        assert len(sessions.list_sessions_to_fill(connection)) == 1
        with db.transaction(connection):
            sessions.begin_fill(connection, session)
    assert sessions.list_sessions_to_fill(connection) == []
    connection.close()


def test_an_end_of_a_turn_during_the_filling_is_not_forgotten(day: Day) -> None:
    day.prompt("run the tests")
    day.house.ok("stop")
    connection = db.connect(day.house.home)
    connection.execute("update sessions set to_fill = 1")
    [session] = sessions.list_sessions_to_fill(connection)
    with db.transaction(connection):
        tries = sessions.begin_fill(connection, session["id"])
        connection.execute("update sessions set to_fill = 1")  # as the hook of that end does
        sessions.finish_fill(connection, session["id"], tries)
    assert len(sessions.list_sessions_to_fill(connection)) == 1
    connection.close()


def test_while_paused_no_transcript_is_read(day: Day) -> None:
    day.prompt("run the tests")
    day.call("make test", heard=False)
    path = day.write()
    day.house.ok("stop")
    connection = db.connect(day.house.home)
    connection.execute("update sessions set to_fill = 1")
    connection.close()
    day.house.ok("pause")
    assert (run_distil_job(day.house), day.list_events(), os.path.exists(path)) == (0, [], True)
    day.house.ok("unpause")
    assert (run_distil_job(day.house), len(day.list_events())) == (0, 1)


def test_a_session_of_which_a_part_was_paused_is_not_filled(day: Day) -> None:
    day.prompt("run the tests")
    day.house.ok("pause")
    day.call("make secret-things", heard=True)
    day.house.ok("unpause")
    day.write()
    day.house.ok("stop")
    connection = db.connect(day.house.home)
    connection.execute("update sessions set to_fill = 1")
    connection.close()
    assert (run_distil_job(day.house), day.list_events()) == (0, [])
    day.house.ok("import", "transcripts")
    assert day.list_events() == [] and b"secret-things" not in read_all_files(day.house)
