"""SGD with centralized gradients and Lookahead around another optimizer, both in the wrapper. TF 2.3."""
import numpy as np
import tensorflow as tf
from tensorflow.keras.mixed_precision.experimental import LossScaleOptimizer


class CentralizedSGD(tf.keras.optimizers.SGD):
    """Takes the mean off each column of a gradient."""

    def _resource_apply_dense(self, grad, var, apply_state=None):
        if grad.shape.rank > 1:
            grad = grad - tf.reduce_mean(grad, axis=list(range(grad.shape.rank - 1)), keepdims=True)
        return super()._resource_apply_dense(grad, var, apply_state)


class Lookahead(tf.keras.optimizers.Optimizer):
    def __init__(self, optimizer, sync_period=2, slow_step_size=0.5, name="Lookahead", **kwargs):
        super().__init__(name, **kwargs)
        self._optimizer = tf.keras.optimizers.get(optimizer)
        self._set_hyper("sync_period", sync_period)
        self._set_hyper("slow_step_size", slow_step_size)

    def _create_slots(self, var_list):
        self._optimizer._create_slots(var_list=var_list)
        for var in var_list:
            self.add_slot(var, "slow", initializer=var.read_value())

    def _create_hypers(self):
        self._optimizer._create_hypers()
        super()._create_hypers()

    def _prepare(self, var_list):
        self._optimizer._iterations = self.iterations
        return self._optimizer._prepare(var_list=var_list)

    def _resource_apply_dense(self, grad, var, apply_state=None):
        train_op = self._optimizer._resource_apply_dense(grad, var)
        with tf.control_dependencies([train_op]):
            slow = self.get_slot(var, "slow")
            step_size = self._get_hyper("slow_step_size", var.dtype.base_dtype)
            back = slow + step_size * (var - slow)
            sync = tf.equal((self.iterations + 1) % self._get_hyper("sync_period", tf.int64), 0)
            with tf.control_dependencies([back]):
                return tf.group(slow.assign(tf.where(sync, back, slow)), var.assign(tf.where(sync, back, var)))

    def get_config(self):
        return {"name": self._name}


def run(name, optimizer):
    rng = np.random.RandomState(2)
    w = tf.Variable(rng.normal(size=(3, 2)).astype("float32"))
    optimizer = LossScaleOptimizer(optimizer, 1024.0)

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - 1.0))
            scaled = optimizer.get_scaled_loss(loss)
        grads = optimizer.get_unscaled_gradients(tape.gradient(scaled, [w]))
        optimizer.apply_gradients(zip(grads, [w]))
        return loss

    for number in range(4):
        loss = step(tf.constant(rng.normal(size=(4, 3)).astype("float32")))
        print(name, number, "loss %.5f" % loss, "iterations", int(optimizer.iterations))
    print(name, "w", [round(float(value), 4) for value in w.numpy().ravel()])


if __name__ == "__main__":
    run("centralized", CentralizedSGD(0.1, momentum=0.9))
    run("lookahead", Lookahead(tf.keras.optimizers.SGD(0.1)))
