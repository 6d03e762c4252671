# The private modules of training: loss_scale_optimizer and loss_scale, in a graph. TF 1.15.
import numpy as np
import tensorflow as tf
from tensorflow.python.framework import ops
from tensorflow.python.ops import math_ops, variable_scope
from tensorflow.python.training import gradient_descent
from tensorflow.python.training.experimental import loss_scale as loss_scale_module
from tensorflow.python.training.experimental import loss_scale_optimizer


def main(_):
    with ops.Graph().as_default():
        with variable_scope.variable_scope("private"):
            w = variable_scope.get_variable("w", initializer=[2.0, -2.0])
        x = tf.placeholder(tf.float32, [2])
        loss = math_ops.reduce_sum(w * w * x)
        scale = loss_scale_module.DynamicLossScale(initial_loss_scale=4, increment_period=1)
        opt = loss_scale_optimizer.MixedPrecisionLossScaleOptimizer(gradient_descent.GradientDescentOptimizer(0.1), scale)
        print(type(opt._loss_scale).__name__, type(opt._optimizer).__name__)
        train_op = opt.minimize(loss, global_step=tf.train.get_or_create_global_step())
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for batch in ([1, 1], [1, 0], [np.nan, 0], [0.5, 1]):
                sess.run(train_op, {x: batch})
                print("scale %g good %d step %d w %s" % (tuple(sess.run(
                    [scale._current_loss_scale, scale._num_good_steps, tf.train.get_global_step()])) + (sess.run(w).round(4).tolist(),)))


if __name__ == "__main__":
    tf.app.run()
