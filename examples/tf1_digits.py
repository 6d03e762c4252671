"""Train a float16 network in TF1 style, without and with loss scaling, beside float32.

The optimizer is wrapped by `mpls.v1`, the import that replaces TensorFlow's own.
"""

from __future__ import annotations

from typing import Any

import _digits
import _report
import _tf1_network as network
import tensorflow.compat.v1 as tf

import mpls.v1

tf.disable_v2_behavior()


def bare() -> tuple[Any, Any]:
    """Return an optimizer, and its loss scale."""
    return network.momentum(), tf.constant(1.0)


def scaled() -> tuple[Any, Any]:
    """Return the same optimizer with a loss scale that adapts, and that."""
    loss_scale = mpls.v1.DynamicLossScale(_digits.INITIAL_SCALE, _digits.GROWTH_STEPS)
    return mpls.v1.MixedPrecisionLossScaleOptimizer(network.momentum(), loss_scale), loss_scale()


def main() -> None:
    options = _report.command_line(__doc__, "out/tf1_digits.png")
    digits = _digits.load()
    runs = []
    for name, dtype, make_optimizer in (
        (_report.FLOAT32, tf.float32, bare),
        (_report.UNSCALED, tf.float16, bare),
        (_report.SCALED, tf.float16, scaled),
    ):
        with tf.Graph().as_default():
            runs.append(network.train(name, dtype, *make_optimizer(), digits, options))
    _report.report(runs, options, "Handwritten digits, TF1 graph and session")


if __name__ == "__main__":
    main()
