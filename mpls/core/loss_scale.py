"""Loss scales as trackable objects: state around the update rule, made where it is used."""

from __future__ import annotations

import abc
from typing import Any

import tensorflow as tf

from mpls.core.gradients import all_finite
from mpls.core.numbers import is_number, require_usable, to_float, to_int
from mpls.core.replicas import (
    all_replicas_finite,
    all_replicas_finite_without_merge,
    call_in_cross_replica_context,
    merges_in_replica_context,
)
from mpls.core.rule import ScaleState, UpdateRule, next_state
from mpls.errors import ArgumentTypeError, ArgumentValueError, error_text
from mpls.upstream import Trackable, graph_key, native_v1_class

__all__ = ["DynamicLossScale", "FixedLossScale", "LossScale", "deserialize", "get", "serialize"]

# TensorFlow's own classes are bases so that `isinstance` checks in TensorFlow and in users' code hold; every method
# that they define is overridden.
_NativeLossScale: Any = native_v1_class("LossScale") or type("LossScale", (Trackable,), {})
_NativeFixedLossScale: Any = native_v1_class("FixedLossScale") or type("FixedLossScale", (Trackable,), {})
_NativeDynamicLossScale: Any = native_v1_class("DynamicLossScale") or type("DynamicLossScale", (Trackable,), {})


class LossScale(_NativeLossScale, metaclass=abc.ABCMeta):
    """Base class of loss scales; subclass it to write one's own.

    A subclass calls `super().__init__()`, creates its state with `_add_weight`, and defines `__call__`, `update` and
    `get_config`. Optimizers of mpls call `update` once a step for every subclass, and obey what it returns.

    Reproduces:
        `tf.compat.v1.train.experimental.LossScale`, TF 1.14 to 2.21, and
        `tf.mixed_precision.experimental.LossScale`, TF 2.1 to 2.8. There, optimizers called `update` only for
        `DynamicLossScale` and silently ignored it for other subclasses.

    Example:
        >>> import mpls.v1
        >>> class Halving(mpls.v1.LossScale):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self._value = self._add_weight("value", 1024.0, tf.float32)
        ...     def __call__(self):
        ...         return tf.convert_to_tensor(self._value)
        ...     def update(self, grads):
        ...         self._value.assign(self._value / 2)
        ...         return None, True
        ...     def get_config(self):
        ...         return {}
        >>> scale = Halving()
        >>> _ = scale.update([])
        >>> float(scale())
        512.0
    """

    def __init__(self) -> None:
        self._weights: dict[tuple[str, str | None], Any] = {}

    @abc.abstractmethod
    def __call__(self) -> Any:
        """Return the current loss scale.

        Returns:
            Scalar float32 tensor.
        """

    @abc.abstractmethod
    def update(self, grads: Any) -> tuple[Any, Any]:
        """Update the loss scale for a step that produced these gradients.

        Args:
            grads: nested structure of unscaled gradients, tensors or `tf.IndexedSlices` of any float dtype; None
                entries are ignored.

        Returns:
            `(update_op, should_apply)`: the op that updates the state, or None in eager mode, where the state is
            updated when the call returns; and a scalar boolean tensor or Python bool, False when the step must be
            skipped.
        """

    @abc.abstractmethod
    def get_config(self) -> dict[str, Any]:
        """Return the constructor arguments that recreate this loss scale, as plain numbers."""

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> LossScale:
        """Create a loss scale from what `get_config` returned."""
        return cls(**config)

    def _add_weight(self, name: str, initial_value: Any, dtype: Any = None) -> Any:
        """Create a variable of this loss scale in the current graph, or in eager mode.

        Args:
            name: name of the variable, and its key in object-based checkpoints.
            initial_value: the value it starts from.
            dtype: its dtype; by default that of `initial_value`.

        Returns:
            The variable: a resource variable, not trainable, never aggregated over replicas.

        Raises:
            RuntimeError: there is a variable of that name already, in the same graph.
        """
        key = (name, graph_key())
        if key in self._weights:
            raise RuntimeError(
                f"{type(self).__name__}._add_weight: name must be new in this graph; got {name!r}, which is taken. "
                "Use another name, or keep the variable that the first call returned."
            )
        variable = tf.compat.v1.Variable(
            initial_value=initial_value,
            name=name,
            dtype=dtype,
            trainable=False,
            use_resource=True,
            synchronization=tf.VariableSynchronization.AUTO,
            aggregation=tf.compat.v1.VariableAggregation.NONE,
        )
        self._weights[key] = variable
        self._handle_deferred_dependencies(name=name, trackable=variable)
        return variable

    def _weights_here(self) -> dict[str, Any]:
        """Return the variables of the current graph, or of eager mode, by name."""
        here = graph_key()
        return {name: weight for (name, key), weight in self._weights.items() if key == here}

    def _trackable_children(self, save_type: str = "checkpoint", **kwargs: Any) -> dict[str, Any]:
        children = self._weights_here()
        children.update(Trackable._trackable_children(self, save_type, **kwargs))
        return children

    def _lookup_dependency(self, name: str, cached_dependencies: Any = None) -> Any:
        known = Trackable._lookup_dependency(self, name, cached_dependencies)
        return self._weights_here().get(name) if known is None else known


