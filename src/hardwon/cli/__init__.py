"""The command line. A group is imported when one of its verbs is asked for; `--help` reads this table alone."""

from __future__ import annotations

import keyword
import sys
from typing import TYPE_CHECKING

import click

from hardwon import __version__
from hardwon.cli.output import make_printable
from hardwon.errors import UserError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMMANDS = {
    "up": ("up", "start hardwon, say where things are and what to do next"),
    "demo": ("demo", "see a mistake found, accepted and held, in a throwaway home"),
    "install": ("agents", "add hardwon's hooks to an agent's settings"),
    "uninstall": ("agents", "take hardwon's hooks out again; your data stays"),
    "doctor": ("doctor", "check every part, and say how to mend what is broken"),
    "lessons": ("lessons", "write, edit, list, import and check lessons"),
    "scan": ("scan", "mine the agents' transcripts for lessons, and propose them"),
    "review": ("review", "look at what was proposed, one by one, and decide"),
    "accept": ("review", "put a proposed lesson in force"),
    "reject": ("review", "say no to a proposed lesson; it stays rejected"),
    "approvals": ("approvals", "what was put in force, by whom and when; undo it"),
    "brief": ("brief", "what a session opens with here, and why"),
    "view": ("view", "look at everything in the browser, and decide there"),
    "search": ("search", "what is known about some words, a file or an id"),
    "timeline": ("search", "what was asked and observed around something"),
    "show": ("search", "a record by its id, whole"),
    "memory": ("memory", "what agents should know: propose, approve, retire"),
    "handoff": ("handoff", "what sessions leave for the next: read, ratify, write"),
    "reflect": ("reflect", "draft the handoff of a session: what it came to, what is open"),
    "resume": ("handoff", "where the last session here left off"),
    "mcp": ("mcp", "answer an agent over MCP, on stdin and stdout"),
    "sessions": ("sessions", "what was recorded: list, show and delete sessions"),
    "import": ("import_", "take in what was recorded elsewhere"),
    "jobs": ("jobs", "distilling that waits, runs or failed: list, retry, cancel"),
    "cost": ("cost", "what models were asked and what it cost, against the caps"),
    "config": ("config", "every setting: its value, its default, where it comes from"),
    "trust": ("trust", "use the lessons that a repository carries"),
    "why": ("why", "which lessons would fire on a command, and why not the others"),
    "deliveries": ("deliveries", "what was delivered to agents, newest last"),
    "pause": ("pause", "keep quiet for a while, here or everywhere"),
    "unpause": ("pause", "speak again"),
    "export": ("data", "write what is recorded and learned as lines of JSON"),
    "backup": ("data", "copy the database and what you wrote, while all runs"),
    "restore": ("data", "list the backups, or put one back"),
    "rebuild": ("rebuild", "make everything derived anew: index, observations, briefs"),
    "purge": ("purge", "delete a text, session, project or time for good"),
    "start": ("worker", "start the worker"),
    "stop": ("worker", "stop the worker; guards hold without it"),
    "restart": ("worker", "stop the worker, then start it"),
    "status": ("worker", "whether the worker runs, and where"),
    "logs": ("worker", "the worker's log"),
    "completion": ("completion", "what your shell needs to complete hardwon's commands"),
}


class CommandGroup(click.Group):
    """Knows its commands by name and imports the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = __import__(f"hardwon.cli.{COMMANDS[name][0]}", fromlist=[name])
        command: click.Command = getattr(module, f"{name}_" if keyword.iskeyword(name) else name)
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; one that was interrupted ends with 130, as shells expect, and not with click's 1."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise _report_interrupt() from None
        except click.Abort as abort:  # click makes one of an interrupt while it asks
            if isinstance(abort.__context__, KeyboardInterrupt):
                raise _report_interrupt() from None
            raise

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
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


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80})
@click.version_option(__version__, prog_name="hardwon")
def hardwon() -> None:
    """Keeps what coding agents learned the hard way."""


def main() -> None:
    """The program's entry, and the one place where an error is said."""
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
        raise _report_error("what was given is nested too deeply to be read", "write it with fewer brackets") from None
    except Exception as error:
        if type(error).__module__ == "sqlite3":  # by name, since `--help` must not load the store
            raise _report_error(f"the database: {error}", "try again in a moment, then: hardwon doctor") from None
        raise


def _report_interrupt() -> SystemExit:
    click.echo("interrupted", err=True)
    return SystemExit(130)


def _report_error(message: str, fix: str) -> SystemExit:
    click.echo(make_printable(f"error: {message}" + (f"\n  fix: {fix}" if fix else "")), err=True)
    return SystemExit(1)
