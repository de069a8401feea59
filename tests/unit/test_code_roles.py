"""What a file of a repository is for, by its path."""

from __future__ import annotations

import pytest

from zapomni_core.shared.code import role_of


@pytest.mark.parametrize(
    ("path", "role"),
    [
        ("src/shop/cart.py", "code"),
        ("pkg/testing/fakes.go", "code"),
        ("src/t/cart.py", "code"),
        ("tests/test_cart.py", "test"),
        ("t/unit/cart.py", "test"),
        ("web/cart.spec.ts", "test"),
        ("app/src/test/java/CartTest.java", "test"),
        ("docs/cart.md", "docs"),
        ("CHANGELOG", "docs"),
    ],
)
def test_a_path_says_what_a_file_is_for(path, role):
    assert role_of(path) == role
