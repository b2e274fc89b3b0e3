"""mcp"""

from __future__ import annotations

import os

import click

from hardwon import paths
from hardwon.mcp.server import run_server


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
