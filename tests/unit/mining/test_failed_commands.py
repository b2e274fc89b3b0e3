"""A proposed trigger matches the call that failed and not others; tags name the tool and the severity."""

from __future__ import annotations

import re
import tempfile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwon.agents.transcript_steps import Step
from hardwon.lessons import manifest_index as indexes
from hardwon.lessons.call_texts import list_call_texts
from hardwon.lessons.globs import compile_glob
from hardwon.lessons.manifest import compile_entries, find_entry_literals
from hardwon.lessons.matching import has_matching_glob, match_entry, prepare_call
from hardwon.lessons.patterns import find_pattern_fault
from hardwon.lessons.record import parse_lesson
from hardwon.lessons.validation import find_lesson_faults
from hardwon.mining.episodes import find_episodes
from hardwon.mining.failed_commands import diagnose_failure, list_tags
from hardwon.mining.triggers import build_triggers
from hardwon.shell.failures import MAX_QUOTE_LENGTH
from hardwon.shell.parsing import MAX_SIMPLE_COMMANDS
from hardwon.types import Event, Pattern
from tests.support.session_steps import list_corpus_sessions

ROOT = "/home/dev/kite"
MAX_KEPT_CHARS = 4_000


def search_pattern(pattern: Pattern, text: str) -> bool:
    return re.search(pattern.source, text, pattern.flags) is not None


def build_bash_call(command: str) -> Step:
    return Step("call", 1, tool="Bash", command=command)


def suggest_triggers(command: str, quote: str, cure: str = "") -> dict[str, Any]:
    call = build_bash_call(command)
    diagnosis = diagnose_failure(call, quote, quote)
    return build_triggers(call, diagnosis, build_bash_call(cure) if cure else None, is_path=False)


def does_fire(triggers: dict[str, Any], command: str) -> bool:
    """Return whether the index leads to a lesson with this trigger and the lesson matches."""
    target = triggers.get("commandMatchTarget", "executable")
    record = {"summary": "s", "problem": "p", "solution": "x", "id": "id1", "slug": "slug1"}
    [entry] = compile_entries([parse_lesson({**record, "triggers": triggers, "commandMatchTarget": target})])
    with tempfile.NamedTemporaryFile() as file:
        file.write(indexes.build([entry], [find_entry_literals(entry)], settings={}, source_stats=[]))
        file.flush()
        index = indexes.ManifestIndex(file.name)
    call = Event("claude-code", "PreToolUse", "s1", ROOT, tool="Bash", command=command)
    is_led_to = index.find_possible_matches("Bash", list_call_texts(call)) == [0]
    return (
        is_led_to
        and match_entry(entry, prepare_call(call, project_root=ROOT, equivalent_folders=[ROOT]), search_pattern)
        is not None
    )


def is_sound(triggers: dict[str, Any], command: str) -> bool:
    """Return whether the pattern is accepted and matches the command."""
    [pattern] = triggers["commandPatterns"]
    return find_pattern_fault(pattern) is None and does_fire(triggers, command)


WORD, OPTIONS = r" (?:[^|;&\n]* )?", r" (?:-[^|;&\n]* )?"
LETTERS = r"-[A-Za-z]{{0,3}}_[A-Za-z]{{0,2}}(?![A-Za-z])"
TRIGGERS = (
    ("kite fly --loop", "error: unexpected argument '--loop' found", rf"\bkite{OPTIONS}fly{{}}{WORD}--loop{{}}"),
    ("kite --loop=3 fly", "error: unknown option '--loop'", rf"\bkite{WORD}--loop{{}}[^|;&\n]* fly{{}}"),
    ("kite runner run", "error: unknown task 'run'", rf"\bkite{OPTIONS}runner{{}}{WORD}run{{}}"),
    ("git --no-pager bisect 'a b'", "fatal: bad revision", rf"\bgit{OPTIONS}bisect{{}}"),
    ("python3 -m gust", "No module named gust", rf"\bpython3{WORD}-m[ =]gust{{}}"),
    ("kite list | grep -oP 'a'", "grep: invalid option -- P", rf"\bgrep{WORD}{LETTERS.replace('_', 'P')}"),
    ("g++ --std=c++99 a.cc", "g++: error: unrecognized option '--std=c++99'", rf"\bg\+\+{WORD}--std{{}}"),
    ("git add . && git commit --loop", "error: unknown option `--loop'", rf"\bgit{OPTIONS}commit{{}}{WORD}--loop{{}}"),
    # An everyday subcommand alone, a program alone, a path: nothing that sets the call apart from those that work.
    ("/usr/bin/git stash", "fatal: no wind", ""),
    ("git", "usage: git [-v | --version]", ""),
    ("gust", "gust: no wind", ""),
    ("python3.11 -c 'fly()'", "NameError: name 'fly' is not defined", ""),
    ("$KITE fly", "error: no wind", ""),
    ("", "error: no wind", ""),
)


