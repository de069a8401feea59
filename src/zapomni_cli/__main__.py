"""Where `zapomni` and `python -m zapomni_cli` start.

A hook pays for the standard library alone, and so does `serve` where a process is shared: both
leave before click is imported.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command the arguments name, and exit."""
    if sys.argv[1:2] == ["record"] and not {"-h", "--help"} & set(sys.argv):
        from zapomni_cli.record import main as record

        sys.exit(record(sys.argv[2:], in_time=True))
    if sys.argv[1:2] == ["serve"]:
        from zapomni_cli.proxy import main as forward

        code = forward(sys.argv[2:])
        if code is not None:
            sys.exit(code)
    # Modules are made of objects that stay: looking for garbage among them would take an eighth of
    # the time a short command takes.
    gc.set_threshold(100_000, 20, 20)
    atexit.register(gc.disable)  # Nor at the end, when all of it goes.
    # pydantic would look through every installed package for plugins, a tenth of its import.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    from zapomni_cli.main import main as command

    command()


if __name__ == "__main__":
    main()
