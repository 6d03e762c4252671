# MonitoredTrainingSession with a checkpoint directory: stops, starts again, and goes on at the same scale. TF 1.15.
import argparse
import shutil
import tempfile

import numpy as np
import tensorflow as tf


class ScaleHook(tf.train.SessionRunHook):
    def __init__(self, loss_scale, loss):
        self._fetches = {"scale": loss_scale, "loss": loss}

    def begin(self):
        self._fetches["step"] = tf.train.get_global_step()

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(self._fetches)

    def after_run(self, run_context, run_values):
        values = run_values.results
        print("after step %d: loss %.4f, scale %g" % (values["step"], values["loss"], values["scale"]))


def train(model_dir, last_step):
    with tf.Graph().as_default():
        batches = np.array([[1, 2], [3, 1], [1e38, 1e38], [1, 1], [2, 2], [0.5, 1]], "float32")
        dataset = tf.data.Dataset.from_tensor_slices(batches).repeat()
        features = tf.data.make_one_shot_iterator(dataset).get_next()
        weights = tf.get_variable("weights", initializer=[0.5, -0.25])
        global_step = tf.train.get_or_create_global_step()
        loss = tf.square(tf.reduce_sum(weights * features) - 1.0)
        optimizer = tf.train.MomentumOptimizer(0.02, 0.5)
        loss_scale = tf.train.experimental.DynamicLossScale(2 ** 12, increment_period=3)
        optimizer = tf.train.experimental.MixedPrecisionLossScaleOptimizer(optimizer, loss_scale)
        train_op = optimizer.minimize(loss, global_step=global_step)
        hooks = [tf.train.StopAtStepHook(last_step=last_step), ScaleHook(loss_scale(), loss)]
        with tf.train.MonitoredTrainingSession(
                checkpoint_dir=model_dir, hooks=hooks, save_checkpoint_steps=2, log_step_count_steps=None) as session:
            while not session.should_stop():
                session.run(train_op)
    reader = tf.train.load_checkpoint(model_dir)
    print("saved", np.round(reader.get_tensor("weights"), 4).tolist(), int(reader.get_tensor("global_step")),
          "scale", [float(reader.get_tensor(name)) for name in sorted(reader.get_variable_to_shape_map()) if "loss_scale" in name])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--stops", type=int, nargs="*", default=[3, 7])
    folder = tempfile.mkdtemp()
    try:
        for stop in parser.parse_args().stops:
            train(folder, stop)
    finally:
        shutil.rmtree(folder)
