"""`zapomni ui`: the local web page."""

from __future__ import annotations

from importlib import import_module

import click

from zapomni_cli.options import examples
from zapomni_cli.runtime import read_settings

__all__ = ["ui"]


@click.command(
    epilog=examples(
        "zapomni ui",
        "zapomni ui --project shop --read-only",
        "zapomni ui --no-browser --port 7411",
        "ssh -L 7411:127.0.0.1:7411 box zapomni ui --no-browser --port 7411 --host 127.0.0.1",
    )
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Where to listen; default: any free."
)
@click.option("--no-browser", is_flag=True, help="Print the link, and open nothing.")
@click.option("--read-only", is_flag=True, help="Show everything, change nothing.")
@click.option("--project", default="", help="Show this project first; default: all of them.")
@click.option(
    "--host",
    type=click.Choice(["zapomni.localhost", "127.0.0.1"]),
    default="zapomni.localhost",
    show_default=True,
    help="The name in the address; 127.0.0.1 for browsers and tunnels that do not know the other.",
)
@click.option("--keep", is_flag=True, help="Do not end 30 minutes after the last tab was closed.")
def ui(**given: str | int | bool) -> None:
    """Open the local web page.

    See, search, understand and correct what is remembered.

    It is served to this machine alone until Ctrl-C, or until no tab was open for 30 minutes. The
    link works once; run the command again for another one, or for another tab.
    """
    # By name: the doors do not import each other, and this one only starts the other.
    server = import_module("zapomni_web.server")
    given["browser"] = not given.pop("no_browser")
    server.run(read_settings(), server.Options(**given))
