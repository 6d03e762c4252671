"""`mpls.contrib`: managers of mpls and of the user, and their optimizer."""

from typing import Any

import numpy as np
import tensorflow as tf

import mpls.contrib

weight = tf.Variable(tf.constant(1.0))
manager = mpls.contrib.ExponentialUpdateLossScaleManager(2.0**32, 1000, decr_ratio=0.8)
opt = mpls.contrib.LossScaleOptimizer(tf.compat.v1.train.GradientDescentOptimizer(0.25), manager)
opt.minimize(lambda: weight * 2.0, var_list=[weight])
pairs = opt.compute_gradients(lambda: weight * 2.0, [weight])
opt.apply_gradients(pairs, global_step=None, name="step")
manager.update_loss_scale(False)
assert float(manager.get_loss_scale()) == 2.0**32
opt.load_state_dict({**opt.state_dict(), "scale": 8.0})
assert manager.state_dict()["scale"] == 8.0
assert opt.get_slot_names() == [] and opt.get_name() == "GradientDescent"


class Own:
    """No subclass: any object that has the two methods does."""

    def get_loss_scale(self) -> tf.Tensor:
        return tf.constant(8.0)

    def update_loss_scale(self, finite_grads: Any) -> Any:
        return tf.no_op()


mpls.contrib.LossScaleOptimizer(tf.compat.v1.train.GradientDescentOptimizer(0.25), Own())
fixed: mpls.contrib.LossScaleManager = mpls.contrib.FixedLossScaleManager(np.float32(128))
