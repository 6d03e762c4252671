"""Loads every model in a folder by its own framework, where mpls cannot be imported, trains a step and saves it again.

    python without_mpls.py FOLDER

Files are called `<framework>-<what>.<ending>`. Prints a JSON object: by file, what was found, or the error.
"""

from __future__ import annotations

import json
import pathlib
import sys
import warnings
from importlib import import_module
from typing import Any


class NoMpls:
    """Finds no mpls."""

    def find_spec(self, name: str, *args: Any) -> None:
        if name.partition(".")[0] == "mpls":
            raise ModuleNotFoundError(f"There is no {name} here")


def state_of(model: Any) -> dict[str, Any]:
    optimizer = model.optimizer
    scale = optimizer.loss_scale if hasattr(optimizer, "loss_scale") else optimizer.dynamic_scale
    inner = optimizer.inner_optimizer
    variables = inner.variables() if callable(inner.variables) else inner.variables
    values = [variable.numpy() for variable in variables]
    counter = optimizer.dynamic_counter if hasattr(optimizer, "dynamic_counter") else optimizer.step_counter
    return {
        "class": f"{type(optimizer).__module__.partition('.')[0]} {type(optimizer).__name__}",
        "scale": float(scale),
        "good_steps": None if counter is None else int(counter),
        "iterations": int(inner.iterations),
        "slots": sorted(float(value.sum()) for value in values if value.ndim),
        "weights": [float(value.sum()) for value in model.get_weights()],
    }


def main() -> None:
    sys.meta_path.insert(0, NoMpls())
    import numpy as np

    found: dict[str, Any] = {}
    for path in sorted(pathlib.Path(sys.argv[1]).iterdir()):
        framework = import_module(path.name.partition("-")[0])
        try:
            model = framework.models.load_model(str(path))
            found[path.name] = state_of(model)
            if framework.__name__ == "keras" and path.suffix == ".h5":
                # No optimizer of such a file trains there.
                continue
            model.train_on_batch(np.ones((2, 1), np.float32), np.zeros((2, 1), np.float32))
            model.save(str(path.with_name(path.name.replace("-", "-back_"))))
        except Exception as error:
            found[path.name] = {"error": repr(error)}
    assert "mpls" not in sys.modules
    print(json.dumps(found))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
