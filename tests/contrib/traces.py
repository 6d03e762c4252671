"""Trainings with the contrib classes, the same for the original and for mpls; runs on TensorFlow 1.15 and today's.

`python traces.py FILE` on TensorFlow 1.15 (Python 3.7, `protobuf<3.20`) records what the originals do.
"""

import json
import sys

import tensorflow as tf

v1 = tf.compat.v1
INF, NAN = float("inf"), float("nan")

# f finite, i infinite, n NaN.
MANAGERS = [
    {"init_loss_scale": 16.0, "incr_every_n_steps": 2},
    {"init_loss_scale": 16.0, "incr_every_n_steps": 2, "decr_every_n_nan_or_inf": 1},
    {"init_loss_scale": 16.0, "incr_every_n_steps": 1, "incr_ratio": 3, "decr_ratio": 0.5},
    {"init_loss_scale": 2.0**32, "incr_every_n_steps": 1000, "decr_every_n_nan_or_inf": 3},
    {"init_loss_scale": 1.2, "incr_every_n_steps": 3},
    {"init_loss_scale": 2.0**127, "incr_every_n_steps": 1, "incr_ratio": 4},
    {"init_loss_scale": 0.5, "incr_every_n_steps": 2, "decr_every_n_nan_or_inf": 2},
    {"init_loss_scale": 7.3, "incr_every_n_steps": 2, "incr_ratio": 1.7, "decr_ratio": 0.7},
    {"init_loss_scale": 16.0, "incr_every_n_steps": 0, "decr_every_n_nan_or_inf": 0},
]
PATTERNS = ["ffnnff", "nnnnnnnn", "fnfnfnfnff", "ffffffff", "nfnffnnfnnnf"]
OPTIMIZERS = {
    "sgd": lambda: v1.train.GradientDescentOptimizer(0.5),
    "momentum": lambda: v1.train.MomentumOptimizer(0.25, 0.5),
    "adam": lambda: v1.train.AdamOptimizer(0.125),
}
STEPS = "ffinfiff"
FACTORS = {"f": 1.0, "i": INF, "n": NAN}


def manager_trace(api, settings, pattern):
    """Return scale, good steps and bad steps after each update."""
    with tf.Graph().as_default():
        manager = api.ExponentialUpdateLossScaleManager(**settings)
        finite = v1.placeholder(tf.bool, [])
        op = manager.update_loss_scale(finite)
        state = [manager.get_loss_scale(), manager._num_good_steps, manager._num_bad_steps]
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            return [_step(session, op, {finite: letter == "f"}, state) for letter in pattern]


def training_trace(api, optimizer, settings):
    """Return variables, global step and scale after each step; a number of settings is a fixed scale."""
    with tf.Graph().as_default():
        first = v1.get_variable("first", initializer=[1.0, -2.0])
        second = v1.get_variable("second", initializer=[[0.5], [3.0]])
        global_step = v1.train.get_or_create_global_step()
        factor = v1.placeholder(tf.float32, [])
        loss = tf.reduce_sum(first * first) * factor + tf.reduce_sum(second * 0.25 * second)
        if isinstance(settings, dict):
            manager = api.ExponentialUpdateLossScaleManager(**settings)
        else:
            manager = api.FixedLossScaleManager(settings)
        op = api.LossScaleOptimizer(OPTIMIZERS[optimizer](), manager).minimize(loss, global_step=global_step)
        state = [first, second, global_step, manager.get_loss_scale()]
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            return [_step(session, op, {factor: FACTORS[letter]}, state) for letter in STEPS]


def _step(session, op, feed, state):
    session.run(op, feed)
    return [value.tolist() for value in session.run(state)]


def all_traces(api):
    """Return all traces by name."""
    traces = {}
    for index, settings in enumerate(MANAGERS):
        for pattern in PATTERNS:
            traces[f"manager/{index}/{pattern}"] = manager_trace(api, settings, pattern)
    for optimizer in OPTIMIZERS:
        for index in (0, 1, 7):
            name = f"training/{optimizer}/{index}"
            traces[name] = training_trace(api, optimizer, MANAGERS[index])
        traces[f"training/{optimizer}/fixed"] = training_trace(api, optimizer, 128.0)
    return traces


if __name__ == "__main__":
    v1.disable_v2_behavior()
    with open(sys.argv[1], "w") as file:
        record = {"tensorflow": tf.__version__, "traces": all_traces(tf.contrib.mixed_precision)}
        file.write(
            json.dumps(record, sort_keys=True).replace('"manager', '\n"manager').replace('"training', '\n"training')
            + "\n"
        )
