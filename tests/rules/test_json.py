"""Every command that reads has `--json`. ACTS lists the commands that only act."""

from __future__ import annotations

import click
import pytest

from tests.rules.test_documents import iter_command_paths, load_root_command

ACTS = frozenset(
    {
        *("up", "demo", "install", "uninstall", "accept", "reject", "undo", "view", "mcp", "pause", "unpause"),
        *("data export", "data export notes", "completion", "config set", "scan promote"),
        *(
            "worker start",
            "worker stop",
            "worker restart",
            "worker jobs retry",
            "worker jobs cancel",
            "dev record-hooks",
        ),
        *("lessons add", "lessons edit", "lessons build", "lessons retire", "lessons restore", "sessions delete"),
        *("memory add", "memory edit", "memory approve", "memory reject", "memory retire"),
        *("handoff write", "handoff amend", "handoff ratify", "handoff discard"),
        *(
            "team serve",
            "team join",
            "team leave",
            "team init",
            "team invite",
            "team role",
            "team revoke",
            "team policy",
        ),
        *("team share", "team review", "team mute", "team unmute", "team retire", "team erase", "team rollback"),
        *("team sync", "team propose", "team pull", "team token"),
    }
)


def get_command(path: tuple[str, ...]) -> click.Command:
    command: click.Command = load_root_command()
    for name in path[1:]:
        assert isinstance(command, click.Group)
        subcommand = command.get_command(click.Context(command), name)
        assert subcommand is not None
        command = subcommand
    return command


def list_runnable_commands() -> list[tuple[str, ...]]:
    """List every command that runs without a subcommand."""
    paths_and_commands = [(path, get_command(path)) for path in iter_command_paths(load_root_command())]
    return [
        path
        for path, command in paths_and_commands
        if not isinstance(command, click.Group) or command.invoke_without_command
    ]


@pytest.mark.parametrize("path", list_runnable_commands(), ids=" ".join)
def test_a_command_that_reads_can_print_json(path: tuple[str, ...]) -> None:
    name = " ".join(path[1:])
    options = {option for param in get_command(path).params for option in param.opts}
    assert "--json" in options or name in ACTS, (
        f"rule: `hardwon {name}` reads, so it has --json\nto fix: add the option, or name it in ACTS if it only acts"
    )


def test_every_excused_command_exists() -> None:
    assert {" ".join(path[1:]) for path in list_runnable_commands()} >= ACTS, (
        "rule: ACTS names commands\nto fix: take the others out"
    )
