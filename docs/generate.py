"""Writes the pages that follow from the code: settings, commands, schema. A test says when they are old."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator

import click
from click.testing import CliRunner

from hardwon.agents import load_install_module
from hardwon.agents.capabilities import CAPABILITIES, SUPPORT_BY_AGENT
from hardwon.cli import hardwon
from hardwon.settings import SETTINGS
from hardwon.store.migrations import MIGRATIONS
from hardwon.web.api import ENDPOINTS, build_openapi_document

HERE = os.path.dirname(os.path.abspath(__file__))
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
    lines = [
        "# Schema",
        "",
        NOTE,
        "",
        "One SQLite file, `~/.hardwon/hardwon.db`. Steps are numbered and append-only.",
        "",
    ]
    for number, step in enumerate(MIGRATIONS, 1):
        lines += [f"## Step {number}", ""]
        for statement in step:
            text = re.sub(r"\n {8}", "\n", statement).strip()
            table = re.match(r"create (?:virtual )?table (\w+)", text)
            lines += [*([f"Table `{table[1]}`:", ""] if table else []), "```sql", text + ";", "```", ""]
    return "\n".join(lines)


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


def hosts_page() -> str:
    """What each agent can do, from the table, and how a plugin is installed."""
    titles = {name: load_install_module(name).TITLE for name in SUPPORT_BY_AGENT}
    lines = ["# The agents", "", NOTE, "", HOSTS_FIRST.strip(), ""]
    lines += [f"| | what it is | {' | '.join(titles.values())} |", f"|---|---|{'---|' * len(titles)}"]
    for ability, says in CAPABILITIES.items():
        lines.append(f"| {ability} | {says} | {' | '.join(SUPPORT_BY_AGENT[name][ability][0] for name in titles)} |")
    for name, title in titles.items():
        lines += ["", f"## {title}", "", f"`hardwon install {name}`", "", "| | | why |", "|---|---|---|"]
        lines += [f"| {ability} | {level} | {why} |" for ability, (level, why) in SUPPORT_BY_AGENT[name].items()]
    return "\n".join([*lines, "", HOSTS_LAST.strip(), ""])


HOSTS_FIRST = """
One memory for all of them: a lesson written for one agent fires on the same call in every other, since the tools are
told to hardwon under the same names. What an agent cannot do is said here with the reason; the rest works alike.
"""
HOSTS_LAST = """
## Plugins

Instead of `hardwon install`, or beside it. A plugin has no logic: a shell script finds the hardwon that is installed
here and becomes its hook, a millisecond or two later than the installed hook would be. If there is none, the first
session says in one line how to get it, and nothing is stopped. Where the agent's settings have our hooks, those of the
plugin stay silent; should both speak all the same, each event is recorded once, a note is said once, and a held call
is denied in both.

In a checkout of hardwon:

```
claude plugin marketplace add ./plugins        # Claude Code
claude plugin install hardwon@hardwon
claude plugin install lessons@hardwon

codex plugin marketplace add ./plugins         # Codex; then trust the hooks: /hooks
codex plugin add hardwon@hardwon
codex plugin add lessons@hardwon

gemini extensions link ./plugins/gemini        # Gemini CLI
```

The plugins bring `/hardwon:search`, `/hardwon:handoff`, `/hardwon:resume`, `/lessons:manage` and `/lessons:review`, two
skills, and hardwon's MCP server, so `--mcp` is not needed with them. Codex has the skills, not the slash commands. None
of their texts decides anything: what an agent finds is put before the person, who types `hardwon accept N` or
`hardwon handoff ratify NUMBER` themselves.

## Notes for agents without hooks

`hardwon export notes` writes lessons in force and approved memories into AGENTS.md (`--to CLAUDE.md`, `GEMINI.md`,
`.cursorrules`), and `hardwon import notes FILE` proposes what such a file says: see [export](export.md).
"""

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

PAGES = {
    "settings.md": settings_page,
    "cli.md": cli_page,
    "schema.md": schema_page,
    "api.md": api_page,
    "hosts.md": hosts_page,
}


def main() -> None:
    for name, make in PAGES.items():
        with open(os.path.join(HERE, name), "w", encoding="utf-8") as file:
            file.write(make())


if __name__ == "__main__":
    sys.exit(main())
