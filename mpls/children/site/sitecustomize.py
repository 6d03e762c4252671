"""Runs when Python starts, with `mpls run --children`, and after it the module of this name that would have run."""

import json
import os
import runpy
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _run_that_of_others() -> None:
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != _HERE]
    ours = sys.modules.pop("sitecustomize")
    try:
        import sitecustomize  # type: ignore[import-not-found]  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != "sitecustomize":
            raise
        sys.modules["sitecustomize"] = ours


def _begin() -> None:
    told = json.loads(os.environ.get("MPLS_CHILDREN", "null"))
    # Another environment has packages of its own.
    if told is not None and told["prefix"] == sys.prefix:
        runpy.run_path(os.path.join(_HERE, "worker_start.py"), {"SETTINGS": told["settings"]})


_run_that_of_others()
_begin()
