"""`zapomni completion`: the script that lets a shell complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from zapomni_cli.options import examples

__all__ = ["completion"]


@click.command(
    epilog=examples(
        'eval "$(zapomni completion bash)"',
        "zapomni completion bash > ~/.local/share/bash-completion/completions/zapomni",
        'eval "$(zapomni completion zsh)"',
        "zapomni completion fish > ~/.config/fish/completions/zapomni.fish",
    )
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that completes commands in a shell.

    Put the line of the example for your shell into its start-up file, or save the script in its
    folder of completions.
    """
    script = get_completion_class(shell)
    assert script is not None
    root = click.get_current_context().find_root().command
    source = script(root, {}, "zapomni", "_ZAPOMNI_COMPLETE").source()
    # click's script for fish cuts descriptions at their first comma.
    click.echo(
        source.replace('string split "," $completion', 'string split --max 1 "," $completion')
    )
