"""What each call of a turn did: ran a check, changed a file, looked something up, or nothing worth a word.

A result is read here once, so that whoever writes about a session sees deeds and never a payload.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from hardwon.agents.fields import collect_strings, get_first_text, get_text, get_tool_content
from hardwon.agents.tool_results import get_stored_result_text
from hardwon.distil import check_results
from hardwon.distil.check_results import CheckResult
from hardwon.shell import failures
from hardwon.shell.parsing import SimpleCommand
from hardwon.text.excerpts import shorten_line, to_plain_line
from hardwon.text.token_estimate import estimate_tokens
from hardwon.types import EDIT_TOOLS, Call, Turn

ActionKind = Literal[
    "saved", "check", "ran", "changed", "read", "searched", "fetched", "agent", "used", "looked", "noise", "refused"
]
# What a call does to the world: only one that ended can be said to have done it.
_ACTS = frozenset(("saved", "check", "ran", "changed"))
MAX_COMMAND_CHARS = 90  # characters of a command
_DEFINED = 5  # names of what an edit is about
_LOOKED_AT = 8_000

_QUIET_PROGRAMS = (
    "ps env printenv date whoami uname du df jq column basename dirname realpath test [ [[ command type read xxd"
    " md5sum sha256sum lsof mkdir touch chmod kill pkill wait true false : local return exit source . unset shopt"
    " trap jobs hash id hostname pgrep less more strings New-Item dir clear history break continue foreach function"
    " param hardwon"
)
_QUIET = failures.READ_ONLY_PROGRAMS | frozenset(_QUIET_PROGRAMS.split())
_GIT_SAVES = frozenset(["commit", "push", "tag"])
_GIT_READING = (
    "status diff log show branch blame remote rev-parse ls-files fetch config describe reflog grep add check-ignore"
    " rev-list merge-base ls-tree cat-file ls-remote shortlog diff-tree name-rev symbolic-ref for-each-ref var"
)
_GIT_LOOKS = frozenset(_GIT_READING.split())
_GH_SAVES = frozenset(["create", "merge", "close", "comment", "edit", "review", "ready", "release"])
_CHECKING = (
    "pytest unittest tox nox jest vitest mocha ava playwright cypress rspec phpunit tsc vue-tsc mypy pyright ruff"
    " flake8 pylint eslint biome oxlint prettier stylelint golangci-lint gofmt goimports staticcheck clippy"
    " shellcheck test tests lint typecheck type-check build check vet compile fmt format verify ci qa validate e2e"
    " bench"
)
_CHECKS = frozenset(_CHECKING.split())
_RUNNERS = (
    "npm npx pnpm yarn bun bunx deno node go cargo make just mise task gradle gradlew mvn mvnw dotnet swift"
    " xcodebuild docker python python3 uv uvx poetry pdm hatch bundle rake php composer turbo nx bazel cmake ninja"
    " rush lerna moon dart flutter mix sbt lein zig tsx pre-commit"
)
_RUN_CHECKS = frozenset(_RUNNERS.split())
_SAY_NOTHING = (
    "TodoWrite TodoRead TaskCreate TaskUpdate TaskList TaskGet TaskStop KillShell KillBash TaskOutput"
    " Skill SlashCommand AskUserQuestion ExitPlanMode EnterPlanMode ListMcpResourcesTool ToolSearch LS update_topic"
    " save_memory wait send_input close_agent wait_agent StructuredOutput Monitor SendMessage ScheduleWakeup"
)
_NOTHING = frozenset(_SAY_NOTHING.split())
_POLLS = "BashOutput"
_SEARCHES = frozenset(("Grep", "Glob"))
_EDITORS_TOOLS = {"FileSave": "Edit", "FileOpen": "Read"}  # what an editor's extension reports, as an agent's tool
_DEFINES = re.compile(
    r"^[ \t]*(?:export[ \t]+)?(?:default[ \t]+)?(?:abstract[ \t]+)?(?:pub(?:\(\w+\))?[ \t]+)?(?:static[ \t]+)?"
    r"(?:async[ \t]+)?"
    r"(?:def|class|func|fn|function|interface|struct|enum|trait|type|module)[ \t]+(?:\([^)\n]{0,80}\)[ \t]*)?(\w+)"
    r"|^[ \t]*(?:export[ \t]+)?const[ \t]+(\w+)[^=\n]{0,80}=[ \t]*(?:async[ \t]*)?(?:\(|function\b|\w+[ \t]*=>)",
    re.M,
)
_HUNK = re.compile(r"^@@ -\d{1,9}(?:,\d{1,9})? \+(\d{1,9})(?:,\d{1,9})? @@", re.M)
_NUMBERED = re.compile(r"^\s*(\d+)[→\t](.*)$", re.M)
_PATCHED = re.compile(r"^[AMD] (\S.*)$", re.M)
_REDIRECTS = re.compile(r"(?:^|[^\d&<>-])>>?[ \t]*(?![&(])([\w.@~/-]{0,200}\w\.\w+)")
_ELSEWHERE = ("/tmp/", "/dev/", "/var/", "/private/")
_TO = re.compile(r"\s*\d?&?>>?\s*(?:&\d|/dev/null)|\s*<<-?\s*\S+$")
_TOLD_INSIDE = re.compile(r"""\s*(?:-\w*m\s*|--(?:message|body|notes)[= ])?["']?\$\(\s*cat.*""", re.S)
_ASKS_ITSELF = frozenset(("--help", "-h", "--version", "-V", "help", "version"))
_TIDIES = frozenset(("gofmt", "goimports", "prettier", "fmt", "format"))
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_PROGRAM = re.compile(r"\w[\w.@+-]*")
_CMDLET = re.compile(
    r"(?:Get|Set|Format|Group|Sort|Select|Where|ForEach|Measure|Out|Write|Test|Join|Split|Convert\w*|Import)-\w+", re.I
)
_PREAMBLE = re.compile(r"(?:working directory|context|you are|repo(?:sitory)?|cwd)\b|\W*$", re.I)
_REFUSAL = re.compile(r"(?:user said:|reason for the rejection:)\s*(.+)", re.S)
_NOT_THEIRS = "Note: The user's next message"


