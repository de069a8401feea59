from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from zapomni_db.exceptions import ValidationError
from zapomni_db.sqlite.packing import (
    PackedVector,
    pack_stored,
    pack_vectors,
    read_codes,
    read_vectors,
)


def unit_vectors(count: int, dimension: int = 384, seed: int = 0) -> np.ndarray:
    made = np.random.default_rng(seed).normal(size=(count, dimension))
    return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)


def pack(vectors: np.ndarray) -> list[PackedVector]:
    return pack_vectors(vectors.tolist(), vectors.shape[1], range(len(vectors)))


@pytest.mark.parametrize("scale", [1e-12, 0.3, 1.0, 700.0, 1e12])
def test_a_packed_vector_is_the_same_to_one_part_in_thirty_thousand(scale):
    vectors = unit_vectors(50) * np.float32(scale)

    packed = pack(vectors)

    assert {(len(one.upper), len(one.lower)) for one in packed} == {(8 + 384, 384)}
    numbers = np.array([one.numbers() for one in packed])
    highest = np.abs(vectors).max(axis=1, keepdims=True)
    assert (np.abs(numbers - vectors) / highest).max() < 1 / 30_000


def test_cosines_are_exact_to_five_digits_and_by_the_upper_bytes_to_two():
    vectors, query = unit_vectors(2000), unit_vectors(1, seed=1)[0]
    packed = pack(vectors)

    exact = read_vectors(packed, 384) @ query
    steps, worth = read_codes([one.upper for one in packed], 384)

    assert exact == pytest.approx(vectors @ query, abs=1e-5)
    assert (steps.astype(np.float32) @ query) * worth == pytest.approx(vectors @ query, abs=5e-3)


def test_what_is_unpacked_is_packed_to_the_same_again_and_fits_into_32_bits():
    packed = pack(unit_vectors(200))
    numbers = [one.numbers() for one in packed]

    assert pack_vectors(numbers, 384, range(200)) == packed
    assert np.array(numbers, dtype=np.float32).tolist() == numbers
    assert pack_vectors([[1.0, 0.5, -1.0, 0.0]], 4, [0])[0].numbers() == [1.0, 0.5, -1.0, 0.0]


def test_vectors_of_an_older_version_are_read_among_packed_ones():
    vectors = unit_vectors(30)
    packed = pack(vectors)
    mixed = [
        PackedVector(vector.tobytes(), None) if number % 3 else packed[number]
        for number, vector in enumerate(vectors)
    ]

    assert mixed[1].numbers() == vectors[1].tolist()
    assert pack_stored([mixed[1].upper]) == packed[1:2]
    assert read_vectors(mixed, 384) == pytest.approx(read_vectors(packed, 384), abs=1e-7)
    for read, wanted in zip(
        read_codes([one.upper for one in mixed], 384),
        read_codes([one.upper for one in packed], 384),
        strict=True,
    ):
        assert read == pytest.approx(wanted)


def test_a_stored_vector_without_a_direction_is_near_nothing():
    strange = [np.zeros(4), np.array([np.nan, 1, 2, 3]), np.array([np.inf, 1, 2, 3])]
    packed = pack_stored([one.astype(np.float32).tobytes() for one in strange])

    assert not read_vectors(packed, 4).any()
    assert not read_codes([one.upper for one in packed], 4).worth.any()


def test_a_vector_that_would_poison_the_index_is_refused_by_its_position():
    with pytest.raises(ValidationError, match="embedding 7 "):
        pack_vectors([[1.0, 0.0], [0.0, 0.0]], 2, [6, 7])


def test_a_few_vectors_are_read_without_numpy():
    (packed,) = pack(unit_vectors(1))
    code = (
        "import sys; from zapomni_db.sqlite.packing import PackedVector;"
        f"numbers = PackedVector({packed.upper!r}, {packed.lower!r}).numbers();"
        "print(numbers[3], 'numpy' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ran.stdout.split() == [str(packed.numbers()[3]), "False"]
