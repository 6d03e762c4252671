"""The page of `LossScale`, the base class of loss scales, in eager mode, in a graph and in functions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import pytest
import tensorflow as tf

from .families import INF, NAN, DynamicLossScale, FixedLossScale, LossScale, passing

v1 = tf.compat.v1
CLASSES = {"fixed": lambda: FixedLossScale(8), "dynamic": lambda: DynamicLossScale(8, 2)}
over_classes = pytest.mark.parametrize("cls", CLASSES)


def graph_of(mode: str) -> AbstractContextManager[Any]:
    """Return a block with a graph of its own, or one that changes nothing."""
    return tf.Graph().as_default() if mode == "graph" else nullcontext()


@contextmanager
def started(session: Any) -> Iterator[Any]:
    with session:
        session.run(v1.global_variables_initializer())
        yield session


@over_classes
@pytest.mark.parametrize("mode", ["eager", "graph", "function"])
def test_calling_an_instance_returns_a_scalar_float32_tensor(cls: str, mode: str) -> None:
    scale = CLASSES[cls]()
    assert isinstance(scale, LossScale)
    with graph_of(mode):
        found = tf.function(scale)() if mode == "function" else scale()
        assert tf.is_tensor(found)
        assert (found.dtype, found.shape) == (tf.float32, [])
        if mode == "graph":
            with started(v1.Session()) as session:
                assert session.run(found) == 8.0
        else:
            assert float(found) == 8.0


@over_classes
def test_the_pseudocode_has_no_effect_mathematically(cls: str) -> None:
    loss_scale, weight, intermediate = CLASSES[cls](), tf.Variable(3.0), []
    with tf.GradientTape() as tape:
        loss = passing(intermediate)(weight) ** 2
        loss *= loss_scale()
    grads = tape.gradient(loss, weight)
    grads /= loss_scale()
    # Each intermediate gradient is multiplied too.
    assert (float(grads), intermediate) == (6.0, [48.0])


@over_classes
def test_it_is_created_from_its_config(cls: str) -> None:
    scale = CLASSES[cls]()
    again = type(scale).from_config(scale.get_config())
    assert type(again) is type(scale)
    assert again.get_config() == scale.get_config()


def test_in_eager_mode_update_updates_directly() -> None:
    scale, seen = DynamicLossScale(8, 2), []
    for value in (1.0, 1.0, NAN, 1.0, -INF):
        update_op, should_apply = scale.update([tf.constant(value)])
        assert update_op is None
        assert (should_apply.dtype, should_apply.shape) == (tf.bool, [])
        seen.append((bool(should_apply), float(scale())))
    assert seen == [(True, 8.0), (True, 16.0), (False, 8.0), (True, 8.0), (False, 4.0)]


def test_in_a_graph_the_op_updates_when_it_is_evaluated() -> None:
    with tf.Graph().as_default():
        scale, grad = DynamicLossScale(8, 2), v1.placeholder(tf.float32, [])
        update_op, should_apply = scale.update({"a": [grad, None]})
        current = scale()
        with started(v1.Session()) as session:
            # Evaluating whether to apply updates nothing.
            assert session.run([should_apply, current], {grad: INF}) == [False, 8.0]
            assert session.run(current) == 8.0
            seen = []
            for value in (INF, 1.0, 1.0):
                _, applies = session.run([update_op, should_apply], {grad: value})
                seen.append((bool(applies), session.run(current)))
            assert seen == [(False, 4.0), (True, 4.0), (True, 8.0)]


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_some_classes_always_return_true(mode: str) -> None:
    with graph_of(mode):
        scale = FixedLossScale(8)
        update_op, should_apply = scale.update([tf.constant(NAN)])
        assert should_apply is True
        if mode == "eager":
            assert (update_op, float(scale())) == (None, 8.0)
        else:
            with started(v1.Session()) as session:
                assert session.run([update_op, scale()]) == [None, 8.0]
            assert v1.global_variables() == []


@pytest.mark.parametrize("bad", [None, 0, 1, 2])
def test_gradients_are_a_nested_structure_with_none_among_them(bad: int | None) -> None:
    values = [NAN if place == bad else 1.0 for place in range(3)]
    rows = tf.IndexedSlices(tf.constant([values[2]]), tf.constant([0]), tf.constant([4]))
    grads = {"a": [tf.constant(values[0]), None], "b": (None, {"c": tf.constant([1.0, values[1]])}, rows)}
    assert bool(DynamicLossScale(8).update(grads)[1]) is (bad is None)


@pytest.mark.parametrize("bad", [None, 0, 1])
@pytest.mark.default_run("one case")
def test_under_a_strategy_it_is_called_in_a_cross_replica_context(bad: int | None) -> None:
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        scale = DynamicLossScale(8, 1)
    values = [NAN if replica == bad else 1.0 for replica in range(2)]

    @tf.function
    def step(grads: Any) -> Any:
        def merged(_: Any, grads: Any) -> Any:
            assert tf.distribute.in_cross_replica_context()
            return scale.update([grads])[1]

        return strategy.run(lambda grad: tf.distribute.get_replica_context().merge_call(merged, (grad,)), (grads,))

    grads = strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(values[context.replica_id_in_sync_group])
    )
    applies = [bool(each) for each in strategy.experimental_local_results(step(grads))]
    assert set(applies) == {bad is None}
    assert float(scale()) == (16.0 if bad is None else 4.0)
