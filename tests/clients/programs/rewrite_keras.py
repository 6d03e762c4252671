"""The graph rewrite around a Keras optimizer, then fit; and its interlock with the policy. TF 2.3."""
import numpy as np
import tensorflow as tf


def configure_optimizer(optimizer, use_float16=False, use_graph_rewrite=False, loss_scale="dynamic"):
    if use_float16:
        optimizer = tf.keras.mixed_precision.experimental.LossScaleOptimizer(optimizer, loss_scale=loss_scale)
    if use_graph_rewrite:
        optimizer = tf.train.experimental.enable_mixed_precision_graph_rewrite(optimizer)
    return optimizer


def main():
    tf.random.set_seed(0)
    optimizer = configure_optimizer(tf.keras.optimizers.Adam(0.05), use_graph_rewrite=True)
    print(type(optimizer).__name__, isinstance(optimizer, tf.keras.mixed_precision.experimental.LossScaleOptimizer))
    try:
        configure_optimizer(optimizer, use_graph_rewrite=True)
    except ValueError:
        print("twice: refused")
    try:
        tf.keras.mixed_precision.experimental.set_policy("mixed_float16")
        print("policy is set")
    except ValueError:
        print("policy: refused")
    rng = np.random.RandomState(3)
    x = rng.normal(size=(16, 2)).astype("float32")
    y = x[:, :1] - x[:, 1:]
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer="zeros", input_shape=(2,))])
    model.compile(optimizer, "mae")
    for epoch in range(3):
        target = y.copy()
        if epoch == 1:
            target[12] = np.inf
        history = model.fit(x, target, batch_size=8, epochs=1, shuffle=False, verbose=0)
        print("loss %.5f iterations %d scale %g" % (
            history.history["loss"][0], model.optimizer.iterations, model.optimizer.loss_scale()))
    print(np.round(model.get_weights()[0].ravel(), 5).tolist())
    tf.train.experimental.disable_mixed_precision_graph_rewrite()
    print(tf.config.optimizer.get_experimental_options().get("auto_mixed_precision"))


if __name__ == "__main__":
    main()
