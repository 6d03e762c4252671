"""Every private name of the frameworks that mpls uses is there; without some, mpls warns once or says what to do."""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import os
import pathlib
import pickle
import re
import sys
import tempfile
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import keras
import pytest
import tensorflow as tf
import tf_keras

import mpls
import mpls.keras
import mpls.transfer
import mpls.v1
from mpls.errors import MplsError, MplsWarning, UnsupportedReleaseError
from mpls.patches import ABSENT
from mpls.transfer import hosts
from mpls.upstream import (
    optimizers,
    table,
    tensorflow,
    trackables,
)
from mpls.upstream.table import Private

v1 = tf.compat.v1
legacy = tf_keras.optimizers.legacy
NAMES = table.ROWS


def holder_of(row: Private) -> Any:
    """Return the module or class that has a row's name, found without mpls."""
    module, _, within = row.owner.partition(":")
    root, *within_root = module.split(".")
    try:
        # TensorFlow's API has modules as attributes that cannot be imported by their names.
        found: Any = functools.reduce(getattr, within_root, importlib.import_module(root))
    except AttributeError:
        found = importlib.import_module(module)
    return functools.reduce(getattr, filter(None, within.split(".")), found)


def v1_native() -> Any:
    """Return TensorFlow's own wrapper of v1 optimizers."""
    return v1.mixed_precision.MixedPrecisionLossScaleOptimizer(v1.train.GradientDescentOptimizer(0.5), 8)


def trained(optimizer: Any, variable: Any = None) -> Any:
    """Return an optimizer after a step."""
    variable = tf.Variable([1.0]) if variable is None else variable
    optimizer.minimize(lambda: variable * 1.0, var_list=[variable])
    return optimizer


def in_graph(make: Callable[[], Any]) -> Any:
    with tf.Graph().as_default():
        v1.get_variable("weight", initializer=1.0)
        return make()


