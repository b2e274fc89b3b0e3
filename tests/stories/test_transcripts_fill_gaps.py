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


def labour(house: House) -> int:
    """What the worker would start at the end of a turn."""
    command = [sys.executable, "-I", "-m", "hardwon.worker.job_process", "distil"]
    code = jobs.EXIT_UNFINISHED
    while code == jobs.EXIT_UNFINISHED:  # the worker goes on as well when a process has run out of time
        code = subprocess.run(command, env=house.environment()).returncode
    return code


class Day:
    """Owns one session: what its transcript has, and which hooks were heard."""

    def __init__(self, house: House, own_home: str) -> None:
        self.house, self.told, self._timed = house, TranscriptWriter(own_home), 0

    def write(self, *, upto: int | None = None) -> str:
        self.time()
        return self.told.write(upto=upto)

    def time(self) -> None:
        """What was told since has happened just now."""
        for line in self.told.lines[self._timed :]:
            line["timestamp"] = datetime.now(UTC).isoformat()
        self._timed = len(self.told.lines)

    def hear(self, payload: Payload) -> None:
        self.time()
        self.house.ask(self.told.session, {**payload, "cwd": self.told.project, "transcript_path": self.told.path})

    def prompt(self, text: str, *, heard: bool = True, **more: Any) -> None:
        self.told.person(text)
        if heard:
            self.hear(prompt(text, **more))

    def call(self, command: str, output: str = "done", *, heard: bool = True, wrong: bool = False) -> str:
        given = {"command": command}
        id = self.told.call("Bash", given)
        self.told.result(id, output, failed=wrong)
        if heard:
            after = failed("Bash", given, output) if wrong else used("Bash", given, {"stdout": output})
            self.hear({**after, "tool_use_id": id})
        return id

    def stop(self, words: str = "All done.", **more: Any) -> None:
        """The turn ends, and its transcript is read."""
        self.end_turn(words, **more)
        wait_filled(self.house)

    def end_turn(self, words: str = "All done.", **more: Any) -> None:
        self.told.agent(words)
        self.write()
        self.hear(happened("Stop", **more))

    def events(self) -> list[tuple[str, str, str]]:
        found = [one for one in self.house.stored("events") if one["kind"] == "tool"]
        return [(json.loads(one["input"])["command"], one["outcome"], one["origin"]) for one in found]

    def prompts(self) -> list[str]:
        return [one["prompt"] for one in sorted(self.house.stored("prompts"), key=lambda one: one["number"])]


@pytest.fixture
def day(house: House, own_home: str) -> Day:
    house.ok("start")
    return Day(house, own_home)


def wait_filled(house: House) -> None:
    """Until every session that waits for its transcript has been given it."""
    deadline = time.monotonic() + 300
    while any(one["to_fill"] for one in rows(house, "sessions")):
        assert time.monotonic() < deadline, "no session was filled"
        time.sleep(0.05)


def rows(house: House, table: str) -> list[dict[str, Any]]:
    connection = sqlite3.connect(os.path.join(house.home, "hardwon.db"))
    connection.row_factory = sqlite3.Row
    try:
        return [dict(row) for row in connection.execute(f"select * from {table}")]
    finally:
        connection.close()


def filled(house: House, path: str) -> int:
    """Read one transcript as the worker would; gives how much was new."""
    connection = db.connect(house.home)
    try:
        values = settings.resolve_settings(settings.read_config(house.home))
        return transcript_import.import_transcript(house.home, connection, "claude-code", path, values)
    finally:
        connection.close()


def everywhere(house: House) -> bytes:
    """All that is in any file of the home."""
    found = [os.path.join(folder, name) for folder, _, names in os.walk(house.home) for name in names]
    return b"\n".join(open(path, "rb").read() for path in found if os.path.isfile(path))


def test_where_hooks_told_everything_the_transcript_adds_nothing(day: Day) -> None:
    day.prompt("run the tests", prompt_id="p1")
    day.call("make test", "Exit code 2\nno rule", wrong=True)
    day.call("make check")
    day.stop(last_assistant_message="All done.")
    assert day.events() == [("make test", "failed", "hook"), ("make check", "fine", "hook")]
    assert (day.prompts(), [one["kind"] for one in rows(day.house, "events")]) == (
        ["run the tests"],
        ["tool", "tool", "Stop"],
    )


def test_a_call_whose_end_was_not_heard_comes_from_the_transcript_once(day: Day) -> None:
    day.prompt("run the tests")
    day.call("make test", "Exit code 2\nno rule to make target", wrong=True, heard=False)
    day.call("make check")
    day.stop()
    day.prompt("again")
    day.stop()
    assert sorted(day.events()) == [("make check", "fine", "hook"), ("make test", "failed", "transcript")]
    [missed] = [one for one in day.house.stored("events") if one["origin"] == "transcript"]
    assert (missed["response"], missed["prompt"]) == ("Exit code 2\nno rule to make target", 1)
    assert "no rule to make target" in missed["signature"]


