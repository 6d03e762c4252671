"""Puts the names back in the Python processes that a program starts too, with the same settings."""

from __future__ import annotations

import json
import os
import runpy
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from mpls.importing.post_import import when_loaded
from mpls.importing.tf1 import behave_as_v1
from mpls.install import install
from mpls.patches import Layer

__all__ = ["ENVIRONMENT", "begin", "begin_here", "hand_down_to_all"]

# Environment variable with the settings, for child processes that get nothing else from their parent.
ENVIRONMENT = "MPLS_CHILDREN"
_HERE = Path(__file__).parent
# The modules whose `get_preparation_data` a parent sends to its children; joblib has its own copy.
_PREPARING = ("multiprocessing.spawn", "loky.backend.spawn", "joblib.externals.loky.backend.spawn")
_FORK_SERVER = "multiprocessing.forkserver"


def begin(settings: Mapping[str, Any], **for_this_process: Any) -> None:
    """Put the names back in this process, and in workers that `multiprocessing` or joblib starts.

    Args:
        settings: arguments of `install` that JSON can hold.
        for_this_process: further arguments of `install`, for this process only.
    """
    install(**settings, **for_this_process)
    for name in _PREPARING:
        when_loaded(name, lambda module: _add_to_preparation(module, settings))


def begin_here(settings: Mapping[str, Any]) -> None:
    """Do what `begin` does in a child process; do nothing if it has been done already."""
    if settings not in _begun:
        _begun.append(settings)
        if settings["v1"]:
            # Unpickling may import tensorflow.compat.v1, by that name, before any module of the program is loaded.
            when_loaded("tensorflow", lambda _: behave_as_v1())
        begin(settings)


# The settings that `begin_here` has applied: a process may get them both by its environment and by a pickle.
_begun: list[Mapping[str, Any]] = []


def hand_down_to_all(settings: Mapping[str, Any]) -> None:
    """Have every child process that runs this Python installation begin too, by the environment that it inherits."""
    os.environ[ENVIRONMENT] = json.dumps({"prefix": sys.prefix, "settings": settings})
    paths = [str(_HERE / "site"), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)


class _Arrival:
    """Calls `begin_here` in the process that unpickles it, which at first need only find modules of Python itself."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = dict(settings)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return runpy.run_path, (str(_HERE / "site" / "worker_start.py"), {"SETTINGS": self._settings})


def _add_to_preparation(module: ModuleType, settings: Mapping[str, Any]) -> None:
    def make(layer: Layer) -> Any:
        def get_preparation_data(*args: Any, **kwargs: Any) -> Any:
            data = layer.original(*args, **kwargs)
            caller = sys._getframe(1).f_globals.get("__name__")
            if caller == _FORK_SERVER:
                # The fork server itself has no names, so it must not import the main module for its workers.
                return {key: value for key, value in data.items() if not key.startswith(("init_main", "main"))}
            # The child unpickles this before it imports the main module.
            return {**data, "mpls": _Arrival(settings)}

        return get_preparation_data

    Layer(module, "get_preparation_data", make)
