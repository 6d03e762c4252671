"""Driving Keras wrappers through recorded cases: those of mpls, and tf_keras' own beside them.

A subject is a wrapper class over a family of optimizers. It is compared with the newest release that had the
class: TensorFlow 2.21 for the public wrapper, 2.8 for the experimental one. Wrappers over Keras 3 optimizers are
subjects of a class of their own, driven through the same cases.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import re
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import keras
import numpy as np
import tensorflow as tf
import tf_keras

import mpls.experimental
import mpls.keras
from mpls.errors import without_deprecations

from . import replay, v1_replay


@dataclasses.dataclass(frozen=True)
class Subject:
    """A wrapper class over one family of inner optimizers.

    Attributes:
        layer: `keras`, `experimental`, or `native` for tf_keras' own class.
        family: `legacy` or `new`.
        release: the recorded release and flavour that it must do as.
    """

    layer: str
    family: str
    release: str

    @property
    def name(self) -> str:
        return f"{self.layer}_{self.family}"

    @property
    def is_legacy(self) -> bool:
        return self.family == "legacy"

    @property
    def is_experimental(self) -> bool:
        return self.layer == "experimental"

    @property
    def wrapper_class(self) -> Any:
        if self.layer == "native":
            return tf_keras.mixed_precision.LossScaleOptimizer
        layer = mpls.experimental if self.is_experimental else mpls.keras
        return layer.LossScaleOptimizer

    def inner(self, class_name: str, kwargs: dict[str, Any]) -> Any:
        optimizers = tf_keras.optimizers.legacy if self.is_legacy else tf_keras.optimizers
        return getattr(optimizers, class_name)(**kwargs)

    def wrap(self, inner: Any, loss_scale: dict[str, Any]) -> Any:
        """Wrap an optimizer, with `{"default": 1}`, `{"fixed": x}` or `{"initial", "growth", "multiplier"?}`."""
        if self.is_experimental:
            with without_deprecations():
                return self.wrapper_class(inner, _experimental_argument(loss_scale))
        if "fixed" in loss_scale:
            return self.wrapper_class(inner, dynamic=False, initial_scale=loss_scale["fixed"])
        if "default" in loss_scale:
            return self.wrapper_class(inner)
        return self.wrapper_class(inner, initial_scale=loss_scale["initial"], dynamic_growth_steps=loss_scale["growth"])

    def make_variables(self, spec: dict[str, Any]) -> list[Any]:
        return [
            self.variable(replay.array({"d": entry.get("d", "float32"), "v": entry["v"]}), entry["name"])
            for entry in spec["vars"]
        ]

    def prepare(self, optimizer: Any, variables: list[Any]) -> None:
        """Do what the wrapper needs done before the first step."""

    def take_step(self, optimizer: Any, spec: dict[str, Any], variables: list[Any], factors: list[Any]) -> Any:
        """Take a step; return the gradients that the loop saw, if it saw any."""
        return take_step(optimizer, spec, variables, factors)[1]

    def scale_of(self, optimizer: Any) -> Any:
        return optimizer.loss_scale

    def counter_of(self, optimizer: Any) -> Any:
        """Return the variable with the good steps; None for a fixed scale."""
        return optimizer.dynamic_counter

    def name_of(self, variable: Any) -> str:
        return str(variable.name)

    # What facts are found out by.

    framework: ClassVar[Any] = tf_keras

    def variable(self, value: Any, name: str | None = None) -> Any:
        return tf.Variable(value, name=name)

    def build(self, optimizer: Any, variables: list[Any]) -> None:
        """Build what Keras 3 wants built."""

    def apply(self, optimizer: Any, grads_and_vars: Any) -> Any:
        """Apply gradients that are unscaled."""
        return optimizer.apply_gradients(grads_and_vars)

    def state(self, optimizer: Any) -> list[Any]:
        """Return the scale and the good steps."""
        counter = self.counter_of(optimizer)
        return [self.scale_of(optimizer).numpy(), None if counter is None else counter.numpy()]

    def class_name(self, optimizer: Any) -> str:
        """Return the name of a wrapper's class, by which files say what to load."""
        assert isinstance(optimizer, tf_keras.mixed_precision.LossScaleOptimizer)
        return str(tf_keras.optimizers.serialize(optimizer)["class_name"])


