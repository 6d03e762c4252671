"""The experimental Keras wrapper: the arguments of TF 1.14 to 2.8, translated."""

from __future__ import annotations

from typing import Any

import mpls.keras
from mpls.core.loss_scale import deserialize
from mpls.errors import MplsDeprecationWarning, warn_user
from mpls.keras.arguments import translate_loss_scale


class LossScaleOptimizer(mpls.keras.LossScaleOptimizer):
    """Wrap a Keras optimizer, with one argument for the loss scale; deprecated.

    It is a `mpls.keras.LossScaleOptimizer` that is constructed differently, and behaves the same in every other way;
    the warning that it gives holds the call that replaces it.

    Args:
        optimizer: the optimizer to wrap, of tf_keras, legacy or new.
        loss_scale: `'dynamic'`; a Python or NumPy number for a fixed scale; a `FixedLossScale`; or a `DynamicLossScale`
            with a multiplier of 2, whose settings are copied; or the config of one of the two.

    Raises:
        TypeError: `optimizer` is no optimizer of tf_keras, or scales the loss already; or `loss_scale` is of a
            class of the user's own.
        ValueError: `optimizer` is wrapped already, `loss_scale` is none of these, or the strategy does not work.

    Reproduces:
        `tf.keras.mixed_precision.experimental.LossScaleOptimizer`, TF 1.14 to 2.8, as it was from TF 2.4 on: its
        `loss_scale` attribute is a tensor, its config that of the non-experimental class. Releases before took other
        multipliers, loss scales of users' own classes, and no clipping optimizers.

    Example:
        >>> import tensorflow as tf
        >>> import tf_keras, warnings, mpls.experimental
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     opt = mpls.experimental.LossScaleOptimizer(tf_keras.optimizers.SGD(), 128)
        >>> print(str(caught[0].message).split("Replace it by: ")[1].split(". See")[0])
        mpls.keras.LossScaleOptimizer(optimizer, dynamic=False, initial_scale=128)
        >>> float(opt.loss_scale), opt.dynamic
        (128.0, False)
    """

    def __init__(self, optimizer: Any, loss_scale: Any) -> None:
        if isinstance(loss_scale, dict):
            loss_scale = deserialize(loss_scale)
        settings = translate_loss_scale(loss_scale, "mpls.experimental.LossScaleOptimizer")
        super().__init__(optimizer, **settings)
        arguments = "".join(f", {key}={_shortest(value)}" for key, value in settings.items())
        warn_user(
            "mpls.experimental.LossScaleOptimizer is deprecated. Replace it by: "
            f"mpls.keras.LossScaleOptimizer(optimizer{arguments}). See MIGRATION.md#experimental",
            MplsDeprecationWarning,
        )

    @classmethod
    def _from_settings(cls, inner_optimizer: Any, settings: dict[str, Any]) -> Any:
        # A config has the settings of the other class, and nobody wrote a deprecated call.
        optimizer = cls.__new__(cls)
        mpls.keras.LossScaleOptimizer.__init__(optimizer, inner_optimizer, **settings)
        return optimizer


LossScaleOptimizer.__module__ = "mpls.experimental"


def _shortest(value: Any) -> str:
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
    return repr(int(value) if is_whole else value)
