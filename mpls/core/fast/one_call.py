"""Functions of many eager tensors, each run as one op."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from mpls.core.fast import choices
from mpls.upstream.tensorflow import kinds_of, quick_call

# Tracing takes as long as dozens of calls without it, so only a third call with the same cache key traces.
_CALLS_BEFORE = 2
_MOST_FUNCTIONS = 16


class OneCall:
    """A function of eager tensors that is traced, and run as one op, once it is called again with such tensors.

    In graphs, and where one op cannot do it, the function runs as it is written.

    Args:
        fn: gets a list of dense tensors and returns one. For floating-point tensors it does the same traced as in eager
            mode; it depends on nothing else and has no side effects.
    """

    def __init__(self, fn: Callable[[list[Any]], list[Any]]) -> None:
        self._fn = fn
        self._lock = threading.Lock()
        # By cache key: the traced function, or the number of calls so far; the last used one at the end.
        self._functions: OrderedDict[Any, Any] = OrderedDict()

    def __call__(self, tensors: list[Any], varying: Sequence[int] = ()) -> list[Any]:
        """Return what the function returns.

        Args:
            tensors: its argument.
            varying: indices of tensors whose shape may differ from call to call; the cache key ignores it.
        """
        function = self._function_for(tensors, varying) if choices.runs_in_one_call(tensors) else None
        return self._fn(tensors) if function is None else function(tensors)

    def _function_for(self, tensors: list[Any], varying: Sequence[int]) -> Any:
        key = kinds_of(tensors, varying)
        with self._lock:
            known = self._functions.get(key, 0)
            if isinstance(known, int):
                known = known + 1 if known < _CALLS_BEFORE else self._traced(tensors, varying)
            self._functions[key] = known
            self._functions.move_to_end(key)
            if len(self._functions) > _MOST_FUNCTIONS:
                self._functions.popitem(last=False)
        return None if isinstance(known, int) else known

    def _traced(self, tensors: list[Any], varying: Sequence[int]) -> Any:
        if not all(tensor.dtype.is_floating for tensor in tensors):
            # They are no gradients; untraced ops raise the errors that users expect.
            return self._fn
        shapes = [None if index in varying else tensor.shape for index, tensor in enumerate(tensors)]
        specs = [tf.TensorSpec(shape, tensor.dtype) for shape, tensor in zip(shapes, tensors, strict=True)]
        function = tf.function(lambda *args: self._fn(list(args)), autograph=False)
        return quick_call(function.get_concrete_function(*specs))
