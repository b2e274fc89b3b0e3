"""Episodes of an error and its correction: which are found, how they score, and what they say."""

from __future__ import annotations

import re
import tracemalloc

import pytest

from hardwon.agents.transcript_steps import Step
from hardwon.mining.episodes import CORRECTION_WINDOW, Episode, EpisodeTracker, find_episodes
from hardwon.mining.triggers import matches_command
from tests.support.step_builder import NO_ANCHOR, UNKNOWN, StepBuilder, generate_noise


def test_another_form_of_the_call_is_the_lesson() -> None:
    story = StepBuilder()
    line = story.fails("kite fly --high 2>&1", UNKNOWN)
    story.works("kite launch --high 2>&1 | tail -5")
    episode = story.find_only_episode()
    assert episode.cure is not None and episode.cure.command.startswith("kite launch")
    assert (episode.removed_arguments, episode.added_arguments) == (("fly",), ("launch",))
    assert [(failure.line, failure.kind) for failure in episode.errors] == [(line, "interface")]
    assert episode.problem == "`kite fly` fails: unrecognized subcommand 'fly'"
    assert episode.solution == "Use `kite launch` instead."
    assert matches_command(episode.triggers, "cd x && kite fly --low")
    assert not matches_command(episode.triggers, "kite launch")


def test_a_call_that_a_hook_denied_cures_nothing_and_is_no_attempt() -> None:
    story = StepBuilder()
    line = story.fails("kite fly --high", UNKNOWN)
    story.deny("kite launch --high")
    story.works("kite start --high")
    episode = story.find_only_episode()
    assert episode.working_call is not None and episode.working_call.command == "kite start --high"
    assert [failure.line for failure in episode.errors] == [line]


def test_every_failed_attempt_belongs_to_the_episode() -> None:
    story = StepBuilder()
    for attempt in ("--height 5", "--up 5", "--metres 5"):
        story.fails(f"kite launch red {attempt}", "Exit code 1\nkite: string is too short")
    story.works("kite launch red --string 5")
    assert len(story.find_only_episode().errors) == 3


def test_a_command_that_fails_differently_ends_the_episode_but_is_no_cure() -> None:
    story = StepBuilder()
    story.fails("wrap kite test", "Exit code 2\nerror: unknown command 'kite'")
    story.fails("kite test", "Exit code 1\n3 failed, 20 passed")
    first, second = story.find_episodes()
    assert first.working_call is not None and first.working_call.command == "kite test"
    assert (first.cure, second.cure) == (None, None)
    assert len(first.errors) == len(second.errors) == 1


def test_an_unrelated_edit_does_not_reject_the_cure() -> None:
    story = StepBuilder()
    story.fails("kite fly --high", UNKNOWN)
    story.edit("/home/dev/kite/README.md")
    story.works("kite launch --high")
    assert story.find_only_episode().rejection == ""


def test_reading_a_file_does_not_cure_a_command() -> None:
    story = StepBuilder()
    story.fails("kite launch src/wind.toml", "Exit code 1\nkite: unknown key in src/wind.toml")
    story.works("cat src/wind.toml")
    assert story.find_only_episode().working_call is None


def test_a_call_made_beside_the_failing_one_is_no_cure() -> None:
    story = StepBuilder()
    first, second = story.call("Bash", command="kite fly a"), story.call("Bash", command="kite land a")
    story.result(first, UNKNOWN, failed=True)
    story.result(second, "landed")
    assert story.find_only_episode().working_call is None


SLIPS = (
    ("Edit", "<tool_use_error>File has not been read yet. Read it first before writing to it.</tool_use_error>"),
    ("Edit", "<tool_use_error>File has been modified since read. Read it again.</tool_use_error>"),
    ("Edit", NO_ANCHOR),
    ("Read", "File does not exist."),
    ("Task", "<tool_use_error>InputValidationError: the required parameter `prompt` is missing</tool_use_error>"),
)


@pytest.mark.parametrize(("tool", "error"), SLIPS)
def test_a_slip_with_the_files_is_no_lesson(tool: str, error: str) -> None:
    story = StepBuilder()
    story.result(story.call(tool, path="/p/a.py", content="wind = 1"), error, failed=True)
    story.result(story.call("Read", path="/p/a.py"), "wind = 0")
    story.result(story.call(tool, path="/p/a.py", content="wind = 1"), "updated")
    assert story.find_only_episode().rejection


