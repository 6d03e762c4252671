"""What the rewriter writes exists in mpls, takes these arguments, and works over optimizers of both Kerases."""

from __future__ import annotations

import re
import warnings
from typing import Any

import keras
import pytest
import tensorflow as tf
import tf_keras

import mpls.experimental
import mpls.keras
from mpls.names import NAMES, Name, namespaces
from tests.keras.families import SGD
from tests.processes import process_environment, run_python

from .cases import NATIVES, VALUES
from .migrating import after

# Names of TensorFlow's own that are written.
WRITTEN = re.compile(r"tf\.(?:keras|compat\.v1)\.mixed_precision\.\w+")
GONE = [row for row in NAMES if row.last is not None and not row.is_namespace]


def in_place_of(path: str) -> Any:
    """Return the object that a program gets in place of one that is gone."""
    new = after(f"import tensorflow as tf\nimport keras\nx = {path}\n")
    assert not new.endswith(f"x = {path}\n")
    values: dict[str, Any] = {}
    exec(new, values)
    return values["x"]


@pytest.mark.parametrize("row", GONE, ids=[row.path for row in GONE])
def test_the_replacement_of_a_name_is_there(row: Name) -> None:
    assert in_place_of(row.path) is not None


def test_the_module_for_a_namespace_has_its_members() -> None:
    number = 0
    for path in [row.path for row in NAMES if row.is_namespace and row.last is not None]:
        module, _, name = path.replace("tf.", "tensorflow.", 1).rpartition(".")
        before = f"from {module} import {name} as m\n"
        new = after(before)
        if new == before:
            # Nothing has all that was in it.
            continue
        values: dict[str, Any] = {}
        exec(new, values)
        for row in namespaces()[path]:
            assert row.is_namespace or getattr(values["m"], row.attribute) is in_place_of(row.path)
            number += 1
    assert number > 40


def migrated_call(arguments: str, as_of: str | None = None) -> str:
    """Return the expression that a call of the experimental wrapper becomes."""
    old = "tf.keras.mixed_precision.experimental.LossScaleOptimizer"
    options = [] if as_of is None else ["--as-of", as_of]
    new = after(f"import tensorflow as tf\n{old}({arguments})\n", *options)
    return new.splitlines()[-1]


CALLS = [
    ("inner, 'dynamic'", "inner, 'dynamic'"),
    ("inner, 128", "inner, 128"),
    ("optimizer=inner, loss_scale=2 ** 10", "inner, 2 ** 10"),
    ("inner, tf.train.experimental.FixedLossScale(16)", "inner, mpls.experimental.FixedLossScale(16)"),
    (
        "inner, tf.mixed_precision.experimental.DynamicLossScale(8, 1000)",
        "inner, mpls.experimental.DynamicLossScale(8, 1000)",
    ),
    (
        "inner, tf.train.experimental.DynamicLossScale(increment_period=3, multiplier=2)",
        "inner, mpls.experimental.DynamicLossScale(increment_period=3)",
    ),
]


@pytest.mark.parametrize("family", SGD)
@pytest.mark.parametrize(("old", "same"), CALLS)
def test_a_translated_call_makes_the_same_wrapper(family: str, old: str, same: str) -> None:
    call = migrated_call(old)
    assert call.startswith("mpls.keras.LossScaleOptimizer(")
    new = eval(call, {"mpls": mpls, "tf": tf, "inner": SGD[family](1.0)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kept = eval(f"mpls.experimental.LossScaleOptimizer({same})", {"mpls": mpls, "inner": SGD[family](1.0)})
    for name in ("dynamic", "initial_scale", "dynamic_growth_steps"):
        assert getattr(new, name) == getattr(kept, name)
    assert float(new.loss_scale) == float(kept.loss_scale)


@pytest.mark.parametrize("family", SGD)
@pytest.mark.parametrize(("as_of", "advances"), [("2.2", False), ("2.3", True), ("2.15", True)])
@pytest.mark.parametrize("arguments", ["inner, 'dynamic'", "inner, scale"])
def test_as_of_decides_whether_a_skipped_step_counts(family: str, as_of: str, advances: bool, arguments: str) -> None:
    call = migrated_call(arguments, as_of)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        opt = eval(call, {"mpls": mpls, "inner": SGD[family](1.0), "scale": "dynamic"})
    variable = (keras.Variable if family == "keras3" else tf.Variable)(1.0)
    opt.get_scaled_loss(tf.constant(1.0))
    grads = opt.get_unscaled_gradients([tf.constant(float("nan"))])
    opt.apply_gradients(zip(grads, [variable], strict=True))
    assert int(opt.iterations) == int(advances)
    assert float(variable) == 1.0


@pytest.mark.parametrize("legacy", ["0", "1"], ids=["keras 3", "keras 2"])
@pytest.mark.programs
def test_todays_own_names_are_there(legacy: str) -> None:
    paths = sorted({path for case in NATIVES.values() for path in WRITTEN.findall(case.after)})
    if legacy == "0":
        # Another class in Keras 3, which is not written for it.
        paths.remove("tf.keras.mixed_precision.LossScaleOptimizer")
    assert len(paths) > 5
    code = "\n".join(["import tensorflow as tf", *paths])
    done = run_python("-c", code, environment=process_environment(TF_USE_LEGACY_KERAS=legacy))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("family", ["legacy", "new"])
@pytest.mark.parametrize(("old", "same"), CALLS)
def test_a_call_with_todays_own_wrapper_makes_the_same(family: str, old: str, same: str) -> None:
    text = f"import tensorflow as tf\nx = tf.keras.mixed_precision.experimental.LossScaleOptimizer({old})\n"
    call = after(text, "--keras", "2", "--to", "native").splitlines()[-1].removeprefix("x = ")
    assert call.startswith("tf.keras.mixed_precision.LossScaleOptimizer(")
    new = eval(call.replace("tf.keras", "tf_keras", 1), {"tf_keras": tf_keras, "inner": SGD[family](1.0)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kept = eval(f"mpls.experimental.LossScaleOptimizer({same})", {"mpls": mpls, "inner": SGD[family](1.0)})
    assert (new.dynamic, float(new.loss_scale)) == (kept.dynamic, float(kept.loss_scale))
    assert new.dynamic_growth_steps == kept.dynamic_growth_steps
    assert isinstance(kept, tf_keras.mixed_precision.LossScaleOptimizer)
    assert isinstance(new, mpls.keras.LossScaleOptimizer)


HOLDING = [name for name, case in VALUES.items() if "held" in case.after and not case.is_unchanged]


@pytest.mark.parametrize("name", HOLDING)
def test_tests_for_the_class_hold(name: str) -> None:
    """They hold over optimizers of each family; those of Keras 3 are not for the wrapper that `--to native` writes."""
    code = VALUES[name].after.replace("tf.keras", "tf_keras")
    for family, make in SGD.items():
        if "tf_keras" in code and family == "keras3":
            continue
        values = {"tf_keras": tf_keras, "inner": make(1.0)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(code, values)
        assert values["held"] is True, family
