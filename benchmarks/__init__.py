"""Measurements: each module is a program that prints JSON lines."""