class FixedLossScale(LossScale, _NativeFixedLossScale):
    """A loss scale that never changes, and never asks for a step to be skipped.

    Args:
        loss_scale_value: the scale, at least 1 and finite; a Python or NumPy number.

    Raises:
        ValueError: `loss_scale_value` is no number, below 1, NaN, or infinite in float32.

    Reproduces:
        `tf.compat.v1.train.experimental.FixedLossScale`, TF 1.14 to 2.21, which refused NumPy numbers and accepted NaN
        and infinity.

    Example:
        >>> import mpls.v1
        >>> scale = mpls.v1.FixedLossScale(128)
        >>> float(scale())
        128.0
        >>> scale.update([tf.constant(float("nan"))])
        (None, True)
    """

    def __init__(self, loss_scale_value: float) -> None:
        super().__init__()
        subject = "FixedLossScale: loss_scale_value"
        if not is_number(loss_scale_value):
            raise ArgumentValueError(
                error_text(
                    subject, "be a Python or NumPy number", loss_scale_value, "FixedLossScale(128.0)", "fixed-scales"
                )
            )
        value = to_float(loss_scale_value, subject)
        if value < 1:
            raise ArgumentValueError(
                error_text(
                    subject,
                    "be at least 1",
                    loss_scale_value,
                    "Use FixedLossScale(1.0) for no scaling",
                    "fixed-scales",
                )
            )
        self._loss_scale_value = require_usable(value, subject, loss_scale_value)

    @classmethod
    def _unbounded(cls, value: float) -> FixedLossScale:
        """Return a fixed loss scale that may be below 1, as those of the Keras wrappers may."""
        loss_scale = cls.__new__(cls)
        LossScale.__init__(loss_scale)
        loss_scale._loss_scale_value = value
        return loss_scale

    def __call__(self) -> Any:
        """Return the loss scale as a scalar float32 tensor, always the same number."""
        # Made at each call, so that it belongs to the graph and the device in which it is used.
        return tf.convert_to_tensor(self._loss_scale_value, tf.float32)

    def update(self, grads: Any) -> tuple[Any, bool]:
        """Do nothing.

        Args:
            grads: ignored, non-finite ones included.

        Returns:
            `(op, True)`: an op that does nothing, None in eager mode; and that the step is to be applied.
        """
        del grads
        return tf.no_op(), True

    def get_config(self) -> dict[str, Any]:
        """Return `{'loss_scale_value': float}`."""
        return {"loss_scale_value": self._loss_scale_value}

    def __repr__(self) -> str:
        return f"FixedLossScale({self._loss_scale_value})"


def is_loss_scale(value: Any) -> bool:
    """Return whether the value is a loss scale of any class, of mpls or of TensorFlow itself."""
    return isinstance(value, _NativeLossScale)


def is_fixed(loss_scale: Any) -> bool:
    """Return whether a loss scale is a `FixedLossScale`, of mpls or of TensorFlow itself."""
    return isinstance(loss_scale, _NativeFixedLossScale)


def is_dynamic(loss_scale: Any) -> bool:
    """Return whether a loss scale is a `DynamicLossScale`, of mpls or of TensorFlow itself."""
    return isinstance(loss_scale, _NativeDynamicLossScale)


def never_skips(loss_scale: Any) -> bool:
    """Return whether a loss scale is fixed, and no subclass of a user has given it an `update` of its own."""
    return is_fixed(loss_scale) and type(loss_scale).update in (
        FixedLossScale.update,
        _NativeFixedLossScale.update,
    )


