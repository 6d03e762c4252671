# A manager of the program's own, by the interface that contrib documented; imports by name. TF 1.15.
import abc

import numpy as np
import six
import tensorflow as tf
from tensorflow.contrib.mixed_precision import LossScaleManager, LossScaleOptimizer


@six.add_metaclass(abc.ABCMeta)
class Logged(object):
    @abc.abstractmethod
    def describe(self):
        """Says what it is."""


class LinearManager(LossScaleManager, Logged):
    """One more after each finite step, half after another; never under the floor."""

    def __init__(self, start, floor=1.0):
        self._floor = floor
        self._scale = tf.get_variable("linear_scale", dtype=tf.float32, trainable=False, use_resource=True,
                                      initializer=tf.constant(start))

    def get_loss_scale(self):
        return self._scale.read_value()

    def update_loss_scale(self, finite_grads):
        return tf.cond(
            finite_grads,
            lambda: tf.group(self._scale.assign_add(1.0)),
            lambda: tf.group(self._scale.assign(tf.maximum(self._scale * 0.5, self._floor))))

    def describe(self):
        return "linear from floor %g" % self._floor


def main():
    w = tf.get_variable("w", initializer=[1.0, 2.0], use_resource=True)
    x = tf.placeholder(tf.float32, [2])
    manager = LinearManager(8.0, floor=4.0)
    optimizer = LossScaleOptimizer(tf.train.GradientDescentOptimizer(0.1), manager)
    train_op = optimizer.minimize(tf.reduce_sum(w * x), global_step=tf.train.get_or_create_global_step())
    print(manager.describe(), isinstance(manager, LossScaleManager), isinstance(optimizer, tf.train.Optimizer))
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for batch in ([1, 1], [np.inf, 1], [1, np.nan], [0.5, 0.5], [1, 2]):
            sess.run(train_op, {x: batch})
            values = sess.run([manager.get_loss_scale(), tf.train.get_global_step(), w])
            print("scale %g step %d w %s" % (values[0], values[1], np.round(values[2], 4)))


if __name__ == "__main__":
    main()