@pytest.mark.parametrize(
    ("command", "error", "next_command"),
    [
        ("cd src && kite test", "Exit code 1\nbash: line 1: cd: src: No such file or directory", "kite test"),
        ("ls plans/12-*", "Exit code 1\n(eval):1: no matches found: plans/12-*", "ls plans"),
        ("grep -rn wind src", "Exit code 1", "grep -rn breeze src"),
    ],
)
def test_a_wrong_path_is_no_lesson(command: str, error: str, next_command: str) -> None:
    story = StepBuilder()
    story.fails(command, error)
    story.works(next_command)
    assert all(episode.rejection for episode in story.find_episodes())


def test_a_cancelled_or_interrupted_call_is_no_error() -> None:
    story = StepBuilder()
    story.edit("/p/a.py", error="<tool_use_error>Sibling tool call errored</tool_use_error>")
    story.fails("kite test", "Request interrupted by user")
    assert story.find_episodes() == []


def test_the_words_that_follow_a_bare_refusal_are_its_reason() -> None:
    story = StepBuilder()
    story.refuse("git push -u origin temp", " ")
    story.person("give the branch a better name than 'temp', never push it")
    assert story.find_only_episode().person_words == "give the branch a better name than 'temp', never push it"
    assert story.find_only_episode().rejection == ""


@pytest.mark.parametrize("words", [" ", "commit", "please add the logo too first"])
def test_a_refusal_that_only_names_the_next_task_is_no_lesson(words: str) -> None:
    story = StepBuilder()
    story.refuse("git commit -m wip", words)
    assert story.find_only_episode().rejection


def test_feedback_on_a_plan_corrects_nothing_that_was_done() -> None:
    story = StepBuilder()
    story.refuse("", "you should always use the other library instead", tool="ExitPlanMode")
    assert story.find_only_episode().rejection


def test_words_typed_after_something_worked_are_not_about_the_error() -> None:
    story = StepBuilder()
    story.fails("kite fly", "Exit code 1\nkite: the wind failed")
    story.works("ls /elsewhere")
    story.person("no, use another colour instead")
    assert story.find_only_episode().person_words == ""


def test_a_failure_hidden_by_a_pipe_is_seen() -> None:
    story = StepBuilder()
    line = story.works("kite fly --high 2>&1 | tail -3", "error: unrecognized subcommand 'fly'\n\nUsage: kite")
    story.works("kite launch --high 2>&1 | tail -3")
    assert [failure.line for failure in story.find_only_episode().errors] == [line]
    assert story.find_only_episode().rejection == ""


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("cat notes.txt | head", "we saw error: the wind failed\nand more"),
        ("git log | head -3", "fatal: fix the crash"),
        ("kite test", "errors: none\n12 passed"),
        ("kite status", "Error: none\nwind: 4"),
        ("cat crash.log", "Error: the wind failed\n    at fly (kite.js:3)"),
        ("curl -s localhost:8080/status", "Error: of the page, not of curl"),
        ("kite test || echo exit code 1", "12 passed\nthe last run ended with exit code 1"),
    ],
)
def test_a_text_that_only_speaks_of_errors_is_no_failure(command: str, text: str) -> None:
    story = StepBuilder()
    story.works(command, text)
    assert story.find_episodes() == []


def test_the_correction_may_come_within_the_window_only() -> None:
    for pause, cured in ((CORRECTION_WINDOW - 1, True), (CORRECTION_WINDOW, False)):
        story = StepBuilder()
        story.fails("kite fly --high", UNKNOWN)
        story.pause(pause)
        story.works("kite launch --high")
        assert (story.find_only_episode().working_call is not None) is cured


def test_the_length_of_the_window_can_be_chosen() -> None:
    for window, cured in ((3, False), (4, True), (40, True)):
        story = StepBuilder()
        story.fails("kite fly --high", UNKNOWN)
        story.pause(3)
        story.works("kite launch --high")
        [episode] = find_episodes(story.steps, window=window)
        assert (episode.working_call is not None) is cured


def test_an_error_has_the_id_of_its_result() -> None:
    story = StepBuilder()
    lines = [story.fails("kite fly --high", UNKNOWN) for _ in range(2)]
    assert [error.id for error in story.find_only_episode().errors] == [story.steps[line - 1].id for line in lines]


def test_an_episode_at_the_end_of_the_steps_is_still_open() -> None:
    story = StepBuilder()
    story.fails("kite fly --high", UNKNOWN)
    assert story.find_only_episode().is_open
    story.pause(CORRECTION_WINDOW + 1)
    assert not story.find_only_episode().is_open