@dataclasses.dataclass(frozen=True)
class Keras3Subject(Subject):
    """A wrapper class over Keras 3 optimizers: of mpls, or Keras' own."""

    @property
    def wrapper_class(self) -> Any:
        return keras.optimizers.LossScaleOptimizer if self.layer == "native" else mpls.keras.LossScaleOptimizer

    def inner(self, class_name: str, kwargs: dict[str, Any]) -> Any:
        return getattr(keras.optimizers, class_name)(**kwargs)

    def prepare(self, optimizer: Any, variables: list[Any]) -> None:
        if self.layer == "native":
            optimizer.build(variables)

    def take_step(self, optimizer: Any, spec: dict[str, Any], variables: list[Any], factors: list[Any]) -> Any:
        # The sparse gradients of a table are for the variable inside.
        values = [variable.value for variable in variables]
        with tf.GradientTape() as tape:
            loss = optimizer.scale_loss(replay.loss_of(spec, values, factors))
        grads = tape.gradient(loss, values)
        optimizer.apply(grads, variables)
        return grads

    def scale_of(self, optimizer: Any) -> Any:
        return optimizer.dynamic_scale.value if self.layer == "native" else optimizer.loss_scale

    def counter_of(self, optimizer: Any) -> Any:
        return optimizer.step_counter.value if self.layer == "native" else optimizer.dynamic_counter

    def name_of(self, variable: Any) -> str:
        path = re.sub(r"/variable_\d+$", "/variable", plain_path(variable.path))
        # What belongs to one of TensorFlow's variables has the end of its name, `:0`, inside its own.
        return path.replace("_0_", "_")

    framework: ClassVar[Any] = keras

    def variable(self, value: Any, name: str | None = None) -> Any:
        # Keras 3.6 does not take the dtype of an array by itself.
        return keras.Variable(value, dtype=getattr(value, "dtype", None), name=name)

    def build(self, optimizer: Any, variables: list[Any]) -> None:
        optimizer.build(variables)

    def apply(self, optimizer: Any, grads_and_vars: Any) -> Any:
        """Apply gradients times the scale, which are unscaled first."""
        pairs = list(grads_and_vars)
        if not optimizer.built:
            optimizer.build([variable for _, variable in pairs])
        scale = optimizer.dynamic_scale.numpy()
        return optimizer.apply_gradients([(_times(grad, scale), variable) for grad, variable in pairs])

    def state(self, optimizer: Any) -> list[Any]:
        """Return the scale, and the good steps where there has been one: Keras' wrapper has no variables before it."""
        return super().state(optimizer) if optimizer.built else [optimizer.initial_scale, None]

    def class_name(self, optimizer: Any) -> str:
        return type(optimizer).__name__


def _times(grad: Any, scale: Any) -> Any:
    if isinstance(grad, tf.IndexedSlices):
        return tf.IndexedSlices(grad.values * scale, grad.indices, grad.dense_shape)
    return None if grad is None else grad * scale


EXPERIMENTAL_RELEASE = "tf28:exp"
NATIVE = (Subject("native", "legacy", "tf21:lso2"), Subject("native", "new", "tf21:lso3"))
OURS = (
    Subject("keras", "legacy", "tf21:lso2"),
    Subject("keras", "new", "tf21:lso3"),
    Subject("experimental", "legacy", EXPERIMENTAL_RELEASE),
)


def _experimental_argument(loss_scale: dict[str, Any]) -> Any:
    if "default" in loss_scale:
        return "dynamic"
    if "fixed" in loss_scale:
        return loss_scale["fixed"]
    return mpls.experimental.DynamicLossScale(
        loss_scale["initial"], loss_scale["growth"], loss_scale.get("multiplier", 2)
    )


def spread_of(case: dict[str, Any], run: str, of: str = "outcomes") -> float:
    """Return by how much, relatively, the runs differ that share the outcome of this one."""
    (spread,) = (group.get("max_rel", 0.0) for group in case[of] if run in group["runs"])
    return spread


