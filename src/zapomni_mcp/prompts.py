"""The prompts a user calls from a host, most often as slash commands: recall, remember, catch_up.

They hand the agent what it would otherwise have to ask for, quoted as the tools quote it, and say
what to do with it. Nothing is written by reading a prompt: the agent stores with add_memory.

Claude Code gives an argument the first word that was typed, and shows the agent all of them. So one
word may be short for several: the agent is asked to take what it sees.
"""

from __future__ import annotations

from typing import Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.prompts import Prompt
from mcp.server.mcpserver.prompts.base import PromptArgument
from mcp.types import CallToolResult, TextContent

from zapomni_mcp.lazy_engine import LazyEngine
from zapomni_mcp.tools.memories import search_memory
from zapomni_mcp.tools.observations import ObservationTools

__all__ = ["build_prompts"]

Ctx = Context[LazyEngine]

RECALL = """\
Recall what long-term memory has about: {topic}

This was found:

{found}

Answer from it in a few sentences, with the dates. Say so if it does not answer; then try \
search_memory in other words."""

RECALL_WORD = """\
Recall what long-term memory has about: {topic}

If more words than this were typed after the command, all of them are meant. Call search_memory \
with them, and answer from what it finds in a few sentences, with the dates. Say so if it does not \
answer."""

RECALL_TASK = """\
Recall what long-term memory has about what we are doing: call search_memory with the subject of \
this conversation in plain words, read what fits with get_memory, and say in a few sentences what \
matters here, with the dates."""

REMEMBER = """\
Remember this in long-term memory: {text}
{more}
Store it with add_memory as one self-contained idea: names, dates and reasons written out, with \
kind and tags. If search_memory finds an older memory that it corrects, name that in \
supersedes. Never store passwords, keys or tokens. Then say in one line what was stored."""

ALL_WORDS = """
If more words than this were typed after the command, all of them are meant.
"""

REMEMBER_SESSION = """\
Remember what a later session will need from this conversation: decisions and their reasons, \
preferences and corrections, causes and fixes, commands that work. Store each with add_memory as \
one self-contained idea, with kind and tags; leave out what search_memory shows to be \
stored already, and passwords, keys and tokens. Then list in one line each what was stored."""

CATCH_UP = """\
Catch up on the work in this project. These are the newest actions, newest first:

{found}

Read what matters whole with get_observations, and search_memory for decisions about it. Then say \
in at most ten lines what was being done, what is finished, what failed and is still open, and \
what the next step is. Change nothing yet."""


def build_prompts(observations: ObservationTools) -> list[Prompt]:
    """Return the prompts."""

    async def recall(ctx: Ctx, topic: str = "") -> str:
        if len(topic.split()) < 2:
            return RECALL_WORD.format(topic=topic) if topic.strip() else RECALL_TASK
        found = await search_memory(ctx, query=topic)
        return RECALL.format(topic=topic, found=_text(found))

    async def remember(text: str = "") -> str:
        if not text.strip():
            return REMEMBER_SESSION
        return REMEMBER.format(text=text, more="" if len(text.split()) > 1 else ALL_WORDS)

    async def catch_up(project: str = "") -> str:
        return CATCH_UP.format(found=_text(await observations.recent_context(project)))

    return [
        _prompt(recall, "Recall what is known about a topic.", context_kwarg="ctx",
                topic="What to recall; empty: what we are doing."),
        _prompt(remember, "Store something for later sessions.",
                text="What to remember; empty: what this session taught."),
        _prompt(catch_up, "Catch up on recent work in this project.",
                project="Another project's key or name."),
    ]  # fmt: skip


def _prompt(
    function: Any, description: str, *, context_kwarg: str | None = None, **arguments: str
) -> Prompt:
    # No title: a host may use it as the command's name, and then spaces break it.
    return Prompt(
        name=function.__name__,
        title=None,
        description=description,
        arguments=[
            PromptArgument(name=name, description=about, required=False)
            for name, about in arguments.items()
        ],
        fn=function,
        context_kwarg=context_kwarg,
    )


def _text(result: CallToolResult) -> str:
    return "\n".join(part.text for part in result.content if isinstance(part, TextContent))
