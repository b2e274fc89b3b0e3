"""Writes the pages that follow from the code: settings, commands, schema. A test says when they are old."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator

import click
from click.testing import CliRunner

from hardwon.cli import hardwon
from hardwon.settings import SETTINGS
from hardwon.store.migrations import MIGRATIONS

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
            table = re.match(r"create table (\w+)", text)
            lines += [*([f"Table `{table[1]}`:", ""] if table else []), "```sql", text + ";", "```", ""]
    return "\n".join(lines)


PAGES = {"settings.md": settings_page, "cli.md": cli_page, "schema.md": schema_page}


def main() -> None:
    for name, make in PAGES.items():
        with open(os.path.join(HERE, name), "w", encoding="utf-8") as file:
            file.write(make())


if __name__ == "__main__":
    sys.exit(main())
