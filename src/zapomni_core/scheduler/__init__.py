"""Durable background tasks: who works on what, how far it is, and what became of it."""
