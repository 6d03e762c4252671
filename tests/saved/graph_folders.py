"""What the tests of SavedModels' graphs share: an honest one in a folder, to be changed."""

from __future__ import annotations

import pathlib
import re
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
import tf_keras

from mpls.inspect import describe
from tests.saved import honest_models
from tests.saved.graphs import TEXT, Graph


def save(model: Any, path: pathlib.Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.save(path, save_format="tf")


def load_natively(path: pathlib.Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tf_keras.models.load_model(path)


def refusal_of(path: pathlib.Path) -> str | None:
    """Return why `load_model` refuses a model, None if it does not."""
    found = describe(path)
    return found["refusal"] or found["reason"]  # type: ignore[no-any-return]


class Folders:
    """Gives a test a folder with a copy of the honest SavedModel, and one outside it."""

    _saved: ClassVar[pathlib.Path | None] = None

    @pytest.fixture(autouse=True)
    def _folders(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
        if Folders._saved is None:
            folder = tmp_path_factory.mktemp("honest")
            save(honest_models.tables(), folder / "model")
            Folders._saved = folder / "model"
        self.base = pathlib.Path(tempfile.mkdtemp())
        self.outside = self.base / "outside"
        self.outside.mkdir()
        self.graph = Graph(Folders._saved, self.base / "model")
        self.roles = self.graph.functions_of_objects()
        yield
        shutil.rmtree(self.base)

    def refused(self, words: str) -> str:
        text = refusal_of(self.graph.save()) or ""
        assert re.search(words, text), text
        assert str(self.graph.folder) in text
        assert "safe_mode=False" in text or "Copy" in text
        return text

    def written(self) -> set[str]:
        found = {each.name for each in self.outside.iterdir() if each.read_text() == TEXT}
        for each in self.outside.iterdir():
            each.unlink()
        return found
