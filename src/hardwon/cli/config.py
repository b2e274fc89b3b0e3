"""config, config get, config set"""

from __future__ import annotations

import json
from typing import Any

import click

from hardwon import clock, paths, settings
from hardwon.actions import approvals
from hardwon.cli.output import echo_table, to_printable_line
from hardwon.cli.person_only import require_person
from hardwon.errors import UserError


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="print JSON")
@click.pass_context
def config(ctx: click.Context, as_json: bool) -> None:
    """Every setting: its value, its default, and where the value comes from."""
    if ctx.invoked_subcommand:
        return
    rows = [_describe_setting(setting) for setting in settings.SETTINGS]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
    else:
        cells = [[str(row["name"]), _format_value(row["value"]), _format_origin(row)] for row in rows]
        echo_table(["setting", "value", "from"], cells, wide_column=1)


@config.command("get")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="its default, origin and help as well")
def get_value(name: str, as_json: bool) -> None:
    """One setting's value, as JSON."""
    row = _describe_setting(_find_setting(name))
    click.echo(json.dumps(row, indent=2) if as_json else _format_value(row["value"]))


@config.command("set", context_settings={"ignore_unknown_options": True})  # -1 is a value
@click.argument("name")
@click.argument("value")
def set_value(name: str, value: str) -> None:
    """Set NAME to VALUE (JSON; a bare word is text). `null` gives the default back."""
    require_person("changing a setting")
    setting, home = _find_setting(name), paths.get_home()
    try:
        new_value = json.loads(value)
    except ValueError:
        new_value = value
    if new_value is not None and (fault := settings.find_fault(setting, new_value)):
        raise UserError(fault, f"hardwon config set {name} {_format_value(setting.default)}")
    settings.write_setting(home, name, new_value)
    approvals.compile_manifest(home, clock.now())
    click.echo(f"{name} is {_format_value(_describe_setting(setting)['value'])}")


def _find_setting(name: str) -> settings.Setting:
    if name not in settings.SETTINGS_BY_NAME:
        raise UserError(f"there is no setting {name!r}", "hardwon config")
    return settings.SETTINGS_BY_NAME[name]


def _describe_setting(setting: settings.Setting) -> dict[str, Any]:
    value, origin = settings.resolve_with_origin(settings.read_config(paths.get_home()), setting)
    return {"name": setting.name, "value": value, "default": setting.default, "origin": origin, "help": setting.help}


def _format_origin(row: dict[str, Any]) -> str:
    """Where a value comes from; of one that was set, what it would be otherwise."""
    if row["origin"] == "default":
        return "default"
    return to_printable_line(f"{row['origin']} (default {_format_value(row['default'])})", 40)


def _format_value(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
