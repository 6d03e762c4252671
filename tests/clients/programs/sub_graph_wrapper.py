# A subclass of MixedPrecisionLossScaleOptimizer that shows its parts, and one of it with a warm-up. TF 1.15.
import numpy as np
import tensorflow as tf
from tensorflow.train.experimental import MixedPrecisionLossScaleOptimizer


class OpenOptimizer(MixedPrecisionLossScaleOptimizer):
    @property
    def optimizer(self):
        return self._optimizer

    @property
    def loss_scale(self):
        return self._loss_scale

    def compute_gradients(self, loss, var_list=None, **kwargs):
        pairs = super(OpenOptimizer, self).compute_gradients(loss, var_list=var_list, **kwargs)
        self.global_norm = tf.global_norm([grad for grad, _ in pairs if grad is not None])
        return pairs


class WarmOptimizer(OpenOptimizer):
    def __init__(self, optimizer, loss_scale, warmup):
        super(WarmOptimizer, self).__init__(optimizer, loss_scale)
        self.warmup = warmup

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        factor = tf.minimum(1.0, tf.cast(global_step + 1, tf.float32) / self.warmup)
        pairs = [(grad * factor if grad is not None else None, var) for grad, var in grads_and_vars]
        return super(WarmOptimizer, self).apply_gradients(pairs, global_step=global_step, name=name)


def train(cls, *args):
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [])
        w = tf.get_variable("w", initializer=[3.0, 4.0])
        tf.get_variable("unused", initializer=[1.0])
        scale = tf.train.experimental.DynamicLossScale(1024, increment_period=2)
        opt = cls(tf.train.MomentumOptimizer(0.1, 0.5), scale, *args)
        step = tf.train.get_or_create_global_step()
        train_op = opt.minimize(x * tf.reduce_sum(w), global_step=step)
        print(cls.__name__, opt.loss_scale is scale, type(opt.optimizer).__name__, isinstance(opt, tf.train.Optimizer))
        sess.run(tf.global_variables_initializer())
        for value in (1.0, 2.0, np.inf, 1.0):
            _, norm = sess.run([train_op, opt.global_norm], {x: value})
            print("step %d scale %g norm %.4f w %.4f %.4f" % (
                (sess.run(step), sess.run(opt.loss_scale()), norm) + tuple(sess.run(w))))
        print(opt.optimizer.get_slot_names(), opt.optimizer.get_slot(w, "momentum").op.name)


train(OpenOptimizer)
train(WarmOptimizer, 3)
