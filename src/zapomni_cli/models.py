"""Commands about embedding models: list, pull, reembed."""

from __future__ import annotations

import click

from zapomni_cli.options import examples, json_option
from zapomni_cli.output import count_of, print_json, print_pairs, progress_bar
from zapomni_cli.runtime import read_settings, with_engine
from zapomni_core.adapters.model_files import MODEL, verify_model
from zapomni_core.adapters.model_pull import pull_model
from zapomni_core.exceptions import EmbeddingError

__all__ = ["models"]


@click.group(
    epilog=examples("zapomni models list", "zapomni models pull", "zapomni models reembed")
)
def models() -> None:
    """Fetch, check and switch embedding models.

    A model turns text into vectors, so that a question finds an answer in other words.
    Without one, search works by words only.
    """


@models.command(name="list", epilog=examples("zapomni models list", "zapomni models list --json"))
@json_option
def list_models(*, as_json: bool) -> None:
    """Show the local model's files and which model the stored vectors are from."""
    settings = read_settings()
    files = verify_model(settings.models_path)
    stored = with_engine(lambda engine: engine.memories.get_stats(), settings).embedding_model
    if as_json:
        local = {"model": MODEL, "folder": str(settings.models_path), "files": files}
        print_json({"embedder": settings.embedder, "local": local, "stored_vectors": stored})
        return
    print_pairs(
        [
            ("embedder", settings.embedder),
            ("stored vectors", stored or "none yet"),
            ("local model", MODEL),
            *files.items(),
        ]
    )
    if set(files.values()) != {"ok"}:
        click.echo("Fetch the local model with `zapomni models pull`.", err=True)


@models.command(
    epilog=examples(
        "zapomni models pull", "ZAPOMNI_MODEL_SOURCE=/media/usb/model zapomni models pull"
    )
)
def pull() -> None:
    """Fetch the local model, about 23 MB, and check every byte of it.

    Does nothing if the files are here already. Without a network, copy them from another
    machine into a folder and set ZAPOMNI_MODEL_SOURCE to it.
    """
    settings = read_settings()
    try:
        with progress_bar("Fetching the model") as report:
            pulled = pull_model(settings.models_path, settings.model_source, report)
    except EmbeddingError as error:
        raise click.ClickException(error.message) from error
    where = f"fetched from {pulled.mirror}" if pulled.mirror else "already here"
    click.echo(f"{pulled.model}: {where}, checked.")


@models.command(
    epilog=examples("zapomni models reembed", "ZAPOMNI_EMBEDDER=ollama zapomni models reembed")
)
def reembed() -> None:
    """Make all vectors with the configured model, and those still missing.

    Search continues with the old vectors until the last new one is made. You can stop at any
    time; the next run resumes where this one was.
    """
    try:
        with progress_bar("Making vectors") as report:
            made = with_engine(lambda engine: engine.reembed(report))
    except EmbeddingError as error:
        raise click.ClickException(error.message) from error
    click.echo(f"Made {count_of(made, 'vector')}." if made else "All vectors are up to date.")
