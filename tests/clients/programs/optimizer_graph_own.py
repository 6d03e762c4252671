# An optimizer of TF 1 with _apply_dense and slots: signs with momentum, in the graph's wrapper. TF 1.15.
import numpy as np
import tensorflow as tf
from tensorflow.python.training import optimizer as optimizer_lib


class SignMomentum(optimizer_lib.Optimizer):
    def __init__(self, learning_rate, momentum=0.9, use_locking=False, name="SignMomentum"):
        super(SignMomentum, self).__init__(use_locking, name)
        self._lr, self._momentum = learning_rate, momentum

    def _prepare(self):
        lr = self._lr() if callable(self._lr) else self._lr
        self._lr_t = tf.convert_to_tensor(lr, name="learning_rate")

    def _create_slots(self, var_list):
        for var in var_list:
            self._zeros_slot(var, "average", self._name)

    def _apply_dense(self, grad, var):
        average = self.get_slot(var, "average")
        new = average.assign(self._momentum * average + (1 - self._momentum) * grad)
        return tf.group(var.assign_sub(self._lr_t * tf.sign(new)), new)

    def _resource_apply_dense(self, grad, handle):
        return self._apply_dense(grad, handle)


def main(argv):
    del argv
    x = tf.placeholder(tf.float32, [2, 3])
    with tf.variable_scope("regression"):
        w = tf.get_variable("w", [3, 1], initializer=tf.constant_initializer([0.3, -0.6, 0.9]))
        b = tf.get_variable("b", [1], initializer=tf.zeros_initializer(), use_resource=True)
    loss = tf.reduce_mean(tf.abs(tf.matmul(x, w) + b - 1.0))
    opt = SignMomentum(0.05)
    opt = tf.train.experimental.MixedPrecisionLossScaleOptimizer(opt, "dynamic")
    step = tf.train.get_or_create_global_step()
    train_op = opt.minimize(loss, global_step=step)
    print(sorted(v.op.name for v in tf.global_variables() if "SignMomentum" in v.op.name))
    rng = np.random.RandomState(1)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for number in range(5):
            feed = rng.normal(size=(2, 3)) * (np.inf if number == 3 else 1)
            _, value = sess.run([train_op, loss], {x: feed})
            print("%d loss %.5f step %d w %s b %s" % (
                number, value, sess.run(step), np.round(sess.run(w).ravel(), 4), np.round(sess.run(b), 4)))


if __name__ == "__main__":
    tf.app.run()
