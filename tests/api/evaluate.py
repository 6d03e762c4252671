"""Evaluate the recorded expressions and print what came of each, as JSON; test_errors.py runs it.

Usage: evaluate.py {v2|v1}. "v2" is eager mode, "v1" the mode after `tf.compat.v1.disable_v2_behavior()`, which holds
for a whole process.
"""

from __future__ import annotations

import contextlib
import copy
import decimal
import fractions
import inspect
import json
import logging
import os
import pathlib
import pickle
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
# The expressions say `tf.keras` and mean Keras 2.
os.environ["TF_USE_LEGACY_KERAS"] = "1"

import numpy as np
import tensorflow as tf
import tf_keras
from tensorflow.python.training.experimental import mixed_precision as native_rewrite
from tensorflow.python.training.experimental import mixed_precision_global_state as rewrite_state
from tf_keras.src.mixed_precision import policy as policy_module

DATA = pathlib.Path(__file__).parent / "data"
NAN = float("nan")


def full(cls: type) -> str:
    # Classes of mpls show the name that a release gave them.
    outer = cls.__qualname__.rpartition(".")[0]
    return ".".join(filter(None, (cls.__module__, outer, cls.__name__)))


# --- the names of the record ----------------------------------------------------------------------


def mpls_names() -> dict[str, Any]:
    import mpls.experimental
    import mpls.keras
    import mpls.v1

    return {
        "LS": mpls.v1.LossScale,
        "FLS": mpls.v1.FixedLossScale,
        "DLS": mpls.v1.DynamicLossScale,
        "MPLSO": mpls.v1.MixedPrecisionLossScaleOptimizer,
        "ENABLE": mpls.v1.enable_mixed_precision_graph_rewrite,
        "DISABLE": mpls.v1.disable_mixed_precision_graph_rewrite,
        "REGW": mpls.v1.register_loss_scale_wrapper,
        "KLSO": mpls.keras.LossScaleOptimizer,
        "KLSOX": mpls.experimental.LossScaleOptimizer,
    }


def v1opt() -> Any:
    return tf.compat.v1.train.GradientDescentOptimizer(0.5)


def kopt(**kwargs: Any) -> Any:
    return tf_keras.optimizers.SGD(0.5, **kwargs)


def kleg(**kwargs: Any) -> Any:
    return tf_keras.optimizers.legacy.SGD(0.5, **kwargs)


def var(value: Any = 1.0) -> Any:
    return tf.Variable(value)


class Foo:
    pass


class Foo2:
    pass


def run(fetches: Any, feed: dict[Any, Any] | None = None) -> Any:
    with tf.compat.v1.Session() as session:
        session.run(tf.compat.v1.global_variables_initializer())
        return session.run(fetches, feed)


def number(tensor: Any) -> Any:
    """The Python number in an eager tensor or a variable; other values as they are."""
    return tensor.numpy().item() if hasattr(tensor, "numpy") else tensor


def steps(build: Callable[[Any], tuple[Any, list[Any]]], pattern: str) -> Iterator[tuple[str, list[Any], str]]:
    """Take a step for each letter, "f" with a finite and "n" with a NaN gradient.

    `build` is called with the gradient and returns what the step returned, and what to look at after it. It
    is called for each step in eager mode, and once, with a placeholder, in graph mode.
    """
    values = {"f": 1.0, "n": NAN}
    if tf.executing_eagerly():
        for letter in pattern:
            result, looked_at = build(tf.constant(values[letter]))
            yield letter, [number(x) for x in looked_at], type(result).__name__
        return
    gradient = tf.compat.v1.placeholder(tf.float32, [])
    result, looked_at = build(gradient)
    with tf.compat.v1.Session() as session:
        session.run(tf.compat.v1.global_variables_initializer())
        for letter in pattern:
            feed = {gradient: values[letter]}
            # `looked_at` may hold the answers of the step itself, which have to come from the same run.
            of_step = [x for x in looked_at if isinstance(x, tf.Tensor)]
            answers = iter(session.run([result, *of_step], feed)[1:])
            found = [next(answers) if isinstance(x, tf.Tensor) else x for x in looked_at]
            found = [session.run(x) if isinstance(x, tf.Variable) else x for x in found]
            yield letter, [x.item() if hasattr(x, "item") else x for x in found], type(result).__name__


