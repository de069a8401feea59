"""Answers without what says nothing: every null and empty list costs an agent tokens."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

__all__ = ["is_empty", "without_empty"]


def without_empty(model: BaseModel) -> dict[str, Any]:
    """Return a model as JSON data without null, empty texts, lists and objects.

    The insides of a free-form object are the user's, and stay as they are.
    """
    data: dict[str, Any] = _without_empty(model, model.model_dump(mode="json"))
    return data


def _without_empty(value: Any, data: Any) -> Any:
    if isinstance(value, BaseModel):
        pairs = ((key, _without_empty(getattr(value, key), item)) for key, item in data.items())
        return {key: item for key, item in pairs if not is_empty(item)}
    if isinstance(value, list):
        return [_without_empty(*pair) for pair in zip(value, data, strict=True)]
    return data


def is_empty(item: Any) -> bool:
    """Return whether an answer leaves this out: null, or a text, list or object without content."""
    return item is None or (isinstance(item, str | list | dict) and not item)
