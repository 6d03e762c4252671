"""Training steps that are nearly all optimizer: a cheap loss, momentum, and one way of loss scaling or none.

The ratios between candidates are those of the worst case: in a real step, forward and backward pass take most of the
time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import tf_keras

import mpls.keras
import mpls.v1
from benchmarks.cells import Cell
from benchmarks.floor import Floor
from mpls.core.dynamic import DEFAULTS
from mpls.core.fast import group

BARE, FLOOR, ORIGINAL, MPLS = "none", "floor", "original", "mpls"
_SCALE = 2.0**10
# No growth while it is measured, so that all steps are the same.
_GROWTH_STEPS = 10**9
_ROWS = 1_000_000
_READ_ROWS = _ROWS // 100

v1 = tf.compat.v1


def candidates_of(cell: Cell) -> list[str]:
    """Return the candidates that there are.

    Keras 3 has no fixed scale, and that of `tf.compat.v1` cannot cast its scale to float16 gradients. The floor is that
    of one replica: several have more to agree on than whether to apply.
    """
    has_none = cell.family == "keras3" and not cell.is_dynamic
    fails = cell.family == "v1" and cell.dtype != "float32"
    return [BARE, *[FLOOR] * (cell.replicas == 1), *[ORIGINAL] * (not has_none and not fails), MPLS]


class Training:
    """The variables, the optimizer and the step of one candidate.

    Args:
        cell: the kind of step.
        candidate: `none` for the bare optimizer, `floor`, `original` or `mpls`.

    Attributes:
        step: takes a step; returns when it is done.
        function: the `tf.function` in it, where the mode has one.
        session: the session in it, where the mode has one; it has to be closed.
    """

    def __init__(self, cell: Cell, candidate: str) -> None:
        self.cell = cell
        self.candidate = candidate
        self.function: Any = None
        self.session: Any = None
        self.graph: Any = tf.Graph() if cell.mode == "session" else None
        with contextlib.ExitStack() as stack:
            if self.graph is not None:
                stack.enter_context(self.graph.as_default())
            self._strategy = two_replicas() if cell.replicas > 1 else None
            if self._strategy is not None:
                # The strategy creates variables in the graph that is the default one here.
                stack.enter_context(self._strategy.scope())
            self._create()
            build(cell.family, self.optimizer, self.variables)
            self.step: Callable[[], Any] = self._eager_step() if self.graph is None else self._session_step()

    def _create(self) -> None:
        cell = self.cell
        rows = (
            tf.constant(np.random.default_rng(0).choice(_ROWS, _READ_ROWS, replace=False)) if cell.is_sparse else None
        )
        self.variables, self._inputs = [], []
        for _ in range(cell.variables):
            shape = [_ROWS, cell.elements // _ROWS] if cell.is_sparse else _shape(cell.elements)
            weights = _random([_READ_ROWS, *shape[1:]] if cell.is_sparse else shape, 0.001, 0.01)
            self.variables.append(self._variable(tf.cast(_random(shape, 0.5, 1.5), cell.dtype)))
            self._inputs.append((self._constant(tf.cast(weights, cell.dtype)), rows))
        self.optimizer = scaled(cell.family, self.candidate, momentum(cell.family), is_dynamic=cell.is_dynamic)

    def _variable(self, initial: Any) -> Any:
        if self.cell.family == "keras3":
            return keras.Variable(initial, dtype=self.cell.dtype)
        if self.cell.mode == "session":
            return v1.Variable(initial, use_resource=True)
        return tf.Variable(initial)

    def _constant(self, value: Any) -> Any:
        """Hold a value where no graph optimizer can compute with it beforehand."""
        if self.cell.mode == "session":
            return v1.Variable(value, trainable=False, use_resource=True)
        return tf.Variable(value, trainable=False)

    def loss(self) -> Any:
        """Return the loss: its gradients are read and written twice before they come out."""
        terms = []
        for variable, (weights, rows) in zip(self.variables, self._inputs, strict=True):
            value = variable.value if self.cell.family == "keras3" else variable
            read = value if rows is None else tf.gather(value, rows)
            # Graph optimizers do not simplify ReLU, and so cannot cancel the scale against its reciprocal.
            terms.append(tf.reduce_sum(tf.cast(tf.nn.relu(read * weights), tf.float32)))
        return tf.add_n(terms)

    def _once(self) -> Any:
        """Take a step, in each replica; returns what `minimize` does, for each."""
        in_replica: Callable[[], Any] = lambda: minimize(self.cell.family, self.optimizer, self.loss, self.variables)  # noqa: E731
        return in_replica() if self._strategy is None else self._strategy.run(in_replica)

    def _eager_step(self) -> Callable[[], Any]:
        if self.cell.mode == "eager":
            return self._once

        def in_function() -> None:
            self._once()

        self.function = tf.function(in_function, jit_compile=self.cell.mode == "xla", autograph=False)
        return self.function

    def _session_step(self) -> Callable[[], Any]:
        train_op = group(self._once())
        self.session = v1.Session()
        self.session.run(v1.global_variables_initializer())
        return lambda: self.session.run(train_op)

    def slots(self) -> list[Any]:
        """Return the momenta."""
        wrapped = "_optimizer" if self.cell.family == "v1" else "inner_optimizer"
        inner = getattr(self.optimizer, "inner_optimizer" if self.candidate == FLOOR else wrapped, self.optimizer)
        if self.cell.family in ("v1", "legacy"):
            return [inner.get_slot(variable, "momentum") for variable in self.variables]
        return list(inner.momentums)

    def close(self) -> None:
        """Release the memory of all variables.

        TensorFlow keeps functions with gradients of its own, as that of `all_reduce`, which Keras calls, and all that
        they hold on to.
        """
        if self.session is not None:
            self.session.close()
            return
        for variable in [*self.variables, *(weights for weights, _ in self._inputs), *self.slots()]:
            if variable is None:
                # A step that has never run has no slots.
                continue
            held = variable.value if isinstance(variable, keras.Variable) else variable
            for each in getattr(held, "values", [held]):
                tf.raw_ops.AssignVariableOp(resource=each.handle, value=tf.zeros([], each.dtype))


def two_replicas() -> Any:
    """Return a strategy of two replicas, on two logical processors."""
    # Collective ops of two strategies must not share keys: they sum tensors of other shapes.
    tf.distribute.MirroredStrategy._collective_key_base += 10_000
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def _shape(elements: int) -> list[int]:
    """Return a matrix's shape, as most gradients are matrices."""
    rows = 10 ** (len(str(elements)) // 2)
    return [rows, elements // rows]


def _random(shape: list[int], low: float, high: float) -> Any:
    return tf.random.stateless_uniform(shape, (1, 2), low, high)


def momentum(family: str) -> Any:
    """Return the bare optimizer: SGD with momentum, so small a rate that no variable ever gets far."""
    if family == "v1":
        return v1.train.MomentumOptimizer(1e-8, 0.9)
    module = {"legacy": tf_keras.optimizers.legacy, "new": tf_keras.optimizers, "keras3": keras.optimizers}[family]
    return module.SGD(1e-8, momentum=0.9)


def scaled(family: str, candidate: str, optimizer: Any, *, is_dynamic: bool = True, **settings: Any) -> Any:
    """Wrap an optimizer as the candidate does; the settings are keyword arguments of the wrappers of mpls."""
    initial = settings.pop("initial_scale", _SCALE)
    if candidate == BARE:
        return optimizer
    if candidate == FLOOR:
        return Floor(optimizer, _SCALE, is_dynamic=is_dynamic)
    if family == "v1":
        module = mpls.v1 if candidate == MPLS else v1.mixed_precision
        own = {name: settings.pop(name) for name in vars(DEFAULTS) if name in settings}
        scale = module.DynamicLossScale(initial, _GROWTH_STEPS, **own) if is_dynamic else module.FixedLossScale(_SCALE)
        return module.MixedPrecisionLossScaleOptimizer(optimizer, scale, **settings)
    if candidate == MPLS:
        wrapper = mpls.keras.LossScaleOptimizer
    else:
        wrapper = (keras.optimizers if family == "keras3" else tf_keras.mixed_precision).LossScaleOptimizer
    if is_dynamic:
        return wrapper(optimizer, initial_scale=initial, dynamic_growth_steps=_GROWTH_STEPS, **settings)
    return wrapper(optimizer, dynamic=False, initial_scale=_SCALE, **settings)


def build(family: str, optimizer: Any, variables: list[Any]) -> None:
    """Create the slots, where that has to be done before the first step."""
    inner = optimizer.inner_optimizer if isinstance(optimizer, Floor) else optimizer
    if family == "legacy":
        inner._create_all_weights(variables)
    elif family != "v1":
        inner.build(variables)
    elif inner is not optimizer:
        # TensorFlow would not find slots that are created in a branch.
        inner._create_slots(variables)


def minimize(family: str, optimizer: Any, loss: Callable[[], Any], variables: list[Any]) -> Any:
    """Take a step as a custom loop of the family does, with loss scaling if the optimizer has it.

    Returns:
        In a graph with a session, an op that does it.
    """
    if isinstance(optimizer, Floor):
        inner = optimizer.inner_optimizer
        return optimizer.minimize(
            lambda scale_loss: _gradients(family, inner, lambda: scale_loss(loss()), variables),
            lambda grads: _apply(family, inner, grads, variables),
        )
    if family == "v1":
        return optimizer.minimize(_v1_loss(loss), var_list=variables)
    scales = hasattr(optimizer, "get_scaled_loss" if family != "keras3" else "inner_optimizer")
    scale_loss = (optimizer.scale_loss if family == "keras3" else optimizer.get_scaled_loss) if scales else None
    grads = _gradients(family, optimizer, lambda: scale_loss(loss()) if scale_loss else loss(), variables)
    if scales and family != "keras3":
        grads = optimizer.get_unscaled_gradients(grads)
    return _apply(family, optimizer, grads, variables)


def _gradients(family: str, optimizer: Any, loss: Callable[[], Any], variables: list[Any]) -> list[Any]:
    if family == "v1":
        return [grad for grad, _ in optimizer.compute_gradients(_v1_loss(loss), variables)]
    watched = [variable.value for variable in variables] if family == "keras3" else variables
    with tf.GradientTape() as tape:
        value = loss()
    grads: list[Any] = tape.gradient(value, watched)
    return grads


def _v1_loss(loss: Callable[[], Any]) -> Any:
    """Return what optimizers of `tf.compat.v1` take: in a graph with a session a tensor, otherwise the function."""
    return loss if v1.executing_eagerly_outside_functions() else loss()


def _apply(family: str, optimizer: Any, grads: list[Any], variables: list[Any]) -> Any:
    if family == "keras3":
        return optimizer.apply(grads, variables)
    return optimizer.apply_gradients(zip(grads, variables, strict=True))


@contextlib.contextmanager
def trainings(cell: Cell, turn: int = 0) -> Iterator[dict[str, Training]]:
    """Build every candidate of a cell, and close them at the end.

    Args:
        cell: the kind of step.
        turn: the number of the candidate that is built first.
    """
    built: dict[str, Training] = {}
    names = candidates_of(cell)
    first = turn % len(names)
    try:
        for candidate in names[first:] + names[:first]:
            built[candidate] = Training(cell, candidate)
        yield built
    finally:
        for training in built.values():
            training.close()
