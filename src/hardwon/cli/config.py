"""config, config get, config set"""

from __future__ import annotations

import json
from typing import Any

import click

from hardwon import clock, paths, settings
from hardwon.cli.person import require_person
from hardwon.cli.show import table
from hardwon.errors import UserError
from hardwon.recall import manifest


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="print JSON")
@click.pass_context
def config(ctx: click.Context, as_json: bool) -> None:
    """Every setting: its value, its default, and where the value comes from."""
    if ctx.invoked_subcommand:
        return
    rows = [_row(setting) for setting in settings.SETTINGS]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
    else:
        cells = [[str(row["name"]), _plain(row["value"]), _plain(row["default"]), str(row["origin"])] for row in rows]
        table(["setting", "value", "default", "origin"], cells, wide=1)


@config.command("get")
@click.argument("name")
def get(name: str) -> None:
    """One setting's value, as JSON."""
    click.echo(_plain(_row(_setting(name))["value"]))


@config.command("set")
@click.argument("name")
@click.argument("value")
def put(name: str, value: str) -> None:
    """Set NAME to VALUE (JSON; a bare word is text). `null` gives the default back."""
    require_person("changing a setting")
    setting, home = _setting(name), paths.home()
    try:
        wanted = json.loads(value)
    except ValueError:
        wanted = value
    if wanted is not None and (wrong := settings.fault(setting, wanted)):
        raise UserError(wrong, f"hardwon config set {name} {_plain(setting.default)}")
    document = settings.read_config(home)
    _assign(document, name, wanted)
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    paths.write_private(settings.config_path(home), text.encode())
    manifest.build(home, clock.now())
    click.echo(f"{name} is {_plain(_row(setting)['value'])}")


def _setting(name: str) -> settings.Setting:
    if name not in settings.BY_NAME:
        raise UserError(f"there is no setting {name!r}", "hardwon config")
    return settings.BY_NAME[name]


def _row(setting: settings.Setting) -> dict[str, Any]:
    given = settings.lookup(settings.read_config(paths.home()), setting.name)
    wrong = settings.fault(setting, given) if given is not None else None
    origin = "default" if given is None else f"default: {wrong}" if wrong else paths.CONFIG
    value = setting.default if given is None or wrong else given
    return {"name": setting.name, "value": value, "default": setting.default, "origin": origin, "help": setting.help}


def _assign(document: dict[str, Any], name: str, value: object) -> None:
    group, _, inner = name.rpartition(".")
    holder = document.setdefault(group, {}) if group else document
    if not isinstance(holder, dict):
        raise UserError(f"{group} in config.json is {holder!r}, not an object", f"edit it: {group} holds {inner}")
    if value is None:
        holder.pop(inner, None)
    else:
        holder[inner] = value


def _plain(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
