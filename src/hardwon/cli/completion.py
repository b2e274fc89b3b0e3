"""completion"""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_SETUP_LINES = {
    "bash": 'eval "$(hardwon completion bash)"     in ~/.bashrc',
    "zsh": 'eval "$(hardwon completion zsh)"      in ~/.zshrc, after compinit',
    "fish": "hardwon completion fish | source      in ~/.config/fish/config.fish",
}


@click.command(epilog="\b\n" + "\n".join(_SETUP_LINES.values()))
@click.argument("shell", type=click.Choice(list(_SETUP_LINES)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """What your shell needs to complete hardwon's commands and options.

    Put the line below where your shell reads it.
    """
    completion_class = get_completion_class(shell)
    assert completion_class is not None, "click knows the three"
    click.echo(completion_class(ctx.find_root().command, {}, "hardwon", "_HARDWON_COMPLETE").source())
