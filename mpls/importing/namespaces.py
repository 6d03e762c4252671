"""Maps modules of today to the historical namespaces: a namespace has several modules, and a module several names."""

from __future__ import annotations

from functools import cache

from mpls.names import NAMES, Name, module_of, namespaces

CONTRIB = "tf.contrib"

# Prefixes of module names, and the prefixes of the paths that the modules stand for. tf.keras has a module for each
# spelling; Keras 3 and tf_keras also have the modules that their own users import.
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


@cache
def hosts() -> dict[str, tuple[str, ...]]:
    """Return the paths of the namespaces that each module stands for, by module name, most specific spelling first.

    Parents of namespaces are included, even if they hold no historical name themselves.
    """
    parts = [name.path.split(".") for name in NAMES]
    paths = {".".join(each[:count]): None for each in parts for count in range(1, len(each))}
    paths.update({name.path: None for name in NAMES if name.is_namespace})
    found: dict[str, list[str]] = {}
    for path in paths:
        for module in sorted(_modules_of(path)):
            found.setdefault(module, []).append(path)
    return {module: tuple(sorted(paths, key=lambda path: module_of(path) != module)) for module, paths in found.items()}


@cache
def members(module: str) -> dict[str, Name]:
    """Return the rows of a module's historical names, by attribute."""
    rows = namespaces()
    found: dict[str, Name] = {}
    for path in hosts().get(module, ()):
        for name in rows.get(path, ()):
            found.setdefault(name.attribute, name)
    return found


def is_namespace(module: str, with_contrib: bool) -> bool:
    """Return whether a module may be put back: it is a namespace, or contains one."""
    return any(with_contrib or not _is_in(path, CONTRIB) for path in hosts().get(module, ()))


def is_listed(name: Name) -> bool:
    """Return whether `dir` of the parent listed a name: private modules in public ones could only be imported."""
    return not (name.is_private and name.is_namespace and name.parent in _public_parents())


@cache
def _public_parents() -> frozenset[str]:
    return frozenset(name.parent for name in NAMES if not name.is_private)