def test_sub_agents_do_not_cure_each_other() -> None:
    main, other = StepBuilder(), StepBuilder("a1")
    main.fails("kite fly --high", UNKNOWN)
    other.works("kite launch --high")
    mixed = [*main.steps, *(step._replace(line=step.line + 9) for step in other.steps)]
    assert [episode.working_call for episode in find_episodes(mixed)] == [None]


def test_the_same_error_elsewhere_has_the_same_signature() -> None:
    def compute_episode_signature(command: str, text: str) -> str:
        story = StepBuilder()
        story.fails(command, text)
        return story.find_only_episode().signature

    first_signature = compute_episode_signature(
        "kite fly /home/dev/3.txt", "Exit code 1\nkite: cannot lift '/home/dev/3.txt' at line 12 of deadbeef1"
    )
    second_signature = compute_episode_signature(
        "cd /x && kite fly 4 | head", "Exit code 2\nkite: cannot lift '/srv/bob/9.txt' at line 7 of 0123abcd99"
    )
    assert first_signature == second_signature
    assert first_signature != compute_episode_signature(
        "kite fly 4", "Exit code 1\nkite: cannot land '/srv/bob/9.txt' at line 7 of 0123abcd99"
    )
    assert compute_episode_signature("kite fly", "Exit code 1") != compute_episode_signature("kite land", "Exit code 1")


def test_refusals_with_different_words_have_different_signatures() -> None:
    signatures = set()
    for words in ("never push to main directly", "use the staging remote instead"):
        story = StepBuilder()
        story.refuse("git push", words)
        signatures.add(story.find_only_episode().signature)
    assert len(signatures) == 2


def has_quotes_in_steps(steps: list[Step], episode: Episode) -> bool:
    texts: dict[int, str] = {}
    for step in steps:
        texts[step.line] = "\n".join((texts.get(step.line, ""), step.text, step.command, step.path, step.content))
    return all(evidence_item.quote in texts[evidence_item.line] for evidence_item in episode.evidence)


def test_a_correction_is_quoted_from_its_own_line() -> None:
    for tool, call_fields, quotes in (
        ("mcp__kite__fly", {"content": "red\n5"}, ["red"]),
        ("BashOutput", {"command": "kite fly --high"}, []),  # which stands on the line that started it
    ):
        story = StepBuilder()
        story.result(story.call(tool, **call_fields), "Error: no wind", failed=True)
        story.result(story.call(tool, **call_fields), "up")
        episode = story.find_only_episode()
        assert (
            episode.working_call
            and [evidence_item.quote for evidence_item in episode.evidence if evidence_item.kind == "correction"]
            == quotes
        )


def test_a_reason_is_about_the_latest_of_several_errors() -> None:
    story = StepBuilder()
    story.fails("kite fly --high", UNKNOWN)
    story.fails("docker run --detached", "Exit code 1\nunknown flag: --detached")
    story.agent("The problem is that docker spells it --detach.")
    assert {episode.failing_call.command: bool(episode.agent_words) for episode in story.find_episodes()} == {
        "kite fly --high": False,
        "docker run --detached": True,
    }


@pytest.mark.parametrize("seed", range(20))
def test_every_quote_is_really_there_and_every_error_is_listed_once(seed: int) -> None:
    steps = list(generate_noise(seed, 120))
    episodes = find_episodes(steps)
    assert episodes and all(has_quotes_in_steps(steps, episode) for episode in episodes)
    lines = [error.line for episode in episodes for error in episode.errors]
    assert len(lines) == len(set(lines))
    assert {step.line for step in steps if step.failed} <= set(lines)
    for episode in episodes:
        assert [part.line for part in episode.evidence if part.kind == "error"] == [
            error.line for error in episode.errors
        ]
        assert 0 <= episode.score <= 1
        for pattern in episode.triggers.get("commandPatterns", ()):
            re.compile(pattern)


def test_the_same_steps_give_the_same_episodes() -> None:
    assert find_episodes(generate_noise(7, 200)) == find_episodes(iter(list(generate_noise(7, 200))))


def test_memory_is_bounded_by_the_window() -> None:
    sizes = [len(step.text) for step in generate_noise(3, 2_000)]
    tracker = EpisodeTracker()
    tracemalloc.start()
    episode_count = sum(len(tracker.process_step(step)) for step in generate_noise(3, 2_000))
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert episode_count > 250
    assert peak_bytes < 1_000_000 < sum(sizes) / 4


def test_calls_without_results_are_forgotten() -> None:
    story = StepBuilder()
    for number in range(500):
        story.call("Bash", command=f"kite fly {number}")
    story.result("no such call", UNKNOWN, failed=True)
    assert story.find_episodes() == []
