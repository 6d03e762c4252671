"""Loads files and configs by their own frameworks' loaders, with or without mpls in the process.

    python loading_natively.py WHEN FOLDER CONFIGS BACK

WHEN: `without` mpls, which cannot be imported then; mpls.keras imported `after` the frameworks, with wrappers made; or
`installed`. Files are called `<framework>-<what>.<ending>`. Without mpls, the models take a step and are saved to BACK.
Prints a JSON object: by file or config, what came of it.
"""

from __future__ import annotations

import copy
import json
import pathlib
import sys
import warnings
from importlib import import_module
from typing import Any

import numpy as np

WHEN, FOLDER, CONFIGS, BACK = sys.argv[1], *map(pathlib.Path, sys.argv[2:])


class NoMpls:
    """Finds no mpls."""

    def find_spec(self, name: str, *args: Any) -> None:
        if name.partition(".")[0] == "mpls":
            raise ModuleNotFoundError(f"There is no {name} here")


def described(optimizer: Any) -> Any:
    if not hasattr(optimizer, "inner_optimizer"):
        return repr(type(optimizer))
    scale = optimizer.loss_scale if hasattr(optimizer, "loss_scale") else optimizer.dynamic_scale
    counter = optimizer.dynamic_counter if hasattr(optimizer, "dynamic_counter") else optimizer.step_counter
    inner = optimizer.inner_optimizer
    variables = inner.variables() if callable(inner.variables) else inner.variables
    bases = [f"{base.__module__}.{base.__name__}" for base in type(optimizer).__mro__]
    return {
        "bases": bases,
        "config": json.loads(json.dumps(optimizer.get_config(), default=float)),
        "inner": type(inner).__name__,
        "scale": float(scale),
        "good_steps": None if counter is None else int(counter),
        "iterations": int(inner.iterations),
        "slots": sorted(float(each.numpy().sum()) for each in variables if each.shape.rank),
    }


def tried(function: Any, *args: Any, **kwargs: Any) -> Any:
    try:
        found = function(*args, **kwargs)
        return found if isinstance(found, dict) else described(found)
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:60]}"


def load(path: pathlib.Path) -> Any:
    framework = import_module(path.name.partition("-")[0])
    model = framework.models.load_model(str(path))
    found = described(model.optimizer)
    # In Keras 3, no optimizer of an H5 file trains.
    if WHEN == "without" and (framework.__name__ == "tf_keras" or path.suffix == ".keras"):
        model.train_on_batch(np.ones((2, 1), np.float32), np.zeros((2, 1), np.float32))
        model.save(str(BACK / path.name))
    return found


def configs() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in sorted(CONFIGS.glob("*.json")):
        serialized = json.loads(path.read_text())["serialized"]
        if serialized is None:
            continue
        optimizers = import_module("keras" if path.stem.endswith(".k3") else "tf_keras").optimizers
        for name in ("deserialize", "get"):
            found[f"{path.stem} {name}"] = tried(getattr(optimizers, name), copy.deepcopy(serialized))
        # Anew, from what the framework has just made, by the class itself.
        optimizer = optimizers.deserialize(copy.deepcopy(serialized))
        found[f"{path.stem} from_config"] = tried(type(optimizer).from_config, optimizer.get_config())
    return found


def main() -> None:
    if WHEN == "without":
        sys.meta_path.insert(0, NoMpls())
    elif WHEN == "installed":
        import_module("mpls").install()
        import_module("mpls.keras")
    import keras
    import tf_keras

    if WHEN == "after":
        wrapper = import_module("mpls.keras").LossScaleOptimizer
        made = [
            wrapper(each()) for each in (tf_keras.optimizers.legacy.SGD, tf_keras.optimizers.SGD, keras.optimizers.SGD)
        ]
        assert len({type(each) for each in made}) == 3
    registered = {module.__name__: sorted(module.saving.get_custom_objects()) for module in (keras, tf_keras)}
    found = {
        **{path.name: tried(load, path) for path in sorted(FOLDER.iterdir())},
        **configs(),
        "registered": registered,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
