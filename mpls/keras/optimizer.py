"""The public Keras wrapper: its constructor, its configs, and which attributes are those of the wrapped optimizer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Literal, SupportsFloat, SupportsInt, TypeVar

import tensorflow as tf

from mpls.core import identifiers, releases
from mpls.core.counters import Stuck
from mpls.core.loss_scale import StepScale, never_skips
from mpls.core.step_options import NO_OPTIONS, StepOptions, checked_options, explained_arguments, without_idle
from mpls.errors import ArgumentTypeError, ArgumentValueError, MplsWarning, advise_user, error_text
from mpls.formats.wrapper_state import LOSS_SCALE, SCALE_OPTIONS, SETTINGS, STEP_OPTIONS
from mpls.keras.adapters import adapter_for, decided
from mpls.keras.arguments import (
    as_loss_scale,
    check_settings,
    is_translatable,
    may_skip,
    refuse_wrapped,
    settings_beyond_originals,
    translated,
)
from mpls.keras.calls import SCALING, ScalingCalls, noted_function, noted_method
from mpls.keras.classes import LossScaleOptimizerMeta, called_class, concrete_class, is_being_constructed, is_of_mpls
from mpls.keras.configs import deserialize_inner, read_config, refuse_unknown_keys
from mpls.keras.family_members import FamilyMembers, missing_members
from mpls.keras.marked_configs import (
    checked_options_of,
    checked_state,
    config_for_caller,
    recognise_marked_configs,
    set_state,
    who_calls,
    with_fixed_scale,
    without_state,
)
from mpls.keras.strategies import require_supported_strategy
from mpls.optimizer_members import HYPERPARAMETERS, HYPERPARAMETERS_OF_FTRL
from mpls.upstream.keras_packages import keras_family_of
from mpls.upstream.modules import set_class
from mpls.upstream.optimizers import hyperparameters_of, mark_as_wrapped

_Self = TypeVar("_Self", bound="LossScaleOptimizer")
# What to write in place of arguments of the experimental class and of loss scales.
_PLACES = {
    "loss_scale": "Leave it out for a dynamic scale. Write dynamic=False, initial_scale=128.0 for a fixed one",
    "initial_loss_scale": "initial_scale={!r}",
    "increment_period": "dynamic_growth_steps={!r}",
    "growth_steps": "dynamic_growth_steps={!r}",
    "multiplier": "growth_factor={0!r}, backoff_factor=1 / {0!r}",
}


class LossScaleOptimizer(FamilyMembers, metaclass=LossScaleOptimizerMeta):
    """Wrap a Keras optimizer so that it scales the loss and unscales the gradients.

    Examples:
        >>> import tensorflow as tf, tf_keras, mpls.keras
        >>> opt, weight = mpls.keras.LossScaleOptimizer(tf_keras.optimizers.SGD(0.25)), tf.Variable(1.0)
        >>> opt.minimize(lambda: weight ** 2, var_list=[weight])
        >>> float(weight), float(opt.loss_scale)
        (0.5, 32768.0)

    `fit` and `minimize` scale the loss, unscale the gradients and apply them. A custom loop calls `get_scaled_loss`,
    `get_unscaled_gradients` and `apply_gradients`. Over a Keras 3 optimizer, it may call `scale_loss` and `apply`
    instead. If a gradient is infinite or NaN, a dynamic scale skips the step on all replicas and is halved, down to 1.
    After `dynamic_growth_steps` finite steps in a row, it is doubled. A fixed scale skips no steps.

    The wrapper has the methods of its inner optimizer's family: legacy tf_keras, new tf_keras, or Keras 3. It is also
    an instance of `LossScaleOptimizer` of that Keras. Hyperparameters such as `beta_1` are those of the inner
    optimizer: see `mpls docs hyperparameters`. `mpls docs options` has examples of the options. In a v1 graph, methods
    that take a `session` use the default session if you pass none.

    Args:
        inner_optimizer: an optimizer of tf_keras (legacy or new) or of Keras 3.
        name: the name of a wrapper over a Keras 3 optimizer; by default a generated name.

        dynamic: whether the scale changes during training.
        initial_scale: the scale of the first step, positive; by default 2**15. A fixed scale needs it. `'auto'`
            searches for the highest scale that does not overflow, in the first steps.
        enabled: whether to scale the loss; if not, the wrapper only calls the inner optimizer, `loss_scale` is 1, and
            the state of the scale is kept. `'auto'` enables scaling if the global policy computes in float16; see
            `mpls docs disabling`.
        share_scale_with: another wrapper of mpls over the same Keras; both wrappers then use one scale, as in a GAN.

        dynamic_growth_steps: number of finite steps in a row after which a dynamic scale grows; by default 2000.
        min_scale: the number below which the scale does not shrink, at least 2**-126; by default 1.
        max_scale: the number above which the scale does not grow; by default the largest float32.
        growth_factor: the factor by which the scale grows, above 1; by default 2.
        backoff_factor: the factor by which the scale shrinks, between 0 and 1; by default 0.5.
        hysteresis: number of non-finite steps after which the scale shrinks, each of which is skipped; by default 1.
        consecutive_hysteresis: whether the steps of `hysteresis` must be in a row; if not, a finite step resets their
            count only if the scale grows.
        adjustable: whether `configure` also changes existing functions and graphs. The settings are then variables
            with the names of the arguments, and checkpoints hold them.

        count_steps: whether to count applied and skipped steps, on the device.
        skip_counts_step: whether a skipped step advances `iterations`; by default it does, but not over Keras 3.

        skip_nonfinite: whether a fixed scale also skips steps with non-finite gradients.
        check_unscaled: whether to check the unscaled gradients too, so that clipping hides no overflow.
        max_consecutive_skips: the number of steps in a row that may be skipped; by default any number.
        on_give_up: the reaction to more skipped steps: `'raise'`, `'warn'`, or a function that gets a
            `mpls.monitor.Stuck`. In a graph, only `'raise'` works by itself: see `mpls docs giving-up`.
        track_overflows: whether to count, for each variable, the steps with a non-finite gradient.

    Raises:
        TypeError: `inner_optimizer` is not a Keras optimizer, or already scales the loss; an argument has a wrong type.
        ValueError: a number is out of range; `initial_scale` is out of bounds; two arguments exclude each other;
            `inner_optimizer` has a wrapper or a `loss_scale_factor`; the strategy does not work.
        NotImplementedError: Keras 3 runs on a backend other than TensorFlow and JAX, or an option does not work on JAX.

    Reproduces:
        `tf.keras.mixed_precision.LossScaleOptimizer`, TF 2.4 to 2.15, `tf_keras.mixed_precision.LossScaleOptimizer`,
        2.16 to 2.21, and `keras.optimizers.LossScaleOptimizer`, without their defects: see `mpls docs differences`.
    """

    _is_experimental = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Record calls of the scaling methods that a user's subclass overrides."""
        super().__init_subclass__(**kwargs)
        for name in SCALING:
            if name in vars(cls):
                setattr(cls, name, noted_method(name, vars(cls)[name]))

    @explained_arguments("LossScaleOptimizer", _PLACES)
    def __init__(
        self,
        inner_optimizer: Any,
        dynamic: bool = True,
        initial_scale: SupportsFloat | Literal["auto"] | None = None,
        dynamic_growth_steps: SupportsInt | None = None,
        *,
        name: str | None = None,
        min_scale: SupportsFloat | None = None,
        max_scale: SupportsFloat | None = None,
        growth_factor: SupportsFloat | None = None,
        backoff_factor: SupportsFloat | None = None,
        hysteresis: SupportsInt | None = None,
        consecutive_hysteresis: bool | None = None,
        adjustable: bool | None = None,
        skip_nonfinite: bool | None = None,
        count_steps: bool = False,
        skip_counts_step: bool | None = None,
        track_overflows: bool = False,
        max_consecutive_skips: SupportsInt | None = None,
        on_give_up: Literal["raise", "warn"] | Callable[[Stuck], Any] = "raise",
        check_unscaled: bool = False,
        enabled: bool | Literal["auto"] = True,
        share_scale_with: LossScaleOptimizer | None = None,
    ) -> None:
        adapter = _adapter_for(inner_optimizer)
        values = (min_scale, max_scale, growth_factor, backoff_factor, hysteresis, consecutive_hysteresis, adjustable)
        others = dict(zip(SCALE_OPTIONS, (*values, skip_nonfinite), strict=True))
        of_scale = dynamic, initial_scale, dynamic_growth_steps
        if share_scale_with is None:
            settings = check_settings(*of_scale, others)
            skips = dynamic or bool(settings[-1].get("skip_nonfinite"))
        else:
            _check_sharing(share_scale_with, adapter, {**dict(zip(SETTINGS, of_scale, strict=True)), **others})
            skips = not never_skips(share_scale_with._loss_scale)
        steps = count_steps, skip_counts_step, track_overflows, max_consecutive_skips, on_give_up, check_unscaled
        given = dict(zip(STEP_OPTIONS, (*steps, decided(enabled, inner_optimizer)), strict=True))
        options = checked_options("LossScaleOptimizer", given, skips=skips)
        self._wrap(inner_optimizer, adapter, name, options)
        other = share_scale_with
        self._begin_with(self._make_loss_scale(*settings) if other is None else self._scale_shared_with(other))

    def _wrap_with_object(
        self, inner_optimizer: Any, loss_scale: Any, name: str | None = None, options: StepOptions = NO_OPTIONS
    ) -> None:
        """Wrap an optimizer with a LossScale object, which is kept, as up to TF 2.3."""
        self._wrap(inner_optimizer, _adapter_for(inner_optimizer), name, options, shows_object=True)
        defaults = check_settings(dynamic=True, initial_scale=None, dynamic_growth_steps=None)
        self._begin_with(self._make_loss_scale(*defaults) if isinstance(loss_scale, str) else self._held(loss_scale))

    def _wrap(
        self,
        inner_optimizer: Any,
        adapter: type[FamilyMembers],
        name: str | None,
        options: StepOptions,
        *,
        shows_object: bool = False,
    ) -> None:
        require_supported_strategy(adapter)
        refuse_wrapped(inner_optimizer)
        recognise_marked_configs()
        behavior = releases.current()
        # The constructor of a user's subclass makes the inner optimizer, so the family is known only here.
        set_class(self, concrete_class(type(self), adapter))
        self._init_family(inner_optimizer, name, options)
        # Bypass the __setattr__ of the frameworks' bases, which tracks and delegates attributes.
        vars(self).update(
            _optimizer=inner_optimizer,
            _behavior=behavior,
            _shows_loss_scale_object=shows_object,
            _calls=ScalingCalls(warns=options.enabled),
            _options=options,
            _record=self._make_record(options) if options.needs_record else None,
            _step_scale=None,
            _no_scaling=None if options.enabled else self._make_loss_scale(1.0, None, {}),
        )

    def _scale_shared_with(self, other: FamilyMembers) -> Any:
        """Return the loss scale of another wrapper, which is told that it is shared."""
        loss_scale = self._shared(other)
        for wrapper in (self, other):
            if wrapper._step_scale is None:
                vars(wrapper)["_step_scale"] = StepScale(loss_scale)
        return loss_scale

    def _begin_with(self, loss_scale: Any) -> None:
        vars(self)["_loss_scale"] = loss_scale
        self._track_inner()
        if self._record is not None:
            self._track_record()
        if tf.distribute.has_strategy():
            # Create the state now: a first step inside a replica cannot, where merge_call is forbidden.
            self._create_state()
        mark_as_wrapped(self._optimizer)

    # Which attributes are those of the wrapped optimizer: its hyperparameters, and nothing else.

    def __setattr__(self, name: str, value: Any) -> None:
        if "_optimizer" not in vars(self):
            # Until the constructor of this class has run, there is no family, and Keras tracks nothing.
            object.__setattr__(self, name, value)
        elif name == "_loss_scale" and name in vars(self):
            vars(self)[name] = self._held(as_loss_scale(value))
            self._track_loss_scale()
        elif name in SCALING:
            vars(self)[name] = noted_function(name, value, self._calls)
        elif isinstance(getattr(type(self), name, None), property):
            # Bypass the frameworks' __setattr__, which would track the value as an attribute of the wrapper.
            object.__setattr__(self, name, value)
        elif self._hands_on(name):
            setattr(self._optimizer, name, value)
        else:
            if self._hides(name):
                advise_user(_not_handed_on(name, self._optimizer), MplsWarning)
            super().__setattr__(name, value)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):
                # A property raised AttributeError: let its own message through.
                return object.__getattribute__(self, name)
            if name in self._hyperparameters():
                return getattr(self._optimizer, name)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        shown = {*super().__dir__(), *dir(type(self)), *self._hyperparameters()}
        return [*shown - missing_members(type(self))]

    def _hyperparameters(self) -> Collection[str]:
        """Return the names of those that are read and set on this wrapper, beside its own properties."""
        # Up to TF 2.3, there were the properties alone.
        if "_optimizer" not in vars(self) or self._shows_loss_scale_object:
            return ()
        if keras_family_of(self._optimizer) == "legacy":
            return hyperparameters_of(self._optimizer)
        return [name for name in _HYPERPARAMETERS if hasattr(self._optimizer, name)]

    def _is_own(self, name: str) -> bool:
        return name in vars(self) or hasattr(type(self), name)

    def _hands_on(self, name: str) -> bool:
        """Return whether to set an attribute on the wrapped optimizer, as it is one of its hyperparameters."""
        if self._is_own(name) or name not in self._hyperparameters():
            return False
        return name in hyperparameters_of(self._optimizer) or not is_being_constructed(self)

    def _hides(self, name: str) -> bool:
        """Return whether a new attribute of the wrapper may be meant for the wrapped optimizer, which has it too."""
        is_public = not name.startswith("_") and not self._is_own(name)
        return is_public and hasattr(self._optimizer, name) and not is_being_constructed(self)

    def __repr__(self) -> str:
        cls = called_class(type(self))
        name = type(self).__name__ if is_of_mpls(cls) else cls.__qualname__
        return f"<{cls.__module__}.{name} object at {id(self):#x}>"

    # Configs.

    def get_config(self) -> dict[str, Any]:
        """Return the config of the original, and the options of mpls that are not the defaults.

        `{'inner_optimizer': dict, 'dynamic': bool, 'initial_scale': float, 'dynamic_growth_steps': int or None}`. Over
        a Keras 3 optimizer, there is also `'name': str`, and `'dynamic'` only if it is False.
        """
        # Write the newer format into files where it can express the loss scale: later releases read it too.
        if self._shows_loss_scale_object and not (who_calls(self).is_keras and is_translatable(self._loss_scale)):
            config = {**self._family_config_of_old(), LOSS_SCALE: identifiers.serialize(self._loss_scale)}
            return config_for_caller(self, config, self._options.changed())
        config = {
            **self._family_config(),
            "initial_scale": self.initial_scale,
            "dynamic_growth_steps": self.dynamic_growth_steps,
        }
        own = {**settings_beyond_originals(self._loss_scale), **self._options.changed()}
        return config_for_caller(self, config, own)

    @classmethod
    def from_config(cls: type[_Self], config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> _Self:
        """Create an optimizer from a `config` of mpls, of TensorFlow 2.0 or later, or of Keras 3.

        `custom_objects` has your own classes by name. A config without an optimizer is a `KeyError`.
        """
        inner, settings = read_config(config, custom_objects)
        inner, found, options = without_state(inner)
        found, settings = with_fixed_scale(found, settings)
        settings = {**settings, **checked_options_of(options)}
        settings = without_idle(settings, "LossScaleOptimizer.from_config", skips=may_skip(settings))
        state = checked_state(found, settings)
        optimizer = cls._from_settings(deserialize_inner(inner, settings, custom_objects), settings)
        set_state(optimizer, state, options)
        return optimizer

    @classmethod
    def _from_settings(cls, inner_optimizer: Any, settings: dict[str, Any]) -> Any:
        settings = translated(settings, "LossScaleOptimizer.from_config")
        refuse_unknown_keys(cls.__init__, settings)
        _, *parameters = inspect.signature(cls.__init__).parameters.values()
        if all(each.kind in (each.KEYWORD_ONLY, each.VAR_KEYWORD) for each in parameters):
            return cls(inner_optimizer=inner_optimizer, **settings)
        return cls(inner_optimizer, **settings)


# Where users import it from, and where pickles find it.
LossScaleOptimizer.__module__ = "mpls.keras"

# What legacy optimizers keep by `_set_hyper`; new optimizers and those of Keras 3 have attributes of these names.
_HYPERPARAMETERS = ("learning_rate", "decay", *HYPERPARAMETERS, *HYPERPARAMETERS_OF_FTRL)


def _not_handed_on(name: str, optimizer: Any) -> str:
    return (
        f"LossScaleOptimizer: {name} was set on the wrapper alone, and {type(optimizer).__name__}, which it wraps, "
        f"keeps its own {name}. To set that: opt.inner_optimizer.{name} = value. See mpls docs hyperparameters"
    )


def _check_sharing(other: Any, adapter: type[FamilyMembers], given: dict[str, Any]) -> None:
    """Refuse to share the loss scale of what has none that fits, and settings besides."""
    subject = "LossScaleOptimizer: share_scale_with"
    advice = "LossScaleOptimizer(generator_optimizer, share_scale_with=critic_optimizer)"
    if not isinstance(other, FamilyMembers) or "_loss_scale" not in vars(other):
        constraint = "be another LossScaleOptimizer of mpls"
        raise ArgumentTypeError(error_text(subject, constraint, other, advice, "several-losses"))
    families = [each._restored_family for each in (adapter, type(other))]
    if len({family == "keras3" for family in families}) > 1:
        constraint = "wrap an optimizer of the same Keras, tf_keras or Keras 3"
        raise ArgumentValueError(error_text(subject, constraint, other, "Wrap both from one", "several-losses"))
    for name, value in given.items():
        if value is not (True if name == "dynamic" else None):
            constraint = "be left out beside share_scale_with, as the shared loss scale has its settings"
            raise ArgumentValueError(
                error_text(f"LossScaleOptimizer: {name}", constraint, value, advice, "several-losses")
            )


def _adapter_for(optimizer: Any) -> Any:
    if isinstance(optimizer, LossScaleOptimizer):
        raise ArgumentTypeError(
            error_text(
                "LossScaleOptimizer: inner_optimizer",
                "not scale the loss itself",
                optimizer,
                "Use it as it is, or wrap a new optimizer: inner = opt.inner_optimizer; "
                "LossScaleOptimizer(type(inner).from_config(inner.get_config()))",
                "wrapping",
            )
        )
    return adapter_for(optimizer)
