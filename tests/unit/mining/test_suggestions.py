"""What is proposed as a trigger matches the call that failed, and not everything else; tags say what is known."""

from __future__ import annotations

import re
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardwon.agents.transcript_steps import Step
from hardwon.lessons import manifest_index as indexes
from hardwon.lessons.manifest import compile_entries, find_entry_literals
from hardwon.lessons.matching import (
    compile_glob,
    has_matching_glob,
    list_call_texts,
    match_entry,
    prepare_call,
)
from hardwon.lessons.pattern_check import find_pattern_fault
from hardwon.lessons.record import parse_lesson
from hardwon.lessons.validation import find_lesson_faults
from hardwon.mining.episodes import find_episodes
from hardwon.mining.suggestions import EVERYDAY_PROGRAMS, suggest_tags, suggest_trigger
from hardwon.shell.parsing import MAX_SIMPLE_COMMANDS
from hardwon.types import Event, Pattern
from tests.support.transcripts import corpus

ROOT = "/home/dev/kite"
KEPT = 4_000


def search(pattern: Pattern, text: str) -> bool:
    return re.search(pattern.source, text, pattern.flags) is not None


def bash(command: str) -> Step:
    return Step("call", 1, tool="Bash", command=command)


def fires(trigger: str, command: str) -> bool:
    """Whether a lesson with this trigger is led to by the index and then matches."""
    record = {"summary": "s", "problem": "p", "solution": "x", "id": "id1", "slug": "slug1"}
    [entry] = compile_entries(
        [parse_lesson({**record, "triggers": {"toolNames": ["Bash"], "commandPatterns": [trigger]}})]
    )
    with tempfile.NamedTemporaryFile() as file:
        file.write(indexes.build([entry], [find_entry_literals(entry)], settings={}, source_stats=[]))
        file.flush()
        index = indexes.ManifestIndex(file.name)
    call = Event("claude-code", "PreToolUse", "s1", ROOT, tool="Bash", command=command)
    led = index.find_possible_matches("Bash", list_call_texts(call)) == [0]
    return (
        led and match_entry(entry, prepare_call(call, project_root=ROOT, equivalent_folders=[ROOT]), search) is not None
    )


def is_sound(trigger: str, command: str) -> bool:
    """Whether it is accepted, matches the command, and is about more than a program that is run all day."""
    re.compile(trigger)
    return (
        find_pattern_fault(trigger) is None
        and trigger not in {rf"\b{each}\b" for each in EVERYDAY_PROGRAMS}
        and fires(trigger, command)
    )


@pytest.mark.parametrize(
    ("command", "quote", "expected"),
    [
        ("kite fly --loop", "error: unexpected argument '--loop' found", r"\bkite\b\s(?:.*\s)?\-\-loop\b"),
        ("cd x && kite fly", "error: no wind", r"\bkite\b\s+fly\b"),
        ("kite --loop=3 fly", "error: unknown option '--loop'", r"\bkite\b\s+\-\-loop\b"),
        ("kite runner run", "error: unknown task 'run'", r"\bkite\b\s(?:.*\s)?run\b"),
        ("git --no-pager log 'a b'", "fatal: bad revision", r"\bgit\b\s(?:.*\s)?log\b"),
        ("/usr/bin/git stash", "fatal: no wind", r"\bgit\b\s+stash\b"),
        ("python3 -m gust", "No module named gust", r"\bpython3\b\s(?:.*\s)?gust\b"),
        ("kite list | grep -oP 'a'", "grep: invalid option -- P", r"\bgrep\b\s+\-oP\b"),
        ("g++ --std=c++99 a.cc", "g++: error: unrecognized option '--std=c++99'", r"\bg\+\+\s+\-\-std=c\+\+99\b"),
        ("git add . && git commit --loop", "error: unknown option `--loop'", r"\bgit\b\s(?:.*\s)?\-\-loop\b"),
        ("gust", "gust: no wind", r"\bgust\b"),
        ("git", "usage: git [-v | --version]", ""),
        ("npm", "npm: no wind", ""),
        ("python3.11 -c 'fly()'", "NameError: name 'fly' is not defined", ""),
        ("cd /no/wind", "bash: cd: /no/wind: No such file or directory", r"\bcd\b\s+/no/wind\b"),
        ("$KITE fly", "error: no wind", ""),
        ("", "error: no wind", ""),
    ],
)
def test_a_trigger_is_the_program_and_what_went_wrong_with_it(command: str, quote: str, expected: str) -> None:
    trigger = suggest_trigger(bash(command), (), quote)
    assert trigger == expected
    assert not trigger or is_sound(trigger, command)


def test_what_the_cure_left_out_tells_the_failing_call() -> None:
    assert (
        suggest_trigger(bash("kite fly -q --high"), ("--high",), "error: no wind") == r"\bkite\b\s(?:.*\s)?\-\-high\b"
    )


