"""mcp, dev record-hooks: the commands that an agent runs, so they load little"""

from __future__ import annotations

import json
import os
import sys

import click

from hardwon import paths
from hardwon.agents.fields import get_first_text
from hardwon.mcp.server import run_server

_RECORDED_HOME = "/home/dev"  # stands for the person's home in recordings


@click.group()
def dev() -> None:
    """Tools for people who add an agent to hardwon."""


@dev.command("record-hooks")
@click.argument("folder", type=click.Path(file_okay=False))
@click.argument("event")
def record_hooks(folder: str, event: str) -> None:
    """Be a hook that saves its input in FOLDER and answers nothing.

    Register it with an agent in a throwaway home, for each EVENT, and commit what it saves to
    tests/payloads/AGENT/VERSION. Your home is written as /home/dev; check the rest for names and keys yourself.
    """
    payload = sys.stdin.buffer.read().decode("utf-8", "replace")
    text = payload.replace(os.path.expanduser("~"), _RECORDED_HOME)
    try:
        wire = json.loads(text)
        text = json.dumps(wire, indent=1, ensure_ascii=False) + "\n"
    except ValueError:
        wire = {}  # worth seeing as well
    name = event
    if tool := get_first_text(wire, "tool_name", "toolName", "tool"):
        name += f"-{tool.replace('/', '_')}"
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"{name}.json")
    number = 1
    while True:
        try:
            with open(path, "x", encoding="utf-8") as file:  # agents run several hooks at once
                file.write(text)
            break
        except FileExistsError:
            number += 1
            path = os.path.join(folder, f"{name}-{number}.json")
    click.echo("{}")


@click.command()
@click.option(
    "--project",
    "folder",
    default=".",
    metavar="PATH",
    type=click.Path(exists=True, file_okay=False, resolve_path=True),
    help="answer about this project instead",
)
@click.option("--all-projects", is_flag=True, help="let the agent ask about every other project, too")
def mcp(folder: str, all_projects: bool) -> None:
    """Serve MCP on stdin and stdout, for the project in this folder.

    An agent starts it: claude mcp add hardwon -- hardwon mcp
    """
    run_server(paths.get_home(), os.path.realpath(folder), all_projects=all_projects)
