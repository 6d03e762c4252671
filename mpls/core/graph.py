"""How the code of mpls stands in users' graphs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import tensorflow as tf

_F = TypeVar("_F", bound=Callable[..., Any])

_IDENTITIES = frozenset({"Identity", "IdentityN"})


def as_written(fn: _F) -> _F:
    """Keep AutoGraph from rewriting a function that users call inside `tf.function`.

    mpls needs no rewriting, which takes time at every trace. AutoGraph skips TensorFlow and Keras by module name; mpls
    has to ask for it.
    """
    unconverted = tf.autograph.experimental.do_not_convert(fn)

    # `wraps` copies the attribute by which AutoGraph knows it; eager calls skip the overhead of `do_not_convert`.
    @functools.wraps(unconverted)
    def written(*args: Any, **kwargs: Any) -> Any:
        return (fn if tf.executing_eagerly() else unconverted)(*args, **kwargs)

    return cast(_F, written)


def behind_identities(values: Any) -> Any:
    """Return tensors of a graph without the identities that they have come through.

    TensorFlow hands gradients through one identity together, so that none is there before all are, when Keras sums
    them over a single replica. An identity that waits for other ops, or that copies to another device, stays.

    Args:
        values: nested structure of tensors, `tf.IndexedSlices` among them, and None.
    """
    return tf.nest.map_structure(_behind_identities, values, expand_composites=True)


def _behind_identities(tensor: Any) -> Any:
    # Tensors of eager mode, which functions capture, have none.
    op = getattr(tensor, "op", None)
    while op is not None and op.type in _IDENTITIES and not op.control_inputs:
        source = op.inputs[tensor.value_index]
        if source.device != tensor.device:
            break
        tensor, op = source, source.op
    return tensor
