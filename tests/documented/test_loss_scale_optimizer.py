"""The page of `tf.keras.mixed_precision.LossScaleOptimizer`, as tensorflow.org and keras.io have it."""

from __future__ import annotations

import inspect
from typing import Any
from unittest import mock

import pytest
import tensorflow as tf

from .families import (
    CLASSES,
    FAMILIES,
    OPTIMIZERS,
    STEPS,
    minimize,
    over_wrappers,
    passing,
    train,
    wrap,
)

# --- what it is for -------------------------------------------------------------------------------


@over_wrappers
def test_it_prevents_numeric_underflow_in_intermediate_float16_gradients(family: str, cls: str) -> None:
    optimizer, weight = wrap(cls, OPTIMIZERS[family].SGD(2.0**20)), tf.Variable(1.0)
    # What comes back to the float16 op would be 0 without the scale.
    small = tf.constant(2.0**-13, tf.float16)
    minimize(optimizer, weight, lambda: tf.cast(weight, tf.float16) * small * small)
    assert float(weight) == 1.0 - 2.0**-6


@pytest.mark.parametrize("step", STEPS)
@over_wrappers
def test_intermediate_gradients_are_scaled_and_final_ones_are_not(family: str, cls: str, step: str) -> None:
    intermediate: list[float] = []
    watched, weight = passing(intermediate), tf.Variable(1.0)
    optimizer = wrap(cls, OPTIMIZERS[family].SGD(0.25), initial_scale=64)
    STEPS[step](optimizer, weight, lambda: 2.0 * watched(weight))
    assert (intermediate, float(weight)) == ([128.0], 0.5)


# --- methods --------------------------------------------------------------------------------------

# Those that scale, unscale, update or skip themselves, or call one that does; those of configs; and what the page of
# tf.keras says nothing of, since only Keras 3 has it: there, the wrapper has variables of its own.
NOT_DELEGATED = {
    "legacy": {"apply_gradients", "from_config", "get_config", "get_gradients", "get_updates", "minimize"},
    "new": {"apply_gradients", "compute_gradients", "from_config", "get_config", "minimize"},
    "keras3": {
        *("add_optimizer_variables", "add_variable", "add_variable_from_reference", "assign", "assign_add"),
        *("assign_sub", "load_own_variables", "save_own_variables", "set_weights"),
        *("apply", "apply_gradients", "from_config", "get_config", "scale_loss", "stateless_apply"),
    },
}
RETURN_NOTHING = {
    *("build", "exclude_from_weight_decay", "finalize_variable_values"),
    *("load_own_variables", "save_own_variables", "set_weights"),
}


def public_methods(family: str) -> list[str]:
    base = OPTIMIZERS[family].Optimizer
    names = [name for name in dir(base) if not name.startswith("_")]
    return [name for name in names if inspect.isroutine(inspect.getattr_static(base, name))]


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize(
    ("family", "method"),
    [(family, name) for family in FAMILIES for name in public_methods(family) if name not in NOT_DELEGATED[family]],
)
@pytest.mark.default_run("each value")
def test_all_public_methods_are_delegated(family: str, method: str, cls: str) -> None:
    inner = OPTIMIZERS[family].SGD(0.5, momentum=0.5)
    optimizer, answer = wrap(cls, inner), mock.Mock()
    _, *parameters = inspect.signature(getattr(type(inner), method)).parameters.values()
    given = {each.name: mock.Mock() for each in parameters}
    given.update({name: [tf.Variable(1.0)] for name in ("var_list", "variables") if name in given})
    # What a later release added to a method that the originals had is taken by keyword.
    keywords = {name: given.pop(name) for name in ("shape",) if (family, method) == ("legacy", "add_slot")}
    with mock.patch.object(type(inner), method, return_value=answer) as called:
        found = getattr(optimizer, method)(*given.values(), **keywords)
    (call,) = called.mock_calls
    assert [*call.args, *call.kwargs.values()] == [*given.values(), *keywords.values()]
    assert found is answer or method in RETURN_NOTHING


