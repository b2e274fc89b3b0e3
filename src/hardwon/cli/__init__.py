"""The command line. A command's module is imported when it is called, so that `--help` stays fast."""

from __future__ import annotations

import importlib
import keyword
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import click

from hardwon import __version__
from hardwon.errors import UserError
from hardwon.text.characters import make_printable

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    CommandTable = Mapping[str, tuple[str, str]]  # module and line in `--help`, by the command's name

# The module of each command, and its line in `--help`, under the heading it stands below.
_DATA_COMMANDS = {
    "export": ("data", "write what is recorded and learned as lines of JSON"),
    "import": ("data", "import transcripts, an export, claude-mem or notes"),
    "backup": ("data", "copy the database and your files"),
    "restore": ("data", "list the backups, or restore one"),
    "purge": ("purge", "delete a text, session, project or period for good"),
    "rebuild": ("purge", "rebuild what is derived: index, observations, briefs"),
}
_WORKER_COMMANDS = {
    "start": ("worker", "start the worker"),
    "stop": ("worker", "stop the worker; guards hold without it"),
    "restart": ("worker", "stop the worker, then start it"),
    "logs": ("worker", "show the worker's log"),
    "jobs": ("worker", "list, retry or cancel distilling jobs"),
    "cost": ("worker", "show what models cost, against the caps"),
}
_SECTIONS = {
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
        "accept": ("review", "say yes to a proposal: L3 a lesson, M3 a memory, H3 a handoff"),
        "reject": ("review", "say no to a proposal; it stays rejected"),
        "undo": ("review", "take back the last decision, or a named one"),
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
        "data": ("", ", ".join(_DATA_COMMANDS)),
        "worker": ("", ", ".join(_WORKER_COMMANDS)),
        "config": ("config", "show and change settings"),
        "pause": ("config", "pause hardwon, here or everywhere"),
        "unpause": ("config", "lift the pause"),
    },
}
# Needed now and then: `--help` names them in one paragraph.
_FURTHER_COMMANDS = {
    "show": ("search", "show a record in full, by its id"),
    "timeline": ("search", "show what was asked and observed around something"),
    "why": ("lessons", "explain which lessons would fire on a command"),
    "deliveries": ("lessons", "list what was delivered to agents, newest last"),
    "blame": ("proof", "show what an agent had been told before a call, and who approved it"),
    "approvals": ("approvals", "list what was put in force, how and when"),
    "trust": ("approvals", "use the lessons that a repository carries"),
    "reflect": ("handoff", "draft the handoff of a session"),
    "resume": ("handoff", "show where the last session here left off"),
    "mcp": ("run_by_agents", "serve MCP to an agent, on stdin and stdout"),
    "completion": ("config", "print shell completion for bash, zsh or fish"),
    "dev": ("run_by_agents", "record an agent's hooks, to add it to hardwon"),
}
_COMMANDS = {
    **{name: row for section in _SECTIONS.values() for name, row in section.items()},
    **_FURTHER_COMMANDS,
}
# `hardwon start` is short for `hardwon worker start`, and `hardwon purge` for `hardwon data purge`.
_SHORT_FORMS = {**_DATA_COMMANDS, **_WORKER_COMMANDS}


