from __future__ import annotations

import pytest

from hardwon.distil.check_results import CheckResult, parse_check_result
from hardwon.distil.observations import observe_turn
from hardwon.distil.summaries import has_work, summarise_session
from hardwon.text.characters import estimate_tokens
from hardwon.types import Summary, Turn, replace
from tests.support.made_up_sessions import Session, bash, call, edit, hooked, read, sessions, turn

ALL = sessions()


def summary_of(*turns: Turn) -> Summary:
    return summarise_session(turns, [one for each in turns for one in observe_turn(each)])


@pytest.mark.parametrize("session", ALL, ids=lambda session: session.name)
def test_each_part_holds_what_it_must(session: Session) -> None:
    made = summary_of(*session.turns)
    parts = {"learned": made.learned, "completed": made.completed, "next_steps": made.next_steps}
    missing = [(part, fact) for part, text in parts.items() for fact in getattr(session, part) if fact not in text]
    assert missing == []
    assert made.request.startswith(session.turns[0].prompt[:20])


def test_observations_and_summary_are_a_tenth_of_what_happened_at_most() -> None:
    raw = told = 0
    for session in ALL:
        raw += sum(
            estimate_tokens(f"{each.prompt}{one.input}{one.response}") for each in session.turns for one in each.calls
        )
        made = [one for each in session.turns for one in observe_turn(each)]
        summary = summarise_session(session.turns, made)
        told += sum(estimate_tokens("".join((one.title, one.subtitle, one.narrative, *one.facts))) for one in made)
        told += sum(estimate_tokens(text) for text in (summary.request, summary.learned, summary.completed))
        told += estimate_tokens(summary.investigated + summary.next_steps)
    assert told <= raw / 10


@pytest.mark.parametrize("outcome", ["denied", "refused", "interrupted", ""])
def test_a_call_that_did_not_end_neither_passed_nor_failed_nor_changed_a_file(outcome: str) -> None:
    check = call("Bash", {"command": "pytest --parallel 4 tests"}, "", outcome)
    change = replace(edit("src/token.py", "a = 1", "a = 2"), outcome=outcome)
    commit = call("Bash", {"command": "git commit -m x"}, "[main 1a2b3c4] x\n 1 file changed", outcome)
    passed = bash("pytest -n 2 tests", "7 passed in 0.1s")
    done = turn("run the tests", [check, change, commit, passed], said="They pass.")
    observed = [line for one in observe_turn(done) for line in (one.title, *one.facts, *one.files_modified)]
    made = summary_of(done)
    told = "\n".join([*observed, made.completed, made.learned, made.next_steps])
    assert "`pytest -n 2 tests`" in told
    assert "--parallel 4 tests` passed" not in told and "Passing at the end: `pytest --parallel" not in told
    assert "token.py" not in told.replace("A person refused `src/token.py`", "")
    assert "1a2b3c4" not in told and "fails" not in told


def test_the_answer_to_a_long_text_without_any_call_is_no_session_to_go_on_from() -> None:
    asked = "Summarise the conversation below in three lines."
    headless = turn(f"{asked} {'The kite needs a longer tail. ' * 50}", [], said="Added `tail()` to src/tail.py.")
    assert not has_work([headless])
    assert has_work([headless, headless])
    assert has_work([turn("what is a tail for?", [], said="It keeps the kite steady.")])
    assert has_work([turn("what does the tail do?", [read("src/tail.py")], said="It balances the kite.")])


def test_a_session_keeps_its_summary_as_it_goes_on() -> None:
    first = ALL[0].turns[0]
    early, late = summary_of(first), summary_of(*ALL[0].turns)
    assert early.key == late.key != summary_of(replace(first, name="other")).key
    assert "1a2b3c4" not in early.completed
    assert late.at > early.at


def test_what_is_not_known_stays_empty() -> None:
    made = summary_of(turn("hi", said="Hello!"))
    assert (made.request, made.investigated, made.learned, made.next_steps) == ("hi", "", "", "")
    empty = summarise_session((), ())
    assert (empty.request, empty.completed, empty.key) == ("", "", "")


def test_what_only_keeps_the_work_going_is_no_request() -> None:
    asked = ["/clear", "Build a kite tail", "yes", "go ahead and do it", "please commit and push", "Paint it red"]
    made = summary_of(*(turn(words, number=number) for number, words in enumerate(asked, 1)))
    assert made.request == "Build a kite tail\nPaint it red"


def test_of_many_requests_the_ends_and_those_with_most_work_are_kept() -> None:
    turns = [turn(f"Build part{number} of kite{number} from wood{number}", number=number) for number in range(60)]
    turns[30] = replace(turns[30], calls=tuple(edit(f"src/{place}.py", "a", "b") for place in range(5)))
    lines = summary_of(*turns).request.split("\n")
    assert (lines[0], lines[-1], len(lines)) == (turns[0].prompt, turns[-1].prompt, 20)
    assert turns[30].prompt in lines


