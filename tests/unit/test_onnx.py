from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import numpy as np
import pytest

from zapomni_core.adapters import onnx
from zapomni_core.adapters.model_files import WEIGHTS, find_model, is_unchanged, remember_file
from zapomni_core.adapters.onnx import open_prepared_session, open_session
from zapomni_core.infra.onnx import load_onnxruntime
from zapomni_core.settings import load_settings


@pytest.fixture
def weights(tmp_path) -> Path:
    folder = tmp_path / "models"
    folder.mkdir()
    return Path(shutil.copy(find_model(load_settings().models_path).weights, folder))


def prepared(weights: Path) -> Path:
    return weights.with_name(f"{weights.stem}.{load_onnxruntime().__version__}.ort")


def answer(session) -> bytes:
    ids = np.array([[101, 2054, 2003, 1996, 2190, 2126, 2000, 4604, 102]], dtype=np.int64)
    inputs = {
        "input_ids": ids,
        "attention_mask": np.ones_like(ids),
        "token_type_ids": np.zeros_like(ids),
    }
    return session.run(None, inputs)[0].tobytes()


def test_a_prepared_copy_computes_the_same_to_the_last_bit(weights, monkeypatch):
    expected = answer(open_session(weights))
    assert answer(open_prepared_session(weights)) == expected  # the one that prepares it
    assert stat.S_IMODE(prepared(weights).stat().st_mode) == 0o600
    assert is_unchanged(prepared(weights))
    opened = []
    monkeypatch.setattr(
        onnx, "open_session", lambda path, *rest: opened.append(path) or open_session(path, *rest)
    )
    assert answer(open_prepared_session(weights)) == expected
    assert opened == [prepared(weights)]


@pytest.mark.parametrize("remembered", [False, True])
def test_a_damaged_copy_is_made_again(weights, remembered):
    expected = answer(open_prepared_session(weights))
    prepared(weights).write_bytes(b"damaged " * 1000)
    if remembered:
        remember_file(prepared(weights))
    assert answer(open_prepared_session(weights)) == expected
    assert prepared(weights).stat().st_size > WEIGHTS.size // 2
    assert is_unchanged(prepared(weights))


def test_where_no_copy_can_be_left_the_weights_are_opened(weights):
    prepared(weights).mkdir()  # in its place: root could write to a folder without permissions
    assert answer(open_prepared_session(weights)) == answer(open_session(weights))
    assert sorted(path.name for path in weights.parent.iterdir()) == sorted(
        [weights.name, prepared(weights).name]
    )


def test_copies_of_two_versions_are_kept(weights):
    for number in range(3):
        old = weights.with_name(f"{weights.stem}.0.{number}.ort")
        old.write_bytes(b"")
        remember_file(old)
        os.utime(old, (number, number))
    open_prepared_session(weights)
    names = {path.name for path in weights.parent.iterdir()} - {weights.name}
    assert {name.removeprefix(".").removesuffix(".checked") for name in names} == {
        prepared(weights).name,
        f"{weights.stem}.0.2.ort",
    }
