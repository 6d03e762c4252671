"""Evaluate the recorded expressions and print what came of each, as JSON; test_errors.py runs it.

Usage: evaluate.py {v2|v1}. "v2" is eager mode, "v1" the mode after `tf.compat.v1.disable_v2_behavior()`, which holds
for a whole process. An expression with a name that is not here comes out as a NameError.
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
from collections.abc import Callable
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


def upd(loss_scale: Any, grads: Any) -> Any:
    op, should_apply = loss_scale.update(grads)
    if tf.executing_eagerly():
        return [str(render(op)), str(render(should_apply))]
    fetches = [x for x in (op, should_apply) if not isinstance(x, bool)]
    return (type(op).__name__, type(should_apply).__name__), run(fetches)


def same_inner(cls: Any, factory: Callable[[], Any] | None = None) -> str:
    inner = factory() if factory else (v1opt() if cls is NAMES["MPLSO"] else NAMES["kopt"]())
    args = ("dynamic",) if cls in (NAMES["MPLSO"], NAMES.get("KLSOX")) else ()
    cls(inner, *args)
    cls(inner, *args)
    return "both ok"


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


def pub_dir(optimizer: Any) -> list[str]:
    return [name for name in sorted(dir(optimizer)) if not name.startswith("_")]


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


class FreshState:
    """Puts back what an expression may have changed for the next."""

    def __init__(self) -> None:
        modules = [m for name, m in sys.modules.items() if name.startswith("mpls.v1")]
        registries = [d for m in modules for name, d in vars(m).items() if type(d) is dict and name[:2] != "__"]
        registries.append(native_rewrite._REGISTERED_WRAPPER_OPTIMIZER_CLS)
        self._registries = [(registry, dict(registry)) for registry in registries]

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
    try:
        with contextlib.redirect_stdout(sys.stderr):
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
            state.restore()
            results[f"{group['group']} :: {record}"] = evaluate(record)
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
