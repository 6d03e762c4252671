"""One variable trained by an optimizer of each family, in each mode: a step has the gradient that it is given."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import tf_keras

import mpls.contrib
import mpls.experimental
import mpls.keras
import mpls.v1
from mpls.errors import without_deprecations
from tests.keras.families import FRAMEWORKS, OPTIMIZERS, SGD

v1 = tf.compat.v1

RATE = 0.25
SCALE_SETTINGS = (
    "min_scale",
    "max_scale",
    "growth_factor",
    "backoff_factor",
    "hysteresis",
    "consecutive_hysteresis",
    "adjustable",
)


def _split(settings: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    of_scale = {name: value for name, value in settings.items() if name in SCALE_SETTINGS}
    return of_scale, {name: value for name, value in settings.items() if name not in of_scale}


def _v1(initial: float, growth_steps: int, **settings: Any) -> Any:
    of_scale, options = _split(settings)
    inner = v1.train.GradientDescentOptimizer(RATE)
    loss_scale = mpls.v1.DynamicLossScale(initial, growth_steps, **of_scale)
    return mpls.v1.MixedPrecisionLossScaleOptimizer(inner, loss_scale, **options)


def _experimental(initial: float, growth_steps: int, **settings: Any) -> Any:
    of_scale, options = _split(settings)
    return _experimental_wrapper(mpls.experimental.DynamicLossScale(initial, growth_steps, **of_scale), **options)


def _experimental_wrapper(loss_scale: Any, **options: Any) -> Any:
    with without_deprecations():
        return mpls.experimental.LossScaleOptimizer(tf_keras.optimizers.legacy.SGD(RATE), loss_scale, **options)


def over_keras(make: Callable[[float], Any], wrapper: Any = mpls.keras.LossScaleOptimizer) -> Callable[..., Any]:
    """Return what makes a wrapper from an initial scale, growth steps and options, over what takes a learning rate."""

    def wrap(initial: float, growth_steps: int, **settings: Any) -> Any:
        return wrapper(make(RATE), initial_scale=initial, dynamic_growth_steps=growth_steps, **settings)

    return wrap


FAMILIES: dict[str, Callable[..., Any]] = {
    "v1": _v1,
    **{family: over_keras(make) for family, make in SGD.items()},
    "experimental": _experimental,
}


def contrib(initial: float, growth_steps: int, **options: Any) -> Any:
    """Return a wrapper of `mpls.contrib`, which halves its scale after each overflow."""
    manager = mpls.contrib.ExponentialUpdateLossScaleManager(initial, growth_steps, 1, decr_ratio=0.5)
    return mpls.contrib.LossScaleOptimizer(v1.train.GradientDescentOptimizer(RATE), manager, **options)


def fixed(family: str, **options: Any) -> Any:
    """Return a wrapper of a family, or of `contrib`, with a fixed scale of 8."""
    skips = {"skip_nonfinite": options.pop("skip_nonfinite", False)} if family in ("v1", "experimental") else {}
    inner = v1.train.GradientDescentOptimizer(RATE)
    if family == "v1":
        return mpls.v1.MixedPrecisionLossScaleOptimizer(inner, mpls.v1.FixedLossScale(8, **skips), **options)
    if family == "contrib":
        return mpls.contrib.LossScaleOptimizer(inner, mpls.contrib.FixedLossScaleManager(8), **options)
    if family == "experimental":
        return _experimental_wrapper(mpls.experimental.FixedLossScale(8, **skips), **options)
    return mpls.keras.LossScaleOptimizer(SGD[family](RATE), dynamic=False, initial_scale=8, **options)


def variable_of(family: str, value: Any = 1.0) -> Any:
    """Return a variable that optimizers of a family train."""
    return keras.Variable(value) if family == "keras3" else tf.Variable(value)


def watched(variable: Any) -> Any:
    """Return what a tape watches of a variable."""
    return variable.value if isinstance(variable, keras.Variable) else variable


def unscaled(opt: Any, loss: Callable[[], Any], variables: Sequence[Any]) -> list[Any]:
    """Return the unscaled gradients of a loss, as a loop of a program's own computes them."""
    if isinstance(opt, v1.train.Optimizer):
        # A graph has a tensor in place of a callable.
        value = loss if v1.executing_eagerly_outside_functions() else loss()
        return [grad for grad, _ in opt.compute_gradients(value, list(variables))]
    with tf.GradientTape() as tape:
        scaled = opt.get_scaled_loss(loss())
    return opt.get_unscaled_gradients(tape.gradient(scaled, list(map(watched, variables))))


