"""Replaceable parts behind the Protocols of `zapomni_core.interfaces`, one file each."""
