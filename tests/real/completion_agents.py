"""Agents that speak OpenAI's chat completions, each as a row of a table: its files, its command, its shell tool."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from . import agents, wire_formats
from .conversation import AgentSetup, Conversation, Session, ToolResult
from .model_server import Body, Call
from .other_agents import _run_session, _translate_calls


@dataclass(frozen=True)
class CompletionAgent:
    """How to run an agent in a house, and how to read what its model is sent."""

    agent: agents.Agent
    settings: str  # the file in the person's home that hardwon writes to
    arguments: tuple[str, ...]  # the prompt comes last
    shell_tool: str
    shell_arguments: Mapping[str, object] = field(default_factory=dict)  # beside the command
    refusal: str = "hardwon-context"  # in a result: the call was denied
    files: Mapping[str, str] = field(default_factory=dict)  # in the person's home, before hardwon is installed
    environment: Mapping[str, str] = field(default_factory=dict)
    url_variable: str = ""  # of the environment, which names the model's address
    url_file: str = ""  # in the home, which has the address
    session_key: str = "session_id"
    needs_node: bool = False
    takes_command_list: bool = False

    def build_setup(self) -> AgentSetup:
        return AgentSetup(self.agent.name, self.settings, self._set_up, lambda _: dict(self.environment), self._run)

    def _set_up(self, root: Path) -> None:
        for name, text in self.files.items():
            path = root / "home" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.replace("PROJECT", str(root / "project")))

    def _run(self, program: Path, conversation: Conversation) -> Session:
        # Only the launcher knows the address of the scripted model, once that listens.
        words = [str(agents.find_program(agents.NODE))] if self.needs_node else []
        script = f'{self.url_variable}="$MODEL_URL/v1" exec "$@"' if self.url_variable else 'exec "$@"'
        if self.url_file:
            script = f'sed -i -E "s|http://127.0.0.1:[0-9]+|$MODEL_URL|" "$HOME/{self.url_file}"; {script}'
        command = ["/bin/sh", "-c", script, "sh", *words, str(program), *self.arguments]
        wire = _translate_calls(wire_formats.COMPLETIONS, self._translate)
        return _run_session(conversation, command, wire, self._find_session_id, self._read_outputs)

    def _translate(self, call: Call, _: Body) -> Call:
        command = call.given["command"]
        argument = {"commands": [command]} if self.takes_command_list else {"command": command}
        return Call(self.shell_tool, {**argument, **self.shell_arguments})

    def _find_session_id(self, line: Mapping[str, object]) -> str:
        return str(line.get(self.session_key, ""))

    def _read_outputs(self, body: Body) -> Iterator[ToolResult]:
        texts: list[str] = []
        for message in body["messages"]:
            text = json.dumps(message["content"], ensure_ascii=False)
            if message["role"] == "tool":
                texts.append(text)
            elif texts and "<hook_context" in text:  # Cline's own message about the call before it
                texts[-1] += text
        for text in texts:
            yield ToolResult(text, self.refusal in text and "Held once by hardwon" in text)


COPILOT = CompletionAgent(
    agents.COPILOT,
    ".copilot/hooks/hardwon.json",
    ("--allow-all-tools", "--output-format", "json", "-p"),
    "bash",
    {"description": "as scripted"},
    environment={
        "COPILOT_PROVIDER_API_KEY": "made-up",
        "COPILOT_MODEL": "fake-model",
        "COPILOT_OFFLINE": "true",
        "COPILOT_AUTO_UPDATE": "false",
        # It unpacks itself at its first start, which takes seconds.
        "XDG_CACHE_HOME": str(agents.CACHE / "copilot-cache"),
    },
    url_variable="COPILOT_PROVIDER_BASE_URL",
    session_key="sessionId",
)
QWEN = CompletionAgent(
    agents.QWEN,
    ".qwen/settings.json",
    ("--yolo", "-o", "stream-json"),
    "run_shell_command",
    {"description": "as scripted", "is_background": False},
    files={
        ".qwen/settings.json": '{"security": {"auth": {"selectedType": "openai"}}, "general": {"enableAutoUpdate": false},'
        ' "privacy": {"usageStatisticsEnabled": false}}\n'
    },
    environment={"OPENAI_API_KEY": "made-up", "OPENAI_MODEL": "fake-model"},
    url_variable="OPENAI_BASE_URL",
    needs_node=True,
)
GROK = CompletionAgent(
    agents.GROK,
    ".grok/hooks/hardwon.json",
    ("--permission-mode", "bypassPermissions", "--output-format", "streaming-messages-json", "-p"),
    "run_terminal_command",
    {"description": "as scripted"},
    environment={
        "XAI_API_KEY": "made-up",
        "GROK_DISABLE_AUTOUPDATER": "1",
        "GROK_TELEMETRY_ENABLED": "false",
        "GROK_FEEDBACK_ENABLED": "false",
    },
    url_variable="GROK_MODELS_BASE_URL",
)
DROID_MODEL = {
    "model": "fake-model",
    "id": "custom:fake-0",
    "index": 0,
    "displayName": "fake",
    "baseUrl": "http://127.0.0.1:1/v1",
    "apiKey": "made-up",
    "provider": "generic-chat-completion-api",
    "maxOutputTokens": 4096,
}
DROID = CompletionAgent(
    agents.DROID,
    ".factory/settings.json",
    ("exec", "--skip-permissions-unsafe", "-o", "stream-json", "-m", "custom:fake-0"),
    "Execute",
    {"summary": "as scripted", "timeout": 20, "riskLevel": "low", "riskLevelReason": "as scripted"},
    files={".factory/settings.json": json.dumps({"customModels": [DROID_MODEL]}, indent=2)},
    environment={"FACTORY_API_KEY": "fk-made-up"},
    url_file=".factory/settings.json",
)
KILO_CONFIG = {
    "provider": {
        "scripted": {
            "npm": "@ai-sdk/openai-compatible",
            "name": "scripted",
            "options": {"baseURL": "{env:MODEL_URL}/v1", "apiKey": "made-up"},
            "models": {"scripted": {"name": "scripted", "tool_call": True}},
        }
    },
    "model": "scripted/scripted",
    "small_model": "scripted/scripted",
    "autoupdate": False,
    "share": "disabled",
    "snapshot": False,
    "permission": {"*": "allow"},
}
KILO_SWITCHES = (
    "AUTOUPDATE MODELS_FETCH DEFAULT_PLUGINS LSP_DOWNLOAD CLAUDE_CODE EXTERNAL_SKILLS SESSION_INGEST SHARE PRESENCE"
    " CODEBASE_INDEXING FFF EMBEDDED_WEB_UI"
)
KILO = CompletionAgent(
    agents.KILO,
    ".config/kilo/plugin/hardwon.js",
    ("run", "--auto", "--format", "json"),
    "bash",
    {"description": "as scripted"},
    files={
        ".config/kilo/kilo.json": json.dumps(KILO_CONFIG),
        # Else it asks npm for its plugin package at every start, a minute when offline.
        ".config/kilo/package-lock.json": json.dumps({"packages": {"": {"dependencies": {"@kilocode/plugin": "*"}}}}),
        ".config/kilo/node_modules/.keep": "",
    },
    environment={f"KILO_DISABLE_{name}": "1" for name in KILO_SWITCHES.split()}
    # Its own services are asked at the start; a refused connection is quicker than a name that nobody resolves.
    | {f"KILO_{name}_URL": "http://127.0.0.1:1" for name in ("API", "MODELS", "EVENT_SERVICE", "SESSION_INGEST")}
    | {"KILO_EXPERIMENTAL_DISABLE_FILEWATCHER": "1", "KILO_NO_DAEMON": "1", "KILO_TELEMETRY_LEVEL": "off"},
    session_key="sessionID",
)
CLINE_PROVIDER = {
    "provider": "openai-compatible",
    "apiKey": "made-up",
    "model": "fake-model",
    "baseUrl": "http://127.0.0.1:1/v1",
}
CLINE_PROVIDERS = {
    "version": 1,
    "lastUsedProvider": "openai-compatible",
    "modes": {},
    "providers": {
        "openai-compatible": {
            "settings": CLINE_PROVIDER,
            "updatedAt": "2026-01-01T00:00:00.000Z",
            "tokenSource": "manual",
        }
    },
}
CLINE = CompletionAgent(
    agents.CLINE,
    ".cline/hooks/PreToolUse.sh",
    ("--json",),
    "run_commands",
    files={".cline/data/settings/providers.json": json.dumps(CLINE_PROVIDERS)},
    # Else it leaves a process behind that later runs would use.
    environment={"CLINE_SESSION_BACKEND_MODE": "local", "CLINE_NO_AUTO_UPDATE": "1"},
    url_file=".cline/data/settings/providers.json",
    session_key="sessionId",
    takes_command_list=True,
)
COMPLETION_AGENTS = (COPILOT, QWEN, KILO, GROK, DROID, CLINE)
