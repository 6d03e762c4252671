"""Functions of many eager tensors, run by one op in place of several for each tensor."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from mpls.core.fast import choices
from mpls.upstream import kinds_of, quick_call

# To trace a function takes as long as dozens of steps without it: it has to be worth it.
_CALLS_BEFORE = 2
_MOST_FUNCTIONS = 16


class OneCall:
    """A function of tensors that becomes one op once it is called again and again with the same kinds of tensors.

    That is in eager mode; in graphs, and wherever one op cannot do it, the function runs as it is written.

    Args:
        fn: gets a list of dense tensors and returns one. Of floats it does the same with tensors of a graph as with
            eager ones, depends on nothing else, and has no side effects.
    """

    def __init__(self, fn: Callable[[list[Any]], list[Any]]) -> None:
        self._fn = fn
        self._lock = threading.Lock()
        # The function for each list of kinds, or the number of calls without one; the latest used last.
        self._functions: OrderedDict[Any, Any] = OrderedDict()

    def __call__(self, tensors: list[Any], varying: Sequence[int] = ()) -> list[Any]:
        """Return what the function returns.

        Args:
            tensors: its argument.
            varying: places of tensors whose shape is another one in each call.
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
            # They are no gradients, and the errors about them are those of ops that are not traced.
            return self._fn
        shapes = [None if place in varying else tensor.shape for place, tensor in enumerate(tensors)]
        specs = [tf.TensorSpec(shape, tensor.dtype) for shape, tensor in zip(shapes, tensors, strict=True)]
        function = tf.function(lambda *args: self._fn(list(args)), autograph=False)
        with choices.run_at_once():
            return quick_call(function.get_concrete_function(*specs))
