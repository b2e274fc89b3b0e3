"""What the store makes of a session's reports, in whatever order they come, however often, with any of them missing."""

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

from hardwon.projects import find_project_path, read_remote_url
from hardwon.store import db, sessions
from hardwon.store.reports import Report, find_or_create_project, store_last_words, store_report

NOON = 1_790_000_000.0


def report(kind: str, minute: float, **more: Any) -> Report:
    told = {"host": "claude-code", "session": "s1", "cwd": "/home/dev/app", "transcript": "/t/s1.jsonl"}
    return Report(**{**told, "key": f"{kind}-{minute}", "kind": kind, "at": NOON + 60 * minute, **more})


def typed(words: str, minute: float, **more: Any) -> Report:
    return report("UserPromptSubmit", minute, prompt=words, prompt_name=f"p-{minute}", **more)


def ran(call: str, minute: float, **more: Any) -> Report:
    told = {"tool": "Bash", "tool_use_id": call, "input": f'{{"command": "{call}"}}', "outcome": "fine"}
    return report("tool", minute, **{**told, "response": f"output of {call}", "duration": 7.0, **more})


def from_transcript(told: Report) -> Report:
    """The same, as a transcript has it: under another key, a little earlier, without the host's name of the prompt."""
    return replace(
        told,
        key=f"claude-code:{told.key}",
        at=told.at - 1,
        prompt_name="",
        duration=None,
        origin="transcript",
        input="{}" if told.kind == "tool" else told.input,
    )


CALL, SECOND_PROMPT = ran("toolu_1", 2), typed("now the other one", 5)
SESSION = (
    report("SessionStart", 0, response="startup"),
    typed("mend the build", 1),
    CALL,
    from_transcript(CALL),
    report("SubagentStart", 3, subagent="a1"),
    ran("toolu_2", 3.5, subagent="a1", outcome="failed", signature="bash|boom", cwd="/home/dev/app/below"),
    report("SubagentStop", 3.6, subagent="a1", response="sub-agent's words"),
    report("Stop", 4, response="done"),
    SECOND_PROMPT,
    from_transcript(SECOND_PROMPT),
    report("PreCompact", 5.5),
    ran("toolu_3", 6, cwd="/home/dev/elsewhere"),
    report(
        "tool", 6.1, key="denied", tool="Bash", tool_use_id="toolu_4", input='{"command": "x"}', outcome="denied"
    ),  # by an agent that ran it all the same
    ran("toolu_4", 6.2),
    report("SessionEnd", 7, reason="logout"),
    report("SessionStart", 8, response="resume", transcript="/t/moved.jsonl"),
    typed("one more thing", 9, transcript="/t/moved.jsonl"),
    report("SessionEnd", 10, reason="other", transcript="/t/moved.jsonl"),
)


@contextmanager
def store() -> Iterator[db.Connection]:
    with tempfile.TemporaryDirectory() as home:
        connection = db.connect(home)
        try:
            yield connection
        finally:
            connection.close()


def take(connection: db.Connection, reports: Iterable[Report], **more: bool) -> None:
    for one in reports:
        with db.transaction(connection):
            project = find_or_create_project(connection, one.cwd, "", one.at)
            store_report(connection, replace(one, project=project), **more)


def rows(reports: Iterable[Report], **more: bool) -> dict[str, list[dict[str, Any]]]:
    """Everything that is stored after these reports, without the numbers that the order of arrival gives."""
    with store() as connection:
        take(connection, reports, **more)
        found = {
            "sessions": sessions.find_by_name(connection, "s1"),
            "prompts": connection.execute("select key, number, at, prompt, name from prompts order by at").fetchall(),
            "events": connection.execute("select * from events order by at, key").fetchall(),
        }
        return {
            name: [{k: v for k, v in dict(row).items() if k not in ("id", "session", "project")} for row in table]
            for name, table in found.items()
        }


@functools.cache
def rows_of_session() -> dict[str, list[dict[str, Any]]]:
    return rows(SESSION)


def the_session(reports: Iterable[Report], **more: bool) -> dict[str, Any]:
    [row] = rows(reports, **more)["sessions"]
    return row


def told_in_some_order(reports: Sequence[Report]) -> st.SearchStrategy[list[Report]]:
    """Every one at least once, some again, in any order."""
    again = st.lists(st.sampled_from(reports), max_size=8)
    return again.flatmap(lambda more: st.permutations([*reports, *more]))


@given(told_in_some_order(SESSION))
def test_any_order_and_any_repetition_give_the_same_rows(reports: list[Report]) -> None:
    assert rows(reports) == rows_of_session()


@given(
    st.sets(st.sampled_from(SESSION), min_size=1).flatmap(
        lambda some: st.tuples(st.just(some), told_in_some_order(sorted(some, key=SESSION.index)))
    )
)
def test_with_any_of_them_missing_the_order_still_does_not_matter(drawn: tuple[set[Report], list[Report]]) -> None:
    some, in_some_order = drawn
    assert rows(in_some_order) == rows(one for one in SESSION if one in some)