class ToolAction(NamedTuple):
    """A call and what it came to; `what` names it for people, `paths` are relative to the project where they can be."""

    call: Call
    kind: ActionKind
    label: str
    paths: tuple[str, ...] = ()
    names: tuple[str, ...] = ()  # what an edit is about
    place: int = 0  # the line of an edit
    created: int = 0  # lines of a file that was not there
    text: str = ""
    failed: bool = False
    tally: CheckResult | None = None
    tokens: int = 0
    refused: str = ""  # a person's words, or a blank


def classify_calls(turn: Turn) -> list[ToolAction]:
    places = [_slashed(root).rstrip("/") for root in (turn.project, turn.cwd)]
    roots = tuple(dict.fromkeys(f"{place}/" for place in places if place.startswith("/") or _DRIVE.match(place)))
    done = [_as_far_as_it_ran(_deed(call, roots)) for call in turn.calls if call.outcome != "denied"]
    latest = dict[str, int]()
    for place, deed in enumerate(done):
        command = get_text(deed.call.input, "command") if isinstance(deed.call.input, dict) else ""
        if deed.call.tool == _POLLS and command in latest:  # how it went is told by the last look at it
            done[latest[command]] = done[latest[command]]._replace(kind="noise", tally=None)
        latest[command] = place
    return done


def _as_far_as_it_ran(deed: ToolAction) -> ToolAction:
    """The deed without what it would have done, if a person refused it or nobody knows how it ended."""
    outcome = deed.call.outcome
    if outcome == "refused":
        return deed._replace(kind="refused", paths=(), names=(), created=0, tally=None, failed=False)
    if outcome == "interrupted" or (outcome == "" and deed.kind in _ACTS):
        return deed._replace(kind="noise", paths=(), names=(), created=0, tally=None, failed=False)
    return deed


