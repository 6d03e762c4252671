"""Has the Python processes that a program starts get the names too, with the same settings."""

from __future__ import annotations

import json
import os
import runpy
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from mpls.importing.finding import when_loaded
from mpls.importing.tf1 import behave_as_v1
from mpls.install import install
from mpls.patches import Layer

__all__ = ["ENVIRONMENT", "begin", "begin_here", "hand_down_to_all"]

# Holds the settings, for processes that know of their parent by the environment only.
ENVIRONMENT = "MPLS_CHILDREN"
_HERE = Path(__file__).parent
# The modules by which a parent says to a child what it needs to know; joblib brings its own.
_PREPARING = ("multiprocessing.spawn", "loky.backend.spawn", "joblib.externals.loky.backend.spawn")
_FORK_SERVER = "multiprocessing.forkserver"


def begin(settings: Mapping[str, Any], **for_this_process: Any) -> None:
    """Put the names back in this process, and have workers that `multiprocessing` or joblib starts do the same.

    Args:
        settings: arguments of `install`, which JSON can hold.
        for_this_process: more arguments of `install`.
    """
    install(**settings, **for_this_process)
    for name in _PREPARING:
        when_loaded(name, lambda module: _add_to_preparation(module, settings))


def begin_here(settings: Mapping[str, Any]) -> None:
    """Do what `begin` does in a process that was started by one where it was done; a second time, nothing."""
    if settings not in _begun:
        _begun.append(settings)
        if settings["v1"]:
            # A pickle may import tensorflow.compat.v1, by that name, before any module of the program is there.
            when_loaded("tensorflow", lambda _: behave_as_v1())
        begin(settings)


# What has begun in this process, which may hear of it in two ways.
_begun: list[Mapping[str, Any]] = []


def hand_down_to_all(settings: Mapping[str, Any]) -> None:
    """Have every Python process of the same installation begin like this one, by the environment that it inherits."""
    os.environ[ENVIRONMENT] = json.dumps({"prefix": sys.prefix, "settings": settings})
    paths = [str(_HERE / "site"), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)


class _Arrival:
    """Has the process that unpickles it begin. Only what is in Python itself need be found there."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = dict(settings)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return runpy.run_path, (str(_HERE / "site" / "arriving.py"), {"SETTINGS": self._settings})


def _add_to_preparation(module: ModuleType, settings: Mapping[str, Any]) -> None:
    def make(layer: Layer) -> Any:
        def get_preparation_data(*args: Any, **kwargs: Any) -> Any:
            data = layer.original(*args, **kwargs)
            caller = sys._getframe(1).f_globals.get("__name__")
            if caller == _FORK_SERVER:
                # It would import the main module itself, without the names, before it starts processes that have them.
                return {key: value for key, value in data.items() if not key.startswith(("init_main", "main"))}
            # It is unpickled before the main module is imported.
            return {**data, "mpls": _Arrival(settings)}

        return get_preparation_data

    Layer(module, "get_preparation_data", make)
