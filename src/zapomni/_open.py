"""`zapomni.open`: the engine for programs that run an event loop."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from zapomni_core.engine import ZapomniEngine, create_engine
from zapomni_core.settings import Settings, load_settings

__all__ = ["EngineOpening", "open"]


def open(settings: Settings | None = None, /, **values: Any) -> EngineOpening:  # noqa: A001
    """Open the memory: `async with zapomni.open() as memory`, or `memory = await zapomni.open()`.

    Args:
        settings: All settings at once; the environment and config.toml are then not read.
        values: Single settings by name. They win over the environment and config.toml.

    Raises:
        ConfigurationError: A setting is unknown or has an impossible value.
    """
    return EngineOpening(choose_settings(settings, values))


def choose_settings(settings: Settings | None, values: dict[str, Any]) -> Settings:
    """Return the settings given, or those of the user with some values replaced."""
    if settings is None:
        return load_settings(**values)
    if values:
        raise TypeError("Give either Settings or single settings by name, not both")
    return settings


class EngineOpening:
    """What `open` returns: await it, or enter it to have the engine closed at the end."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._engine: ZapomniEngine | None = None

    def __await__(self) -> Generator[Any, None, ZapomniEngine]:
        return create_engine(self._settings).__await__()

    async def __aenter__(self) -> ZapomniEngine:
        self._engine = await self
        return self._engine

    async def __aexit__(self, *_exc_info: object) -> None:
        if self._engine is not None:
            await self._engine.close()
