"""The float16 network of the TF1 examples, and the loop that trains it.

Placeholders, a Session and `minimize`, as in code of TF 1.x: the computations are in float16, the variables in float32
and cast where they are used. `_digits.py` says why float16 gradients underflow in this job.
"""

from __future__ import annotations

from typing import Any

import _digits
import _report
import tensorflow.compat.v1 as tf

tf.logging.set_verbosity(tf.logging.ERROR)


def cast_variable(getter: Any, *args: Any, dtype: tf.DType, **kwargs: Any) -> Any:
    """Create the variable in float32, and give it to the network in the dtype that it asked for."""
    return tf.cast(getter(*args, dtype=tf.float32, **kwargs), dtype)


def logits_of(images: Any, dtype: tf.DType) -> Any:
    """Compute the logits in `dtype`, from the same variables whatever the dtype."""
    layer = tf.cast(images, dtype)
    widths = [_digits.WIDTH] * _digits.HIDDEN_LAYERS + [_digits.CLASSES]
    with tf.variable_scope("network", custom_getter=cast_variable, reuse=tf.AUTO_REUSE):
        for number, width in enumerate(widths):
            kernel = tf.get_variable(
                f"kernel_{number}",
                [layer.shape[1], width],
                dtype=dtype,
                initializer=tf.truncated_normal_initializer(stddev=_digits.INITIAL_STDDEV),
            )
            bias = tf.get_variable(f"bias_{number}", [width], dtype=dtype, initializer=tf.zeros_initializer())
            layer = tf.matmul(layer, kernel) + bias
            if number < _digits.HIDDEN_LAYERS:
                layer = tf.sigmoid(layer)
    return layer


def mean_squared_error(logits: Any, labels: Any) -> Any:
    """Average over the images and the outputs, in float32."""
    probabilities = tf.nn.softmax(tf.cast(logits, tf.float32))
    return tf.reduce_mean(tf.squared_difference(probabilities, tf.one_hot(labels, _digits.CLASSES)))


def train(
    name: str, dtype: tf.DType, opt: Any, scale: Any, digits: _digits.Digits, options: _report.Options
) -> _report.Run:
    """Train with an optimizer whose loss scale is the tensor or variable `scale`."""
    tf.set_random_seed(options.seed)
    images = tf.placeholder(tf.float32, [None, _digits.PIXELS])
    labels = tf.placeholder(tf.int64, [None])

    logits = logits_of(images, dtype)
    error = mean_squared_error(logits, labels)
    kernels = [variable for variable in tf.trainable_variables() if "kernel" in variable.name]
    loss = error + _digits.WEIGHT_DECAY * tf.add_n([tf.nn.l2_loss(kernel) for kernel in kernels])
    global_step = tf.train.get_or_create_global_step()
    train_op = opt.minimize(loss, global_step=global_step)

    accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), labels), tf.float32))
    # What the backward pass of this run gives, and what it gives in float32 with the same variables.
    gradients = [gradient for gradient, _ in opt.compute_gradients(error)]
    references = tf.gradients(mean_squared_error(logits_of(images, tf.float32), labels), tf.trainable_variables())

    train_feed = {images: digits.train_images, labels: digits.train_labels}
    test_feed = {images: digits.test_images, labels: digits.test_labels}
    with tf.Session() as session, _report.Run(name, options.steps) as run:
        session.run(tf.global_variables_initializer())

        def measure() -> None:
            underflow = _report.underflow_share(*session.run((gradients, references), train_feed))
            run.measure(session.run(accuracy, test_feed), underflow)

        measure()
        for _ in range(options.steps):
            step_loss, _ = session.run((loss, train_op), train_feed)
            run.step(step_loss, session.run(scale))
            if run.is_due():
                measure()
        # A skipped step does not advance the global step.
        run.skipped = options.steps - session.run(global_step)
    return run


def momentum() -> tf.train.Optimizer:
    return tf.train.MomentumOptimizer(_digits.LEARNING_RATE, _digits.MOMENTUM)
