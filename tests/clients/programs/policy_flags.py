"""The policy and its loss scale come from flags: a number, 'dynamic', or none. TF 2.3."""
from absl import app
from absl import flags
import numpy as np
import tensorflow as tf

flags.DEFINE_enum("dtype", "fp16", ["fp32", "fp16", "bf16"], "Data type of the training.")
flags.DEFINE_multi_string("loss_scale", ["128", "dynamic", "none"], "Loss scales to compare.")
FLAGS = flags.FLAGS


def get_loss_scale(text, default_for_fp16=128):
    if text == "dynamic":
        return text
    if text == "none":
        return None
    return float(text) if text else default_for_fp16


def set_policy(dtype, loss_scale):
    if dtype == "fp16":
        policy = tf.keras.mixed_precision.experimental.Policy("mixed_float16", loss_scale=loss_scale)
        tf.keras.mixed_precision.experimental.set_policy(policy)
    elif dtype == "bf16":
        tf.keras.mixed_precision.experimental.set_policy("mixed_bfloat16")
    else:
        tf.keras.mixed_precision.experimental.set_policy("float32")


def run_keras_model(loss_scale):
    set_policy(FLAGS.dtype, loss_scale)
    policy = tf.keras.mixed_precision.experimental.global_policy()
    print(policy.name, "with", None if policy.loss_scale is None else float(policy.loss_scale()))
    model = tf.keras.Sequential([
        tf.keras.layers.Dense(2, kernel_initializer=tf.constant_initializer([[1, 2], [0.5, -1]]), input_shape=(2,)),
        tf.keras.layers.Dense(1, kernel_initializer="ones", dtype="float32"),
    ])
    model.compile(tf.keras.optimizers.SGD(0.02), "mse")
    x = np.array([[0.5, 1.0], [2.0, 0.25]], "float32")
    for _ in range(3):
        loss = model.train_on_batch(x, np.array([[1.0], [0.0]], "float32"))
        print("loss %.3f" % loss)
    print("wrapped", isinstance(model.optimizer, tf.keras.mixed_precision.experimental.LossScaleOptimizer))
    print("weights", np.round(model.layers[0].get_weights()[0], 3).tolist())


def main(unused_argv):
    del unused_argv
    for text in FLAGS.loss_scale:
        run_keras_model(get_loss_scale(text))
    set_policy("fp32", None)


if __name__ == "__main__":
    app.run(main)