def upd(loss_scale: Any, grads: Any) -> Any:
    op, should_apply = loss_scale.update(grads)
    if tf.executing_eagerly():
        return [str(render(op)), str(render(should_apply))]
    fetches = [x for x in (op, should_apply) if not isinstance(x, bool)]
    return (type(op).__name__, type(should_apply).__name__), run(fetches)


def dls_trace(loss_scale: Any, pattern: str) -> Any:
    def step(gradient: Any) -> tuple[Any, list[Any]]:
        op, should_apply = loss_scale.update([gradient])
        return op, [should_apply, loss_scale._current_loss_scale, loss_scale._num_good_steps]

    return [(letter, *found) for letter, found, _ in steps(step, pattern)]


def mp_step(loss_scale: Any, pattern: str, global_step: bool = False) -> Any:
    weight = tf.Variable(1.0)
    counter = tf.compat.v1.train.get_or_create_global_step() if global_step else None
    optimizer = NAMES["MPLSO"](v1opt(), loss_scale)

    def step(gradient: Any) -> tuple[Any, list[Any]]:
        result = optimizer.apply_gradients([(gradient, weight)], global_step=counter)
        scale = optimizer._loss_scale
        # A variable is read after the step; a constant can be read at any time.
        state = getattr(scale, "_current_loss_scale", None)
        return result, [weight, scale() if state is None else state, False if counter is None else counter]

    return [(letter, found[0], [found[1]], found[2], name) for letter, found, name in steps(step, pattern)]


def minimize(optimizer: Any, weight: Any, loss: Callable[[], Any]) -> Any:
    return optimizer.minimize(loss if tf.executing_eagerly() else loss(), var_list=[weight])


def mp_fp16(loss_scale: Any) -> Any:
    weight = tf.Variable(1.0, dtype=tf.float16)
    optimizer = NAMES["MPLSO"](v1opt(), loss_scale)
    result = minimize(optimizer, weight, lambda: weight * weight)
    return type(result).__name__


def mp_sparse(loss_scale: Any) -> Any:
    weight = tf.Variable([1.0, 2.0, 3.0])

    def loss() -> Any:
        return tf.reduce_sum(tf.gather(weight, [0, 2]))

    optimizer = NAMES["MPLSO"](v1opt(), loss_scale)
    pairs = optimizer.compute_gradients(loss if tf.executing_eagerly() else loss(), [weight])
    return [type(grad).__name__ for grad, _ in pairs]


def mp_mixed_none(loss_scale: Any) -> Any:
    used, unused = tf.Variable(1.0), tf.Variable(1.0)
    optimizer = NAMES["MPLSO"](v1opt(), loss_scale)

    def loss() -> Any:
        return used * used

    pairs = optimizer.compute_gradients(loss if tf.executing_eagerly() else loss(), [used, unused])
    optimizer.apply_gradients(pairs)
    return [grad is None for grad, _ in pairs]


def min_gs(optimizer: Any) -> Any:
    weight, step = tf.Variable(1.0), tf.compat.v1.train.get_or_create_global_step()

    def loss() -> Any:
        return weight * weight

    result = optimizer.minimize(loss if tf.executing_eagerly() else loss(), var_list=[weight], global_step=step)
    return type(result).__name__


def same_inner(cls: Any, factory: Callable[[], Any] | None = None) -> str:
    inner = factory() if factory else (v1opt() if cls is NAMES["MPLSO"] else NAMES["kopt"]())
    args = ("dynamic",) if cls in (NAMES["MPLSO"], NAMES.get("KLSOX")) else ()
    cls(inner, *args)
    cls(inner, *args)
    return "both ok"


