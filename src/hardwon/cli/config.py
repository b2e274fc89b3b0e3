"""config, config get, config set; pause, unpause; completion"""

from __future__ import annotations

import json
import re
import shlex
from difflib import get_close_matches
from typing import Any

import click

from hardwon import clock, paths, pauses, settings
from hardwon.cli import CommandGroup
from hardwon.cli.completions import complete_settings
from hardwon.cli.context import find_project_here, json_option, require_person
from hardwon.cli.output import echo_json, echo_table
from hardwon.errors import UserError
from hardwon.text.characters import to_printable_line

_MAX_PAUSE_SECONDS = 3650 * 86_400.0
_UNIT_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "": 60}
# The line that turns on completion, and the file it belongs in, by shell.
SETUP_LINES = {
    "bash": ('eval "$(hardwon completion bash)"', "~/.bashrc"),
    "zsh": ('eval "$(hardwon completion zsh)"', "~/.zshrc"),
    "fish": ("hardwon completion fish | source", "~/.config/fish/config.fish"),
}


@click.group(cls=CommandGroup, invoke_without_command=True)
@json_option
@click.pass_context
def config(ctx: click.Context, as_json: bool) -> None:
    """Show every setting: its value, its default, and where the value comes from."""
    if ctx.invoked_subcommand:
        return  # `config get` and `config set` print for themselves
    settings_fields = [_describe_setting(setting) for setting in settings.SETTINGS]
    if as_json:
        echo_json(settings_fields)
        return
    rows = []
    for fields in settings_fields:
        origin = fields["origin"]
        if origin != "default":
            origin = to_printable_line(f"{origin} (default {_format_value(fields['default'])})", 40)
        rows.append([fields["name"], _format_value(fields["value"]), origin])
    echo_table(["setting", "value", "from"], rows, wide_column=1)


@config.command("get")
@click.argument("name", shell_complete=complete_settings)
@click.option("--json", "as_json", is_flag=True, help="its default, origin and help as well")
def get_value(name: str, as_json: bool) -> None:
    """Print one setting's value, as JSON."""
    fields = _describe_setting(_find_setting(name, verb="get"))
    if as_json:
        echo_json(fields)
    else:
        click.echo(_format_value(fields["value"]))


@config.command("set", context_settings={"ignore_unknown_options": True})  # so that -1 is a value
@click.argument("name", shell_complete=complete_settings)
@click.argument("value")
def set_value(name: str, value: str) -> None:
    """Set NAME to VALUE (JSON; a bare word is text). `null` restores the default."""
    from hardwon.actions.approvals import compile_manifest

    require_person("changing a setting")
    setting = _find_setting(name, verb="set", value=value)
    home = paths.get_home()
    try:
        new_value = json.loads(value)
    except ValueError:
        new_value = value
    if new_value is not None and (fault := settings.find_fault(setting, new_value)):
        raise UserError(fault, f"hardwon config set {name} {_format_value(setting.default)}")
    settings.write_setting(home, name, new_value)
    # The manifest carries the settings that hooks need while the worker is away.
    compile_manifest(home, clock.now())
    click.echo(f"{name} is {_format_value(_describe_setting(setting)['value'])}")


def _find_setting(name: str, *, verb: str, value: str | None = None) -> settings.Setting:
    """Return a setting; for a name that does not exist, suggest the command with the nearest one."""
    if name in settings.SETTINGS_BY_NAME:
        return settings.SETTINGS_BY_NAME[name]
    names_by_lowered = {known_name.lower(): known_name for known_name in settings.SETTINGS_BY_NAME}
    fix = ["hardwon", "config"]
    matches = get_close_matches(name.lower(), names_by_lowered, n=1)
    if matches:
        fix += [verb, names_by_lowered[matches[0]]]
        if value is not None:
            fix.append(value)
    raise UserError(f"there is no setting {name!r}", shlex.join(fix))


def _describe_setting(setting: settings.Setting) -> dict[str, Any]:
    """Return a setting as `--json` has it; `origin` is where its value comes from."""
    config = settings.read_config(paths.get_home())
    value, origin = settings.resolve_with_origin(config, setting)
    return {
        "name": setting.name,
        "value": value,
        "default": setting.default,
        "origin": origin,
        "help": setting.help,
    }


def _format_value(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


@click.command()
@click.option("--project", "here", is_flag=True, help="only in this project")
@click.option("--for", "duration", metavar="TIME", help="lift it after this long: 30m, 1h, 2d")
def pause(here: bool, duration: str | None) -> None:
    """Pause hardwon: nothing is recorded, noted, held or blocked until it is lifted."""
    require_person("pausing")
    now = clock.now()
    until = 0.0
    length = "until you lift it: hardwon unpause"
    if duration:
        until = now + _parse_duration(duration)
        length = f"for {duration}"
    scope = pauses.EVERYWHERE
    where = "everywhere"
    if here:
        scope = find_project_here()
        where = f"in {scope}"
    pauses.add_pause(paths.get_home(), until, scope, now)
    click.echo(f"paused {where} {length}")


def _parse_duration(text: str) -> float:
    """Return the seconds of 30m, 1h or 2d; a bare number is minutes."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|d|)", text.strip().lower())
    seconds = float(match[1]) * _UNIT_SECONDS[match[2]] if match else 0.0
    if not 0 < seconds <= _MAX_PAUSE_SECONDS:
        raise UserError(f"{text[:40]!r} is not a length of time", "hardwon pause --for 1h   (or 30m, 2d)")
    return seconds


@click.command()
@click.option("--project", "here", is_flag=True, help="only this project's pause")
def unpause(here: bool) -> None:
    """Lift every pause, or this project's."""
    require_person("lifting a pause")
    home = paths.get_home()
    active_pauses = pauses.list_active_pauses(home, clock.now())
    remaining = []
    if here:
        project = find_project_here()
        remaining = [(until, scope) for until, scope in active_pauses if scope != project]
    pauses.write_pauses(home, remaining)
    if len(remaining) == len(active_pauses):
        click.echo("nothing was paused" + (" here" if here else ""))
    elif remaining:
        click.echo(f"unpaused; still paused: {', '.join(scope for _, scope in remaining)}")
    else:
        click.echo("unpaused")


@click.command(epilog="\b\n" + "\n".join(f"{line:<38}in {path}" for line, path in SETUP_LINES.values()))
@click.argument("shell", type=click.Choice(list(SETUP_LINES)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print what your shell needs to complete hardwon's commands and options.

    Put the line below where your shell reads it; for zsh after compinit.
    """
    from click.shell_completion import get_completion_class

    completion_class = get_completion_class(shell)
    assert completion_class is not None, "click knows these three shells"
    click.echo(
        completion_class(
            ctx.find_root().command, ctx_args={}, prog_name="hardwon", complete_var="_HARDWON_COMPLETE"
        ).source()
    )
