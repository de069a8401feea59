"""The `zapomni` command."""
