"""A group of commands whose modules load when they are called, and that suggests a name for a misspelt one."""

from __future__ import annotations

import keyword
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import click

from hardwon.errors import UserError
from hardwon.text.characters import make_printable

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    CommandTable = Mapping[str, tuple[str, str]]  # module and line in `--help`, by the command's name


class CommandGroup(click.Group):
    """The commands by name; the module of one is imported when it is called."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.lazy_commands: CommandTable = {}
        self.hidden_commands: CommandTable = {}  # short names, which work but are not listed
        self.sections: Mapping[str, CommandTable] = {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.lazy_commands) or super().list_commands(ctx)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name in self.commands:
            return self.commands[name]
        row = self.lazy_commands.get(name) or self.hidden_commands.get(name)
        if row is None:
            return None
        module = __import__(f"hardwon.cli.{row[0]}", fromlist=[name])
        # `import` is a keyword, so the function of that command is called import_.
        command: click.Command = getattr(module, f"{name}_" if keyword.iskeyword(name) else name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; for a name that does not exist, suggest the nearest."""
        if args[0].startswith("-") or self.get_command(ctx, args[0]):
            return super().resolve_command(ctx, args)
        from difflib import get_close_matches

        names = {*self.list_commands(ctx), *self.hidden_commands}
        matches = get_close_matches(args[0], sorted(names), n=1)
        fix = " ".join([ctx.command_path, *matches, *(args[1:] if matches else ["--help"])])
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
        # click would import every command to read its help.
        if incomplete.startswith("-") or not self.lazy_commands:
            return super().shell_complete(ctx, incomplete)
        from click.shell_completion import CompletionItem

        return [
            CompletionItem(name, help=help_text)
            for name, (_, help_text) in self.lazy_commands.items()
            if name.startswith(incomplete)
        ]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if not self.lazy_commands:
            super().format_commands(ctx, formatter)
            return
        listed_names = set[str]()
        for heading, table in (self.sections or {"Commands": self.lazy_commands}).items():
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
        fix = f"{self.ctx.command_path} --help" if self.ctx else "hardwon --help"
        click.echo(make_printable(f"error: {self.message}\n  fix: {fix}"), err=True)


@contextmanager
def _report_wrong_usage() -> Iterator[None]:
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