def slots_v1() -> Any:
    inner = tf.compat.v1.train.MomentumOptimizer(0.5, 0.9)
    optimizer = NAMES["MPLSO"](inner, "dynamic")
    # The name sorts as it did when the answer was recorded.
    weight = tf.Variable(1.0, name=None if tf.executing_eagerly() else "v2")
    optimizer.apply_gradients([(tf.constant(1.0), weight)])
    found = (
        optimizer.get_slot_names(),
        inner.get_slot_names(),
        optimizer.get_slot(weight, "momentum") is not None,
        inner.get_slot(weight, "momentum") is not None,
        sorted(variable.name for variable in optimizer.variables()),
    )
    return list(found) if tf.executing_eagerly() else found


def strategy(name: str) -> Any:
    experimental = tf.compat.v1.distribute.experimental
    makers = {
        "default": tf.distribute.get_strategy,
        "onedevice": lambda: tf.distribute.OneDeviceStrategy("/cpu:0"),
        "mirrored1": lambda: tf.distribute.MirroredStrategy(["/cpu:0"]),
        "mirrored2": lambda: tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"]),
        "central1": lambda: tf.distribute.experimental.CentralStorageStrategy(["/cpu:0"]),
        "central2": lambda: tf.distribute.experimental.CentralStorageStrategy(["/cpu:0", "/cpu:1"]),
        "ps": experimental.ParameterServerStrategy,
        "mwms": tf.distribute.MultiWorkerMirroredStrategy,
    }
    return makers[name]()


def under(name: str, function: Callable[[], Any]) -> Any:
    with strategy(name).scope():
        return function()


def cross_replica_apply(factory: Callable[[], Any], name: str = "mirrored1") -> Any:
    def apply() -> Any:
        weight = tf.Variable(1.0)
        return factory().apply_gradients([(tf.constant(1.0), weight)])

    return under(name, apply)


def apply_under(name: str, factory: Callable[[], Any], outside: bool = False) -> str:
    here = strategy(name)
    optimizer = factory() if outside else None
    with here.scope():
        weight = tf.Variable(1.0)
        optimizer = optimizer or factory()

    def step() -> Any:
        optimizer.apply_gradients([(tf.constant(1.0), weight)])

    if tf.executing_eagerly():
        tf.function(lambda: here.run(step))()
        after = number(weight)
        if not after < 1:
            return f"not applied: {after}"
    else:
        with here.scope():
            here.run(step)
    return "applied"


def with_class_of(real: Any, path: str) -> Any:
    """A one-device strategy that says that it is of another class, which cannot be made on one machine."""
    cls: Any = tf
    for part in path.split(".")[1:]:
        cls = getattr(cls, part)
    real.__class__ = cls
    return real


def stand_in(path: str, function: Callable[[], Any]) -> Any:
    pretender = tf.distribute.OneDeviceStrategy("/cpu:0")
    scope = pretender.scope()
    with_class_of(pretender, path)
    with scope:
        return function()


def describe_opt(optimizer: Any) -> str:
    text = full(type(optimizer))
    if hasattr(optimizer, "inner_optimizer"):
        for name in ("loss_scale", "dynamic", "initial_scale", "dynamic_growth_steps"):
            text += f" {name}={render(getattr(optimizer, name))}"
    return text


def compiled(optimizer: Any, policy: Any = None, **kwargs: Any) -> Any:
    if policy is not None:
        tf_keras.mixed_precision.set_global_policy(policy)
    model = tf_keras.Sequential([tf_keras.layers.Dense(1, input_shape=(2,))])
    model.compile(optimizer, "mse", **kwargs)
    return model


def fit(model: Any) -> Any:
    model.fit(np.ones((4, 2), "float32"), np.ones((4, 1), "float32"), verbose=0)
    return model


