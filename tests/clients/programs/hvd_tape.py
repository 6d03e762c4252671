"""Horovod's tape around the gradient tape, the experimental wrapper around Adam. TF 2.2, 2.3."""
import argparse

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser(description="Horovod benchmark")
parser.add_argument("--fp16-allreduce", action="store_true")
parser.add_argument("--num-iters", type=int, default=4)
args = parser.parse_args()

hvd.init()
model = tf.keras.Sequential([
    tf.keras.layers.Dense(3, activation="tanh", kernel_initializer=tf.constant_initializer(0.2), input_shape=(2,)),
    tf.keras.layers.Dense(1, kernel_initializer="ones"),
])
opt = tf.keras.optimizers.SGD(0.01 * hvd.size())
opt = tf.keras.mixed_precision.experimental.LossScaleOptimizer(
    opt, tf.mixed_precision.experimental.DynamicLossScale(initial_loss_scale=512.0, increment_period=2))


@tf.function
def benchmark_step(data, target, first_batch):
    with tf.GradientTape() as tape:
        loss = tf.losses.mean_squared_error(target[:, 0], model(data, training=True)[:, 0])
        scaled = opt.get_scaled_loss(loss)
    tape = hvd.DistributedGradientTape(tape)
    gradients = opt.get_unscaled_gradients(tape.gradient(scaled, model.trainable_variables))
    opt.apply_gradients(zip(gradients, model.trainable_variables))
    if first_batch:
        hvd.broadcast_variables(model.variables, root_rank=0)
    return loss


def log(text):
    if hvd.rank() == 0:
        print(text)


rng = np.random.RandomState(1)
for number in range(args.num_iters):
    data = rng.rand(4, 2).astype("float32")
    if number == 1:
        data[0, 0] = np.inf
    loss = benchmark_step(tf.constant(data), tf.constant(data.sum(-1, keepdims=True)), number == 0)
    log("Iter #%d: loss %.5f, scale %.1f" % (number, loss, opt.loss_scale()))
log("weights %s" % [round(float(value), 5) for value in model.get_weights()[0].ravel()])