DENIED = report("tool", 2, key="hook-1", tool="Bash", tool_use_id="toolu_9", input="{}", outcome="denied")
RAN = ran("toolu_9", 2.1, outcome="failed", signature="sign")


@pytest.mark.parametrize(
    "reports",
    [
        (DENIED, RAN),
        (RAN, DENIED),
        (DENIED, from_transcript(RAN)),
        (from_transcript(RAN), DENIED),
        (from_transcript(DENIED), RAN),
    ],
)
def test_a_call_that_was_denied_and_ran_all_the_same_ended_as_it_ran(reports: tuple[Report, ...]) -> None:
    [row] = rows([typed("go on", 1), *reports])["events"]
    assert (row["outcome"], row["signature"], row["response"]) == ("failed", "sign", "output of toolu_9")


def test_a_call_that_both_accounts_say_was_denied_is_one_denied_call() -> None:
    [row] = rows([typed("go on", 1), DENIED, from_transcript(DENIED)])["events"]
    assert (row["outcome"], row["origin"], row["signature"]) == ("denied", "hook", "")


def test_the_whole_session_is_as_it_happened() -> None:
    found = rows(SESSION)
    [session] = found["sessions"]
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
    assert [(prompt["number"], prompt["prompt"]) for prompt in found["prompts"]] == [
        (1, "mend the build"),
        (2, "now the other one"),
        (3, "one more thing"),
    ]
    assert [(event["kind"], event["prompt"], event["agent"]) for event in found["events"]] == [
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


OPENED, PROMPTED = report("SessionStart", 0), typed("do it", 1)
WORKED, ENDED = ran("toolu_9", 2), report("SessionEnd", 3, reason="logout")
RESUMED, AGAIN = report("SessionStart", 4, response="resume"), typed("and then", 5)


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
        ([ENDED, ran("toolu_late", 3.5)], "completed"),
        ([PROMPTED, ENDED, report("Stop", 3.5)], "completed"),
        ([OPENED, ENDED, RESUMED], "initialized"),
        ([OPENED, PROMPTED, ENDED, RESUMED], "active"),
        ([PROMPTED, ENDED, AGAIN], "active"),
        ([PROMPTED, ENDED, RESUMED, AGAIN, report("SessionEnd", 6, reason="clear")], "completed"),
    ],
)
def test_a_sessions_status_follows_from_what_is_known_of_it(reports: list[Report], status: str) -> None:
    assert the_session(reports)["status"] == the_session(reversed(reports))["status"] == status


def test_the_reason_is_that_of_the_last_end() -> None:
    ends = [report("SessionEnd", 3, reason="clear"), report("SessionEnd", 9, reason="logout")]
    assert the_session(ends)["reason"] == the_session(reversed(ends))["reason"] == "logout"


def test_a_session_belongs_where_it_began_however_late_that_is_heard() -> None:
    begun, later = report("SessionStart", 0, cwd="/home/dev/one"), ran("toolu_1", 1, cwd="/home/dev/two")
    for order in ([begun, later], [later, begun]):
        assert [the_session(order)[name] for name in ("cwd", "project_path")] == ["/home/dev/one", "/home/dev/one"]


def test_with_the_clock_set_back_a_live_report_is_still_the_latest_of_its_session() -> None:
    told = [
        PROMPTED,
        ran("toolu_1", 30),
        report("SessionEnd", 31, reason="logout"),
        report("SessionStart", -60),
        typed("back again", -59),
    ]
    found = rows(told, live=True)
    assert found["sessions"][0]["status"] == "active"
    assert [prompt["prompt"] for prompt in found["prompts"]] == ["do it", "back again"]
    assert [(event["kind"], event["prompt"]) for event in found["events"]] == [
        ("tool", 1),
        ("SessionEnd", 1),
        ("SessionStart", 1),
    ]


def test_a_transcript_does_not_double_what_a_hook_told_nor_the_other_way_round() -> None:
    def told(reports: list[Report]) -> list[dict[str, Any]]:
        found = rows(reports)
        return [{k: v for k, v in row.items() if k != "key"} for name in ("prompts", "events") for row in found[name]]

    hooks, transcript = [PROMPTED, CALL], [from_transcript(PROMPTED), from_transcript(CALL)]
    for order in ([*hooks, *transcript], [*transcript, *hooks], [*transcript, *hooks, *transcript]):
        assert told(order) == told(hooks)


def test_the_same_words_typed_twice_are_two_prompts() -> None:
    assert the_session([typed("yes", 1), typed("yes", 2)])["prompts"] == 2


def test_the_transcript_of_a_sub_agent_does_not_stand_for_the_sessions() -> None:
    below = replace(ran("toolu_1", 5), subagent="a1", transcript="/t/s1/subagents/agent-a1.jsonl", origin="transcript")
    assert the_session([PROMPTED, below])["transcript"] == "/t/s1.jsonl"


