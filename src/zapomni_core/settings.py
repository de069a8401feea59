"""The only reader of the environment and of the configuration file.

Precedence: environment variable `ZAPOMNI_<NAME>`, then `config.toml` in the home folder, then
the default below. An unknown name is an error that suggests the nearest one: a typing
mistake in a setting must not silently mean "default".
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, SecretStr, field_validator
from pydantic import ValidationError as PydanticValidationError

from zapomni_core.exceptions import ConfigurationError
from zapomni_core.shared.addresses import SERVER_SCHEMES, ServerAddress, parse_server

__all__ = ["EffectiveSetting", "Settings", "explain_settings", "load_settings"]

ENV_PREFIX = "ZAPOMNI_"


class Settings(BaseModel):
    """Everything a user can set. Each field's description is its documentation."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    home: Path = Field(description="Folder for the database, the models and config.toml.")
    storage: SecretStr = Field(
        default=SecretStr(""),
        description="Where memories live: sqlite, a file path, sqlite:///path, "
        "falkordb://user:password@host:port/graph, falkordbs:// with TLS, "
        "unix:///socket?graph=name, or falkordb://local for the server of `zapomni db up`.",
    )
    allow_volatile: bool = Field(
        default=False,
        description="Use a FalkorDB server although it may forget what it acknowledged.",
    )
    health_check_seconds: float = Field(
        default=30.0, gt=0, description="How often `serve` asks a FalkorDB server if it answers."
    )
    allow_open_home: bool = Field(
        default=False,
        description="Use a home folder that other users own or can read, such as a mount of WSL "
        "or of a container.",
    )
    cache: SecretStr = Field(
        default=SecretStr(""),
        description="A Redis that keeps embeddings for many machines: redis://host:6379/0.",
    )
    embedder: Literal["local", "ollama", "openai", "sentence-transformers", "folder", "none"] = (
        Field(
            default="local",
            description="What turns text into vectors; none means word search only.",
        )
    )
    embedding_model: str = Field(
        default="",
        description="Model name for the embedder, or the folder of an encoder; empty means the "
        "embedder's default.",
    )
    ollama_host: str = Field(default="http://127.0.0.1:11434", description="Address of Ollama.")
    openai_base_url: str = Field(
        default="", description="Base address of an OpenAI-compatible server, up to /v1."
    )
    openai_api_key: SecretStr = Field(
        default=SecretStr(""), description="Key for that server, if it wants one."
    )
    embed_timeout_seconds: float = Field(
        default=30.0, gt=0, description="How long one request to an embedding server may take."
    )
    reranker: Path | None = Field(
        default=None,
        description="Folder with model.onnx and tokenizer.json of a cross-encoder that reads the "
        "best hits again; default: none.",
    )
    extractor: Literal["rules", "spacy", "ollama", "openai"] = Field(
        default="rules",
        description="What finds entities and relationships in addition to the rules.",
    )
    extraction_model: str = Field(
        default="", description="Model name for the extractor; empty means the extractor's default."
    )
    extraction_timeout_seconds: float = Field(
        default=60.0, gt=0, description="How long one request to a language model may take."
    )
    models_dir: Path | None = Field(
        default=None, description="Folder for model files; default: models in the home folder."
    )
    model_source: Path | None = Field(
        default=None, description="Folder to copy model files from before a download is tried."
    )
    chunk_size: int = Field(
        default=200, ge=16, le=8192, description="Longest passage, in tokens of the model."
    )
    chunk_overlap: int = Field(
        default=30, ge=0, description="Tokens neighbouring passages share; below chunk_size."
    )
    code_roots: list[Path] = Field(
        default=[],
        description="Folders that may be indexed as code, separated by colons; default: any from "
        "the command line, the folder the server was started in for agents.",
    )
    trust: Literal["ask", "all"] = Field(
        default="ask",
        description="A folder that claims a project known from another one: ask means it is shown "
        "nothing until `zapomni projects --trust`, all means it is trusted.",
    )
    private_paths: list[str] = Field(
        default=[],
        description="Globs of files that are never captured or indexed, separated by colons, "
        "besides `.env`, keys and other credentials; ! before one makes an exception.",
    )
    context_tokens: int = Field(
        default=900,
        ge=200,
        le=2400,
        description="Tokens that the context of a new session takes at most (JSON bytes / 4).",
    )
    observation_retention_days: dict[str, NonNegativeInt] = Field(
        default={},
        description="Days observations are kept, by type, as a JSON object; 0 means for ever.",
    )
    observations_max_mb: int = Field(
        default=512, ge=1, description="Above this size the oldest unpinned observations go."
    )
    recall_retention_days: int = Field(
        default=365, ge=0, description="Days the log of recalls is kept; 0 means for ever."
    )
    daily_backups: bool = Field(
        default=True,
        description="Whether `zapomni serve` and task workers copy the database once a day.",
    )
    tool_timeout_seconds: float = Field(
        default=600.0, gt=0, description="How long one call of an MCP tool may take."
    )
    share: bool = Field(
        default=True,
        description="Whether `zapomni serve` processes with the same settings share one process, "
        "which starts and ends by itself.",
    )
    backup_passphrase: SecretStr = Field(
        default=SecretStr(""), description="Passphrase of encrypted backups."
    )
    backup_passphrase_file: Path | None = Field(
        default=None, description="File whose first line is the passphrase of encrypted backups."
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] | None = Field(
        default=None, description="Log level on stderr; default INFO in serve, else ERROR."
    )

    @field_validator("log_level", mode="before")
    @classmethod
    def _any_case(cls, value: Any) -> Any:
        return value.upper() if isinstance(value, str) else value

    @field_validator("code_roots", "private_paths", mode="before")
    @classmethod
    def _split_paths(cls, value: Any) -> Any:
        # The environment has them as PATH does, config.toml as a list.
        return [p for p in value.split(os.pathsep) if p] if isinstance(value, str) else value

    @field_validator("observation_retention_days", mode="before")
    @classmethod
    def _days_by_known_type(cls, value: Any) -> Any:
        from zapomni_db.sqlite.purging import RETENTION_DAYS  # only when it is set

        # The environment has it as JSON, config.toml as a table.
        days = json.loads(value) if isinstance(value, str) else value
        if isinstance(days, dict) and (unknown := days.keys() - RETENTION_DAYS.keys()):
            known = ", ".join(sorted(RETENTION_DAYS))
            raise ValueError(f"no type is called {min(unknown)}; there are {known}")
        return days

    @property
    def server(self) -> ServerAddress | None:
        """The FalkorDB server memories live on; None if they live in a file."""
        storage = self.storage.get_secret_value()
        scheme, separator, _ = storage.partition("://")
        if not separator or scheme.lower() not in SERVER_SCHEMES:
            return None
        try:
            server = parse_server(storage)
        except ValueError as error:
            raise ConfigurationError(
                f"The setting storage is no address of a server: {error}", "CONF_002"
            ) from error
        if not self.uses_local_server:
            return server
        from zapomni_db.falkordb.server import socket_path  # only when it is used

        return ServerAddress(socket=str(socket_path(self.local_server_folder)), graph=server.graph)

    @property
    def uses_local_server(self) -> bool:
        """Whether memories live on the server of `zapomni db up`."""
        return re.match("falkordb://local(/|$)", self.storage.get_secret_value()) is not None

    @property
    def local_server_folder(self) -> Path:
        """What the server of `zapomni db up` keeps."""
        return self.home / "falkordb"

    @property
    def database_path(self) -> Path:
        """The SQLite file memories live in."""
        storage = self.storage.get_secret_value()
        if storage in ("", "sqlite"):
            return self.home / "zapomni.db"
        scheme, separator, rest = storage.partition("://")
        if not separator:
            return Path(storage).expanduser().absolute()
        if scheme == "sqlite" and rest.startswith("/"):
            # Three slashes, then the path; a fourth one is the path's own.
            return Path("/" + rest.lstrip("/"))
        raise ConfigurationError(
            "The setting storage must be a file path, sqlite:///absolute/path "
            "or falkordb://host:port/graph",
            "CONF_002",
        )

    @property
    def observations_path(self) -> Path:
        """The local file hooks write to, also beside a server: capture never waits for one."""
        try:
            return self.database_path
        except ConfigurationError:
            return self.home / "zapomni.db"

    @property
    def backups_path(self) -> Path:
        """The folder copies of the database go to."""
        return self.home / "backups"

    @property
    def models_path(self) -> Path:
        """The folder model files live in."""
        return (self.models_dir or self.home / "models").expanduser()


