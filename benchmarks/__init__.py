"""Measurements: each module is a program that prints JSON lines."""

import os

# As `create_engine` does for users, and before numpy is imported here.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