def test_the_same_id_on_two_hosts_is_two_sessions() -> None:
    assert len(rows([PROMPTED, replace(PROMPTED, host="codex", key="other")])["sessions"]) == 2


def made_repository(path: str, remote: str = "") -> str:
    os.makedirs(os.path.join(path, ".git"))
    with open(os.path.join(path, ".git", "config"), "w") as file:
        file.write(f'[core]\n\tbare = false\n[remote "origin"]\n\turl = {remote}\n' if remote else "[core]\n")
    return os.path.realpath(path)


def resolved(connection: db.Connection, folder: str) -> int | None:
    with db.transaction(connection):
        return find_or_create_project(
            connection, find_project_path(folder), read_remote_url(find_project_path(folder)), NOON
        )


def test_two_folders_of_the_same_name_are_two_projects(own_home: str) -> None:
    here, there = (made_repository(os.path.join(own_home, name, "app")) for name in ("one", "two"))
    with store() as connection:
        assert resolved(connection, here) != resolved(connection, there)


def test_a_subfolder_and_a_link_into_it_belong_to_the_repository(own_home: str) -> None:
    top = made_repository(os.path.join(own_home, "app"))
    below, link = os.path.join(top, "src", "deep"), os.path.join(own_home, "link")
    os.makedirs(below)
    os.symlink(below, link)
    assert {find_project_path(place) for place in (top, top + "/", below, link)} == {top}


def test_a_moved_repository_is_the_same_project_once_its_old_place_is_gone(own_home: str) -> None:
    remote = "https://git.example/kite.git"
    old, copy = (made_repository(os.path.join(own_home, name), remote) for name in ("old", "copy"))
    with store() as connection:
        first = resolved(connection, old)
        assert resolved(connection, copy) != first
        new = os.path.join(own_home, "new")
        os.rename(old, new)
        assert resolved(connection, new) == first
        [row] = connection.execute("select path, name from projects where id = ?", (first,)).fetchall()
        assert tuple(row) == (os.path.realpath(new), "new")


def test_a_repository_with_another_remote_is_not_taken_for_one_that_is_gone(own_home: str) -> None:
    with store() as connection:
        old = made_repository(os.path.join(own_home, "old"), "https://git.example/kite.git")
        first = resolved(connection, old)
        os.rename(old, os.path.join(own_home, "elsewhere"))
        assert (
            resolved(connection, made_repository(os.path.join(own_home, "b"), "https://git.example/owl.git")) != first
        )
        assert resolved(connection, made_repository(os.path.join(own_home, "c"))) != first


@pytest.mark.parametrize(
    ("remote", "kept"),
    [
        ("https://ada:hunter2-b@git.example/kite.git", "https://git.example/kite.git"),
        ("https://ghp_x1y2z3@git.example/kite.git", "https://git.example/kite.git"),
        ("https://ada:p@ss-b@git.example/kite.git", "https://git.example/kite.git"),
        ("ssh://git@git.example/kite.git", "ssh://git.example/kite.git"),
        ("git@git.example:ada/kite.git", "git@git.example:ada/kite.git"),
        ("/srv/git/kite.git", "/srv/git/kite.git"),
    ],
)
def test_a_remote_is_kept_without_the_credentials_in_it(own_home: str, remote: str, kept: str) -> None:
    assert read_remote_url(made_repository(os.path.join(own_home, "app"), remote)) == kept


def ends(connection: db.Connection) -> list[tuple[str, str]]:
    rows = connection.execute("select origin, response from events where kind = 'Stop' order by at, id")
    return [tuple(row) for row in rows]


def test_the_end_that_a_transcript_tells_counts_until_a_hook_tells_it() -> None:
    with store() as connection:
        store_report(connection, from_transcript(typed("mend the build", 1)))
        for minute, said in ((2, "so far"), (3, "all of it"), (3, "all of it")):
            at = NOON + 60 * minute
            store_last_words(connection, "claude-code", "s1", said, since=at, until=float("inf"))
        assert ends(connection) == [("transcript", "all of it")]
        store_report(connection, report("Stop", 4, response="all of it, says the hook"))
        assert ends(connection) == [("hook", "all of it, says the hook")]


def test_words_at_the_instant_of_the_next_prompt_are_told_once_however_often_they_are_read() -> None:
    with store() as connection:
        store_report(connection, from_transcript(typed("mend the build", 1)))
        for _ in range(2):
            store_last_words(connection, "claude-code", "s1", "done", since=NOON + 120, until=NOON + 120)
        assert ends(connection) == [("transcript", "done")]


def test_what_two_hooks_tell_is_known_though_the_clock_was_set_back() -> None:
    told = report("Stop", 0, response="done")
    with store() as connection, db.transaction(connection):
        store_report(connection, report("SessionStart", 60), live=True)
        assert store_report(connection, told, live=True)
        assert not store_report(connection, replace(told, key="another"), live=True)