def _deed(call: Call, roots: tuple[str, ...]) -> ToolAction:
    given: dict[str, Any] = call.input if isinstance(call.input, dict) else {}
    text = get_stored_result_text(call.response)
    fields: dict[str, Any] = {
        "text": text,
        "failed": call.outcome == "failed",
        "tokens": estimate_call_tokens(call),
        "refused": _words(text) if call.outcome == "refused" else "",
    }
    command = get_text(given, "command")
    if call.tool in _NOTHING or (call.tool == _POLLS and not command):
        return ToolAction(call, "noise", call.tool, **fields)
    if call.tool == "Bash" or (command and call.tool not in EDIT_TOOLS):
        return _ran(call, command, fields, roots)
    path = to_relative_path(get_first_text(given, "file_path", "notebook_path", "path", "glob"), roots)
    tool = _EDITORS_TOOLS.get(call.tool, call.tool) if path else call.tool
    if tool in EDIT_TOOLS:
        return ToolAction(call, "changed", path, **_edit(tool, given, text, path, roots), **fields)
    content = get_tool_content(call.tool, given)
    if tool == "Read":
        return ToolAction(call, "read", path, (path,) if path else (), **fields)
    if call.tool in _SEARCHES:
        wanted = get_text(given, "pattern") or content or path
        return ToolAction(call, "searched" if wanted else "noise", shorten_line(wanted, 60), **fields)
    if call.tool in ("WebFetch", "WebSearch"):
        return ToolAction(
            call, "fetched", shorten_line(get_first_text(given, "url", "query") or content, 120), **fields
        )
    if call.tool == "Task":
        return ToolAction(
            call, "agent", shorten_line(get_text(given, "description") or _first_line(content), 100), **fields
        )
    return ToolAction(call, "used", _tool_name(call.tool), **fields)


def estimate_call_tokens(call: Call) -> int:
    given = call.input if isinstance(call.input, str) else "".join(collect_strings(call.input))
    return estimate_tokens(given) + estimate_tokens(call.response)


def to_relative_path(path: str, roots: Iterable[str]) -> str:
    path = to_plain_line(_slashed(path))
    for root in roots:
        if path.startswith(root):
            return path[len(root) :]
    return path


def _slashed(path: str) -> str:
    return path.replace("\\", "/") if _DRIVE.match(path) else path


def _words(text: str) -> str:
    said = _REFUSAL.search(text.partition(_NOT_THEIRS)[0])
    return shorten_line(said[1], 160) if said else " "


def _first_line(text: str) -> str:
    """What a sub-agent is to do, past headings and the line that says where."""
    lines = [line for line in text[:2_000].splitlines() if line.strip()]
    told = (line for line in lines if not line.startswith("#") and not _PREAMBLE.match(line))
    return to_plain_line(next(told, next(iter(lines), "").lstrip("# ")))


def _tool_name(tool: str) -> str:
    parts = tool.split("__")
    return to_plain_line(f"{parts[1]}: {'__'.join(parts[2:])}" if tool.startswith("mcp__") and len(parts) > 2 else tool)


def _edit(tool: str, given: dict[str, Any], text: str, path: str, roots: tuple[str, ...]) -> dict[str, Any]:
    after = get_tool_content(tool, given)[:_LOOKED_AT]
    before = get_text(given, "old_string")[:_LOOKED_AT]
    patched = [to_relative_path(found, roots) for found in _PATCHED.findall(text)] if "following files:" in text else []
    paths = tuple(dict.fromkeys(one for one in (path, *patched) if one))
    new = "created" in text[:400] or (len(paths) == 1 and f"A {path}" in text[:400])
    lines = after.count("\n") + (not after.endswith("\n")) if after else 0
    return {
        "paths": paths,
        "names": _names(after, before) if len(paths) <= 1 else (),
        "place": 0 if tool == "Write" else _place(text, after),
        "created": lines if new and tool == "Write" else 0,
    }


def _names(after: str, before: str) -> tuple[str, ...]:
    """What is defined in the new text, without what was there before."""
    found = [one or other for one, other in _DEFINES.findall(after)]
    known = frozenset(one or other for one, other in _DEFINES.findall(before)) if before else frozenset[str]()
    new = [name for name in dict.fromkeys(found) if name not in known]
    return tuple((new or list(dict.fromkeys(found)))[:_DEFINED])