@dataclass(frozen=True)
class EffectiveSetting:
    """A setting as it is in effect."""

    name: str
    value: Any
    """None if it is not set; a secret is never shown."""
    origin: Literal["environment", "config.toml", "default"]
    is_secret: bool
    description: str
    line: str
    """What sets it so: a line of config.toml, or of a shell for what only the environment sets."""


def explain_settings(
    settings: Settings, environ: Mapping[str, str] | None = None
) -> list[EffectiveSetting]:
    """Return every setting, its value and where that comes from; secrets are masked."""
    env = os.environ if environ is None else environ
    in_file = _read_file(settings.home / "config.toml")
    found = []
    for name, field in Settings.model_fields.items():
        value = getattr(settings, name)
        is_secret = isinstance(value, SecretStr)
        if name == "storage":
            value, is_secret = str(settings.server or settings.database_path), False
        elif is_secret:
            value = "********" if value.get_secret_value() else None
        elif isinstance(value, Path):
            value = str(value)
        elif isinstance(value, list):
            value = [str(one) for one in value]
        origin: Literal["environment", "config.toml", "default"] = "default"
        if ENV_PREFIX + name.upper() in env:
            origin = "environment"
        elif name in in_file:
            origin = "config.toml"
        line = f"{name} = {_as_toml(value)}"
        if name in _ENVIRONMENT_ONLY:
            import shlex

            shown = value if isinstance(value, str) else json.dumps(value)
            line = f"export {ENV_PREFIX}{name.upper()}={shlex.quote(shown)}"
        found.append(
            EffectiveSetting(name, value, origin, is_secret, field.description or "", line)
        )
    return found


