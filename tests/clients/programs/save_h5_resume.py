"""ModelCheckpoint in H5, load_model, and training that goes on from the loaded optimizer. TF 2.4, 2.8."""
import os
import tempfile

import numpy as np
import tensorflow as tf


def build():
    inputs = tf.keras.Input((3,))
    x = tf.keras.layers.Dense(4, "tanh")(inputs)
    outputs = tf.keras.layers.Dense(1, kernel_initializer="ones")(x)
    model = tf.keras.Model(inputs, outputs)
    model.layers[1].set_weights([np.linspace(-1, 1, 12).reshape(3, 4), np.zeros(4)])
    opt = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1, momentum=0.5), initial_scale=512.0)
    model.compile(opt, "mse")
    return model


def describe(title, model):
    opt = model.optimizer
    print(title, type(opt.inner_optimizer).__name__, "scale", float(opt.loss_scale), "good", int(opt.dynamic_counter),
          "growth", opt.dynamic_growth_steps, "iterations", int(opt.iterations))


def main():
    rng = np.random.RandomState(3)
    x = rng.normal(size=(12, 3)).astype("float32")
    y = np.sin(x.sum(-1, keepdims=True))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.h5")
        model = build()
        saver = tf.keras.callbacks.ModelCheckpoint(path, save_best_only=False)
        losses = model.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0, callbacks=[saver]).history["loss"]
        print(["%.5f" % loss for loss in losses])
        describe("saved", model)
        loaded = tf.keras.models.load_model(path)
    describe("loaded", loaded)
    for name in (model, loaded):
        print(["%.5f" % loss for loss in name.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0).history["loss"]])


if __name__ == "__main__":
    main()
