"""Make `multilingual_center.bin`: what the vectors of all texts have in common.

    python -m tools.fit_center --texts ru=FOLDER --texts de=FOLDER ...

FOLDER: as for `python -m benchmarks.languages`. Every language counts alike. The mean is of the
model's own vectors; the embedder subtracts it from each.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from benchmarks.languages import build
from zapomni_core.adapters import multilingual
from zapomni_core.settings import load_settings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--texts", action="append", required=True, metavar="LANGUAGE=FOLDER")
    parser.add_argument("--passages", type=int, default=2000)
    options = parser.parse_args()
    model = multilingual.SentenceEncoder(load_settings().models_path)
    means = []
    for given in options.texts:
        language, _, folder = given.partition("=")
        docs = build(language, Path(folder), 600, options.passages)["docs"]
        means.append(np.mean([model.encode(doc["text"]) for doc in docs], axis=0))
        print(f"{language}: {len(docs)} passages", flush=True)
    center = np.mean(means, axis=0).astype("<f2")
    Path(multilingual.__file__).with_name(multilingual.CENTER).write_bytes(center.tobytes())


if __name__ == "__main__":
    main()
