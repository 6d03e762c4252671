"""What a program does with the class of the experimental wrapper itself, beside calling it."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mpls.core.releases import behavior_of
from mpls.migrate.class_places import Places
from mpls.migrate.replacements import home_of
from mpls.migrate.ruling import Use
from mpls.names import namespaces
from mpls.program.scopes import Chain, Role

if TYPE_CHECKING:
    from mpls.migrate.analysis import Analysis

__all__ = ["class_values", "is_of_loaded", "is_through_unsure"]

_TARGET = "mpls.experimental:LossScaleOptimizer"
# Members of a module that give what is in it.
_READS = ("__dict__", "__getattribute__")


def class_values(analysis: Analysis) -> tuple[ast.expr | ast.alias, ...]:
    """Return where the class is, or a removed module that has it, of which a test may ask that is not rewritten.

    That is where it is compared, as in `type(opt) is C`, and in dictionaries, tuples, arguments and the like, from
    where it may get to a test of any kind. The objects that the file makes are then to be of that class, and not of
    the public one. It is not where it is called, annotates or is derived from, where `isinstance` gets the public
    class in its place, and where it gets another name whose uses are followed.

    Args:
        analysis: the file.
    """
    places = Places(analysis.text.tree)
    return (*_values(analysis, places), *_modules(analysis, places), *_imported_in_classes(analysis))


def _values(analysis: Analysis, places: Places) -> Iterator[ast.expr]:
    for use, _ in analysis.uses:
        if not any(row.target == _TARGET for row in use.rows):
            continue
        if use.role is Role.VALUE:
            is_value = places.is_value(use.node, use.chain.region)
        elif use.role is Role.ANNOTATION:
            is_value = places.dispatches(use.node)
        else:
            # It asks for what the name stands for, if that cannot be replaced by the public class.
            is_value = use.role is Role.TYPE_TEST and not _is_whole(use, analysis)
        if is_value:
            yield use.node


def _modules(analysis: Analysis, places: Places) -> Iterator[ast.expr]:
    for chain in analysis.survey.chains:
        whole = chain.parts[-1]
        is_read = chain.names[-1] in _READS and _is_module(chain, analysis, above=1)
        if is_read or (
            chain.role is Role.VALUE and _is_module(chain, analysis) and places.is_value(whole, chain.region)
        ):
            yield whole


def _is_module(chain: Chain, analysis: Analysis, above: int = 0) -> bool:
    """Return whether a chain, or what is so many attributes above its end, may be a module that has the class."""
    node = chain.parts[-1 - above] if len(chain.parts) > above else None
    start = analysis.meanings.name(chain.names[0], chain.region)
    if node is None or not start.paths:
        return False
    return not (_modules_with_class() | _modules_with_module()).isdisjoint(
        analysis.meanings.of(node, chain.region).paths
    )


def _imported_in_classes(analysis: Analysis) -> Iterator[ast.alias]:
    """Yield what is imported as an attribute of a class, whose reads are not followed."""
    for statement, region in analysis.survey.imports:
        assert isinstance(statement.node, ast.Import | ast.ImportFrom)
        for alias in statement.node.names if region.is_class else ():
            path = "" if alias.name == "*" else analysis.meanings.path_of(alias)
            if path in _modules_with_class() or path in _classes():
                yield alias


@functools.cache
def _classes() -> frozenset[str]:
    return frozenset(row.path for rows in namespaces().values() for row in rows if row.target == _TARGET)


@functools.cache
def _modules_with_class() -> frozenset[str]:
    """Return the modules that TensorFlow has removed and that had the class."""
    paths = {path.rpartition(".")[0] for path in _classes()}
    return frozenset(path for path in paths if home_of(path) is not None)


@functools.cache
def _modules_with_module() -> frozenset[str]:
    """Return the modules from which those that had the class are read, such as `tf.keras`; not TensorFlow itself."""
    parents = {path.rpartition(".")[0] for path in _modules_with_class()}
    parents |= {path.rpartition(".")[0] for path in parents}
    return frozenset(path for path in parents if "." in path)


def is_through_unsure(use: Use, analysis: Analysis) -> bool:
    """Return whether a use is an attribute of what may be something else, or unbound.

    Args:
        use: the use.
        analysis: the file.
    """
    return use.node is not use.chain.parts[0] and not _is_whole(use, analysis)


def _is_whole(use: Use, analysis: Analysis) -> bool:
    return analysis.meanings.of(use.node, use.chain.region).is_whole


def is_of_loaded(use: Use, analysis: Analysis) -> bool:
    """Return whether `isinstance` asks an optimizer of a loaded model, which was no experimental one since TF 2.4.

    `load_model` of TF 2.4 to 2.8 made the public wrapper of what was saved with the experimental one, and so it does
    with the class of mpls. The objects that the file makes have to be of the class too, so that other tests hold.

    Args:
        use: a use of the class in `isinstance`.
        analysis: the file.
    """
    if not behavior_of(analysis.settings.as_of).is_from("2.4") or not analysis.class_values:
        return False
    for test, region in analysis.survey.type_tests:
        asked = test.args[0]
        if use.node is not test.args[1] or not isinstance(asked, ast.Attribute) or asked.attr != "optimizer":
            continue
        bindings = region.find(asked.value.id) if isinstance(asked.value, ast.Name) else []
        return bool(bindings) and all(_is_loading(each.value) for each in bindings)
    return False


def _is_loading(value: object) -> bool:
    function = value.func if isinstance(value, ast.Call) else None
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name == "load_model"
