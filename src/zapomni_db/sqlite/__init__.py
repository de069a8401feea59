"""The embedded storage engine. Two numbers, no imports: hooks pay for what is here."""

# What hooks import is split finer than its subject asks for, as each file costs them time:
# observations_write, project_folders, review_items; at a prompt or a session's start prompt_reads,
# observation_reads, digest, recalls; once a day purging and trash; for a migration backups.

APPLICATION_ID = 0x5A41504D  # "ZAPM": distinguishes our files from other programs' databases
# The newest schema this version knows; see `migrations`.
LATEST_VERSION = 23
