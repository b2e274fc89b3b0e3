"""completion"""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_LINES = {
    "bash": 'eval "$(hardwon completion bash)"     in ~/.bashrc',
    "zsh": 'eval "$(hardwon completion zsh)"      in ~/.zshrc, after compinit',
    "fish": "hardwon completion fish | source      in ~/.config/fish/config.fish",
}


@click.command(epilog="\b\n" + "\n".join(_LINES.values()))
@click.argument("shell", type=click.Choice(list(_LINES)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """What your shell needs to complete hardwon's commands and options.

    Put the line below where your shell reads it.
    """
    kind = get_completion_class(shell)
    assert kind is not None, "click knows the three"
    click.echo(kind(ctx.find_root().command, {}, "hardwon", "_HARDWON_COMPLETE").source())
