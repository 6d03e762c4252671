"""import * from the experimental module, as teaching material does. TF 2.2, 2.3."""
import numpy as np
import tensorflow as tf
from tensorflow.keras.mixed_precision.experimental import *


def main():
    names = sorted(name for name in ("LossScaleOptimizer", "Policy", "get_layer_policy", "global_policy", "set_policy")
                   if name in globals())
    print(names)
    set_policy("mixed_float16")
    print(global_policy().name, global_policy().compute_dtype)
    set_policy(Policy("float32"))
    weights = tf.Variable(np.linspace(0.1, 0.9, 4), dtype=tf.float32)
    opt = LossScaleOptimizer(tf.keras.optimizers.Adamax(0.1), loss_scale="dynamic")
    for epoch in range(4):
        with tf.GradientTape() as tape:
            loss = -tf.reduce_sum(tf.math.log(weights)) if epoch != 2 else tf.reduce_sum(weights * np.inf)
            scaled_loss = opt.get_scaled_loss(loss)
        gradients = opt.get_unscaled_gradients(tape.gradient(scaled_loss, [weights]))
        opt.apply_gradients(zip(gradients, [weights]))
        print("epoch", epoch, "loss", "%.5f" % loss.numpy(), "scale", opt.loss_scale().numpy())
    print(weights.numpy().round(4).tolist())


main()
