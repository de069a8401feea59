"""Writes docs/settings.md from the settings' own descriptions: `python docs/build_settings.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from zapomni_core.settings import ENV_PREFIX, Settings

PAGE = Path(__file__).with_name("settings.md")

INTRODUCTION = """\
# Settings

Nothing has to be set. Set what you need as an environment variable, or under the same name in
lower case without the prefix in `config.toml` in the home folder; the environment wins.
`zapomni status --settings` lists every setting, its value and where that comes from. A name that no
setting has is an error that suggests the nearest one. <!-- promise: settings-checked -->

```toml
# ~/.zapomni/config.toml
embedder = "ollama"
context_tokens = 1200
private_paths = ["secrets/*", "!secrets/README.md"]
```

| variable | meaning | default |
|---|---|---|
"""


def render() -> str:
    """Return the page."""
    rows = [
        f"| `{ENV_PREFIX}{name.upper()}` | {field.description} | {_default(name, field.default)} |"
        for name, field in Settings.model_fields.items()
    ]
    return INTRODUCTION + "\n".join(rows) + "\n"


def _default(name: str, value: Any) -> str:
    if name == "home":
        return "`~/.zapomni`"
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if value in (None, "", [], {}):
        return ""
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
