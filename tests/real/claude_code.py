"""The real Claude Code CLI in a home of its own, talking to a scripted model and to nobody else."""

from __future__ import annotations

import itertools
import json
import subprocess
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from .conversation import AgentSetup, Conversation, HookRun, Line, Session, ToolResult, run_agent
from .wire_formats import MESSAGES

MODEL = "claude-sonnet-4-5"  # the default differs between versions

# As no program would write it: whoever writes the file anew instead of giving the old bytes back is seen.
SETTINGS = """\
{ "theme":"dark" , "note": "caf\\u00e9 \N{SNOWMAN}",
\t"hooks": {"PreToolUse": [ {"matcher": "*", "hooks":
\t\t[{"type": "command", "command": "{ cat; echo; } >> OTHER_LOG"}] } ]},
  "permissions": { "deny" : [ ] } }  \n\n"""


def set_up(root: Path) -> None:
    settings = root / "home" / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(SETTINGS.replace("OTHER_LOG", str(root / "other.log")), encoding="utf-8")


def build_environment(root: Path) -> dict[str, str]:
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


def run_session(program: Path, conversation: Conversation) -> Session:
    """Run one session in one process; type each prompt after the answer to the one before."""
    command = [
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
        *(("--resume", conversation.resume) if conversation.resume else ()),
        *conversation.more,
    ]
    exit_code, requests, lines, stderr = run_agent(
        conversation, command, MESSAGES, partial(_exchange_lines, prompts=conversation.prompts)
    )
    return Session(
        exit_code,
        requests,
        lines,
        stderr,
        id=next((str(line["session_id"]) for line in lines if "session_id" in line), ""),
        results=tuple(
            itertools.chain.from_iterable(_read_tool_results(line) for line in lines if line["type"] == "user")
        ),
        said=tuple(str(line.get("result")) for line in lines if line["type"] == "result"),
        hooks=tuple(_read_hook_run(line) for line in lines if line.get("subtype") == "hook_response"),
    )


CLAUDE_CODE = AgentSetup("claude-code", ".claude/settings.json", set_up, build_environment, run_session)


def _exchange_lines(process: subprocess.Popen[str], prompts: Sequence[str]) -> Iterator[Line]:
    """Yield what the CLI prints. Prompts sent before a `result` would be merged into one."""
    assert process.stdin and process.stdout
    waiting = [*prompts[1:]]
    _type_prompt(process, prompts[0])
    for text in process.stdout:
        line = json.loads(text)
        yield line
        if line["type"] == "result":
            if waiting:
                _type_prompt(process, waiting.pop(0))
            else:
                process.stdin.close()


def _type_prompt(process: subprocess.Popen[str], prompt: str) -> None:
    assert process.stdin
    message = {"role": "user", "content": [{"type": "text", "text": prompt}]}
    process.stdin.write(json.dumps({"type": "user", "message": message}) + "\n")
    process.stdin.flush()


def _read_hook_run(line: Line) -> HookRun:
    return HookRun(
        event=line["hook_event"],
        exit_code=line.get("exit_code", -1),
        outcome=line["outcome"],
        stdout=line["stdout"],
        stderr=line["stderr"],
    )


def _read_tool_results(line: Line) -> Iterator[ToolResult]:
    content = line["message"]["content"]
    for block in content if isinstance(content, list) else ():
        if block["type"] == "tool_result":
            result_content = block["content"]
            text = (
                result_content
                if isinstance(result_content, str)
                else "\n".join(part.get("text", "") for part in result_content)
            )
            yield ToolResult(text, bool(block.get("is_error")))
