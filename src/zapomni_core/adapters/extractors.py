"""The extraction model that the settings name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zapomni_core.exceptions import ConfigurationError
from zapomni_core.settings import Settings

if TYPE_CHECKING:
    from zapomni_core.adapters.model_extractor import ModelExtractor
    from zapomni_core.adapters.spacy_extractor import SpacyExtractor

__all__ = ["build_extraction_model"]


def build_extraction_model(settings: Settings) -> ModelExtractor | SpacyExtractor | None:
    """Return the model that adds to the rules; None if there are only rules.

    Raises:
        ConfigurationError: The setting `extractor` needs another one.
    """
    model, timeout = settings.extraction_model, settings.extraction_timeout_seconds
    if settings.extractor == "spacy":
        from zapomni_core.adapters.spacy_extractor import SpacyExtractor

        return SpacyExtractor(model or "en_core_web_sm")
    if settings.extractor == "ollama":
        from zapomni_core.adapters.model_extractor import OllamaExtractor

        return OllamaExtractor(settings.ollama_host, model or "llama3.2", timeout)
    if settings.extractor == "openai":
        from zapomni_core.adapters.model_extractor import OpenAIExtractor

        if not settings.openai_base_url:
            raise ConfigurationError(
                "The extractor openai needs the address of its server: set "
                "ZAPOMNI_OPENAI_BASE_URL, such as http://127.0.0.1:8080/v1",
                "CONF_002",
            )
        key = settings.openai_api_key.get_secret_value()
        return OpenAIExtractor(settings.openai_base_url, model or "gpt-4o-mini", key, timeout)
    return None
