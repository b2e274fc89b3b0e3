"""Writes the pages that follow from the code: settings, commands, schema. A test says when they are old."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import sqlite3
import sys
from collections.abc import Iterator

import click
from click.testing import CliRunner

from hardwon.agents import load_settings
from hardwon.cli import hardwon
from hardwon.settings import SETTINGS
from hardwon.store.migrations import STEPS
from hardwon.web.api import ENDPOINTS, build_openapi_document

HERE = os.path.dirname(os.path.abspath(__file__))
SRC = os.path.join(os.path.dirname(HERE), "src", "hardwon")
NOTE = "<!-- Made from the code by `make docs`. -->"


def settings_page() -> str:
    lines = ["# Settings", "", NOTE, "", "In `~/.hardwon/config.json`. A key that is left out has its default.", ""]
    lines += ["| setting | default | from | to | what it does |", "|---|---|---|---|---|"]
    for one in SETTINGS:
        least, most = ("" if bound is None else f"{bound:g}" for bound in (one.least, one.most))
        lines.append(f"| `{one.name}` | `{json.dumps(one.default)}` | {least} | {most} | {one.help} |")
    return "\n".join(lines) + "\n"


def commands(command: click.Command, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=words[-1])
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from commands(inner, (*words, name))


def cli_page() -> str:
    lines = ["# Commands", "", NOTE, ""]
    for words, _ in commands(hardwon, ("hardwon",)):
        helped = CliRunner().invoke(hardwon, [*words[1:], "--help"], prog_name="hardwon", terminal_width=80)
        lines += [f"## `{' '.join(words)}`", "", "```", helped.output.rstrip(), "```", ""]
    return "\n".join(lines)


def schema_page() -> str:
    """Return the tables as the migrations leave them, with their columns."""
    lines = [
        "# Schema",
        "",
        NOTE,
        "",
        f"One SQLite file, `~/.hardwon/hardwon.db`, version {STEPS[-1][0]}. The SQL, with types and comments, is in",
        "`src/hardwon/store/migrations.py`; its steps are append-only.",
        "",
        "| table | columns |",
        "|---|---|",
    ]
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        for _, statements in STEPS:
            for statement in statements:
                database.execute(statement)
        tables = [name for (name,) in database.execute("select name from pragma_table_list where type != 'shadow'")]
        for table in sorted(name for name in tables if not name.startswith("sqlite_")):
            columns = [name for (name,) in database.execute("select name from pragma_table_info(?)", (table,))]
            lines.append(f"| `{table}` | {', '.join(columns)} |")
    return "\n".join([*lines, ""])


def api_page() -> str:
    """The API's page, from the OpenAPI document that the worker serves."""
    told = build_openapi_document(ENDPOINTS)
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
    for path, operations in told["paths"].items():
        lines += [f"| {method.upper()} | `{path}` | {one['summary']} |" for method, one in operations.items()]
    for name, schema in told["components"]["schemas"].items():
        lines += [
            "",
            f"## {name}",
            "",
            schema.get("description", ""),
            "",
            "| field | type | default |",
            "|---|---|---|",
        ]
        for field, given in schema["properties"].items():
            default = "required" if field in schema.get("required", ()) else f"`{json.dumps(given.get('default'))}`"
            lines.append(f"| `{field}` | {given.get('type', 'any')} | {default} |")
    return "\n".join([*lines, "", API_LAST.strip(), ""])


API_FIRST = """
At `http://127.0.0.1:37777` (`apiPort`; `hardwon status` shows the actual port). Every request carries
`Authorization: Bearer` and the content of `~/.hardwon/token`. Another Host, a page of another origin, a body above a
megabyte or a slow one are refused. Errors are JSON with `error` and `fix`. The token reads and reports; nothing here
approves. `/api/openapi.json` is the document this page is made from.
"""
API_LAST = """
## Listening

`GET /api/stream` sends server-sent events of the kinds session, prompt, event, observation, delivery, job and
processing, each with an id. A listener that was cut off sends `Last-Event-ID` and gets what it missed, up to
500 messages. One that does not read is let go. At most 200 listen.

## From an editor

| the editor | calls |
|---|---|
| is activated | `GET /api/context/inject?project=FOLDER`, shown to the model |
| runs a command, or its chat is asked | `POST /api/sessions/init` with `sessionId`, `userPrompt`, `cwd` |
| saves a file | `POST /api/sessions/observations` with `tool_name` `FileSave`, `tool_input` `{"path": …}` |
| shows another file | the same with `tool_name` `FileOpen` |
| ends a turn | `POST /api/sessions/summarize` |
| is deactivated | `POST /api/sessions/complete` |

Each `/api/sessions/…` call also works without `/api`. `claudeSessionId` and `sessionId` are two names for one field.
`init` answers with `sessionDbId`, the session's number; `/sessions/{sessionDbId}/init`, `…/observations`,
`…/summarize` and `…/complete` then mean that session and need no id in the body. A number that no session has is
refused. A file that was saved counts as changed, one that was shown as read.
"""


def architecture_page() -> str:
    """Return the page with its picture drawn anew from the imports."""
    with open(os.path.join(HERE, "architecture.md"), encoding="utf-8") as file:
        page = file.read()
    before, _, rest = page.partition(PICTURE_START)
    after = rest.partition(PICTURE_END)[2]
    return f"{before}{PICTURE_START}\n{draw_packages()}\n{PICTURE_END}{after}"


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
AGENT_REMARKS = {
    "claude-code": "",
    "codex": "runs hooks only after you trust them: `/hooks`, or `--trust`",
    "gemini": "runs hooks only in folders you trust",
    "opencode": "uses a small plugin file; no note with a tool that failed",
    "copilot": "one hook file serves the CLI and VS Code's agent",
    "vscode": "as code-server; `hardwon install copilot`, and [an extension](docs/vscode.md)",
    "qwen": "",
    "kilo": "opencode's plugin",
    "grok": "is told nothing at the start of a session",
    "droid": "failures come from its transcript",
    "vibe": "is told nothing at the start of a session",
    "deepagents": "",
    "cursor": "",
    "cline": "has no denial: a held call is given arguments that its tool refuses; nothing at the start",
}


def readme_page() -> str:
    """Return the README with its table of agents: version, date and how each was tested."""
    with open(os.path.join(HERE, "tested_agents.json"), encoding="utf-8") as file:
        driven = json.load(file)
    lines = ["| | tested with | how | |", "|---|---|---|---|"]
    for agent, remark in AGENT_REMARKS.items():
        version, how = "", "its documentation alone"
        if agent in driven:
            version, how = driven[agent]["version"], f"driven, {driven[agent]['date']}"
        elif agent in RECORDED_VERSIONS:
            version, how = RECORDED_VERSIONS[agent], "recorded payloads"
        title = "VS Code's agent" if agent == "vscode" else load_settings(agent).title
        lines.append(f"| {title} | {version} | {how} | {remark} |")
    with open(os.path.join(os.path.dirname(HERE), "README.md"), encoding="utf-8") as file:
        before, _, rest = file.read().partition(AGENTS_START)
    table = "\n".join(lines)
    return f"{before}{AGENTS_START}\n{table}\n{AGENTS_END}{rest.partition(AGENTS_END)[2]}"


PAGES = {
    "../README.md": readme_page,
    "architecture.md": architecture_page,
    "settings.md": settings_page,
    "cli.md": cli_page,
    "schema.md": schema_page,
    "api.md": api_page,
}


def main() -> None:
    for name, make in PAGES.items():
        text = make()
        with open(os.path.join(HERE, name), "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    sys.exit(main())
