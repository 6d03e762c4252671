"""The arithmetic of loss scaling in Keras ops, for backends other than TensorFlow; the update rule is in the core."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from mpls.core import gradients
from mpls.core.loss_scale import never_skips
from mpls.core.rule import ScaleState, next_state
from mpls.errors import ArgumentValueError
from mpls.keras.family_members import FamilyMembers
from mpls.keras.keras3.state import BackendRecord, DynamicState, average_before_a_step, overwrites
from mpls.upstream.optimizers import averages_of, trained_variables


def scale_loss(loss: Any, scale_for: Callable[[Any], Any]) -> Any:
    """Multiply a loss, or what a callable returns, by the scale for its dtype, in that dtype."""
    if keras.backend.backend() == "tensorflow":
        return gradients.scale_loss(loss, scale_for)
    if callable(loss):
        return lambda: scale_loss(loss(), scale_for)
    loss = gradients.as_loss(loss, ops.convert_to_tensor)
    dtype = keras.backend.standardize_dtype(loss.dtype)
    return ops.multiply(loss, ops.cast(scale_for(tf.as_dtype(dtype)), dtype))


def unscale(grads: list[Any], scale: Any) -> list[Any]:
    """Divide gradients by the loss scale; half-precision ones are divided in float32, and None stays None."""
    if keras.backend.backend() == "tensorflow":
        unscaled: list[Any] = gradients.unscale_gradients(grads, scale)
        return unscaled
    return [grad if grad is None else _divide(grad, scale) for grad in grads]


def _divide(grad: Any, scale: Any) -> Any:
    dtype = keras.backend.standardize_dtype(grad.dtype)
    if dtype in ("float16", "bfloat16"):
        return ops.cast(ops.divide(ops.cast(grad, "float32"), scale), dtype)
    return ops.divide(grad, ops.cast(scale, dtype))


def all_finite(grads: list[Any]) -> Any:
    """Return whether every element of every gradient is finite; None is ignored."""
    if keras.backend.backend() == "tensorflow":
        return gradients.all_finite(grads)
    checks = [ops.all(ops.isfinite(grad)) for grad in grads if grad is not None]
    return ops.all(ops.stack(checks)) if checks else ops.convert_to_tensor(True)


def stateless_apply(wrapper: FamilyMembers, optimizer_variables: Any, grads: Any, values: Any, is_scaled: bool) -> Any:
    """Return the new values of trainable variables and of the wrapper's variables, applied or skipped.

    Args:
        wrapper: the wrapper, built.
        optimizer_variables: the values of its variables.
        grads: a gradient, or None, for each trainable variable.
        values: the values of the trainable variables.
        is_scaled: whether the gradients are still to be unscaled.

    Raises:
        ValueError: the wrapper is not built, or the numbers of values are not those of the variables.
    """
    loss_scale = wrapper._loss_scale
    if isinstance(loss_scale, DynamicState):
        # The caller is usually compiled, with the settings as constants.
        loss_scale._is_built_in = True
    return _stepped(wrapper, optimizer_variables, grads, values, is_scaled)


def _stepped(wrapper: FamilyMembers, optimizer_variables: Any, grads: Any, values: Any, is_scaled: bool) -> Any:
    grads, values, current = list(grads), list(values), list(optimizer_variables)
    inner, variables = wrapper.inner_optimizer, trained_variables(wrapper._optimizer)
    _require_fitting(wrapper, current, grads, values)
    own = len(current) - len(inner.variables)
    loss_scale = wrapper._acting_scale
    is_dynamic = isinstance(loss_scale, DynamicState)
    place_of = {id(variable): index for index, variable in enumerate(wrapper.variables)}
    state = loss_scale.variables_of_rule() if is_dynamic else None
    before = None
    if state is not None:
        before = ScaleState(*(None if each is None else current[place_of[id(each)]] for each in state))
    scale = loss_scale() if before is None else before.scale
    grads = unscale_for(grads, variables, scale) if is_scaled and wrapper.enabled else grads
    if never_skips(loss_scale):
        values, inner_values = inner.stateless_apply(current[own:], grads, values)
        return list(values), _counted(wrapper, [*current[:own], *inner_values], place_of, True)
    grads_finite = all_finite(grads)
    values, inner_values = ops.cond(
        grads_finite,
        lambda: tuple(map(list, inner.stateless_apply(current[own:], grads, values))),
        lambda: (values, _skipped(wrapper, current[own:], values)),
    )
    new = [*current[:own], *inner_values]
    if state is not None and before is not None:
        after = next_state(before, grads_finite, loss_scale._rule_of_counter(), ops.where)
        for variable, value in zip(state, after, strict=True):
            if variable is not None:
                new[place_of[id(variable)]] = ops.cast(value, variable.dtype)
    return values, _counted(wrapper, new, place_of, grads_finite)


def _counted(wrapper: FamilyMembers, values: list[Any], place_of: dict[int, int], is_applied: Any) -> list[Any]:
    """Return the values of the wrapper's variables with the step counted, if it counts steps."""
    record = wrapper._record
    if not isinstance(record, BackendRecord):
        return values
    places = {name: place_of[id(variable)] for name, variable in record.of_backend.items()}
    after = record.after_step({name: values[place] for name, place in places.items()}, is_applied)
    for name, place in places.items():
        values[place] = after[name]
    return values


