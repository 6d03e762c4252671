"""Accumulation within train_step, for compile and fit; TF 2.8's names."""
import numpy as np
import tensorflow as tf


class Accumulating(tf.keras.Model):
    def __init__(self, every, **kwargs):
        super().__init__(**kwargs)
        self.every = tf.constant(every, tf.int32)
        self.seen = tf.Variable(0, trainable=False, dtype=tf.int32)
        self.dense = tf.keras.layers.Dense(1, kernel_initializer="ones")
        self.dense.build((None, 2))
        self.sums = [tf.Variable(tf.zeros_like(var), trainable=False) for var in self.dense.trainable_variables]

    def call(self, inputs):
        return self.dense(inputs)

    def train_step(self, data):
        x, y = data
        self.seen.assign_add(1)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self(x) - y))
            scaled_loss = self.optimizer.get_scaled_loss(loss)
        grads = tape.gradient(scaled_loss, self.dense.trainable_variables)
        grads = self.optimizer.get_unscaled_gradients(grads)
        for total, grad in zip(self.sums, grads):
            total.assign_add(grad / tf.cast(self.every, grad.dtype))
        tf.cond(tf.equal(self.seen, self.every), self.flush, lambda: None)
        return {"loss": loss}

    def flush(self):
        self.optimizer.apply_gradients(zip(self.sums, self.dense.trainable_variables))
        self.seen.assign(0)
        for total in self.sums:
            total.assign(tf.zeros_like(total))


if __name__ == "__main__":
    model = Accumulating(2)
    opt = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1), dynamic_growth_steps=2)
    model.compile(optimizer=opt)
    rng = np.random.RandomState(3)
    x = rng.normal(size=(24, 2)).astype("float32")
    y = x.sum(-1, keepdims=True) * 0.5
    y[13] = np.nan
    history = model.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0)
    print("losses", ["%.5f" % loss for loss in history.history["loss"]])
    print("kernel %.5f %.5f" % tuple(model.dense.kernel.numpy().ravel()))
    print("scale %d counter %d iterations %d" % (opt.loss_scale, opt.dynamic_counter, opt.iterations))
