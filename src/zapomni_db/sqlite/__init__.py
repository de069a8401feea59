"""The embedded storage engine."""

from zapomni_db.sqlite.storage import SqliteStorage

__all__ = ["SqliteStorage"]
