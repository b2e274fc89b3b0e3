"""Settings: each with its default, where its value comes from and what it is for; pauses; what is stored, and where.

What is sent to a model, to whom, and what that may cost is set at a terminal: a page can be clicked by mistake, and
this browser may be left open.
"""

from __future__ import annotations

import json
import os
from typing import Any

from hardwon import paths, pauses, settings
from hardwon.actions import approvals
from hardwon.errors import UserError
from hardwon.handoff import memory_files
from hardwon.settings import Setting
from hardwon.store import retention, views
from hardwon.web.page_request import Ask, Moved, Shown, number

AT_A_TERMINAL = ("llm.", "caps.")
PRIVACY = ("denyProjects", "denyPaths", "skipTools")
LENGTHS = (("3600", "for an hour"), ("28800", "for 8 hours"), ("0", "until lifted"))
TABLES = (
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
MOST_FILES = 20_000  # that are counted in one folder
_FILES = (
    (paths.LESSONS, "the lessons, yours to edit"),
    (paths.CONFIG, "the settings, yours to edit"),
    (memory_files.IN_HOME, "memories of yours and of folders without a repository, yours to edit"),
    ("drafts", "handoffs of folders without a repository"),
    (paths.DATABASE, "sessions, prompts, events, observations, candidates, deliveries"),
    (paths.INDEX, "the lessons in force, compiled"),
    ("claims", "what each session was told already"),
    ("spool", "what waits to be taken in"),
    ("backups", "copies that you made"),
    ("logs", "the worker's log"),
    ("token", "opens the API to programs of yours"),
)


def page(ask: Ask) -> Shown:
    config = settings.read_config(ask.home)
    rows = [_row(config, setting) for setting in settings.SETTINGS]
    values = {
        "title": "Settings",
        "privacy": [row for row in rows if row["name"] in PRIVACY],
        "settings": [row for row in rows if row["name"] not in PRIVACY],
        "unknown": settings.unknown(config),
        "config": settings.config_path(ask.home),
        "pauses": pauses.in_force(ask.home, ask.now),
        "lengths": LENGTHS,
        "projects": views.projects(ask.connection, limit=50),
        "home": ask.home,
        "files": [
            (name, says, held) for name, says in _FILES if (held := _size(os.path.join(ask.home, name))) is not None
        ],
        "database": retention.file_bytes(ask.home),
        "counts": views.counts(ask.connection, TABLES),
    }
    return Shown("settings.html", values)


def _row(config: dict[str, Any], setting: Setting) -> dict[str, Any]:
    value, origin = settings.origin(config, setting)
    kind = "flag" if isinstance(setting.default, bool) else "lines" if isinstance(setting.default, list) else "line"
    return {
        **setting.__dict__,
        "kind": "choice" if setting.choices else kind,
        "value": value,
        "text": "\n".join(value) if kind == "lines" else value if isinstance(value, str) else json.dumps(value),
        "plain": json.dumps(setting.default),
        "origin": origin,
        "is_set": settings.lookup(config, setting.name) is not None,
        "fixed": setting.name.startswith(AT_A_TERMINAL),
    }


def _size(path: str) -> int | None:
    """The bytes of a file, or of the files in a folder and below; None if there is nothing."""
    if not os.path.isdir(path):
        return os.path.getsize(path) if os.path.exists(path) else None
    total = count = 0
    for folder, _, names in os.walk(path):
        for name in names:
            count += 1
            if count > MOST_FILES:
                return total
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except OSError:  # gone meanwhile
                continue
    return total


def change(ask: Ask) -> Moved:
    """Set one setting, or give its default back."""
    setting = settings.BY_NAME.get(ask.path["name"])
    if setting is None or setting.name.startswith(AT_A_TERMINAL):
        raise UserError(f"{ask.path['name'][:80]!r} is not set here", "hardwon config")
    wanted = None if "default" in ask.form else _value(setting, ask.form.get("value", "").replace("\r\n", "\n"))
    if wanted is not None and (wrong := settings.fault(setting, wanted)):
        raise UserError(wrong, f"such as {json.dumps(setting.default)}")
    settings.put(ask.home, setting.name, wanted)
    approvals.compile_manifest(ask.home, ask.now)
    value, _ = settings.origin(settings.read_config(ask.home), setting)
    return Moved("/settings", f"{setting.name} is {json.dumps(value)[:200]}")


def _value(setting: Setting, given: str) -> Any:
    if isinstance(setting.default, list):
        return [line.strip() for line in given.split("\n") if line.strip()]
    if isinstance(setting.default, str):
        return given
    try:
        return json.loads(given)
    except (ValueError, RecursionError):
        return given


def pause(ask: Ask) -> Moved:
    """Keep quiet for some time, everywhere or in one project."""
    length = number(ask.form, "length") or 0
    known = {one["path"] for one in views.projects(ask.connection)}
    where = ask.form.get("where", "")
    if where not in known:
        where = pauses.EVERYWHERE
    others = [one for one in pauses.in_force(ask.home, ask.now) if one[1] != where]
    pauses.write(ask.home, [*others, (ask.now + length if length else 0.0, where)])
    return Moved("/settings", f"Paused {'everywhere' if where == pauses.EVERYWHERE else f'in {where}'}.")


def unpause(ask: Ask) -> Moved:
    pauses.write(ask.home, [])
    return Moved("/settings", "Speaking again.")
