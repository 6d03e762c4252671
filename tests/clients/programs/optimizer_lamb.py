"""LAMB by _resource_apply_dense, with hyperparameters, a schedule and weights that are left out. TF 2.3, 2.4."""
import re

import numpy as np
import tensorflow as tf


class LAMB(tf.keras.optimizers.Optimizer):
    def __init__(self, learning_rate=0.001, beta_1=0.9, beta_2=0.999, epsilon=1e-6, weight_decay_rate=0.0,
                 exclude_from_weight_decay=None, name="LAMB", **kwargs):
        super(LAMB, self).__init__(name, **kwargs)
        self._set_hyper("weight_decay_rate", weight_decay_rate)
        self._set_hyper("learning_rate", kwargs.get("lr", learning_rate))
        self._set_hyper("decay", self._initial_decay)
        self._set_hyper("beta_1", beta_1)
        self._set_hyper("beta_2", beta_2)
        self.epsilon = epsilon
        self.exclude_from_weight_decay = exclude_from_weight_decay or []

    def _create_slots(self, var_list):
        for slot in ("m", "v"):
            for var in var_list:
                self.add_slot(var, slot)

    def _resource_apply_dense(self, grad, var, apply_state=None):
        dtype = var.dtype.base_dtype
        lr = self._decayed_lr(dtype)
        beta_1, beta_2 = self._get_hyper("beta_1", dtype), self._get_hyper("beta_2", dtype)
        step = tf.cast(self.iterations + 1, dtype)
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        m_t = m.assign(m * beta_1 + grad * (1.0 - beta_1), use_locking=self._use_locking)
        v_t = v.assign(v * beta_2 + grad * grad * (1.0 - beta_2), use_locking=self._use_locking)
        update = (m_t / (1.0 - tf.pow(beta_1, step))) / (tf.sqrt(v_t / (1.0 - tf.pow(beta_2, step))) + self.epsilon)
        if not any(re.search(pattern, var.name) for pattern in self.exclude_from_weight_decay):
            update += self._get_hyper("weight_decay_rate", dtype) * var
        w_norm, g_norm = tf.norm(var), tf.norm(update)
        ratio = tf.where(w_norm > 0, tf.where(g_norm > 0, w_norm / g_norm, 1.0), 1.0)
        return var.assign_sub(ratio * lr * update, use_locking=self._use_locking).op

    def _resource_apply_sparse(self, grad, var, indices, apply_state=None):
        raise NotImplementedError

    def get_config(self):
        config = super(LAMB, self).get_config()
        names = ("learning_rate", "beta_1", "beta_2", "decay", "weight_decay_rate")
        config.update({name: self._serialize_hyperparameter(name) for name in names}, epsilon=self.epsilon)
        return config


def main():
    rng = np.random.RandomState(17)
    kernel = tf.Variable(rng.normal(size=(4, 2)).astype("float32"), name="kernel")
    bias = tf.Variable([0.1, -0.1], name="bias")
    opt = LAMB(0.05, weight_decay_rate=0.01, exclude_from_weight_decay=["bias"])
    print(sorted(opt.get_config()))
    opt = tf.keras.mixed_precision.experimental.LossScaleOptimizer(opt, "dynamic")
    for step in range(5):
        x = rng.normal(size=(6, 4)).astype("float32")
        if step == 2:
            x[0] = np.nan
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.matmul(x, kernel) + bias - x[:, :2]))
            scaled = opt.get_scaled_loss(loss)
        grads = opt.get_unscaled_gradients(tape.gradient(scaled, [kernel, bias]))
        opt.apply_gradients(zip(grads, [kernel, bias]))
        print("step %d loss %.5f iterations %d" % (step, loss, opt.iterations))
    print("kernel", [round(float(value), 4) for value in kernel.numpy().ravel()])
    print("bias", [round(float(value), 5) for value in bias.numpy()])


if __name__ == "__main__":
    main()
