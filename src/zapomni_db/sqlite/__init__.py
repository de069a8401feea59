"""The embedded storage engine. Two numbers, no imports: hooks pay for what is here."""

APPLICATION_ID = 0x5A41504D  # "ZAPM": distinguishes our files from other programs' databases
# The newest schema this version knows; see `migrations`.
LATEST_VERSION = 20
