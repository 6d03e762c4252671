"""The gradients and variables of a step: what they are called, how they are read, and which are measured together."""

from __future__ import annotations

from typing import Any

from mpls.tracing.measures import Measured, groups_of, measured

__all__ = [
    "about_variable",
    "gradient_values",
    "groups_of_gradients",
    "groups_of_variables",
    "measured_by_python",
    "read_variable",
    "sizes_of",
    "stacked",
]


def about_variable(variable: Any) -> Any:
    """Return what a trace says of a variable."""
    name = getattr(variable, "path", None) or variable.name
    return {"name": name.split(":")[0], "shape": sizes_of(variable.shape), "dtype": name_of_dtype(variable.dtype)}


def sizes_of(shape: Any) -> list[Any]:
    """Return the sizes of a shape of TensorFlow or Keras; in TF 1, they are not numbers by themselves."""
    return shape.as_list() if hasattr(shape, "as_list") else list(shape)


def name_of_dtype(dtype: Any) -> str:
    """Return the name of a dtype of TensorFlow or Keras."""
    return dtype if isinstance(dtype, str) else str(dtype.base_dtype.name)


def gradient_values(grad: Any) -> Any:
    """Return the elements of a gradient; of `IndexedSlices`, those that it holds."""
    return grad.values if hasattr(grad, "indices") and hasattr(grad, "values") else grad


def read_variable(tf: Any, variable: Any) -> Any:
    """Return the current value of a variable of any kind; those of Keras 3 have no `read_value`."""
    return variable.read_value() if hasattr(variable, "read_value") else tf.convert_to_tensor(variable)


def groups_of_gradients(pairs: Any) -> list[list[int]]:
    """Return which gradients are measured together, and in the same way the variables."""
    kinds = []
    for grad, variable in pairs:
        values = gradient_values(grad)
        kinds.append((name_of_dtype(values.dtype), sizes_of(variable.shape) if values is grad else None))
    return groups_of(kinds)


def groups_of_variables(variables: Any) -> list[list[int]]:
    """Return which variables are measured together."""
    return groups_of([(name_of_dtype(each.dtype), sizes_of(each.shape)) for each in variables])


def stacked(parts: Any, groups: list[list[int]], stack: Any) -> list[Any]:
    """Return for each group its only part, or what stacks them."""
    return [parts[at[0]] if len(at) == 1 else stack([parts[each] for each in at]) for at in groups]


def measured_by_python(tf: Any, variables: list[Any]) -> Measured:
    """Return what is measured of variables, in eager mode."""
    import numpy as np

    groups = groups_of_variables(variables)
    arrays = [_read_quickly(tf, variable).numpy() for variable in variables]
    return measured(stacked(arrays, groups, np.stack), groups, len(variables))


def _read_quickly(tf: Any, variable: Any) -> Any:
    held = variable if hasattr(variable, "read_value") else getattr(variable, "value", variable)
    if type(held).__name__ != "ResourceVariable":
        return read_variable(tf, variable)
    from tensorflow.python.ops import gen_resource_variable_ops as ops

    return ops.read_variable_op(held.handle, held.dtype)
