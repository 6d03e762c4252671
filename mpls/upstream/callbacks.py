"""A callback with all methods that `fit` of tf_keras and Keras 3 calls, private ones too; it needs neither loaded."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["CallbackOfAnyKeras", "callbacks_before"]


def _nothing(*_: Any, **__: Any) -> None:
    """Do nothing.

    Args:
        *_: the number of the epoch or batch, and the logs.
        **__: the logs.
    """


# Keras 3 (3.6 to 3.15) runs batches asynchronously on some backends, unless a callback has a hook for them.
_nothing._is_default = True  # type: ignore[attr-defined]


class CallbackOfAnyKeras:
    """A callback that does nothing: each Keras calls its methods, and does not check its class.

    So the class exists before a Keras is loaded, and one instance works in models of both.
    """

    # tf_keras (2.16 to 2.21) reads it: hooks take tensors, and no batch waits for the host only to have them read.
    _supports_tf_logs = True

    def __init__(self) -> None:
        self.params: Any = None
        self.model: Any = None

    def set_params(self, params: dict[str, Any]) -> None:
        """Keep the parameters of the call; `fit` calls it.

        Args:
            params: its arguments, by name.
        """
        self.params = params

    def set_model(self, model: Any) -> None:
        """Keep the model; `fit` calls it.

        Args:
            model: a model of tf_keras or of Keras 3.
        """
        self.model = model

    # tf_keras calls these three, and then only the hooks of those batches.

    def _implements_train_batch_hooks(self) -> bool:
        return True

    def _implements_test_batch_hooks(self) -> bool:
        return False

    def _implements_predict_batch_hooks(self) -> bool:
        return False

    on_batch_begin: Any = _nothing
    on_batch_end: Any = _nothing
    on_epoch_begin: Any = _nothing
    on_epoch_end: Any = _nothing
    on_train_begin: Any = _nothing
    on_train_end: Any = _nothing
    on_train_batch_begin: Any = _nothing
    on_train_batch_end: Any = _nothing
    on_test_begin: Any = _nothing
    on_test_end: Any = _nothing
    on_test_batch_begin: Any = _nothing
    on_test_batch_end: Any = _nothing
    on_predict_begin: Any = _nothing
    on_predict_end: Any = _nothing
    on_predict_batch_begin: Any = _nothing
    on_predict_batch_end: Any = _nothing


def callbacks_before(callback: Any) -> list[Any]:
    """Return the callbacks before one in the list of the running `fit`; to be called in a hook that `fit` calls.

    A callback is not told of the others. The list is an attribute of what calls the hook (tf_keras 2.16 to 2.21, Keras
    3.6 to 3.15). It is empty where that is not found.

    Args:
        callback: the one whose hook is called.
    """
    frame: Any = sys._getframe(1)
    while frame is not None:
        listed = getattr(frame.f_locals.get("self"), "callbacks", None)
        if isinstance(listed, list) and any(each is callback for each in listed):
            return listed[: [each is callback for each in listed].index(True)]
        frame = frame.f_back
    return []