ATTRIBUTES = (
    "loss_scale dynamic initial_scale dynamic_growth_steps dynamic_counter inner_optimizer dynamic_scale "
    "step_counter learning_rate lr iterations loss_scale_factor name _optimizer _loss_scale "
    "_loss_has_been_scaled _gradients_have_been_unscaled _HAS_AGGREGATE_GRAD _hyper "
    "_is_wrapped_by_loss_scale_optimizer"
)


def k_attr_types(optimizer: Any) -> dict[str, str]:
    found = {}
    for name in ATTRIBUTES.split():
        try:
            found[name] = str(render(getattr(optimizer, name)))
        except AttributeError as error:
            found[name] = f"AttributeError: {error}"
    return found


def setget(optimizer: Any, name: str, value: Any) -> list[str]:
    setattr(optimizer, name, value)
    found = [f"outer={render(getattr(optimizer, name))}"]
    try:
        found.append(f"inner={render(getattr(optimizer.inner_optimizer, name))}")
    except AttributeError as error:
        found.append(f"inner AttributeError: {error}")
    return found


def k_step(wrap: Callable[[Any], Any], pattern: str, factory: Callable[[], Any] | None = None) -> list[tuple[Any, ...]]:
    optimizer = wrap((factory or NAMES["kopt"])())
    weight = tf.Variable(1.0)

    def eager_step(gradient: Any) -> tuple[Any, list[Any]]:
        with tf.GradientTape() as tape:
            loss = optimizer.get_scaled_loss(weight * gradient)
        grads = optimizer.get_unscaled_gradients(tape.gradient(loss, [weight]))
        result = optimizer.apply_gradients(zip(grads, [weight], strict=True))
        return result, [weight, optimizer.loss_scale, optimizer.dynamic_counter, optimizer.iterations]

    def graph_step(gradient: Any) -> tuple[Any, list[Any]]:
        grads = optimizer.get_gradients(weight * gradient, [weight])
        result = optimizer.apply_gradients(zip(grads, [weight], strict=True))
        state = getattr(optimizer._loss_scale, "_current_loss_scale", None)
        scale = optimizer.loss_scale if state is None else state
        return result, [weight, scale, optimizer.iterations]

    step = eager_step if tf.executing_eagerly() else graph_step
    return [(letter, *found, name) for letter, found, name in steps(step, pattern)]


def warn_unscaled(optimizer: Any, calls: int) -> str:
    weight = tf.Variable(1.0)
    if calls & 1:
        optimizer.get_scaled_loss(tf.constant(1.0))
    if calls & 2:
        optimizer.get_unscaled_gradients([tf.constant(1.0)])
    optimizer.apply_gradients([(tf.constant(1.0), weight)])
    return "see logs"


def pub_dir(optimizer: Any) -> list[str]:
    return [name for name in sorted(dir(optimizer)) if not name.startswith("_")]


def checkpoint_keys(**trackables: Any) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = tf.compat.v1.train.Checkpoint(**trackables)
        prefix = os.path.join(folder, "ckpt")
        if tf.executing_eagerly():
            path = checkpoint.save(prefix)
        else:
            with tf.compat.v1.Session() as session:
                session.run(tf.compat.v1.global_variables_initializer())
                session.run(checkpoint.save_counter.initializer)
                path = checkpoint.save(prefix, session)
        return sorted(name for name, _ in tf.train.list_variables(path))


def ckpt_keys(optimizer: Any) -> list[str]:
    weight = tf.Variable(1.0)
    optimizer.apply_gradients([(tf.constant(1.0), weight)])
    return checkpoint_keys(opt=optimizer)


def stepped_keys(optimizer: Any) -> list[str]:
    """The keys of an optimizer that took a step, and of its weight, as the record spells them."""
    weight = tf.Variable(1.0)
    if hasattr(optimizer, "apply_gradients"):
        optimizer.apply_gradients([(tf.constant(1.0), weight)])
    keys = [key.removesuffix("/.ATTRIBUTES/VARIABLE_VALUE") for key in checkpoint_keys(opt=optimizer, w=weight)]
    return [key for key in keys if key not in ("_CHECKPOINTABLE_OBJECT_GRAPH", "save_counter")]


