"""Runs functions without XLA while they are recorded, as XLA cannot call Python."""

from __future__ import annotations

from typing import Any

__all__ = ["FUNCTION_MODULES", "WithoutXla"]

# Where the class of a `tf.function` is: up to TF 2.10, and since.
FUNCTION_MODULES = (
    "tensorflow.python.eager.def_function",
    "tensorflow.python.eager.polymorphic_function.polymorphic_function",
)
# The argument of `tf.function`, and its name up to TF 2.4.
_ARGUMENTS = ("jit_compile", "experimental_compile")


class WithoutXla:
    """Takes `jit_compile=True` from functions that are made, and says so once.

    Args:
        say: prints a line.
    """

    def __init__(self, say: Any) -> None:
        self._say = say
        self._has_said = False

    def making(self, method: Any) -> Any:
        """Return what stands in for the constructor of a function."""

        def construct(function: Any, python_function: Any, *args: Any, **kwargs: Any) -> None:
            # Frameworks compile some of their own methods, in which no step is taken; those that train are made anew.
            package = str(getattr(python_function, "__module__", "")).split(".")[0]
            is_local = "<locals>" in getattr(python_function, "__qualname__", "")
            is_of_others = is_local or package not in ("tensorflow", "tf_keras", "keras")
            for name in _ARGUMENTS:
                if is_of_others and kwargs.get(name):
                    kwargs[name] = None
                    self._tell()
            method(function, python_function, *args, **kwargs)

        return construct

    def _tell(self) -> None:
        if not self._has_said:
            self._has_said = True
            self._say(
                "functions run without jit_compile=True, as what XLA compiles cannot be recorded; the last bits of "
                "numbers may differ from those of a run that is not recorded, and without XLA they draw other random "
                "numbers from the same seed, so dropout drops others"
            )
