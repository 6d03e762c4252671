"""Who is asking: what Keras is told differs here and there from what users see."""

from __future__ import annotations

import sys
from types import FrameType

# Functions of tf_keras and Keras 3 that write the config into a file, or into what is pickled.
_WRITERS = {"model_metadata", "save_model", "_serialize_model_as_json"}


def is_called_by_keras() -> bool:
    """Return whether a function of tf_keras or Keras 3 has called the method that asks."""
    module = str(sys._getframe(2).f_globals.get("__name__", ""))
    return module.startswith(("keras.", "tf_keras."))


def is_asked_for_file() -> bool:
    """Return whether Keras is writing a file, or what is pickled, somewhere further up."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if frame.f_code.co_name in _WRITERS and module.startswith(("keras.", "tf_keras.")):
            return True
        frame = frame.f_back
    return False
