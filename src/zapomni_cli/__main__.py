"""`python -m zapomni_cli` is the `zapomni` command."""

from __future__ import annotations

from zapomni_cli.main import main

if __name__ == "__main__":
    main()
