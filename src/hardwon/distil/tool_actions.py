"""Classify the calls of a turn (ran a check, changed a file, looked something up), and parse what checks print.

Results are read only here; other modules see actions and no raw payloads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from hardwon.agents.fields import collect_strings, get_first_text, get_text, get_tool_content
from hardwon.agents.tool_results import get_stored_result_text
from hardwon.shell import failures, working_commands
from hardwon.shell.failures import cut_middle, find_failure_line
from hardwon.shell.parsing import SimpleCommand
from hardwon.text.characters import estimate_tokens
from hardwon.text.excerpts import shorten_line, to_plain_line
from hardwon.types import EDIT_TOOLS, Call, Turn, frozen

MAX_ERROR_CHARS = 200  # shown part of an error
_COUNT = (
    r"\d+ (?:passed|failed|failures?|errors?|passing|failing|pass|fail|skipped|pending|todo|flaky|ignored|issues?"
    r"|problems?|warnings?|tests?|examples?|xfailed|xpassed)"
)
# Matches the line in which a test runner sums up its run.
_SUMMARY_LINE = re.compile(
    rf"^[^\w\n]{{0,40}}(?:Tests:?\s{{1,10}}|test result: \w+\. )?{_COUNT}\b"
    rf"(?:[,;|\s(]{{1,12}}(?:{_COUNT}|\d+ total|\d+ (?:measured|filtered out))\b)*\)?"
    r"(?=[^\w\n]{0,40}(?:$|in \d|\(\d|\[|across|from|total|;|finished))",
    re.M,
)
_VERDICT_LINE = re.compile(
    r"^[^\w\n]{0,40}(Success: no issues found(?: in \d+ source files?)?|All checks passed!?"
    r"|Found \d+ (?:errors?|warnings?)\b[^\n]{0,60}|Ran \d+ tests? in [\d.]+s"
    r"|FAILED \((?:failures|errors)=[^)\n]{0,60}\)|(?:Passed|Failed)!\s+- Failed:[^\n]{0,80}"
    r"|BUILD (?:SUCCESSFUL|FAILED)|Test Suites: \d+ failed[^\n]{0,60})",
    re.M,
)
_FAILED_RESULT = re.compile(
    r"\b[1-9]\d* (?:failed|failing|fail|failures?|errors?|issues?|problems?)\b|FAILED|Failed!|[=:] *[1-9]\d* error"
)
_COUNT_PARTS = re.compile(
    r"(\d+) (passed|failed|failures?|errors?|passing|failing|pass|fail|skipped|ignored|issues?|problems?)\b"
)
_GO_RESULT = re.compile(r"^(ok|FAIL|---? FAIL:)[ \t]+(\S+)", re.M)
_TYPE_ERROR = re.compile(r"\berror TS\d+:")
_SOURCE_LOCATION = re.compile(
    r"^(?:\[[\w:.-]+\] )?[^\s:(]*\w\.\w{1,5}(?::\d+(?::\d+)?:?|\(\d+,\d+\):)\s+\S[^\n]*", re.M
)
_PYTEST_ERROR = re.compile(r"^E  +(\w*(?:Error|Exception|Exit|assert)\b[^\n]*)", re.M)
# Lines of the wrapper that started the failing program, and lines about success.
_RUNNER_NOISE = re.compile(
    r"^(?:\[\S+\] )?(?:(?:ERROR )?(?:\[\S+\] )?task failed.*|.*\brun with -\S+ .*for more (?:information|details).*"
    r"|make(?:\[\d+\])?: \*\*\*.*|error: Recipe .*|.*ELIFECYCLE.*|ok\s+\S+.*"
    r"|npm (?:ERR!|error) (?:code|errno|syscall|path|command|workspace|location|A complete log|Lifecycle)\b.*"
    r"|.*(?:exited with code|Command failed with exit code) \d+.*|\[\S+\] \$ .*|FAIL|PASS|\? .*\[no test files\]"
    r"|\s*\d*\s*[│┃].*)$\n?",  # the last is a line of code that a linter shows
    re.M | re.I,
)
_EXIT_CODE = re.compile(r"\A(?:Error: )?(?:Exit code|Process exited with code):? (-?\d+)")
_COMMIT = re.compile(r"^\[([^\]\s]+)(?: \([^)]*\))? ([0-9a-f]{7,40})\] (.+)$", re.M)
# The first line of the message in `git commit -m "…"`, also in a heredoc.
_COMMIT_MESSAGE = re.compile(
    r"""\bgit commit\b[^\n]*?\s(?:-\w*m|--message)[ =]*"""
    r"""(?:"\$\(cat <<-?\s*['"]?\w+['"]?\n\s*([^\n]+)|"([^"$`\n]+)|'([^'\n]+))"""
    r"""|\bgit commit\b[^\n]*?\s(?:-\w*F|--file)[ =]*- <<-?\s*['"]?\w+['"]?[^\n]*\n\s*([^\n]+)"""
)
# What `git push` prints of a branch that had commits before: "1a2b3c4..5d6e7f8  tail -> tail".
_PUSHED_RANGE = re.compile(r"^[ \t]+[0-9a-f]{7,40}\.\.([0-9a-f]{7,40})[ \t]+(\S+) -> \S+$", re.M)
_QUIET_OPTION = re.compile(r"-[a-z]*q[a-z]*|--quiet")
_RAN_NOTHING = re.compile(r"\bno tests? (?:were |was )?(?:found|ran|run|to run|collected|executed)\b", re.I)
_CONFIRMS_COMMIT = re.compile(r"^\W*(?:ok|done|committed|success\w*)\b|\bfiles? changed\b", re.I)
_DIFF_STAT = re.compile(r"(\d+) files? changed(?:, (\d+) insertions?\(\+\))?(?:, (\d+) deletions?\(-\))?")
_PULL_REQUEST = re.compile(r"https?://[^\s/]+/[^\s]+?/(?:pull|merge_requests)/\d+")
ActionKind = Literal[
    "saved", "check", "ran", "changed", "read", "searched", "fetched", "agent", "used", "looked", "noise", "refused"
]
# These change something, so they count only if the call is known to have ended.
_ACTING_KINDS = frozenset(("saved", "check", "ran", "changed"))
MAX_COMMAND_CHARS = 90  # shown part of a command
_MAX_NAMES = 5  # names listed for an edit
_MAX_INSPECTED_CHARS = 8_000

# Programs that change nothing worth reporting.
_QUIET_PROGRAM_WORDS = (
    "ps env printenv date whoami uname du df jq column basename dirname realpath test [ [[ command type read xxd"
    " md5sum sha256sum lsof mkdir touch chmod kill pkill wait true false : local return exit source . unset shopt"
    " trap jobs hash id hostname pgrep less more strings New-Item dir clear history break continue foreach function"
    " param hardwon"
)
_QUIET_COMMANDS = working_commands.READ_ONLY_PROGRAMS | frozenset(_QUIET_PROGRAM_WORDS.split())
_GIT_SAVE_COMMANDS = frozenset(["commit", "push", "tag"])
_TAG_LISTINGS = frozenset(("-l", "--list", "--contains", "--points-at", "--merged"))
# Git commands that only look or prepare: they leave no commit.
_GIT_LOOK_WORDS = (
    "status diff log show branch blame remote rev-parse ls-files fetch config describe reflog grep add check-ignore"
    " rev-list merge-base ls-tree cat-file ls-remote shortlog diff-tree name-rev symbolic-ref for-each-ref var"
)
_GIT_LOOK_COMMANDS = frozenset(_GIT_LOOK_WORDS.split())
_GH_SAVE_COMMANDS = frozenset(["create", "merge", "close", "comment", "edit", "review", "ready", "release"])
_GH_LOOK_COMMANDS = frozenset(("view", "list", "download", "verify"))
_CHECK_WORDS = (
    "pytest unittest tox nox jest vitest mocha ava playwright cypress rspec phpunit tsc vue-tsc mypy pyright ruff"
    " flake8 pylint eslint biome oxlint prettier stylelint golangci-lint gofmt goimports staticcheck clippy"
    " shellcheck test tests lint typecheck type-check build check vet compile fmt format verify ci qa validate e2e"
    " bench"
)
_CHECK_COMMANDS = frozenset(_CHECK_WORDS.split())
# With a check word among their arguments these run a check: `npm test`, `docker compose run lint`.
_RUNNER_WORDS = (
    "npm npx pnpm yarn bun bunx deno node go cargo make just mise task gradle gradlew mvn mvnw dotnet swift"
    " xcodebuild docker python python3 uv uvx poetry pdm hatch bundle rake php composer turbo nx bazel cmake ninja"
    " rush lerna moon dart flutter mix sbt lein zig tsx pre-commit"
)
_CHECK_RUNNERS = frozenset(_RUNNER_WORDS.split())
_INSTALL_COMMANDS = frozenset(("add", "i", "install", "remove", "uninstall", "upgrade"))
# Tools of the agents' own bookkeeping.
_SILENT_TOOL_WORDS = (
    "TodoWrite TodoRead TaskCreate TaskUpdate TaskList TaskGet TaskStop KillShell KillBash TaskOutput"
    " Skill SlashCommand AskUserQuestion ExitPlanMode EnterPlanMode ListMcpResourcesTool ToolSearch LS update_topic"
    " save_memory wait send_input close_agent wait_agent StructuredOutput Monitor SendMessage ScheduleWakeup"
)
_SILENT_TOOLS = frozenset(_SILENT_TOOL_WORDS.split())
_POLL_TOOL = "BashOutput"
_SEARCH_TOOLS = frozenset(("Grep", "Glob"))
# Events of an editor extension, as the agent tools they correspond to.
_EDITOR_TOOLS = {"FileSave": "Edit", "FileOpen": "Read"}
_DEFINITION = re.compile(
    r"^[ \t]*(?:export[ \t]+)?(?:default[ \t]+)?(?:abstract[ \t]+)?(?:pub(?:\(\w+\))?[ \t]+)?(?:static[ \t]+)?"
    r"(?:async[ \t]+)?"
    r"(?:def|class|func|fn|function|interface|struct|enum|trait|type|module)[ \t]+(?:\([^)\n]{0,80}\)[ \t]*)?(\w+)"
    r"|^[ \t]*(?:export[ \t]+)?const[ \t]+(\w+)[^=\n]{0,80}=[ \t]*(?:async[ \t]*)?(?:\(|function\b|\w+[ \t]*=>)",
    re.M,
)
_PATCHED_FILE = re.compile(r"^[AMD] (\S.*)$", re.M)
_REDIRECT_TARGET = re.compile(r"(?:^|[^\d&<>-])>>?[ \t]*(?![&(])([\w.@~/-]{0,200}\w\.\w+)")
# After `cd "$(mktemp -d)"` a relative path is not the project's.
_LEAVES_PROJECT = re.compile(r"\b(?:cd|pushd)\s+[\"']?(?:\$|~|/tmp/|/var/|/private/)")
_OUTSIDE_PREFIXES = ("/tmp/", "/dev/", "/var/", "/private/")
_REDIRECTION = re.compile(r"\s*\d?&?>>?\s*(?:&\d|/dev/null)|\s*<<-?\s*\S+$")
_INLINE_MESSAGE = re.compile(r"""\s*(?:-\w*m\s*|--(?:message|body|notes)[= ])?["']?\$\(\s*cat.*""", re.S)
_HELP_ARGUMENTS = frozenset(("--help", "-h", "--version", "-V", "help", "version"))
_HIDES_EXIT_CODE = re.compile(r"[;|](?!\|)")
_FORMATTERS = frozenset(("gofmt", "goimports", "prettier", "fmt", "format"))
_DRIVE_PREFIX = re.compile(r"[A-Za-z]:[\\/]")
_PROGRAM_NAME = re.compile(r"\w[\w.@+-]*")
_CMDLET = re.compile(
    r"(?:Get|Set|Format|Group|Sort|Select|Where|ForEach|Measure|Out|Write|Test|Join|Split|Convert\w*|Import)-\w+", re.I
)
_PREAMBLE = re.compile(r"(?:working directory|context|you are|repo(?:sitory)?|cwd)\b|\W*$", re.I)
_REFUSAL_REASON = re.compile(r"(?:user said:|reason for the rejection:)\s*(.+)", re.S)
_REFUSAL_NOTE = "Note: The user's next message"


@frozen
class CheckResult:
    """The result of a check, in the runner's words."""

    text: str
    has_failed: bool


def parse_check_result(text: str) -> CheckResult | None:
    """Parse the summary of a check's output; None if it has none."""
    excerpt = cut_middle(text)
    summary_lines = [to_plain_line(match[0]).lstrip("=-✖×✓ℹ# ") for match in _SUMMARY_LINE.finditer(excerpt)]
    test_lines = [line for line in summary_lines if line.startswith("Tests")] or summary_lines
    if len([line for line in test_lines if line.startswith("test result")]) > 1:
        test_lines = [_sum_crate_results(test_lines)]
    if test_lines:
        if all(line.count(" ") == 1 for line in test_lines[:3]) and len(test_lines) <= 3:
            result_text = ", ".join(test_lines)
        else:
            result_text = test_lines[-1]
        result_text = re.sub(r"^Tests:?\s+|^test result: \w+\. ", "", result_text)
        return CheckResult(shorten_line(result_text, 90), bool(_FAILED_RESULT.search(result_text)))
    if go_results := _GO_RESULT.findall(excerpt):
        return _summarize_go_results(go_results)
    if type_errors := len(_TYPE_ERROR.findall(excerpt)):
        return CheckResult(f"{type_errors} type error{'s' * (type_errors > 1)}", True)
    result_text = ", ".join(dict.fromkeys(to_plain_line(match[1]) for match in _VERDICT_LINE.finditer(excerpt)))
    return CheckResult(shorten_line(result_text, 90), bool(_FAILED_RESULT.search(result_text))) if result_text else None


def _sum_crate_results(test_lines: list[str]) -> str:
    """Add up the results of all crates, because Cargo reports each separately."""
    totals = dict[str, int]()
    for line in test_lines:
        for count, label in _COUNT_PARTS.findall(line):
            totals[label] = totals.get(label, 0) + int(count)
    return ", ".join(f"{count} {label}" for label, count in totals.items() if count or label in ("passed", "failed"))


def _summarize_go_results(go_results: list[tuple[str, str]]) -> CheckResult:
    """Return the result of `go test` from the state and name of its lines: failed tests, or else failed packages."""
    ok_count = len({name for state, name in go_results if state == "ok"})
    failed_tests = list(dict.fromkeys(name for state, name in go_results if state != "ok" and state != "FAIL"))
    failed_packages = list(dict.fromkeys(name for state, name in go_results if state == "FAIL"))
    parts = [f"{ok_count} package{'s' * (ok_count > 1)} ok"] if ok_count else []
    if failed_names := failed_tests or failed_packages:
        more = f" and {len(failed_names) - 2} more" if len(failed_names) > 2 else ""
        parts.insert(0, f"FAIL {', '.join(failed_names[:2])}{more}")
    return CheckResult("; ".join(parts), bool(failed_tests or failed_packages))


def find_error_line(text: str, *, is_shell: bool) -> str:
    """Return the most informative error line: one with a file position and a message, else the first."""
    excerpt = cut_middle(text)
    if is_shell:
        program_output = _RUNNER_NOISE.sub("", excerpt)
        if program_output.strip():
            excerpt = program_output
        assertion = _PYTEST_ERROR.search(excerpt)
        location = _SOURCE_LOCATION.search(excerpt)
        if assertion:
            return shorten_line(assertion[1], MAX_ERROR_CHARS)
        if location:
            return shorten_line(location[0], MAX_ERROR_CHARS)
    return shorten_line(find_failure_line(excerpt, is_shell=is_shell).removeprefix("Error: "), MAX_ERROR_CHARS)


def _has_complaint(text: str) -> bool:
    """Return whether an output has a line with a file position and a message, as compilers and linters print."""
    return bool(_SOURCE_LOCATION.search(cut_middle(text)))


def is_source_location(line: str) -> bool:
    return bool(_SOURCE_LOCATION.match(line))


def find_exit_code(text: str) -> str:
    match = _EXIT_CODE.match(text)
    return match[1] if match else ""


class Commit(NamedTuple):
    """A commit as git reports it, with the size of its diff."""

    branch: str
    short_hash: str
    subject: str
    size: str


def parse_commits(text: str) -> list[Commit]:
    """Parse the commits that git reports."""
    matches = list(_COMMIT.finditer(text))
    commits: list[Commit] = []
    for index, match in enumerate(matches):
        # The size of a commit stands between its line and that of the next one.
        end = matches[index + 1].start() if index + 1 < len(matches) else len(text)
        size = _format_diff_stat(text[match.end() : end])
        commits.append(Commit(to_plain_line(match[1]), match[2][:12], to_plain_line(match[3]), size))
    return commits


def find_unreported_commit(action: ToolAction) -> str:
    """Return the subject of a commit that a command made without printing its hash; empty if that is not certain.

    `git commit -q` prints nothing, and wrappers of git print only "ok".
    """
    command = get_text(action.call.input, "command") if isinstance(action.call.input, dict) else ""
    subject = _COMMIT_MESSAGE.search(command)
    if not subject or action.failed or action.call.outcome != "fine" or parse_commits(action.text):
        return ""
    parts = working_commands.list_simple_commands(command)
    commits = [part for part in parts if _is_commit(part)]
    # Behind `;`, `|` or `||` the exit code need not be that of the commit.
    is_certain = bool(commits) and not _HIDES_EXIT_CODE.search(working_commands.get_command_code(command))
    is_silent = not action.text.strip() and any(
        part.program != "git" or any(map(_QUIET_OPTION.fullmatch, part.words)) for part in commits
    )
    has_confirmation = is_silent or bool(_CONFIRMS_COMMIT.search(action.text))
    if not is_certain or not has_confirmation or failures.has_failure_words(action.text[:_MAX_INSPECTED_CHARS]):
        return ""
    return to_plain_line(next(filter(None, subject.groups()), ""))


def find_pushed_commit(action: ToolAction) -> Commit | None:
    """Return the commit that a command made without printing it and then pushed; None if that is not certain.

    What `git push` prints has its hash, so the exit code may be hidden, as behind `git push | tail`.
    """
    command = get_text(action.call.input, "command") if isinstance(action.call.input, dict) else ""
    subject = _COMMIT_MESSAGE.search(command)
    ranges = _PUSHED_RANGE.findall(action.text)
    commits = [part for part in working_commands.list_simple_commands(command) if _is_commit(part)]
    if not subject or len(commits) != 1 or len(ranges) != 1 or action.call.outcome != "fine":
        return None
    short_hash, branch = ranges[0]
    return Commit(branch, short_hash[:12], to_plain_line(next(filter(None, subject.groups()), "")), "")


def _is_commit(part: SimpleCommand) -> bool:
    """Return whether a simple command runs `git commit`, possibly behind a wrapper."""
    words = (part.program, *part.words[1:])
    return ("git", "commit") in pairwise(words) and not {"--dry-run", "--amend"}.intersection(words)


def _format_diff_stat(text: str) -> str:
    """Return the size of a diff as `2 files +10 -3`; "" if the text has none."""
    stat = _DIFF_STAT.search(text)
    if not stat:
        return ""
    changes = [f"{sign}{count}" for sign, count in (("+", stat[2]), ("-", stat[3])) if count]
    return " ".join([f"{stat[1]} file{'s' * (stat[1] != '1')}", *changes])


def find_pull_request(text: str) -> str:
    match = _PULL_REQUEST.search(text)
    return match[0] if match else ""


class ToolAction(NamedTuple):
    """A call and its effect; `label` names it for people, `paths` are relative to the project if possible."""

    call: Call
    kind: ActionKind
    label: str
    paths: tuple[str, ...] = ()
    names: tuple[str, ...] = ()  # what an edit defines
    created: int = 0  # line count of a new file
    text: str = ""
    failed: bool = False
    tally: CheckResult | None = None
    tokens: int = 0
    refused: str = ""  # the person's words, or a blank if they gave none


def classify_calls(turn: Turn) -> list[ToolAction]:
    """Return what each call of a turn did, in order; calls that a hook denied are left out."""
    folders = [_normalize_slashes(root).rstrip("/") for root in (turn.project, turn.cwd)]
    absolute_folders = [folder for folder in folders if folder.startswith("/") or _DRIVE_PREFIX.match(folder)]
    roots = tuple(dict.fromkeys(f"{folder}/" for folder in absolute_folders))
    actions = [_drop_unfinished_effects(_classify_call(call, roots)) for call in turn.calls if call.outcome != "denied"]
    latest_positions = dict[str, int]()
    for position, action in enumerate(actions):
        command = get_text(action.call.input, "command") if isinstance(action.call.input, dict) else ""
        # Only the last poll of a command tells its result.
        if action.call.tool == _POLL_TOOL and command in latest_positions:
            actions[latest_positions[command]] = actions[latest_positions[command]]._replace(kind="noise", tally=None)
        latest_positions[command] = position
    return actions


def _drop_unfinished_effects(action: ToolAction) -> ToolAction:
    """Return the action without its effects if a person refused it or its outcome is unknown."""
    outcome = action.call.outcome
    if outcome == "refused":
        return action._replace(kind="refused", paths=(), names=(), created=0, tally=None, failed=False)
    if outcome == "interrupted" or (outcome == "" and action.kind in _ACTING_KINDS):
        return action._replace(kind="noise", paths=(), names=(), created=0, tally=None, failed=False)
    return action


def _classify_call(call: Call, roots: tuple[str, ...]) -> ToolAction:
    """Return what a call was meant to do, by its tool and input, whether or not it succeeded.

    `_drop_unfinished_effects` then takes back the effects of a call that was refused or has no known end.
    """
    arguments: dict[str, Any] = call.input if isinstance(call.input, dict) else {}
    text = get_stored_result_text(call.response)
    fields: dict[str, Any] = {
        "text": text,
        "failed": call.outcome == "failed",
        "tokens": estimate_call_tokens(call),
        "refused": _find_refusal_words(text) if call.outcome == "refused" else "",
    }
    command = get_text(arguments, "command")
    if call.tool in _SILENT_TOOLS or (call.tool == _POLL_TOOL and not command):
        return ToolAction(call, "noise", call.tool, **fields)
    # A poll has the command it waits for, and some agents run commands with tools of other names.
    if call.tool == "Bash" or (command and call.tool not in EDIT_TOOLS):
        return _classify_shell_call(call, command, fields, roots)
    path = to_relative_path(get_first_text(arguments, "file_path", "notebook_path", "path", "glob"), roots)
    tool = _EDITOR_TOOLS.get(call.tool, call.tool) if path else call.tool
    if tool in EDIT_TOOLS:
        return ToolAction(call, "changed", path, **_describe_edit(tool, arguments, text, path, roots), **fields)
    content = get_tool_content(call.tool, arguments)
    if tool == "Read":
        return ToolAction(call, "read", path, (path,) if path else (), **fields)
    if call.tool in _SEARCH_TOOLS:
        search_text = get_text(arguments, "pattern") or content or path
        return ToolAction(call, "searched" if search_text else "noise", shorten_line(search_text, 60), **fields)
    if call.tool in ("WebFetch", "WebSearch"):
        return ToolAction(
            call, "fetched", shorten_line(get_first_text(arguments, "url", "query") or content, 120), **fields
        )
    if call.tool == "Task":
        return ToolAction(
            call, "agent", shorten_line(get_text(arguments, "description") or _find_task_line(content), 100), **fields
        )
    return ToolAction(call, "used", to_plain_line(call.tool), **fields)


def estimate_call_tokens(call: Call) -> int:
    input_text = call.input if isinstance(call.input, str) else "".join(collect_strings(call.input))
    return estimate_tokens(input_text) + estimate_tokens(call.response)


def to_relative_path(path: str, roots: Iterable[str]) -> str:
    """Return a path relative to the first of the roots that contains it; another path as it is."""
    path = to_plain_line(_normalize_slashes(path))
    for root in roots:
        if path.startswith(root):
            return path[len(root) :]
    return path


def _normalize_slashes(path: str) -> str:
    return path.replace("\\", "/") if _DRIVE_PREFIX.match(path) else path


def _find_refusal_words(text: str) -> str:
    """Return the person's words in the result of a refused call; a blank if they gave none."""
    match = _REFUSAL_REASON.search(text.partition(_REFUSAL_NOTE)[0])
    return shorten_line(match[1], 160) if match else " "


def _find_task_line(text: str) -> str:
    """Return the task of a sub-agent, skipping headings and the line that names the folder."""
    lines = [line for line in text[:2_000].splitlines() if line.strip()]
    task_lines = (line for line in lines if not line.startswith("#") and not _PREAMBLE.match(line))
    return to_plain_line(next(task_lines, next(iter(lines), "").lstrip("# ")))


def _describe_edit(
    tool: str, arguments: dict[str, Any], text: str, path: str, roots: tuple[str, ...]
) -> dict[str, Any]:
    """Return the fields of an edit: its files, the names it defines, new ones preferred, and the lines of a new file.

    `text` is the result of the call.
    """
    new_text = get_tool_content(tool, arguments)[:_MAX_INSPECTED_CHARS]
    old_text = get_text(arguments, "old_string")[:_MAX_INSPECTED_CHARS]
    edited_paths = [path]
    if "following files:" in text:  # a patch names its files in the result
        edited_paths += [to_relative_path(patched_path, roots) for patched_path in _PATCHED_FILE.findall(text)]
    paths = tuple(dict.fromkeys(edited_path for edited_path in edited_paths if edited_path))
    result_head = text[:400]  # what follows may be the content of the file
    is_created_by_patch = len(paths) == 1 and f"A {path}" in result_head
    is_new = "created" in result_head or is_created_by_patch
    line_count = new_text.count("\n")
    if new_text and not new_text.endswith("\n"):
        line_count += 1
    return {
        "paths": paths,
        "names": _find_defined_names(new_text, old_text) if len(paths) <= 1 else (),
        "created": line_count if is_new and tool == "Write" else 0,
    }


def _find_defined_names(new_text: str, old_text: str) -> tuple[str, ...]:
    """Return the names that the new text defines, preferably those that the old one does not."""
    defined_names = _list_defined_names(new_text)
    old_names = _list_defined_names(old_text)
    new_names = [name for name in defined_names if name not in old_names]
    return tuple((new_names or defined_names)[:_MAX_NAMES])


def _list_defined_names(text: str) -> list[str]:
    """Return the names that a text defines, each once and in order."""
    return list(dict.fromkeys(definition or assignment for definition, assignment in _DEFINITION.findall(text)))


def _classify_shell_call(call: Call, command: str, fields: dict[str, Any], roots: tuple[str, ...]) -> ToolAction:
    """Return what a shell command did; the result decides whether a check ran and whether it failed."""
    kind, label, written_paths = _classify_command(command[: failures.MAX_INSPECTED_CHARS], roots)
    text: str = fields["text"]
    may_be_check = kind == "check" or (kind == "ran" and find_check_words(label))
    tally = parse_check_result(text) if may_be_check and text else None
    if tally:  # an unknown wrapper ran a check, as in `with-env npm test`
        kind = "check"
    failed = fields["failed"] or failures.is_unreported_failure(call.tool, command, text)
    if tally and tally.has_failed:
        failed = True
    # Behind `;` or `|` the exit code is that of another program, so a check that complains may have failed.
    may_be_hidden = kind == "check" and not failed and not tally and _HIDES_EXIT_CODE.search(command)
    if (may_be_hidden and _has_complaint(text)) or (kind == "check" and not tally and _RAN_NOTHING.search(text)):
        kind = "ran"
    return ToolAction(call, kind, label, written_paths, **{**fields, "failed": failed}, tally=tally)


def find_check_words(command: str) -> frozenset[str]:
    """Return the words of a command that name checks, such as `test` and `lint`."""
    return _CHECK_COMMANDS.intersection(re.split(r"[\s:]+", command))


@lru_cache(maxsize=4096)  # the same turns are read for observations and for the summary
def _classify_command(command: str, roots: tuple[str, ...]) -> tuple[ActionKind, str, tuple[str, ...]]:
    """Return the kind of a command, its label, and the files it writes itself."""
    parts = [(part, _classify_simple_command(part)) for part in working_commands.list_simple_commands(command)]
    kinds = {kind for _, kind in parts}
    kind: ActionKind = next((ordered_kind for ordered_kind in _KIND_ORDER if ordered_kind in kinds), "noise")
    written_paths = _find_written_paths(command, roots)
    # `cat > file <<EOF` looks like reading but writes a file.
    if written_paths and kind in ("looked", "noise"):
        return "changed", written_paths[0], written_paths
    notable_parts = [part for part, part_kind in parts if part_kind == kind and kind != "noise"]
    return kind, format_command(notable_parts, command, roots), written_paths


# The most important part of a compound command decides its kind: `cd x && git commit` saves.
_KIND_ORDER: tuple[ActionKind, ...] = ("saved", "check", "ran", "looked")


def _classify_simple_command(part: SimpleCommand) -> ActionKind:
    """Return what a simple command does.

    It saves (commits, pushes), checks, runs something else, only looks, or is noise that says nothing of the work.
    """
    words = [word for word in part.words[1:] if not word.startswith("-")]
    subcommand = words[0] if words else ""
    if part.program == "git":
        # The first plain word: values of git's own options, as of `-C src/web`, mostly are not plain.
        subcommand = next((word for word in words if word.isalpha() or word in _GIT_LOOK_COMMANDS), "")
        if subcommand == "tag" and (words[-1] == "tag" or _TAG_LISTINGS.intersection(part.words)):
            return "looked"
        if subcommand in _GIT_SAVE_COMMANDS:
            return "saved"
        return "looked" if subcommand in _GIT_LOOK_COMMANDS or not subcommand else "ran"
    if part.program in ("gh", "glab"):
        is_save = bool(_GH_SAVE_COMMANDS & set(words[:2])) and not _GH_LOOK_COMMANDS & set(words[1:2])
        return "saved" if is_save else "looked"
    if _is_commit(part) and part.program not in _QUIET_COMMANDS:
        return "saved"  # `wrapper git commit`
    if part.program in _QUIET_COMMANDS or not _PROGRAM_NAME.fullmatch(part.program) or part.words[1:2] == ("=",):
        return "noise"
    if _CMDLET.fullmatch(part.program):
        return "noise"
    if _HELP_ARGUMENTS.intersection(part.words[1:4]):
        return "looked"
    names = {part.program, *re.split(r"[\s:]+", " ".join(words[:4]))}
    is_install = subcommand in _INSTALL_COMMANDS or (part.program, subcommand) == ("npm", "ci")
    runs_check = part.program in _CHECK_RUNNERS and bool(_CHECK_COMMANDS & names) and not is_install
    if part.program not in _CHECK_COMMANDS and not runs_check:
        return "ran"
    is_only_formatter = _FORMATTERS & names and not _CHECK_COMMANDS & (names - _FORMATTERS)
    return "looked" if is_only_formatter else "check"


def format_command(parts: Iterable[SimpleCommand], command: str, roots: tuple[str, ...]) -> str:
    """Format the notable parts of a command as a person would name them."""
    texts = list[str]()
    for part in parts:
        text = part.full_text
        if "\n" in text:
            text = _INLINE_MESSAGE.sub("", part.code.partition("\n")[0]).replace('""', '"…"').replace("''", "'…'")
        text = _REDIRECTION.sub("", to_plain_line(text))
        for root in roots:
            text = text.replace(root, "")
        texts.append(text)
    label = " && ".join(dict.fromkeys(texts))
    if not label:  # no part is notable
        label = to_plain_line(command[: 4 * MAX_COMMAND_CHARS])
    return shorten_line(label, MAX_COMMAND_CHARS)


def _find_written_paths(command: str, roots: tuple[str, ...]) -> tuple[str, ...]:
    """Return the project files that a command writes itself: by a redirection, or in place with sed or perl.

    After a `cd` out of the project, only absolute paths are known to be in it.
    """
    written_paths: list[str] = []
    if ">" in command:
        written_paths += _REDIRECT_TARGET.findall(working_commands.get_command_code(command))
    if "sed" in command or "perl" in command:
        for part in working_commands.list_simple_commands(command):
            if part.program in ("sed", "perl") and any(re.match(r"-\w*i|--in-place", word) for word in part.words):
                written_paths += [word for word in part.words[2:] if re.fullmatch(r"[\w.@~/-]*\w\.\w{1,6}", word)]
    if _LEAVES_PROJECT.search(command):
        written_paths = [path for path in written_paths if path.startswith("/")]
    project_paths = [path for path in written_paths if not path.startswith(_OUTSIDE_PREFIXES)]
    return tuple(dict.fromkeys(to_relative_path(path, roots) for path in project_paths))
