"""A lesson fires exactly on the calls that its triggers describe."""

from __future__ import annotations

import re
import tempfile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwon.lessons import manifest_index
from hardwon.lessons.call_texts import list_call_texts
from hardwon.lessons.lookup import explain_mismatch
from hardwon.lessons.manifest import compile_entries, find_entry_literals
from hardwon.lessons.matching import match_entry, prepare_call
from hardwon.lessons.record import parse_lesson
from hardwon.types import Event, Lesson, Pattern

ROOT = "/home/dev/project"


def build_lesson(number: int = 1, **record: Any) -> Lesson:
    defaults = {"summary": "s", "problem": "p", "solution": "x", "id": f"id{number}", "slug": f"slug{number}"}
    return parse_lesson({**defaults, **record})


def search_pattern(pattern: Pattern, text: str) -> bool:
    return re.search(pattern.source, text, pattern.flags) is not None


def build_event(tool: str, *, cwd: str = ROOT, **fields: str) -> Event:
    return Event("claude-code", "PreToolUse", "s1", cwd, tool=tool, **fields)  # type: ignore[arg-type]


def does_fire(record: dict[str, Any], call: Event, *, folders: tuple[str, ...] = (ROOT,)) -> bool:
    """Return whether the index leads to the lesson and the lesson matches the call."""
    [entry] = compile_entries([build_lesson(**record)])
    content = manifest_index.build([entry], [find_entry_literals(entry)], settings={}, source_stats=[])
    index = open_index(content)
    is_led_to = index.find_possible_matches(call.tool, list_call_texts(call)) == [0]
    is_match = (
        match_entry(
            index.read_entry(0), prepare_call(call, project_root=ROOT, equivalent_folders=folders), search_pattern
        )
        is not None
    )
    assert is_led_to or not is_match, "the index does not lead to a lesson that matches"
    return is_match


def open_index(content: bytes) -> manifest_index.ManifestIndex:
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        return manifest_index.ManifestIndex(file.name)


STASH = {"triggers": {"toolNames": ["Bash"], "commandPatterns": [r"\bgit stash\b"]}}


@pytest.mark.parametrize(
    "command",
    [
        "git stash",
        "cd x && git stash",
        "false || git stash",
        "ls; git stash",
        "cat f | git stash",
        "ls\ngit stash pop",
        "echo $(git stash)",
        'echo "$(git stash)"',
        "bash -c 'git stash'",
        'sh -lc "cd x; git stash"',
        "sudo git stash",
        "env X=1 git stash",
        "time git stash",
        "xargs git stash",
        "X=1 git stash",
        '"git" stash',
        "if true; then git stash; fi",
    ],
)
def test_a_command_is_found_wherever_a_shell_would_run_it(command: str) -> None:
    assert does_fire(STASH, build_event("Bash", command=command))
    anchored = {"triggers": {"toolNames": ["Bash"], "commandPatterns": [r"^git stash\b"]}}
    assert does_fire(anchored, build_event("Bash", command=command))


@pytest.mark.parametrize(
    "command",
    [
        "echo 'git stash'",
        'git commit -m "never git stash"',
        "cat <<EOF\ngit stash\nEOF",
        "ls # git stash",
        "git status",
    ],
)
def test_the_text_of_quotes_heredocs_and_comments_is_not_a_command(command: str) -> None:
    assert not does_fire(STASH, build_event("Bash", command=command))


@pytest.mark.parametrize("command", ["echo 'git stash'", "cat <<EOF\ngit stash\nEOF"])
def test_a_lesson_may_ask_for_the_text_of_quotes_and_heredocs(command: str) -> None:
    assert does_fire({**STASH, "commandMatchTarget": "full"}, build_event("Bash", command=command))


def test_command_patterns_are_or_ed() -> None:
    either = {"triggers": {"toolNames": ["Bash"], "commandPatterns": [r"\byarn\b", r"\bnpm\b"]}}
    assert [does_fire(either, build_event("Bash", command=c)) for c in ("npm i", "yarn add x", "pnpm i")] == [
        True,
        True,
        False,
    ]


def test_a_negative_lookahead_is_judged_on_its_own_simple_command() -> None:
    guard = {"triggers": {"toolNames": ["Bash"], "commandPatterns": [r"\bpytest\b(?!.*--no-header)"]}}
    assert does_fire(guard, build_event("Bash", command="pytest tests && echo --no-header"))
    assert not does_fire(guard, build_event("Bash", command="pytest --no-header tests && ls"))


