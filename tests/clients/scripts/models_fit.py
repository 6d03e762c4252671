# Image classification with compile and fit: the policy, with the flag's loss scale, is set before the model is built, and
# compile wraps the optimizer by itself with the policy's loss scale; the wrapped one is then looked at by isinstance.
# Written for TF 2.1 to 2.3.
import json

import numpy as np
import tensorflow as tf

experimental = tf.keras.mixed_precision.experimental


def set_mixed_precision_policy(dtype, loss_scale=None):
    if dtype == tf.float16:
        policy = experimental.Policy("mixed_float16", loss_scale=loss_scale)
        experimental.set_policy(policy)
    elif dtype == tf.float32:
        experimental.set_policy("float32")


def build():
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Dense(2, use_bias=False, input_shape=(2,)),
            tf.keras.layers.Dense(1, use_bias=False, dtype="float32"),
        ]
    )
    model.set_weights([np.array([[1.0, 0.5], [-0.5, 2.0]]), np.array([[1.0], [0.25]])])
    return model


def loss_fn(y_true, y_pred):
    return tf.reduce_mean(y_pred * y_true, axis=-1)


def fit(run, model, factors):
    x = np.array([[1.0, 2.0], [0.5, -1.0]], "float32")
    for k in factors:
        model.fit(x, np.full([2, 1], k, "float32"), batch_size=2, epochs=1, verbose=0)
        optimizer = model.optimizer
        weights = np.concatenate([value.ravel() for value in model.get_weights()]).tolist()
        line = {"step": k, "iterations": int(optimizer.iterations), "weights": weights, "run": run}
        if isinstance(optimizer, experimental.LossScaleOptimizer):
            line["scale"] = float(optimizer.get_scaled_loss(tf.constant(1.0)))
        print(json.dumps(line))


inf = float("inf")
for run, loss_scale in (("dynamic", "dynamic"), ("fixed", 128), ("none", None)):
    set_mixed_precision_policy(tf.float16, loss_scale)
    print(json.dumps({"seen": "compute dtype", "value": experimental.global_policy().compute_dtype}))
    model = build()
    model.compile(tf.keras.optimizers.SGD(0.125, momentum=0.5), loss=loss_fn)
    is_wrapped = isinstance(model.optimizer, experimental.LossScaleOptimizer)
    print(json.dumps({"seen": "wrapped", "value": is_wrapped, "run": run}))
    fit(run, model, (1.0, inf, 0.5, 0.25) if loss_scale == "dynamic" else (1.0, 0.5))

set_mixed_precision_policy(tf.float16, "dynamic")
model = build()
optimizer = experimental.LossScaleOptimizer(
    tf.keras.optimizers.SGD(0.125), tf.mixed_precision.experimental.DynamicLossScale(512, 2)
)
model.compile(optimizer, loss=loss_fn)
print(json.dumps({"seen": "not wrapped twice", "value": model.optimizer is optimizer}))
fit("own", model, (1.0, inf, 0.5, 0.5))
set_mixed_precision_policy(tf.float32)
