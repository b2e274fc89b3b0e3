from __future__ import annotations

import pytest

from hardwon.distil.observations import observe_turn
from hardwon.distil.summaries import find_next_steps, has_work, summarise_session
from hardwon.distil.tool_actions import CheckResult, parse_check_result
from hardwon.text.characters import estimate_tokens
from hardwon.types import Call, Summary, Turn, replace
from tests.support.made_up_sessions import Session, bash, bash_by_hook, build_sessions, call, edit, read, turn

ALL = build_sessions()
# A message and the steps it states, in order.
STATED = (
    ("It works.\n\nNext: change the landing.", ["change the landing."]),
    ("TODO: write the changelog", ["write the changelog"]),
    ("Remaining: the docs and the tests.", ["the docs and the tests."]),
    ("What's left: rename the tail.", ["rename the tail."]),
    ("Next steps: run the wind tests.", ["run the wind tests."]),
    ("## Next steps\n\n1. Add the tail\n2. Paint it\n\nThat is all.", ["Add the tail", "Paint it"]),
    ("**What's left**\n- [x] the string\n- [ ] the tail of the kite", ["the tail of the kite"]),
    ("Still open:\n- the lamp is dim", ["the lamp is dim"]),
    ("Next up per PLAN.md: **the second kite**.", ["the second kite."]),
    (
        "Loose end: the commit is local; push whenever you're ready.",
        ["the commit is local; push whenever you're ready."],
    ),
    ("Try again:\n\n```bash\n./run.sh\n```\n", ["Try again: ./run.sh"]),
    ("I'd add tests for the tail next.", ["I'd add tests for the tail next."]),
    (
        "After the merge is deployed, rerun the workflow by hand.",
        ["After the merge is deployed, rerun the workflow by hand."],
    ),
    (
        "You should run `conda activate kite` in your terminal.",
        ["You should run `conda activate kite` in your terminal."],
    ),
    ("The page is ready to post.", ["The page is ready to post."]),
    ("The tail is not yet implemented.", ["The tail is not yet implemented."]),
    ("## Out of scope\n\n- Night flights need lamps.", ["Night flights need lamps."]),
    ("The branch is ready. Want me to open a PR for it?", ["Want me to open a PR for it?"]),
    ("If this still fails, we can build it outside.", ["If this still fails, we can build it outside."]),
    (
        "Three branches are left over. Want me to delete them?",
        ["Three branches are left over. Want me to delete them?"],
    ),
)
NOT_STATED = (
    "The kite is done and all tests pass.",
    "The remaining files are pre-existing changes unrelated to this fix.",
    "Next.js rewrites these requests:\n- all assets load on the first try",
    "Nothing else is left to do.",
    "Want me to explain it?",
    "Would you like me to continue?",
    "Let me know if you have questions.",
    "The worker was not deployed from that commit.",
    "Now let me continue with the remaining work.",
    "If the tail is out of scope, say so.",
    "Deferred loading works.",
    "Should the tail be done?",
    "Pending state is kept in:\n- the string",
    "The todo count is right: the tail todo is already done.",
    "All tests pass.\n\nReady to commit.",
    "Everything is ready for review.",
    "The PR body flags the longer string as a follow-up.",
    "Here's the check, with the one correction worth fixing before you file.",
)


def summarise_turns(*turns: Turn) -> Summary:
    return summarise_session(
        turns, [observation for session_turn in turns for observation in observe_turn(session_turn)]
    )


@pytest.mark.parametrize("session", ALL, ids=lambda session: session.name)
def test_each_part_has_the_expected_facts(session: Session) -> None:
    summary = summarise_turns(*session.turns)
    parts = {"learned": summary.learned, "completed": summary.completed, "next_steps": summary.next_steps}
    missing = [(part, fact) for part, text in parts.items() for fact in getattr(session, part) if fact not in text]
    assert missing == []
    assert summary.request.startswith(session.turns[0].prompt[:20])


