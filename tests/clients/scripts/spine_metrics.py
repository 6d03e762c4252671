# Medical images: a loss scale that grows soon and starts low, given with its settings by keyword, and the scale written
# into the metrics by opt.loss_scale(), behind a gate that compares versions as strings.
# Written for TF 2.2 and 2.3, with an arm for TF 2.4 that a later release never takes: "2.21.0" < "2.4.0".
import json

import tensorflow as tf
from tensorflow.keras.mixed_precision import experimental as mixed_precision


class MainLoop(object):
    def __init__(self):
        policy = mixed_precision.Policy("mixed_float16", loss_scale=None)
        mixed_precision.set_policy(policy)
        self.optimizer = tf.keras.optimizers.Adam(0.01, epsilon=1e-4)
        self.optimizer = mixed_precision.LossScaleOptimizer(
            self.optimizer, tf.mixed_precision.experimental.DynamicLossScale(initial_loss_scale=8, increment_period=2)
        )
        self.model = tf.keras.Sequential([tf.keras.layers.Dense(1, use_bias=False, dtype="float32")])
        self.model.build((None, 2))
        self.model.set_weights([tf.constant([[1.0], [2.0]]).numpy()])
        self.metrics = {}

    @tf.function
    def train_step(self, x, factor):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(self.model(x)) * factor
            scaled_loss = self.optimizer.get_scaled_loss(loss)
        variables = self.model.trainable_weights
        scaled_gradients = tape.gradient(scaled_loss, variables)
        gradients = self.optimizer.get_unscaled_gradients(scaled_gradients)
        norm = tf.linalg.global_norm(gradients)
        clipped, _ = tf.clip_by_global_norm(gradients, 1.0, norm)
        self.optimizer.apply_gradients(zip(clipped, variables))
        if tf.__version__ < "2.4.0":
            return norm, self.optimizer.loss_scale()
        return norm, self.optimizer.loss_scale

    def run(self):
        for k in (1.0, 2.0, float("inf"), 2.0, 1.0, 1.0):
            norm, in_step = self.train_step(tf.constant([[1.0, 0.5]]), tf.constant(k))
            self.metrics.update(norm=float(norm), loss_scale=float(in_step))
            scale = float(self.optimizer.get_scaled_loss(tf.constant(1.0)))
            weights = self.model.get_weights()[0].ravel().tolist()
            line = {"step": k, "scale": scale, "iterations": int(self.optimizer.iterations), "weights": weights}
            print(json.dumps(dict(line, **self.metrics)))
        config = self.optimizer.get_config()
        print(json.dumps({"seen": "keys of the config", "value": sorted(config)}))


MainLoop().run()
mixed_precision.set_policy("float32")