class DynamicLossScale(LossScale, _NativeDynamicLossScale):
    """A loss scale that grows while gradients stay finite and shrinks when they do not.

    Every `increment_period` finite steps in a row the scale is multiplied by `multiplier`, unless that leaves float32.
    At a step with a non-finite gradient it is divided by `multiplier`, not below 1, and the step is to be skipped.

    The state, `current_loss_scale` (float32) and `good_steps` (int64), is created once for each graph in which the
    object is used, and in eager mode at first use, under the strategy of the moment.

    Args:
        initial_loss_scale: the scale to start from, positive. Too high is cheap, a few skipped steps; too low is slow
            to grow.
        increment_period: finite steps in a row after which the scale grows; 1 or less means every step.
        multiplier: the factor, positive.

    Raises:
        ValueError: `initial_loss_scale` or `multiplier` is NaN, infinite, zero or negative, or a string that is no
            number.
        TypeError: an argument cannot be converted to a number.

    Reproduces:
        `tf.compat.v1.train.experimental.DynamicLossScale`, TF 1.14 to 2.21, to the last bit of the scale.
        There, the state belonged to the graph in which the object was built, and `update` in a replica context was an
        AttributeError.

    Example:
        >>> import mpls.v1
        >>> scale = mpls.v1.DynamicLossScale(initial_loss_scale=8, increment_period=2)
        >>> _, should_apply = scale.update([tf.constant(float("inf"))])
        >>> bool(should_apply), float(scale())
        (False, 4.0)
    """

    def __init__(
        self, initial_loss_scale: float = 2**15, increment_period: int = 2000, multiplier: float = 2.0
    ) -> None:
        super().__init__()
        self._initial_loss_scale = _usable_float(initial_loss_scale, "initial_loss_scale")
        self._increment_period = to_int(increment_period, "DynamicLossScale: increment_period")
        self._multiplier = _usable_float(multiplier, "multiplier")
        with tf.init_scope():
            is_graph = not tf.executing_eagerly()
        if is_graph:
            # An initializer op or a Saver that the user makes before the first use has to include the state.
            self._create_weights()

    @property
    def initial_loss_scale(self) -> float:
        """The scale at the start, a Python float."""
        return self._initial_loss_scale

    @property
    def increment_period(self) -> int:
        """The number of finite steps in a row after which the scale grows, a Python int."""
        return self._increment_period

    @property
    def multiplier(self) -> float:
        """The factor by which the scale grows and shrinks, a Python float."""
        return self._multiplier

    @property
    def _current_loss_scale(self) -> Any:
        return self._created_weight("current_loss_scale")

    @property
    def _num_good_steps(self) -> Any:
        return self._created_weight("good_steps")

    def _created_weight(self, name: str) -> Any:
        key = (name, graph_key())
        if key not in self._weights:
            call_in_cross_replica_context(self._create_weights_at_first_use)
        return self._weights[key]

    def _create_weights_at_first_use(self) -> None:
        # The name is the checkpoint key of a v1 Saver: it must not depend on where the first use happens to stand.
        with tf.name_scope(""):
            self._create_weights()

    def _create_weights(self) -> None:
        here = graph_key()
        with tf.init_scope():
            if ("current_loss_scale", here) not in self._weights:
                self._add_weight("current_loss_scale", self._initial_loss_scale, tf.float32)
            if ("good_steps", here) not in self._weights:
                self._add_weight("good_steps", 0, tf.int64)

    def _trackable_children(self, save_type: str = "checkpoint", **kwargs: Any) -> dict[str, Any]:
        # A checkpoint written before the first step holds the state too, and one read then finds its place.
        self._create_weights()
        return super()._trackable_children(save_type, **kwargs)

    def _lookup_dependency(self, name: str, cached_dependencies: Any = None) -> Any:
        self._create_weights()
        return super()._lookup_dependency(name, cached_dependencies)

    def __call__(self) -> Any:
        """Return the current loss scale as a scalar float32 tensor."""
        return tf.convert_to_tensor(self._current_loss_scale)

    def update(self, grads: Any) -> tuple[Any, Any]:
        """Grow or shrink the scale, depending on whether every gradient is finite.

        Under a strategy the gradients of all replicas are looked at, and all replicas get the same answer;
        it may be called in a replica context and in a cross-replica context.

        Args:
            grads: nested structure of unscaled gradients, tensors or `tf.IndexedSlices` of any float dtype; None
                entries are ignored, and no gradients at all count as finite.

        Returns:
            `(update_op, should_apply)`: the op that updates the state, None in eager mode; and a scalar boolean
            tensor, whether all gradients are finite.
        """
        if merges_in_replica_context():
            return self._update_for(all_replicas_finite_without_merge(grads))
        if tf.distribute.has_strategy():
            return tuple(call_in_cross_replica_context(self._update_together, grads))
        return self._update_for(all_finite(grads))

    def _update_together(self, grads: Any) -> tuple[Any, Any]:
        return self._update_for(all_replicas_finite(grads))

    def _update_for(self, grads_finite: Any) -> tuple[Any, Any]:
        scale, good_steps = self._current_loss_scale, self._num_good_steps
        before = ScaleState(tf.convert_to_tensor(scale), tf.convert_to_tensor(good_steps))
        rule = UpdateRule(self._increment_period, self._multiplier)
        after = next_state(before, grads_finite, rule, _select)
        return tf.group(scale.assign(after.scale), good_steps.assign(after.good_steps)), grads_finite

    def get_config(self) -> dict[str, Any]:
        """Return `{'initial_loss_scale': float, 'increment_period': int, 'multiplier': float}`."""
        return {
            "initial_loss_scale": self._initial_loss_scale,
            "increment_period": self._increment_period,
            "multiplier": self._multiplier,
        }

    def __repr__(self) -> str:
        state = ""
        if tf.executing_eagerly():
            weights = self._weights_here()
            if weights:
                scale, good_steps = weights["current_loss_scale"].numpy(), weights["good_steps"].numpy()
            else:
                scale, good_steps = self._initial_loss_scale, 0
            state = f"current_loss_scale={scale}, num_good_steps={good_steps}, "
        return (
            f"DynamicLossScale({state}initial_loss_scale={self._initial_loss_scale}, "
            f"increment_period={self._increment_period}, multiplier={self._multiplier})"
        )


