"""The page Settings: every setting with its origin, pauses, and how much is stored.

Which model is asked and what it may cost is set at a terminal only: a browser may be left open.
"""

from __future__ import annotations

import json
from typing import Any

from hardwon import pauses, settings
from hardwon.actions.approvals import compile_manifest
from hardwon.errors import UserError
from hardwon.settings import Setting
from hardwon.store import db, retention, views
from hardwon.web.page_request import PageContent, PageRequest, Redirect, parse_number

_TERMINAL_ONLY_PREFIXES = ("llm.", "caps.")
_COUNTED_TABLES = (
    "sessions",
    "prompts",
    "events",
    "observations",
    "summaries",
    "candidates",
    "memories",
    "reflections",
    "injections",
    "runs",
    "jobs",
)


def show_settings(request: PageRequest) -> PageContent:
    """Show every setting, the pauses, and how much is stored where."""
    config = settings.read_config(request.home)
    values = {
        "title": "Settings",
        "settings": [_build_row(config, setting) for setting in settings.SETTINGS],
        "unknown": settings.find_unknown_keys(config),
        "config": settings.get_config_path(request.home),
        "pauses": pauses.list_active_pauses(request.home, request.now),
        "projects": views.list_projects(request.connection, limit=50),
        "home": request.home,
        "database": retention.measure_file_bytes(request.home),
        "counts": db.count_rows(request.connection, _COUNTED_TABLES),
    }
    return PageContent("settings.html", values)


def _build_row(config: dict[str, Any], setting: Setting) -> dict[str, Any]:
    """Return a setting as a row of the page: its value, where that comes from, and the kind of field to edit it."""
    value, origin = settings.resolve_with_origin(config, setting)
    kind = "line"
    text = value if isinstance(value, str) else json.dumps(value)
    if setting.choices:
        kind = "choice"
    elif isinstance(setting.default, bool):
        kind = "flag"
    elif isinstance(setting.default, list):
        kind = "lines"
        text = "\n".join(value)
    return {
        "name": setting.name,
        "help": setting.help,
        "choices": setting.choices,
        "kind": kind,
        "value": value,
        "text": text,
        "default": json.dumps(setting.default),
        "origin": origin,
        "is_set": settings.get_configured_value(config, setting.name) is not None,
        "is_fixed": setting.name.startswith(_TERMINAL_ONLY_PREFIXES),
    }


def save_setting(request: PageRequest) -> Redirect:
    """Change a setting, or reset it to its default."""
    name = request.path_params["name"]
    setting = settings.SETTINGS_BY_NAME.get(name)
    if setting is None or name.startswith(_TERMINAL_ONLY_PREFIXES):
        raise UserError(f"{name[:80]!r} cannot be set here", "hardwon config")
    new_value = None
    if "default" not in request.form:
        new_value = _parse_value(setting, request.form.get("value", "").replace("\r\n", "\n"))
        if fault := settings.find_fault(setting, new_value):
            raise UserError(fault, f"such as {json.dumps(setting.default)}")
    settings.write_setting(request.home, name, new_value)
    compile_manifest(request.home, request.now)
    value, _ = settings.resolve_with_origin(settings.read_config(request.home), setting)
    return Redirect("/settings", f"{name} is {json.dumps(value)[:200]}")


def _parse_value(setting: Setting, text: str) -> Any:
    """Return what was typed as the setting's kind of value.

    Text that is not a number or a truth value stays text, which the setting's check then refuses by name.
    """
    if isinstance(setting.default, list):
        return [line.strip() for line in text.split("\n") if line.strip()]
    if isinstance(setting.default, str):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def pause(request: PageRequest) -> Redirect:
    """Pause recording and delivery, everywhere or in one project.

    The pause has no end if the form names no length. A project that is not recorded here means everywhere.
    """
    seconds = parse_number(request.form, "length") or 0
    path = request.form.get("where", "")
    if path not in {project["path"] for project in views.list_projects(request.connection)}:
        path = pauses.EVERYWHERE
    until = request.now + seconds if seconds else 0.0
    pauses.add_pause(request.home, until, path, request.now)
    return Redirect("/settings", "Paused everywhere." if path == pauses.EVERYWHERE else f"Paused in {path}.")


def unpause(request: PageRequest) -> Redirect:
    pauses.write_pauses(request.home, pauses=[])
    return Redirect("/settings", "Unpaused.")
