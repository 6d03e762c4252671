"""What tf_keras' own wrapper calls the variables of a legacy optimizer, for `tf.compat.v1.train.Saver`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import tensorflow as tf

from mpls.core.loss_scale import never_skips
from mpls.core.persistence.savers import StepNames, watch_savers

__all__ = ["scope_of_weights"]


def scope_of_weights(wrapper: Any) -> AbstractContextManager[Any]:
    """Return the name scope in which a wrapped legacy optimizer's variables are to be made.

    They are called as without the wrapper. In a graph, what tf_keras' own wrapper would call them is noted too.
    """
    inner = wrapper._optimizer
    name: str = getattr(inner, "_name", None) or type(inner).__name__
    scope: AbstractContextManager[Any]
    scope = tf.name_scope(name) if tf.executing_eagerly() else _noted(wrapper, name)
    return scope


@contextmanager
def _noted(wrapper: Any, name: str) -> Iterator[None]:
    watch_savers(wrapper)
    is_fixed = never_skips(wrapper._loss_scale)
    names = StepNames(has_conditional=not is_fixed)
    before = _global_variables()
    scope = name
    if is_fixed:
        # The wrapped optimizer enters the scope itself, outside of any conditional, and graphs count that.
        scope = tf.compat.v1.get_default_graph().unique_name(name, mark_as_used=False) + "/"
    with tf.name_scope(scope) as prefix:
        yield
    made = {each.op.name for each in _global_variables()} - {each.op.name for each in before}
    names.note({own: f"{name}/{own.removeprefix(prefix)}" for own in sorted(made) if own.startswith(prefix)})


def _global_variables() -> list[Any]:
    with tf.init_scope():
        # In a function that is traced in eager mode there is nothing to note.
        return [] if tf.executing_eagerly() else list(tf.compat.v1.global_variables())
