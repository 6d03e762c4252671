"""Where modules of the historical API are today: one namespace has several modules, and a module several names."""

from __future__ import annotations

from functools import cache

from mpls.names import NAMES, Name, module_of, namespaces

__all__ = ["CONTRIB", "hosts", "is_listed", "is_namespace", "members"]

CONTRIB = "tf.contrib"

# The name of a module begins with -> the path of what it holds begins with. Of tf.keras there is a module for each
# spelling, and Keras 3 and tf_keras have those that their own users import.
_PREFIXES = (
    ("tensorflow", "tf"),
    ("tensorflow._api.v2", "tf"),
    ("keras", "tf.keras"),
    ("keras.api", "tf.keras"),
    ("keras._tf_keras.keras", "tf.keras"),
    ("tf_keras", "tf.keras"),
    ("tf_keras.api._v2.keras", "tf.keras"),
    ("tf_keras.api._v1.keras", "tf.compat.v1.keras"),
    ("keras", "keras"),
    ("tf_keras", "tf_keras"),
)


def _is_in(path: str, parent: str) -> bool:
    return path == parent or path.startswith(f"{parent}.")


def _modules_of(path: str) -> set[str]:
    """Return the names of all modules that a namespace may have."""
    found = {prefix + path[len(root) :] for prefix, root in _PREFIXES if _is_in(path, root)}
    return found | {module_of(path)}


def _ancestors(path: str) -> list[str]:
    parts = path.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


@cache
def hosts() -> dict[str, tuple[str, ...]]:
    """Return, by the name of a module, the paths of the namespaces that it stands for, most specific spelling first.

    Modules that hold no historical name, but a namespace that does, are among them.
    """
    paths = {ancestor: None for name in NAMES for ancestor in _ancestors(name.path)}
    paths.update({name.path: None for name in NAMES if name.is_namespace})
    found: dict[str, list[str]] = {}
    for path in paths:
        for module in sorted(_modules_of(path)):
            found.setdefault(module, []).append(path)
    return {module: tuple(sorted(paths, key=lambda path: module_of(path) != module)) for module, paths in found.items()}


@cache
def members(module: str) -> dict[str, Name]:
    """Return the rows of what a module has, by attribute."""
    rows = namespaces()
    found: dict[str, Name] = {}
    for path in hosts().get(module, ()):
        for name in rows.get(path, ()):
            found.setdefault(name.attribute, name)
    return found


def is_namespace(module: str, with_contrib: bool) -> bool:
    """Return whether a module is one that may be put back: a namespace, or what it is in."""
    return any(with_contrib or not _is_in(path, CONTRIB) for path in hosts().get(module, ()))


def is_listed(name: Name) -> bool:
    """Return whether what a name was in listed it: private modules in public ones were found by imports only."""
    return not (name.is_private and name.is_namespace and name.parent in _public_parents())


@cache
def _public_parents() -> frozenset[str]:
    return frozenset(name.parent for name in NAMES if not name.is_private)
