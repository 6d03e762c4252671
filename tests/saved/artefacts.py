"""The recorded artefacts, and what their writers held."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np

from tests.artefacts.replay import Artefact, artefacts

DATA = pathlib.Path(__file__).resolve().parents[1] / "artefacts" / "data"
ARTEFACTS = artefacts("v1_saver", "v1_object", "keras_object", "keras_model")
CONFIGS = sorted(DATA.glob("configs/*.json"))


def slots_of(artefact: Artefact) -> list[tuple[str, str, Any]]:
    """Return the slots that the writer held: `(variable, slot, value)`; in Keras 3 slashes are underscores."""
    state = artefact.expected["state"]
    found = []
    for name, value in (state["slots"] if "slots" in state else state["opt_weights"]).items():
        # Those of optimizers without slots by name are listed with their numbers.
        plain = name.partition(":")[0] if "opt_weights" in state else name.rpartition(":")[2]
        if plain.rpartition("/")[2] in ("iter", "iteration", "learning_rate"):
            continue
        variable, slot = _split(plain, artefact.family)
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
