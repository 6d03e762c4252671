"""Trains a small U-shaped segmenter on synthetic cells, with a loop of its own. TF 2.3."""
import os

import numpy as np
import tensorflow as tf
from absl import app, flags, logging

FLAGS = flags.FLAGS
flags.DEFINE_integer("max_steps", 6, "Steps of training.")
flags.DEFINE_integer("batch_size", 4, "Samples in a batch.")
flags.DEFINE_float("learning_rate", 0.05, "Learning rate of momentum SGD.")
flags.DEFINE_bool("use_amp", True, "Scale the loss.")
flags.DEFINE_string("model_dir", os.path.join(".", "unused"), "Unused here.")


def make_dataset(seed, batch_size):
    rng = np.random.RandomState(seed)
    images = rng.uniform(-1, 1, (24, 8, 8, 1)).astype("float32")
    masks = (images > 0.2).astype("float32")
    # A scan that did not come through whole.
    images[9, 3, 3, 0] = np.inf
    return tf.data.Dataset.from_tensor_slices((images, masks)).batch(batch_size).repeat()


def constant(shape, seed):
    return tf.constant_initializer(np.random.RandomState(seed).normal(0, 0.3, shape))


def unet():
    inputs = tf.keras.Input((8, 8, 1))
    down = tf.keras.layers.Conv2D(2, 3, padding="same", activation="relu", kernel_initializer=constant((3, 3, 1, 2), 1))(inputs)
    pooled = tf.keras.layers.MaxPool2D()(down)
    middle = tf.keras.layers.Conv2D(3, 3, padding="same", activation="relu", kernel_initializer=constant((3, 3, 2, 3), 2))(pooled)
    up = tf.keras.layers.UpSampling2D()(middle)
    joined = tf.keras.layers.Concatenate()([up, down])
    outputs = tf.keras.layers.Conv2D(1, 1, kernel_initializer=constant((1, 1, 5, 1), 3))(joined)
    return tf.keras.Model(inputs, outputs)


def dice(masks, logits):
    probs = tf.sigmoid(logits)
    both = tf.reduce_sum(probs * masks, [1, 2, 3])
    return tf.reduce_mean(1.0 - (2.0 * both + 1.0) / (tf.reduce_sum(probs + masks, [1, 2, 3]) + 1.0))


def main(_):
    tf.random.set_seed(0)
    model = unet()
    optimizer = tf.keras.optimizers.SGD(FLAGS.learning_rate, momentum=0.9)
    if FLAGS.use_amp:
        optimizer = tf.keras.mixed_precision.experimental.LossScaleOptimizer(optimizer, "dynamic")

    @tf.function
    def train_step(images, masks):
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            loss = dice(masks, logits) + tf.reduce_mean(
                tf.nn.sigmoid_cross_entropy_with_logits(labels=masks, logits=logits))
            scaled = optimizer.get_scaled_loss(loss) if FLAGS.use_amp else loss
        grads = tape.gradient(scaled, model.trainable_variables)
        if FLAGS.use_amp:
            grads = optimizer.get_unscaled_gradients(grads)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        return loss

    for step, (images, masks) in enumerate(make_dataset(7, FLAGS.batch_size).take(FLAGS.max_steps)):
        loss = train_step(images, masks)
        logging.info("step %d done", step)
        print("step %d loss %.5f scale %g" % (step, loss, optimizer.loss_scale().numpy() if FLAGS.use_amp else 1))
    print("kernel", " ".join("%.5f" % value for value in model.layers[-1].get_weights()[0].ravel()))
    print("iterations", optimizer.iterations.numpy())


if __name__ == "__main__":
    app.run(main)
