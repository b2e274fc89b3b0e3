"""What each call of a turn did: ran a check, changed a file, looked something up, or nothing worth a word.

A result is read here once, so that whoever writes about a session sees deeds and never a payload.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from hardwon.agents.fields import content_of, first_of, strings_in, text_of
from hardwon.agents.tool_results import text_of_stored_result
from hardwon.distil import check_results
from hardwon.distil.check_results import Tally
from hardwon.shell import failures
from hardwon.shell.parsing import Simple
from hardwon.text.excerpts import plain, short
from hardwon.text.token_estimate import estimate
from hardwon.types import EDITS, Call, Turn

Kind = Literal[
    "saved", "check", "ran", "changed", "read", "searched", "fetched", "agent", "used", "looked", "noise", "refused"
]
# What a call does to the world: only one that ended can be said to have done it.
_ACTS = frozenset(("saved", "check", "ran", "changed"))
SHOWN = 90  # characters of a command
_DEFINED = 5  # names of what an edit is about
_LOOKED_AT = 8_000

_QUIET_PROGRAMS = (
    "ps env printenv date whoami uname du df jq column basename dirname realpath test [ [[ command type read xxd"
    " md5sum sha256sum lsof mkdir touch chmod kill pkill wait true false : local return exit source . unset shopt"
    " trap jobs hash id hostname pgrep less more strings New-Item dir clear history break continue foreach function"
    " param hardwon"
)
_QUIET = failures.LOOKS | frozenset(_QUIET_PROGRAMS.split())
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


class Deed(NamedTuple):
    """A call and what it came to; `what` names it for people, `paths` are relative to the project where they can be."""

    call: Call
    kind: Kind
    what: str
    paths: tuple[str, ...] = ()
    names: tuple[str, ...] = ()  # what an edit is about
    place: int = 0  # the line of an edit
    created: int = 0  # lines of a file that was not there
    text: str = ""
    failed: bool = False
    tally: Tally | None = None
    tokens: int = 0
    refused: str = ""  # a person's words, or a blank


def deeds(turn: Turn) -> list[Deed]:
    places = [_slashed(root).rstrip("/") for root in (turn.project, turn.cwd)]
    roots = tuple(dict.fromkeys(f"{place}/" for place in places if place.startswith("/") or _DRIVE.match(place)))
    done = [_as_far_as_it_ran(_deed(call, roots)) for call in turn.calls if call.outcome != "denied"]
    latest = dict[str, int]()
    for place, deed in enumerate(done):
        command = text_of(deed.call.input, "command") if isinstance(deed.call.input, dict) else ""
        if deed.call.tool == _POLLS and command in latest:  # how it went is told by the last look at it
            done[latest[command]] = done[latest[command]]._replace(kind="noise", tally=None)
        latest[command] = place
    return done


def _as_far_as_it_ran(deed: Deed) -> Deed:
    """The deed without what it would have done, if a person refused it or nobody knows how it ended."""
    outcome = deed.call.outcome
    if outcome == "refused":
        return deed._replace(kind="refused", paths=(), names=(), created=0, tally=None, failed=False)
    if outcome == "interrupted" or (outcome == "" and deed.kind in _ACTS):
        return deed._replace(kind="noise", paths=(), names=(), created=0, tally=None, failed=False)
    return deed


def _deed(call: Call, roots: tuple[str, ...]) -> Deed:
    given: dict[str, Any] = call.input if isinstance(call.input, dict) else {}
    text = text_of_stored_result(call.response)
    fields: dict[str, Any] = {
        "text": text,
        "failed": call.outcome == "failed",
        "tokens": tokens_of(call),
        "refused": _words(text) if call.outcome == "refused" else "",
    }
    command = text_of(given, "command")
    if call.tool in _NOTHING or (call.tool == _POLLS and not command):
        return Deed(call, "noise", call.tool, **fields)
    if call.tool == "Bash" or (command and call.tool not in EDITS):
        return _ran(call, command, fields, roots)
    path = relative(first_of(given, "file_path", "notebook_path", "path", "glob"), roots)
    tool = _EDITORS_TOOLS.get(call.tool, call.tool) if path else call.tool
    if tool in EDITS:
        return Deed(call, "changed", path, **_edit(tool, given, text, path, roots), **fields)
    content = content_of(call.tool, given)
    if tool == "Read":
        return Deed(call, "read", path, (path,) if path else (), **fields)
    if call.tool in _SEARCHES:
        wanted = text_of(given, "pattern") or content or path
        return Deed(call, "searched" if wanted else "noise", short(wanted, 60), **fields)
    if call.tool in ("WebFetch", "WebSearch"):
        return Deed(call, "fetched", short(first_of(given, "url", "query") or content, 120), **fields)
    if call.tool == "Task":
        return Deed(call, "agent", short(text_of(given, "description") or _first_line(content), 100), **fields)
    return Deed(call, "used", _tool_name(call.tool), **fields)


def tokens_of(call: Call) -> int:
    given = call.input if isinstance(call.input, str) else "".join(strings_in(call.input))
    return estimate(given) + estimate(call.response)


def relative(path: str, roots: Iterable[str]) -> str:
    path = plain(_slashed(path))
    for root in roots:
        if path.startswith(root):
            return path[len(root) :]
    return path


def _slashed(path: str) -> str:
    return path.replace("\\", "/") if _DRIVE.match(path) else path


def _words(text: str) -> str:
    said = _REFUSAL.search(text.partition(_NOT_THEIRS)[0])
    return short(said[1], 160) if said else " "


def _first_line(text: str) -> str:
    """What a sub-agent is to do, past headings and the line that says where."""
    lines = [line for line in text[:2_000].splitlines() if line.strip()]
    told = (line for line in lines if not line.startswith("#") and not _PREAMBLE.match(line))
    return plain(next(told, next(iter(lines), "").lstrip("# ")))


def _tool_name(tool: str) -> str:
    parts = tool.split("__")
    return plain(f"{parts[1]}: {'__'.join(parts[2:])}" if tool.startswith("mcp__") and len(parts) > 2 else tool)


def _edit(tool: str, given: dict[str, Any], text: str, path: str, roots: tuple[str, ...]) -> dict[str, Any]:
    after = content_of(tool, given)[:_LOOKED_AT]
    before = text_of(given, "old_string")[:_LOOKED_AT]
    patched = [relative(found, roots) for found in _PATCHED.findall(text)] if "following files:" in text else []
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


def _ran(call: Call, command: str, fields: dict[str, Any], roots: tuple[str, ...]) -> Deed:
    kind, what, written = _command(command[: failures.LOOKED_AT], roots)
    text: str = fields["text"]
    tally = check_results.tally(text) if kind == "check" and text else None
    failed = fields["failed"] or bool(tally and tally.bad) or failures.reads_as_failure(call.tool, command, text)
    return Deed(call, kind, what, written, **{**fields, "failed": failed}, tally=tally)


@lru_cache(maxsize=4096)  # the same turns are read for their observations and for the summary
def _command(command: str, roots: tuple[str, ...]) -> tuple[Kind, str, tuple[str, ...]]:
    """What a command is, what it is called, and the files it writes by itself."""
    parts = [(part, _kind(part)) for part in failures.simples(command)]
    found = {kind for _, kind in parts}
    kind: Kind = next((one for one in _WEIGHTS if one in found), "noise")
    written = _written(command, roots)
    if written and kind in ("looked", "noise"):
        return "changed", written[0], written
    return kind, shown_parts([part for part, own in parts if own == kind != "noise"], command, roots), written


_WEIGHTS: tuple[Kind, ...] = ("saved", "check", "ran", "looked")


def _kind(part: Simple) -> Kind:
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


def shown_parts(parts: Iterable[Simple], command: str, roots: tuple[str, ...]) -> str:
    """The commands that matter, as a person would name them."""
    found = list[str]()
    for part in parts:
        text = part.full
        if "\n" in text:
            text = _TOLD_INSIDE.sub("", part.code.partition("\n")[0]).replace('""', '"…"').replace("''", "'…'")
        text = _TO.sub("", plain(text))
        for root in roots:
            text = text.replace(root, "")
        found.append(text)
    return short(" && ".join(dict.fromkeys(found)) or plain(command[: 4 * SHOWN]), SHOWN)


def _written(command: str, roots: tuple[str, ...]) -> tuple[str, ...]:
    """The files of the project that a command writes by itself."""
    found = _REDIRECTS.findall(failures.code_in(command)) if ">" in command else []
    if "sed" in command or "perl" in command:
        for part in failures.simples(command):
            in_place = part.program in ("sed", "perl") and any(
                re.match(r"-\w*i|--in-place", word) for word in part.words
            )
            found += [word for word in part.words[2:] if in_place and re.fullmatch(r"[\w.@~/-]*\w\.\w{1,6}", word)]
    return tuple(dict.fromkeys(relative(path, roots) for path in found if not path.startswith(_ELSEWHERE)))
