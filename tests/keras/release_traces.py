"""What experimental wrappers did in each release, asked of the originals and of mpls in the same words.

`python release_traces.py DIRECTORY` on TensorFlow 2.1 to 2.8 records the original, each release in a file of its own.
"""

import json
import os
import sys
import tempfile

import tensorflow as tf

INF = float("inf")
FACTORS = [1.0, INF, 2.0, 0.5]
# A list is a DynamicLossScale, a name a class of the user's.
LOSS_SCALES = ["dynamic", 128, 0.5, [8.0, 2, 2.0], [16.0, 1, 4.0], "own", "own dynamic"]
OPTIMIZERS = ["SGD", "Adam"]


def inner_optimizer(optimizers, name):
    """Return a new optimizer of a module of optimizers; epsilon is so small that its place does not matter."""
    if name == "SGD":
        return optimizers.SGD(0.5, momentum=0.5)
    return optimizers.Adam(0.125, epsilon=1e-12)


def own_classes(api):
    """Return the loss scales of a user."""

    class Own(api.LossScale):
        """Halves the scale at every step, and skips what is not finite."""

        def __init__(self, start=1024.0):
            super().__init__()
            self._start = start
            self._value = self._add_weight("value", start, tf.float32)
            self._num_good_steps = self._add_weight("updates", 0, tf.int64)

        def __call__(self):
            return tf.convert_to_tensor(self._value)

        def update(self, grads):
            finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(grad)) for grad in tf.nest.flatten(grads)])
            self._num_good_steps.assign_add(1)
            return self._value.assign(self._value / 2.0), finite

        def get_config(self):
            return {"start": self._start}

    class OwnDynamic(api.DynamicLossScale):
        """Has a ceiling, and a count of its own."""

        def __init__(self, initial_loss_scale=64.0, increment_period=1, multiplier=2.0):
            super().__init__(initial_loss_scale, increment_period, multiplier)
            self._overflows = self._add_weight(name="overflows", dtype=tf.int64, initial_value=0)
            self.ceiling = 1e9

        def update(self, grads):
            op, should_apply = super().update(grads)
            self._overflows.assign_add(tf.cast(tf.logical_not(should_apply), tf.int64))
            self._current_loss_scale.assign(tf.minimum(self._current_loss_scale, self.ceiling))
            return op, should_apply

    return {"own": Own, "own dynamic": OwnDynamic}


def loss_scale_argument(api, value):
    """Return the loss scale that a case stands for."""
    if isinstance(value, list):
        return api.DynamicLossScale(*value)
    return own_classes(api)[value]() if value in ("own", "own dynamic") else value


def kind_of_error(error):
    """Return which built-in an error is."""
    return [cls.__name__ for cls in (TypeError, ValueError, AttributeError) if isinstance(error, cls)]


def wrap(api, optimizers, name, value):
    """Return a wrapper and its loss scale argument, or the built-in class of the error."""
    argument = loss_scale_argument(api, value)
    try:
        return api.LossScaleOptimizer(inner_optimizer(optimizers, name), argument), argument
    except (TypeError, ValueError) as error:
        return {"error": kind_of_error(error)}, argument


def scale_of(optimizer):
    """Return the scale, by what every release has."""
    return float(optimizer.get_scaled_loss(tf.constant(1.0)))


def step(optimizer, variable, factor, *args):
    """Do a step of a custom loop."""
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(variable * [1.0, 0.5]) * factor
        loss = optimizer.get_scaled_loss(loss)
    grads = optimizer.get_unscaled_gradients(tape.gradient(loss, [variable]))
    optimizer.apply_gradients(zip(grads, [variable]), *args)  # noqa: B905


def steps(optimizer, variable):
    """Return what each step of the sequence leaves."""
    lines = []
    for factor in FACTORS:
        step(optimizer, variable, factor)
        lines.append([scale_of(optimizer), int(optimizer.iterations), variable.numpy().tolist()])
    return lines


def settings_of(config):
    """Return the part of a config that is the wrapper's."""
    inner = config.get("optimizer") or config.get("inner_optimizer")
    rest = {key: value for key, value in config.items() if key not in ("optimizer", "inner_optimizer", "name")}
    return [sorted(config), inner["class_name"], rest]


