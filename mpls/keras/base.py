"""The public Keras wrapper: what all families share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from mpls.core.gradients import scale_loss, unscale_gradients
from mpls.core.graph import as_written
from mpls.core.loss_scale import DynamicLossScale, LossScale
from mpls.core.scaling import exceeds
from mpls.errors import ArgumentTypeError, ArgumentValueError, MplsWarning, error_text, warn_user
from mpls.keras.arguments import check_settings, read_config
from mpls.keras.delegation import delegated
from mpls.keras.families import concrete_class, family_of
from mpls.keras.strategies import require_supported_strategy
from mpls.upstream import native_keras_wrappers


class LossScaleOptimizerMeta(type):
    """Lets the wrappers that a framework made by itself count as instances of `LossScaleOptimizer`."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return cls.__subclasscheck__(type(instance))

    def __subclasscheck__(cls, subclass: type) -> bool:
        if type.__subclasscheck__(cls, subclass):
            return True
        return cls is LossScaleOptimizer and issubclass(subclass, native_keras_wrappers())


class LossScaleOptimizer(metaclass=LossScaleOptimizerMeta):
    """Wrap a Keras optimizer so that it scales the loss and unscales the gradients.

    `minimize`, and with it `Model.fit`, multiplies the loss by the loss scale, divides the gradients by it, and updates
    it. A custom loop does the first two itself, with `get_scaled_loss` and `get_unscaled_gradients`, before
    `apply_gradients`. With a dynamic scale, a step with a non-finite gradient on any replica is skipped on all
    replicas: variables and slots stay as they are, `iterations` advances, and the scale is halved, down to 1. After
    `dynamic_growth_steps` finite steps in a row it is doubled. A fixed scale never skips.

    The instance is of the family of the optimizer that it wraps, legacy or new, and has that family's methods;
    frameworks and `isinstance` checks take it for their own `LossScaleOptimizer`. Hyperparameters of a legacy
    optimizer can be read and set on it; other attributes cannot. In a graph, methods that change state return an op; in
    eager mode they return None.

    Args:
        inner_optimizer: the optimizer to wrap, of tf_keras, legacy or new.
        dynamic: whether the scale adapts.
        initial_scale: the scale to start from, positive; by default 2**15. For a fixed scale it must be given.
        dynamic_growth_steps: finite steps in a row after which a dynamic scale doubles; by default 2000.

    Raises:
        TypeError: `inner_optimizer` is no optimizer of tf_keras, or scales the loss already; `dynamic` is no bool.
        ValueError: `inner_optimizer` is wrapped already; a fixed scale without `initial_scale`, or with
            `dynamic_growth_steps`; an `initial_scale` that is NaN, infinite, zero or negative; a strategy that does
            not work.

    Reproduces:
        `tf.keras.mixed_precision.LossScaleOptimizer`, TF 2.4 to 2.15, and
        `tf_keras.mixed_precision.LossScaleOptimizer`, 2.16 to 2.21. There, replicas that did not aggregate could
        disagree, scales from 2**25 on lost float16 gradients, and `from_config` was missing from the public class.

    Example:
        >>> import tensorflow as tf
        >>> import tf_keras, mpls.keras
        >>> opt = mpls.keras.LossScaleOptimizer(tf_keras.optimizers.SGD(0.25))
        >>> weight = tf.Variable(1.0)
        >>> opt.minimize(lambda: weight ** 2, var_list=[weight])
        >>> float(weight), float(opt.loss_scale), int(opt.dynamic_counter)
        (0.5, 32768.0, 1)

        A custom loop:

        >>> with tf.GradientTape() as tape:
        ...     scaled_loss = opt.get_scaled_loss(weight ** 2)
        >>> grads = opt.get_unscaled_gradients(tape.gradient(scaled_loss, [weight]))
        >>> opt.apply_gradients(zip(grads, [weight]))
        >>> float(weight)
        0.25

        Hyperparameters of a legacy optimizer; `epsilon` of Adam is none:

        >>> opt = tf_keras.optimizers.legacy.Adam(beta_1=0.8, epsilon=1e-5)
        >>> opt = mpls.keras.LossScaleOptimizer(opt)
        >>> opt.beta_1 = 0.5  # the same as opt.inner_optimizer.beta_1 = 0.5
        >>> float(opt.inner_optimizer.beta_1)
        0.5
        >>> opt.epsilon
        Traceback (most recent call last):
        ...
        AttributeError: 'LossScaleOptimizer' object has no attribute 'epsilon'
    """

    if TYPE_CHECKING:
        # What a family defines.
        @staticmethod
        def _make_loss_scale(initial_scale: float, growth_steps: int | None) -> LossScale: ...
        def _track_inner(self) -> None: ...
        def _serialize_inner(self) -> Any: ...

    _optimizer: Any
    _loss_scale: LossScale
    _loss_has_been_scaled: bool
    _gradients_have_been_unscaled: bool
    _has_warned_of_scaling: bool

    def __init__(
        self,
        inner_optimizer: Any,
        dynamic: bool = True,
        initial_scale: float | None = None,
        dynamic_growth_steps: int | None = None,
    ) -> None:
        _refuse_wrapper(inner_optimizer)
        family = family_of(inner_optimizer)
        scale, growth_steps = check_settings(dynamic, initial_scale, dynamic_growth_steps)
        require_supported_strategy()
        _refuse_wrapped(inner_optimizer)
        # The family is known only now; from here on the instance has its methods. Subclasses of users keep
        # their own, whatever their constructors take.
        self.__class__ = concrete_class(type(self), family)
        # Past the __setattr__ of the frameworks' bases, which tracks and delegates.
        vars(self).update(
            _optimizer=inner_optimizer,
            _loss_scale=self._make_loss_scale(scale, growth_steps),
            _loss_has_been_scaled=False,
            _gradients_have_been_unscaled=False,
            _has_warned_of_scaling=False,
        )
        self._track_inner()
        inner_optimizer._is_wrapped_by_loss_scale_optimizer = True

    @property
    def inner_optimizer(self) -> Any:
        """The optimizer that this one wraps."""
        return self._optimizer

    @property
    def dynamic(self) -> bool:
        """Whether the loss scale adapts."""
        return isinstance(self._loss_scale, DynamicLossScale)

    @property
    def loss_scale(self) -> Any:
        """The current loss scale, a scalar float32 tensor."""
        return self._loss_scale()

    @property
    def dynamic_counter(self) -> Any:
        """Finite steps since the scale last changed, a scalar int64 variable; None for a fixed scale."""
        return self._loss_scale._num_good_steps if isinstance(self._loss_scale, DynamicLossScale) else None

    @property
    def initial_scale(self) -> float:
        """The loss scale at the start, a Python float."""
        if isinstance(self._loss_scale, DynamicLossScale):
            return self._loss_scale.initial_loss_scale
        return float(self._loss_scale.get_config()["loss_scale_value"])

    @property
    def dynamic_growth_steps(self) -> int | None:
        """Finite steps in a row after which the scale doubles, a Python int; None for a fixed scale."""
        return self._loss_scale.increment_period if isinstance(self._loss_scale, DynamicLossScale) else None

    iterations = delegated("iterations", "The number of steps, skipped ones included: a scalar int64 variable.")
    learning_rate = delegated(
        "learning_rate", "The learning rate: a scalar variable, or for legacy optimizers also a schedule."
    )
    lr = delegated("learning_rate", "The same as `learning_rate`.")
    clipnorm = delegated("clipnorm", "The norm to which each unscaled gradient is clipped, a float, or None.")
    global_clipnorm = delegated(
        "global_clipnorm", "The norm to which all unscaled gradients together are clipped, a float, or None."
    )
    clipvalue = delegated(
        "clipvalue", "The value to which elements of unscaled gradients are clipped, a float, or None."
    )

    @as_written
    def get_scaled_loss(self, loss: Any) -> Any:
        """Multiply a loss by the loss scale, for custom loops; `minimize` does it by itself.

        Args:
            loss: tensor of any shape and float dtype, or a callable that takes nothing and returns one.

        Returns:
            The scaled loss, in the loss's dtype; for a callable, a callable that returns it, with the scale of the
            moment in which it runs.

        Raises:
            ValueError: the scale is fixed and infinite in the loss's dtype, as 2**17 is in float16.
        """
        self._loss_has_been_scaled = True
        return scale_loss(loss, self._scale_for)

    def _scale_for(self, dtype: Any) -> Any:
        if exceeds(self._loss_scale, dtype):
            raise ArgumentValueError(
                error_text(
                    "LossScaleOptimizer: a fixed initial_scale",
                    f"be at most {float(dtype.max):g} for a {dtype.name} loss",
                    self.initial_scale,
                    "Compute the loss in float32, or use initial_scale=2.0**15",
                    "float16-losses",
                )
            )
        return self.loss_scale

    @as_written
    def get_unscaled_gradients(self, grads: Iterable[Any]) -> list[Any]:
        """Divide gradients by the loss scale, for custom loops; `minimize` does it by itself.

        Args:
            grads: tensors, `tf.IndexedSlices` (which stay sparse) and None, of any float dtype.

        Returns:
            A list of the same length, each gradient in its own dtype, None kept.
        """
        self._gradients_have_been_unscaled = True
        unscaled: list[Any] = unscale_gradients(list(grads), self.loss_scale)
        return unscaled

    def _warn_if_scaling_was_forgotten(self) -> None:
        """Warn once if a custom loop applies gradients without having called both scaling methods."""
        calls = {
            "get_scaled_loss()": self._loss_has_been_scaled,
            "get_unscaled_gradients()": self._gradients_have_been_unscaled,
        }
        forgotten = [call for call, was_made in calls.items() if not was_made]
        if not forgotten or self._has_warned_of_scaling:
            return
        self._has_warned_of_scaling = True
        warn_user(
            f"LossScaleOptimizer: apply_gradients() was called, but {' and '.join(forgotten)} never was, so the "
            "gradients that are applied are not those of the loss, or were computed without loss scaling. "
            "In a custom loop:\n"
            "    with tf.GradientTape() as tape:\n"
            "        scaled_loss = opt.get_scaled_loss(loss_fn())\n"
            "    grads = opt.get_unscaled_gradients(tape.gradient(scaled_loss, variables))\n"
            "    opt.apply_gradients(zip(grads, variables))\n"
            "See MIGRATION.md#forgotten-scaling",
            MplsWarning,
        )

    def get_config(self) -> dict[str, Any]:
        """Return the settings, the same whether the scale is set by this class or by the experimental one.

        Returns:
            `{'inner_optimizer': dict, 'dynamic': bool, 'initial_scale': float, 'dynamic_growth_steps': int or None}`.
        """
        return {
            "inner_optimizer": self._serialize_inner(),
            "dynamic": self.dynamic,
            "initial_scale": self.initial_scale,
            "dynamic_growth_steps": self.dynamic_growth_steps,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> Any:
        """Create an optimizer from a config of this release, or of any TensorFlow from 2.0 on.

        Args:
            config: what `get_config` returned; it is not changed. The inner optimizer may stand in it as an object.
            custom_objects: classes of the user by name.

        Returns:
            The optimizer, of the family of the inner optimizer that the config names.

        Raises:
            KeyError: the config names no optimizer.
            ValueError: its loss scale is of a class, or has a multiplier, that has no counterpart here.
            TypeError: it is no dict, or has unknown keys.
        """
        from mpls.keras.configs import deserialize_inner

        inner, settings = read_config(config, custom_objects)
        return cls._from_settings(deserialize_inner(cls, inner, custom_objects), settings)

    @classmethod
    def _from_settings(cls, inner_optimizer: Any, settings: dict[str, Any]) -> Any:
        return cls(inner_optimizer, **settings)


LossScaleOptimizer.__module__ = "mpls.keras"


def _refuse_wrapper(optimizer: Any) -> None:
    if isinstance(optimizer, LossScaleOptimizer):
        raise ArgumentTypeError(
            error_text(
                "LossScaleOptimizer: inner_optimizer",
                "not scale the loss itself",
                optimizer,
                "Use it as it is, or wrap its inner_optimizer's config anew",
                "wrapping",
            )
        )


def _refuse_wrapped(optimizer: Any) -> None:
    # The mark is one that tf_keras sets and reads too.
    if getattr(optimizer, "_is_wrapped_by_loss_scale_optimizer", False):
        raise ArgumentValueError(
            error_text(
                "LossScaleOptimizer: inner_optimizer",
                "be wrapped by one LossScaleOptimizer only",
                optimizer,
                "Create another: type(opt).from_config(opt.get_config())",
                "wrapping",
            )
        )


def drop_missing_gradients(grads_and_vars: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Return the pairs that have a gradient, and log the names of the variables that have none.

    Raises:
        ValueError: there are pairs, and none has a gradient.
    """
    pairs = list(grads_and_vars)
    present = [(grad, variable) for grad, variable in pairs if grad is not None]
    missing = [str(getattr(variable, "name", variable)) for grad, variable in pairs if grad is None]
    if pairs and not present:
        raise ArgumentValueError(
            error_text(
                "LossScaleOptimizer: grads_and_vars",
                "hold at least one gradient that is not None",
                missing,
                "Check that the loss depends on the variables: tape.gradient(loss, variables)",
                "no-gradients",
            )
        )
    if missing:
        tf.get_logger().warning("LossScaleOptimizer: there are no gradients for the variables %s.", missing)
    return present