class Difference(NamedTuple):
    """A place where mpls does, on purpose, something else than what was recorded.

    Attributes:
        case: id of the case.
        path: where in the result, keys joined by `|`.
        ours: what mpls gives there; an exception is `{"error": type}`.
        subjects: names of the subjects that it is true of.
        follows: in place of `ours`, the recorded run that is right there.
    """

    case: str
    path: str
    ours: Any
    subjects: tuple[str, ...] = tuple(subject.name for subject in OURS)
    follows: str | None = None


def at(result: Any, path: str) -> Any:
    """Return the entry of a result at a path."""
    for key in path.split("|") if path else ():
        result = result[int(key) if isinstance(result, list) else key]
    return result


def error(name: str) -> dict[str, str]:
    return {"error": name}


NEW = ("keras_new",)
# What there is where a clip attribute of the wrapper is that of the wrapped optimizer.
CLIPPING = {
    path: ours
    for attribute, clipped_u, clipped_v in (
        ("clipnorm", 2.5, [0.7, 1.6]),
        ("global_clipnorm", 2.5384614, [0.88461536, 1.8461539]),
    )
    for path, ours in (
        (f"{attribute}/inner|wrapper", 1.0),
        (f"{attribute}/wrapper|inner", 1.0),
        (f"{attribute}/wrapper|u", clipped_u),
        (f"{attribute}/wrapper|v", clipped_v),
    )
}

DIFFERENCES: tuple[Difference, ...] = (
    # A fixed scale above 65504 is infinite in float16, and so were the loss and the weights from the first step on.
    Difference("C.f.scaled_loss_fixed", "f16", error("ValueError")),
    Difference("C.f.scaled_loss_fixed", "f16/callable", error("ValueError")),
    # An integer loss has no gradient, and a scaled one may leave the range of its dtype.
    Difference("C.f.scaled_loss", "int", error("TypeError")),
    Difference("C.f.scaled_loss", "int/callable", error("TypeError")),
    # A Python float as the loss was an error about its dtype.
    Difference("C.f.scaled_loss", "py", {"d": "float32", "v": 20.0}),
    Difference("C.f.scaled_loss", "py/callable", [True, {"d": "float32", "v": 20.0}]),
    # The reciprocal of a scale of 2**25 or more is zero in float16, and so was every gradient; mpls divides in float32.
    Difference("C.x.f.unscaled_f16_reciprocal_underflow", "f16|list|0|v", [0.0, 1.4901161e-05]),
    # Up to 2.8 sparse gradients were densified in order to test them: without a dense shape that failed, and rows were
    # summed in a way that the optimizer does not. Later releases, of the public wrapper only, test the values.
    *(
        Difference("C.f.sparse_apply", path, None, ("experimental_legacy",), "tf21:lso2")
        for path in ("dup_overflow|0", "dup_overflow|1", "dup_overflow|2", "finite_nods", "inf_nods")
    ),
    # Over new optimizers a clip attribute set on the wrapper was ignored without a word, and none could be read; over
    # legacy ones they are those of the wrapped optimizer, as they are here.
    *(
        Difference("C.f.attrs", attribute, {"py": "NoneType", "v": None}, NEW)
        for attribute in ("clipnorm", "clipvalue", "global_clipnorm")
    ),
    *(Difference("C.f.clip_on_wrapper", path, ours, NEW) for path, ours in CLIPPING.items()),
    # Hyperparameters that were set on the wrapper over new optimizers were lost without a word; they are the wrapped
    # optimizer's, as over legacy ones, and are read where they are set.
    Difference("C.f.attrs_adam", "beta_1", {"py": "float", "v": 0.7}, NEW),
    Difference("C.f.attrs_adam", "beta_2", {"py": "float", "v": 0.999}, NEW),
    Difference("C.f.dir", "momentum|0", True, NEW),
    Difference("C.f.dir", "momentum|1", True, NEW),
    Difference("C.f.setattrs", "momentum=0.5|1|v", 0.5, NEW),
    Difference("C.f.setattrs", "inner_config|momentum", 0.5, NEW),
)