def test_observations_and_summary_are_at_most_a_tenth_of_the_session() -> None:
    raw_tokens = distilled_tokens = 0
    for session in ALL:
        raw_tokens += sum(
            estimate_tokens(f"{session_turn.prompt}{tool_call.input}{tool_call.response}")
            for session_turn in session.turns
            for tool_call in session_turn.calls
        )
        observations = [observation for session_turn in session.turns for observation in observe_turn(session_turn)]
        summary = summarise_session(session.turns, observations)
        distilled_tokens += sum(
            estimate_tokens(
                "".join((observation.title, observation.subtitle, observation.narrative, *observation.facts))
            )
            for observation in observations
        )
        distilled_tokens += sum(estimate_tokens(text) for text in (summary.request, summary.learned, summary.completed))
        distilled_tokens += estimate_tokens(summary.investigated + summary.next_steps)
    assert distilled_tokens <= raw_tokens / 10


@pytest.mark.parametrize("outcome", ["denied", "refused", "interrupted", ""])
def test_a_call_that_did_not_end_neither_passed_nor_failed_nor_changed_a_file(outcome: str) -> None:
    check = call("Bash", {"command": "pytest --parallel 4 tests"}, "", outcome)
    change = replace(edit("src/token.py", "a = 1", "a = 2"), outcome=outcome)
    commit = call("Bash", {"command": "git commit -m x"}, "[main 1a2b3c4] x\n 1 file changed", outcome)
    passed = bash("pytest -n 2 tests", "7 passed in 0.1s")
    finished_turn = turn("run the tests", [check, change, commit, passed], answer="They pass.")
    observed_lines = [
        line
        for observation in observe_turn(finished_turn)
        for line in (observation.title, *observation.facts, *observation.files_modified)
    ]
    summary = summarise_turns(finished_turn)
    text = "\n".join([*observed_lines, summary.completed, summary.learned, summary.next_steps])
    assert "`pytest -n 2 tests`" in text
    assert "--parallel 4 tests` passed" not in text and "Passing at the end: `pytest --parallel" not in text
    assert "token.py" not in text.replace("A person refused `src/token.py`", "")
    assert "1a2b3c4" not in text and "fails" not in text


def test_an_answer_to_a_long_text_without_calls_is_no_work() -> None:
    instruction = "Summarise the conversation below in three lines."
    headless_turn = turn(
        f"{instruction} {'The kite needs a longer tail. ' * 50}", [], answer="Added `tail()` to src/tail.py."
    )
    assert not has_work([headless_turn])
    assert has_work([headless_turn, headless_turn])
    assert has_work([turn("what is a tail for?", [], answer="It keeps the kite steady.")])
    assert has_work([turn("what does the tail do?", [read("src/tail.py")], answer="It balances the kite.")])


def test_a_summary_keeps_its_key_as_the_session_continues() -> None:
    first = ALL[0].turns[0]
    early, late = summarise_turns(first), summarise_turns(*ALL[0].turns)
    assert early.key == late.key != summarise_turns(replace(first, name="other")).key
    assert "1a2b3c4" not in early.completed
    assert late.at > early.at


def test_unknown_parts_stay_empty() -> None:
    summary = summarise_turns(turn("hi", answer="Hello!"))
    assert (summary.request, summary.investigated, summary.learned, summary.next_steps) == ("hi", "", "", "")
    empty = summarise_session((), ())
    assert (empty.request, empty.completed, empty.key) == ("", "", "")


def test_agreement_and_routine_commands_are_no_request() -> None:
    prompts = ["/clear", "Build a kite tail", "yes", "go ahead and do it", "please commit and push", "Paint it red"]
    summary = summarise_turns(*(turn(words, number=number) for number, words in enumerate(prompts, 1)))
    assert summary.request == "Build a kite tail\nPaint it red"


def test_of_many_requests_the_first_last_and_largest_are_kept() -> None:
    turns = [turn(f"Build part{number} of kite{number} from wood{number}", number=number) for number in range(60)]
    turns[30] = replace(turns[30], calls=tuple(edit(f"src/{number}.py", "a", "b") for number in range(5)))
    lines = summarise_turns(*turns).request.split("\n")
    assert (lines[0], lines[-1], len(lines)) == (turns[0].prompt, turns[-1].prompt, 20)
    assert turns[30].prompt in lines


