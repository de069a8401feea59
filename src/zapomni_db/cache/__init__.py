"""Caches that many processes and machines share."""
