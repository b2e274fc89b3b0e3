"""Rule 14: `--json` on everything that reads. A command is listed here only if it acts and reads nothing back."""

from __future__ import annotations

import click
import pytest

from tests.rules.test_documents import cli, commands

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


def command_at(path: tuple[str, ...]) -> click.Command:
    found: click.Command = cli()
    for name in path[1:]:
        assert isinstance(found, click.Group)
        below = found.get_command(click.Context(found), name)
        assert below is not None
        found = below
    return found


def leaves() -> list[tuple[str, ...]]:
    """Every command that does something by itself."""
    found = [(path, command_at(path)) for path in commands(cli())]
    return [path for path, one in found if not isinstance(one, click.Group) or one.invoke_without_command]


@pytest.mark.parametrize("path", leaves(), ids=" ".join)
def test_what_reads_can_print_json(path: tuple[str, ...]) -> None:
    name = " ".join(path[1:])
    options = {option for param in command_at(path).params for option in param.opts}
    assert "--json" in options or name in ACTS, (
        f"rule: `hardwon {name}` reads, so it has --json\nto mend: add the option, or name it in ACTS if it only acts"
    )


def test_what_is_excused_is_there() -> None:
    assert {" ".join(path[1:]) for path in leaves()} >= ACTS, "rule: ACTS names commands\nto mend: take the others out"
