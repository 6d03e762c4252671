"""What all tests of installing need after them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import mpls


@pytest.fixture(autouse=True)
def _uninstalled_afterwards() -> Iterator[None]:
    """Uninstall mpls after each test."""
    yield
    mpls.uninstall()
