"""Programs of v1 graphs with a legacy Keras optimizer, and what old releases saved of them with a `Saver`.

`data/keras_savers/NAME/RELEASE` has what the programs of `RECORDED` saved with the release's own wrapper, in TF 1.15.5,
2.0.4, 2.2.3, 2.3.4, 2.4.4, 2.8.4, 2.10.1, 2.15.1 and 2.21.0: the files of the Saver, and `expected.json`, the state at
the save and after each of three further steps.
"""

from __future__ import annotations

import pathlib
from typing import Any, Callable, Dict, List, NamedTuple  # noqa: UP035

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1

DATA = pathlib.Path(__file__).parent / "data" / "keras_savers"
BEFORE = (1.0, float("inf"), 2.0)
AFTER = (1.0, float("nan"), 0.5)


class Spec(NamedTuple):
    """What a program does: one optimizer for each scope, in graph mode.

    Attributes:
        optimizer: its class.
        how: how a step is made: `minimize`, `gradients`, `updates`, `twice` or `model`.
        second: whether with TensorFlow's second control flow.
        dynamic: whether the loss scale is.
        scopes: the name scopes around the steps.
        conditionals: the number of conditionals of the program's own in each.
        is_shared: whether all optimizers train the same variables.
    """

    optimizer: str = "SGD"
    how: str = "gradients"
    second: bool = False
    dynamic: bool = True
    scopes: Any = ("",)
    conditionals: int = 0
    is_shared: bool = False


RECORDED = {
    "sgd": Spec(),
    "sgd_minimize": Spec(how="minimize", second=True),
    "adam_model": Spec("Adam", "model"),
    "adam_model_second": Spec("Adam", "model", second=True),
    "rmsprop_scopes": Spec("RMSprop", scopes=("b", "a"), conditionals=1),
    "nadam_fixed": Spec("Nadam", dynamic=False),
}

Wrap = Callable[[Any, Spec], Any]


class Program:
    """Variables, optimizers and a step, built in the default graph."""

    def __init__(self, keras: Any, spec: Spec, wrap: Wrap) -> None:
        self.spec = spec
        self.factor = v1.placeholder(tf.float32, [])
        self.optimizers: List[Any] = []  # noqa: UP006
        self.wrappers: List[Any] = []  # noqa: UP006
        self.variables: List[List[Any]] = []  # noqa: UP006
        self._ops: List[Any] = []  # noqa: UP006
        self._models: List[Any] = []  # noqa: UP006
        for number, scope in enumerate(spec.scopes):
            with v1.name_scope(scope or None):
                for _ in range(spec.conditionals):
                    tf.cond(v1.placeholder(tf.bool, []), lambda: tf.constant(1.0), lambda: tf.constant(2.0))
                self._add(keras, wrap, number)

    def _add(self, keras: Any, wrap: Wrap, number: int) -> None:
        inner = make_optimizer(keras, self.spec.optimizer, 0.1 * (1 + number))
        wrapper = wrap(inner, self.spec)
        self.optimizers.append(inner)
        self.wrappers.append(wrapper)
        if self.spec.how == "model":
            layer = keras.layers.Dense(1, kernel_initializer="ones", name="d%d" % number, input_shape=(2,))  # noqa: UP031
            model = keras.Sequential([layer])
            model.compile(wrapper, "mse")
            self._models.append(model)
            self.variables.append(list(model.trainable_weights))
            return
        with v1.variable_scope("", reuse=v1.AUTO_REUSE):
            index = 0 if self.spec.is_shared else number
            w = v1.get_variable("w%d" % index, initializer=[1.0, -2.0], use_resource=True)  # noqa: UP031
            b = v1.get_variable("b%d" % index, initializer=0.5 + index, use_resource=True)  # noqa: UP031
        self.variables.append([w, b])
        self._ops.append(self._step_op(wrapper, [w, b]))

    def _loss(self, w: Any, b: Any) -> Any:
        return self.factor * (tf.reduce_sum(w * w) + (b - 3.0) ** 2)

    def _step_op(self, wrapper: Any, variables: List[Any]) -> Any:  # noqa: UP006
        if self.spec.how == "minimize":
            return wrapper.minimize(lambda: self._loss(*variables), variables)
        loss = self._loss(*variables)
        if self.spec.how == "updates":
            return tf.group(*wrapper.get_updates(loss, variables))
        grads = wrapper.get_gradients(loss, variables)
        pairs = list(zip(grads, variables))  # noqa: B905
        if self.spec.how != "twice":
            return wrapper.apply_gradients(pairs)
        with tf.control_dependencies(grads):
            first = wrapper.apply_gradients(pairs[:1])
        with tf.control_dependencies([first]):
            return wrapper.apply_gradients(pairs[1:])

    def build(self) -> None:
        """Make what a model makes with its first step."""
        for model in self._models:
            model.train_on_batch(np.zeros([1, 2], "f"), np.zeros([1, 1], "f"))

    def step(self, session: Any, factor: float) -> None:
        """Take a step, of all optimizers; the loss has a factor, a finite one where nothing would skip the step."""
        if not (self.spec.dynamic or np.isfinite(factor)):
            factor = 3.0
        for model in self._models:
            model.train_on_batch(np.array([[factor, 1.0]], "f"), np.array([[2.0]], "f"))
        for op in self._ops:
            session.run(op, {self.factor: factor})

    def reads(self) -> Dict[str, Any]:  # noqa: UP006
        """Return the state, as what a session runs."""
        reads = {}
        for number, (inner, variables) in enumerate(zip(self.optimizers, self.variables)):  # noqa: B905
            reads["iterations/%d" % number] = inner.iterations  # noqa: UP031
            reads["learning_rate/%d" % number] = inner.learning_rate  # noqa: UP031
            for index, variable in enumerate(variables):
                reads["variable/%d/%d" % (number, index)] = variable  # noqa: UP031
                for slot in inner.get_slot_names():
                    reads["%s/%d/%d" % (slot, number, index)] = inner.get_slot(variable, slot)  # noqa: UP031
        for number, wrapper in enumerate(self.wrappers):
            if self.spec.dynamic and hasattr(wrapper, "loss_scale"):
                scale = wrapper.loss_scale
                reads["scale/%d" % number] = scale() if callable(scale) else scale  # noqa: UP031
                good_steps = scale._num_good_steps if callable(scale) else wrapper.dynamic_counter
                if good_steps is not None:
                    reads["good/%d" % number] = good_steps  # noqa: UP031
        return reads

    def state(self, session: Any) -> Dict[str, Any]:  # noqa: UP006
        """Return the state, as numbers and lists of them."""
        return {key: value.tolist() for key, value in session.run(self.reads()).items()}

    def train(self, session: Any, factors: Any = BEFORE) -> None:
        """Take some steps, and lower the learning rate in between."""
        for index, factor in enumerate(factors):
            self.step(session, factor)
            if index == 1:
                for inner in self.optimizers:
                    session.run(inner.learning_rate.assign(inner.learning_rate * 0.5))


def make_optimizer(keras: Any, name: str, rate: float) -> Any:
    """Return an optimizer, with all the slots that it can have."""
    settings = {"SGD": {"momentum": 0.9}, "RMSprop": {"momentum": 0.5, "centered": True}, "Adam": {"amsgrad": True}}
    optimizers = getattr(keras.optimizers, "legacy", keras.optimizers)
    return getattr(optimizers, name)(rate, **settings.get(name, {}))
