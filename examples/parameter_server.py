"""Train a float16 network with loss scaling under ParameterServerStrategy: a chief, a worker and a parameter server.

`python examples/parameter_server.py` starts the three of them as processes of this machine. The chief hands out steps,
the worker takes them, and all variables, the loss scale among them, are on the parameter server. Half-way, a batch
is damaged: that step is skipped, and the scale halved.

The network and the job are those of `keras3_digits.py`. Wrappers over Keras 3 optimizers, and those of `mpls.v1`,
work under this strategy; tf_keras has no mixed precision there.
"""

from __future__ import annotations

import time
from typing import Any

import _cluster
import _digits
import _keras_digits
import keras
import tensorflow as tf

import mpls.keras

STEPS_AT_ONCE = 10


def serve(options: _cluster.Options) -> None:
    cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver().cluster_spec()
    tf.distribute.Server(cluster, job_name=options.task.job, task_index=options.task.index).join()


def batches(digits: _digits.Digits, options: _cluster.Options) -> tf.data.Dataset:
    """Return the same batch for each step, damaged once."""
    images, damaged = digits.train_images, _cluster.damaged(digits.train_images)
    targets = tf.one_hot(digits.train_labels, _digits.CLASSES)
    return tf.data.Dataset.range(options.steps).map(
        lambda step: (tf.where(step == options.damaged_step, damaged, images), targets)
    )


def lead(options: _cluster.Options) -> None:
    strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    job = _keras_digits.Job(keras, options)
    keras.utils.set_random_seed(0)
    with strategy.scope():
        model = job.network("mixed_float16")
        opt = mpls.keras.LossScaleOptimizer(job.momentum())
        opt.build(model.trainable_variables)

    def replica_step(images: Any, targets: Any) -> None:
        with tf.GradientTape() as tape:
            error = tf.reduce_mean(keras.losses.mean_squared_error(targets, model(images)))
            loss = opt.scale_loss(error + tf.add_n(model.losses))
        variables = model.trainable_variables
        opt.apply(tape.gradient(loss, [variable.value for variable in variables]), variables)

    @tf.function
    def step(iterator: Any) -> None:
        strategy.run(replica_step, args=next(iterator))

    iterator = iter(coordinator.create_per_worker_dataset(lambda: batches(job.digits, options)))
    started = time.perf_counter()
    for done in range(0, options.steps, STEPS_AT_ONCE):
        number = min(STEPS_AT_ONCE, options.steps - done)
        for _ in range(number):
            coordinator.schedule(step, args=(iterator,))
        coordinator.join()
        _cluster.say(step=done + number, scale=float(opt.loss_scale))
    seconds = time.perf_counter() - started

    predicted = model(job.digits.test_images).numpy().argmax(axis=1)
    result = _cluster.Result(
        scale=float(opt.loss_scale),
        # A skipped step does not count as an iteration, with Keras 3.
        skipped=options.steps - int(opt.iterations),
        accuracy=(predicted == job.digits.test_labels).mean(),
        weights=model.get_weights(),
        seconds=seconds,
    )
    _cluster.say(result=result.cells())


if __name__ == "__main__":
    _cluster.main(
        __file__,
        __doc__,
        {"chief": lead, "worker": serve, "ps": serve},
        {"chief": 1, "worker": 1, "ps": 1},
        "Handwritten digits, ParameterServerStrategy",
        serving=("worker", "ps"),
    )
