"""Keeps the optimizer's weights in a pickle beside the model's, as agents do that know no checkpoints. TF 2.3."""
import os
import pickle
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow.keras.mixed_precision import experimental as prec


class Saved(object):
    def __init__(self, optimizer, variables):
        self._opt, self._variables = optimizer, variables

    def save(self, filename):
        with open(filename, "wb") as file:
            pickle.dump({"variables": [v.numpy() for v in self._variables], "opt": self._opt.get_weights(),
                         "scale": float(self._opt.loss_scale().numpy())}, file)

    def load(self, filename):
        with open(filename, "rb") as file:
            values = pickle.load(file)
        for variable, value in zip(self._variables, values["variables"]):
            variable.assign(value)
        # The slots have to be there before they can be set.
        self._opt.apply_gradients([(tf.zeros_like(v), v) for v in self._variables])
        for variable, value in zip(self._variables, values["variables"]):
            variable.assign(value)
        self._opt.set_weights(values["opt"])
        return values["scale"]


def make():
    variables = [tf.Variable([1.0, -1.0]), tf.Variable(0.5)]
    return variables, prec.LossScaleOptimizer(tf.keras.optimizers.Adam(0.1), "dynamic")


def step(variables, optimizer, k):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(variables[0] ** 2) * variables[1] * k
        scaled = optimizer.get_scaled_loss(loss)
    grads = optimizer.get_unscaled_gradients(tape.gradient(scaled, variables))
    optimizer.apply_gradients(zip(grads, variables))
    return float(loss)


def main():
    variables, optimizer = make()
    for k in (1.0, 2.0, float("inf")):
        print("loss", round(step(variables, optimizer, k), 5))
    print([weight.shape for weight in optimizer.get_weights()], "step", int(optimizer.get_weights()[0]))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "agent.pkl")
        Saved(optimizer, variables).save(path)
        other_variables, other = make()
        print("scale in the file", Saved(other, other_variables).load(path))
    for k in (1.0, 0.5):
        print("loss", round(step(variables, optimizer, k), 5), round(step(other_variables, other, k), 5))
    print([round(float(value), 5) for value in np.concatenate([v.numpy().ravel() for v in other_variables])])
    print("steps", int(optimizer.iterations), int(other.iterations), len(optimizer.variables()))


if __name__ == "__main__":
    main()
