"""pause, unpause"""

from __future__ import annotations

import os
import re

import click

from hardwon import clock, paths, pauses, projects
from hardwon.cli.person_only import require_person
from hardwon.errors import UserError

_MAX_SECONDS = 3650 * 86_400.0
_UNIT_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "": 60}


def parse_duration(text: str) -> float:
    """30m, 1h, 2d; a bare number is minutes."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|d|)", text.strip().lower())
    seconds = float(match[1]) * _UNIT_SECONDS[match[2]] if match else 0.0
    if not 0 < seconds <= _MAX_SECONDS:
        raise UserError(f"{text[:40]!r} is not a length of time", "hardwon pause --for 1h   (or 30m, 2d)")
    return seconds


@click.command()
@click.option("--project", "here", is_flag=True, help="only in this project")
@click.option("--for", "length", metavar="TIME", help="lift it by itself after this long: 30m, 1h, 2d")
def pause(here: bool, length: str | None) -> None:
    """Keep quiet: nothing is noted, held or blocked until lifted."""
    require_person("pausing")
    home, now = paths.get_home(), clock.now()
    until = now + parse_duration(length) if length else 0.0
    scope = _find_current_project() if here else pauses.EVERYWHERE
    other_pauses = [entry for entry in pauses.list_active_pauses(home, now) if entry[1] != scope]
    pauses.write_pauses(home, [*other_pauses, (until, scope)])
    duration_text = f"for {length}" if length else "until you say: hardwon unpause"
    click.echo(f"paused {'in ' + scope if here else 'everywhere'} {duration_text}")


@click.command()
@click.option("--project", "here", is_flag=True, help="only this project's pause")
def unpause(here: bool) -> None:
    """Speak again: lift every pause, or this project's."""
    require_person("lifting a pause")
    home = paths.get_home()
    active_pauses = pauses.list_active_pauses(home, clock.now())
    remaining = [entry for entry in active_pauses if here and entry[1] != _find_current_project()]
    pauses.write_pauses(home, remaining)
    if len(remaining) == len(active_pauses):
        click.echo("nothing was paused" + (" here" if here else ""))
    else:
        click.echo(
            "speaking again" + (f"; still paused: {', '.join(scope for _, scope in remaining)}" if remaining else "")
        )


def _find_current_project() -> str:
    return projects.find_project_path(os.getcwd())
