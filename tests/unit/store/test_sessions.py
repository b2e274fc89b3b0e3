"""A session is stored from its reports in any order, with repeats and gaps."""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwon import clock
from hardwon.projects import find_project_path, get_folder_name, read_remote_url
from hardwon.store import db, sessions
from hardwon.store.events import Report, find_or_create_project, store_last_words, store_report
from tests.support.new_store import connect_to_new_store

NOON = 1_790_000_000.0


def build_report(kind: str, minute: float, **fields: Any) -> Report:
    defaults = {"host": "claude-code", "session": "s1", "cwd": "/home/dev/app", "transcript": "/t/s1.jsonl"}
    return Report(**{**defaults, "key": f"{kind}-{minute}", "kind": kind, "at": NOON + 60 * minute, **fields})


def build_prompt(words: str, minute: float, **fields: Any) -> Report:
    return build_report("UserPromptSubmit", minute, prompt=words, prompt_name=f"p-{minute}", **fields)


def build_call(call: str, minute: float, **fields: Any) -> Report:
    defaults = {"tool": "Bash", "tool_use_id": call, "input": f'{{"command": "{call}"}}', "outcome": "fine"}
    return build_report("tool", minute, **{**defaults, "response": f"output of {call}", "duration": 7.0, **fields})


def convert_to_transcript(hook_report: Report) -> Report:
    """Return the report as a transcript has it: another key, a little earlier, without the prompt's name."""
    return replace(
        hook_report,
        key=f"claude-code:{hook_report.key}",
        at=hook_report.at - 1,
        prompt_name="",
        duration=None,
        origin="transcript",
        input="{}" if hook_report.kind == "tool" else hook_report.input,
    )


CALL, SECOND_PROMPT = build_call("toolu_1", 2), build_prompt("now the other one", 5)
SESSION = (
    build_report("SessionStart", 0, response="startup"),
    build_prompt("mend the build", 1),
    CALL,
    convert_to_transcript(CALL),
    build_report("SubagentStart", 3, subagent_id="a1"),
    build_call("toolu_2", 3.5, subagent_id="a1", outcome="failed", signature="bash|boom", cwd="/home/dev/app/below"),
    build_report("SubagentStop", 3.6, subagent_id="a1", response="sub-agent's words"),
    build_report("Stop", 4, response="done"),
    SECOND_PROMPT,
    convert_to_transcript(SECOND_PROMPT),
    build_report("PreCompact", 5.5),
    build_call("toolu_3", 6, cwd="/home/dev/elsewhere"),
    build_report(
        "tool", 6.1, key="denied", tool="Bash", tool_use_id="toolu_4", input='{"command": "x"}', outcome="denied"
    ),  # the agent ran it anyway
    build_call("toolu_4", 6.2),
    build_report("SessionEnd", 7, reason="logout"),
    build_report("SessionStart", 8, response="resume", transcript="/t/moved.jsonl"),
    build_prompt("one more thing", 9, transcript="/t/moved.jsonl"),
    build_report("SessionEnd", 10, reason="other", transcript="/t/moved.jsonl"),
)


@contextmanager
def open_store() -> Iterator[db.Connection]:
    with tempfile.TemporaryDirectory() as home:
        connection = connect_to_new_store(home)
        try:
            yield connection
        finally:
            connection.close()


def store_reports(connection: db.Connection, reports: Iterable[Report], **options: bool) -> None:
    for report in reports:
        with db.transaction(connection):
            project = find_or_create_project(connection, report.cwd, "", report.at)
            store_report(connection, replace(report, project=project), **options)


def collect_rows(reports: Iterable[Report], **options: bool) -> dict[str, list[dict[str, Any]]]:
    """Return everything stored after these reports, without ids, which depend on the order."""
    with open_store() as connection:
        store_reports(connection, reports, **options)
        tables = {
            "sessions": sessions.find_by_name(connection, "s1"),
            "prompts": connection.execute("select key, number, at, prompt, name from prompts order by at").fetchall(),
            "events": connection.execute("select * from events order by at, key").fetchall(),
        }
        return {
            name: [{k: v for k, v in dict(row).items() if k not in ("id", "session", "project")} for row in table]
            for name, table in tables.items()
        }


@functools.cache
def collect_session_rows() -> dict[str, list[dict[str, Any]]]:
    return collect_rows(SESSION)


def find_session(reports: Iterable[Report], **options: bool) -> dict[str, Any]:
    [row] = collect_rows(reports, **options)["sessions"]
    return row


