"""A folder for each test of a class."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Iterator

import pytest


class InFolder:
    """Gives each test an empty folder."""

    folder: pathlib.Path

    @pytest.fixture(autouse=True)
    def _folder(self) -> Iterator[None]:
        with tempfile.TemporaryDirectory() as name:
            self.folder = pathlib.Path(name)
            yield
