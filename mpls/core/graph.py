"""How the code of mpls stands in users' graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import tensorflow as tf

_F = TypeVar("_F", bound=Callable[..., Any])


def as_written(fn: _F) -> _F:
    """Keep AutoGraph from rewriting a function that users call inside `tf.function`.

    There is nothing in mpls to rewrite, as there is nothing in TensorFlow and Keras, which AutoGraph leaves alone by
    name: rewriting costs time at every trace.
    """
    return cast(_F, tf.autograph.experimental.do_not_convert(fn))
