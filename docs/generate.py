"""Write the pages that follow from the code. A test says when they are old."""

from __future__ import annotations

import ast
import json
import os
import sys
from collections.abc import Iterator

import click
from click.testing import CliRunner

from hardwon.agents.hook_settings import load_settings
from hardwon.cli import hardwon
from hardwon.settings import SETTINGS
from hardwon.web.api import ENDPOINTS, build_openapi_document

HERE = os.path.dirname(os.path.abspath(__file__))
SRC = os.path.join(os.path.dirname(HERE), "src", "hardwon")
NOTE = "<!-- Made from the code by `make docs`. -->"


def build_settings_page() -> str:
    lines = [
        "# Settings",
        "",
        NOTE,
        "",
        "In `~/.hardwon/config.json`. A value outside its limits is refused.",
        "",
    ]
    lines += ["| setting | default | what it does |", "|---|---|---|"]
    lines += [f"| `{setting.name}` | `{json.dumps(setting.default)}` | {setting.help} |" for setting in SETTINGS]
    return "\n".join(lines) + "\n"


def iter_commands(command: click.Command, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=words[-1])
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from iter_commands(inner, (*words, name))


def build_cli_page() -> str:
    lines = ["# Commands", "", NOTE, ""]
    for words, _ in iter_commands(hardwon, ("hardwon",)):
        helped = CliRunner().invoke(hardwon, [*words[1:], "--help"], prog_name="hardwon", terminal_width=80)
        lines += [f"## `{' '.join(words)}`", "", "```", helped.output.rstrip(), "```", ""]
    return "\n".join(lines)


def build_api_page() -> str:
    """The API's page, from the OpenAPI document that the worker serves."""
    document = build_openapi_document(ENDPOINTS)
    lines = [
        "# The worker's API",
        "",
        NOTE,
        "",
        API_FIRST.strip(),
        "",
        "| method | path | what it does |",
        "|---|---|---|",
    ]
    for path, operations in document["paths"].items():
        # Each call about a session has three more spellings, which the last section explains.
        if not path.startswith("/sessions/") and "{sessionDbId}" not in path:
            lines += [
                f"| {method.upper()} | `{path}` | {operation['summary']} |" for method, operation in operations.items()
            ]
    return "\n".join([*lines, "", API_LAST.strip(), ""])


API_FIRST = """
At `http://127.0.0.1:37777` (`apiPort`; `hardwon status` shows the actual port). Every request carries
`Authorization: Bearer` and the content of `~/.hardwon/token`. Another Host, a page of another origin, a body above a
megabyte or a slow one are refused. Errors are JSON with `error` and `fix`. The token reads and reports; nothing here
approves. `/api/openapi.json` has the fields of each call.
"""
API_LAST = """
`GET /api/stream` sends server-sent events of the kinds session, prompt, event, observation, delivery, job and
processing. A listener that was cut off sends `Last-Event-ID` and gets what it missed, up to 500 messages.

## From an editor

| the editor | calls |
|---|---|
| is activated | `GET /api/context/inject?project=FOLDER`, shown to the model |
| runs a command, or its chat is asked | `POST /api/sessions/init` with `sessionId`, `userPrompt`, `cwd` |
| saves or shows a file | `POST /api/sessions/observations` with `tool_name` `FileSave` or `FileOpen` |
| ends a turn | `POST /api/sessions/summarize` |
| is deactivated | `POST /api/sessions/complete` |

Each `/api/sessions/…` call also works without `/api`. `claudeSessionId` and `sessionId` are two names for one field.
`init` answers with `sessionDbId`, the session's number; `/sessions/{sessionDbId}/init`, `…/observations`,
`…/summarize` and `…/complete` then need no id in the body.
"""


def build_architecture_page() -> str:
    """Return the page with its picture drawn anew from the imports."""
    return write_between("architecture.md", PICTURE_START, PICTURE_END, draw_packages())


PICTURE_START, PICTURE_END = "<!-- picture: drawn from the imports by `make docs` -->", "<!-- end of the picture -->"


def draw_packages() -> str:
    """Return a Mermaid graph of the packages.

    Arrows that follow from others are left out, so that it can be read: no a -> c where there is a -> b -> c.
    """
    imported = read_package_imports()
    packages = {name for name in imported if os.path.isdir(os.path.join(SRC, name))} | {"mcp", "hook"}
    direct = {name: imported[name] & packages - {name} for name in packages}
    direct["web"].discard("worker")  # the worker serves the pages; they use two of its modules
    reachable: dict[str, set[str]] = {}

    def reach(name: str) -> set[str]:
        if name not in reachable:
            reachable[name] = direct[name].union(*(reach(target) for target in direct[name]))
        return reachable[name]

    lines = ["```mermaid", "flowchart TD"]
    for name in sorted(packages):
        indirect: set[str] = set().union(*(reach(target) for target in direct[name]))
        lines += [f"    {name} --> {target}" for target in sorted(direct[name] - indirect)]
    return "\n".join([*lines, "```"])


