"""What do the tools and prompts of the MCP server cost a session, in tokens?

    python -m benchmarks.tool_tokens [--all]

Counts the bytes of the compact JSON of `tools/list` and `prompts/list`, divided by 4, per tool:
without output schemas, which most hosts do not hand to the model, and with them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import Any

from mcp.client import Client

from zapomni_mcp.server import build_server

BYTES_PER_TOKEN = 4


async def open_no_engine() -> Any:
    """Fail: listing tools needs no engine."""
    raise AssertionError


def count_tokens(value: Any) -> int:
    compact = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return -(-len(compact.encode()) // BYTES_PER_TOKEN)


async def print_bill(*, every_tool: bool) -> None:
    async with Client(build_server(open_no_engine, every_tool=every_tool)) as client:
        listed = (await client.list_tools()).model_dump(
            mode="json", by_alias=True, exclude_none=True
        )
        prompts = (await client.list_prompts()).model_dump(
            mode="json", by_alias=True, exclude_none=True
        )
        instructions = client.instructions
    whole = count_tokens(listed["tools"])
    print(f"{'tool':<20}{'tokens':>8}{'with output schema':>20}")
    for tool in listed["tools"]:
        with_schema = count_tokens(tool)
        del tool["outputSchema"]
        print(f"{tool['name']:<20}{count_tokens(tool):>8}{with_schema:>20}")
    print(f"{'all tools':<20}{count_tokens(listed['tools']):>8}{whole:>20}")
    print(f"{'prompts':<20}{count_tokens(prompts['prompts']):>8}")
    print(f"{'instructions':<20}{count_tokens(instructions):>8}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="the tools of `serve --tools all`")
    asyncio.run(print_bill(every_tool=parser.parse_args().all))


if __name__ == "__main__":
    main()
