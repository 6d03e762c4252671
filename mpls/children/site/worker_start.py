"""Runs in a worker, by its path and with SETTINGS, before the worker imports anything of the program."""

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

_ROOT = str(Path(__file__).parents[3])
_found = find_spec("mpls")
# The parent may have it from a place that is not on the path of a new interpreter, or behind another.
_is_elsewhere = _found is None or _found.origin is None or Path(_found.origin).parents[1] != Path(_ROOT)

if _is_elsewhere:
    sys.path.insert(0, _ROOT)
_children = import_module("mpls.children")
if _is_elsewhere:
    sys.path.remove(_ROOT)

_children.begin_here(globals()["SETTINGS"])