def test_a_hook_heard_late_merges_with_what_the_transcript_told(day: Day) -> None:
    day.prompt("run the tests", heard=False)
    id = day.call("make test", "ok", heard=False)
    day.stop()
    late = used("Bash", {"command": "make test", "description": "try"}, {"stdout": "ok"}, duration_ms=12)
    day.hear({**late, "tool_use_id": id})
    day.hear(prompt("run the tests", prompt_id="p1"))
    assert (day.events(), day.prompts()) == ([("make test", "fine", "hook")], ["run the tests"])
    [call] = [one for one in day.house.stored("events") if one["kind"] == "tool"]
    assert (call["duration"], json.loads(call["input"])["description"]) == (12, "try")


def test_a_prompt_that_was_not_heard_is_numbered_where_it_belongs(day: Day) -> None:
    day.prompt("first", heard=False)
    day.call("ls", heard=False)
    day.told.person("second")
    day.write()
    day.hear(prompt("second"))
    day.stop()
    assert day.prompts() == ["first", "second"]
    [session] = rows(day.house, "sessions")
    assert (session["first_prompt"], session["prompts"]) == ("first", 2)


def test_the_same_words_twice_are_two_prompts_whoever_told_them(house: House, own_home: str) -> None:
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
        wait_filled(house)
    session_ids = {session["id"]: session["session"] for session in rows(house, "sessions")}
    prompts = [(session_ids[prompt["session"]], prompt["prompt"]) for prompt in rows(house, "prompts")]
    for case, day in days.items():
        assert [text for session, text in prompts if session == day.told.session] == ["go on", "go on"], case


def test_nothing_of_a_private_turn_comes_in_by_the_transcript(day: Day) -> None:
    day.prompt("<private>the merger is called nightjar</private>")
    day.call("deploy nightjar", heard=False)
    day.stop("nightjar is deployed")
    day.prompt("now the log")
    day.call("git log", heard=False)
    day.stop("Here is the log.")
    assert (day.prompts(), day.events()) == (["now the log"], [("git log", "fine", "transcript")])
    assert b"nightjar" not in everywhere(day.house)
    ends = [one["response"] for one in day.house.stored("events") if one["kind"] == "Stop"]
    assert ends == ["", "Here is the log."]


def below(day: Day, name: str, command: str) -> str:
    """A sub-agent's own file beside its session's."""
    other = TranscriptWriter("/", session=day.told.session, project=day.told.project)
    other.works(command)
    for line in other.lines:
        line.update(isSidechain=True, agentId=name, timestamp=datetime.now(UTC).isoformat())
    other.path = os.path.join(day.told.path.removesuffix(".jsonl"), "subagents", f"agent-{name}.jsonl")
    return other.write()


def test_what_a_sub_agent_did_comes_from_its_own_file(day: Day) -> None:
    day.prompt("look around")
    day.write()
    below(day, "a1", "ls docs")
    day.stop()
    [call] = [one for one in day.house.stored("events") if one["kind"] == "tool"]
    assert (json.loads(call["input"])["command"], call["agent"], call["outcome"]) == ("ls docs", "a1", "fine")
    assert rows(day.house, "sessions")[0]["transcript"] == day.told.path


def test_no_sub_agent_of_a_session_with_a_private_turn_comes_in(day: Day) -> None:
    day.prompt("<private>the merger is called nightjar</private>")
    below(day, "a1", "deploy nightjar")
    day.stop()
    assert (day.events(), b"nightjar" in everywhere(day.house)) == ([], False)


def test_a_sub_agents_file_whose_session_is_gone_is_left_alone(day: Day) -> None:
    day.prompt("look around")
    path = below(day, "a1", "deploy nightjar")
    assert (filled(day.house, path), b"nightjar" in everywhere(day.house)) == (0, False)
    beside = os.path.join(os.path.dirname(day.told.path), "agent-a1.jsonl")
    os.rename(path, beside)
    assert (filled(day.house, beside), b"nightjar" in everywhere(day.house)) == (0, False)
    day.write()
    assert filled(day.house, below(day, "a2", "ls docs")) == 1


def test_what_the_settings_leave_out_stays_out(day: Day) -> None:
    config = {"skipTools": ["Bash"], "denyPaths": ["*.pem", "/home/dev/vault"]}
    with open(os.path.join(day.house.home, "config.json"), "w") as file:
        json.dump(config, file)
    day.prompt("look around")
    day.call("nightjar --list", heard=False)
    for path in ("/home/dev/kite/nightjar.pem", "/home/dev/vault/nightjar", "/home/dev/kite/plain"):
        day.told.result(day.told.call("Write", {"file_path": path, "content": "new"}), "done")
    day.told.call("Write", {"file_path": "/home/dev/vault/other", "content": "nightjar, under way"})
    day.stop()
    [call] = [one for one in day.house.stored("events") if one["kind"] == "tool"]
    assert json.loads(call["input"])["file_path"] == "/home/dev/kite/plain"
    assert b"nightjar" not in everywhere(day.house)