def draw_orders(reports: Sequence[Report]) -> st.SearchStrategy[list[Report]]:
    """Draw each report at least once, some repeatedly, in any order."""
    repeats = st.lists(st.sampled_from(reports), max_size=8)
    return repeats.flatmap(lambda repeated: st.permutations([*reports, *repeated]))


@given(draw_orders(SESSION))
def test_any_order_and_any_repetition_give_the_same_rows(reports: list[Report]) -> None:
    assert collect_rows(reports) == collect_session_rows()


@given(
    st.sets(st.sampled_from(SESSION), min_size=1).flatmap(
        lambda present: st.tuples(st.just(present), draw_orders(sorted(present, key=SESSION.index)))
    )
)
def test_with_reports_missing_the_order_does_not_matter(drawn: tuple[set[Report], list[Report]]) -> None:
    present, shuffled = drawn
    assert collect_rows(shuffled) == collect_rows(report for report in SESSION if report in present)


DENIED = build_report("tool", 2, key="hook-1", tool="Bash", tool_use_id="toolu_9", input="{}", outcome="denied")
RAN = build_call("toolu_9", 2.1, outcome="failed", signature="sign")


@pytest.mark.parametrize(
    "reports",
    [
        (DENIED, RAN),
        (RAN, DENIED),
        (DENIED, convert_to_transcript(RAN)),
        (convert_to_transcript(RAN), DENIED),
        (convert_to_transcript(DENIED), RAN),
    ],
)
def test_a_denied_call_that_ran_has_the_outcome_of_its_run(reports: tuple[Report, ...]) -> None:
    [row] = collect_rows([build_prompt("go on", 1), *reports])["events"]
    assert (row["outcome"], row["signature"], row["response"]) == ("failed", "sign", "output of toolu_9")


def test_a_call_denied_in_hook_and_transcript_is_one_denied_call() -> None:
    [row] = collect_rows([build_prompt("go on", 1), DENIED, convert_to_transcript(DENIED)])["events"]
    assert (row["outcome"], row["origin"], row["signature"]) == ("denied", "hook", "")


def test_the_stored_session_has_every_report() -> None:
    tables = collect_rows(SESSION)
    [session] = tables["sessions"]
    assert {
        name: session[name]
        for name in ("status", "reason", "prompts", "first_prompt", "cwd", "project_path", "transcript", "events")
    } == {
        "status": "completed",
        "reason": "other",
        "prompts": 3,
        "first_prompt": "mend the build",
        "cwd": "/home/dev/app",
        "project_path": "/home/dev/app",
        "transcript": "/t/moved.jsonl",
        "events": 12,
    }
    assert [(prompt["number"], prompt["prompt"]) for prompt in tables["prompts"]] == [
        (1, "mend the build"),
        (2, "now the other one"),
        (3, "one more thing"),
    ]
    assert [(event["kind"], event["prompt"], event["agent"]) for event in tables["events"]] == [
        ("SessionStart", 0, ""),
        ("tool", 1, ""),
        ("SubagentStart", 1, "a1"),
        ("tool", 1, "a1"),
        ("SubagentStop", 1, "a1"),
        ("Stop", 1, ""),
        ("PreCompact", 2, ""),
        ("tool", 2, ""),
        ("tool", 2, ""),
        ("SessionEnd", 2, ""),
        ("SessionStart", 2, ""),
        ("SessionEnd", 3, ""),
    ]


OPENED, PROMPTED = build_report("SessionStart", 0), build_prompt("do it", 1)
WORKED, ENDED = build_call("toolu_9", 2), build_report("SessionEnd", 3, reason="logout")
RESUMED, AGAIN = build_report("SessionStart", 4, response="resume"), build_prompt("and then", 5)


@pytest.mark.parametrize(
    ("reports", "status"),
    [
        ([OPENED], "initialized"),
        ([WORKED], "initialized"),
        ([PROMPTED], "active"),
        ([OPENED, PROMPTED], "active"),
        ([OPENED, PROMPTED, WORKED], "active"),
        ([OPENED, ENDED], "completed"),
        ([ENDED], "completed"),
        ([OPENED, PROMPTED, ENDED], "completed"),
        ([ENDED, build_call("toolu_late", 3.5)], "completed"),
        ([PROMPTED, ENDED, build_report("Stop", 3.5)], "completed"),
        ([OPENED, ENDED, RESUMED], "initialized"),
        ([OPENED, PROMPTED, ENDED, RESUMED], "active"),
        ([PROMPTED, ENDED, AGAIN], "active"),
        ([PROMPTED, ENDED, RESUMED, AGAIN, build_report("SessionEnd", 6, reason="clear")], "completed"),
    ],
)
def test_a_sessions_status_follows_from_its_reports(reports: list[Report], status: str) -> None:
    assert find_session(reports)["status"] == find_session(reversed(reports))["status"] == status


