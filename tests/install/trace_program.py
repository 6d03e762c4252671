"""Installs and uninstalls with every pair of options; prints what is left of it in the process, as JSON.

python trace_program.py tf2|keras2|v1
"""

from __future__ import annotations

import builtins
import importlib
import itertools
import json
import os
import sys
import threading
import types
import warnings
from typing import Any

import mpls

WHICH = sys.argv[1]
FRAMEWORKS = ("tensorflow", "keras", "tf_keras")
HOST = ["tf.compat.v1.mixed_precision", "tf.keras.mixed_precision", "tf.keras.optimizers", "tf.train.experimental"]
OPTIONS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "as_of": {"as_of": "2.3"},
    "contrib": {"contrib": True},
    "replace_existing": {"replace_existing": True},
    "report": {"_on_touch": lambda row, where: None},
    "keras": {"keras": 3 if WHICH == "tf2" else 2},
    **({} if WHICH == "tf2" else {"legacy_optimizers": {"legacy_optimizers": True}}),
    **({"v1": {"v1": True}} if WHICH == "v1" else {}),
}


def hooks() -> dict[str, Any]:
    return {
        "finders": list(sys.meta_path),
        "path hooks": list(sys.path_hooks),
        "excepthook": sys.excepthook,
        "threading.excepthook": threading.excepthook,
        "__import__": builtins.__import__,
        "import_module": importlib.import_module,
        "environment": dict(os.environ),
        "sys.path": list(sys.path),
    }


def members() -> dict[str, Any]:
    """Return all that modules of the frameworks and of Python, and classes in them, have."""
    found: dict[str, Any] = {}
    for name, module in list(sys.modules.items()):
        if not isinstance(module, types.ModuleType) or name.partition(".")[0] == "mpls":
            continue
        found[name] = type(module)
        for key, value in list(vars(module).items()):
            found[f"{name}.{key}"] = value
            if isinstance(value, type):
                found |= {f"{name}.{key}.{attribute}": each for attribute, each in list(vars(value).items())}
    return found


def is_of_mpls(value: Any) -> bool:
    own = value if isinstance(value, type | types.FunctionType) else type(value)
    is_layer = "_mpls_layer" in (getattr(value, "__dict__", None) or {})
    return is_layer or str(getattr(own, "__module__", "")).partition(".")[0] == "mpls"


def is_framework(key: str) -> bool:
    return key.partition(".")[0] in FRAMEWORKS


def use() -> None:
    """Ask for names in every way."""
    import tensorflow as tf

    for path in HOST:
        holder = tf
        for part in path.split(".")[1:]:
            holder = getattr(holder, part)
        dir(holder)
        for name in ("LossScaleOptimizer", "DynamicLossScale", "Policy", "experimental", "SGD"):
            getattr(holder, name, None)
    if mpls.installed():
        importlib.import_module("tensorflow.keras.mixed_precision.experimental")
    tf.keras.Sequential([tf.keras.layers.Dense(1)]).compile("sgd", "mse")


def main() -> None:
    if WHICH == "keras2":
        os.environ["TF_USE_LEGACY_KERAS"] = "1"
    before = hooks()
    if WHICH == "v1":
        mpls.install(v1=True, keras=2)
    for name in ("keras", "tf_keras", "mpls.contrib", "mpls.experimental", "mpls.keras", "mpls.v1"):
        importlib.import_module(name)
    # What the frameworks load, and set, when they are first used.
    use()
    mpls.uninstall()
    importlib.import_module("tensorflow.keras.mixed_precision")
    by_the_program = {} if WHICH == "v1" else hooks()
    before |= by_the_program
    members_before = members()
    for pair in itertools.combinations_with_replacement(OPTIONS, 2):
        mpls.install(**{key: value for name in pair for key, value in OPTIONS[name].items()} | needed(pair))
        use()
        mpls.uninstall()
    after, members_after = hooks(), members()
    # Frameworks add finders and variables of the environment when they are loaded.
    of_frameworks = () if by_the_program else ("environment", "finders")
    left = [key for key in before if before[key] != after[key] and key not in of_frameworks]
    left += [repr(each) for each in after["finders"] if is_of_mpls(each)]
    left += [
        key
        for key, value in members_before.items()
        if is_framework(key) and isinstance(value, type | types.FunctionType | types.ModuleType | classmethod)
        if members_after.get(key) is not value
    ]
    left += [key for key, value in members_after.items() if key not in members_before and is_of_mpls(value)]
    left += [key for key, value in members_after.items() if is_framework(key) and is_of_mpls(value)]
    print(json.dumps({"left": sorted(set(left)), "seen": len(members_before)}))


def needed(pair: tuple[str, str]) -> dict[str, Any]:
    """Return what an option asks for, in a process that behaves so already."""
    return {"keras": 2} if "legacy_optimizers" in pair else {}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
