"""Variables of wrappers over Keras 3 optimizers, as lists, as arrays, and in files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras

from mpls.errors import ArgumentValueError, error_text
from mpls.keras.caller import who_calls
from mpls.keras.keras3.backend_state import option_variables
from mpls.keras.keras3.state import variables_in_files, without_unknown
from mpls.keras.members import CallableList
from mpls.keras.state_in_files import wrapped_optimizer_follows
from mpls.upstream import table

# Whether Keras is to see only the variables that a file has.
_IS_LOADING = "_is_loading_variables"
# Stands for the native wrapper, which follows in the order of bases.
_Base: Any = object


class VariableMethods(_Base):
    """Members for the wrapper's own variables and those of the wrapped optimizer."""

    if TYPE_CHECKING:
        # The native wrapper defines it.
        _optimizer: Any

    @property
    def variables(self) -> CallableList:
        """The wrapper's own variables, then those of the wrapped optimizer.

        Its own end with the counter and the scale; on JAX, those of `hysteresis`, `'auto'` and `count_steps` follow.
        Called, it returns those of the wrapped optimizer alone, `iterations` the first of them.
        """
        inner = self._optimizer.variables
        if who_calls(self).writes_h5_variables or vars(self).get(_IS_LOADING):
            return CallableList([*variables_in_files(self), *inner], inner)
        own = table.OWN_VARIABLES.of(self, [])
        return CallableList([*own, *option_variables(self), *inner], inner)

    @property
    def weights(self) -> list[Any]:
        """The variables of the wrapped optimizer: iterations, the learning rate, then slots."""
        return list(self._optimizer.variables)

    def get_weights(self) -> list[Any]:
        """Return the values of `weights` as NumPy arrays."""
        return [keras.ops.convert_to_numpy(variable) for variable in self.weights]

    def set_weights(self, weights: Any) -> None:
        """Set the values of `variables`, or of `weights`.

        Args:
            weights: arrays, in the order of `variables`, or of `weights`.

        Raises:
            ValueError: their number or shapes differ, as where the optimizer is not built.
        """
        weights = list(weights)
        variables = self.weights if len(weights) == len(self.weights) else self.variables
        shapes, given = ([tuple(value.shape) for value in values] for values in (variables, weights))
        if shapes != given:
            raise ArgumentValueError(
                error_text(
                    "LossScaleOptimizer.set_weights: weights",
                    f"have the shapes {shapes}",
                    given,
                    "Call opt.build(variables) before",
                    "keras-3",
                )
            )
        for variable, value in zip(variables, weights, strict=True):
            variable.assign(value)

    def save_own_variables(self, store: Any) -> None:
        """Write the variables into a `.keras` file; for a fixed scale, add the native wrapper's two variables.

        Args:
            store: where to, as Keras passes it.
        """
        for index, variable in enumerate([*variables_in_files(self), *self._optimizer.variables]):
            store[str(index)] = keras.ops.convert_to_numpy(variable)

    def load_own_variables(self, store: Any) -> None:
        """Read what `save_own_variables` has written, or the native wrapper.

        Args:
            store: where from, as Keras passes it.
        """
        store = without_unknown(self, store)
        saved = len(self.variables) - len(option_variables(self))
        if not wrapped_optimizer_follows.is_raised or len(store) != saved:
            # The config has the values of options.
            self.__dict__[_IS_LOADING] = bool(option_variables(self))
            try:
                super().load_own_variables(store)
            finally:
                del self.__dict__[_IS_LOADING]
            return
        for index, variable in enumerate(table.OWN_VARIABLES.of(self, [])):
            variable.assign(store[str(index)])