def test_the_reason_is_that_of_the_last_end() -> None:
    ends = [build_report("SessionEnd", 3, reason="clear"), build_report("SessionEnd", 9, reason="logout")]
    assert find_session(ends)["reason"] == find_session(reversed(ends))["reason"] == "logout"


def test_a_session_belongs_to_the_folder_it_began_in() -> None:
    first_report, later_report = (
        build_report("SessionStart", 0, cwd="/home/dev/one"),
        build_call("toolu_1", 1, cwd="/home/dev/two"),
    )
    for order in ([first_report, later_report], [later_report, first_report]):
        assert [find_session(order)[name] for name in ("cwd", "project_path")] == ["/home/dev/one", "/home/dev/one"]


def test_with_the_clock_set_back_a_live_report_is_still_the_latest_of_its_session() -> None:
    reports = [
        PROMPTED,
        build_call("toolu_1", 30),
        build_report("SessionEnd", 31, reason="logout"),
        build_report("SessionStart", -60),
        build_prompt("back again", -59),
    ]
    tables = collect_rows(reports, live=True)
    assert tables["sessions"][0]["status"] == "active"
    assert [prompt["prompt"] for prompt in tables["prompts"]] == ["do it", "back again"]
    assert [(event["kind"], event["prompt"]) for event in tables["events"]] == [
        ("tool", 1),
        ("SessionEnd", 1),
        ("SessionStart", 1),
    ]


def test_a_hook_and_a_transcript_do_not_duplicate_each_other() -> None:
    def collect_unkeyed_rows(reports: list[Report]) -> list[dict[str, Any]]:
        tables = collect_rows(reports)
        return [{k: v for k, v in row.items() if k != "key"} for name in ("prompts", "events") for row in tables[name]]

    hooks, transcript = [PROMPTED, CALL], [convert_to_transcript(PROMPTED), convert_to_transcript(CALL)]
    for order in ([*hooks, *transcript], [*transcript, *hooks], [*transcript, *hooks, *transcript]):
        assert collect_unkeyed_rows(order) == collect_unkeyed_rows(hooks)


def test_the_same_words_typed_twice_are_two_prompts() -> None:
    assert find_session([build_prompt("yes", 1), build_prompt("yes", 2)])["prompts"] == 2


def test_a_subagents_transcript_is_not_the_sessions() -> None:
    subagent_call = replace(
        build_call("toolu_1", 5), subagent_id="a1", transcript="/t/s1/subagents/agent-a1.jsonl", origin="transcript"
    )
    assert find_session([PROMPTED, subagent_call])["transcript"] == "/t/s1.jsonl"


def test_the_same_id_on_two_hosts_is_two_sessions() -> None:
    assert len(collect_rows([PROMPTED, replace(PROMPTED, host="codex", key="other")])["sessions"]) == 2


def create_repository(path: str, remote: str = "") -> str:
    os.makedirs(os.path.join(path, ".git"))
    with open(os.path.join(path, ".git", "config"), "w") as file:
        file.write(f'[core]\n\tbare = false\n[remote "origin"]\n\turl = {remote}\n' if remote else "[core]\n")
    return os.path.realpath(path)


def resolve_project(connection: db.Connection, folder: str) -> int | None:
    with db.transaction(connection):
        return find_or_create_project(
            connection, find_project_path(folder), read_remote_url(find_project_path(folder)), NOON
        )


def test_two_folders_of_the_same_name_are_two_projects(own_home: str) -> None:
    first_folder, second_folder = (create_repository(os.path.join(own_home, name, "app")) for name in ("one", "two"))
    with open_store() as connection:
        assert resolve_project(connection, first_folder) != resolve_project(connection, second_folder)


def test_a_subfolder_and_a_link_into_it_belong_to_the_repository(own_home: str) -> None:
    top = create_repository(os.path.join(own_home, "app"))
    subfolder, link = os.path.join(top, "src", "deep"), os.path.join(own_home, "link")
    os.makedirs(subfolder)
    os.symlink(subfolder, link)
    assert {find_project_path(folder) for folder in (top, top + "/", subfolder, link)} == {top}