def _usable_float(value: Any, argument: str) -> float:
    subject = f"DynamicLossScale: {argument}"
    return require_usable(to_float(value, subject), subject, value)


def _select(condition: Any, if_true: Any, if_false: Any) -> Any:
    """`tf.where` for scalars, in which a Python number takes the dtype of the tensor beside it."""
    dtype = next(value.dtype for value in (if_true, if_false) if tf.is_tensor(value))
    return tf.where(condition, tf.cast(if_true, dtype), tf.cast(if_false, dtype))


def get(identifier: Any) -> LossScale | None:
    """Return the loss scale that an identifier stands for.

    Args:
        identifier: `'dynamic'` for a new `DynamicLossScale` with the default settings; a Python or NumPy number for
            a new `FixedLossScale`; a loss scale, of mpls or of TensorFlow itself, for itself; or None for None.

    Returns:
        The loss scale, or None.

    Raises:
        ValueError: anything else, or a number that no fixed scale can have.
        TypeError: a tensor.

    Reproduces:
        `tensorflow.python.training.experimental.loss_scale.get`, TF 1.14 to 2.21.
    """
    if identifier is None or is_loss_scale(identifier):
        return identifier  # type: ignore[no-any-return]
    if is_number(identifier):
        return FixedLossScale(identifier)
    if isinstance(identifier, str) and identifier == "dynamic":
        return DynamicLossScale()
    error = ArgumentTypeError if tf.is_tensor(identifier) else ArgumentValueError
    raise error(
        error_text(
            "loss_scale",
            "be 'dynamic', a number or a LossScale",
            identifier,
            "Pass 'dynamic', 128.0 or DynamicLossScale(...)",
            "loss-scale-arguments",
        )
    )


def serialize(loss_scale: LossScale | None) -> dict[str, Any] | None:
    """Return a JSON-able description of a loss scale, as configs of TF 2.0 to 2.3 hold it.

    Args:
        loss_scale: a loss scale, or None.

    Returns:
        `{'class_name': ..., 'config': ...}`, or None for None.
    """
    if loss_scale is None:
        return None
    return {"class_name": type(loss_scale).__name__, "config": loss_scale.get_config()}


def deserialize(config: Any, custom_objects: dict[str, type] | None = None) -> LossScale | None:
    """Create the loss scale that a config describes.

    Args:
        config: `{'class_name': ..., 'config': ...}`, with or without the keys `module` and `registered_name` that
            later formats added; or None.
        custom_objects: classes of the user by class name; they go before those of mpls.

    Returns:
        The loss scale, or None for None.

    Raises:
        ValueError: the config is of another form, or names an unknown class.
    """
    if config is None:
        return None
    classes: dict[str, Any] = {
        "FixedLossScale": FixedLossScale,
        "DynamicLossScale": DynamicLossScale,
        **(custom_objects or {}),
    }
    if not isinstance(config, dict) or "class_name" not in config or not isinstance(config.get("config"), dict):
        raise ArgumentValueError(
            error_text(
                "loss_scale config",
                "be a dict with 'class_name' and 'config'",
                config,
                "{'class_name': 'DynamicLossScale', 'config': {}}",
                "configs",
            )
        )
    name = config["class_name"]
    if name not in classes:
        raise ArgumentValueError(
            error_text(
                "loss_scale config: class_name",
                f"be one of {sorted(classes)}",
                name,
                f"Pass custom_objects={{{name!r}: TheClass}}",
                "configs",
            )
        )
    loss_scale: LossScale = classes[name].from_config(dict(config["config"]))
    return loss_scale