@over_wrappers
def test_variables_are_those_of_the_inner_optimizer(family: str, cls: str) -> None:
    inner, weight = OPTIMIZERS[family].SGD(0.25, momentum=0.5), tf.Variable(1.0)
    optimizer = wrap(cls, inner)
    train(optimizer, weight, [1.0])
    expected = inner.variables() if callable(inner.variables) else inner.variables
    for found in (optimizer.variables(), optimizer.weights):
        assert [id(each) for each in found] == [id(each) for each in expected]


@pytest.mark.parametrize("family", [each for each in FAMILIES if each != "legacy"])
def test_weights_that_are_excluded_do_not_decay(family: str) -> None:
    decaying, kept = tf.Variable(1.0, name="decaying"), tf.Variable(1.0, name="kept")
    optimizer = wrap("LossScaleOptimizer", OPTIMIZERS[family].SGD(0.5, weight_decay=0.5))
    optimizer.exclude_from_weight_decay(var_names=["kept"])
    optimizer.minimize(lambda: (decaying + kept) * 0.0, var_list=[decaying, kept])
    assert (float(decaying), float(kept)) == (0.75, 1.0)


@pytest.mark.parametrize("family", [each for each in FAMILIES if each != "keras3"])
@pytest.mark.parametrize("cls", CLASSES)
def test_variables_that_are_added_are_saved(family: str, cls: str, tmp_path: Any) -> None:
    for value in (3.0, 0.0):
        optimizer = wrap(cls, OPTIMIZERS[family].SGD())
        if family == "legacy":
            added = optimizer.add_weight("mine", [], initializer="zeros")
        else:
            added = optimizer.add_variable([], initializer="zeros", name="mine")
        checkpoint = tf.train.Checkpoint(optimizer=optimizer)
        if value:
            added.assign(value)
            path = checkpoint.write(str(tmp_path / "checkpoint"))
        else:
            checkpoint.read(path)
            assert float(added) == 3.0


@pytest.mark.parametrize("cls", CLASSES)
def test_get_gradients_scales_the_loss_and_unscales_the_gradients(cls: str) -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        weight = tf.compat.v1.get_variable("weight", initializer=1.0, use_resource=True)
        optimizer = wrap(cls, OPTIMIZERS["legacy"].SGD(), initial_scale=2.0**10)
        # What comes back to the float16 op would be 0 without the scale.
        small = tf.constant(2.0**-13, tf.float16)
        (grad,) = optimizer.get_gradients(tf.cast(weight, tf.float16) * small * small, [weight])
        session.run(tf.compat.v1.global_variables_initializer())
        assert session.run(grad) == 2.0**-26


# --- attributes -----------------------------------------------------------------------------------


@over_wrappers
def test_attributes_of_a_fixed_scale(family: str, cls: str) -> None:
    optimizer = wrap(cls, OPTIMIZERS[family].SGD(), dynamic=False, initial_scale=8)
    assert (optimizer.dynamic, optimizer.dynamic_counter, optimizer.dynamic_growth_steps) == (False, None, None)
    assert optimizer.initial_scale == float(optimizer.loss_scale) == 8.0
    assert (optimizer.loss_scale.dtype, optimizer.loss_scale.shape) == (tf.float32, [])


# --- custom loops ---------------------------------------------------------------------------------


@over_wrappers
def test_get_unscaled_gradients_returns_a_new_list_of_the_same_size(family: str, cls: str) -> None:
    optimizer = wrap(cls, OPTIMIZERS[family].SGD(), initial_scale=8)
    grads = [tf.constant(24.0), None, tf.constant([8.0])]
    unscaled = optimizer.get_unscaled_gradients(grads)
    assert unscaled is not grads
    assert (float(unscaled[0]), unscaled[1], unscaled[2].numpy().tolist()) == (3.0, None, [1.0])
