"""The scale and the counter in configs that Keras writes into files, and the mark of mpls in all configs for Keras."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from mpls.core.loss_scale import DynamicLossScale
from mpls.errors import SavedStateError, error_text
from mpls.flags import Flag
from mpls.formats.validity import ANCHOR, check_good_steps, check_scale
from mpls.formats.wrapper_state import (
    FIXED_STATE,
    INNER_KEYS,
    NEVER,
    STATE,
    STATE_IN_CONFIGS,
    STATE_KEY,
    as_fixed,
    inner_key,
    is_fixed_over_keras_3,
)
from mpls.keras.asker import Asker, who_asks
from mpls.keras.classes import is_own
from mpls.upstream.kerases import loaded_tf_keras

# Raised while a file is loaded that holds the wrapped optimizer's variables a second time, apart from the wrapper's, as
# the frameworks write them. They are read from there.
wrapped_optimizer_follows = Flag("wrapped_optimizer_follows")

_SUBJECT = f"LossScaleOptimizer.from_config: {STATE_KEY}"


class MarkedConfig(dict[str, Any]):
    """A config with the mark of mpls; Keras may replace the optimizer in it by another."""

    def __reduce__(self) -> Any:
        # Copies and pickles become plain dicts, which load without mpls.
        return dict, (dict(self),)


def config_for_caller(wrapper: Any, config: dict[str, Any]) -> dict[str, Any]:
    """Return a wrapper's config: to Keras with the mark, and for a file with the state too; to users unchanged."""
    asker = who_asks(wrapper)
    if not asker.writes_file and not asker.is_keras:
        return config
    if config.get("dynamic", True) or not reads_as_dynamic(wrapper):
        return _marked(config, _state(wrapper, asker) if asker.writes_file else None)
    config = {key: value for key, value in config.items() if key != "dynamic"}
    return _marked({**config, "dynamic_growth_steps": NEVER}, dict(FIXED_STATE))


def reads_as_dynamic(wrapper: Any) -> bool:
    """Return whether a fixed scale is written as a dynamic one, for a native class that knows no other."""
    cls = type(wrapper)
    # A user's subclass is loaded by its own code, which takes `dynamic`.
    return not cls._native_knows_fixed and is_own(cls)


def with_fixed_scale(state: Any, settings: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the state and the settings of a config, in which a fixed scale may stand as a dynamic one."""
    if state != FIXED_STATE or not is_fixed_over_keras_3(settings):
        return state, settings
    return None, as_fixed(settings)


def is_marked(config: Any) -> bool:
    """Return whether mpls has written a wrapper's config."""
    if isinstance(config, MarkedConfig):
        return True
    inner = [config.get(key) for key in INNER_KEYS] if isinstance(config, dict) else []
    return any(isinstance(each, dict) and STATE_KEY in each for each in inner)


def _marked(config: dict[str, Any], state: Any) -> dict[str, Any]:
    key = inner_key(config)
    return MarkedConfig({**config, key: {**config[key], STATE_KEY: state}})


def _state(wrapper: Any, asker: Asker) -> dict[str, Any] | None:
    loss_scale = wrapper._loss_scale
    if not isinstance(loss_scale, DynamicLossScale):
        return None
    if _is_saved_by_keras(loss_scale):
        if not asker.writes_h5:
            return None
        # Only mpls finds the variables in H5 files again, so the config holds the state too.
        state = wrapper.state_dict()
        return {key: state[key] for key in STATE_IN_CONFIGS}
    weights = loss_scale._weights_here()
    scale, good_steps = loss_scale.initial_loss_scale, 0
    if weights.keys() >= set(STATE):
        scale, good_steps = _values([weights[name] for name in STATE])
    return dict(zip(STATE_IN_CONFIGS, (float(scale), int(good_steps)), strict=True))


def _is_saved_by_keras(loss_scale: Any) -> bool:
    # Keras 3 saves the state among the optimizer's variables.
    return bool(getattr(loss_scale, "is_saved_by_keras", False))


def _values(variables: list[Any]) -> Any:
    if tf.executing_eagerly():
        return [variable.numpy() for variable in variables]
    tf_keras: Any = loaded_tf_keras()
    # Read with the session that also writes the model's weights into the file.
    return tf_keras.backend.batch_get_value(variables)


def without_state(inner: Any) -> tuple[Any, Any]:
    """Return the wrapped optimizer's config, and the state that stands in it, or None."""
    if not isinstance(inner, dict) or STATE_KEY not in inner:
        return inner, None
    return {key: value for key, value in inner.items() if key != STATE_KEY}, inner[STATE_KEY]


def checked_state(state: Any, settings: dict[str, Any]) -> tuple[float, int] | None:
    """Return the scale and the counter that a config holds.

    Args:
        state: what `without_state` returned.
        settings: the settings in the same config, as `translated` returns them.

    Raises:
        SavedStateError: it is no state that the loss scale of the config can have.
    """
    if state is None:
        return None
    if not isinstance(state, dict) or state.keys() != set(STATE_IN_CONFIGS) or not settings.get("dynamic", True):
        raise SavedStateError(
            error_text(
                _SUBJECT,
                "be {'scale': float, 'good_steps': int}, and only there for a dynamic scale",
                state,
                "Leave it out, and the scale starts from initial_scale",
                ANCHOR,
            )
        )
    scale = check_scale(state["scale"], f"{_SUBJECT}: scale")
    growth_steps = settings.get("dynamic_growth_steps")
    return scale, check_good_steps(state["good_steps"], f"{_SUBJECT}: good_steps", growth_steps)


def set_state(wrapper: Any, state: tuple[float, int] | None) -> None:
    """Set a new wrapper's scale and counter to what `checked_state` returned; do nothing for None."""
    loss_scale = wrapper._loss_scale
    if state is None or not isinstance(loss_scale, DynamicLossScale):
        return
    if _is_saved_by_keras(loss_scale):
        variables = [wrapper.dynamic_scale, wrapper.step_counter]
    else:
        variables = [loss_scale._current_loss_scale, loss_scale._num_good_steps]
    if tf.executing_eagerly():
        for variable, value in zip(variables, state, strict=True):
            variable.assign(value)
    else:
        tf_keras: Any = loaded_tf_keras()
        tf_keras.backend.batch_set_value(list(zip(variables, state, strict=True)))