def test_a_moved_repository_is_the_same_project_once_its_old_place_is_gone(own_home: str) -> None:
    remote = "https://git.example/kite.git"
    old, copy = (create_repository(os.path.join(own_home, name), remote) for name in ("old", "copy"))
    with open_store() as connection:
        first = resolve_project(connection, old)
        assert resolve_project(connection, copy) != first
        new = os.path.join(own_home, "new")
        os.rename(old, new)
        assert resolve_project(connection, new) == first
        [row] = connection.execute("select path, name from projects where id = ?", (first,)).fetchall()
        assert tuple(row) == (os.path.realpath(new), "new")


def test_a_repository_with_another_remote_is_not_taken_for_one_that_is_gone(own_home: str) -> None:
    with open_store() as connection:
        old = create_repository(os.path.join(own_home, "old"), "https://git.example/kite.git")
        first = resolve_project(connection, old)
        os.rename(old, os.path.join(own_home, "elsewhere"))
        assert (
            resolve_project(connection, create_repository(os.path.join(own_home, "b"), "https://git.example/owl.git"))
            != first
        )
        assert resolve_project(connection, create_repository(os.path.join(own_home, "c"))) != first


@pytest.mark.parametrize(
    ("remote", "expected_remote"),
    [
        ("https://ada:hunter2-b@git.example/kite.git", "https://git.example/kite.git"),
        ("https://ghp_x1y2z3@git.example/kite.git", "https://git.example/kite.git"),
        ("https://ada:p@ss-b@git.example/kite.git", "https://git.example/kite.git"),
        ("ssh://git@git.example/kite.git", "ssh://git.example/kite.git"),
        ("git@git.example:ada/kite.git", "git@git.example:ada/kite.git"),
        ("/srv/git/kite.git", "/srv/git/kite.git"),
    ],
)
def test_a_remote_is_kept_without_the_credentials_in_it(own_home: str, remote: str, expected_remote: str) -> None:
    assert read_remote_url(create_repository(os.path.join(own_home, "app"), remote)) == expected_remote


def list_ends(connection: db.Connection) -> list[tuple[str, str]]:
    rows = connection.execute("select origin, response from events where kind = 'Stop' order by at, id")
    return [tuple(row) for row in rows]


def test_a_stop_from_a_transcript_is_replaced_by_the_hooks() -> None:
    with open_store() as connection:
        store_report(connection, convert_to_transcript(build_prompt("mend the build", 1)))
        for minute, last_words in ((2, "so far"), (3, "all of it"), (3, "all of it")):
            at = NOON + 60 * minute
            store_last_words(connection, "claude-code", "s1", last_words, since=at, until=float("inf"))
        assert list_ends(connection) == [("transcript", "all of it")]
        store_report(connection, build_report("Stop", 4, response="all of it, says the hook"))
        assert list_ends(connection) == [("hook", "all of it, says the hook")]


def test_last_words_at_the_time_of_the_next_prompt_are_stored_once() -> None:
    with open_store() as connection:
        store_report(connection, convert_to_transcript(build_prompt("mend the build", 1)))
        for _ in range(2):
            store_last_words(connection, "claude-code", "s1", "done", since=NOON + 120, until=NOON + 120)
        assert list_ends(connection) == [("transcript", "done")]


def test_a_repeated_report_is_recognised_after_the_clock_was_set_back() -> None:
    stop_report = build_report("Stop", 0, response="done")
    with open_store() as connection, db.transaction(connection):
        store_report(connection, build_report("SessionStart", 60), live=True)
        assert store_report(connection, stop_report, live=True)
        assert not store_report(connection, replace(stop_report, key="another"), live=True)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/home/dev/kite", "kite"),
        ("/home/dev/kite/", "kite"),
        ("D:\\work\\kite", "kite"),
        ("D:\\kite\\", "kite"),
        ("/home/dev/a\\b", "a\\b"),
        ("/", "/"),
        ("kite", "kite"),
    ],
)
def test_a_project_is_named_after_its_folder_on_any_system(path: str, name: str) -> None:
    assert get_folder_name(path) == name


def test_a_session_whose_end_nobody_reported_is_shown_as_left_after_an_hour() -> None:
    now = clock.now()
    assert sessions.describe_status("active", now - 60) == "active"
    assert sessions.describe_status("active", now - 2 * 3600) == "left"
    assert sessions.describe_status("completed", now - 2 * 3600) == "completed"
