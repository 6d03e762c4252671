"""The experimental Keras wrapper, which translates the constructor arguments of TF 1.14 to 2.8."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, SupportsFloat, SupportsInt

from mpls.core import identifiers, releases
from mpls.core import loss_scale as loss_scales
from mpls.core.counters import Stuck
from mpls.core.dynamic import DynamicLossScale
from mpls.core.loss_scale import LossScale
from mpls.core.numbers import to_bool
from mpls.core.step_options import NO_OPTIONS, StepOptions, checked_options, explained_arguments, settings_of_loss_scale
from mpls.errors import MplsDeprecationWarning, advise_user, without_deprecations
from mpls.formats.wrapper_state import OLD_NAMES, SCALE_OPTIONS, SETTINGS, STEP_OPTIONS
from mpls.keras.adapters import decided
from mpls.keras.arguments import check_settings, is_translatable, may_skip, translate_loss_scale, translated
from mpls.keras.configs import refuse_unknown_keys
from mpls.keras.optimizer import LossScaleOptimizer as PublicWrapper

_SUBJECT = "mpls.experimental.LossScaleOptimizer"


class LossScaleOptimizer(PublicWrapper):
    """Wrap a Keras optimizer, with one argument for the loss scale; deprecated.

    This is a `mpls.keras.LossScaleOptimizer` with another constructor. The constructor gives a deprecation warning,
    which shows the new call.

    After `mpls.install(as_of="2.3")`, or with an older release, `loss_scale` may be an object of any `LossScale` class.
    The wrapper keeps this object and calls its `update` in each step. The attribute `loss_scale` is then this object,
    and the config has the format of that release.

    Args:
        optimizer: an optimizer of tf_keras (legacy or new) or of Keras 3. The keyword `opt` of TF 1 works, too.
        loss_scale: `'dynamic'`; a Python or NumPy number for a fixed scale; a `FixedLossScale`; a `DynamicLossScale`
            with a multiplier of 2, whose settings are copied; or the config of such an object.
        count_steps: as in `mpls.keras`.
        skip_counts_step: whether a skipped step advances `iterations`; by default as in `mpls.keras`.
        track_overflows: as in `mpls.keras`.
        max_consecutive_skips: as in `mpls.keras`.
        on_give_up: as in `mpls.keras`.
        check_unscaled: as in `mpls.keras`.
        enabled: as in `mpls.keras`.

    Raises:
        TypeError: `optimizer` is not a Keras optimizer, or already scales the loss; `loss_scale` is an object of your
            own class; or an option is not a bool.
        ValueError: `optimizer` has a wrapper, `loss_scale` is not one of these, or the strategy does not work.
        NotImplementedError: as of TF 2.3 or older, `loss_scale` is an object with state, and Keras 3 runs on JAX.

    Reproduces:
        `tf.keras.mixed_precision.experimental.LossScaleOptimizer`, TF 1.14 to 2.8, with the behaviour since
        TF 2.4: `loss_scale` is a tensor, and the config is that of the non-experimental class. Earlier releases
        accepted other multipliers and your own classes of loss scales, and refused optimizers that clip gradients.

    Examples:
        >>> import tensorflow as tf
        >>> import tf_keras, warnings, mpls.experimental
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     opt = mpls.experimental.LossScaleOptimizer(tf_keras.optimizers.SGD(), 128)
        >>> print(str(caught[0].message).split("Replace it by: ")[1].split(". See")[0])
        mpls.keras.LossScaleOptimizer(optimizer, dynamic=False, initial_scale=128)
        >>> float(opt.loss_scale), opt.dynamic
        (128.0, False)

        A program of TF 2.2:

        >>> with mpls.install(as_of="2.2"), warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     scale = mpls.experimental.DynamicLossScale(8, multiplier=4)
        ...     opt = mpls.experimental.LossScaleOptimizer(tf_keras.optimizers.SGD(), scale)
        >>> opt.loss_scale is scale, float(opt.loss_scale())
        (True, 8.0)
    """

    _is_experimental = True

    @explained_arguments(_SUBJECT, settings_of_loss_scale(_SUBJECT), "bounds-and-dynamics", opt="optimizer")
    def __init__(
        self,
        optimizer: Any,
        loss_scale: LossScale | SupportsFloat | Literal["dynamic"] | dict[str, Any],
        *,
        count_steps: bool = False,
        skip_counts_step: bool | None = None,
        track_overflows: bool = False,
        max_consecutive_skips: SupportsInt | None = None,
        on_give_up: Literal["raise", "warn"] | Callable[[Stuck], Any] = "raise",
        check_unscaled: bool = False,
        enabled: bool | Literal["auto"] = True,
    ) -> None:
        given: Any = identifiers.deserialize(loss_scale) if isinstance(loss_scale, dict) else loss_scale
        values = count_steps, skip_counts_step, track_overflows, max_consecutive_skips, on_give_up, check_unscaled
        steps: dict[str, Any] = dict(zip(STEP_OPTIONS, (*values, enabled), strict=True))
        if releases.current().has_loss_scale_objects:
            if not isinstance(given, str) or given != "dynamic":
                given = identifiers.get_required(given, f"{_SUBJECT}: loss_scale")
            if loss_scales.never_skips(given):
                steps = _for_fixed(steps)
            options = _options(steps, optimizer, given)
            self._wrap_with_object(optimizer, given, options=options)
            is_replaceable = isinstance(given, str) or is_translatable(given)
            settings = translate_loss_scale(given, _SUBJECT) if is_replaceable else None
        else:
            settings = translate_loss_scale(given, _SUBJECT)
            if not may_skip(settings):
                steps = _for_fixed(steps)
            super().__init__(optimizer, **settings, **steps)
            # As in TF 2.4 to 2.8, the variables of that object exist too, and Savers have to know them.
            vars(self)["_replaced_loss_scale"] = loss_scale if loss_scales.is_loss_scale(loss_scale) else None
        # As it was checked: a tensor or an array compares in its own way.
        steps["max_consecutive_skips"] = self._options.max_consecutive_skips
        advise_user(
            f"{_SUBJECT} is deprecated. {_replacement(settings, _given(steps))}. See mpls docs experimental",
            MplsDeprecationWarning,
        )

    @classmethod
    def _from_settings(cls, inner_optimizer: Any, settings: dict[str, Any]) -> Any:
        if cls.__init__ is not LossScaleOptimizer.__init__:
            return cls._from_arguments(inner_optimizer, settings)
        # Configs have the settings of mpls.keras.LossScaleOptimizer; no deprecated call was made, so do not warn.
        optimizer = cls.__new__(cls)
        known = {key: value for key, value in settings.items() if key != "loss_scale"}
        refuse_unknown_keys(PublicWrapper.__init__, known)
        if releases.current().has_loss_scale_objects:
            steps = {name: known.pop(name) for name in STEP_OPTIONS if name in known}
            if known.keys() - {"name"}:
                dynamic, initial_scale, growth_steps = (
                    known.get(name, name == SETTINGS[0] or None) for name in SETTINGS
                )
                check_settings(dynamic, initial_scale, growth_steps, _scale_options(known))
            loss_scale = _loss_scale_of(settings)
            if not loss_scales.is_loss_scale(loss_scale):
                # In configs of later releases, a fixed scale may be below 1.
                loss_scale = loss_scales.FixedLossScale._unbounded(float(loss_scale), **_scale_options(known))
            options = _options(steps, inner_optimizer, loss_scale)
            optimizer._wrap_with_object(inner_optimizer, loss_scale, settings.get("name"), options)
        else:
            settings = translated(settings, "LossScaleOptimizer.from_config")
            PublicWrapper.__init__(optimizer, inner_optimizer, **settings)
        return optimizer

    @classmethod
    def _from_arguments(cls, inner_optimizer: Any, settings: dict[str, Any]) -> Any:
        # The constructor of a user's subclass takes the historical arguments.
        with without_deprecations():
            optimizer: Any = cls(
                optimizer=inner_optimizer,
                loss_scale=_loss_scale_of(settings),
                **{name: settings[name] for name in STEP_OPTIONS if name in settings},
            )
        if "name" in settings:
            optimizer.name = settings["name"]
        return optimizer


# Where users import it from, and where pickles find it.
LossScaleOptimizer.__module__ = "mpls.experimental"


def _options(given: dict[str, Any], optimizer: Any, loss_scale: Any) -> StepOptions:
    enabled = decided(given.get("enabled", True), optimizer, _SUBJECT)
    skips = not loss_scales.never_skips(loss_scale)
    return checked_options(_SUBJECT, {**given, "enabled": enabled}, skips=skips)


def _for_fixed(steps: dict[str, Any]) -> dict[str, Any]:
    """Return the options of steps without `skip_counts_step`.

    `mpls migrate` writes it where the source does not tell whether the loss scale is fixed, so it is not refused.
    """
    if steps["skip_counts_step"] is not None:
        to_bool(steps["skip_counts_step"], f"{_SUBJECT}: skip_counts_step", "counted-steps")
    return {**steps, "skip_counts_step": None}


def _loss_scale_of(settings: dict[str, Any]) -> Any:
    """Return the historical argument for the settings that a config holds."""
    if "loss_scale" in settings:
        return settings["loss_scale"]
    if not settings.get("dynamic", True):
        scale = settings["initial_scale"]
        skips = settings.get("skip_nonfinite") is True
        return loss_scales.FixedLossScale._unbounded(float(scale), skip_nonfinite=True) if skips else scale
    given = {old: settings[new] for new, old in OLD_NAMES.items() if settings.get(new) is not None}
    return DynamicLossScale(**given, **_scale_options(settings))


def _scale_options(settings: dict[str, Any]) -> dict[str, Any]:
    """Return those of mpls alone that are the loss scale's."""
    return {name: settings[name] for name in SCALE_OPTIONS if name in settings}


def _given(steps: dict[str, Any]) -> dict[str, Any]:
    """Return the options of steps that are not the defaults."""
    return {name: value for name, value in steps.items() if value != getattr(NO_OPTIONS, name)}


def _replacement(settings: dict[str, Any] | None, steps: dict[str, Any]) -> str:
    if settings is None:
        return "mpls.keras.LossScaleOptimizer takes no loss scale of this kind; mpls.v1 does"
    arguments = "".join(f", {key}={_shortest(value)}" for key, value in {**settings, **steps}.items())
    return f"Replace it by: mpls.keras.LossScaleOptimizer(optimizer{arguments})"


def _shortest(value: Any) -> str:
    if callable(value):
        return str(getattr(value, "__qualname__", type(value).__qualname__))
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
    return repr(int(value) if is_whole else value)