def test_a_trigger_is_the_program_its_subcommand_and_the_named_word() -> None:
    for command, quote, expected in TRIGGERS:
        triggers = suggest_triggers(command, quote)
        [pattern] = triggers.get("commandPatterns", [""])
        assert pattern == expected.format(*[r"(?![\w-])"] * 3), command
        assert not triggers or is_sound(triggers, command)


def test_a_word_that_the_cure_left_out_is_in_the_trigger() -> None:
    [pattern] = suggest_triggers("kite fly -q --high", "error: no wind", "kite fly -q")["commandPatterns"]
    assert pattern == rf"\bkite{OPTIONS}fly(?![\w-]){WORD}--high(?![\w-])"


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
def test_any_command_gives_a_sound_trigger_or_none(command: str, quote: str) -> None:
    triggers = suggest_triggers(command[:MAX_KEPT_CHARS], quote)
    assert not triggers or is_sound(triggers, command)


PLAIN = st.sampled_from(["kite", "git", "fly", "--loop", "-x=1", "bash -c", "sudo", "runner", "run", "a*", "ü", "E"])
SIGNS = st.sampled_from(["'a b'", '"$(gust --loop)"', "$X", "&&", ";", "|", "\n", "\\", "'", '"', "<<E", "(", ")", "`"])
MORE = st.sampled_from([">", "[", "--loop''", "#", "{", "}", "<", "&", "$(", "${", "$'", "\t", "--loop\\", "''fly"])
WORDS = PLAIN | SIGNS | MORE


@given(st.lists(WORDS, max_size=9).map(" ".join), st.sampled_from(["--loop: no", "kite: run", "git: fly -x", ""]))
def test_words_in_any_order_give_a_sound_trigger_or_none(command: str, quote: str) -> None:
    triggers = suggest_triggers(command, quote)
    assert not triggers or is_sound(triggers, command)


def test_every_real_failing_command_is_matched_by_its_trigger() -> None:
    proposed = 0
    for name, steps in list_corpus_sessions():
        for episode in find_episodes(steps):
            if episode.failing_call.tool == "Bash" and not episode.rejection:
                proposed += 1
                assert is_sound(dict(episode.triggers), episode.errors[0].command), name
    assert proposed > 0


def test_a_command_of_a_tool_that_is_no_shell_has_no_trigger() -> None:
    call = Step("call", 1, tool="PowerShell", command="kite fly")
    assert build_triggers(call, diagnose_failure(call, "kite: no wind", ""), None, is_path=False) == {}


def test_a_file_trigger_has_the_whole_name_and_not_the_suffix() -> None:
    for path, glob in (
        ("/home/dev/kite/src/wind.tsx", "**/wind.tsx"),
        ("/srv/.gitignore", "**/.gitignore"),
        ("/home/dev/kite/[a]*b? ", r"**/\[a]\*b\?\ "),
        ("/home/dev/kite/..", ""),
    ):
        call = Step("call", 1, tool="Read", path=path)
        triggers = build_triggers(call, diagnose_failure(call, "File does not exist.", ""), None, is_path=True)
        assert triggers.get("pathPatterns", [""]) == [glob]
        compiled = compile_glob(glob)
        assert not glob or (compiled and has_matching_glob([compiled], f"../{path.lstrip('/')}", path, search_pattern))


@pytest.mark.parametrize(
    ("call", "quote", "tags"),
    [
        (build_bash_call("cd x && git push"), "fatal: no wind", ("tool:git",)),
        (build_bash_call("python3.11 -m pytest -q"), "1 failed", ("tool:python3.11",)),
        (build_bash_call("npm test"), "npm: Command timed out after 2m", ("tool:npm", "severity:hang")),
        (build_bash_call("kite list | grep -P a"), "grep: invalid option -- P", ("tool:grep",)),
        (build_bash_call("$KITE fly"), "error: timeout is no option", ()),
        (Step("call", 1, tool="Read", path="/p/a.tsx"), "File does not exist.", ()),
    ],
)
def test_tags_name_the_tool_and_the_severity(call: Step, quote: str, tags: tuple[str, ...]) -> None:
    assert list_tags(diagnose_failure(call, quote, quote), call, quote) == tags


@pytest.mark.parametrize("command", HOSTILE)
def test_every_tag_is_valid_for_a_lesson(command: str) -> None:
    call = build_bash_call(command[:MAX_KEPT_CHARS])
    line = command[:MAX_QUOTE_LENGTH]
    tags = list(list_tags(diagnose_failure(call, line, command), call, line))
    lesson = parse_lesson({"summary": "s", "problem": "p", "solution": "x", "tags": tags})
    assert not [fault for fault in find_lesson_faults(lesson) if fault.startswith("tag ")]
