"""Business areas: black boxes that do not know each other."""