def take_step(
    optimizer: Any,
    spec: dict[str, Any],
    variables: list[Any],
    factors: list[Any],
    gradient: Callable[..., Any] | None = None,
) -> tuple[Any, list[Any] | None]:
    """Take a step the way that the spec names; return what the optimizer returned, and the unscaled gradients.

    `gradient(loss, variables)` stands in for a tape where there is none.
    """
    way = spec.get("api", "minimize")
    apply_kwargs = spec.get("apply_kwargs", {})
    if way == "minimize":
        compute = functools.partial(replay.loss_of, spec, variables, factors)
        return optimizer.minimize(compute, variables, **spec.get("minimize_kwargs", {})), None
    with tf.GradientTape() as tape:
        loss = replay.loss_of(spec, variables, factors)
        scaled = optimizer.get_scaled_loss(loss) if way == "tape" else loss
    if way == "minimize_tape":
        return optimizer.minimize(loss, variables, tape=tape), None
    grads = (gradient or tape.gradient)(scaled, variables)
    if way == "tape":
        grads = optimizer.get_unscaled_gradients(grads)
    return optimizer.apply_gradients(list(zip(grads, variables, strict=True)), **apply_kwargs), grads


def slots_of(subject: Subject, optimizer: Any, variables: list[Any]) -> dict[str, Any]:
    """Return the slot variables by the keys of the record, found through the wrapper."""
    if subject.is_legacy:
        found = {}
        for variable in variables:
            for slot in optimizer.get_slot_names():
                # A legacy optimizer creates the slots of a variable when it first applies a gradient to it.
                with contextlib.suppress(KeyError):
                    found[f"{v1_replay.base_name(variable)}/{slot}"] = optimizer.get_slot(variable, slot)
        return found
    inner = optimizer.inner_optimizer
    held = inner.variables() if callable(inner.variables) else inner.variables
    names = [subject.name_of(variable).partition(":")[0] for variable in held]
    return {
        f"{index}:{name}": variable
        for index, (name, variable) in enumerate(zip(names, held, strict=True))
        if not name.rpartition("/")[2].startswith(("iteration", "learning_rate"))
    }


def as_recorded(value: Any) -> Any:
    """Return a value in the precision of the record, which holds float64 as the nearest float32."""
    return value.astype(np.float32) if value.dtype == np.float64 else value


def plain_path(path: str) -> str:
    """Return the path of a Keras variable, or an optimizer's name, without what depends on the process and the release.

    Optimizers of a process are numbered, and releases differ: SGD or sgd, rmsprop or rm_sprop.
    """
    optimizer, slash, variable = path.partition("/")
    optimizer = re.sub(r"_\d+$", "", optimizer).replace("rm_sprop", "rmsprop")
    return f"{optimizer.lower()}/{variable}" if slash else optimizer


@dataclasses.dataclass
class Trace:
    """What a replayed trace did: per step its state and the slots; and names and types beside it."""

    states: list[Any]
    slots: list[Any] | None
    meta: dict[str, Any]


def error_of(error: Exception) -> dict[str, Any]:
    """Return an exception in the form of the record, with every class that would catch it."""
    return {"error": [cls.__name__ for cls in type(error).__mro__], "message": str(error)}


def trace_eagerly(subject: Subject, spec: dict[str, Any], in_function: bool = False) -> Trace:
    variables = subject.make_variables(spec)
    optimizer = subject.wrap(subject.inner(*spec["opt"]), spec["loss_scale"])
    subject.prepare(optimizer, variables)
    meta: dict[str, Any] = {}

    def step(*factors: Any) -> None:
        meta["grads"] = replay.describe_gradients(subject.take_step(optimizer, spec, variables, list(factors)))

    run = tf.function(step) if in_function else step
    states, slots = [], []
    for factors in replay.numbers(spec["steps"]):
        try:
            run(*(tf.constant(factor, tf.float32) for factor in factors))
        except Exception as error:  # A recorded outcome too, compared by its type.
            states.append(error_of(error))
            slots.append(None)
            continue
        states.append(
            {
                "vars": {
                    entry["name"]: as_recorded(variable.numpy())
                    for entry, variable in zip(spec["vars"], variables, strict=True)
                },
                "scale": subject.scale_of(optimizer).numpy(),
                "good": None if subject.counter_of(optimizer) is None else subject.counter_of(optimizer).numpy(),
                "iter": optimizer.iterations.numpy(),
            }
        )
        slots.append({key: as_recorded(slot.numpy()) for key, slot in slots_of(subject, optimizer, variables).items()})
    if subject.is_legacy:
        meta["slot_names"] = optimizer.get_slot_names()
        meta["weights"] = [weight.name for weight in optimizer.weights]
        meta["variables"] = [variable.name for variable in optimizer.variables()]
    else:
        meta["variables"] = [subject.name_of(variable) for variable in optimizer.variables]
    return Trace(states, slots, meta)


