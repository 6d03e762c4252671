"""Loss scales by identifier and by config, as the modules `loss_scale` of TensorFlow and Keras had them.

Import from here what code imports from `tensorflow.python.keras.mixed_precision.experimental.loss_scale`, for example.
"""

from __future__ import annotations

from typing import Any

from mpls.core.identifiers import deserialize, get, serialize
from mpls.core.loss_scale import LossScale
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
        Its variables, which are created if need be; for a fixed one there are none.

    Reproduces:
        `tensorflow.python.training.experimental.loss_scale.get_loss_scale_weights`, TF 1.14 to 2.3.

    Examples:
        >>> import mpls.experimental
        >>> from mpls.experimental.loss_scales import get_loss_scale_weights
        >>> get_loss_scale_weights(mpls.experimental.FixedLossScale(8))
        []
    """
    if isinstance(loss_scale, LossScale):
        # The original's constructor created them.
        loss_scale._create_weights_at_first_use()
    return weights_of(loss_scale)
