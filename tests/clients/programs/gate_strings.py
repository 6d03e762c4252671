"""A library for several releases: gates by comparing version strings, and by attributes. TF 2.3."""
import argparse

import numpy as np
import tensorflow as tf

if tf.__version__ < "2.4.0":
    from tensorflow.keras.mixed_precision import experimental as mixed_precision
else:
    from tensorflow.keras import mixed_precision


def set_policy(name):
    if tf.__version__ < "2.4.0":
        mixed_precision.set_policy(name)
    else:
        mixed_precision.set_global_policy(name)


def wrap(optimizer, initial=2 ** 15):
    if tf.__version__ < "2.4.0":
        loss_scale = tf.mixed_precision.experimental.DynamicLossScale(initial_loss_scale=initial)
        return mixed_precision.LossScaleOptimizer(optimizer, loss_scale)
    return mixed_precision.LossScaleOptimizer(optimizer, initial_scale=initial)


def current_scale(optimizer):
    return float(optimizer.loss_scale() if tf.__version__ < "2.4.0" else optimizer.loss_scale)


def main(args):
    set_policy("mixed_float16" if args.fp16 else "float32")
    optimizer = wrap(tf.keras.optimizers.SGD(args.lr), initial=args.initial)
    w = tf.Variable(np.float32([1.0, -1.0, 0.5]))
    for step in range(args.steps):
        k = np.float32(np.inf if step == 1 else step + 1)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(w * w) * k
            scaled = optimizer.get_scaled_loss(loss)
        grads = optimizer.get_unscaled_gradients(tape.gradient(scaled, [w]))
        optimizer.apply_gradients(zip(grads, [w]))
        print("step %d loss %.5f scale %d" % (step, loss, current_scale(optimizer)))
    print(w.numpy().round(5).tolist())
    set_policy("float32")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--initial", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--fp16", action="store_true")
    main(parser.parse_args())
