"""Codex, Gemini CLI and opencode in a house.

A script runs commands, reads and writes files, starts sub-agents and calls MCP tools; `_translate_for_…` turns each
call into the tool and the arguments of the agent. Each run of a CLI has one prompt; `resume` continues a session.
"""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from subprocess import Popen
from typing import Any

from . import agents, wire_formats
from .conversation import AgentSetup, Conversation, Line, Session, ToolResult, run_agent
from .model_server import Body, Call, Reply, Request, Wire

TranslateCall = Callable[[Call, Body], Call]


def run_shell(command: str, *, delay: float = 0.0) -> Reply:
    return Reply(calls=(Call("shell", {"command": command}),), delay=delay)


def read_file(path: str) -> Reply:
    return Reply(calls=(Call("read", {"path": path}),))


def write_file(path: str, text: str) -> Reply:
    """Write a new file."""
    return Reply(calls=(Call("write", {"path": path, "text": text}),))


def run_subagent(prompt: str) -> Reply:
    """Start a sub-agent with this prompt."""
    return Reply(calls=(Call("errand", {"prompt": prompt}),))


def wait_for_subagent() -> Reply:
    """Wait for the sub-agent where the agent does not; elsewhere a call without effect."""
    return Reply(calls=(Call("awaited", {}),))


# How our server describes itself: Codex names it to the model by that, and the tools only when the model searches them.
INSTRUCTIONS = "hardwon knows what happened in earlier sessions"


def call_mcp_tool(tool: str, **arguments: object) -> Reply:
    """Call a tool of hardwon's MCP server."""
    return Reply(calls=(Call("recall", {"tool": tool, "given": arguments}),))


def _translate_calls(wire: Wire, translate: TranslateCall) -> Wire:
    """Return the wire format with each call of a reply translated to the agent's tools."""

    def answer(reply: Reply, message_id: str, body: Body) -> str:
        return wire.answer(replace(reply, calls=tuple(translate(call, body) for call in reply.calls)), message_id, body)

    return replace(wire, answer=answer)


def _read_events(process: Popen[str]) -> Iterator[Line]:
    """Yield the events on standard output, one per line; some agents print other lines in between."""
    assert process.stdin and process.stdout
    process.stdin.close()
    for text in process.stdout:
        if text.startswith("{"):
            yield json.loads(text)


def _find_new_results(
    requests: tuple[Request, ...], outputs: Callable[[Body], Iterator[ToolResult]]
) -> tuple[ToolResult, ...]:
    """Return the tool results of this run: those in the last request that the first did not have."""
    turns = [request for request in requests if request.kind == "main"]
    if not turns:
        return ()
    return tuple(outputs(turns[-1].body))[len(tuple(outputs(turns[0].body))) :]


def _join_texts(value: Any) -> str:
    return value if isinstance(value, str) else "\n".join(part.get("text", "") for part in value or ())


def _run_session(
    conversation: Conversation,
    command: list[str],
    wire: Wire,
    find_session_id: Callable[[Line], str],
    outputs: Callable[[Body], Iterator[ToolResult]],
) -> Session:
    exit_code, requests, lines, stderr = run_agent(
        conversation, [*command, *conversation.more, *conversation.prompts], wire, _read_events
    )
    assert len(conversation.prompts) == 1, "one prompt per run; continue with resume"
    session_id = next(filter(None, map(find_session_id, lines)), conversation.resume)
    return Session(exit_code, requests, lines, stderr, id=session_id, results=_find_new_results(requests, outputs))


def _put_on_path(root: Path, name: str, *words: str) -> None:
    """Write a script that starts the agent by its name."""
    program = root / "bin" / name
    program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    program.chmod(0o755)


# Codex

CODEX_CONFIG = """\
# kept by hand
model = "gpt-5.5"   # has tools of its own for shell and patch
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false

[features]
plugins = false   # asks for a list of them and waits five seconds for it
[analytics]
enabled = false
[feedback]
enabled = false

[projects."PROJECT"]
trust_level = "trusted"

[model_providers.scripted]
name = "scripted"
base_url = "http://127.0.0.1:1/v1"
env_key = "MADE_UP_KEY"
wire_api = "responses"
requires_openai_auth = false
request_max_retries = 0
stream_max_retries = 0"""

CODEX_HOOKS = """\
{ "description":"caf\\u00e9 \N{SNOWMAN}",
\t"hooks": {"PreToolUse": [ {"matcher": "*", "hooks":
\t\t[{"type": "command", "command": "{ cat; echo; } >> OTHER_LOG"}] } ]} }  \n\n"""