# config.toml cannot name its own folder.
_ENVIRONMENT_ONLY = ("home", "allow_open_home")


def _as_toml(value: Any) -> str:
    if isinstance(value, dict):
        pairs = ", ".join(f"{json.dumps(name)} = {_as_toml(one)}" for name, one in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    # TOML writes numbers, booleans, lists and basic strings as JSON does.
    return json.dumps("" if value is None else value, ensure_ascii=False)


def load_settings(environ: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
    """Read settings; `overrides` win over everything else.

    Raises:
        ConfigurationError: A name is unknown or a value impossible.
    """
    env = os.environ if environ is None else environ
    values = {
        name.removeprefix(ENV_PREFIX).lower(): value
        for name, value in env.items()
        if name.startswith(ENV_PREFIX)
    }
    home = Path(overrides.get("home") or values.get("home") or Path.home() / ".zapomni")
    home = home.expanduser().absolute()
    merged = {**_read_file(home / "config.toml"), **values, **overrides, "home": home}
    for name in sorted(merged.keys() - Settings.model_fields.keys()):
        from difflib import get_close_matches  # only when something is wrong

        near = get_close_matches(name, Settings.model_fields, n=1, cutoff=0.0)
        raise ConfigurationError(
            f"Unknown setting {name!r}; did you mean {near[0]!r}? "
            f"Settings are set as {ENV_PREFIX}{near[0].upper()} or in config.toml."
        )
    try:
        settings = Settings.model_validate(merged)
    except PydanticValidationError as error:
        problems = "; ".join(f"{e['loc'][0]}: {e['msg']}" for e in error.errors())
        raise ConfigurationError(
            f"Invalid settings: {problems}", "CONF_002", original_exception=error
        ) from error
    if settings.chunk_overlap >= settings.chunk_size:
        raise ConfigurationError(
            "Invalid settings: chunk_overlap must be below chunk_size", "CONF_002"
        )
    return settings


def _read_file(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            import tomllib

            content = tomllib.load(file)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            "config.toml cannot be read; it must be a readable UTF-8 TOML file",
            "CONF_002",
            original_exception=error,
        ) from error
    if "home" in content:
        raise ConfigurationError("config.toml cannot set home: it lives there", "CONF_001")
    if "allow_open_home" in content:
        raise ConfigurationError(
            "config.toml cannot accept its own folder: set ZAPOMNI_ALLOW_OPEN_HOME instead",
            "CONF_001",
        )
    return content
