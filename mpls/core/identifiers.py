"""Loss scales from the identifiers and configs that stand for them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from mpls.core.dynamic import DynamicLossScale
from mpls.core.loss_scale import FixedLossScale, LossScale, is_loss_scale
from mpls.errors import ArgumentValueError, TensorArgumentError, error_text
from mpls.formats.validity import is_number


def get(identifier: Any, subject: str = "mpls.experimental.loss_scales.get: identifier") -> LossScale | None:
    """Return the loss scale that an identifier stands for.

    Args:
        identifier: `'dynamic'` for a new `DynamicLossScale` with the default settings; a Python or NumPy number for
            a new `FixedLossScale`; a loss scale, of mpls or of TensorFlow itself, for itself; or None for None.
        subject: the public name that the user called and its argument, for errors.

    Returns:
        The loss scale, or None.

    Raises:
        ValueError: anything else, or a number that no fixed scale can have.
        TypeError: a tensor.

    Reproduces:
        `tensorflow.python.training.experimental.loss_scale.get`, TF 1.14 to 2.21.
    """
    if identifier is None or is_loss_scale(identifier):
        found: LossScale | None = identifier
        return found
    if is_number(identifier):
        return FixedLossScale(identifier)
    if isinstance(identifier, str) and identifier == "dynamic":
        return DynamicLossScale()
    error = TensorArgumentError if tf.is_tensor(identifier) else ArgumentValueError
    raise error(
        error_text(
            subject,
            "be 'dynamic', a number or a LossScale",
            identifier,
            "Pass 'dynamic', 128.0 or DynamicLossScale(...)",
            "loss-scale-arguments",
        )
    )


def get_required(identifier: Any, subject: str) -> LossScale:
    """Return the loss scale that an identifier stands for; arguments as in `get`.

    Raises:
        ValueError: it is None, too, which stands for none.
        TypeError: a tensor.
    """
    found = get(identifier, subject)
    if found is not None:
        return found
    constraint, advice = "be 'dynamic', a number or a LossScale", "Pass 'dynamic', or use the optimizer unwrapped"
    raise ArgumentValueError(error_text(subject, constraint, None, advice, "loss-scale-arguments"))


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

    Reproduces:
        `deserialize` of `tensorflow.python.keras.mixed_precision.experimental.loss_scale`, TF 2.0 to 2.3.
    """
    if config is None:
        return None
    classes: dict[str, Any] = {"FixedLossScale": FixedLossScale, "DynamicLossScale": DynamicLossScale}
    classes.update(custom_objects or {})
    is_config = isinstance(config, dict) and isinstance(config.get("class_name"), str)
    if not is_config or not isinstance(config.get("config"), dict):
        raise ArgumentValueError(
            error_text(
                "deserialize: config",
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
                "deserialize: class_name",
                f"be one of {sorted(classes)}",
                name,
                f"Pass custom_objects={{{name!r}: TheClass}}",
                "configs",
            )
        )
    loss_scale: LossScale = classes[name].from_config(dict(config["config"]))
    return loss_scale
