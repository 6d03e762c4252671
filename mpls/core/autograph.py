"""What mpls asks of AutoGraph, which rewrites functions that users call inside `tf.function`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import tensorflow as tf

_F = TypeVar("_F", bound=Callable[..., Any])


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
