"""Changing a file that belongs to a person: shown first, then asked about."""

from __future__ import annotations

import difflib

import click

from hardwon.cli.output import echo_styled, is_interactive
from hardwon.errors import UserError
from hardwon.paths import open_plain_file


def read_text(path: str) -> str:
    """The text as it is, its line ends too; nothing if there is no file."""
    try:
        with open(path, encoding="utf-8", newline="", opener=open_plain_file) as file:
            return file.read()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}", "mend or move that file") from None


def show_diff(path: str, old_text: str, new_text: str) -> None:
    lines = difflib.unified_diff(old_text.splitlines(), new_text.splitlines(), path, path, lineterm="", n=2)
    for line in lines:
        colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
        echo_styled(line, fg=colour)


def confirm_change(yes: bool, command: str) -> bool:
    if yes:
        return True
    if is_interactive():
        return click.confirm("Make this change?", default=True)
    raise UserError("nothing was changed: this is not a terminal, so nobody can be asked", command)