def _set_up_codex(root: Path) -> None:
    folder = root / "home" / ".codex"
    folder.mkdir()
    (folder / "config.toml").write_text(CODEX_CONFIG.replace("PROJECT", str(root / "project")), encoding="utf-8")
    (folder / "hooks.json").write_text(CODEX_HOOKS.replace("OTHER_LOG", str(root / "other.log")), encoding="utf-8")
    _put_on_path(root, "codex", str(agents.find_program(agents.CODEX)))


def _build_patch(path: str, text: str) -> str:
    lines = "".join(f"+{line}\n" for line in text.splitlines())
    return f"*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch\n"


def _translate_for_codex(call: Call, body: Body) -> Call:
    match call.tool, call.given:
        case "shell", {"command": command}:
            return Call("exec_command", {"cmd": command})
        case "read", {"path": path}:
            return Call("exec_command", {"cmd": f"cat {shlex.quote(str(path))}"})
        case "write", {"path": path, "text": text}:
            return Call("apply_patch", {"input": _build_patch(str(path), str(text))})
        case "errand", {"prompt": prompt}:
            return Call("multi_agent_v1.spawn_agent", {"message": prompt})
        case "awaited", _:
            sent = json.loads(list(_read_codex_outputs(body))[-1].text)
            return Call("multi_agent_v1.wait_agent", {"targets": [sent["agent_id"]], "timeout_ms": 60_000})
        case "recall", {"tool": tool, "given": dict(given)}:
            return Call(f"mcp__hardwon.{tool}", given)
    return call


def _read_codex_outputs(body: Body) -> Iterator[ToolResult]:
    for item in body["input"]:
        if item["type"] in ("function_call_output", "custom_tool_call_output"):
            text = _join_texts(item["output"])
            yield ToolResult(text, "blocked by PreToolUse hook" in text)


def _run_codex(program: Path, conversation: Conversation) -> Session:
    command = [
        str(program),
        "exec",
        *(("resume", conversation.resume) if conversation.resume else ()),
        "--json",
        "-c",
        'model_providers.scripted.base_url="{MODEL_URL}/v1"',
    ]
    wire = _translate_calls(wire_formats.RESPONSES, _translate_for_codex)
    return _run_session(conversation, command, wire, lambda line: str(line.get("thread_id", "")), _read_codex_outputs)


CODEX = AgentSetup(
    "codex", ".codex/hooks.json", _set_up_codex, lambda _: {"MADE_UP_KEY": "made-up-and-local"}, _run_codex
)

# Gemini CLI

GEMINI_SETTINGS = """\
{ "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": false}},
  "general":{"enableAutoUpdate":false} , "privacy": {"usageStatisticsEnabled": false}, "note": "caf\\u00e9 \N{SNOWMAN}",
\t"hooks": {"BeforeTool": [ {"matcher": ".*", "hooks":
\t\t[{"type": "command", "name": "other", "command": "{ cat; echo; } >> OTHER_LOG"}] } ]} }  \n\n"""


def _set_up_gemini(root: Path) -> None:
    settings = root / "home" / ".gemini" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(GEMINI_SETTINGS.replace("OTHER_LOG", str(root / "other.log")), encoding="utf-8")
    _put_on_path(root, "gemini", *_build_gemini_command(agents.find_program(agents.GEMINI)))


def _build_gemini_command(program: Path) -> list[str]:
    return [shutil.which("node") or "node", str(program)]


def _build_gemini_environment(_: Path) -> dict[str, str]:
    return {"GEMINI_API_KEY": "made-up-and-local", "GEMINI_CLI_NO_RELAUNCH": "true"}


def _translate_for_gemini(call: Call, body: Body) -> Call:
    match call.tool, call.given:
        case "shell", {"command": command}:
            return Call("run_shell_command", {"command": command, "description": "as scripted"})
        case "awaited", _:
            return Call("run_shell_command", {"command": "true", "description": "as scripted"})
        case "read", {"path": path}:
            return Call("read_file", {"file_path": path})
        case "write", {"path": path, "text": text}:
            return Call("write_file", {"file_path": path, "content": text})
        case "errand", {"prompt": prompt}:
            return Call("invoke_agent", {"agent_name": "generalist", "prompt": prompt})
        case "recall", {"tool": tool, "given": dict(given)}:
            return Call(f"mcp_hardwon_{tool}", given)
    return call


def _read_gemini_outputs(body: Body) -> Iterator[ToolResult]:
    for content in body["contents"]:
        for part in content["parts"]:
            if answer := part.get("functionResponse", {}).get("response"):
                text = str(answer.get("output") or answer.get("error"))
                yield ToolResult(text, "Tool execution blocked" in text)


