"""The options that set a lesson's fields, for every command that writes or accepts one."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import click

from hardwon import projects
from hardwon.types import COMMAND_TARGETS, DELIVERY_MODES

# Each option is named by the field of a lesson's record that it sets.
_LESSON_OPTIONS = (
    click.option("--summary", help="what goes wrong, in a line"),
    click.option("--problem", help="the root cause"),
    click.option("--solution", help="what to do instead"),
    click.option("--command", "commandPatterns", multiple=True, metavar="REGEX", help="fires on a Bash command"),
    click.option("--path", "pathPatterns", multiple=True, metavar="GLOB", help="fires on a file"),
    click.option("--content", "contentPatterns", multiple=True, metavar="REGEX", help="fires on text to be written"),
    click.option("--unless", "unless", multiple=True, metavar="REGEX", help="skip if this matches too"),
    click.option("--tool", "toolNames", multiple=True, metavar="TOOL", help="only for this tool, such as Bash or Edit"),
    click.option("--delivery", type=click.Choice(DELIVERY_MODES), help="a new lesson is a note"),
    click.option("--block-reason", "blockReason", help="what the agent is told; {command} is filled in"),
    click.option(
        "--match-in", "commandMatchTarget", type=click.Choice(COMMAND_TARGETS), help="full: match inside quotes too"
    ),
    click.option("--priority", type=int, help="1 to 10; 5 for a new lesson"),
    click.option("--confidence", type=float, help="0 to 1; 0.9 for a new lesson"),
    click.option("--tag", "tags", multiple=True, metavar="TAG", help="category:value, such as tool:git"),
    click.option("--project", "here", is_flag=True, help="only for the project in this folder"),
)
confirm_option = click.option("--confirm", "confirmed", is_flag=True, help="allow a block with little history")


def add_lesson_options(command: Callable[..., None]) -> Callable[..., None]:
    # Decorators apply from the last to the first, and click lists options in that order.
    for option in reversed(_LESSON_OPTIONS):
        command = option(command)
    return command


def parse_flags(flags: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a record that the options set."""
    record: dict[str, Any] = {}
    if flags.pop("here"):
        record["scope"] = {"type": "project", "path": projects.find_project_path(os.getcwd())}
    for name, value in flags.items():
        if value is not None and value != ():
            record[name] = list(value) if isinstance(value, tuple) else value
    return record
