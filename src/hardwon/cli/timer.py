"""install timer: print a job that drafts the handoffs of idle sessions where the worker does not run."""

from __future__ import annotations

import plistlib
import shlex
import sys

import click

INTERVAL_MINUTES = 10
NAME = "hardwon-reflect"
SCHEDULERS = ("systemd", "launchd", "cron")


def print_timer(home: str, scheduler: str) -> None:
    """Print the files and the commands that set up the timer, and the command that removes it."""
    command = [sys.executable, "-I", "-m", "hardwon", "reflect", "--idle"]
    if scheduler == "cron":
        click.echo(f"# add this line with: crontab -e\n{build_cron_line(home, command)}")
        return
    if scheduler == "launchd":
        path = f"~/Library/LaunchAgents/{NAME}.plist"
        files = {path: build_launch_agent(home, command)}
        setup, removal = f"launchctl load -w {path}", f"launchctl unload -w {path} && rm {path}"
    else:
        folder = "~/.config/systemd/user"
        files = {
            f"{folder}/{NAME}.service": build_service_unit(home, command),
            f"{folder}/{NAME}.timer": build_timer_unit(),
        }
        setup = f"systemctl --user daemon-reload && systemctl --user enable --now {NAME}.timer"
        removal = f"systemctl --user disable --now {NAME}.timer && rm {folder}/{NAME}.*"
    for path, text in files.items():
        click.echo(f"# save as {path}\n{text}")
    click.echo(f"# then run:   {setup}\n# to remove:  {removal}")


def build_cron_line(home: str, command: list[str]) -> str:
    line = f"HARDWON_HOME={shlex.quote(home)} {shlex.join(command)} >/dev/null 2>&1"
    # An unescaped % ends the command in a cron table.
    return f"*/{INTERVAL_MINUTES} * * * * {line.replace('%', chr(92) + '%')}"


def build_launch_agent(home: str, command: list[str]) -> str:
    properties = {
        "Label": NAME,
        "ProgramArguments": command,
        "EnvironmentVariables": {"HARDWON_HOME": home},
        "StartInterval": INTERVAL_MINUTES * 60,
        "ProcessType": "Background",
    }
    return plistlib.dumps(properties).decode()


def build_service_unit(home: str, command: list[str]) -> str:
    # systemd expands % everywhere and $ in commands.
    words = " ".join(_quote_unit_word(word).replace("$", "$$") for word in command)
    return (
        "[Unit]\nDescription=Draft handoffs of idle sessions\n\n[Service]\nType=oneshot\nNice=10\n"
        f"Environment={_quote_unit_word(f'HARDWON_HOME={home}')}\nExecStart={words}\n"
    )


def _quote_unit_word(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


def build_timer_unit() -> str:
    interval = f"{INTERVAL_MINUTES}min"
    return (
        f"[Unit]\nDescription=Run hardwon every {INTERVAL_MINUTES} minutes\n\n"
        f"[Timer]\nOnActiveSec={interval}\nOnUnitActiveSec={interval}\n\n[Install]\nWantedBy=timers.target\n"
    )
