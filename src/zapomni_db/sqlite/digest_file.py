"""SqliteDigest: the digest of memories in the local file, for the engine's own processes."""

from __future__ import annotations

from zapomni_db.sqlite import digest
from zapomni_db.sqlite.connection import Connection
from zapomni_db.sqlite.file import SqliteFile, reading, writing

__all__ = ["SqliteDigest"]


class SqliteDigest(SqliteFile):
    """Writes the digest. The first call opens the file."""

    threads = 1
    opened_by_first_call = True

    drain_queue = writing("updating the digest", digest.drain_queue)
    requeue = writing("updating the digest", digest.requeue)
    apply_entries = writing("updating the digest", digest.apply_entries)
    read_digest = reading("reading the digest", digest.read_digest)

    def _connect(self) -> Connection:
        connection = super()._connect()
        # It can be made again from the memories: no need to wait for the disk.
        connection.execute("PRAGMA synchronous = NORMAL")
        return connection
