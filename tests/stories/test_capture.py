"""A session as the agent lived it is in the store: each thing once, in its place, worker there or not."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest

from tests.support.house import House, call, failed, happened, prompt, used

PAYLOADS = os.path.join(os.path.dirname(os.path.dirname(__file__)), "payloads", "claude-code")
SUB = {"agent_id": "a562ddf7c3caf6748", "agent_type": "general-purpose"}
WHOLE = [
    happened("SessionStart", source="startup"),
    prompt("mend the build", prompt_id="p1"),
    call("Bash", {"command": "make"}, tool_use_id="toolu_1"),
    failed(
        "Bash",
        {"command": "make"},
        "Exit code 2\nmake: *** No rule to make target",
        tool_use_id="toolu_1",
        duration_ms=33,
    ),
    happened("SubagentStart", **SUB),
    used(
        "Read",
        {"file_path": "/home/dev/project/Makefile"},
        {"type": "text", "file": {"content": "all:\n"}},
        tool_use_id="toolu_2",
        **SUB,
    ),
    happened("SubagentStop", last_assistant_message="there is no rule", **SUB),
    used("TodoWrite", {"todos": []}, "ok", tool_use_id="toolu_3"),
    happened("Stop", last_assistant_message="The Makefile has no rule for it."),
    prompt("then write one", prompt_id="p2"),
    happened("PreCompact", trigger="auto"),
    happened("SessionStart", source="compact"),
    used(
        "Edit",
        {"file_path": "Makefile", "old_string": "all:", "new_string": "all: app"},
        {"filePath": "Makefile"},
        tool_use_id="toolu_4",
        duration_ms=5,
    ),
    failed("Bash", {"command": "sleep 100"}, "interrupted", tool_use_id="toolu_5", is_interrupt=True),
    happened("Stop", last_assistant_message="Done."),
    happened("SessionEnd", reason="prompt_input_exit"),
]
LEFT_OUT = ("id", "key", "at", "started_at", "opened_at", "last_at", "ended_at", "project", "to_fill")


def report_session(
    house: House, session: str = "s1", payloads: list[dict[str, Any]] = WHOLE, kill_after: int = -1
) -> None:
    for number, payload in enumerate(payloads):
        house.ask(session, payload)
        if number == kill_after:
            house.kill()


def read_all_rows(house: House) -> dict[str, list[dict[str, Any]]]:
    """Return all rows without the fields that differ between runs."""
    names = ("sessions", "prompts", "events")
    tables = {name: house.stored(name) for name in names}
    tables["prompts"].sort(key=lambda row: row["at"])
    tables["events"].sort(key=lambda row: row["at"])
    return {
        name: [{k: v for k, v in row.items() if k not in LEFT_OUT} for row in rows] for name, rows in tables.items()
    }


def report_warm(house: House) -> None:
    house.ok("start")
    report_session(house)
    assert (
        os.listdir(os.path.join(house.home, "spool")) == []
        if os.path.exists(os.path.join(house.home, "spool"))
        else True
    )


def report_cold(house: House) -> None:
    house.stay_cold()
    report_session(house)
    assert len(os.listdir(os.path.join(house.home, "spool"))) == len(WHOLE) - 2


def report_with_kill(house: House) -> None:
    house.ok("start")
    house.stay_cold()
    report_session(house, kill_after=6)


@pytest.mark.parametrize("report", [report_warm, report_cold, report_with_kill])
def test_a_whole_session_is_in_the_store_as_it_happened(house: House, report: Any) -> None:
    report(house)
    tables = read_all_rows(house)
    [session] = tables["sessions"]
    assert {
        name: session[name] for name in ("host", "session", "cwd", "first_prompt", "prompts", "status", "reason")
    } == {
        "host": "claude-code",
        "session": "s1",
        "cwd": "/home/dev/project",
        "first_prompt": "mend the build",
        "prompts": 2,
        "status": "completed",
        "reason": "prompt_input_exit",
    }
    assert [(row["number"], row["prompt"], row["name"]) for row in tables["prompts"]] == [
        (1, "mend the build", "p1"),
        (2, "then write one", "p2"),
    ]
    assert [
        tuple(row[name] for name in ("kind", "prompt", "agent", "tool", "tool_use_id", "outcome", "duration"))
        for row in tables["events"]
    ] == [
        ("SessionStart", 0, "", "", "", "", None),
        ("tool", 1, "", "Bash", "toolu_1", "failed", 33.0),
        ("SubagentStart", 1, SUB["agent_id"], "", "", "", None),
        ("tool", 1, SUB["agent_id"], "Read", "toolu_2", "fine", None),
        ("SubagentStop", 1, SUB["agent_id"], "", "", "", None),
        ("Stop", 1, "", "", "", "", None),
        ("PreCompact", 2, "", "", "", "", None),
        ("SessionStart", 2, "", "", "", "", None),
        ("tool", 2, "", "Edit", "toolu_4", "fine", 5.0),
        ("tool", 2, "", "Bash", "toolu_5", "interrupted", None),
        ("Stop", 2, "", "", "", "", None),
        ("SessionEnd", 2, "", "", "", "", None),
    ]
    responses = {row["kind"]: row["response"] for row in tables["events"]}
    assert (responses["Stop"], responses["SubagentStop"], responses["PreCompact"]) == (
        "Done.",
        "there is no rule",
        "auto",
    )
    assert json.loads(tables["events"][8]["input"]) == WHOLE[12]["tool_input"]
    assert "No rule to make target" in tables["events"][1]["response"] and tables["events"][1]["signature"]


def test_warm_and_cold_give_the_same_rows(house: House, own_home: str) -> None:
    other_house = House(os.path.join(own_home, "other"))
    report_warm(house)
    other_house.stay_cold()
    report_session(other_house)
    house.ok("stop")
    os.environ["HARDWON_HOME"] = other_house.home
    other_rows = read_all_rows(other_house)
    os.environ["HARDWON_HOME"] = house.home
    assert read_all_rows(house) == other_rows


@pytest.mark.parametrize("worker", ["up", "down"])
def test_every_recorded_payload_leaves_what_it_tells_once_however_often_it_is_told(house: House, worker: str) -> None:
    house.ok("start") if worker == "up" else house.stay_cold()
    folder = os.path.join(PAYLOADS, "2.1.325")
    payloads = {}
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as file:
            payloads[name] = file.read()
    calls = set()
    for name, payload in payloads.items():
        assert (
            json.loads(house.hook(name.partition("-")[0].removesuffix(".json"), payload).strip() or b"{}")
            .get("hookSpecificOutput", {})
            .get("permissionDecision")
            is None
        )
        wire = json.loads(payload)
        if wire["hook_event_name"] in ("PostToolUse", "PostToolUseFailure") and wire["tool_name"] != "Skill":
            calls.add((wire["session_id"], wire["tool_use_id"]))
            house.hook(wire["hook_event_name"], payload)
    ids = {row["id"]: row["session"] for row in house.stored("sessions")}
    stored = [(ids[row["session"]], row["tool_use_id"]) for row in house.stored("events") if row["kind"] == "tool"]
    assert (sorted(stored), len(calls) > 3) == (sorted(calls), True)


def test_resuming_opens_a_completed_session_again(house: House) -> None:
    house.ok("start")
    for payload, status in [
        (happened("SessionStart", source="startup"), "initialized"),
        (prompt("one"), "active"),
        (happened("Stop"), "active"),
        (happened("SessionEnd", reason="logout"), "completed"),
        (happened("SessionStart", source="resume"), "active"),
        (prompt("two"), "active"),
        (happened("SessionEnd", reason="other"), "completed"),
    ]:
        house.ask("s1", payload)
        [session] = house.stored("sessions")
        assert session["status"] == status, payload
    assert (session["prompts"], session["reason"]) == (2, "other")


def test_a_session_that_was_begun_cold_and_went_on_warm_belongs_where_it_began(house: House, own_home: str) -> None:
    first, second = (create_repository(os.path.join(own_home, name)) for name in ("first", "second"))
    house.stay_cold()
    house.ask("s1", happened("SessionStart", source="startup", cwd=first))
    os.rename(os.path.join(house.home, "spool"), os.path.join(own_home, "kept-back"))
    house.ok("start")
    house.ask("s1", used("Bash", {"command": "ls"}, "", cwd=second))
    for name in os.listdir(os.path.join(own_home, "kept-back")):
        os.makedirs(os.path.join(house.home, "spool"), exist_ok=True)
        os.rename(os.path.join(own_home, "kept-back", name), os.path.join(house.home, "spool", name))
    [session] = house.stored("sessions")
    assert (session["cwd"], get_project(house, "s1")) == (first, first)


@pytest.mark.parametrize("worker", ["up", "down"])
def test_tools_on_the_skip_list_leave_nothing_and_the_list_can_be_changed(house: House, worker: str) -> None:
    house.ok("start") if worker == "up" else house.stay_cold()
    house.ask("s1", used("TodoWrite", {"todos": ["x"]}, "ok"))
    house.ask("s1", used("Bash", {"command": "ls"}, "a b"))
    house.ok("config", "set", "skipTools", '["Bash"]')
    house.ask("s1", used("TodoWrite", {"todos": ["y"]}, "ok"))
    house.ask("s1", used("Bash", {"command": "pwd"}, "/"))
    assert [(row["tool"], row["input"]) for row in house.stored("events")] == [
        ("Bash", '{"command": "ls"}'),
        ("TodoWrite", '{"todos": ["y"]}'),
    ]


def create_repository(path: str, remote: str = "") -> str:
    subprocess.run(["git", "init", "-q", path], check=True)
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.com", "-C", path]
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    if remote:
        subprocess.run([*git, "remote", "add", "origin", remote], check=True)
    return os.path.realpath(path)


def get_project(house: House, session: str) -> str:
    paths = {row["id"]: row["path"] for row in house.stored("projects")}
    return next(str(paths[row["project"]]) for row in house.stored("sessions") if row["session"] == session)


@pytest.mark.parametrize("worker", ["up", "down"])
def test_worktrees_and_subfolders_belong_to_one_project_and_namesakes_to_two(
    house: House, own_home: str, worker: str
) -> None:
    house.ok("start") if worker == "up" else house.stay_cold()
    app, namesake = (create_repository(os.path.join(own_home, *names)) for names in (("app",), ("other", "app")))
    tree, below = os.path.join(own_home, "tree"), os.path.join(app, "src", "deep")
    subprocess.run(["git", "-C", app, "worktree", "add", "-q", tree], check=True)
    os.makedirs(below)
    for session, cwd in [("s1", app), ("s2", below), ("s3", tree), ("s4", namesake)]:
        house.ask(session, prompt("go", cwd=cwd))
    assert [get_project(house, session) for session in ("s1", "s2", "s3", "s4")] == [app, app, app, namesake]
    assert sorted(row["name"] for row in house.stored("projects")) == ["app", "app"]


def test_a_repository_that_was_moved_keeps_its_sessions_and_a_copy_does_not_get_them(
    house: House, own_home: str
) -> None:
    house.ok("start")
    remote = "https://ada:planted-4711@git.example/kite.git"
    old, copy = (create_repository(os.path.join(own_home, name), remote) for name in ("old", "copy"))
    house.ask("s1", prompt("go", cwd=old))
    house.ask("s2", prompt("go", cwd=copy))
    assert get_project(house, "s1") != get_project(house, "s2")
    new = os.path.join(own_home, "new")
    os.rename(old, new)
    house.ask("s3", prompt("go", cwd=new))
    assert get_project(house, "s1") == get_project(house, "s3") == os.path.realpath(new)
    assert {row["remote"] for row in house.stored("projects")} == {"https://git.example/kite.git"}
