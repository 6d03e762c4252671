"""A model with its own train_step, as contrastive pre-training has it. TF 2.3, 2.4."""
import numpy as np
import tensorflow as tf


class Contrastive(tf.keras.Model):
    def __init__(self, temperature=0.5):
        super().__init__()
        kernel = np.random.RandomState(3).normal(0, 0.5, (4, 3))
        self.encoder = tf.keras.layers.Dense(3, kernel_initializer=tf.constant_initializer(kernel))
        self.temperature = temperature

    def call(self, inputs):
        return tf.math.l2_normalize(self.encoder(inputs), -1)

    def train_step(self, data):
        first, second = data
        with tf.GradientTape() as tape:
            logits = tf.matmul(self(first), self(second), transpose_b=True) / self.temperature
            labels = tf.range(tf.shape(logits)[0])
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
            if isinstance(self.optimizer, tf.keras.mixed_precision.experimental.LossScaleOptimizer):
                scaled_loss = self.optimizer.get_scaled_loss(loss)
            else:
                scaled_loss = loss
        grads = tape.gradient(scaled_loss, self.trainable_variables)
        if isinstance(self.optimizer, tf.keras.mixed_precision.experimental.LossScaleOptimizer):
            grads = self.optimizer.get_unscaled_gradients(grads)
        self.optimizer.apply_gradients(zip(grads, self.trainable_variables))
        return {"loss": loss, "norm": tf.linalg.global_norm(grads)}


if __name__ == "__main__":
    rng = np.random.RandomState(8)
    base = rng.normal(size=(12, 4)).astype("float32")
    noisy = base + rng.normal(0, 0.1, base.shape).astype("float32")
    noisy[5, 1] = np.nan
    for loss_scale in (256, "dynamic"):
        data = tf.data.Dataset.from_tensor_slices((base, noisy)).batch(4)
        if loss_scale == 256:
            data = data.take(1)
        model = Contrastive()
        model.compile(tf.keras.mixed_precision.experimental.LossScaleOptimizer(tf.keras.optimizers.SGD(0.5), loss_scale))
        history = model.fit(data, epochs=2, verbose=0).history
        print(loss_scale, ["%.5f" % value for value in history["loss"]], ["%.5f" % value for value in history["norm"]])
        one = model.optimizer.get_scaled_loss(tf.constant(1.0))
        print("scale %d iterations %d" % (one, model.optimizer.iterations))
        print("kernel", " ".join("%.4f" % value for value in model.encoder.kernel.numpy()[0]))
