"""why"""

from __future__ import annotations

import json
import os

import click

from hardwon import clock, paths, pauses
from hardwon.cli.output import make_printable
from hardwon.errors import UserError
from hardwon.lessons import explanation as judging
from hardwon.types import Event

MAX_OTHERS = 15
_VERDICTS = {"block": "would block", "hold": "would hold", "note": "would note", "start": "is told at session start"}


@click.command()
@click.argument("command", required=False, default="")
@click.option("--tool", default="", help="the tool, if it is not Bash")
@click.option("--path", default="", help="the file it is about")
@click.option("--content", default="", help="the text it would write")
@click.option("--all", "show_all", is_flag=True, help="every lesson that would not fire, too")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def why(command: str, tool: str, path: str, content: str, show_all: bool, as_json: bool) -> None:
    """Which lessons would fire on COMMAND, and why not the others.

    Nothing is delivered and nothing is claimed by asking.
    """
    if not (command or path or content or tool):
        raise UserError("nothing to judge was given", "hardwon why 'git stash'   (or --path, --content, --tool)")
    home, tool = paths.get_home(), tool or ("Bash" if command else "Edit")
    event = Event("", "PreToolUse", "", os.getcwd(), tool=tool, command=command, path=path, content=content)
    matches, unmet = judging.explain_call(home, event, clock.now())
    firings = [
        {"slug": item.entry.slug, "would": item.entry.delivery, "summary": item.entry.summary, "in": item.matched_text}
        for item in matches
    ]
    is_paused = pauses.is_paused(home, os.getcwd(), clock.now())
    others = [{"slug": slug, "why": reason} for slug, reason in (*unmet, *judging.explain_inactive_lessons(home))]
    if as_json:
        click.echo(json.dumps({"fires": firings, "others": others, "paused": is_paused}, indent=2))
        return
    if is_paused:
        click.echo("paused here, so nothing fires until you lift it (hardwon unpause); then:")
    for item in firings:
        click.echo(
            make_printable(
                f"{_VERDICTS[item['would']]}: {item['summary']} [{item['slug']}]\n  matched in: {item['in']}"
            )
        )
    if not firings:
        click.echo("no lesson would fire")
    shown_others = others if show_all else others[:MAX_OTHERS]
    for item in shown_others:
        click.echo(make_printable(f"not {item['slug']}: it {item['why']}"))
    if len(shown_others) < len(others):
        click.echo(f"… and {len(others) - len(shown_others)} more: hardwon why --all")
