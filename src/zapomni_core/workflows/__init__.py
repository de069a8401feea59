"""Use cases, each top to bottom in one file; the only place where modules meet."""
