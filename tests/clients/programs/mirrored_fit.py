"""compile and fit within a strategy's scope, a checkpoint of the best epoch. TF 2.4, 2.8."""
import os
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow.keras import mixed_precision

cpu, = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


def get_model(optimizer):
    model = tf.keras.Sequential([
        tf.keras.layers.Dense(4, "relu", kernel_initializer=tf.constant_initializer(0.2), input_shape=(4,)),
        tf.keras.layers.Dense(1, kernel_initializer="ones"),
    ])
    model.compile(optimizer, loss="mse")
    return model


class Epochs(tf.keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        opt = self.model.optimizer
        print("epoch", epoch, "loss %.5f" % logs["loss"], "scale", float(opt.loss_scale), "good", opt.dynamic_counter.numpy())


def main():
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    rng = np.random.RandomState(5)
    x = rng.rand(32, 4).astype("float32")
    y = x.sum(-1, keepdims=True)
    y[20] = np.nan
    with strategy.scope():
        opt = mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(0.05), initial_scale=4096, dynamic_growth_steps=4)
        model = get_model(opt)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "weights")
        data = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)
        model.fit(data, epochs=3, verbose=0, callbacks=[Epochs()])
        model.save_weights(path + ".h5")
        again = get_model("sgd")
        again.load_weights(path + ".h5")
    print("same", bool(np.all(again.predict(x, verbose=0) == model.predict(x, verbose=0))))
    print("bias %.5f steps %d" % (model.get_weights()[1][0], opt.iterations.numpy()))


if __name__ == "__main__":
    main()
