"""Has `import tensorflow` mean `tensorflow.compat.v1` in the user's own code."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

__all__ = ["behave_as_v1", "find_v1", "leave_as_is"]


def find_v1(name: str, names: Sequence[str] = ()) -> ModuleType | None:
    """Return what TF 1 had under the name of a module; None for one that is not in its API, as `tensorflow.python`.

    The behaviour of TF 2 has been turned off then.

    Args:
        name: the name.
        names: what is imported from it.
    """
    module: Any = _v1()
    for attribute in name.split(".")[1:]:
        module = getattr(module, attribute, None)
        if not isinstance(module, ModuleType):
            return None
    if names and module is not _v1():
        # Modules that are put back are attributes too once they are asked for.
        __import__(module.__name__, fromlist=names)
    found: ModuleType = module
    return found


def behave_as_v1() -> None:
    """Turn the behaviour of TF 2 off, of TensorFlow, which is loaded, whoever has imported it."""
    _v1()


def leave_as_is() -> None:
    """Have TensorFlow, which is loaded and behaves as TF 1, go on to behave as the program says."""
    _behaviour.is_settled = True


def _v1() -> Any:
    v1: Any = import_module("tensorflow.compat.v1")
    _behaviour.settle(v1)
    return v1


class _Behaviour:
    """The behaviour of TF 2, which goes off once in a process; what the program turns on after that stays on.

    Attributes:
        is_settled: whether that is done.
    """

    def __init__(self) -> None:
        self.is_settled = False
        self._lock = threading.Lock()
        # Each thread has an eager mode of its own; those that were there before may have it on still.
        self._older: weakref.WeakSet[threading.Thread] = weakref.WeakSet()

    def settle(self, v1: Any) -> None:
        """Turn it off, in the process once, and in each thread that was there before once."""
        thread = threading.current_thread()
        if self.is_settled and thread not in self._older:
            return
        # It imports TensorFlow, which is loaded by now.
        from mpls.upstream import behavior as upstream

        with self._lock:
            if not self.is_settled:
                self._turn_off(v1, upstream)
            if thread in self._older:
                self._older.discard(thread)
                # Where it is the default again, the program has enabled it.
                if not upstream.is_eager_by_default():
                    v1.disable_eager_execution()

    def _turn_off(self, v1: Any, upstream: Any) -> None:
        if upstream.is_v2_behavior_on():
            self._older.update(threading.enumerate())
            # It logs that it is deprecated itself.
            logger = v1.get_logger()
            level = logger.level
            logger.setLevel("ERROR")
            v1.disable_v2_behavior()
            logger.setLevel(level)
        self.is_settled = True


_behaviour = _Behaviour()
