"""The loss scale and the counters as scalars of `tf.summary`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from mpls.errors import ArgumentTypeError, error_text
from mpls.formats.training_history import SCALE
from mpls.monitor.scale_readings import ANCHOR, Readings

_SUBJECT = "write_scalars"


def write_scalars(optimizer: Any, step: Any = None, name: str = "loss_scale") -> None:
    """Write the loss scale and the step counters to the default writer of `tf.summary`.

    Examples:
        >>> import tempfile
        >>> import tensorflow as tf
        >>> import tf_keras
        >>> import mpls.keras
        >>> import mpls.monitor
        >>> opt = mpls.keras.LossScaleOptimizer(tf_keras.optimizers.SGD(), count_steps=True)
        >>> with tf.summary.create_file_writer(tempfile.mkdtemp()).as_default():
        ...     mpls.monitor.write_scalars(opt, step=1)

    The tag of the scale is `name`. The tags of the counters are `name/applied_steps`, `name/skipped_steps` and
    `name/consecutive_skips`. The function works in eager mode, and in a `tf.function` without XLA. Inside
    `strategy.run`, only the first replica of the chief worker writes. Outside, each process writes. Without a default
    writer, nothing is written.

    Args:
        optimizer: a wrapper of mpls, or a native `LossScaleOptimizer`.
        step: the step, an int or a scalar int64 tensor or variable; by default the step of
            `tf.summary.experimental.set_step`.
        name: the tag, a str.

    Raises:
        TypeError: `optimizer` is not a wrapper, or `name` is not a string.
        ValueError: there is a default writer, but no step.
    """
    if not isinstance(name, str):
        raise ArgumentTypeError(error_text(f"{_SUBJECT}: name", "be a string", name, 'name="loss_scale"', ANCHOR))
    advice = "write_scalars(mpls.keras.LossScaleOptimizer(optimizer))"
    readings = Readings(optimizer, f"{_SUBJECT}: optimizer", advice)
    for key, value in readings.tensors().items():
        _write(tag_of(key, name), value, step)


def tag_of(key: str, name: str = SCALE) -> str:
    """Return the tag of a number in summaries, by its key in logs: `name` for the scale, `name/key` for a counter."""
    return name if key == SCALE else f"{name}/{key}"


def _write(name: str, value: Any, step: Any) -> None:
    """Do as `tf.summary.scalar`, which needs TensorBoard to be installed: TensorFlow 2.21 does not bring it."""
    metadata = tf.compat.v1.SummaryMetadata(data_class="DATA_CLASS_SCALAR")
    metadata.plugin_data.plugin_name = "scalars"
    with tf.summary.experimental.summary_scope(name, "scalar_summary") as (tag, _):
        tf.summary.write(tag, tf.cast(value, tf.float32), step=step, metadata=metadata)
