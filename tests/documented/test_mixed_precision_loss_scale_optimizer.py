"""The page of `tf.compat.v1.train.experimental.MixedPrecisionLossScaleOptimizer`, in a graph and in eager mode."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import pytest
import tensorflow as tf

import mpls.contrib
from mpls.errors import MplsWarning

from .families import DynamicLossScale, FixedLossScale, GraphWrapper

v1 = tf.compat.v1
# What `loss_scale` may be; the scale at the start, and after an overflow.
SCALES: dict[str, Any] = {
    "number": (lambda: 8, 8.0, 8.0),
    "fixed": (lambda: FixedLossScale(8), 8.0, 8.0),
    "string": (lambda: "dynamic", 2.0**15, 2.0**14),
    "dynamic": (lambda: DynamicLossScale(8, 2), 8.0, 4.0),
}
MODES = ("graph", "eager", "function")


def over_scales(test: Any) -> Any:
    return pytest.mark.default_run("each value")(pytest.mark.parametrize("scale", ["number", "dynamic"])(test))


def graph_of(mode: str) -> AbstractContextManager[Any]:
    """Return a block with a graph of its own, or one that changes nothing."""
    return tf.Graph().as_default() if mode == "graph" else nullcontext()


def sgd(scale: str) -> Any:
    return GraphWrapper(v1.train.GradientDescentOptimizer(0.25), SCALES[scale][0]())


@pytest.fixture
def graph() -> Iterator[Any]:
    with tf.Graph().as_default() as graph:
        yield graph


@contextmanager
def started() -> Iterator[Any]:
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        yield session


class Recording(v1.train.GradientDescentOptimizer):  # type: ignore[misc]
    """Notes the arguments of `compute_gradients`."""

    def __init__(self) -> None:
        super().__init__(0.5, name="Recording")
        self.calls: list[dict[str, Any]] = []

    def compute_gradients(self, loss: Any, **kwargs: Any) -> Any:
        self.calls.append(kwargs)
        return super().compute_gradients(loss, **kwargs)


# --- the class ------------------------------------------------------------------------------------


def test_use_locking_and_name_are_those_of_the_optimizer() -> None:
    for use_locking in (False, True):
        inner = v1.train.GradientDescentOptimizer(0.25, use_locking=use_locking, name="mine")
        optimizer = GraphWrapper(inner, "dynamic")
        assert (optimizer._use_locking, optimizer.get_name()) == (use_locking, "mine")


@pytest.mark.parametrize(("scale", "mode"), list(itertools.product(SCALES, MODES)))
@pytest.mark.default_run("each value")
def test_the_loss_is_multiplied_and_the_gradients_are_divided(scale: str, mode: str) -> None:
    """Whether the scale is chosen by the user or determined dynamically."""
    # The intermediate gradient is noted in a variable, which graphs can hold too.
    with graph_of(mode):
        weight, seen = tf.Variable(1.0), tf.Variable(0.0, trainable=False)

        @tf.custom_gradient
        def noting(value: Any) -> Any:
            def gradient(upstream: Any, variables: Any = None) -> Any:
                with tf.control_dependencies([seen.assign(upstream)]):
                    return tf.identity(upstream)

            return tf.identity(value), gradient

        optimizer = sgd(scale)

        def loss() -> Any:
            return 3.0 * noting(weight)

        def step() -> None:
            optimizer.minimize(loss, var_list=[weight])

        if mode == "graph":
            train_op = optimizer.minimize(loss(), var_list=[weight])
            with started() as session:
                session.run(train_op)
                found = session.run([weight, seen])
        else:
            (tf.function(step) if mode == "function" else step)()
            found = [float(weight), float(seen)]
    assert found == [0.25, 3.0 * SCALES[scale][1]]


# --- apply_gradients ------------------------------------------------------------------------------


@over_scales
def test_the_name_of_the_operation(graph: Any, scale: str) -> None:
    """By default it is the one "passed to the `Optimizer` constructor"."""
    optimizer, weight = GraphWrapper(Recording(), SCALES[scale][0]()), tf.Variable(1.0)
    pairs = optimizer.compute_gradients(weight * 1.0)
    assert optimizer.get_name() == "Recording"
    assert optimizer.apply_gradients(pairs).name == "Recording"
    assert optimizer.apply_gradients(pairs, None, "mine").name == "mine"
    assert optimizer.minimize(weight * 1.0, name="other").name == "other"
    with tf.name_scope("scope"):
        assert optimizer.apply_gradients(pairs, name="mine").name == "scope/mine"


# --- compute_gradients ----------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["tensor", "callable"])
@over_scales
def test_it_returns_a_list_of_pairs_in_which_a_gradient_can_be_none(graph: Any, scale: str, loss: str) -> None:
    used, unused = tf.Variable(1.0), tf.Variable(1.0)
    make = lambda: used * 3.0  # noqa: E731
    optimizer = sgd(scale)
    pairs = optimizer.compute_gradients(make if loss == "callable" else make(), var_list=(used, unused))
    assert isinstance(pairs, list)
    ((grad, first), (none, second)) = pairs
    assert (first is used, second is unused, none) == (True, True, None)
    train_op = optimizer.apply_gradients(pairs)
    with started() as session:
        assert session.run(grad) == 3.0
        session.run(train_op)
        assert session.run([used, unused]) == [0.25, 1.0]


@pytest.mark.parametrize("style", ["defaults", "keywords", "positional"])
def test_its_arguments_reach_the_optimizer(graph: Any, style: str) -> None:
    inner, weight = Recording(), tf.Variable(1.0)
    arguments = {
        "var_list": [weight],
        "gate_gradients": GraphWrapper.GATE_GRAPH,
        "aggregation_method": tf.AggregationMethod.EXPERIMENTAL_TREE,
        "colocate_gradients_with_ops": True,
        "grad_loss": tf.constant(2.0),
    }
    defaults = dict(zip(arguments, (None, GraphWrapper.GATE_OP, None, False, None), strict=True))
    optimizer, loss = GraphWrapper(inner, 8), weight * 3.0
    if style == "positional":
        ((grad, variable),) = optimizer.compute_gradients(loss, *arguments.values())
    else:
        ((grad, variable),) = optimizer.compute_gradients(loss=loss, **(arguments if style == "keywords" else {}))
    assert inner.calls == [defaults if style == "defaults" else arguments]
    assert variable is weight
    with started() as session:
        assert session.run(grad) == (3.0 if style == "defaults" else 6.0)


# --- minimize --------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", ["number", "string", "tensor", "none"])
@pytest.mark.parametrize("mode", ["graph", "eager"])
@pytest.mark.parametrize("wrapper", ["v1", "contrib"])
@pytest.mark.default_run("each value")
def test_what_is_no_variable_is_a_value_error(wrapper: str, mode: str, bad: str) -> None:
    inner = v1.train.GradientDescentOptimizer(0.25)
    manager = mpls.contrib.FixedLossScaleManager(8)
    optimizer = GraphWrapper(inner, 8) if wrapper == "v1" else mpls.contrib.LossScaleOptimizer(inner, manager)
    with graph_of(mode):
        weight, constant = tf.Variable(1.0), tf.constant(1.0)
        given = {"number": 1.0, "string": "weight", "tensor": constant, "none": None}[bad]
        loss = lambda: weight * constant  # noqa: E731
        with pytest.raises(ValueError, match=r"must be a list or tuple of tf\.Variable objects; got"):
            optimizer.minimize(loss() if mode == "graph" else loss, var_list=[weight, given])


@pytest.mark.parametrize("given", ["list", "tuple", "none"])
@over_scales
def test_in_eager_mode_it_is_with_respect_to_var_list(scale: str, given: str) -> None:
    """If that is None, "with respect to any trainable variables created during the execution" of the loss."""
    weight, other = tf.Variable(1.0), tf.Variable(1.0)
    created: list[Any] = []

    def loss() -> Any:
        if not created:
            created.append(tf.Variable(1.0))
        return weight * other * created[0]

    var_list = {"list": [weight], "tuple": (weight,), "none": None}[given]
    sgd(scale).minimize(loss, var_list=var_list)
    expected = [0.75, 0.75, 0.75] if given == "none" else [0.75, 1.0, 1.0]
    assert [float(each) for each in (weight, other, created[0])] == expected


@over_scales
def test_in_eager_mode_graph_arguments_are_ignored(scale: str) -> None:
    weight = tf.Variable(1.0)
    ignored = {"gate_gradients": 7, "aggregation_method": 99, "colocate_gradients_with_ops": True}
    sgd(scale).minimize(lambda: weight * 1.0, var_list=[weight], **ignored)
    assert float(weight) == 0.75
    # The original used this one.
    with pytest.warns(MplsWarning, match="^MixedPrecisionLossScaleOptimizer: minimize.. ignores grad_loss"):
        sgd(scale).minimize(lambda: weight * 1.0, var_list=[weight], grad_loss=tf.constant(3.0))
    assert float(weight) == 0.5