def test_a_repeated_topic_is_listed_once() -> None:
    prompts = [
        "Build a kite with a long red tail",
        "why is the tail of the kite not long and red?",
        "Now the wind harp",
    ]
    summary = summarise_turns(*(turn(words, number=number) for number, words in enumerate(prompts, 1)))
    assert summary.request == "Build a kite with a long red tail\nNow the wind harp"


def test_a_request_is_extended_until_it_names_something() -> None:
    prompt = "can you look at\n\n- docs/kites.md\n- docs/tails.md\n\nand do what they say"
    assert summarise_turns(turn(prompt)).request == "can you look at docs/kites.md docs/tails.md"


@pytest.mark.parametrize(
    ("final_message", "completed"),
    [
        ("I've rewritten `fly` in kite.py.", "“I've rewritten `fly` in kite.py.”"),
        ("I've rewritten `fly` for the wind.", "“I've rewritten `fly` for the wind.”\nChanged kite.py"),
        ("A tagline:\n\n> Fly `kite.py` without a local string.", "Changed kite.py"),
        ("You can now run `fly` in kite.py.", "Changed kite.py"),
        ("All tests pass.", "Changed kite.py"),
        ("Key facts about kite.py that was built (server-side)", "Changed kite.py"),
    ],
)
def test_completed_has_changes_and_the_agents_claims_about_them(final_message: str, completed: str) -> None:
    assert (
        summarise_turns(turn("Build it", [edit("kite.py", "a", "def fly(): ...")], final_message)).completed
        == completed
    )


def test_what_a_review_says_of_the_reviewed_code_is_not_completed() -> None:
    report = "`fly` in kite.py now checks the wind."
    reviewed = summarise_turns(
        turn("Review the branch of the kite", [bash("git diff main", "+def fly(): ...")], report)
    )
    worked = summarise_turns(turn("Check the wind in the kite", [edit("kite.py", "a", "def fly(): ...")], report))
    assert report not in reviewed.completed and report in worked.completed


def test_a_fixed_failure_names_the_tests_that_its_title_has_no_room_for() -> None:
    names = ["test_the_tail_of_the_kite_holds_in_a_storm", "test_the_ribbon_of_the_kite_holds_in_a_storm"]
    output = "\n".join(f"FAILED tests/test_tail.py::{name} - AssertionError: torn" for name in names)
    calls = [
        bash("pytest tests/test_tail.py", f"{output}\n2 failed in 0.1s", code=1),
        edit("tail.py", "silk", "nylon"),
        bash("pytest tests/test_tail.py", "2 passed in 0.1s"),
    ]
    learned = summarise_turns(turn("Make the tail hold", calls, "Done.")).learned
    assert "2 failed" in learned and learned.endswith("edited tail.py; passes")


def test_work_in_the_middle_of_a_session_is_listed() -> None:
    final_messages = [
        "Added `fly` to kite.py.",
        "Moved `land` to ground.py.",
        "Renamed `fly` to `soar` in kite.py.",
        "Bye.",
    ]
    calls = [
        [edit("kite.py", "a", "def fly(): ..."), bash("./try fly")],
        [edit("ground.py", "a", "def land(): ..."), edit("ground.py", "b", "c"), bash("./try land")],
        [edit("kite.py", "fly", "def soar(): ... # fly")],
        [],
    ]
    turns = [
        turn(f"step {number}", *rest, number) for number, rest in enumerate(zip(calls, final_messages, strict=True), 1)
    ]
    assert summarise_turns(*turns).completed.split("\n")[:3] == [f"“{words}”" for words in final_messages[:3]]


def test_remaining_work_named_by_the_agent_is_the_next_step() -> None:
    final_message = "All parts are built. The tail still needs to be painted. Would you like me to do that now?"
    summary = summarise_turns(turn("Build a kite", [edit("kite.py", "a", "b")], final_message))
    assert summary.next_steps == "The tail still needs to be painted."
    assert summarise_turns(turn("Plan it", [], "The todo now frames this as a matter of wind.")).next_steps == ""
    assert summary.completed == "Changed kite.py"


