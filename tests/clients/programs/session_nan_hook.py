# A hook counts the skipped steps and stops after too many; SingularMonitoredSession, Scaffold. TF 1.15.
import numpy as np
import tensorflow as tf
from tensorflow.train.experimental import DynamicLossScale, MixedPrecisionLossScaleOptimizer

tf.logging.set_verbosity(tf.logging.ERROR)


class SkipCounter(tf.train.SessionRunHook):
    """Steps that did not advance the global step were skipped."""

    def __init__(self, patience):
        self.patience = patience
        self.skipped = 0
        self._last = None

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(tf.train.get_global_step())

    def after_run(self, run_context, run_values):
        step = run_context.session.run(tf.train.get_global_step())
        if self._last is not None and step == self._last:
            self.skipped += 1
            print("skipped", self.skipped)
        self._last = step
        if self.skipped >= self.patience:
            run_context.request_stop()


def input_fn():
    values = np.array([1.0, 0.5, np.nan, 0.25, np.inf, np.inf, 1.0, 1.0], "float32")
    return tf.data.make_one_shot_iterator(tf.data.Dataset.from_tensor_slices(values)).get_next()


def run(patience):
    with tf.Graph().as_default():
        factor = input_fn()
        tf.train.create_global_step()
        w = tf.Variable([2.0, -1.0], name="w")
        scale = DynamicLossScale(initial_loss_scale=16.0, increment_period=2)
        opt = MixedPrecisionLossScaleOptimizer(tf.train.AdagradOptimizer(0.5), scale)
        train_op = opt.minimize(tf.reduce_sum(w * w) * factor, global_step=tf.train.get_global_step())
        value = scale()
        counter = SkipCounter(patience)
        scaffold = tf.train.Scaffold(init_fn=lambda scaffold, session: print("initialised"))
        with tf.train.SingularMonitoredSession(hooks=[counter], scaffold=scaffold) as session:
            while not session.should_stop():
                session.run(train_op)
                print("scale %g w %s" % (session.raw_session().run(value), np.round(session.raw_session().run(w), 4).tolist()))
        print("skipped in all", counter.skipped)


if __name__ == "__main__":
    for patience in (2, 10):
        run(patience)
