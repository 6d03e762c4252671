"""What type checkers are told of what wrappers get from their family. At run time there is no such module.

The family is known only when an optimizer is wrapped, so the public class declares what any family has. A test compares
it with the families.
"""

from collections.abc import Iterable
from typing import Any, Protocol, TypeAlias, overload

from mpls.core.wrapper_members import Restorable
from mpls.keras.members import CallableList

_Pairs: TypeAlias = Iterable[tuple[Any, Any]]

class AnyPolicy(Protocol):
    """What a policy of any Keras has."""

    @property
    def name(self) -> Any: ...
    @property
    def compute_dtype(self) -> Any: ...
    @property
    def variable_dtype(self) -> Any: ...

class Declared(Restorable):
    """What the families have beside the members that they share."""

    # Of all families.

    @overload
    def minimize(self, loss: Any, var_list: Any, tape: Any = None) -> Any: ...
    @overload
    def minimize(
        self, loss: Any, var_list: Any, grad_loss: Any = None, name: str | None = None, tape: Any = None
    ) -> Any:
        """Compute the gradients of the scaled loss, unscale and apply them.

        Over legacy optimizers the third positional argument is `grad_loss`, over others `tape`.
        """
    # Each family has arguments of its own after the pairs, and users' subclasses define it with those of theirs.
    def apply_gradients(self, grads_and_vars: _Pairs, *args: Any, **kwargs: Any) -> Any:
        """Update the loss scale, and apply the gradients or skip the step.

        Args:
            grads_and_vars: pairs of gradient and variable.
            *args: `name` over legacy optimizers, else `skip_gradients_aggregation`.
            **kwargs: `experimental_aggregate_gradients`, `skip_gradients_aggregation`, `name`, as the family has them.
        """
    @property
    def variables(self) -> CallableList:
        """The variables, a list that can also be called; over legacy optimizers it has to be."""
    @property
    def weights(self) -> list[Any]:
        """The variables of the wrapped optimizer: iterations, then slots."""
    def get_weights(self) -> list[Any]:
        """Return the values of `weights` as NumPy arrays."""
    def set_weights(self, weights: list[Any]) -> None:
        """Set the values of `weights`."""

    # Over new optimizers of tf_keras, and those of Keras 3.

    use_ema: bool
    ema_momentum: float

    def compute_gradients(self, loss: Any, var_list: Any, tape: Any = None) -> list[tuple[Any, Any]]:
        """Compute the gradients of the scaled loss, and unscale them."""
    def build(self, var_list: Iterable[Any]) -> None:
        """Create the variables of the wrapped optimizer."""
    def finalize_variable_values(self, var_list: Any) -> None:
        """Overwrite variables by their averages, if the wrapped optimizer keeps them."""
    def exclude_from_weight_decay(self, var_list: Any = None, var_names: Any = None) -> None:
        """Exclude variables from the wrapped optimizer's weight decay; before it is built."""
    def save_own_variables(self, store: Any) -> None:
        """Write the variables into a `.keras` file; for Keras."""
    def load_own_variables(self, store: Any) -> None:
        """Read what `save_own_variables` has written."""

    # Over Keras 3 optimizers.

    name: str
    built: bool
    step_counter: Any
    dynamic_scale: Any
    weight_decay: float | None
    ema_overwrite_frequency: int | None
    gradient_accumulation_steps: int | None

    def scale_loss(self, loss: Any) -> Any:
        """Multiply a loss by the loss scale, as `fit` does; `apply` and `apply_gradients` unscale the gradients."""
    def apply(self, grads: Iterable[Any], trainable_variables: Iterable[Any] | None = None) -> None:
        """Unscale the gradients, update the loss scale, and apply the gradients or skip the step."""
    def stateless_apply(self, optimizer_variables: Any, grads: Any, trainable_variables: Any) -> tuple[Any, Any]:
        """Unscale and apply gradients, or skip the step, without changing anything; on the JAX backend."""
    def check_finite(self, grads: Iterable[Any]) -> Any:
        """Return whether all gradients are finite, a scalar boolean tensor; None among them is ignored."""

    # Over new optimizers of tf_keras.

    def aggregate_gradients(self, grads_and_vars: _Pairs) -> Any:
        """Sum the gradients over replicas, as the wrapped optimizer does."""

    # Over legacy optimizers.

    def get_gradients(self, loss: Any, params: Any) -> list[Any]:
        """Return the unscaled gradients of a loss in a v1 graph."""
    def get_updates(self, loss: Any, params: Any) -> list[Any]:
        """Return the ops of a step in a v1 graph."""
    def get_slot_names(self) -> list[str]:
        """Return the names of the wrapped optimizer's slots."""
    def get_slot(self, var: Any, slot_name: str) -> Any:
        """Return a slot variable of the wrapped optimizer."""
    def add_slot(self, var: Any, slot_name: str, initializer: Any = "zeros", *, shape: Any = None) -> Any:
        """Add a slot variable to the wrapped optimizer."""

    # The hyperparameters of those of tf_keras and Keras 3; type checkers do not know users' own.

    decay: Any
    momentum: Any
    rho: Any
    beta: Any
    beta_1: Any
    beta_2: Any
    learning_rate_power: Any
    l1_regularization_strength: Any
    l2_regularization_strength: Any