def test_in_a_denied_project_nothing_is_imported(house: House, own_home: str) -> None:
    house.ok("config", "set", "denyProjects", '["/home/dev/secret"]')
    told = TranscriptWriter(own_home, project="/home/dev/secret").person("it is called nightjar")
    told.works("deploy nightjar").agent("nightjar is deployed").write()
    assert house.ok("import", "transcripts", "--json").json()["sessions"] == 0
    assert b"nightjar" not in everywhere(house)


def test_no_secret_is_kept_of_what_is_done_or_under_way(day: Day) -> None:
    day.prompt(f"log in with {KEY}", heard=False)
    day.call(f"login {KEY}", f"welcome {KEY}", heard=False)
    day.told.call("Bash", {"command": KEY})
    day.told.call("Write", {"file_path": f"/home/dev/{KEY}", "content": KEY})
    day.stop(KEY)
    assert [command for command, _, _ in day.events()] == ["login [redacted:github]"]
    [mark] = [one for one in rows(day.house, "transcripts") if one["purpose"] == "capture"]
    assert "redacted" in mark["watch"] and KEY.encode() not in everywhere(day.house)


def test_a_transcript_that_is_cut_rewritten_or_gone_repeats_nothing(day: Day) -> None:
    day.prompt("run the tests", heard=False)
    day.call("make test", heard=False)
    day.stop()
    before = (day.events(), day.prompts())
    day.write(upto=2)
    assert filled(day.house, day.told.path) == 0
    day.told.lines = [{**line, "version": "2.1.400"} for line in day.told.lines]
    day.write()
    assert (filled(day.house, day.told.path), day.events(), day.prompts()) == (0, *before)
    os.unlink(day.told.path)
    day.hear(happened("SessionEnd", reason="logout"))
    wait_filled(day.house)
    assert (day.events(), day.prompts()) == before


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
        filled(day.house, path)
    assert (day.events(), day.prompts()) == ([("make test", "fine", "transcript")], ["run the tests"])


def test_the_last_words_of_each_turn_come_from_the_transcript_if_the_hook_had_none(day: Day) -> None:
    day.prompt("one")
    day.told.agent("I will look.")
    day.call("ls")
    day.stop("It is one.")
    day.prompt("two")
    day.stop("It is two.")
    ends = [one["response"] for one in day.house.stored("events") if one["kind"] == "Stop"]
    assert ends == ["It is one.", "It is two."]


def test_a_call_that_we_denied_or_a_person_refused_is_no_failure(day: Day) -> None:
    day.house.add(lesson(r"\brm -r\b", delivery="block"))
    day.prompt("clean up")
    told = day.told
    refused = "The user doesn't want to proceed with this tool use. The tool use was rejected"
    id = told.call("Bash", {"command": "rm -r build"})
    denied = day.house.ask(told.session, bash("rm -r build", cwd=told.project, tool_use_id=id)).denied
    assert denied
    told.result(id, denied, failed=True)
    told.result(told.call("Bash", {"command": "make clean"}), refused, failed=True)
    told.result(told.call("Bash", {"command": "true"}), "")
    day.stop()
    assert sorted(day.events()) == [
        ("make clean", "refused", "transcript"),
        ("rm -r build", "denied", "hook"),
        ("true", "fine", "transcript"),
    ]
    assert {one["signature"] for one in rows(day.house, "events")} == {""}


def test_a_session_left_over_by_a_worker_that_was_killed_is_filled_by_the_next(day: Day) -> None:
    day.prompt("run the tests")
    day.call("make test", heard=False)
    day.write()
    day.hear(happened("Stop"))
    day.house.kill()
    day.house.ok("start")
    wait_filled(day.house)
    assert day.events() == [("make test", "fine", "transcript")]


def test_stopping_cuts_a_filling_off_and_the_next_worker_ends_it(day: Day) -> None:
    day.prompt("run the tests")
    for number in range(3000):
        day.told.works(f"make part-{number}")
    day.write()
    day.hear(happened("Stop"))
    wait_begun(day.house)
    day.house.ok("stop")
    assert [one for one in processes(day.house) if "hardwon.worker.job_process" in one] == []
    day.house.ok("start")
    wait_filled(day.house)
    assert len(day.events()) == 3000


def wait_begun(house: House) -> None:
    deadline = time.monotonic() + 300
    while not any("hardwon.worker.job_process" in one for one in processes(house)):
        assert time.monotonic() < deadline, "no session is being filled"
        time.sleep(0.01)


def processes(house: House) -> list[str]:
    """The command lines that run for this home, by what the system says."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                here = f"HARDWON_HOME={house.home}".encode() in file.read().split(b"\0")
            with open(f"/proc/{name}/cmdline", "rb") as file:
                found += [file.read().replace(b"\0", b" ").decode()] if here else []
        except OSError:
            continue
    return found


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
    assert (labour(day.house), day.events(), os.path.exists(path)) == (0, [], True)
    day.house.ok("unpause")
    assert (labour(day.house), len(day.events())) == (0, 1)


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
    assert (labour(day.house), day.events()) == (0, [])
    day.house.ok("import", "transcripts")
    assert day.events() == [] and b"secret-things" not in everywhere(day.house)
