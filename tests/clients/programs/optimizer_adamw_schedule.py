"""AdamW derived from Adam, a schedule with warm-up, and the rate read by _decayed_lr. TF 2.2, 2.3."""
import argparse

import numpy as np
import tensorflow as tf


class WarmUp(tf.keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self, initial_learning_rate, decay_schedule_fn, warmup_steps):
        super(WarmUp, self).__init__()
        self.initial_learning_rate = initial_learning_rate
        self.decay_schedule_fn = decay_schedule_fn
        self.warmup_steps = warmup_steps

    def __call__(self, step):
        step = tf.cast(step, tf.float32)
        return tf.cond(
            step < self.warmup_steps,
            lambda: self.initial_learning_rate * step / self.warmup_steps,
            lambda: self.decay_schedule_fn(step))


class AdamWeightDecay(tf.keras.optimizers.Adam):
    def __init__(self, learning_rate=0.001, weight_decay_rate=0.0, gradient_clip_norm=1.0, **kwargs):
        super(AdamWeightDecay, self).__init__(learning_rate, **kwargs)
        self.weight_decay_rate = weight_decay_rate
        self.gradient_clip_norm = gradient_clip_norm

    def _prepare_local(self, var_device, var_dtype, apply_state):
        super(AdamWeightDecay, self)._prepare_local(var_device, var_dtype, apply_state)
        apply_state[(var_device, var_dtype)]["weight_decay_rate"] = tf.constant(self.weight_decay_rate)

    def apply_gradients(self, grads_and_vars, name=None, experimental_aggregate_gradients=True):
        grads, tvars = list(zip(*grads_and_vars))
        grads, _ = tf.clip_by_global_norm(grads, clip_norm=self.gradient_clip_norm)
        return super(AdamWeightDecay, self).apply_gradients(
            zip(grads, tvars), name=name, experimental_aggregate_gradients=experimental_aggregate_gradients)

    def _resource_apply_dense(self, grad, var, apply_state=None):
        coefficients = apply_state[(var.device, var.dtype.base_dtype)]
        decay = var.assign_sub(coefficients["lr_t"] * coefficients["weight_decay_rate"] * var)
        with tf.control_dependencies([decay]):
            return super(AdamWeightDecay, self)._resource_apply_dense(grad, var, apply_state=apply_state)


def main(args):
    schedule = tf.keras.optimizers.schedules.PolynomialDecay(args.lr, 10, end_learning_rate=0.0)
    optimizer = AdamWeightDecay(WarmUp(args.lr, schedule, 2), weight_decay_rate=0.1, epsilon=1e-6)
    optimizer = tf.keras.mixed_precision.experimental.LossScaleOptimizer(optimizer, loss_scale="dynamic")
    embedding = tf.Variable(np.linspace(-1, 1, 6).reshape(3, 2).astype("float32"))

    @tf.function
    def train(ids, k):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(tf.nn.embedding_lookup(embedding, ids) - 0.5)) * k
            scaled = optimizer.get_scaled_loss(loss)
        grads = [tf.convert_to_tensor(grad) for grad in tape.gradient(scaled, [embedding])]
        optimizer.apply_gradients(zip(optimizer.get_unscaled_gradients(grads), [embedding]))
        return loss

    for step in range(args.steps):
        loss = train(tf.constant([0, 2] if step % 2 else [0, 1]), tf.constant(1.0))
        print("step %d loss %.5f lr %.5f" % (step, loss, optimizer._optimizer._decayed_lr("float32")))
    print([round(float(value), 5) for value in embedding.numpy().ravel()])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--steps", type=int, default=4)
    main(parser.parse_args())
