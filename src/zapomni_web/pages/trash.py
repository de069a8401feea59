"""The trash: what was forgotten, and the way back."""

from __future__ import annotations

from zapomni_core.workflows.trash import TRASH_DAYS
from zapomni_web.page import Done, PageRequest, PageView, address

__all__ = ["restore", "show"]


async def show(asked: PageRequest) -> PageView:
    """List what was forgotten, newest first."""
    batches = await asked.engine.trash.list_batches()
    return PageView(
        "trash.html",
        "Trash",
        batches,
        ["zapomni", "forget", "--trash"],
        {"batches": batches[::-1], "days": TRASH_DAYS},
        live="memories",
    )


async def restore(asked: PageRequest) -> Done:
    """Bring a batch back as it was."""
    undone = await asked.engine.trash.undo(asked.path["batch"])
    number = undone.restored
    memories = "memory is" if number == 1 else "memories are"
    return Done(f"{number} {memories} back.", address("trash"))
