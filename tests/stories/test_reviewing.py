"""One candidate at a time: a person sees what speaks for it, and decides; a reader may say what it thinks."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import pytest

from tests.support.claude_transcript import TAG, UNKNOWN, TranscriptWriter
from tests.support.house import GIT_STASH, House, bash, lesson, run_at_terminal


def list_lesson_summaries(house: House, status: str) -> list[str]:
    return [
        lesson_record["summary"] for lesson_record in house.ok("lessons", "list", "--status", status, "--json").json()
    ]


@pytest.fixture
def scanned_house(house: House, own_home: str) -> House:
    """Two candidates: git's option in two sessions, cargo's in one; and some calls that went fine."""
    TranscriptWriter(own_home).mistake().works("git log --oneline").write()
    second_transcript = TranscriptWriter(own_home).mistake()
    second_transcript.fails("cargo build --fast", "error: unexpected argument '--fast' found").works(
        "cargo build --release"
    ).write()
    house.ok("scan")
    return house


def test_review_shows_a_proposal_on_one_screen(scanned_house: House) -> None:
    screen = run_at_terminal("review", typed="q\n")
    for expected in (
        "1 of 2",
        "L1 `git log --colour` fails: unknown option `--colour'",
        "→ Use `git log --color=always` instead.",
        "   - git log --colour=always\n   + git log --color=always\n",
        "replay    would have stopped 1 of 1 repeats; fired on 0 of 4 calls that went",
        "failed  git log --colour=always",
        "scope     /home/dev/kite",
        "delivery  hold: denied once a session, with this text; made again, it runs",
        "seen      2 times in 2 sessions, 1 project",
        "[a]ccept [m]easure [e]dit [r]eject [s]kip [u]ndo [d]etails [q]uit [?]help",
    ):
        assert expected in screen, screen
    assert "0 decisions kept; 2 candidates left" in screen
    assert len(screen.splitlines()) <= 24, "a proposal fits a terminal of 24 lines"


def test_the_words_that_differ_are_coloured(scanned_house: House) -> None:
    screen = run_at_terminal("review", typed="q\n", NO_COLOR="", TERM="xterm-256color")
    assert "\x1b[31m\x1b[1m --colour=always\x1b[0m" in screen
    assert "\x1b[32m\x1b[1m --color=always\x1b[0m" in screen
    assert "git log\x1b" not in screen.replace("\x1b[0m", "").partition("   - ")[2].partition("\n")[0]


def test_m_accepts_and_measures(scanned_house: House) -> None:
    screen = run_at_terminal("review", typed="mq")
    assert "silent in half of the sessions at first, to measure it: hardwon proof" in screen
    [record] = scanned_house.ok("proof", "--json").json()
    assert (record["measured"], record["silentShare"]) == (True, 0.5)
    run_at_terminal("review", typed="aq")  # the other one is only accepted
    assert sorted(record["measured"] for record in scanned_house.ok("proof", "--json").json()) == [False, True]


def test_a_measured_acceptance_that_is_undone_is_not_measured_when_accepted_again(scanned_house: House) -> None:
    run_at_terminal("review", typed="muaq")
    assert [record["measured"] for record in scanned_house.ok("proof", "--json").json()] == [False]


def test_details_show_the_evidence_with_file_and_line(scanned_house: House) -> None:
    screen = run_at_terminal("review", typed="dq")
    assert ".jsonl:2" in screen and "then      git log --color=always" in screen


def test_help_explains_every_key(scanned_house: House) -> None:
    screen = run_at_terminal("review", typed="?q")
    for key in "aersud?q":
        assert f"\n   {key}         " in screen, screen


def test_an_arrow_key_decides_nothing(scanned_house: House) -> None:
    screen = run_at_terminal("review", typed="\x1b[A\x1bOAq")
    assert "0 decisions kept; 2 candidates left" in screen


def test_decisions_are_kept_as_they_are_made(scanned_house: House) -> None:
    screen = run_at_terminal("review", typed="a\nr\n")
    assert "2 decisions kept; 0 candidates left" in screen
    assert len(list_lesson_summaries(scanned_house, "active")) == 1
    assert scanned_house.ok("scan", "candidates", "--all", "--json").json()["candidates"] == []


def test_a_decision_can_be_taken_back(scanned_house: House) -> None:
    screen = run_at_terminal("review", typed="a\nu\nr\nu\ns\ns\n")
    assert "0 decisions kept; 2 candidates left" in screen
    assert list_lesson_summaries(scanned_house, "active") == []


def test_what_a_person_edits_is_what_is_kept(scanned_house: House, tmp_path: Any) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i \'s/"priority": [0-9]*/"priority": 9/; s/"note"/"hold"/\' "$1"\n')
    editor.chmod(0o755)
    run_at_terminal("review", typed="e\nq\n", EDITOR=str(editor), VISUAL=str(editor))
    [stored_lesson] = scanned_house.ok("lessons", "list", "--json").json()
    assert (stored_lesson["priority"], stored_lesson["delivery"], stored_lesson["status"]) == (9, "hold", "active")
    assert scanned_house.ask("s9", bash("git log --colour=auto", cwd="/home/dev/kite")).denied


def write_editor(tmp_path: Any, change: str) -> dict[str, str]:
    """Write an editor that makes this change to `record`; return the environment that selects it."""
    program = tmp_path / "editor"
    program.write_text(
        f"#!{sys.executable}\nimport json, sys\nrecord = json.load(open(sys.argv[1]))\n{change}\n"
        "json.dump(record, open(sys.argv[1], 'w'))\n"
    )
    program.chmod(0o755)
    return {"EDITOR": str(program), "VISUAL": str(program)}


def test_a_trigger_that_a_person_edits_replaces_the_old_one_and_what_they_delete_is_gone(
    scanned_house: House, tmp_path: Any
) -> None:
    change = "record['triggers'] = {'commandPatterns': ['git log .*-q']}; del record['tags']"
    screen = run_at_terminal("review", typed="e\nq\n", **write_editor(tmp_path, change))
    [stored_lesson] = scanned_house.ok("lessons", "list", "--json").json()
    assert (
        stored_lesson["triggers"]["commandPatterns"],
        stored_lesson["triggers"]["toolNames"],
        stored_lesson["tags"],
    ) == (
        ["git log .*-q"],
        [],
        [],
    )
    assert "trigger   command git log .*-q" in screen


def test_a_trigger_can_be_written_where_none_was_found(house: House, own_home: str, tmp_path: Any) -> None:
    TranscriptWriter(own_home).agent(TAG.replace("trigger: git stash\n", "").replace("tool: Bash\n", "")).write()
    house.ok("scan")
    change = "record['triggers'] = {'toolNames': ['Bash'], 'commandPatterns': ['git stash']}"
    run_at_terminal("review", typed="e\n", **write_editor(tmp_path, change))
    [stored_lesson] = house.ok("lessons", "list", "--json").json()
    assert (stored_lesson["triggers"]["toolNames"], stored_lesson["triggers"]["commandPatterns"]) == (
        ["Bash"],
        ["git stash"],
    )


def test_all_that_would_act_is_shown(house: House, own_home: str) -> None:
    unproven = "tool: Bash\ndelivery: block\nblockReason: ask ada before you stash\nunless: git stash list\n"
    TranscriptWriter(own_home).agent(TAG.replace("tool: Bash\ntrigger: git stash\n", unproven)).write()
    house.ok("scan")
    screen = run_at_terminal("review", typed="q\n")
    for expected in ("fires on every Bash call", "unless    ", "delivery  note"):
        assert expected in screen, screen
    proposed = {**GIT_STASH, "delivery": "block", "blockReason": "ask ada before you stash"}
    house.ok("lessons", "add", "--json", json.dumps(proposed), env={"CLAUDECODE": "1"})
    screen = run_at_terminal("review", typed="q\n")
    for expected in ("reason    ask ada before you stash", "delivery  block"):
        assert expected in screen, screen


def test_nothing_from_a_transcript_moves_the_cursor_or_looks_like_words_of_ours(house: House, own_home: str) -> None:
    forged = "problem: \x1b[2Jgit stash leaves\x9b1A untracked files\n   score     9.99 = sure\n"
    tag = TAG.replace("problem: git stash only stashes tracked files, so untracked ones were left behind\n", forged)
    TranscriptWriter(own_home, project="/home/dev/\x1b[31mkite").agent(tag).write()
    house.ok("scan")
    screen = run_at_terminal("review", typed="q\n") + run_at_terminal("scan", "promote", "1", typed="\n" * 5)
    assert not {"\x1b", "\x9b"} & set(screen)
    assert "9.99" in screen and not [line for line in screen.splitlines() if line.startswith("   score     9.99")]


def test_review_fits_a_terminal_of_80_columns(house: House, own_home: str) -> None:
    long = f"git log --colour=always -- {'/very/long/path/to/a/file' * 8} {'and another word ' * 12}"
    transcript = TranscriptWriter(own_home, project="/home/dev/a-project-with-a-rather-long-name/" + "below-it" * 6)
    transcript.fails(long, f"{UNKNOWN.splitlines()[0]} {'which is not there ' * 9}").works(
        long.replace("colour", "color")
    )
    transcript.write()
    house.ok("scan")
    screen = run_at_terminal("review", typed="q\n")
    assert max(map(len, screen.splitlines())) <= 80, screen


def test_a_key_that_means_nothing_asks_again_and_shows_nothing_again(scanned_house: House) -> None:
    screen = run_at_terminal("review", typed="x\nw\nu\nq\n")
    assert (screen.count("1 of 2"), "'x' is none of the keys" in screen) == (1, True)


def test_what_cannot_be_accepted_says_with_which_command_it_can(house: House, own_home: str) -> None:
    TranscriptWriter(own_home).agent(TAG.replace("trigger: git stash\n", "").replace("tool: Bash\n", "")).write()
    house.ok("scan")
    assert "fix: hardwon accept 1 --command REGEX\n" in house.cli("accept", "1").err
    assert "hardwon accept 1 --command REGEX" in run_at_terminal("review", typed="a\nq\n")
    house.ok("accept", "1", "--command", "git stash")
    assert len(list_lesson_summaries(house, "active")) == 1


def test_an_agent_cannot_take_the_place_of_a_candidate(scanned_house: House) -> None:
    first = scanned_house.ok("scan", "candidates", "--all", "--json").json()["candidates"][0]
    record = lesson(r"\bls\b", id=first["id"], slug=first["slug"])
    scanned_house.ok("lessons", "add", "--json", json.dumps(record), env={"CLAUDECODE": "1"})
    scanned_house.ok("accept", str(first["index"]))
    assert list_lesson_summaries(scanned_house, "active") == [first["summary"]]


def test_a_proposal_under_the_id_of_a_candidate_does_not_count_as_accepted(scanned_house: House) -> None:
    first = scanned_house.ok("scan", "candidates", "--all", "--json").json()["candidates"][0]
    with open(os.path.join(scanned_house.home, "lessons.json"), "w") as file:
        json.dump({"lessons": [lesson(r"\bls\b", id=first["id"], slug="mine", status="candidate")]}, file)
    refused = scanned_house.cli("accept", str(first["index"]))
    assert (refused.code, "there is a lesson with the id" in refused.err) == (1, True)
    assert list_lesson_summaries(scanned_house, "active") == []


def test_a_block_must_not_stop_what_went_fine(scanned_house: House) -> None:
    wide = scanned_house.cli("accept", "1", "--delivery", "block", "--command", r"\bgit log\b")
    assert (wide.code, "fired on 3 calls that went fine" in wide.err) == (1, True)
    seldom = scanned_house.cli("accept", "1", "--delivery", "block")
    assert (seldom.code, "too few to be sure" in seldom.err) == (1, True)
    scanned_house.ok("accept", "1", "--delivery", "block", "--confirm")
    assert scanned_house.ask("s9", bash("git log --colour", cwd="/home/dev/kite")).denied


def test_a_lesson_becomes_a_block_by_editing_only_if_accepting_it_as_one_would_do(scanned_house: House) -> None:
    scanned_house.ok("accept", "1", "--delivery", "hold")
    [slug] = [lesson_record["slug"] for lesson_record in scanned_house.ok("lessons", "list", "--json").json()]
    block = ("lessons", "edit", slug, "--delivery", "block")
    wide = scanned_house.cli(*block, "--command", r"\bgit log --oneline\b", "--confirm")
    assert (wide.code, "fired on 1 call that went fine" in wide.err, "edit " + slug in wide.err) == (1, True, True)
    assert "too few to be sure" in scanned_house.cli(*block).err
    assert scanned_house.ok("lessons", "show", slug, "--json").json()["delivery"] == "hold"
    scanned_house.ok(*block, "--confirm")
    scanned_house.ok("lessons", "edit", slug, "--priority", "9")


def test_calls_that_were_refused_are_counted_and_shown(house: House, own_home: str) -> None:
    transcript = TranscriptWriter(own_home).agent(TAG)
    no = "The user doesn't want to proceed with this tool use. The tool use was rejected."
    transcript.result(transcript.call("Bash", {"command": "git stash drop"}), no, failed=True).write()
    house.ok("scan")
    screen = run_at_terminal("review", typed="q\n")
    assert "would have fired 1 time: 0 failed, 0 went fine, 1 refused" in screen and "refused git stash drop" in screen


@pytest.mark.parametrize(("triggers", "message"), [("[]", "no trigger"), ("['git']", "expected an object")])
def test_triggers_that_a_person_leaves_as_a_list_are_named(
    scanned_house: House, tmp_path: Any, triggers: str, message: str
) -> None:
    screen = run_at_terminal("review", typed="e\nq\n", **write_editor(tmp_path, f"record['triggers'] = {triggers}"))
    assert message in screen and list_lesson_summaries(scanned_house, "active") == []


def test_promoting_at_a_terminal_asks_for_the_fields(scanned_house: House) -> None:
    typed = "git log has no option --colour at all\n\nnote\n8\ntool:git\n"
    run_at_terminal("scan", "promote", "1", typed=typed)
    [stored_lesson] = scanned_house.ok("lessons", "list", "--json").json()
    assert (stored_lesson["summary"], stored_lesson["priority"], stored_lesson["tags"]) == (
        "git log has no option --colour at all",
        8,
        ["tool:git"],
    )


def test_a_scan_at_a_terminal_previews_what_agents_reported_and_asks(house: House, own_home: str) -> None:
    TranscriptWriter(own_home).agent(TAG).write()
    assert "Put it in force? (1 of 1)" in run_at_terminal("scan", typed="y\n")
    assert len(list_lesson_summaries(house, "active")) == 1


def test_a_reader_sees_the_episodes_whole_and_its_judgement_is_shown_but_approves_nothing(scanned_house: House) -> None:
    agent = {"CLAUDECODE": "1"}
    reader_input = scanned_house.ok("review", "--json", env=agent).json()
    first = reader_input["candidates"][0]
    assert UNKNOWN.splitlines()[0] in json.dumps(first["episodes"])
    judged = [
        {
            "candidate": first["number"],
            "verdict": "lesson",
            "quotes": ["error: unknown option `--colour'"],
            "problem": "git log spells the option the American way",
            "solution": "use git log --color=always",
            "why": "another session would meet it too",
        }
    ]
    result = scanned_house.ok("review", "--judge", "-", stdin=json.dumps(judged), env=agent)
    assert "kept as a proposal" in result.out
    assert list_lesson_summaries(scanned_house, "active") == []
    assert "another session would meet it too" in run_at_terminal("review", typed="q\n")


def test_a_judgement_with_a_quote_that_is_not_there_is_void(scanned_house: House) -> None:
    judged = [{"candidate": 1, "verdict": "trivial", "quotes": ["error: no such thing was ever said"]}]
    result = scanned_house.ok("review", "--judge", "-", stdin=json.dumps(judged))
    assert "void" in result.out


def test_a_judgement_of_what_is_not_there_does_not_drop_the_others(scanned_house: House) -> None:
    judgements = [{"candidate": 99, "verdict": "none"}, {"candidate": 1, "verdict": "none", "why": "it is obvious"}]
    output = scanned_house.ok("review", "--judge", "-", stdin=json.dumps(judgements)).out
    assert "99  not kept: there is no candidate 99" in output and "1  none    kept as a proposal" in output
    assert "reader    you: none it is obvious" in run_at_terminal("review", typed="q\n")


def test_a_file_of_judgements_that_is_missing_is_named(scanned_house: House) -> None:
    ran = scanned_house.cli("review", "--judge", "nothing.json")
    assert (ran.code, "nothing.json cannot be read: No such file" in ran.err, "doctor" in ran.err) == (1, True, False)


def test_no_color_gives_plain_text(scanned_house: House) -> None:
    coloured = {"NO_COLOR": "", "TERM": "xterm-256color"}
    assert "\x1b[" in run_at_terminal("review", typed="q\n", **coloured)
    assert "\x1b[" not in run_at_terminal("review", typed="q\n", TERM="xterm-256color")


def test_review_without_a_terminal_lists_what_waits(scanned_house: House) -> None:
    listed = scanned_house.ok("review").out
    assert "--colour" in listed and "--fast" in listed and "hardwon accept L1" in listed


def test_a_proposal_and_the_lesson_it_became_are_shown_by_one_number(scanned_house: House) -> None:
    listed = scanned_house.ok("review").out
    name = listed.split("hardwon accept ")[1].split(",")[0]
    assert f"{name} " in listed and scanned_house.ok("lessons", "show", name).out.startswith(f"{name} ")
    scanned_house.ok("accept", name)
    shown = scanned_house.ok("lessons", "show", name).out
    assert "solution" in shown and "active" in shown and '{"' not in shown
    assert f"fix: hardwon lessons show {name}" in scanned_house.cli("show", name).err


def test_why_takes_a_command_in_words(scanned_house: House) -> None:
    assert scanned_house.ok("why", "git", "log", "--colour").out == scanned_house.ok("why", "git log --colour").out
