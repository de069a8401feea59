"""`python -m zapomni_mcp` serves MCP on stdin and stdout, as `zapomni serve` does."""

from __future__ import annotations

from zapomni_core.settings import load_settings
from zapomni_mcp.server import serve

if __name__ == "__main__":
    serve(load_settings())
