"""Horovod's Keras optimizer, a subclass made by its config, within the experimental wrapper; fit. TF 2.3, 2.4."""
import horovod.tensorflow.keras as hvd
import numpy as np
import tensorflow as tf


def main():
    hvd.init()
    rng = np.random.RandomState(6)
    x = rng.normal(size=(16, 3)).astype("float32")
    y = x @ np.array([[1.0], [-2.0], [0.5]], "float32")
    x[9, 0] = np.inf
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer="zeros", input_shape=(3,))])
    scaled_lr = 0.02 * hvd.size()
    opt = tf.optimizers.SGD(scaled_lr, momentum=0.5)
    opt = hvd.DistributedOptimizer(opt)
    print("class", type(opt).__name__, type(opt) is tf.optimizers.SGD)
    opt = tf.keras.mixed_precision.experimental.LossScaleOptimizer(opt, loss_scale="dynamic")
    model.compile(loss="mse", optimizer=opt, experimental_run_tf_function=False)
    callbacks = [hvd.BroadcastGlobalVariablesCallback(0)]
    model.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0, callbacks=callbacks)
    print("scale", float(opt.get_scaled_loss(tf.constant(1.0))), "steps", int(opt.iterations))
    print("kernel", [round(float(value), 4) for value in model.get_weights()[0].ravel()])


if __name__ == "__main__":
    main()