class CommandGroup(click.Group):
    """Commands whose modules load when they are called; a misspelt name gets a suggestion."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.lazy_commands: CommandTable = {}
        self.hidden_commands: CommandTable = {}  # short names, which work but are not listed
        self.sections: Mapping[str, CommandTable] = {}
        self.commands_by_suffix: Mapping[str, str] = {}  # the command for a file that stands in the place of one

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.lazy_commands) or super().list_commands(ctx)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Return a command, importing its module only now; None if there is no command of this name."""
        if name in self.commands:
            return self.commands[name]
        row = self.lazy_commands.get(name) or self.hidden_commands.get(name)
        if row is None:
            return None
        module_name, _ = row
        module = importlib.import_module(f"hardwon.cli.{module_name}")
        # `import` is a keyword, so the function of that command is called import_.
        command: click.Command = getattr(module, f"{name}_" if keyword.iskeyword(name) else name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; for a name that does not exist, suggest the nearest."""
        if args[0].startswith("-") or self.get_command(ctx, args[0]):
            return super().resolve_command(ctx, args)
        import os
        import shlex
        from difflib import get_close_matches

        if command := self.commands_by_suffix.get(os.path.splitext(args[0])[1]):
            raise UserError(f"name what {args[0]!r} is", f"{ctx.command_path} {command} {shlex.join(args)}")
        names = {*self.list_commands(ctx), *self.hidden_commands}
        matches = get_close_matches(args[0], sorted(names), n=1)
        fix = f"{ctx.command_path} --help"
        if matches:
            fix = " ".join([ctx.command_path, matches[0], *args[1:]])
        raise UserError(f"there is no command {args[0]!r}", fix)

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        with _report_wrong_usage():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; an interrupt exits with 130, as shells expect, and not with click's 1."""
        try:
            with _report_wrong_usage():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            raise _report_interrupt() from None
        except click.Abort as abort:  # click turns an interrupted prompt into an abort
            if isinstance(abort.__context__, KeyboardInterrupt):
                raise _report_interrupt() from None
            raise

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands that begin with what was typed, or the options."""
        # click would import every command to read its help.
        if incomplete.startswith("-") or not self.lazy_commands:
            return super().shell_complete(ctx, incomplete)
        from click.shell_completion import CompletionItem

        items = []
        for name, (_, help_text) in self.lazy_commands.items():
            if name.startswith(incomplete):
                items.append(CompletionItem(name, help=help_text))
        return items

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands into the help, below their headings; those that are seldom needed in one paragraph."""
        if not self.lazy_commands:
            rows = []
            for name, command in sorted(self.commands.items()):
                if not command.hidden:
                    # click would cut these lines at the terminal's edge.
                    rows.append((name, command.get_short_help_str(limit=200)))
            if rows:
                with formatter.section("Commands"):
                    formatter.write_dl(rows)
            return
        listed_names = set[str]()
        sections = self.sections or {"Commands": self.lazy_commands}
        for heading, table in sections.items():
            with formatter.section(heading):
                formatter.write_dl([(name, help_text) for name, (_, help_text) in table.items()])
            listed_names.update(table)
        further_names = [name for name in self.lazy_commands if name not in listed_names]
        if further_names:
            with formatter.section("More"):
                formatter.write_text(f"{', '.join(further_names)} (hardwon COMMAND --help)")


class WrongUsage(click.UsageError):
    """A wrong option or argument, reported as every other error is; click would print the usage lines as well."""

    def show(self, file: IO[Any] | None = None) -> None:
        _print_error(self.message, f"{self.ctx.command_path} --help" if self.ctx else "hardwon --help")


@contextmanager
def _report_wrong_usage() -> Iterator[None]:
    """Raise click's errors about arguments as ours, in lower case; a request for help stays as it is."""
    try:
        yield
    except (WrongUsage, click.exceptions.NoArgsIsHelpError):
        raise
    except click.UsageError as error:
        message = " ".join(error.format_message().split()).rstrip(".")  # click lists choices in lines
        raise WrongUsage(message[:1].lower() + message[1:], error.ctx) from None


def _report_interrupt() -> SystemExit:
    click.echo("interrupted", err=True)
    return SystemExit(130)


def _print_error(message: str, fix: str) -> None:
    click.echo(make_printable(f"error: {message}" + (f"\n  fix: {fix}" if fix else "")), err=True)


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80})
@click.version_option(__version__, prog_name="hardwon")
def hardwon() -> None:
    """Keep what coding agents learned the hard way."""


hardwon.lazy_commands = _COMMANDS
hardwon.hidden_commands = _SHORT_FORMS
hardwon.sections = _SECTIONS
for _name, _commands, _help in (
    ("data", _DATA_COMMANDS, "Export, import, back up, restore, delete and rebuild data."),
    ("worker", _WORKER_COMMANDS, "Start, stop and look after the background process."),
):
    _group = CommandGroup(_name, help=_help)
    _group.lazy_commands = _commands
    hardwon.add_command(_group)


def main() -> None:
    """Run the program and report errors, in this one place."""
    # The hook and the worker need Unix sockets and file locks.
    if sys.platform == "win32":
        raise SystemExit("error: hardwon does not run on native Windows yet\n  fix: run it inside WSL2")
    try:
        hardwon(prog_name="hardwon")
    except UserError as error:
        _print_error(error.message, error.fix)
    except OSError as error:
        prefix = f"{error.filename}: " if error.filename else ""
        _print_error(f"{prefix}{error.strerror or error}", "hardwon doctor")
    except RecursionError:
        _print_error("the input is nested too deeply", "use fewer brackets")
    except Exception as error:
        if type(error).__module__ == "sqlite3":  # compared by name, since `--help` must not load the store
            _print_error(f"the database: {error}", "try again in a moment, then: hardwon doctor")
            raise SystemExit(1) from None
        raise
    raise SystemExit(1)