def enable_after_session() -> str:
    with tf.Graph().as_default(), tf.compat.v1.Session():
        NAMES["ENABLE"](v1opt())
    return "see logs"


# Some records have a label instead of an expression.
MOMENTUM_V1 = "tf.compat.v1.train.MomentumOptimizer(0.5, 0.9)"
EXPRESSIONS = {
    "DynamicLossScale alone": "stepped_keys(DLS())",
    "FixedLossScale alone": "stepped_keys(FLS(2.))",
    "MixedPrecisionLossScaleOptimizer(Momentum, dynamic)": f"stepped_keys(MPLSO({MOMENTUM_V1}, 'dynamic'))",
    "MixedPrecisionLossScaleOptimizer(Momentum, 4.)": f"stepped_keys(MPLSO({MOMENTUM_V1}, 4.))",
    "tf.keras.mixed_precision.LossScaleOptimizer(SGD momentum)": "stepped_keys(KLSO(kopt(momentum=0.9)))",
    "tf.keras.mixed_precision.LossScaleOptimizer(legacy SGD momentum)": ("stepped_keys(KLSO(kleg(momentum=0.9)))"),
    "tf.keras.mixed_precision.LossScaleOptimizer(legacy SGD momentum, dynamic=False)": (
        "stepped_keys(KLSO(kleg(momentum=0.9), dynamic=False, initial_scale=4.))"
    ),
}
WRAPPERS = {
    "MPLSO": "MPLSO(v1opt(), 'dynamic')",
    "KLSO": "KLSO(kopt())",
    "KLSO(legacy)": "KLSO(kleg())",
    "KLSOX": "KLSOX(kopt(), 'dynamic')",
}
STRATEGIES = {
    "ParameterServerStrategyV2": "tf.distribute.experimental.ParameterServerStrategy",
    "TPUStrategy": "tf.distribute.TPUStrategy",
}


def expression_of(record: str) -> str | None:
    """The Python expression of a record; None for a label of something that is not of these layers."""
    if record in EXPRESSIONS:
        return EXPRESSIONS[record]
    label = re.fullmatch(r"(?:\(stand-in\) )?(\S+) under (\S+)", record)
    if label:
        wrapper, path = WRAPPERS[label[1]], STRATEGIES.get(label[2], label[2])
        return f"describe_opt(stand_in({path!r}, lambda: {wrapper}))"
    return None if "unwrapped" in record or record.startswith("mixed_float16 layer") else record


# --- evaluation -----------------------------------------------------------------------------------


def one(value: Any) -> Any:
    """A tensor or variable as the record shows it; other values as they are."""
    if not isinstance(value, tf.Tensor | tf.Variable):
        return value
    if not tf.executing_eagerly():
        return repr(value)
    return f"{type(value).__name__}<{value.dtype.name} {tuple(value.shape)} {value.numpy()!s}>"


def render(value: Any) -> Any:
    """A value as text, as the record shows it."""
    if tf.executing_eagerly() and (type(value) in (list, tuple) or type(value).__name__ == "CallableList"):
        return [one(item) for item in value]
    return one(value)


def scrub(text: str) -> str:
    return re.sub(r"0x[0-9a-f]+", "0xADDR", text)