def _skipped(wrapper: Any, inner_values: list[Any], values: list[Any]) -> list[Any]:
    """Return the values of the wrapped optimizer's variables after a skipped step."""
    inner = wrapper.inner_optimizer
    # Variable 0 is the iteration counter.
    iterations, *others = inner_values
    place_of = {id(variable): place for place, variable in enumerate(inner.variables)}
    value_of = {id(variable): value for variable, value in zip(trained_variables(inner), values, strict=True)}
    after = [iterations + 1 if wrapper._skips_count else iterations, *others]
    for variable, average in averages_of(inner):
        place = place_of[id(average)]
        after[place] = average_before_a_step(iterations, value_of[id(variable)], inner_values[place])
    return after


def apply(wrapper: FamilyMembers, grads_and_vars: list[tuple[Any, Any]], is_scaled: bool) -> None:
    """Apply gradients or skip the step, and assign the new values."""
    built = trained_variables(wrapper._optimizer)
    given = {id(variable): grad for grad, variable in grads_and_vars}
    state = wrapper.variables
    values, state_values = _stepped(
        wrapper,
        [variable.value for variable in state],
        [given.get(id(variable)) for variable in built],
        [variable.value for variable in built],
        is_scaled,
    )
    for variable, value in zip([*built, *state], [*values, *state_values], strict=True):
        variable.assign(value)


def unscale_for(grads: list[Any], variables: list[Any], scale: Any) -> list[Any]:
    """Divide gradients by the loss scale, but not those of float8 layers' own variables, which are new values."""
    return [
        grad if overwrites(variable) else result
        for grad, result, variable in zip(grads, unscale(grads, scale), variables, strict=True)
    ]


def _require_fitting(wrapper: FamilyMembers, current: list[Any], grads: list[Any], values: list[Any]) -> None:
    if not wrapper.built:
        raise ArgumentValueError(
            "LossScaleOptimizer: stateless_apply() must be called on an optimizer that is built; got one that is not. "
            "Call opt.build(variables). See mpls docs keras-3"
        )
    trainable = len(trained_variables(wrapper._optimizer))
    expected = {"optimizer_variables": len(wrapper.variables), "grads": trainable, "trainable_variables": trainable}
    for name, given in zip(expected, (current, grads, values), strict=True):
        if len(given) != expected[name]:
            raise ArgumentValueError(
                f"LossScaleOptimizer.stateless_apply: {name} must hold {expected[name]} values; got {len(given)} "
                f"({type(given).__name__}). Pass the values of opt.variables and of the variables that it was built "
                "with, in their order. See mpls docs keras-3"
            )
