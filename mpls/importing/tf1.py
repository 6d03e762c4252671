"""Makes `import tensorflow` mean `tensorflow.compat.v1` in the user's own code."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Any


def find_v1(name: str, names: Sequence[str] = ()) -> ModuleType | None:
    """Return the module that TF 1 had under a name; None for one outside its API, such as `tensorflow.python`.

    It disables TF 2 behaviour first.

    Args:
        name: the module's name.
        names: the names that are imported from it.
    """
    module: Any = _v1()
    for attribute in name.split(".")[1:]:
        module = getattr(module, attribute, None)
        if not isinstance(module, ModuleType):
            return None
    if names and module is not _v1():
        # Modules that are put back become attributes only when they are imported.
        __import__(module.__name__, fromlist=names)
    found: ModuleType = module
    return found


def behave_as_v1() -> None:
    """Disable TF 2 behaviour of TensorFlow, which must be loaded, whichever code imported it."""
    _v1()


def leave_as_is() -> None:
    """Leave TensorFlow, which is loaded and behaves as TF 1, to the program's own settings from now on."""
    _behaviour.is_settled = True


def _v1() -> Any:
    v1: Any = import_module("tensorflow.compat.v1")
    _behaviour.settle(v1)
    return v1


class _Behaviour:
    """Disables TF 2 behaviour once in a process; what the program enables later stays enabled.

    Attributes:
        is_settled: whether that is done.
    """

    def __init__(self) -> None:
        self.is_settled = False
        self._lock = threading.Lock()
        # Threads that existed before; eager mode is set per thread, and may still be on in them.
        self._older: weakref.WeakSet[threading.Thread] = weakref.WeakSet()

    def settle(self, v1: Any) -> None:
        """Disable it once in the process, and once in each thread that existed before."""
        thread = threading.current_thread()
        if self.is_settled and thread not in self._older:
            return
        # It imports TensorFlow, which is loaded by now.
        from mpls.upstream import tensorflow as upstream

        with self._lock:
            if not self.is_settled:
                self._turn_off(v1, upstream)
            if thread in self._older:
                self._older.discard(thread)
                # If eager mode is the default again, the program has enabled it.
                if not upstream.is_eager_by_default():
                    v1.disable_eager_execution()

    def _turn_off(self, v1: Any, upstream: Any) -> None:
        if upstream.is_v2_behavior_on():
            self._older.update(threading.enumerate())
            # Hide the log message that the function called here is deprecated.
            logger = v1.get_logger()
            level = logger.level
            logger.setLevel("ERROR")
            v1.disable_v2_behavior()
            logger.setLevel(level)
        self.is_settled = True


_behaviour = _Behaviour()
