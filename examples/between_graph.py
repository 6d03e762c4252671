"""Train in TF1 style on two workers that share variables on a parameter server, in float16 with loss scaling.

`python examples/between_graph.py` starts the three of them as processes of this machine. Each worker builds the graph
and has half of the digits; `SyncReplicasOptimizer` collects their gradients, and the first worker applies the mean. The
loss scale is a variable on the parameter server. Half-way, a batch of the second worker is damaged: the step is
skipped, and both see the scale halved and the weights as they were.

The network and the job are those of `tf1_digits.py`.
"""

from __future__ import annotations

import time
from typing import Any

import _cluster
import _digits
import _tf1_network as network
import tensorflow.compat.v1 as tf

import mpls.v1

tf.disable_v2_behavior()

WORKERS = 2


def start_server(task: _cluster.Task) -> Any:
    cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver().cluster_spec()
    return tf.train.Server(cluster, job_name=task.job, task_index=task.index)


def serve(options: _cluster.Options) -> None:
    start_server(options.task).join()


def work(options: _cluster.Options) -> None:
    server, worker = start_server(options.task), options.task.index
    digits = _digits.load()
    with tf.device(tf.train.replica_device_setter(cluster=server.server_def.cluster)):
        images = tf.placeholder(tf.float32, [None, _digits.PIXELS])
        labels = tf.placeholder(tf.int64, [None])
        logits = network.logits_of(images, tf.float16)
        kernels = [variable for variable in tf.trainable_variables() if "kernel" in variable.name]
        decay = _digits.WEIGHT_DECAY * tf.add_n([tf.nn.l2_loss(kernel) for kernel in kernels])
        loss = network.mean_squared_error(logits, labels) + decay

        opt = mpls.v1.MixedPrecisionLossScaleOptimizer(network.momentum(), "dynamic")
        # The other way round, the loss scaling around it, does the same.
        opt = tf.train.SyncReplicasOptimizer(opt, replicas_to_aggregate=WORKERS, total_num_replicas=WORKERS)
        global_step = tf.train.get_or_create_global_step()
        train_op = opt.minimize(loss, global_step=global_step)
        (scale,) = (variable for variable in opt.variables() if "current_loss_scale" in variable.name)
        accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), labels), tf.float32))

    feed = {images: digits.train_images[worker::WORKERS], labels: digits.train_labels[worker::WORKERS]}
    damaged_feed = {**feed, images: _cluster.damaged(feed[images])} if worker == 1 else feed
    started = time.perf_counter()
    with open_session(server, worker, opt) as session:
        for step in range(options.steps):
            session.run(train_op, damaged_feed if step == options.damaged_step else feed)
            _cluster.say(step=step + 1, scale=float(session.run(scale)))
        seconds = time.perf_counter() - started
        test_feed = {images: digits.test_images, labels: digits.test_labels}
        result = _cluster.Result(
            scale=session.run(scale),
            # A skipped step does not advance the global step.
            skipped=options.steps - session.run(global_step),
            accuracy=session.run(accuracy, test_feed),
            weights=session.run(tf.trainable_variables()),
            seconds=seconds,
        )
        _cluster.say(result=result.cells())


def open_session(server: Any, worker: int, opt: Any) -> Any:
    # Workers need not know each other, only the parameter server.
    config = tf.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{worker}"])
    if worker:
        # A session that finds nothing initialized would look again after 30 seconds only.
        uninitialized = tf.report_uninitialized_variables(tf.global_variables())
        with tf.Session(server.target, config=config) as session:
            while session.run(uninitialized).size:
                time.sleep(0.1)
    return tf.train.MonitoredTrainingSession(
        server.target,
        is_chief=worker == 0,
        # Without tokens to begin with, no worker is ahead of the other.
        hooks=[opt.make_session_run_hook(is_chief=worker == 0, num_tokens=0)],
        config=config,
        stop_grace_period_secs=0,
    )


if __name__ == "__main__":
    _cluster.main(
        __file__,
        __doc__,
        {"ps": serve, "worker": work},
        {"ps": 1, "worker": WORKERS},
        "Handwritten digits, TF1 between-graph replication",
    )