HOSTILE = (
    'kite \'fly\' "high" --say="a b"',
    "g'i't stash",
    "gi\\\nt stash pop",
    "kite fly \\\n  --high \\\n  --loop",
    "kite fly\n\nkite land --loop",
    "kite $(gust list --loop) --loop",
    'kite `gust --loop` "$(gust --loop "$(kite --loop)")"',
    "cat <<'EOF' | kite fly --loop\nkite land --loop\nEOF",
    "bash <<EOF\nkite fly --loop\nEOF",
    "bash -c 'kite \"fly\" --loop'; ssh host kite fly --loop",
    "kité flý --löop=ü",
    "凧 飛ぶ --loop",
    "kite \u202efly\u200b --loop\u00a0--high",
    "kite .*+?^${}()|[]\\ --loop",
    "kite [[:alpha:]] a{1,2}&&b~~c --loop",
    "kite (?P<x>a+)+ --loop",
    "C:\\bin\\kite.exe fly --loop",
    "'/opt/my tools/kite' fly --loop",
    "A=1 sudo -u root timeout 5 kite fly --loop > /tmp/a 2>&1 < b",
    "find . -exec kite --loop {} +",
    "uv run kite --loop; python -m hardwon why --loop",
    "kite " + "x" * 5_000 + " --loop",
    "kite --loop " + "x" * 100_000,
    "kite fly --loop '" + "y\n" * 50_000 + "'; gust",
    "kite 'a;b\nc' --loop; " + "true; " * (MAX_SIMPLE_COMMANDS + 9),
    "kite fly --loop; " + "true\n" * 25_000,
    "x" * 3_990 + "; kite --lo" + "op" * 99,
    "echo " + "z" * 3_980 + "; kite --loop",
    "((((" * 999,
    "kite \x00--loop\x1b[0m --loop",
    "'" * 999,
)


@pytest.mark.parametrize("command", HOSTILE)
@pytest.mark.parametrize("quote", ["error: unexpected argument '--loop' found", "gust: no wind", "kite", ""])
def test_whatever_a_command_looks_like_its_trigger_is_sound_or_not_there(command: str, quote: str) -> None:
    trigger = suggest_trigger(bash(command[:KEPT]), command.split()[1:3], quote)
    assert not trigger or is_sound(trigger, command)


PLAIN = st.sampled_from(["kite", "git", "fly", "--loop", "-x=1", "bash -c", "sudo", "runner", "run", "a*", "ü", "E"])
SIGNS = st.sampled_from(["'a b'", '"$(gust --loop)"', "$X", "&&", ";", "|", "\n", "\\", "'", '"', "<<E", "(", ")", "`"])
MORE = st.sampled_from([">", "[", "--loop''", "#", "{", "}", "<", "&", "$(", "${", "$'", "\t", "--loop\\", "''fly"])
WORDS = PLAIN | SIGNS | MORE


@settings(max_examples=100, deadline=None)
@given(st.lists(WORDS, max_size=9).map(" ".join), st.sampled_from(["--loop: no", "kite: run", "git: fly -x", ""]))
def test_words_in_any_order_give_a_sound_trigger_or_none(command: str, quote: str) -> None:
    trigger = suggest_trigger(bash(command), ("fly", "a*"), quote)
    assert not trigger or is_sound(trigger, command)


def test_every_real_failing_command_is_matched_by_its_trigger() -> None:
    given = matched = 0
    for name, steps in corpus():
        for episode in find_episodes(steps):
            if episode.failing_call.tool == "Bash":
                given += 1
                matched += bool(episode.trigger)
                assert not episode.trigger or is_sound(episode.trigger, episode.failing_call.command), name
    assert matched > 0.8 * given > 0


@pytest.mark.parametrize(
    ("path", "glob"),
    [
        ("/home/dev/kite/src/wind.tsx", "**/*.tsx"),
        ("/home/dev/kite/Makefile", "**/Makefile"),
        ("/srv/.gitignore", "**/.gitignore"),
        ("/home/dev/kite/[a]*b? ", r"**/\[a]\*b\?\ "),
        ("/home/dev/kite.d/wind", "**/wind"),
        ("/home/dev/kite/..", ""),
        ("", ""),
    ],
)
def test_a_file_is_told_by_its_suffix_or_name(path: str, glob: str) -> None:
    found = suggest_trigger(Step("call", 1, tool="Edit", path=path), (), "no wind")
    compiled = compile_glob(found)
    assert found == glob
    assert not found or (compiled and has_matching_glob([compiled], f"../{path.lstrip('/')}", path, search))


def test_a_command_of_a_tool_that_is_no_shell_has_no_trigger() -> None:
    assert suggest_trigger(Step("call", 1, tool="PowerShell", command="kite fly"), (), "kite: no wind") == ""


@pytest.mark.parametrize(
    ("call", "quote", "tags"),
    [
        (bash("cd x && git push"), "fatal: no wind", ("tool:git",)),
        (bash("python3.11 -m pytest -q"), "1 failed", ("tool:python3.11", "lang:python")),
        (bash("npm test"), "npm: Command timed out after 2m", ("tool:npm", "severity:hang")),
        (bash("kite list | grep -P a"), "grep: invalid option -- P", ("tool:grep",)),
        (bash("$KITE fly"), "error: timeout is no option", ()),
        (Step("call", 1, tool="Edit", path="/p/a.tsx"), "no changes to make", ("lang:typescript",)),
        (Step("call", 1, tool="Read", path="/p/a.tsx"), "File does not exist.", ()),
        (Step("call", 1, tool="Write", path="/p/notes"), "not been read yet", ()),
    ],
)
def test_tags_say_what_is_known(call: Step, quote: str, tags: tuple[str, ...]) -> None:
    assert suggest_tags(call, quote) == tags


@pytest.mark.parametrize("command", HOSTILE)
def test_every_tag_is_one_that_a_lesson_may_have(command: str) -> None:
    lesson = parse_lesson(
        {"summary": "s", "problem": "p", "solution": "x", "tags": list(suggest_tags(bash(command[:KEPT]), command))}
    )
    assert not [wrong for wrong in find_lesson_faults(lesson) if wrong.startswith("tag ")]
