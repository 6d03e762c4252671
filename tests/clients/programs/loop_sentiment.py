"""A classifier of sentences with an embedding (sparse gradients) in a loop over epochs. TF 2.4 and later."""
import numpy as np
import tensorflow as tf
from tensorflow.keras import mixed_precision

VOCABULARY, WIDTH, EPOCHS = 12, 4, 3


class Bag(tf.keras.Model):
    def __init__(self, rng):
        super().__init__()
        table = rng.normal(0, 0.2, (VOCABULARY, WIDTH)).astype("float32")
        self.embedding = tf.keras.layers.Embedding(
            VOCABULARY, WIDTH, embeddings_initializer=tf.constant_initializer(table))
        self.out = tf.keras.layers.Dense(1, kernel_initializer="ones", dtype="float32")

    def call(self, tokens):
        return self.out(tf.reduce_mean(self.embedding(tokens), axis=1))


def main():
    rng = np.random.RandomState(11)
    tokens = rng.randint(0, VOCABULARY, (16, 5))
    labels = (tokens.max(-1) > 9).astype("float32")[:, None]
    data = tf.data.Dataset.from_tensor_slices((tokens, labels)).batch(8)

    model = Bag(rng)
    optimizer = mixed_precision.LossScaleOptimizer(tf.keras.optimizers.Adagrad(0.1), initial_scale=2.0**127, dynamic_growth_steps=3)
    loss_object = tf.keras.losses.BinaryCrossentropy(from_logits=True, reduction="sum")
    mean = tf.keras.metrics.Mean()

    @tf.function
    def train_step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_object(y, model(x))
            scaled_loss = optimizer.get_scaled_loss(loss)
        scaled = tape.gradient(scaled_loss, model.trainable_variables)
        gradients = optimizer.get_unscaled_gradients(scaled)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        mean(loss)

    for epoch in range(EPOCHS):
        mean.reset_states() if hasattr(mean, "reset_states") else mean.reset_state()
        for x, y in data:
            train_step(x, y)
        print("Epoch {}, Loss: {:.5f}, Scale: 2**{:.0f}, Good: {}".format(
            epoch + 1, mean.result(), np.log2(optimizer.loss_scale.numpy()), int(optimizer.dynamic_counter)))
    print("bias {:.6f} iterations {}".format(model.out.bias.numpy()[0], int(optimizer.iterations)))


if __name__ == "__main__":
    main()
