# Fine-tuning of a language model as it was done in 2019: its own weight-decaying Adam, a hand-kept global step that only
# advances when all gradients are finite ("step_update"), gradient accumulation, and two ways to scale the loss: the
# graph rewrite, which is handed a DynamicLossScale object that is logged later, or the managers of contrib.
# Written for TF 1.14 and 1.15.
import json
import sys

import tensorflow as tf


class AdamWeightDecayOptimizer(tf.train.Optimizer):
    def __init__(self, learning_rate, weight_decay_rate=0.0, name="AdamWeightDecayOptimizer"):
        super(AdamWeightDecayOptimizer, self).__init__(False, name)
        self.learning_rate = tf.identity(learning_rate, name="learning_rate")
        self.weight_decay_rate = weight_decay_rate

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        updates = []
        for grad, param in grads_and_vars:
            if grad is None or param is None:
                continue
            slots = [
                tf.get_variable(
                    name=param.op.name + suffix,
                    shape=param.shape.as_list(),
                    dtype=tf.float32,
                    trainable=False,
                    initializer=tf.zeros_initializer(),
                )
                for suffix in ("/adam_m", "/adam_v")
            ]
            next_m = 0.9 * slots[0] + 0.1 * grad
            next_v = 0.999 * slots[1] + 0.001 * tf.square(grad)
            update = next_m / (tf.sqrt(next_v) + 1e-6) + self.weight_decay_rate * param
            updates.extend([param.assign(param - self.learning_rate * update), slots[0].assign(next_m)])
            updates.append(slots[1].assign(next_v))
        return tf.group(*updates, name=name)


def clipped(grads, all_are_finite):
    norm = tf.cond(all_are_finite, lambda: tf.global_norm(grads), lambda: tf.constant(1.0))
    return tf.clip_by_global_norm(grads, clip_norm=1.0, use_norm=norm)[0]


def create_optimizer(loss, use_fp16=False, manual_fp16=False, accumulation_steps=1):
    global_step = tf.train.get_or_create_global_step()
    optimizer = AdamWeightDecayOptimizer(0.1, weight_decay_rate=0.01)
    scaler = None
    if manual_fp16:
        manager = tf.contrib.mixed_precision.ExponentialUpdateLossScaleManager(
            init_loss_scale=2**32, incr_every_n_steps=1000, decr_every_n_nan_or_inf=2, decr_ratio=0.5
        )
        optimizer = tf.contrib.mixed_precision.LossScaleOptimizer(optimizer, manager)
        scaler = manager.get_loss_scale
    elif use_fp16:
        scaler = tf.train.experimental.DynamicLossScale(
            initial_loss_scale=2**32, increment_period=1000, multiplier=2.0
        )
        optimizer = tf.train.experimental.enable_mixed_precision_graph_rewrite(optimizer, scaler)
        scale_tensor = tf.identity(scaler(), name="loss_scale")
        assert scale_tensor.dtype == tf.float32
    tvars = tf.trainable_variables()
    grads_and_vars = optimizer.compute_gradients(loss / accumulation_steps, tvars)
    grads = [grad for grad, _ in grads_and_vars]
    all_are_finite = tf.reduce_all([tf.reduce_all(tf.is_finite(grad)) for grad in grads])
    if accumulation_steps == 1:
        train_op = optimizer.apply_gradients(list(zip(clipped(grads, all_are_finite), tvars)), global_step=global_step)
        new_global_step = tf.cond(all_are_finite, lambda: global_step + 1, lambda: global_step)
        new_global_step = tf.identity(new_global_step, name="step_update")
        return tf.group(train_op, [global_step.assign(new_global_step)]), scaler

    local_step = tf.get_variable("local_step", shape=[], dtype=tf.int32, trainable=False, initializer=tf.zeros_initializer)
    batch_finite = tf.get_variable("batch_finite", [], tf.bool, trainable=False, initializer=tf.ones_initializer)
    sums = [
        tf.get_variable(var.op.name + "/accum", var.shape.as_list(), trainable=False, initializer=tf.zeros_initializer())
        for var in tvars
    ]
    is_first = tf.equal(local_step % accumulation_steps, 0)
    is_last = tf.equal(local_step % accumulation_steps, accumulation_steps - 1)
    finite = tf.logical_and(tf.logical_or(batch_finite, is_first), all_are_finite)
    old_sums = [tf.where(is_first, tf.zeros_like(total), total) for total in sums]
    new_sums = [total + grad for total, grad in zip(old_sums, grads)]

    def update():
        applied = optimizer.apply_gradients(list(zip(clipped(new_sums, finite), tvars)), global_step=global_step)
        with tf.control_dependencies([applied]):
            return tf.identity(tf.cond(finite, lambda: global_step + 1, lambda: global_step), name="step_update")

    new_global_step = tf.cond(is_last, update, lambda: tf.identity(global_step))
    with tf.control_dependencies([new_global_step]):
        kept = [total.assign(new) for total, new in zip(sums, new_sums)] + [batch_finite.assign(finite)]
    with tf.control_dependencies(kept):
        return tf.group(global_step.assign(new_global_step), local_step.assign_add(1)), scaler


def main(argv):
    modes = {
        "rewrite": dict(use_fp16=True),
        "manual": dict(use_fp16=True, manual_fp16=True),
        "accumulate": dict(use_fp16=True, accumulation_steps=2),
    }
    for mode in argv[1:] or modes:
        with tf.Graph().as_default():
            weights = tf.get_variable("weights", initializer=[1.0, 2.0])
            factor = tf.placeholder(tf.float32, [])
            train_op, scaler = create_optimizer(tf.reduce_sum(tf.square(weights)) * factor, **modes[mode])
            scale = scaler()
            with tf.Session() as sess:
                sess.run(tf.global_variables_initializer())
                for k in (1.0, float("inf"), 2.0, 3.0):
                    sess.run(train_op, {factor: k})
                    now = sess.run([scale, tf.train.get_global_step(), weights])
                    line = {"step": k, "scale": float(now[0]), "iterations": int(now[1]), "weights": now[2].tolist()}
                    print(json.dumps(dict(line, run=mode)))


if __name__ == "__main__":
    main(sys.argv)
