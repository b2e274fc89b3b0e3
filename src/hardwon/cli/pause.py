"""pause, unpause"""

from __future__ import annotations

import os
import re

import click

from hardwon import clock, paths, pauses, projects
from hardwon.cli.person_only import require_person
from hardwon.errors import UserError

_LONGEST = 3650 * 86_400.0
_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "": 60}


def parse_duration(text: str) -> float:
    """30m, 1h, 2d; a bare number is minutes."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|d|)", text.strip().lower())
    length = float(found[1]) * _UNITS[found[2]] if found else 0.0
    if not 0 < length <= _LONGEST:
        raise UserError(f"{text[:40]!r} is not a length of time", "hardwon pause --for 1h   (or 30m, 2d)")
    return length


@click.command()
@click.option("--project", "here", is_flag=True, help="only in this project")
@click.option("--for", "length", metavar="TIME", help="lift it by itself after this long: 30m, 1h, 2d")
def pause(here: bool, length: str | None) -> None:
    """Keep quiet: nothing is noted, held or blocked until lifted."""
    require_person("pausing")
    home, now = paths.get_home(), clock.now()
    until = now + parse_duration(length) if length else 0.0
    where = _here() if here else pauses.EVERYWHERE
    others = [one for one in pauses.list_active_pauses(home, now) if one[1] != where]
    pauses.write_pauses(home, [*others, (until, where)])
    span = f"for {length}" if length else "until you say: hardwon unpause"
    click.echo(f"paused {'in ' + where if here else 'everywhere'} {span}")


@click.command()
@click.option("--project", "here", is_flag=True, help="only this project's pause")
def unpause(here: bool) -> None:
    """Speak again: lift every pause, or this project's."""
    require_person("lifting a pause")
    home = paths.get_home()
    current = pauses.list_active_pauses(home, clock.now())
    left = [one for one in current if here and one[1] != _here()]
    pauses.write_pauses(home, left)
    if len(left) == len(current):
        click.echo("nothing was paused" + (" here" if here else ""))
    else:
        click.echo("speaking again" + (f"; still paused: {', '.join(where for _, where in left)}" if left else ""))


def _here() -> str:
    return projects.find_project_path(os.getcwd())
