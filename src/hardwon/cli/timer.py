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
_WITHOUT = "nothing need be done: while the worker runs, its own clock does it"
_SECONDS = 30


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
            os.path.join(folder, f"{name}.service"): _unit(home),
            os.path.join(folder, f"{name}.timer"): _timer(),
        }
    if kind == "launchd":
        folder = os.path.expanduser("~/Library/LaunchAgents")
        return {os.path.join(folder, f"{name}.plist"): _agent(home)}
    return {}


def _unit(home: str) -> str:
    words = " ".join(_unit_word(word).replace("$", "$$") for word in build_command())  # in a command $ is systemd's own
    return (
        "[Unit]\nDescription=hardwon reflects on sessions that were left\n\n[Service]\nType=oneshot\nNice=10\n"
        f"Environment={_unit_word(f'HARDWON_HOME={home}')}\nExecStart={words}\n"
    )


def _unit_word(word: str) -> str:
    """A word as systemd reads it, to which % is its own."""
    quoted = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{quoted}"'


def _timer() -> str:
    return (
        f"[Unit]\nDescription=every {INTERVAL_MINUTES} minutes, for "
        f"hardwon\n\n[Timer]\nOnActiveSec={INTERVAL_MINUTES}min\n"
        f"OnUnitActiveSec={INTERVAL_MINUTES}min\n\n[Install]\nWantedBy=timers.target\n"
    )


def _agent(home: str) -> str:
    said = {
        "Label": build_timer_name(home),
        "ProgramArguments": build_command(),
        "EnvironmentVariables": {"HARDWON_HOME": home},
        "StartInterval": INTERVAL_MINUTES * 60,
        "ProcessType": "Background",
    }
    return plistlib.dumps(said).decode()


def build_cron_line(home: str) -> str:
    """The line of a cron table; a % would end the command there."""
    command = f"HARDWON_HOME={shlex.quote(home)} {shlex.join(build_command())} >/dev/null 2>&1"
    return f"*/{INTERVAL_MINUTES} * * * * {command.replace('%', chr(92) + '%')} # {build_timer_name(home)}"


def install(home: str, kind: str | None, *, only_print: bool, confirm: Callable[[str], bool]) -> None:
    """Show what is written, ask, and write it; the same again changes nothing, another clockwork takes its place."""
    chosen = kind or find_scheduler()
    wanted = build_files(chosen, home)
    table = _table() if chosen == "cron" else ""
    after = _with_line(table, home) if chosen == "cron" else ""
    others = [other for other in find_installed_schedulers(home) if other != chosen]
    if not others and table == after and all(_read(path) == text for path, text in wanted.items()):
        click.echo(f"already installed: {', '.join(wanted) or build_cron_line(home)}")
        return
    for path, text in wanted.items() or [("your cron table", build_cron_line(home))]:
        click.echo(f"{path}\n" + "\n".join(f"+ {line}" for line in text.splitlines()))
    if only_print:
        return
    require_person("installing a timer")
    if not confirm("hardwon install timer --yes"):
        return
    for other in others:
        _take_out(other, home)
    for path, text in wanted.items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        paths.replace_file(path, text.encode(), 0o644)
    try:
        _start(chosen, home, after)
    except UserError as refused:
        if wanted:
            _take_out(chosen, home)
        raise UserError(f"nothing is installed: {refused.say}", _WITHOUT) from None
    click.echo(f"installed: every {INTERVAL_MINUTES} minutes by {chosen}; hardwon uninstall timer takes it out")


def uninstall(home: str, *, quietly: bool = False) -> None:
    """Take out what `install` put in, whichever clockwork has it."""
    found = find_installed_schedulers(home)
    for kind in found:
        _take_out(kind, home)
    if found or not quietly:
        click.echo(f"uninstalled the timer from {', '.join(found)}" if found else "no timer of ours is installed")


def find_scheduler() -> str:
    """What keeps time here; UserError if nothing does."""
    if sys.platform == "darwin":
        return "launchd"
    if shutil.which("systemctl") and _run(["systemctl", "--user", "show-environment"]).returncode == 0:
        return "systemd"
    if shutil.which("crontab"):
        return "cron"
    raise UserError("there is neither a user's systemd nor cron here", _WITHOUT)


def find_installed_schedulers(home: str) -> list[str]:
    """The clockworks that have something of this home's."""
    found = [kind for kind in ("systemd", "launchd") if any(map(os.path.lexists, build_files(kind, home)))]
    with suppress(UserError):  # a cron that does not answer has nothing that we could take out
        found += ["cron"] if shutil.which("crontab") and build_timer_name(home) in _table() else []
    return found


def _start(kind: str, home: str, table: str) -> None:
    if kind == "systemd":
        _must(["systemctl", "--user", "daemon-reload"])
        _must(["systemctl", "--user", "enable", "--now", f"{build_timer_name(home)}.timer"])
    elif kind == "launchd":
        (path,) = build_files(kind, home)
        _run(["launchctl", "unload", path])  # one that was loaded before is another
        _must(["launchctl", "load", "-w", path])
    else:
        _must(["crontab", "-"], table)


def _take_out(kind: str, home: str) -> None:
    """Stop it and delete its files; a clockwork that does not answer must not keep them."""
    if kind == "cron":
        _must(
            ["crontab", "-"], "".join(line for line in _table().splitlines(True) if build_timer_name(home) not in line)
        )
        return
    files = build_files(kind, home)
    if kind == "systemd":
        _run(["systemctl", "--user", "disable", "--now", f"{build_timer_name(home)}.timer"])
    else:
        _run(["launchctl", "unload", "-w", *files])
    for path in files:
        with suppress(FileNotFoundError):
            os.unlink(path)
    if kind == "systemd":
        _run(["systemctl", "--user", "daemon-reload"])


def _with_line(table: str, home: str) -> str:
    kept = [line for line in table.splitlines() if build_timer_name(home) not in line]
    own = build_cron_line(home)
    return table if own in table.splitlines() else "\n".join([*kept, own, ""])


def _table() -> str:
    """The person's cron table; empty if they have none."""
    ran = _run(["crontab", "-l"])
    if ran.returncode and "no crontab" not in ran.stderr.lower():
        raise UserError(f"crontab -l: {' '.join(ran.stderr.split())[:200]}", _WITHOUT)
    return ran.stdout if ran.returncode == 0 else ""


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace", opener=paths.open_plain_file) as file:
            return file.read()
    except OSError:
        return ""


def _must(words: Sequence[str], given: str = "") -> None:
    ran = _run(words, given)
    if ran.returncode:
        raise UserError(f"{shlex.join(words)}: {' '.join(ran.stderr.split())[:200]}", "hardwon uninstall timer")


def _run(words: Sequence[str], given: str = "") -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            words, input=given, capture_output=True, text=True, encoding="utf-8", errors="replace", timeout=_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as wrong:
        return subprocess.CompletedProcess(words, 1, "", str(wrong))
