"""What does the first search of a fresh command cost, beside loading what it needs?

    python -m benchmarks.first_search [--runs 15]

A store of a few notes is made with the real model. Then four programs take turns: one that only
imports numpy and onnxruntime and loads the model and its tokenizer, as these come, with no option
set; the same that also imports click, asyncio and pydantic and makes one model class, which no
command written with them can do without; `zapomni search`; and `zapomni search` without a model.
CPU time is user and system time of the whole process. The figures are ratios of the smallest times
to the first program's.
`words_only_imports` names the heavy packages the word-only search imported: none.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile

from zapomni_core.settings import load_settings

HEAVY = ("numpy", "onnxruntime", "tokenizers")

LOAD = """
import sys
import numpy, onnxruntime, tokenizers
folder = sys.argv[1]
tokenizers.Tokenizer.from_file(folder + "/tokenizer.json")
onnxruntime.InferenceSession(folder + "/model_quantized.onnx")
"""
FRAMEWORKS = """
import asyncio
import click
from pydantic import BaseModel
class Model(BaseModel):
    text: str
"""
IMPORTED = """
import sys
from zapomni_cli.main import cli
try:
    cli(["search", "deploys"])
finally:
    print(*(name for name in %r if name in sys.modules), file=sys.stderr)
"""


def cpu_seconds(command: list[str], env: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=env, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=15)
    runs = parser.parse_args().runs
    models = load_settings().models_path
    (model,) = (folder for folder in models.iterdir() if folder.is_dir())
    with tempfile.TemporaryDirectory(prefix="zapomni-first-") as home:
        # As an installed wheel: compiled once, by the first run.
        env = {**os.environ, "ZAPOMNI_HOME": home, "ZAPOMNI_MODELS_DIR": str(models)}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        # Whatever a program sets to be quick is its own merit: nobody starts with it.
        env.pop("OPENBLAS_NUM_THREADS", None)
        zapomni = [sys.executable, "-m", "zapomni_cli"]
        for number in range(5):
            note = f"Note {number}: we deploy on Tuesdays, kettle {number} is red."
            subprocess.run([*zapomni, "add", note], env=env, capture_output=True, check=True)
        search = [*zapomni, "search", "when do we deploy"]
        programs = {
            "load": ([sys.executable, "-c", LOAD, str(model)], env),
            "floor": ([sys.executable, "-c", FRAMEWORKS + LOAD, str(model)], env),
            "search": (search, env),
            "words_only": (search, {**env, "ZAPOMNI_EMBEDDER": "none"}),
        }
        times: dict[str, list[float]] = {name: [] for name in programs}
        for _ in range(runs):
            for name, (command, environ) in programs.items():
                times[name].append(cpu_seconds(command, environ) * 1000)
        told = subprocess.run(
            [sys.executable, "-c", IMPORTED % (HEAVY,)],
            env={**env, "ZAPOMNI_EMBEDDER": "none"},
            capture_output=True, check=True, text=True,
        )  # fmt: skip
    least = {name: min(values) for name, values in times.items()}
    print(
        json.dumps(
            {
                "benchmark": "first_search",
                "runs": runs,
                **{f"{name}_cpu_ms_min": round(value, 1) for name, value in least.items()},
                **{
                    f"{name}_cpu_ms_median": round(statistics.median(values), 1)
                    for name, values in times.items()
                },
                "floor_ratio": round(least["floor"] / least["load"], 3),
                "search_ratio": round(least["search"] / least["load"], 3),
                "words_only_imports": told.stderr.split(),
            }
        )
    )


if __name__ == "__main__":
    main()