def model_of(family: str, values: Sequence[float], **options: Any) -> Any:
    """Return a model with a wrapped optimizer, after a step on a batch of each of these values."""
    framework = FRAMEWORKS[family]
    model = framework.Sequential([framework.layers.Input([2]), framework.layers.Dense(1, name="layer")])
    optimizer = mpls.keras.LossScaleOptimizer(OPTIMIZERS[family].Adam(0.25), **options)
    model.compile(optimizer, framework.losses.MeanSquaredError(), jit_compile=False)
    for value in values:
        model.train_on_batch(np.full([2, 2], value, np.float32), np.ones([2, 1], np.float32))
    return model


# Whether a skipped step advances the counter where nobody has said so.
SKIPS_COUNT = {"v1": False, "legacy": True, "new": True, "keras3": False, "experimental": True}

EAGER, FUNCTION, XLA, SESSION = "eager", "function", "xla", "session"
# New optimizers of tf_keras and those of Keras 3 return no op that a session could run.
MODES = {family: (EAGER, FUNCTION, XLA, *(() if family in ("new", "keras3") else (SESSION,))) for family in FAMILIES}
CELLS = [(f"{family}_{mode}", family, mode) for family, modes in MODES.items() for mode in modes]


class Trainer:
    """Takes steps, and shows what became of them.

    Args:
        family: a key of `FAMILIES`.
        mode: one of `MODES[family]`.
        make: returns the optimizer.
    """

    def __init__(self, family: str, mode: str, make: Callable[[], Any]) -> None:
        self.family, self.mode = family, mode
        self._stack = contextlib.ExitStack()
        if mode == SESSION:
            self._stack.enter_context(tf.Graph().as_default())
        self.opt = make()
        self._variable = v1.Variable(1.0, use_resource=True) if mode == SESSION else variable_of(family)
        self._counter = self._make_counter()
        if family == "keras3":
            self.opt.build([self._variable])
        self.session: Any = None
        self._step = self._built()

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.close()

    def _make_counter(self) -> Any:
        return v1.Variable(0, dtype=tf.int64, trainable=False, use_resource=True) if self.family == "v1" else None

    def _built(self) -> Callable[[Any], Any]:
        if self.mode == SESSION:
            return self._built_in_session()
        self._input = tf.Variable(1.0)
        run: Callable[[], Any] = self._apply_eagerly
        if self.mode != EAGER:
            # A variable that a Keras 3 optimizer has must be built before.
            run = tf.function(run, jit_compile=True if self.mode == XLA else None)
        return lambda _: run()

    def _apply_eagerly(self) -> None:
        self.apply(tf.convert_to_tensor(self._input))

    def apply(self, value: Any) -> Any:
        """Take a step with a gradient, a scalar tensor, in a function or eagerly; return the op of a graph."""

        def loss() -> Any:
            return tf.convert_to_tensor(watched(self._variable)) * value

        if self.family == "v1":
            given = loss() if self.mode == SESSION else loss
            return self.opt.minimize(given, var_list=[self._variable], global_step=self._counter)
        (grad,) = unscaled(self.opt, loss, [self._variable])
        return self.opt.apply_gradients([(grad, self._variable)])

    def _built_in_session(self) -> Callable[[Any], Any]:
        value = v1.placeholder(tf.float32, [])
        op = self.apply(value)
        self.session = self._stack.enter_context(v1.Session())
        self.session.run(v1.global_variables_initializer())
        return lambda number: self.session.run(op, {value: number})

    def take(self, value: float) -> None:
        """Take a step with a gradient."""
        if self.session is None:
            self._input.assign(value)
        self._step(value)

    def number(self, tensor: Any) -> Any:
        """Return the value of a variable or a tensor."""
        if self.session is not None:
            return self.session.run(tensor)
        return tf.convert_to_tensor(tensor).numpy()

    def weight(self) -> float:
        return float(self.number(self._variable))

    def tensors(self) -> dict[str, Any]:
        """Return what the user sees, as tensors or variables."""
        opt = self.opt
        names = ("applied_steps", "skipped_steps", "consecutive_skips", "last_step_applied")
        return {
            "scale": opt._loss_scale() if self.family == "v1" else opt.loss_scale,
            **{name: getattr(opt, name) for name in names},
            "counter": self._counter if self.family == "v1" else opt.iterations,
        }

    def shown(self) -> dict[str, Any]:
        """Return what the user sees, as the model shows it."""
        kinds = {"scale": float, "last_step_applied": bool}
        return {name: kinds.get(name, int)(self.number(tensor)) for name, tensor in self.tensors().items()}

    def reset_counter(self) -> None:
        """Set the step counter to 0, in eager mode and functions."""
        self.tensors()["counter"].assign(0)


@contextlib.contextmanager
def trainer(family: str, mode: str, initial: float, growth_steps: int, **settings: Any) -> Iterator[Trainer]:
    with Trainer(family, mode, lambda: FAMILIES[family](initial, growth_steps, **settings)) as made:
        yield made