def compiled(framework: Any) -> Any:
    model = framework.Sequential([framework.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


def averaging() -> Any:
    """Return an optimizer of Keras 3 that is built, and averages weights."""
    optimizer = keras.optimizers.SGD(use_ema=True)
    optimizer.build([keras.Variable(1.0)])
    return optimizer


# What instances have, and their classes have not.
INSTANCES: dict[str, Callable[[], Any]] = {
    "tensorflow:Graph": tf.Graph,
    "tensorflow.python.framework.ops:EagerTensor": lambda: tf.constant(1.0),
    "tensorflow.compat.v1.train:Optimizer": lambda: v1.train.AdamOptimizer(),
    "tensorflow.compat.v1.mixed_precision:MixedPrecisionLossScaleOptimizer": lambda: v1_native(),
    "tf_keras.mixed_precision:LossScaleOptimizer": lambda: tf_keras.mixed_precision.LossScaleOptimizer(legacy.SGD()),
    "tensorflow.compat.v1.train:SyncReplicasOptimizer": lambda: v1.train.SyncReplicasOptimizer(
        v1.train.AdamOptimizer(), 1, 1
    ),
    "tensorflow.compat.v1.train:Saver": lambda: in_graph(v1.train.Saver),
    "tensorflow.compat.v1.mixed_precision:FixedLossScale": lambda: v1.mixed_precision.FixedLossScale(2),
    "tensorflow.compat.v1.mixed_precision:DynamicLossScale": v1.mixed_precision.DynamicLossScale,
    "tensorflow.compat.v1.mixed_precision:LossScale": v1.mixed_precision.DynamicLossScale,
    "tensorflow.python.checkpoint.checkpoint:_CheckpointRestoreCoordinator": lambda: restore_of_tensorflow(),
    "tensorflow.python.util.lazy_loader:KerasLazyLoader": lambda: holder_of(table.IS_LOADED)({}),
    "tensorflow.python.util.module_wrapper:TFModuleWrapper": lambda: v1,
    "tensorflow:Variable": lambda: tf.Variable(1.0),
    "tf_keras.optimizers.legacy:Optimizer": lambda: trained(legacy.SGD(0.5, 0.5)),
    "tf_keras.optimizers.legacy:SGD": lambda: legacy.SGD(0.5, 0.5),
    "tf_keras.optimizers:Optimizer": lambda: trained(tf_keras.optimizers.SGD()),
    "tf_keras.optimizers:Nadam": lambda: trained(tf_keras.optimizers.Nadam()),
    "tf_keras:Model": lambda: compiled(tf_keras),
    "keras.optimizers:Optimizer": lambda: averaging(),
    "keras:Model": lambda: compiled(keras),
}


@pytest.mark.parametrize("name", NAMES)
def test_it_is_there(name: str) -> None:
    row = NAMES[name]
    holder = holder_of(row)
    if isinstance(holder, types.FunctionType):
        assert row.name in holder.__code__.co_varnames
        return
    if row.name not in dir(holder):
        holder = INSTANCES[row.owner]()
        assert isinstance(holder, holder_of(row))
    assert hasattr(holder, row.name)


def test_a_wrapper_without_what_tensorflow_looks_for_fails_by_its_name(tmp_path: pathlib.Path) -> None:
    optimizer = wrapped()
    del vars(optimizer)["_trackable"]
    with pytest.raises(AttributeError, match="_trackable"):
        tf.train.Checkpoint(optimizer=optimizer).save(str(tmp_path / "ckpt"))


# Names without a row, each with the module of the framework that reads it.
WITHOUT_A_ROW = {
    "_current_learning_rate": "tf_keras.src.optimizers.optimizer",
    "_is_wrapped_by_loss_scale_optimizer": "tf_keras.src.mixed_precision.loss_scale_optimizer",
    "_trackable": "tensorflow.python.trackable.base_delegate",
    "_is_default": "keras.src.utils.python_utils",
    "_supports_tf_logs": "tf_keras.src.callbacks",
    "_implements_train_batch_hooks": "tf_keras.src.callbacks",
    "_implements_test_batch_hooks": "tf_keras.src.callbacks",
    "_implements_predict_batch_hooks": "tf_keras.src.callbacks",
}


@pytest.mark.parametrize("name", WITHOUT_A_ROW)
def test_a_name_without_a_row_is_read(name: str) -> None:
    source = inspect.getsource(importlib.import_module(WITHOUT_A_ROW[name]))
    assert re.search(rf"\b{name}\b", source)


# What depends on a name. In a process that has TensorFlow, on the CPU, in eager mode unless it says otherwise.


def v1_step() -> Any:
    return trained(mpls.v1.MixedPrecisionLossScaleOptimizer(v1.train.AdamOptimizer(0.5), "dynamic"))


def graph_step() -> Any:
    with tf.Graph().as_default() as graph, v1.Session() as session:
        weights = [v1.get_variable(f"weight{number}", initializer=[1.0]) for number in range(5)]
        opt = mpls.v1.MixedPrecisionLossScaleOptimizer(v1.train.AdamOptimizer(0.5), "dynamic")
        step = opt.minimize(sum(weight**2 for weight in weights))
        session.run(v1.global_variables_initializer())
        session.run(step)
        saver = v1.train.Saver()
        saver.restore(session, saver.save(session, os.path.join(FOLDER[0], "saved")))
    return graph


def wrapped() -> Any:
    return trained(mpls.keras.LossScaleOptimizer(legacy.SGD(0.5, 0.5)))


def skipped_step() -> None:
    variable, optimizer = tf.Variable([1.0]), mpls.keras.LossScaleOptimizer(legacy.SGD(0.5, 0.5))
    optimizer.minimize(lambda: variable * float("nan"), var_list=[variable])
    optimizer.minimize(lambda: variable * 1.0, var_list=[variable])


def restored() -> None:
    """Restore slots before their optimizer, and it before its variables."""
    variable, optimizer = tf.Variable([1.0]), mpls.keras.LossScaleOptimizer(legacy.SGD(0.5, 0.5))
    trained(optimizer, variable)
    path = tf.train.Checkpoint(optimizer=optimizer, variable=variable).save(os.path.join(FOLDER[0], "ckpt"))
    for is_used_before in (True, False):
        again = mpls.keras.LossScaleOptimizer(legacy.SGD(0.5, 0.5))
        if is_used_before:
            trained(again, variable)
        tf.train.Checkpoint(optimizer=again, variable=variable).restore(path).expect_partial()
        if not is_used_before:
            trained(again, variable)


def restore_of_tensorflow() -> Any:
    """Return TensorFlow's object for a restore."""
    saved = tf.train.Checkpoint(value=tf.Variable(1.0))
    with tempfile.TemporaryDirectory() as folder:
        return saved.restore(saved.save(os.path.join(folder, "ckpt")))._checkpoint


def keras_3_step() -> Any:
    optimizer = mpls.keras.LossScaleOptimizer(keras.optimizers.SGD(0.5, 0.5))
    variable = keras.Variable([1.0])
    optimizer.scale_loss(1.0)
    optimizer.apply([tf.constant([1.0])], [variable])
    optimizer.set_weights(optimizer.get_weights())
    optimizer.iterations = 3
    list(optimizer.variables)
    return optimizer


def mirrored() -> None:
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        variable, optimizer = tf.Variable([1.0]), mpls.keras.LossScaleOptimizer(legacy.SGD(0.5))
        optimizer.get_scaled_loss(tf.constant(1.0)), optimizer.get_unscaled_gradients([])

        @tf.function
        def step() -> None:
            optimizer.apply_gradients([(tf.constant([1.0]), variable)])

        strategy.run(step)


def installed() -> None:
    with mpls.install(replace_existing=True):
        dir(v1.train.experimental)


FOLDER: list[str] = []
SAVER = "SAVER_BUILD SAVER_VARIABLES SAVER_IS_BUILT SAVER_BUILDER SAVER_IS_EMPTY"
SCENARIOS: dict[str, Callable[[], Any]] = {
    "WRAP": keras_3_step,
    "TRACK": wrapped,
    "CHILDREN": restored,
    "LOOKUP": restored,
    "HANDLE_DEFERRED": lambda: float(mpls.v1.DynamicLossScale()()),
    "XLA_CONTEXT": graph_step,
    "NO_MERGE_CALL": mirrored,
    "VARIABLE_ID": v1_step,
    **dict.fromkeys(["KEEP", "DROP", "KEEPS"], installed),
    **dict.fromkeys(["PAIRING", "RUN", "NODE", "PAIRED", "PATH", "GRAPH", "CHILD", "ALL_PAIRED"], restored),
    **dict.fromkeys(["BULK_BUILDER", "ADD_RESTORE", "SAVEABLE", "SAVE_SPEC", *SAVER.split()], graph_step),
    "USE_LOCKING": v1_step,
    "CREATE_SLOTS": v1_step,
    "NON_SLOTS": graph_step,
    "V1_SCALE": lambda: mpls.monitor.LossScaleHook(v1_native()),
    "SUM_OF_KERAS": mirrored,
    "COMPUTE_GRADIENTS": wrapped,
    "TRANSFORM": wrapped,
    "AGGREGATE": lambda: (wrapped(), mirrored()),
    "CREATE_WEIGHTS": skipped_step,
    "GET_HYPER": lambda: wrapped()._get_hyper("learning_rate"),
    "SET_HYPER": lambda: wrapped()._set_hyper("learning_rate", 0.25),
    "DECAYED_RATE": lambda: wrapped()._decayed_lr(tf.float32),
    "RESTORE_SLOT": lambda: wrapped()._restore_slot_variable("momentum", None, None),
    "LEGACY_SLOT": restored,
    "LEGACY_NAME": skipped_step,
    **dict.fromkeys(["TRAINABLE", "KERAS_3_STEPS", "OWN_VARIABLES", "INDICES", "KERAS_3_KEY"], keras_3_step),
    "UNPICKLE": lambda: pickle.loads(pickle.dumps(keras_3_step())),
}


@contextlib.contextmanager
def absent(row: Private) -> Iterator[None]:
    """Have mpls find no such name, while the framework itself goes on to have it."""
    owner, look_up = holder_of(row), table.look_up

    def find(holder: Any, name: str) -> Any:
        is_there = holder is owner
        if isinstance(owner, type):
            is_there = issubclass(holder, owner) if isinstance(holder, type) else isinstance(holder, owner)
        return ABSENT if name == row.name and is_there else look_up(holder, name)

    with contextlib.ExitStack() as stack:
        for module in (table, optimizers, tensorflow, trackables, hosts):
            stack.enter_context(mock.patch.object(module, "look_up", find))
        stack.enter_context(mock.patch.object(table, "_told", set()))
        yield


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.matrix if index % 12 else ()) for index, name in enumerate(SCENARIOS)]
)
def test_without_it_there_is_one_warning_or_an_error_that_says_what_to_do(name: str, tmp_path: pathlib.Path) -> None:
    row = NAMES[name]
    FOLDER[:] = [str(tmp_path)]
    said: list[str] = []
    advice: list[str] = []
    with absent(row), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            try:
                SCENARIOS[name]()
            except UnsupportedReleaseError as error:
                said = [str(error)]
            except MplsError as error:
                # Of what came of it, after the warning.
                advice.append(str(error))
    told = [str(each.message) for each in caught if issubclass(each.category, MplsWarning)]
    of_it = [text for text in told if "does not find" in text]
    assert len(of_it) == 1 or (said and not of_it), told
    (text,) = of_it or said
    # AutoGraph puts its own words before it.
    assert f"mpls does not find {row.owner.replace(':', '.')}.{row.name} in {row.framework} " in text
    assert row.without in text
    assert all("See mpls docs " in each for each in advice)
    assert row.framework == "keras" or sys.modules[row.framework].__version__ in text
