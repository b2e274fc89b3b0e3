"""The command line. A command's module is imported when it is called, so that `--help` stays fast."""

from __future__ import annotations

import sys

import click

from hardwon import __version__
from hardwon.cli.command_group import CommandGroup
from hardwon.errors import UserError
from hardwon.text.characters import make_printable

# The module of each command, and its line in `--help`, under the heading it stands below.
DATA_COMMANDS = {
    "export": ("data", "write what is recorded and learned as lines of JSON"),
    "import": ("import_", "import transcripts, an export, claude-mem or notes"),
    "backup": ("data", "copy the database and your files"),
    "restore": ("data", "list the backups, or restore one"),
    "purge": ("purge", "delete a text, session, project or period for good"),
    "rebuild": ("purge", "rebuild what is derived: index, observations, briefs"),
}
WORKER_COMMANDS = {
    "start": ("worker", "start the worker"),
    "stop": ("worker", "stop the worker; guards hold without it"),
    "restart": ("worker", "stop the worker, then start it"),
    "logs": ("worker", "show the worker's log"),
    "jobs": ("jobs", "list, retry or cancel distilling jobs"),
    "cost": ("jobs", "show what models cost, against the caps"),
}
SECTIONS = {
    "Get started": {
        "up": ("up", "set up hardwon; show mistakes that repeat, and stop them"),
        "demo": ("demo", "see a mistake found, accepted and held, in a throwaway home"),
        "install": ("agents", "add hardwon's hooks to an agent's settings"),
        "uninstall": ("agents", "remove hardwon's hooks; your data stays"),
        "doctor": ("doctor", "check every part, and say how to fix what is broken"),
    },
    "Decide": {
        "scan": ("scan", "find mistakes in the agents' transcripts, and propose lessons"),
        "review": ("review", "look at proposed lessons one by one, and decide"),
        "accept": ("decisions", "say yes to a proposal: L3 a lesson, M3 a memory, H3 a handoff"),
        "reject": ("decisions", "say no to a proposal; it stays rejected"),
        "undo": ("decisions", "take back the last decision, or a named one"),
        "lessons": ("lessons", "write, edit, list, import and check lessons"),
        "memory": ("memory", "what agents should know: list, write, edit, retire"),
        "handoff": ("handoff", "what sessions leave for the next: list, read, write"),
    },
    "Look": {
        "status": ("worker", "show whether the worker runs, and what is stored"),
        "view": ("worker", "open the viewer in the browser"),
        "search": ("search", "search the history for words, a file or an id"),
        "sessions": ("sessions", "list, show and delete recorded sessions"),
        "brief": ("search", "show what a session opens with here, and why"),
        "proof": ("proof", "show whether lessons prevent the repeat; measure one"),
    },
    "Run": {
        "team": ("team", "share lessons with a team, or with your other machines"),
        "data": ("", ", ".join(DATA_COMMANDS)),
        "worker": ("", ", ".join(WORKER_COMMANDS)),
        "config": ("config", "show and change settings"),
        "pause": ("config", "pause hardwon, here or everywhere"),
        "unpause": ("config", "lift the pause"),
    },
}
# Needed now and then: `--help` names them in one paragraph.
FURTHER_COMMANDS = {
    "show": ("search", "show a record in full, by its id"),
    "timeline": ("search", "show what was asked and observed around something"),
    "why": ("lessons", "explain which lessons would fire on a command"),
    "deliveries": ("lessons", "list what was delivered to agents, newest last"),
    "blame": ("blame", "show what an agent had been told before a call, and who approved it"),
    "approvals": ("approvals", "list what was put in force, how and when"),
    "trust": ("approvals", "use the lessons that a repository carries"),
    "reflect": ("reflect", "draft the handoff of a session"),
    "resume": ("handoff", "show where the last session here left off"),
    "mcp": ("mcp_command", "serve MCP to an agent, on stdin and stdout"),
    "completion": ("config", "print shell completion for bash, zsh or fish"),
    "dev": ("dev", "record an agent's hooks, to add it to hardwon"),
}
COMMANDS = {
    **{name: row for section in SECTIONS.values() for name, row in section.items()},
    **FURTHER_COMMANDS,
}
# `hardwon start` is short for `hardwon worker start`, and `hardwon purge` for `hardwon data purge`.
SHORT_FORMS = {**DATA_COMMANDS, **WORKER_COMMANDS}


def build_group(name: str, commands: dict[str, tuple[str, str]], help_text: str) -> CommandGroup:
    group = CommandGroup(name, help=help_text)
    group.lazy_commands = commands
    return group


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80})
@click.version_option(__version__, prog_name="hardwon")
def hardwon() -> None:
    """Keep what coding agents learned the hard way."""


hardwon.lazy_commands = COMMANDS
hardwon.hidden_commands = SHORT_FORMS
hardwon.sections = SECTIONS
hardwon.add_command(build_group("data", DATA_COMMANDS, "Export, import, back up, restore, delete and rebuild data."))
hardwon.add_command(build_group("worker", WORKER_COMMANDS, "Start, stop and look after the background process."))


def main() -> None:
    """Run the program and report errors, in this one place."""
    # The hook and the worker need Unix sockets and file locks.
    if sys.platform == "win32":
        raise SystemExit("error: hardwon does not run on native Windows yet\n  fix: run it inside WSL2")
    try:
        hardwon(prog_name="hardwon")
    except UserError as error:
        raise _report_error(error.say, error.fix) from None
    except OSError as error:
        prefix = f"{error.filename}: " if error.filename else ""
        raise _report_error(f"{prefix}{error.strerror or error}", "hardwon doctor") from None
    except RecursionError:
        raise _report_error("the input is nested too deeply", "use fewer brackets") from None
    except Exception as error:
        if type(error).__module__ == "sqlite3":  # compared by name, since `--help` must not load the store
            raise _report_error(f"the database: {error}", "try again in a moment, then: hardwon doctor") from None
        raise


def _report_error(message: str, fix: str) -> SystemExit:
    click.echo(make_printable(f"error: {message}" + (f"\n  fix: {fix}" if fix else "")), err=True)
    return SystemExit(1)