def _place(text: str, after: str) -> int:
    """The line where an edit begins, by the patch or by the numbered lines that are shown after it."""
    if hunk := _HUNK.search(text[:_LOOKED_AT]):
        unchanged = 0
        for line in text[hunk.end() :].splitlines()[1:]:
            if line.startswith(("+", "-", "@@")):
                break
            unchanged += 1
        return int(hunk[1]) + unchanged
    first = next((line.strip() for line in after.splitlines() if line.strip()), "")
    for found in _NUMBERED.finditer(text[:8_000]) if first else ():
        if found[2].strip() == first:
            return int(found[1]) if len(found[1]) < 9 else 0
    return 0


def _ran(call: Call, command: str, fields: dict[str, Any], roots: tuple[str, ...]) -> ToolAction:
    kind, what, written = _command(command[: failures.MAX_INSPECTED_CHARS], roots)
    text: str = fields["text"]
    tally = check_results.parse_check_result(text) if kind == "check" and text else None
    failed = (
        fields["failed"] or bool(tally and tally.has_failed) or failures.is_unreported_failure(call.tool, command, text)
    )
    return ToolAction(call, kind, what, written, **{**fields, "failed": failed}, tally=tally)


@lru_cache(maxsize=4096)  # the same turns are read for their observations and for the summary
def _command(command: str, roots: tuple[str, ...]) -> tuple[ActionKind, str, tuple[str, ...]]:
    """What a command is, what it is called, and the files it writes by itself."""
    parts = [(part, _kind(part)) for part in failures.list_simple_commands(command)]
    found = {kind for _, kind in parts}
    kind: ActionKind = next((one for one in _WEIGHTS if one in found), "noise")
    written = _written(command, roots)
    if written and kind in ("looked", "noise"):
        return "changed", written[0], written
    return kind, format_command([part for part, own in parts if own == kind != "noise"], command, roots), written


_WEIGHTS: tuple[ActionKind, ...] = ("saved", "check", "ran", "looked")


def _kind(part: SimpleCommand) -> ActionKind:
    words = [word for word in part.words[1:] if not word.startswith("-")]
    first = words[0] if words else ""
    if part.program == "git":
        first = next((word for word in words if word.isalpha() or word in _GIT_LOOKS), "")
        return "saved" if first in _GIT_SAVES else "looked" if first in _GIT_LOOKS or not first else "ran"
    if part.program in ("gh", "glab"):
        return "saved" if _GH_SAVES & set(words[:2]) else "looked"
    if part.program in _QUIET or not _PROGRAM.fullmatch(part.program) or part.words[1:2] == ("=",):
        return "noise"
    if _CMDLET.fullmatch(part.program):
        return "noise"
    if _ASKS_ITSELF.intersection(part.words[1:4]):
        return "looked"
    named = {part.program, *re.split(r"[\s:]+", " ".join(words[:4]))}
    if part.program not in _CHECKS and not (part.program in _RUN_CHECKS and _CHECKS & named):
        return "ran"
    return "looked" if _TIDIES & named and not _CHECKS & (named - _TIDIES) else "check"


def format_command(parts: Iterable[SimpleCommand], command: str, roots: tuple[str, ...]) -> str:
    """The commands that matter, as a person would name them."""
    found = list[str]()
    for part in parts:
        text = part.full_text
        if "\n" in text:
            text = _TOLD_INSIDE.sub("", part.code.partition("\n")[0]).replace('""', '"…"').replace("''", "'…'")
        text = _TO.sub("", to_plain_line(text))
        for root in roots:
            text = text.replace(root, "")
        found.append(text)
    return shorten_line(
        " && ".join(dict.fromkeys(found)) or to_plain_line(command[: 4 * MAX_COMMAND_CHARS]), MAX_COMMAND_CHARS
    )


def _written(command: str, roots: tuple[str, ...]) -> tuple[str, ...]:
    """The files of the project that a command writes by itself."""
    found = _REDIRECTS.findall(failures.get_command_code(command)) if ">" in command else []
    if "sed" in command or "perl" in command:
        for part in failures.list_simple_commands(command):
            in_place = part.program in ("sed", "perl") and any(
                re.match(r"-\w*i|--in-place", word) for word in part.words
            )
            found += [word for word in part.words[2:] if in_place and re.fullmatch(r"[\w.@~/-]*\w\.\w{1,6}", word)]
    return tuple(dict.fromkeys(to_relative_path(path, roots) for path in found if not path.startswith(_ELSEWHERE)))
