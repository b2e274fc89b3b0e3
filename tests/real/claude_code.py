"""The real Claude Code CLI in a home of its own, talking to a scripted model and to nobody else."""

from __future__ import annotations

import itertools
import json
import subprocess
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from .conversation import HookRun, Line, Resident, Session, Talk, ToolResult, run
from .scripted import MESSAGES

MODEL = "claude-sonnet-4-5"  # the default differs between versions

# As no program would write it: whoever writes the file anew instead of giving the old bytes back is seen.
SETTINGS = """\
{ "theme":"dark" , "note": "caf\\u00e9 \N{SNOWMAN}",
\t"hooks": {"PreToolUse": [ {"matcher": "*", "hooks":
\t\t[{"type": "command", "command": "{ cat; echo; } >> OTHER_LOG"}] } ]},
  "permissions": { "deny" : [ ] } }  \n\n"""


def furnish(root: Path) -> None:
    settings = root / "home" / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(SETTINGS.replace("OTHER_LOG", str(root / "other.log")), encoding="utf-8")


def environment(root: Path) -> dict[str, str]:
    return {
        "CLAUDE_CONFIG_DIR": str(root / "home" / ".claude"),
        "CLAUDE_CODE_TMPDIR": str(root / "tmp"),
        "ANTHROPIC_API_KEY": "made-up-and-local",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "IS_SANDBOX": "1",  # else it refuses to skip permissions as root
    }


def converse(program: Path, talk: Talk) -> Session:
    """One session in one process: each prompt is typed when the answer to the one before is there."""
    asked = [
        str(program),
        "--print",
        "--verbose",
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
        "--include-hook-events",
        "--permission-mode",
        "bypassPermissions",
        "--model",
        MODEL,
        *(("--resume", talk.resume) if talk.resume else ()),
        *talk.more,
    ]
    exit_code, requests, lines, stderr = run(talk, asked, MESSAGES, partial(_exchange, prompts=talk.prompts))
    return Session(
        exit_code,
        requests,
        lines,
        stderr,
        id=next((str(line["session_id"]) for line in lines if "session_id" in line), ""),
        results=tuple(itertools.chain.from_iterable(_tool_results(line) for line in lines if line["type"] == "user")),
        said=tuple(str(line.get("result")) for line in lines if line["type"] == "result"),
        hooks=tuple(_hook_run(line) for line in lines if line.get("subtype") == "hook_response"),
    )


CLAUDE_CODE = Resident("claude-code", ".claude/settings.json", furnish, environment, converse)


def _exchange(process: subprocess.Popen[str], prompts: Sequence[str]) -> Iterator[Line]:
    """What the CLI prints, to its end. Prompts sent before a `result` would be merged into one."""
    assert process.stdin and process.stdout
    waiting = [*prompts[1:]]
    _type(process, prompts[0])
    for text in process.stdout:
        line = json.loads(text)
        yield line
        if line["type"] == "result":
            if waiting:
                _type(process, waiting.pop(0))
            else:
                process.stdin.close()


def _type(process: subprocess.Popen[str], prompt: str) -> None:
    assert process.stdin
    message = {"role": "user", "content": [{"type": "text", "text": prompt}]}
    process.stdin.write(json.dumps({"type": "user", "message": message}) + "\n")
    process.stdin.flush()


def _hook_run(line: Line) -> HookRun:
    return HookRun(
        event=line["hook_event"],
        exit_code=line.get("exit_code", -1),
        outcome=line["outcome"],
        stdout=line["stdout"],
        stderr=line["stderr"],
    )


def _tool_results(line: Line) -> Iterator[ToolResult]:
    content = line["message"]["content"]
    for block in content if isinstance(content, list) else ():
        if block["type"] == "tool_result":
            told = block["content"]
            text = told if isinstance(told, str) else "\n".join(part.get("text", "") for part in told)
            yield ToolResult(text, bool(block.get("is_error")))
