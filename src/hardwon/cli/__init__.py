"""The command line. A command's module is imported when it is called, so that `--help` stays fast."""

from __future__ import annotations

import keyword
import sys
from typing import TYPE_CHECKING

import click

from hardwon import __version__
from hardwon.errors import UserError
from hardwon.text.characters import make_printable

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# The module of each command, and its line in `--help`.
COMMANDS = {
    "up": ("up", "start hardwon, show where things are and what to do next"),
    "demo": ("demo", "see a mistake found, accepted and held, in a throwaway home"),
    "install": ("agents", "add hardwon's hooks to an agent's settings"),
    "uninstall": ("agents", "remove hardwon's hooks; your data stays"),
    "doctor": ("doctor", "check every part, and say how to fix what is broken"),
    "lessons": ("lessons", "write, edit, list, import and check lessons"),
    "scan": ("scan", "mine the agents' transcripts for lessons, and propose them"),
    "review": ("review", "look at proposed lessons one by one, and decide"),
    "accept": ("review", "put a proposed lesson in force"),
    "reject": ("review", "reject a proposed lesson; it stays rejected"),
    "proof": ("proof", "show whether lessons prevent the repeat; measure one"),
    "blame": ("blame", "show what an agent had been told before a call, and who approved it"),
    "approvals": ("approvals", "list what was put in force, how and when; undo it"),
    "brief": ("search", "show what a session opens with here, and why"),
    "view": ("worker", "open the viewer in the browser"),
    "search": ("search", "search the history for words, a file or an id"),
    "timeline": ("search", "show what was asked and observed around something"),
    "show": ("search", "show a record in full, by its id"),
    "memory": ("memory", "what agents should know: propose, approve, retire"),
    "handoff": ("handoff", "what sessions leave for the next: read, ratify, write"),
    "reflect": ("reflect", "draft the handoff of a session"),
    "resume": ("handoff", "show where the last session here left off"),
    "team": ("team", "share lessons with a team, or with your other machines"),
    "mcp": ("worker", "serve MCP to an agent, on stdin and stdout"),
    "sessions": ("sessions", "list, show and delete recorded sessions"),
    "import": ("import_", "import transcripts, an export, claude-mem or notes"),
    "jobs": ("jobs", "list, retry or cancel distilling jobs"),
    "cost": ("jobs", "show what models cost, against the caps"),
    "config": ("config", "show and change settings"),
    "trust": ("approvals", "use the lessons that a repository carries"),
    "why": ("lessons", "explain which lessons would fire on a command"),
    "deliveries": ("lessons", "list what was delivered to agents, newest last"),
    "pause": ("config", "pause hardwon, here or everywhere"),
    "unpause": ("config", "lift the pause"),
    "export": ("data", "write what is recorded and learned as lines of JSON"),
    "backup": ("data", "copy the database and your files"),
    "restore": ("data", "list the backups, or restore one"),
    "rebuild": ("purge", "rebuild what is derived: index, observations, briefs"),
    "purge": ("purge", "delete a text, session, project or period for good"),
    "start": ("worker", "start the worker"),
    "stop": ("worker", "stop the worker; guards hold without it"),
    "restart": ("worker", "stop the worker, then start it"),
    "status": ("worker", "show whether the worker runs, and where"),
    "logs": ("worker", "show the worker's log"),
    "completion": ("config", "print shell completion for bash, zsh or fish"),
}


class CommandGroup(click.Group):
    """The commands by name; the module of one is imported when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = __import__(f"hardwon.cli.{COMMANDS[name][0]}", fromlist=[name])
        # `import` is a keyword, so the function of that command is called import_.
        command: click.Command = getattr(module, f"{name}_" if keyword.iskeyword(name) else name)
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; an interrupt exits with 130, as shells expect, and not with click's 1."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise _report_interrupt() from None
        except click.Abort as abort:  # click turns an interrupted prompt into an abort
            if isinstance(abort.__context__, KeyboardInterrupt):
                raise _report_interrupt() from None
            raise

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        # click would import every command to read its help.
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        from click.shell_completion import CompletionItem

        return [
            CompletionItem(name, help=help_text)
            for name, (_, help_text) in COMMANDS.items()
            if name.startswith(incomplete)
        ]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_text) for name, (_, help_text) in COMMANDS.items()])


# docs/cli.md is generated from this help, so its width must not depend on the terminal.
@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80})
@click.version_option(__version__, prog_name="hardwon")
def hardwon() -> None:
    """Keep what coding agents learned the hard way."""


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


def _report_interrupt() -> SystemExit:
    click.echo("interrupted", err=True)
    return SystemExit(130)


def _report_error(message: str, fix: str) -> SystemExit:
    click.echo(make_printable(f"error: {message}" + (f"\n  fix: {fix}" if fix else "")), err=True)
    return SystemExit(1)