def trace_in_graph(subject: Subject, spec: dict[str, Any]) -> Trace:
    with tf.Graph().as_default(), replay.control_flow(v2=False), tf.compat.v1.Session() as session:
        variables = v1_replay.make_variables(spec)
        optimizer = subject.wrap(subject.inner(*spec["opt"]), spec["loss_scale"])
        factors = [tf.compat.v1.placeholder(tf.float32, []) for _ in variables]
        train_op, grads = take_step(optimizer, spec, variables, factors, tf.gradients)
        fetches = {
            "state": {
                "vars": {
                    entry["name"]: tf.identity(variable)
                    for entry, variable in zip(spec["vars"], variables, strict=True)
                },
                "scale": tf.identity(optimizer.loss_scale),
                "iter": tf.identity(optimizer.iterations),
            },
            "slots": {key: tf.identity(slot) for key, slot in slots_of(subject, optimizer, variables).items()},
        }
        if optimizer.dynamic_counter is not None:
            fetches["state"]["good"] = tf.identity(optimizer.dynamic_counter)
        meta = {
            "train": [type(train_op).__name__],
            "grads": replay.describe_gradients(grads),
            "global_variables": [variable.name for variable in tf.compat.v1.global_variables()],
            "weights": [weight.name for weight in optimizer.weights],
        }
        session.run(tf.compat.v1.global_variables_initializer())
        states, slots = [], []
        for values in replay.numbers(spec["steps"]):
            session.run(train_op, dict(zip(factors, values, strict=True)))
            found = tf.nest.map_structure(as_recorded, session.run(fetches))
            states.append({"good": None, **found["state"]})
            slots.append(found["slots"])
    return Trace(states, slots, meta)


def trace_on_two_replicas(subject: Subject, spec: dict[str, Any], in_function: bool) -> Trace:
    strategy = replay.two_replicas()
    with strategy.scope():
        variables = subject.make_variables(spec)
        optimizer = subject.wrap(subject.inner(*spec["opt"]), spec["loss_scale"])
        subject.prepare(optimizer, variables)

    def step(first: list[Any], second: list[Any]) -> None:
        def replica_step() -> None:
            subject.take_step(optimizer, spec, variables, (first, second)[replay.replica_id()])

        strategy.run(replica_step)

    def on_each(read: Callable[[], Any]) -> list[Any]:
        return [value.numpy() for value in strategy.experimental_local_results(strategy.run(read))]

    run = tf.function(step) if in_function else step
    states = []
    for per_replica in replay.numbers(spec["steps"]):
        run(*([tf.constant(factor, tf.float32) for factor in factors] for factors in per_replica))
        counter = subject.counter_of(optimizer)
        scales = on_each(lambda: tf.identity(subject.scale_of(optimizer)))
        states.append(
            {
                "vars": {
                    entry["name"]: on_each(lambda variable=variable: tf.identity(variable))
                    for entry, variable in zip(spec["vars"], variables, strict=True)
                },
                # A fixed scale is one tensor for all replicas, and recorded as one.
                "scale": scales[:1] if counter is None else scales,
                "good": None if counter is None else on_each(lambda: tf.identity(subject.counter_of(optimizer))),
                "iter": optimizer.iterations.numpy(),
            }
        )
    return Trace(states, None, {})


MODES: dict[str, Callable[[Subject, dict[str, Any]], Trace]] = {
    "eager": trace_eagerly,
    "function": functools.partial(trace_eagerly, in_function=True),
    "graph": trace_in_graph,
    "strategy:eager": functools.partial(trace_on_two_replicas, in_function=False),
    "strategy:function": functools.partial(trace_on_two_replicas, in_function=True),
}