def test_unless_cancels_a_match_in_its_simple_command() -> None:
    record = {**STASH, "unless": [r" -u\b", r"^KEEP=1"]}
    calls = ["git stash", "git stash -u", "KEEP=1 git stash", "git stash && ls -u", "git stash -u && git stash"]
    assert [does_fire(record, build_event("Bash", command=c)) for c in calls] == [True, False, False, True, True]


def test_a_lesson_fires_only_for_its_tools() -> None:
    assert not does_fire(STASH, build_event("Write", path="/home/dev/project/a.sh", content="git stash"))
    both = {"triggers": {"toolNames": ["Bash", "Write"], "commandPatterns": [r"\bgit stash\b"]}}
    assert does_fire(both, build_event("Write", path="/home/dev/project/a.sh", content="git stash"))


def test_without_tool_names_the_patterns_decide_the_tools() -> None:
    assert does_fire({"commandPatterns": ["git stash"]}, build_event("Bash", command="git stash"))
    assert not does_fire({"commandPatterns": ["git stash"]}, build_event("Write", content="git stash", path="/x"))
    about_paths = {"pathPatterns": ["*.lock"]}
    for tool in ("Read", "Edit", "MultiEdit", "Write", "NotebookEdit"):
        assert does_fire(about_paths, build_event(tool, path="/home/dev/project/a/b.lock", content="x"))
    assert not does_fire(about_paths, build_event("Bash", command="cat b.lock"))


def test_for_edits_path_and_content_must_both_match() -> None:
    record = {"toolNames": ["Edit"], "pathPatterns": ["src/**/*.ts"], "contentPatterns": [r"console\.log"]}
    calls = [
        build_event("Edit", path="/home/dev/project/src/a/b.ts", content="console.log(1)"),
        build_event("Edit", path="/home/dev/project/src/a/b.ts", content="log(1)"),
        build_event("Edit", path="/home/dev/project/lib/b.ts", content="console.log(1)"),
        build_event("Edit", path="src/b.ts", content="console.log(1)"),
    ]
    assert [does_fire(record, call) for call in calls] == [True, False, False, True]


def test_a_read_is_matched_by_its_path_alone() -> None:
    record = {"toolNames": ["Read", "Edit"], "pathPatterns": [".env"], "contentPatterns": ["SECRET"]}
    assert does_fire(record, build_event("Read", path="/home/dev/project/.env"))
    assert not does_fire({"toolNames": ["Read"], "contentPatterns": ["SECRET"]}, build_event("Read", path="/x/SECRET"))


def test_a_lesson_with_patterns_never_fires_by_its_tool_alone() -> None:
    for patterns in ({"commandPatterns": ["zzz"]}, {"pathPatterns": ["*.zzz"]}, {"contentPatterns": ["zzz"]}):
        for tool in ("Bash", "Edit", "Read", "WebFetch", "mcp__x__y"):
            record = {"toolNames": [tool], **patterns}
            assert not does_fire(record, build_event(tool, command="a", path="/b", content="c"))
    assert does_fire({"toolNames": ["WebSearch"]}, build_event("WebSearch", content="anything"))


def test_other_tools_are_matched_by_their_content() -> None:
    for tool in ("WebFetch", "WebSearch", "Task", "Glob", "Grep", "mcp__db__query"):
        record = {"toolNames": [tool], "contentPatterns": [r"drop\s+table"]}
        assert does_fire(record, build_event(tool, content="drop  table users"))
        assert not does_fire(record, build_event(tool, content="select 1"))
    assert does_fire({"toolNames": ["Agent"], "contentPatterns": ["x"]}, build_event("Task", content="x"))


@pytest.mark.parametrize(
    ("globs", "pattern", "path", "expected"),
    [
        (["**/*.proto"], "**/*.proto", "", True),
        (["**/*.proto"], "src/**/*.proto", "", True),
        (["**/*.proto"], "*.proto", "src", True),
        (["*.proto"], "api/v1.proto", "", True),
        (["**/*.proto"], "**/*.{proto,md}", "", True),
        (["**/*.proto"], "{src,{api,rpc}/v1}/*.proto", "", True),
        (["src/**/*.proto"], "src/**/*.proto", "", True),
        (["src/*.proto"], "src/**/*.proto", "", True),
        (["src/*.proto"], "**/*.proto", "src", True),
        (["src/**"], "**/*", f"{ROOT}/src", True),
        (["migrations/[0-9]*.sql"], "migrations/0001*.sql", "", True),
        (["/etc/**"], "/etc/**/*.conf", "", True),
        (["**/*.proto", "!vendor/**"], "vendor/**/*.proto", "", False),
        (["**/*.proto"], "**/*.{ts,tsx}", "", False),
        (["**/*.proto"], "**/*", "", False),
        (["**/*.proto"], "**/*.proto.bak", "", False),
        (["src/**/*.proto"], "docs/**/*.proto", "", False),
        (["src/**/*.proto"], "**/*.proto", "", False),
        (["*.proto"], "}{", "", False),
        (["*.proto"], "*.proto" * 1_000, "", False),
    ],
)
def test_a_glob_call_is_judged_by_the_files_it_looks_for(
    globs: list[str], pattern: str, path: str, expected: bool
) -> None:
    record = {"triggers": {"pathPatterns": globs}}
    assert does_fire(record, build_event("Glob", content=pattern, path=path)) == expected


