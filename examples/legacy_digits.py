"""Train a float16 network with tf.contrib's loss scaling: a program of TF 1.15, to be run by `mpls run --v1 --contrib`.

Nothing in it knows of mpls, and TensorFlow has had no `tf.contrib` since 2.0.
"""

import _digits
import _report
import _tf1_network as network
import tensorflow as tf


def create_optimizer(use_fp16):
    """Return an optimizer, and its loss scale."""
    opt = tf.train.MomentumOptimizer(_digits.LEARNING_RATE, _digits.MOMENTUM)
    if not use_fp16:
        return opt, tf.constant(1.0)
    loss_scale_manager = tf.contrib.mixed_precision.ExponentialUpdateLossScaleManager(
        init_loss_scale=_digits.INITIAL_SCALE,
        incr_every_n_steps=_digits.GROWTH_STEPS,
        decr_every_n_nan_or_inf=1,
        decr_ratio=0.5,
    )
    opt = tf.contrib.mixed_precision.LossScaleOptimizer(opt, loss_scale_manager)
    return opt, loss_scale_manager.get_loss_scale()


def main():
    options = _report.command_line(__doc__, "out/legacy_digits.png")
    digits = _digits.load()
    runs = []
    for name, dtype, use_fp16 in (
        (_report.FLOAT32, tf.float32, False),
        (_report.UNSCALED, tf.float16, False),
        (_report.SCALED, tf.float16, True),
    ):
        with tf.Graph().as_default():
            opt, loss_scale = create_optimizer(use_fp16)
            runs.append(network.train(name, dtype, opt, loss_scale, digits, options))
    _report.report(runs, options, "Handwritten digits, a program of TF 1.15")


if __name__ == "__main__":
    main()
