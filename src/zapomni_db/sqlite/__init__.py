"""The embedded storage engine. Empty on purpose: `connection` must stay cheap to import."""
