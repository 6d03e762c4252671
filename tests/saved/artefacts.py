"""The recorded artefacts, and what their writers held."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np

DATA = pathlib.Path(__file__).resolve().parents[1] / "artefacts" / "data"
ARTEFACTS = sorted(path.parent for path in DATA.glob("artefacts/*/*/expected.json"))
CONFIGS = sorted(DATA.glob("configs/*.json"))


def name_of(folder: pathlib.Path) -> str:
    """Return an artefact's name, as `'keras_h5.momentum/tf23.exp'`."""
    return f"{folder.parent.name}/{folder.name}"


def expected(folder: pathlib.Path) -> dict[str, Any]:
    return dict(json.loads((folder / "expected.json").read_text()))


def path_of(folder: pathlib.Path) -> str:
    """Return what a user would name: a checkpoint's prefix, a file or a folder."""
    held = expected(folder)
    return str(folder / (held.get("prefix") or held["path"]))


def family_of(folder: pathlib.Path) -> str:
    flavour = folder.name.partition(".")[2]
    return {"": "v1", "lso3": "new", "k3": "keras3"}.get(flavour, "legacy")


def slots_of(folder: pathlib.Path) -> list[tuple[str, str, Any]]:
    """Return the slots that the writer held: `(variable, slot, value)`; in Keras 3 slashes are underscores."""
    state, family = expected(folder)["state"], family_of(folder)
    found = []
    for name, value in (state["slots"] if "slots" in state else state["opt_weights"]).items():
        # Those of optimizers without slots by name are listed with their numbers.
        plain = name.partition(":")[0] if "opt_weights" in state else name.rpartition(":")[2]
        if plain.rpartition("/")[2] in ("iter", "iteration", "learning_rate"):
            continue
        variable, slot = _split(plain, family)
        found.append((variable, slot, np.array(value, np.float32)))
    return sorted(found, key=lambda each: each[:2])


def _split(name: str, family: str) -> tuple[str, str]:
    if family == "new":
        slot, _, variable = name.partition("/")
        # The scope of an optimizer that was not wrapped.
        return _split(variable, family) if slot == "Adam" else (variable, slot)
    if family == "keras3":
        variable, _, slot = name.rpartition("/")[2].rpartition("_")
        return variable, slot
    variable, _, slot = name.rpartition("/")
    return variable.removeprefix("cond_1/").removeprefix("SGD/").removeprefix("Adam/"), slot
