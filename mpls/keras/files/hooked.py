"""Where the hooks of `model_hooks` go: the functions of the frameworks that make the parts of a model."""

from __future__ import annotations

from collections.abc import Iterator

from mpls.keras.files.model_hooks import (
    noting_attempts,
    noting_calls,
    noting_constants,
    noting_indices,
    noting_lookups,
    noting_ops,
    noting_orthogonal,
    noting_repeats,
    noting_shapes,
    noting_tensors,
    noting_values,
    noting_variables,
)
from mpls.patches import Target
from mpls.upstream.model_loaders import (
    classes_of_symbolic_tensors,
    evaluators_of_constants,
    layer_classes_of_tf_keras,
    locally_connected,
    makers_of_networks,
    makers_of_ops,
    makers_of_shapes,
    normalizations,
    orthogonals,
    policy_maps,
    repeaters_of_tf_keras,
    variable_class_of_keras,
)

__all__ = ["hooked"]


def hooked() -> Iterator[Target]:
    """Yield each function of a framework that is loaded, and what is put in its place."""
    variable = variable_class_of_keras()
    if variable is not None:
        yield variable, "__init__", noting_variables
    for (owner, name), noting in (
        *((each, noting_ops) for each in makers_of_ops()),
        *((each, noting_values) for each in evaluators_of_constants()),
        *((each, noting_shapes) for each in makers_of_shapes()),
        *((each, noting_repeats) for each in repeaters_of_tf_keras()),
        *((each, noting_attempts) for each in makers_of_networks()),
    ):
        yield owner, name, noting
    for classes, method, noting in (
        (classes_of_symbolic_tensors(), "__init__", noting_tensors),
        (layer_classes_of_tf_keras(), "__call__", noting_calls),
        (normalizations(), "build", noting_constants),
        (locally_connected(), "build", noting_indices),
        (orthogonals(), "__call__", noting_orthogonal),
        (policy_maps(), "__getitem__", noting_lookups),
    ):
        for cls in classes:
            yield cls, method, noting
