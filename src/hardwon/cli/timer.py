"""install timer, uninstall timer: sessions that were left are reflected on even while the worker is away.

Whatever keeps time on this machine runs `hardwon reflect --idle` every ten minutes. What is ours is told by its name,
which holds a print of the home, so that two homes do not get into each other's way.
"""

from __future__ import annotations

import os
import plistlib
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha256

import click

from hardwon import paths
from hardwon.cli.person_only import require_person
from hardwon.errors import UserError

INTERVAL_MINUTES = 10
_NO_TIMER_HINT = "nothing need be done: while the worker runs, its own clock does it"
_TIMEOUT_SECONDS = 30


def build_timer_name(home: str) -> str:
    return f"hardwon-reflect-{sha256(os.path.realpath(home).encode('utf-8', 'replace')).hexdigest()[:8]}"


def build_command() -> list[str]:
    return [sys.executable, "-I", "-m", "hardwon", "reflect", "--idle"]


def build_files(kind: str, home: str) -> dict[str, str]:
    """The files that this clockwork wants, by their paths; none for cron, which has a table."""
    name = build_timer_name(home)
    if kind == "systemd":
        folder = os.path.join(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"), "systemd", "user")
        return {
            os.path.join(folder, f"{name}.service"): _build_service_unit(home),
            os.path.join(folder, f"{name}.timer"): _build_timer_unit(),
        }
    if kind == "launchd":
        folder = os.path.expanduser("~/Library/LaunchAgents")
        return {os.path.join(folder, f"{name}.plist"): _build_launch_agent(home)}
    return {}


def _build_service_unit(home: str) -> str:
    command = " ".join(
        _quote_unit_word(word).replace("$", "$$") for word in build_command()
    )  # in a command $ is systemd's own
    return (
        "[Unit]\nDescription=hardwon reflects on sessions that were left\n\n[Service]\nType=oneshot\nNice=10\n"
        f"Environment={_quote_unit_word(f'HARDWON_HOME={home}')}\nExecStart={command}\n"
    )


def _quote_unit_word(word: str) -> str:
    """A word as systemd reads it, to which % is its own."""
    quoted = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{quoted}"'


def _build_timer_unit() -> str:
    return (
        f"[Unit]\nDescription=every {INTERVAL_MINUTES} minutes, for "
        f"hardwon\n\n[Timer]\nOnActiveSec={INTERVAL_MINUTES}min\n"
        f"OnUnitActiveSec={INTERVAL_MINUTES}min\n\n[Install]\nWantedBy=timers.target\n"
    )


def _build_launch_agent(home: str) -> str:
    properties = {
        "Label": build_timer_name(home),
        "ProgramArguments": build_command(),
        "EnvironmentVariables": {"HARDWON_HOME": home},
        "StartInterval": INTERVAL_MINUTES * 60,
        "ProcessType": "Background",
    }
    return plistlib.dumps(properties).decode()


def build_cron_line(home: str) -> str:
    """The line of a cron table; a % would end the command there."""
    command = f"HARDWON_HOME={shlex.quote(home)} {shlex.join(build_command())} >/dev/null 2>&1"
    return f"*/{INTERVAL_MINUTES} * * * * {command.replace('%', chr(92) + '%')} # {build_timer_name(home)}"


def install(home: str, kind: str | None, *, only_print: bool, confirm: Callable[[str], bool]) -> None:
    """Show what is written, ask, and write it; the same again changes nothing, another clockwork takes its place."""
    scheduler = kind or find_scheduler()
    files = build_files(scheduler, home)
    table = _read_cron_table() if scheduler == "cron" else ""
    new_table = _add_cron_line(table, home) if scheduler == "cron" else ""
    others = [other for other in find_installed_schedulers(home) if other != scheduler]
    if not others and table == new_table and all(_read_file(path) == text for path, text in files.items()):
        click.echo(f"already installed: {', '.join(files) or build_cron_line(home)}")
        return
    for path, text in files.items() or [("your cron table", build_cron_line(home))]:
        click.echo(f"{path}\n" + "\n".join(f"+ {line}" for line in text.splitlines()))
    if only_print:
        return
    require_person("installing a timer")
    if not confirm("hardwon install timer --yes"):
        return
    for other in others:
        _remove_timer(other, home)
    for path, text in files.items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        paths.replace_file(path, text.encode(), 0o644)
    try:
        _start_timer(scheduler, home, new_table)
    except UserError as error:
        if files:
            _remove_timer(scheduler, home)
        raise UserError(f"nothing is installed: {error.say}", _NO_TIMER_HINT) from None
    click.echo(f"installed: every {INTERVAL_MINUTES} minutes by {scheduler}; hardwon uninstall timer takes it out")


def uninstall(home: str, *, quietly: bool = False) -> None:
    """Take out what `install` put in, whichever clockwork has it."""
    schedulers = find_installed_schedulers(home)
    for kind in schedulers:
        _remove_timer(kind, home)
    if schedulers or not quietly:
        click.echo(
            f"uninstalled the timer from {', '.join(schedulers)}" if schedulers else "no timer of ours is installed"
        )


def find_scheduler() -> str:
    """What keeps time here; UserError if nothing does."""
    if sys.platform == "darwin":
        return "launchd"
    if shutil.which("systemctl") and _run_command(["systemctl", "--user", "show-environment"]).returncode == 0:
        return "systemd"
    if shutil.which("crontab"):
        return "cron"
    raise UserError("there is neither a user's systemd nor cron here", _NO_TIMER_HINT)


def find_installed_schedulers(home: str) -> list[str]:
    """The clockworks that have something of this home's."""
    schedulers = [kind for kind in ("systemd", "launchd") if any(map(os.path.lexists, build_files(kind, home)))]
    with suppress(UserError):  # a cron that does not answer has nothing that we could take out
        schedulers += ["cron"] if shutil.which("crontab") and build_timer_name(home) in _read_cron_table() else []
    return schedulers


def _start_timer(kind: str, home: str, table: str) -> None:
    if kind == "systemd":
        _run_or_fail(["systemctl", "--user", "daemon-reload"])
        _run_or_fail(["systemctl", "--user", "enable", "--now", f"{build_timer_name(home)}.timer"])
    elif kind == "launchd":
        (path,) = build_files(kind, home)
        _run_command(["launchctl", "unload", path])  # one that was loaded before is another
        _run_or_fail(["launchctl", "load", "-w", path])
    else:
        _run_or_fail(["crontab", "-"], table)


def _remove_timer(kind: str, home: str) -> None:
    """Stop it and delete its files; a clockwork that does not answer must not keep them."""
    if kind == "cron":
        _run_or_fail(
            ["crontab", "-"],
            "".join(line for line in _read_cron_table().splitlines(True) if build_timer_name(home) not in line),
        )
        return
    files = build_files(kind, home)
    if kind == "systemd":
        _run_command(["systemctl", "--user", "disable", "--now", f"{build_timer_name(home)}.timer"])
    else:
        _run_command(["launchctl", "unload", "-w", *files])
    for path in files:
        with suppress(FileNotFoundError):
            os.unlink(path)
    if kind == "systemd":
        _run_command(["systemctl", "--user", "daemon-reload"])


def _add_cron_line(table: str, home: str) -> str:
    other_lines = [line for line in table.splitlines() if build_timer_name(home) not in line]
    cron_line = build_cron_line(home)
    return table if cron_line in table.splitlines() else "\n".join([*other_lines, cron_line, ""])


def _read_cron_table() -> str:
    """The person's cron table; empty if they have none."""
    result = _run_command(["crontab", "-l"])
    if result.returncode and "no crontab" not in result.stderr.lower():
        raise UserError(f"crontab -l: {' '.join(result.stderr.split())[:200]}", _NO_TIMER_HINT)
    return result.stdout if result.returncode == 0 else ""


def _read_file(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace", opener=paths.open_plain_file) as file:
            return file.read()
    except OSError:
        return ""


def _run_or_fail(command: Sequence[str], stdin_text: str = "") -> None:
    result = _run_command(command, stdin_text)
    if result.returncode:
        raise UserError(f"{shlex.join(command)}: {' '.join(result.stderr.split())[:200]}", "hardwon uninstall timer")


def _run_command(command: Sequence[str], stdin_text: str = "") -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            input=stdin_text,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=_TIMEOUT_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(command, 1, "", str(error))