def _run_gemini(program: Path, conversation: Conversation) -> Session:
    command = [
        *_build_gemini_command(program),
        "--model",
        "gemini-2.5-pro",
        "--yolo",
        "--output-format",
        "stream-json",
        *(("--resume", conversation.resume) if conversation.resume else ()),
        "--prompt",
    ]
    wire = _translate_calls(wire_formats.GENERATE, _translate_for_gemini)
    return _run_session(conversation, command, wire, lambda line: str(line.get("session_id", "")), _read_gemini_outputs)


GEMINI = AgentSetup("gemini", ".gemini/settings.json", _set_up_gemini, _build_gemini_environment, _run_gemini)

# opencode

OPENCODE_CONFIG = """\
{ "$schema": "https://opencode.ai/config.json", // kept by hand
  "model": "scripted/scripted", "small_model": "scripted/scripted", "share":"disabled", "autoupdate": false,
  "permission": "allow", "snapshot": false,
  "provider": {"scripted": {"npm": "@ai-sdk/openai-compatible", "name": "scripted",
    "options": {"baseURL": "{env:MODEL_URL}/v1", "apiKey": "made-up-and-local"},
    "models": {"scripted": {"name": "scripted"}}}},
}\n\n"""
OPENCODE_NEEDS = "@opencode-ai/plugin"
OPENCODE_PLUGIN = """\
import { appendFileSync } from "node:fs"
export const Other = async () => ({
  "tool.execute.before": async (about) => appendFileSync("OTHER_LOG", JSON.stringify(about) + "\\n"),
})
"""


def _set_up_opencode(root: Path) -> None:
    folder = root / "home" / ".config" / "opencode"
    (folder / "plugin").mkdir(parents=True)
    (folder / "opencode.jsonc").write_text(OPENCODE_CONFIG, encoding="utf-8")
    other = OPENCODE_PLUGIN.replace("OTHER_LOG", str(root / "other.log"))
    (folder / "plugin" / "other.js").write_text(other, encoding="utf-8")
    (folder / "node_modules").mkdir()  # else it asks npm for its plugin package at every start, a minute when offline
    (folder / "package-lock.json").write_text(json.dumps({"packages": {"": {"dependencies": {OPENCODE_NEEDS: "*"}}}}))
    _put_on_path(root, "opencode", str(agents.find_program(agents.OPENCODE)))


def _build_opencode_environment(_: Path) -> dict[str, str]:
    off = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS", "CLAUDE_CODE", "EXTERNAL_SKILLS")
    return {f"OPENCODE_DISABLE_{name}": "1" for name in off} | {"OPENCODE_EXPERIMENTAL_DISABLE_FILEWATCHER": "1"}


def _translate_for_opencode(call: Call, body: Body) -> Call:
    match call.tool, call.given:
        case "shell", {"command": command}:
            return Call("bash", {"command": command, "description": "as scripted"})
        case "awaited", _:
            return Call("bash", {"command": "true", "description": "as scripted"})
        case "read", {"path": path}:
            return Call("read", {"filePath": path})
        case "write", {"path": path, "text": text}:
            return Call("write", {"filePath": path, "content": text})
        case "errand", {"prompt": prompt}:
            return Call("task", {"description": "an errand", "prompt": prompt, "subagent_type": "general"})
        case "recall", {"tool": tool, "given": dict(given)}:
            return Call(f"hardwon_{tool}", given)
    return call


def _read_opencode_results(lines: tuple[Line, ...]) -> Iterator[ToolResult]:
    """Read the results from its output, because the model sees only the reason of a denial."""
    for line in lines:
        if line["type"] == "tool_use":
            state = line["part"]["state"]
            yield ToolResult(state.get("output") or state.get("error", ""), state["status"] == "error")


def _run_opencode(program: Path, conversation: Conversation) -> Session:
    command = [
        str(program),
        "run",
        "--format",
        "json",
        *(("--session", conversation.resume) if conversation.resume else ()),
    ]
    wire = _translate_calls(wire_formats.COMPLETIONS, _translate_for_opencode)
    session = _run_session(conversation, command, wire, lambda line: str(line.get("sessionID", "")), lambda _: iter(()))
    return replace(session, results=tuple(_read_opencode_results(session.lines)))


OPENCODE = AgentSetup(
    "opencode", ".config/opencode/plugin/hardwon.js", _set_up_opencode, _build_opencode_environment, _run_opencode
)

AGENT_SETUPS = {agents.CODEX: CODEX, agents.GEMINI: GEMINI, agents.OPENCODE: OPENCODE}
