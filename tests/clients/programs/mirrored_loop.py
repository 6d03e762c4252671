"""Two replicas on virtual CPUs, a loop of its own, losses summed over replicas. TF 2.3."""
import argparse
import os

import numpy as np
import tensorflow as tf
from tensorflow.keras.mixed_precision import experimental as mixed_precision


def virtual_cpus(count):
    cpu = tf.config.experimental.list_physical_devices("CPU")[0]
    devices = [tf.config.experimental.VirtualDeviceConfiguration() for _ in range(count)]
    tf.config.experimental.set_virtual_device_configuration(cpu, devices)
    return ["/cpu:%d" % number for number in range(count)]


def main(args):
    strategy = tf.distribute.MirroredStrategy(virtual_cpus(args.replicas))
    print("replicas", strategy.num_replicas_in_sync)
    rng = np.random.RandomState(0)
    x = rng.normal(size=(24, 3)).astype("float32")
    y = x @ np.array([[1.0], [2.0], [-1.0]], "float32")
    x[10, 1] = np.inf
    data = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices((x, y)).batch(args.batch_size))
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer="ones", input_shape=(3,))])
        optimizer = tf.keras.optimizers.SGD(0.1, momentum=0.9)
        optimizer = mixed_precision.LossScaleOptimizer(optimizer, loss_scale="dynamic")
        optimizer.iterations

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            per_example = tf.reduce_sum(tf.square(model(x, training=True) - y), -1)
            loss = tf.nn.compute_average_loss(per_example, global_batch_size=args.batch_size)
            scaled_loss = optimizer.get_scaled_loss(loss)
        gradients = tape.gradient(scaled_loss, model.trainable_variables)
        gradients = optimizer.get_unscaled_gradients(gradients)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    @tf.function
    def train_step(x, y):
        per_replica = strategy.run(replica_step, args=(x, y))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, per_replica, axis=None)

    for step, (features, targets) in enumerate(data):
        loss = train_step(features, targets)
        print("step %d loss %.5f scale %d" % (step, loss, optimizer.loss_scale()))
    print("kernel", [round(float(value), 5) for value in model.get_weights()[0].ravel()], "steps", optimizer.iterations.numpy())


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    parser = argparse.ArgumentParser()
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--batch_size", type=int, default=4)
    main(parser.parse_args())
