"""tf.data with padded batches and a lookup, sparse gradients, two applies per step. TF 2.3, 2.4."""
import collections

import numpy as np
import tensorflow as tf

HISTORY = [("a", [3, 1, 2], 1.0), ("b", [5], 0.0), ("c", [2, 2], 1.0), ("a", [4, 5, 1, 0], 0.0), ("d", [1, 3], 1.0), ("b", [0, 4], 1.0)]


def generator():
    for user, items, label in HISTORY:
        yield {"user": user, "items": items}, label


def pipeline(users):
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(tf.constant(users), tf.range(len(users), dtype=tf.int64)), default_value=0)
    data = tf.data.Dataset.from_generator(
        generator, ({"user": tf.string, "items": tf.int64}, tf.float32), ({"user": [], "items": [None]}, []))
    data = data.map(lambda features, label: (dict(features, user=table.lookup(features["user"])), label))
    data = data.cache().padded_batch(2, ({"user": [], "items": [None]}, []), drop_remainder=True)
    return data.repeat(2).prefetch(1), table


def main():
    users = sorted({user for user, _, _ in HISTORY})
    counts = collections.Counter(item for _, items, _ in HISTORY for item in items)
    print("users", users, "most common", counts.most_common(1))
    data, table = pipeline(users)
    rng = np.random.RandomState(0)
    wide = tf.Variable(rng.normal(0, 0.1, (6,)).astype("float32"))
    deep = tf.Variable(rng.normal(0, 0.5, (len(users), 3)).astype("float32"))
    out = tf.Variable(tf.ones([3]))
    LossScaleOptimizer = tf.keras.mixed_precision.experimental.LossScaleOptimizer
    wide_opt = LossScaleOptimizer(tf.keras.optimizers.Ftrl(0.1), "dynamic")
    deep_opt = LossScaleOptimizer(tf.keras.optimizers.Adam(0.05), "dynamic")

    @tf.function
    def step(features, label):
        with tf.GradientTape(persistent=True) as tape:
            logit = tf.reduce_sum(tf.gather(wide, features["items"]), -1)
            logit += tf.tensordot(tf.nn.embedding_lookup(deep, features["user"]), out, 1)
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=label, logits=logit))
            wide_scaled, deep_scaled = wide_opt.get_scaled_loss(loss), deep_opt.get_scaled_loss(loss)
        wide_grads = wide_opt.get_unscaled_gradients(tape.gradient(wide_scaled, [wide]))
        deep_grads = deep_opt.get_unscaled_gradients(tape.gradient(deep_scaled, [deep, out]))
        wide_opt.apply_gradients(zip(wide_grads, [wide]))
        deep_opt.apply_gradients(zip(deep_grads, [deep, out]))
        return loss

    for number, (features, label) in enumerate(data):
        print("batch %d items %s loss %.5f" % (number, features["items"].shape, step(features, label)))
    print("wide", [round(float(value), 4) for value in wide.numpy()])
    print("out", [round(float(value), 4) for value in out.numpy()], int(wide_opt.iterations), int(deep_opt.iterations))


if __name__ == "__main__":
    main()