def test_open_items_of_the_agents_todo_list_are_the_next_steps() -> None:
    calls = [
        call("TaskCreate", {"subject": "Paint it"}, {"task": {"id": "1", "subject": "Paint it"}}),
        call("TaskCreate", {"subject": "Fly it"}, {"task": {"id": "2", "subject": "Fly it"}}),
        call("TaskUpdate", {"taskId": "1", "status": "completed"}, {"success": True}),
    ]
    assert summarise_turns(turn("Build a kite", calls)).next_steps == "Open: Fly it"
    todos = [{"content": "Paint it", "status": "completed"}, {"content": "Fly it", "status": "pending"}]
    assert summarise_turns(turn("Build a kite", [call("TodoWrite", {"todos": todos})])).next_steps == "Open: Fly it"


def test_a_check_that_passes_later_is_no_next_step() -> None:
    failing = bash("go test ./wind -run TestGust", "--- FAIL: TestGust (0.00s)\nFAIL\tkite/wind\t0.1s", code=1)
    passing = bash("go test ./...", "ok  \tkite/wind\t0.1s\nok  \tkite/tail\t0.1s")
    assert "TestGust" in summarise_turns(turn("test it", [failing])).next_steps
    assert summarise_turns(turn("test it", [failing, passing])).next_steps == ""


def test_files_that_were_only_read_are_not_listed() -> None:
    calls = [
        read("a.py"),
        edit("a.py", "x", "y"),
        bash_by_hook("ls"),
        call("WebFetch", {"url": "https://kites.example/a"}),
    ]
    summary = summarise_turns(turn("mend it", calls))
    assert (summary.investigated, summary.completed) == ("Looked up https://kites.example/a", "Changed a.py")


def test_a_bare_fail_line_of_go_is_not_the_failed_package() -> None:
    assert parse_check_result("FAIL\nFAIL\tkite/wind [build failed]\nFAIL\n") == CheckResult("FAIL kite/wind", True)


def test_a_check_whose_exit_code_is_hidden_and_that_complains_is_not_called_passing() -> None:
    complaint = "Saved working directory\nkite/wind.go:24:9: possible misuse of a pointer\nDropped the stash"
    assert "go vet" not in summarise_turns(turn("vet it", [bash("go vet ./...; git stash pop", complaint)])).completed
    assert "go vet" in summarise_turns(turn("vet it", [bash("go vet ./...; git stash pop", "Dropped")])).completed


def test_a_stated_step_is_found_in_every_form() -> None:
    for message, steps in STATED:
        assert [step.text for step in find_next_steps(message)] == steps, message


def test_a_sentence_that_only_resembles_a_step_is_ignored() -> None:
    for message in NOT_STATED:
        assert find_next_steps(message) == [], message


def test_firm_steps_come_before_offers_and_states() -> None:
    message = "Nothing is pushed. Want me to push the branch? You should run the wind tests first."
    steps = find_next_steps(message)
    assert steps[0].is_firm and steps[-1].is_state
    assert any(step.is_offer for step in steps)


def test_what_a_report_calls_uncommitted_is_no_step_and_a_recommendation_is() -> None:
    message = (
        "## Overview\n\nUncommitted additions: a `--storm` flag and a longer ribbon for the light kite.\n\n"
        "## Recommendation\n\nAddress the knot of the ribbon before merging."
    )
    assert [step.text for step in find_next_steps(message)] == ["Address the knot of the ribbon before merging."]
    assert [step.text for step in find_next_steps("The ribbon change is still uncommitted.")] != []


def test_a_commit_without_a_printed_hash_is_completed() -> None:
    calls = [edit("src/tail.py", "2", "4"), bash('git add . && git commit -qm "Sew a longer tail"')]
    assert "Committed “Sew a longer tail”" in summarise_turns(turn("Sew it", calls)).completed


@pytest.mark.parametrize(
    ("output", "is_step"),
    [
        ("FAIL: test_tail\n1 failed", True),
        ("Error: listen EPERM: operation not permitted 127.0.0.1\n1 failed", False),
        ("", False),
    ],
)
def test_a_check_that_failed_by_its_surroundings_is_no_next_step(output: str, is_step: bool) -> None:
    failing_check = call("Bash", {"command": "npm test"}, output, "failed")
    assert ("npm test" in summarise_turns(turn("Sew it", [failing_check])).next_steps) == is_step


