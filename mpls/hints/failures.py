"""The facts about an uncaught error that the hints look at."""

from __future__ import annotations

import dis
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from mpls.hints.sites import Site

__all__ = ["Failure"]

_V2_API = "tensorflow._api.v2"


@dataclass(frozen=True)
class Failure:
    """An error and its circumstances.

    Attributes:
        error: the error; for one inside a `tf.function`, the original that TensorFlow rewrote.
        shown: the error as it is shown.
        site: the place in the user's code.
        settings: the arguments of `install` that apply.
    """

    error: BaseException
    shown: BaseException
    site: Site
    settings: Mapping[str, Any]

    @property
    def missing(self) -> tuple[Any, str]:
        """The object that lacks an attribute, and the attribute's name; None and "" for any other error."""
        is_missing = isinstance(self.error, AttributeError) and isinstance(self.error.name, str)
        return (self.error.obj, self.error.name) if is_missing else (None, "")  # type: ignore[attr-defined]

    @property
    def has_no_keras_2(self) -> bool:
        """Whether the program runs without `keras=2`."""
        return self.settings.get("keras") != 2

    @property
    def is_of_the_program(self) -> bool:
        """Whether the program itself deleted the missing name, which the module's own code binds."""
        holder, attribute = self.missing
        names: tuple[str, ...] = (attribute,)
        if isinstance(self.error, ImportError):
            module, names = self.site.imports
            holder = sys.modules.get(module)
        return isinstance(holder, ModuleType) and names != () and _made_by(holder).issuperset(names)

    @property
    def missing_paths(self) -> tuple[str, ...]:
        """The paths in TensorFlow that were not found, with the rest of the expression: `tf.contrib.slim.nets`."""
        module, names = self.site.imports
        if isinstance(self.error, ImportError):
            name = getattr(self.error, "name", None) or ""
            path = module if f"{module}.".startswith(f"{name}.") else name
            paths = [f"{path}.{each}" for each in names] if path == module and names else [path]
        else:
            holder, attribute = self.missing
            if not isinstance(holder, ModuleType):
                return ()
            rest = self.site.reads[self.site.reads.index(attribute) :] if attribute in self.site.reads else (attribute,)
            paths = [".".join((holder.__name__, *rest))]
        return tuple(_short(each) for each in paths if each.partition(".")[0] == "tensorflow")


def _made_by(module: ModuleType) -> set[str]:
    """Return the names that a module's code binds and does not delete again."""
    spec = vars(module).get("__spec__")
    get_code = getattr(getattr(spec, "loader", None), "get_code", None)
    code = None if spec is None or get_code is None else get_code(spec.name)
    if code is None:
        return set()
    steps = [(each.opname, each.argval) for each in dis.get_instructions(code)]
    return {name for step, name in steps if step == "STORE_NAME"} - {
        name for step, name in steps if step == "DELETE_NAME"
    }


def _short(path: str) -> str:
    for prefix in (_V2_API, "tensorflow.compat.v1", "tensorflow.compat.v2", "tensorflow"):
        if f"{path}.".startswith(f"{prefix}."):
            return f"tf{path[len(prefix) :]}"
    return path