def read_package_imports() -> dict[str, set[str]]:
    """Return for each package or top-level module of hardwon the ones it imports, at any depth of its code."""
    imported: dict[str, set[str]] = {}
    for folder, _, names in os.walk(SRC):
        for name in names:
            if not name.endswith(".py"):
                continue
            path = os.path.join(folder, name)
            package = os.path.relpath(path, SRC).removesuffix(".py").split(os.sep)[0]
            with open(path, encoding="utf-8") as file:
                tree = ast.parse(file.read())
            targets = imported.setdefault(package, set())
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom) and node.module == "hardwon":
                    targets.update(alias.name for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hardwon."):
                    targets.add(str(node.module).split(".")[1])
                elif isinstance(node, ast.Import):
                    targets.update(
                        alias.name.split(".")[1] for alias in node.names if alias.name.startswith("hardwon.")
                    )
    return imported


AGENTS_START, AGENTS_END = "<!-- agents: from the tests, by `make docs` -->", "<!-- end of the agents -->"
# Agents without a run of the program, and what stands for one.
RECORDED_VERSIONS = {"vibe": "3.0.2", "deepagents": "0.1.88"}
DRIVEN, RECORDED, READ = "driven", "recorded payloads", "documentation alone"
AGENT_REMARKS = {
    "claude-code": "",
    "codex": "runs hooks only once you trust them: `/hooks`, or `--trust`. Exit codes come from its rollouts",
    "gemini": "runs hooks only in folders you trust. The brief comes with the first prompt; no compactions",
    "opencode": "a plugin file instead of hooks; no note with a tool that fails without a result",
    "copilot": "one file, `~/.copilot/hooks/hardwon.json`, serves the CLI and VS Code's agent; no compactions",
    "vscode": "`hardwon install copilot`, and [an extension](vscode.md); no session ends, results of the terminal only",
    "qwen": "without a terminal it reports no session ends",
    "kilo": "opencode's plugin",
    "grok": "no subagents or compactions; where it runs Claude Code's hooks, hardwon stays silent",
    "droid": "failed calls and prompts come from its transcript",
    "vibe": "its journal is not read",
    "deepagents": "no subagents or compactions; a failed command without its output",
    "cursor": "there is no package that a test could run",
    "cline": "a held call is given arguments that its tool refuses, because its denial ends the run; "
    "an MCP tool that needs no arguments runs in spite of it",
}


def list_tested_agents() -> list[tuple[str, str, str, str]]:
    """Return each agent's name, title, tested version and how it was tested."""
    with open(os.path.join(HERE, "tested_agents.json"), encoding="utf-8") as file:
        driven = json.load(file)
    tested = []
    for agent in AGENT_REMARKS:
        title = "VS Code's agent" if agent == "vscode" else load_settings(agent).title
        if agent in driven:
            tested.append((agent, title, driven[agent]["version"], f"{DRIVEN}, {driven[agent]['date']}"))
        elif agent in RECORDED_VERSIONS:
            tested.append((agent, title, RECORDED_VERSIONS[agent], RECORDED))
        else:
            tested.append((agent, title, "", READ))
    return tested


def write_between(name: str, start: str, end: str, text: str) -> str:
    """Return the page with this text between two of its lines."""
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        text_before, _, rest = file.read().partition(start)
    return f"{text_before}{start}\n{text}\n{end}{rest.partition(end)[2]}"


def build_readme_page() -> str:
    """Return the README with the agents by how they were tested."""
    parts = []
    for how, words in (
        (DRIVEN, "Tested by driving the published program"),
        (RECORDED, "Tested with recorded payloads"),
        (READ, "Written from its documentation"),
    ):
        agents = [f"{title} {version}".strip() for _, title, version, tested in list_tested_agents() if how in tested]
        parts.append(f"- {words}: {', '.join(agents)}")
    return write_between("../README.md", AGENTS_START, AGENTS_END, "\n".join(parts))


def build_agents_page() -> str:
    """Return the page of supported agents with version, date and what is different in each."""
    lines = ["| agent | tested with | what is different |", "|---|---|---|"]
    for agent, title, version, how in list_tested_agents():
        command = "" if agent == "vscode" else f" (`{agent}`)"
        lines.append(f"| {title}{command} | {f'{version}, {how}'.removeprefix(', ')} | {AGENT_REMARKS[agent]} |")
    return write_between("hosts.md", AGENTS_START, AGENTS_END, "\n".join(lines))


PAGES = {
    "../README.md": build_readme_page,
    "hosts.md": build_agents_page,
    "architecture.md": build_architecture_page,
    "settings.md": build_settings_page,
    "cli.md": build_cli_page,
    "api.md": build_api_page,
}


def main() -> None:
    for name, make in PAGES.items():
        text = make()
        with open(os.path.join(HERE, name), "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    sys.exit(main())