def test_a_pattern_with_too_many_braces_is_given_up_early() -> None:
    record = {"triggers": {"pathPatterns": ["**/*.proto"]}}
    assert not does_fire(record, build_event("Glob", content="{a,b}" * 190))


def test_flags_of_a_pattern_count() -> None:
    record = {"toolNames": ["Bash"], "commandPatterns": [{"source": "DROP TABLE", "flags": "i"}]}
    assert does_fire({**record, "commandMatchTarget": "full"}, build_event("Bash", command="psql -c 'drop table x'"))


@pytest.mark.parametrize(
    ("folders", "expected"),
    [
        ([ROOT], True),
        ([ROOT + "/src/deep"], True),
        (["/home/dev/project2"], False),
        (["/home/dev"], False),
        (["/elsewhere/worktree", ROOT], True),
        ([], False),
    ],
)
def test_a_scoped_lesson_fires_in_its_project_and_below_and_nowhere_else(folders: list[str], expected: bool) -> None:
    record = {**STASH, "scope": {"type": "project", "path": ROOT}}
    assert does_fire(record, build_event("Bash", command="git stash"), folders=tuple(folders)) is expected


def test_a_mismatch_is_explained() -> None:
    def explain_call(record: dict[str, Any], call: Event) -> str:
        [entry] = compile_entries([build_lesson(**record)])
        return explain_mismatch(entry, prepare_call(call, project_root=ROOT, equivalent_folders=[ROOT]), search_pattern)

    assert explain_call(STASH, build_event("Read", path="/x")) == "is about Bash, not Read"
    assert explain_call(STASH, build_event("Bash", command="ls")) == "has no pattern that matches"
    assert (
        explain_call({**STASH, "unless": ["-u"]}, build_event("Bash", command="git stash -u"))
        == "is called off by `unless`"
    )
    elsewhere = {**STASH, "scope": {"type": "project", "path": "/other"}}
    assert explain_call(elsewhere, build_event("Bash", command="git stash")) == "belongs to /other"


words = st.sampled_from(
    ["git", "stash", "npm", "ci", "-u", "rm", "'a b'", '"x"', "&&", ";", "|", "\n", "sudo", "$(ls)"]
)


@given(
    st.lists(words, max_size=8).map(" ".join), st.sampled_from([r"\bgit\s+stash\b", "rm", "npm ci", r"^npm|^rm$", "-u"])
)
def test_the_index_never_hides_a_lesson_that_matches(command: str, pattern: str) -> None:
    record = {"triggers": {"toolNames": ["Bash"], "commandPatterns": [pattern]}}
    plain = does_fire(record, build_event("Bash", command=command))
    assert plain or not does_fire({**record, "delivery": "hold"}, build_event("Bash", command=command))


def test_entries_are_sorted_blocks_first_then_by_priority() -> None:
    lessons = [
        build_lesson(1, toolNames=["Bash"], priority=9),
        build_lesson(2, toolNames=["Bash"], priority=1, delivery="block", blockReason="r"),
        build_lesson(3, toolNames=["Bash"], priority=5, delivery="hold"),
        build_lesson(4, toolNames=["Bash"], priority=10),
    ]
    assert [entry.slug for entry in compile_entries(lessons)] == ["slug2", "slug3", "slug4", "slug1"]


def test_a_problem_that_begins_with_the_summary_is_told_once() -> None:
    [entry] = compile_entries([build_lesson(summary="kite --fast fails", problem="kite --fast fails: unknown option")])
    assert entry.text.startswith("## Lesson: kite --fast fails: unknown option\n**Fix**: ")
    [entry] = compile_entries([build_lesson(summary="kite is slow", problem="kite --fast fails: unknown option")])
    assert entry.text.startswith("## Lesson: kite is slow\nkite --fast fails: unknown option\n**Fix**: ")