def trace(api, optimizers, name, value):
    """Return all that a wrapper with a loss scale shows."""
    optimizer, argument = wrap(api, optimizers, name, value)
    if isinstance(optimizer, dict):
        return optimizer
    seen = {"class": type(optimizer).__name__, "steps": steps(optimizer, tf.Variable([1.0, 2.0]))}
    loss_scale = optimizer.loss_scale
    seen["is object"] = callable(loss_scale)
    seen["is same"] = loss_scale is argument
    if callable(loss_scale) and hasattr(loss_scale, "_num_good_steps"):
        seen["good steps"] = int(loss_scale._num_good_steps)
    config = optimizer.get_config()
    seen["config"] = settings_of(config)
    seen["again"] = rebuilt(type(optimizer), config, own_classes(api).values())
    return seen


def rebuilt(cls, config, own):
    """Return what the config makes."""
    before = settings_of(config)
    try:
        again = cls.from_config(config, {each.__name__: each for each in own})
    except (TypeError, ValueError) as error:
        return {"error": kind_of_error(error)}
    return [type(again).__name__, settings_of(again.get_config()) == before, scale_of(again)]


def replaced(api, optimizers, name):
    """Return what a loss scale does that is put in the place of the first, in steps and in a checkpoint.

    From TF 2.4 on, what is in that place is of a private class.
    """
    optimizer = api.LossScaleOptimizer(inner_optimizer(optimizers, name), "dynamic")
    if not callable(optimizer.loss_scale):
        return None
    other = own_classes(api)["own dynamic"](64.0)
    optimizer._loss_scale = other
    optimizer._track_trackable(other, "loss_scale", overwrite=True)
    other.ceiling = 100.0
    lines = steps(optimizer, tf.Variable([1.0, 2.0]))
    with tempfile.TemporaryDirectory() as folder:
        path = tf.train.Checkpoint(opt=optimizer).save(os.path.join(folder, "c"))
        reader = tf.train.load_checkpoint(path)
        keys = [key for key in reader.get_variable_to_shape_map() if "/loss_scale/" in key]
        saved = {key.split("/.ATTR")[0]: float(reader.get_tensor(key)) for key in keys}
    return {"steps": lines, "saved": saved, "overflows": int(other._overflows), "now": float(other())}


def second_argument(api, optimizers, value):
    """Return what the wrapped optimizer's apply_gradients gets as its second argument, and by what way."""
    got = []

    class Inner(optimizers.SGD):
        def apply_gradients(self, grads_and_vars, second="not given", **kwargs):
            got.append([second, sorted(set(kwargs) - {"experimental_aggregate_gradients"})])
            return super().apply_gradients(grads_and_vars, **kwargs)

    optimizer = api.LossScaleOptimizer(Inner(0.5), "dynamic")
    variable = tf.Variable([1.0, 2.0])
    args = () if value == "nothing" else (value,)
    try:
        step(optimizer, variable, 1.0, *args)
    except (TypeError, ValueError) as error:
        return {"error": kind_of_error(error)}
    return got


def refused(api):
    """Return the errors for what is no optimizer."""
    errors = {}
    for name, value in (
        ("none", None),
        ("loss scale", api.DynamicLossScale()),
        ("v1", tf.compat.v1.train.AdamOptimizer()),
    ):
        try:
            api.LossScaleOptimizer(value, "dynamic")
        except (TypeError, ValueError) as error:
            errors[name] = kind_of_error(error)
    return errors


SECOND = ["nothing", None, 1.0, "text", True]


def record(api, optimizers):
    """Return everything."""
    return {
        "class": api.LossScaleOptimizer.__name__,
        "traces": [[name, value, trace(api, optimizers, name, value)] for name in OPTIMIZERS for value in LOSS_SCALES],
        "replaced": [[name, replaced(api, optimizers, name)] for name in OPTIMIZERS],
        "second": [[value, second_argument(api, optimizers, value)] for value in SECOND],
        "refused": refused(api),
    }


class Original:
    """The names of a release."""

    def __init__(self):
        self.LossScaleOptimizer = tf.keras.mixed_precision.experimental.LossScaleOptimizer
        experimental = tf.mixed_precision.experimental
        self.LossScale, self.DynamicLossScale = experimental.LossScale, experimental.DynamicLossScale


def main():
    tf.get_logger().setLevel("ERROR")
    release = "".join(tf.__version__.split(".")[:2])
    parts = []
    for key, value in record(Original(), tf.keras.optimizers).items():
        text = json.dumps(value, sort_keys=True)
        if isinstance(value, list):
            text = "[\n" + ",\n".join(json.dumps(row, sort_keys=True) for row in value) + "\n]"
        parts.append(f'"{key}": {text}')
    with open(os.path.join(sys.argv[1], f"releases_tf{release}.json"), "w") as file:
        file.write("{\n" + ",\n".join(parts) + "\n}\n")


if __name__ == "__main__":
    main()
