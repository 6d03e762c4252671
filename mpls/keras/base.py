"""The public Keras wrapper: what all families share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from mpls.core.graph import as_written
from mpls.core.loss_scale import DynamicLossScale, LossScale
from mpls.core.scaling import exceeds
from mpls.errors import ArgumentTypeError, ArgumentValueError, MplsWarning, error_text, warn_user
from mpls.keras.arguments import check_settings, read_config
from mpls.keras.calls import GET_SCALED_LOSS, GET_UNSCALED_GRADIENTS, ScalingCalls
from mpls.keras.delegation import delegated
from mpls.keras.families import concrete_class, family_of
from mpls.keras.strategies import require_supported_strategy
from mpls.upstream import loaded_keras, native_keras_wrappers


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
    replicas: variables and slots stay as they are, `iterations` advances (not with Keras 3), and the scale is halved,
    down to 1. After `dynamic_growth_steps` finite steps in a row it is doubled. A fixed scale never skips.

    The instance is of the family of the optimizer that it wraps, of tf_keras, legacy or new, or of Keras 3, and has
    that family's methods; frameworks and `isinstance` checks take it for their own `LossScaleOptimizer`.
    Hyperparameters of a legacy optimizer can be read and set on it; other attributes cannot. In a graph, methods that
    change state return an op; in eager mode they return None.

    Over a Keras 3 optimizer, `scale_loss` and `apply` are there too, and a custom loop may use them in place of the
    other three. `dynamic_scale` and `step_counter` are the Keras variables that hold the state.

    Args:
        inner_optimizer: the optimizer to wrap, of tf_keras, legacy or new, or of Keras 3.
        dynamic: whether the scale adapts.
        initial_scale: the scale to start from, positive; by default 2**15. For a fixed scale it must be given.
        dynamic_growth_steps: finite steps in a row after which a dynamic scale doubles; by default 2000.
        name: the name of a wrapper over a Keras 3 optimizer; by default a generated one.

    Raises:
        TypeError: `inner_optimizer` is no Keras optimizer, or scales the loss already; `dynamic` is no bool; a `name`
            for an optimizer of tf_keras.
        ValueError: `inner_optimizer` is wrapped already, or has a `loss_scale_factor`; a fixed scale without
            `initial_scale`, or with `dynamic_growth_steps`; an `initial_scale` that is NaN, infinite, zero or negative;
            a strategy that does not work.
        NotImplementedError: Keras 3 runs on a backend other than TensorFlow and JAX.

    Reproduces:
        `tf.keras.mixed_precision.LossScaleOptimizer`, TF 2.4 to 2.15, and
        `tf_keras.mixed_precision.LossScaleOptimizer`, 2.16 to 2.21. There, replicas that did not aggregate could
        disagree, scales from 2**25 on lost float16 gradients, and `from_config` was missing from the public class.
        `keras.optimizers.LossScaleOptimizer`, Keras 3, whose scale could fall to 0 and grow to infinity, which looked
        at the gradients of the first replica only, and which had no fixed scale.

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
        def _init_family(self, inner_optimizer: Any, name: str | None) -> None: ...
        def _make_loss_scale(self, initial_scale: float, growth_steps: int | None) -> LossScale: ...
        def _track_inner(self) -> None: ...
        def _scale(self, loss: Any) -> Any: ...
        def _unscale(self, grads: list[Any]) -> list[Any]: ...
        def _family_config(self) -> dict[str, Any]: ...

    _optimizer: Any
    _loss_scale: LossScale
    _calls: ScalingCalls
    _has_warned_of_scaling: bool

    def __init__(
        self,
        inner_optimizer: Any,
        dynamic: bool = True,
        initial_scale: float | None = None,
        dynamic_growth_steps: int | None = None,
        *,
        name: str | None = None,
    ) -> None:
        _refuse_wrapper(inner_optimizer)
        family = family_of(inner_optimizer)
        scale, growth_steps = check_settings(dynamic, initial_scale, dynamic_growth_steps)
        require_supported_strategy(family)
        _refuse_wrapped(inner_optimizer)
        # The family is known only now; from here on the instance has its methods. Subclasses of users keep
        # their own, whatever their constructors take.
        self.__class__ = concrete_class(type(self), family)
        self._init_family(inner_optimizer, name)
        # Past the __setattr__ of the frameworks' bases, which tracks and delegates.
        vars(self).update(
            _optimizer=inner_optimizer,
            _loss_scale=self._make_loss_scale(scale, growth_steps),
            _calls=ScalingCalls(),
            _has_warned_of_scaling=False,
        )
        self._track_inner()
        if self.dynamic and tf.distribute.has_strategy():
            # Where replicas may not meet in a merge_call, the first step could not create the state.
            self._loss_scale()
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
        """Finite steps since the scale last changed, a scalar integer variable; None for a fixed scale."""
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

    iterations = delegated(
        "iterations", "The number of steps, a scalar integer variable; Keras 3 does not count skipped ones."
    )
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
        self._calls.note(GET_SCALED_LOSS)
        return self._scale(loss)

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
        self._calls.note(GET_UNSCALED_GRADIENTS)
        return self._unscale(list(grads))

    def _warn_if_scaling_was_forgotten(self) -> None:
        """Warn once if a custom loop applies gradients without having called both scaling methods."""
        self._calls.begin_step()
        forgotten = [call for call in (GET_SCALED_LOSS, GET_UNSCALED_GRADIENTS) if call not in self._calls.ever]
        if not forgotten or self._has_warned_of_scaling:
            return
        self._has_warned_of_scaling = True
        warn_user(
            f"LossScaleOptimizer: apply_gradients() was called, but {'() and '.join(forgotten)}() never was, so the "
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
            Over a Keras 3 optimizer there is also `'name': str`, and `'dynamic'` only where it is False, so that Keras
            itself reads the config of a dynamic scale.
        """
        return {
            **self._family_config(),
            "initial_scale": self.initial_scale,
            "dynamic_growth_steps": self.dynamic_growth_steps,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> Any:
        """Create an optimizer from a config of this release, or of any TensorFlow from 2.0 on, or of Keras 3.

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
        return cls._from_settings(deserialize_inner(cls, inner, settings, custom_objects), settings)

    @classmethod
    def _from_settings(cls, inner_optimizer: Any, settings: dict[str, Any]) -> Any:
        return cls(inner_optimizer, **settings)


LossScaleOptimizer.__module__ = "mpls.keras"


def register_with_keras() -> None:
    """Have Keras 3, if it is loaded, load the wrappers in files that mpls has written as those of mpls."""
    keras = loaded_keras()
    if keras is not None:
        keras.saving.get_custom_objects().setdefault(LossScaleOptimizer.__name__, LossScaleOptimizer)


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
    require_gradients(pairs)
    missing = _without_gradient(pairs)
    if missing:
        tf.get_logger().warning("LossScaleOptimizer: there are no gradients for the variables %s.", missing)
    return [(grad, variable) for grad, variable in pairs if grad is not None]


def require_gradients(grads_and_vars: list[tuple[Any, Any]]) -> None:
    """Refuse pairs of which none has a gradient.

    Raises:
        ValueError: there are pairs, and none has a gradient.
    """
    missing = _without_gradient(grads_and_vars)
    if missing and len(missing) == len(grads_and_vars):
        raise ArgumentValueError(
            error_text(
                "LossScaleOptimizer: grads_and_vars",
                "hold at least one gradient that is not None",
                missing,
                "Check that the loss depends on the variables: tape.gradient(loss, variables)",
                "no-gradients",
            )
        )


def _without_gradient(grads_and_vars: list[tuple[Any, Any]]) -> list[str]:
    return [str(getattr(variable, "name", variable)) for grad, variable in grads_and_vars if grad is None]