def test_a_check_that_the_last_message_calls_clean_is_no_next_step() -> None:
    calls = [bash("npm run lint", "Found 1 error.", code=1), bash("npm run lint:fix", "Fixed 1 file.")]
    assert summarise_turns(turn("Sew it", calls, "All tests pass (12) and lint is clean.")).next_steps == ""


@pytest.mark.parametrize(
    ("command", "output"),
    [("npm ci", "added 12 packages"), ("npm test -- tail", "No tests found, exiting with code 0")],
)
def test_an_installation_and_a_run_without_tests_are_no_passing_checks(command: str, output: str) -> None:
    assert "Passing" not in summarise_turns(turn("Sew it", [bash(command, output)])).completed


def test_what_the_next_prompt_takes_back_is_not_completed() -> None:
    first_turn = turn("Sew it", [edit("src/tail.py", "2", "4")], "Added a tail of 4 m to `src/tail.py`.", 1)
    second_turn = turn("sorry, I meant 6 m", [edit("src/tail.py", "4", "6")], "Added 2 m to `src/tail.py`.", 2)
    completed = summarise_turns(first_turn, second_turn).completed
    assert "4 m" not in completed and "2 m" in completed


def test_the_closing_message_is_told_by_two_results() -> None:
    answer = "Added a tail to `src/tail.py`.\n\nMoved the knots of `src/knots.py` to its end.\n\nThe wind is strong."
    calls = [edit("src/tail.py", "2", "4"), edit("src/knots.py", "2", "4")]
    completed = summarise_turns(turn("Sew it", calls, answer)).completed
    assert "“Added a tail to `src/tail.py`.”" in completed
    assert "“Moved the knots of `src/knots.py` to its end.”" in completed


def test_the_answer_to_why_is_learned_even_if_it_refers_to_the_question() -> None:
    answer = "It swayed in the wind because the knots were loose."
    assert answer in summarise_turns(turn("why did the kite sway?", [read("src/tail.py")], answer)).learned
    assert answer not in summarise_turns(turn("look at the kite", [read("src/tail.py")], answer)).learned


def test_a_cause_said_twice_is_learned_once_and_a_finding_that_may_be_fixed_is_not() -> None:
    cause = "The kite sways because the knots of `src/tail.py` are loose in the wind."
    finding = "High: the kite falls because `src/reel.py` silently drops the string of the kite."
    turns = [
        turn("look at the kite", [read("src/tail.py")], cause, 1),
        turn("look at the reel", [read("src/reel.py")], finding, 2),
        turn("mend it", [edit("src/tail.py", "2", "4")], f"Done. {cause}", 3),
    ]
    learned = summarise_turns(*turns).learned
    assert learned.count("knots") == 1 and "reel.py" not in learned


def test_edits_do_not_mend_a_missing_program() -> None:
    torn = "--- FAIL: TestTail (0.00s)\n    tail_test.go:4: torn\nFAIL\tkite/tail\t0.1s"
    calls = [
        bash("go test ./...", "mise WARN missing: go\nzsh:1: command not found: go", code=127),
        edit("tail.go", "wool", "silk"),
        bash("go test ./...", torn, code=1),
        edit("tail.go", "silk", "nylon"),
        bash("go test ./...", "ok  \tkite/tail\t0.1s"),
    ]
    learned = summarise_turns(turn("Make the tail hold", calls, "Done.")).learned
    assert "command not found" not in learned


def test_a_state_that_later_work_may_have_changed_is_not_completed() -> None:
    first_turn = turn("Sew it", [edit("src/tail.py", "2", "4")], "Restored the working tree of `src/tail.py`.", 1)
    second_turn = turn("Sew more", [edit("src/tail.py", "4", "6")], "Added 2 m to `src/tail.py`.", 2)
    assert "working tree" not in summarise_turns(first_turn, second_turn).completed
    assert "working tree" in summarise_turns(first_turn).completed


