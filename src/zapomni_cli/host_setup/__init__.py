"""Connecting agents on this machine: what to write where, and how to take it back."""
