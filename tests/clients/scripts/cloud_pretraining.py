# Pre-training in the cloud: the graph rewrite around a Keras optimizer, whose weights are read and set by position
# (get_weights()[0] is the step), gradients accumulated before they are unscaled, and the scale logged by opt.loss_scale().
# Written for TF 2.1 to 2.3.
import json

import tensorflow as tf


def wrap(optimizer, loss_scale):
    return tf.train.experimental.enable_mixed_precision_graph_rewrite(optimizer, loss_scale)


def train_batch(optimizer, variables, factors):
    sums = [tf.zeros_like(variable) for variable in variables]
    for factor in factors:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(variables[0]) * factor
            scaled_loss = optimizer.get_scaled_loss(loss)
        scaled_grads = tape.gradient(scaled_loss, variables)
        sums = [total + grad / len(factors) for total, grad in zip(sums, scaled_grads)]
    grads = optimizer.get_unscaled_gradients(sums)
    grads, norm = tf.clip_by_global_norm(grads, 100.0)
    optimizer.apply_gradients(zip(grads, variables))
    return norm


for loss_scale in ("dynamic", 128.0):
    weights = tf.Variable([1.0, 2.0])
    inner = tf.keras.optimizers.SGD(0.1, momentum=0.5)
    optimizer = wrap(inner, loss_scale)
    for factors in ((1.0, 2.0), (1.0, float("inf")), (2.0, 2.0)):
        if loss_scale == 128.0 and factors[1] == float("inf"):
            continue
        norm = train_batch(optimizer, [weights], [tf.constant(factor) for factor in factors])
        step = int(optimizer.get_weights()[0])
        line = {"step": sum(factors), "scale": float(optimizer.loss_scale()), "iterations": step}
        print(json.dumps(dict(line, weights=weights.numpy().tolist(), run=str(loss_scale), norm=float(norm))))
    saved = optimizer.get_weights()
    saved[0] = saved[0] * 0 + 100
    optimizer.set_weights(saved)
    train_batch(optimizer, [weights], [tf.constant(1.0)])
    line = {"step": "restored", "scale": float(optimizer.loss_scale()), "iterations": int(optimizer.iterations)}
    print(json.dumps(dict(line, weights=weights.numpy().tolist(), run=str(loss_scale))))
print(json.dumps({"seen": "rewrite", "value": tf.config.optimizer.get_experimental_options()["auto_mixed_precision"]}))
