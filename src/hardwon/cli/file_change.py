"""Changing a file that belongs to a person: shown first, then asked about."""

from __future__ import annotations

import difflib

import click

from hardwon.cli.output import at_terminal, styled
from hardwon.errors import UserError
from hardwon.paths import plain_file


def read(path: str) -> str:
    """The text as it is, its line ends too; nothing if there is no file."""
    try:
        with open(path, encoding="utf-8", newline="", opener=plain_file) as file:
            return file.read()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as wrong:
        raise UserError(f"{path} cannot be read: {wrong}", "mend or move that file") from None


def show(path: str, before: str, after: str) -> None:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), path, path, lineterm="", n=2)
    for line in lines:
        colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
        styled(line, fg=colour)


def confirmed(yes: bool, command: str) -> bool:
    if yes:
        return True
    if at_terminal():
        return click.confirm("Make this change?", default=True)
    raise UserError("nothing was changed: this is not a terminal, so nobody can be asked", command)
