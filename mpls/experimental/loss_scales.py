"""Loss scales by identifier and by config, as the modules `loss_scale` of TensorFlow and Keras had them.

Import from here what code imports from `tensorflow.python.keras.mixed_precision.experimental.loss_scale`, for example.
"""

from __future__ import annotations

from typing import Any

from mpls.core.identifiers import deserialize, get, serialize
from mpls.core.loss_scale import LossScale, is_dynamic, is_loss_scale
from mpls.errors import ArgumentTypeError, error_text
from mpls.formats.wrapper_state import STATE
from mpls.upstream.tensorflow import weights_of

__all__ = [
    "deserialize",
    "get",
    "get_loss_scale_weights",
    "serialize",
]


def get_loss_scale_weights(loss_scale: Any) -> list[Any]:
    """Return the variables of a loss scale.

    Args:
        loss_scale: a `LossScale`, of mpls or of TensorFlow.

    Returns:
        Its variables in the current graph, or in eager mode, which are created if need be; a fixed one has none.

    Raises:
        TypeError: it is no loss scale.

    Reproduces:
        `tensorflow.python.training.experimental.loss_scale.get_loss_scale_weights`, TF 1.14 to 2.3.

    Examples:
        >>> import mpls.experimental
        >>> from mpls.experimental.loss_scales import get_loss_scale_weights
        >>> get_loss_scale_weights(mpls.experimental.FixedLossScale(8))
        []
    """
    if not is_loss_scale(loss_scale):
        advice = "Make the wrapper as of TF 2.3, whose loss_scale is one: mpls.install(as_of='2.3')"
        subject = "get_loss_scale_weights: loss_scale"
        raise ArgumentTypeError(error_text(subject, "be a LossScale", loss_scale, advice, "loss-scale-arguments"))
    if not isinstance(loss_scale, LossScale):
        return weights_of(loss_scale)
    state = STATE if is_dynamic(loss_scale) else ()
    names = dict.fromkeys((*state, *loss_scale._initial_weights(), *loss_scale._weights_here()))
    return [loss_scale._created_weight(name) for name in names]