def test_words_about_a_commit_that_is_told_are_left_out() -> None:
    commit = bash('git commit -am "Sew a longer tail"', "[main 1a2b3c4] Sew a longer tail\n 1 file changed")
    answer = "Committed the longer tail of the kite as `1a2b3c4` and pushed it with all of its knots to `main`."
    completed = summarise_turns(turn("Sew it", [edit("src/tail.py", "2", "4"), commit], answer)).completed
    assert "Committed 1a2b3c4" in completed and "knots" not in completed


def test_a_fix_is_told_with_the_failures_and_edits_of_its_reason_only() -> None:
    calls = [
        bash("make test", "tests/a.py:4: AssertionError: the tail is torn", code=2),
        edit("src/tail.py", "a", "b"),
        bash("make test", "9 passed in 1s"),
        bash("make test", "tests/a.py:9: AssertionError: the reel is stuck", code=2),
        edit("src/reel.py", "a", "b"),
        bash("make test", "9 passed in 1s"),
        bash_by_hook("git push", "done"),
    ]
    learned = summarise_turns(turn("Make it hold", calls, "Done.")).learned
    assert "`make test` failed: " in learned and learned.endswith("; edited reel.py; passes")
    assert "reel is stuck" in learned and "tail" not in learned


PASSED = bash("make test", "9 passed in 1s")
LATER_STEPS = {
    "nothing": ([], True),
    "an edit of code": ([edit("src/reel.py", "a", "b")], False),
    "an edit of prose": ([edit("docs/reel.md", "a", "b")], True),
    "another branch": ([bash("git switch main", "Switched to branch 'main'")], False),
    "a new branch": ([bash("git switch -c reel", "Switched to a new branch 'reel'")], True),
    "a pull that brings nothing": ([bash("git pull", "Already up to date.")], True),
    "a message that names a merge": ([bash('git commit -m "Merge both reels"', "[main 1a2b3c4] Merge")], True),
    "a moved file": ([bash("git mv src/reel.py src/spool.py")], False),
    "a probe made and removed": ([bash("cp /tmp/probe.py src/probe.py; python src/probe.py; rm src/probe.py")], True),
    "changes put away and back": ([bash("git stash && ./fly; git stash pop", "Dropped")], True),
    "another folder": ([bash("cd /home/dev/harp && ./play")], False),
    "a part of the folder": ([bash("cd src && ./fly")], True),
    "a check of the same kind that fails": ([bash("make test SLOW=1", "1 failed in 1s", code=2)], False),
}


@pytest.mark.parametrize(("later_calls", "is_told"), LATER_STEPS.values(), ids=LATER_STEPS)
def test_a_check_is_told_as_passing_only_if_nothing_changed_since(later_calls: list[Call], is_told: bool) -> None:
    completed = summarise_turns(turn("Sew it", [PASSED, *later_calls], "Done.")).completed
    assert ("Passing at the end: `make test`" in completed) == is_told


@pytest.mark.parametrize(
    ("prompt", "is_told"),
    [("now the docs", True), ("the build is red on the server", False), ("still fails", False)],
)
def test_a_check_is_not_told_as_passing_after_a_person_reports_a_failure(prompt: str, is_told: bool) -> None:
    turns = [turn("Sew it", [edit("src/reel.py", "a", "b"), PASSED], "Done.", 1), turn(prompt, [], "I see.", 2)]
    assert ("Passing at the end" in summarise_turns(*turns).completed) == is_told


def test_a_check_that_another_one_includes_is_not_told_twice() -> None:
    calls = [bash("make lint && make test", "9 passed in 1s"), bash("make lint", "0 issues")]
    assert summarise_turns(turn("Sew it", calls, "Done.")).completed == (
        "Passing at the end: `make lint && make test` (9 passed)"
    )


def list_requests(*prompts: str) -> list[str]:
    turns = [turn(prompt, number=number) for number, prompt in enumerate(prompts, 1)]
    return summarise_turns(*turns).request.split("\n")


def test_routine_steps_with_git_are_no_request_beside_others() -> None:
    prompts = [
        "check out main, pull the latest",
        "Sew a longer tail",
        "stash the sketches and stuff",
        "push it to main",
    ]
    assert list_requests(*prompts) == ["Sew a longer tail"]
    assert list_requests("check out main, pull the latest") == ["check out main, pull the latest"]


