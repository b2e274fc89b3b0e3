"""mcp"""

from __future__ import annotations

import os

import click

from hardwon import paths


@click.command()
def mcp() -> None:
    """Answer an agent over MCP, on stdin and stdout, about the project in this folder.

    An agent starts it: claude mcp add hardwon -- hardwon mcp
    """
    from hardwon.mcp import server  # half a second that `--help` need not pay

    server(paths.home(), os.getcwd()).run("stdio")