def test_a_topic_that_comes_again_is_listed_once() -> None:
    asked = ["Build a kite with a long red tail", "why is the tail of the kite not long and red?", "Now the wind harp"]
    made = summary_of(*(turn(words, number=number) for number, words in enumerate(asked, 1)))
    assert made.request == "Build a kite with a long red tail\nNow the wind harp"


def test_a_request_goes_on_until_it_names_something() -> None:
    asked = "can you look at\n\n- docs/kites.md\n- docs/tails.md\n\nand do what they say"
    assert summary_of(turn(asked)).request == "can you look at docs/kites.md docs/tails.md"


@pytest.mark.parametrize(
    ("said", "completed"),
    [
        ("I've rewritten `fly` in kite.py.", "“I've rewritten `fly` in kite.py.”\nChanged kite.py"),
        ("A tagline:\n\n> Fly `kite.py` without a local string.", "Changed kite.py"),
        ("You can now run `fly` in kite.py.", "Changed kite.py"),
        ("All tests pass.", "Changed kite.py"),
        ("Key facts about kite.py that was built (server-side)", "Changed kite.py"),
    ],
)
def test_completed_is_what_calls_prove_or_the_agent_says_of_its_own_work(said: str, completed: str) -> None:
    assert summary_of(turn("Build it", [edit("kite.py", "a", "def fly(): ...")], said)).completed == completed


def test_what_was_done_in_the_middle_is_told() -> None:
    said = ["Added `fly` to kite.py.", "Moved `land` to ground.py.", "Renamed `fly` to `soar` in kite.py.", "Bye."]
    calls = [
        [edit("kite.py", "a", "def fly(): ..."), bash("./try fly")],
        [edit("ground.py", "a", "def land(): ..."), edit("ground.py", "b", "c"), bash("./try land")],
        [edit("kite.py", "fly", "def soar(): ... # fly")],
        [],
    ]
    turns = [turn(f"step {number}", *rest, number) for number, rest in enumerate(zip(calls, said, strict=True), 1)]
    assert summary_of(*turns).completed.split("\n")[:3] == [f"“{words}”" for words in said[:3]]


def test_what_the_agent_says_remains_comes_next() -> None:
    said = "All parts are built. The tail still needs to be painted. Would you like me to do that now?"
    made = summary_of(turn("Build a kite", [edit("kite.py", "a", "b")], said))
    assert made.next_steps == "The tail still needs to be painted."
    assert summary_of(turn("Plan it", [], "The todo now frames this as a matter of wind.")).next_steps == ""
    assert made.completed == "Changed kite.py"


def test_what_is_open_on_the_agents_list_comes_next() -> None:
    calls = [
        call("TaskCreate", {"subject": "Paint it"}, {"task": {"id": "1", "subject": "Paint it"}}),
        call("TaskCreate", {"subject": "Fly it"}, {"task": {"id": "2", "subject": "Fly it"}}),
        call("TaskUpdate", {"taskId": "1", "status": "completed"}, {"success": True}),
    ]
    assert summary_of(turn("Build a kite", calls)).next_steps == "Open: Fly it"
    todos = [{"content": "Paint it", "status": "completed"}, {"content": "Fly it", "status": "pending"}]
    assert summary_of(turn("Build a kite", [call("TodoWrite", {"todos": todos})])).next_steps == "Open: Fly it"


def test_a_check_that_passes_later_does_not_remain() -> None:
    failing = bash("go test ./wind -run TestGust", "--- FAIL: TestGust (0.00s)\nFAIL\tkite/wind\t0.1s", code=1)
    passing = bash("go test ./...", "ok  \tkite/wind\t0.1s\nok  \tkite/tail\t0.1s")
    assert "TestGust" in summary_of(turn("test it", [failing])).next_steps
    assert summary_of(turn("test it", [failing, passing])).next_steps == ""


def test_files_that_were_only_read_are_not_listed() -> None:
    calls = [read("a.py"), edit("a.py", "x", "y"), hooked("ls"), call("WebFetch", {"url": "https://kites.example/a"})]
    made = summary_of(turn("mend it", calls))
    assert (made.investigated, made.completed) == ("Looked up https://kites.example/a", "Changed a.py")


def test_a_bare_fail_of_go_is_not_the_name_of_what_failed() -> None:
    assert parse_check_result("FAIL\nFAIL\tkite/wind [build failed]\nFAIL\n") == CheckResult("FAIL kite/wind", True)
