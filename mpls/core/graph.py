"""How the code of mpls stands in users' graphs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import tensorflow as tf

_F = TypeVar("_F", bound=Callable[..., Any])


def as_written(fn: _F) -> _F:
    """Keep AutoGraph from rewriting a function that users call inside `tf.function`.

    There is nothing in mpls to rewrite, as there is nothing in TensorFlow and Keras, which AutoGraph leaves alone by
    name: rewriting costs time at every trace.
    """
    unconverted = tf.autograph.experimental.do_not_convert(fn)

    # It has what marks the other one for AutoGraph, and spares calls in eager mode what that one does.
    @functools.wraps(unconverted)
    def written(*args: Any, **kwargs: Any) -> Any:
        return (fn if tf.executing_eagerly() else unconverted)(*args, **kwargs)

    return cast(_F, written)