def test_a_request_is_told_without_the_one_that_it_replaces() -> None:
    prompts = [
        "Move the knots to the tail of the kite",
        "ok, change in plan: all ribbons go on the reel",
        "Paint it red",
    ]
    assert list_requests(*prompts) == prompts[1:]
    renamed = "we renamed the shop once more from `kites/silk` to `kites/nylon`, mend the labels"
    assert list_requests("the shop is at kites/silk since today", renamed) == [renamed]


def test_text_pasted_behind_a_colon_or_as_a_heading_is_not_what_a_person_asked() -> None:
    pasted = "can you check this tweet:\n\nMost kites fall because their tails are too short."
    heading = "### Does the kite fly at night?\n\nIt flies by day.\n\nCan we ask instead whether it has any lamps?"
    assert list_requests("Sew a longer tail", pasted, heading) == [
        "Sew a longer tail",
        "Can we ask instead whether it has any lamps?",
    ]
    worked = turn("Do this:\n\nSew a longer tail", [edit("src/tail.py", "a", "b")])
    assert summarise_turns(worked).request == "Do this: Sew a longer tail"


def test_among_many_requests_short_questions_that_were_only_answered_are_left_out() -> None:
    orders = [f"Build part{number} of kite{number} from wood{number}" for number in range(12)]
    aside, of_code = "is nylon stronger than silk?", "where is flyHigh used by anybody?"
    assert list_requests(*orders, aside, of_code) == [*orders, of_code]
    assert list_requests(*orders[:2], aside) == [*orders[:2], aside]


def test_a_slash_command_that_names_a_task_is_a_request() -> None:
    assert list_requests("/kites:check-tails", "/clear", "Paint the reel red") == [
        "/kites:check-tails",
        "Paint the reel red",
    ]


def test_what_later_work_or_a_rename_overtook_is_not_learned() -> None:
    recommended = turn("silk or nylon?", [], "My recommendation is silk, because `tail.py` is light.", 1)
    moved = "The labels of `shop.py` now point to kites/silk, confirmed by a look at `labels.txt`."
    named = turn("label it", [edit("shop.py", "a", "kites/silk")], moved, 2)
    last = turn("Take nylon: we renamed the shop from kites/silk to kites/nylon", [edit("shop.py", "a", "b")], "Ok.", 3)
    assert moved in summarise_turns(recommended, named).learned
    learned = summarise_turns(recommended, named, last).learned
    assert "recommendation" not in learned and "now point" not in learned
    assert "recommendation" in summarise_turns(recommended).learned


def test_an_opened_pull_request_is_told_once() -> None:
    opened = bash("gh pr create --title 'Sew' --body x", "https://github.com/dev/kite/pull/12\n")
    answer = "Opened the PR: dev/kite#12 (https://github.com/dev/kite/pull/12)"
    completed = summarise_turns(turn("Sew it", [edit("tail.py", "a", "b"), opened], answer)).completed
    assert completed.count("pull/12") == 1


def test_of_a_list_of_results_those_that_name_what_was_asked_for_come_first() -> None:
    answer = "\n".join(
        [
            "- Added a bell.",
            "- Added a lamp.",
            "- Added a door to the basket of the kite, with hinges and a lock that opens from both of its sides.",
            "- Added a longer silk tail of six metres, which holds the kite steady in every wind up to force seven.",
            "- Added a window.",
        ]
    )
    calls = [edit("src/parts.py", "a", "b")]
    completed = summarise_turns(turn("Sew a longer silk tail that holds", calls, answer)).completed
    assert completed.startswith("“Added a longer silk tail")


def test_a_step_that_is_a_piece_of_another_one_is_told_once() -> None:
    steps = "a knot that holds in a storm, a test that flies the kite in rain, and a lamp for the tail"
    (step,) = find_next_steps(f"Nearly done. Before merging I'd want: {steps}.")
    assert steps in step.text
    (listed,) = find_next_steps(f"## Recommendation\n\nNearly done. Before merging I'd want: {steps}.")
    assert steps in listed.text