class Notes(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            self.texts.append(record.getMessage())


class FreshState:
    """Puts back what an expression may have changed for the next."""

    def __init__(self) -> None:
        modules = [m for name, m in sys.modules.items() if name.startswith("mpls.v1")]
        registries = [d for m in modules for name, d in vars(m).items() if type(d) is dict and name[:2] != "__"]
        registries.append(native_rewrite._REGISTERED_WRAPPER_OPTIMIZER_CLS)
        self._registries = [(registry, dict(registry)) for registry in registries]
        self._strategy = tf.distribute.get_strategy()

    def restore(self) -> None:
        for registry, content in self._registries:
            registry.clear()
            registry.update(content)
        tf.config.optimizer.set_experimental_options({"auto_mixed_precision": None})
        rewrite_state.set_mixed_precision_graph_rewrite_enabled(False)
        rewrite_state.set_non_mixed_precision_session_created(False)
        tf.__internal__.train.set_using_mixed_precision_policy(False)
        policy_module._global_policy = None
        tf_keras.backend.clear_session()
        tf.compat.v1.reset_default_graph()


def evaluate(expression: str) -> dict[str, Any]:
    notes = Notes()
    loggers = [logging.getLogger(name) for name in ("tensorflow", "absl", "mpls")]
    for logger in loggers:
        logger.addHandler(notes)
    try:
        with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(sys.stderr):
            warnings.simplefilter("always")
            outcome = outcome_of(expression)
    finally:
        for logger in loggers:
            logger.removeHandler(notes)
    outcome["logs"] = [scrub(text) for text in notes.texts]
    outcome["warnings"] = [[w.category.__name__, scrub(str(w.message)), w.filename] for w in caught]
    return outcome


def outcome_of(expression: str) -> dict[str, Any]:
    try:
        value = eval(expression, NAMES)
        is_tensor = isinstance(value, tf.Tensor | tf.Variable)
        text = scrub(one(value) if is_tensor else repr(render(value)))
        return {"outcome": "ok", "type": full(type(value)).replace("builtins.", ""), "value": text}
    except Exception as error:
        classes = [full(cls).replace("builtins.", "") for cls in type(error).__mro__]
        return {"outcome": "raise", "exception": classes[0], "bases": classes, "message": scrub(str(error))}


def names_of_the_record() -> dict[str, Any]:
    names = mpls_names()
    names.update(globals())
    names.update(
        V1SGD=tf.compat.v1.train.GradientDescentOptimizer,
        KO=tf_keras.optimizers,
        POL=tf_keras.mixed_precision.Policy,
        ANYSETP=tf_keras.mixed_precision.set_global_policy,
        kexp=lambda: tf_keras.optimizers.experimental.SGD(0.5),
        kmom=lambda: tf_keras.optimizers.SGD(0.5, momentum=0.9),
        kadam=lambda: tf_keras.optimizers.Adam(0.5),
        copy=copy,
        decimal=decimal,
        fractions=fractions,
        inspect=inspect,
        pickle=pickle,
    )

    class Sub(names["LS"]):  # type: ignore[misc]
        def __call__(self) -> Any:
            return tf.constant(4.0)

        def update(self, grads: Any) -> tuple[Any, bool]:
            return tf.no_op(), True

        def get_config(self) -> dict[str, Any]:
            return {}

    names["Sub"] = Sub
    return names


NEWEST = "2.21.0"
# What `tf.keras` held before.
OLD_NAMES = {
    "kopt": kleg,
    "kmom": lambda: tf_keras.optimizers.legacy.SGD(0.5, momentum=0.9),
    "kadam": lambda: tf_keras.optimizers.legacy.Adam(0.5),
    "KO": tf_keras.optimizers.legacy,
}

NAMES: dict[str, Any] = {}


def main(mode: str) -> None:
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
    )
    if mode == "v1":
        tf.compat.v1.disable_v2_behavior()
    logging.getLogger("tensorflow").setLevel(logging.WARNING)
    logging.getLogger("tensorflow").handlers.clear()
    logging.getLogger("tensorflow").propagate = False
    # A pickled object names its class by its module.
    sys.modules["__main__"].__dict__.update(NAMES)
    data = json.loads((DATA / "errors.json").read_text())
    new_names = names_of_the_record()
    state = FreshState()
    results: dict[str, Any] = {}
    for group in data["groups"]:
        NAMES.clear()
        NAMES.update(new_names, **({} if group["release"] == NEWEST else OLD_NAMES))
        for record, *_ in group["cases"]:
            key = f"{group['group']} :: {record}"
            expression = expression_of(record)
            if expression is None:
                continue
            state.restore()
            results[key] = evaluate(expression)
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
