"""Every private name of the frameworks that mpls uses is there; and without it mpls warns once, or says what to do."""

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
import mpls.contrib
import mpls.experimental
import mpls.keras
import mpls.transfer
import mpls.v1
from mpls.errors import MplsError, MplsWarning, UnsupportedReleaseError
from mpls.patches import ABSENT
from mpls.transfer import hosts
from mpls.upstream import (
    optimizers,
    rewrite,
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


def v1_step(optimizer: Any = None) -> Any:
    optimizer = mpls.v1.MixedPrecisionLossScaleOptimizer(optimizer or v1.train.AdamOptimizer(0.5), "dynamic")
    return trained(optimizer)


def graph_step(optimizer: Any = None, scale: Any = "dynamic") -> Any:
    with tf.Graph().as_default() as graph, v1.Session() as session:
        weights = [v1.get_variable(f"weight{number}", initializer=[1.0]) for number in range(5)]
        opt = mpls.v1.MixedPrecisionLossScaleOptimizer(optimizer or v1.train.AdamOptimizer(0.5), scale)
        step = opt.minimize(sum(weight**2 for weight in weights))
        session.run(v1.global_variables_initializer())
        session.run(step)
        saver = v1.train.Saver()
        saver.restore(session, saver.save(session, os.path.join(FOLDER[0], "saved")))
    return graph


def large_step() -> None:
    variables = [tf.Variable(tf.ones([2**18])) for _ in range(5)]
    opt = mpls.keras.LossScaleOptimizer(legacy.SGD(0.5))
    with tf.GradientTape() as tape:
        loss = opt.get_scaled_loss(sum(tf.reduce_sum(each) for each in variables))
    opt.apply_gradients(zip(opt.get_unscaled_gradients(tape.gradient(loss, variables)), variables, strict=True))


def compiled_step() -> None:
    weight = tf.Variable([1.0])
    opt = mpls.keras.LossScaleOptimizer(legacy.SGD(0.5))
    opt._create_all_weights([weight])

    @tf.function(jit_compile=True)
    def step() -> None:
        opt.apply_gradients([(tf.constant([1.0]), weight)])

    opt.get_scaled_loss(tf.constant(1.0)), opt.get_unscaled_gradients([])
    step()


def wrapped(make: Callable[[], Any] = lambda: legacy.SGD(0.5, 0.5)) -> Any:
    return trained(mpls.keras.LossScaleOptimizer(make()))


def skipped_step() -> None:
    variable, optimizer = tf.Variable([1.0]), mpls.keras.LossScaleOptimizer(legacy.SGD(0.5, 0.5))
    optimizer.minimize(lambda: variable * float("nan"), var_list=[variable])
    optimizer.minimize(lambda: variable * 1.0, var_list=[variable])


def checkpoint(make: Callable[[], Any]) -> None:
    variable, optimizer = tf.Variable([1.0]), make()
    trained(optimizer, variable)
    path = tf.train.Checkpoint(optimizer=optimizer, variable=variable).save(os.path.join(FOLDER[0], "ckpt"))
    for is_used_before in (True, False):
        again = make()
        if is_used_before:
            trained(again, variable)
        tf.train.Checkpoint(optimizer=again, variable=variable).restore(path).expect_partial()
        if not is_used_before:
            trained(again, variable)


def restored() -> None:
    """Restore slots before their optimizer, and it before its variables."""
    checkpoint(lambda: mpls.keras.LossScaleOptimizer(legacy.SGD(0.5, 0.5)))


def restore_of_tensorflow() -> Any:
    """Return TensorFlow's object for a restore."""
    saved = tf.train.Checkpoint(value=tf.Variable(1.0))
    with tempfile.TemporaryDirectory() as folder:
        return saved.restore(saved.save(os.path.join(folder, "ckpt")))._checkpoint


def converted(source: Any, target: Any, variables: Any = None) -> Any:
    variables = [tf.Variable([1.0])] if variables is None else variables
    trained(source, variables[0])
    return mpls.convert_state(source, target, variables, source_variables=variables)


def converted_3() -> Any:
    variable = keras.Variable([1.0])
    source = keras.optimizers.Adam(0.5)
    source.apply([tf.constant([1.0])], [variable])
    return mpls.convert_state(source, keras.optimizers.Adam(0.25), [variable], source_variables=[variable])


def keras_3_step() -> Any:
    optimizer = mpls.keras.LossScaleOptimizer(keras.optimizers.SGD(0.5, 0.5))
    variable = keras.Variable([1.0])
    optimizer.scale_loss(1.0)
    optimizer.apply([tf.constant([1.0])], [variable])
    optimizer.set_weights(optimizer.get_weights())
    optimizer.iterations = 3
    list(optimizer.variables)
    return optimizer


def saved_keras_3() -> None:
    model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1)])
    model.compile(mpls.keras.LossScaleOptimizer(keras.optimizers.SGD()), "mse")
    path = os.path.join(FOLDER[0], "model.keras")
    mpls.keras.save_model(model, path)
    mpls.keras.load_model(path)


def saved_tf_keras(ending: str = ".keras") -> None:
    model = tf_keras.Sequential([tf_keras.Input([1]), tf_keras.layers.Dense(1)])
    model.compile(mpls.keras.LossScaleOptimizer(tf_keras.optimizers.SGD()), "mse")
    path = os.path.join(FOLDER[0], f"model{ending}")
    mpls.keras.save_model(model, path)
    mpls.keras.load_model(path)


def keras_graph(*, with_state: bool = True) -> None:
    with tf.Graph().as_default():
        optimizer = mpls.keras.LossScaleOptimizer(legacy.SGD(0.5))
        weight = v1.get_variable("weight", initializer=[1.0])
        optimizer.get_updates(weight**2, [weight])
        if with_state:
            optimizer.state_dict()


def policy() -> Any:
    found = mpls.experimental.Policy("mixed_float16", loss_scale=8)
    for framework in (tf_keras, keras):
        framework.Sequential([framework.layers.Dense(1, dtype=found)]).compile("sgd", "mse")
    return found


def mirrored(make: Callable[[], Any]) -> None:
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        variable, optimizer = tf.Variable([1.0]), mpls.keras.LossScaleOptimizer(make())
        optimizer.get_scaled_loss(tf.constant(1.0)), optimizer.get_unscaled_gradients([])

        @tf.function
        def step() -> None:
            optimizer.apply_gradients([(tf.constant([1.0]), variable)])

        strategy.run(step)


def sync_replicas() -> None:
    with tf.Graph().as_default():
        weight = v1.get_variable("weight", initializer=[1.0])
        sync = v1.train.SyncReplicasOptimizer(v1.train.GradientDescentOptimizer(0.5), 1, 1)
        opt = mpls.v1.MixedPrecisionLossScaleOptimizer(sync, "dynamic")
        opt.minimize(weight**2, global_step=v1.train.get_or_create_global_step())


def rewritten() -> None:
    state = rewrite.graph_rewrite_state()
    mpls.v1.enable_mixed_precision_graph_rewrite(v1.train.GradientDescentOptimizer(0.5))
    mpls.v1.disable_mixed_precision_graph_rewrite()
    rewrite.restore_graph_rewrite(state)


def native_scale(scale: Any) -> Any:
    with mpls.install(as_of="2.3"), warnings.catch_warnings():
        warnings.simplefilter("ignore", mpls.errors.MplsDeprecationWarning)
        optimizer = mpls.experimental.LossScaleOptimizer(legacy.SGD(0.5), scale)
    assert optimizer.dynamic_counter is not optimizer.initial_scale
    return optimizer


def installed_over(module: Any, **settings: Any) -> None:
    with mpls.install(replace_existing=True, **settings):
        dir(module)


FOLDER: list[str] = []
SAVER = "SAVER_BUILD SAVER_VARIABLES SAVER_IS_BUILT SAVER_BUILDER SAVER_IS_EMPTY"
ADAM = v1.train.AdamOptimizer
SCENARIOS: dict[str, Callable[[], Any]] = {
    "WRAP": keras_3_step,
    "TRACK": wrapped,
    "CHILDREN": lambda: checkpoint(lambda: mpls.keras.LossScaleOptimizer(legacy.SGD(0.5, 0.5))),
    "LOOKUP": lambda: checkpoint(lambda: mpls.keras.LossScaleOptimizer(legacy.SGD(0.5, 0.5))),
    "HANDLE_DEFERRED": lambda: float(mpls.v1.DynamicLossScale()()),
    "FIXED_VALUE": lambda: native_scale(v1.mixed_precision.FixedLossScale(8)),
    "SCALE": lambda: converted(native_scale(v1.mixed_precision.DynamicLossScale(8)), wrapped()),
    "GOOD_STEPS": lambda: native_scale(v1.mixed_precision.DynamicLossScale(8)),
    "SCALE_WEIGHTS": lambda: native_scale(v1.mixed_precision.DynamicLossScale(8)),
    "XLA_CONTEXT": graph_step,
    "IS_RECORDING": large_step,
    "BARRIER": compiled_step,
    "NO_MERGE_CALL": lambda: mirrored(lambda: legacy.SGD(0.5)),
    "VARIABLE_ID": v1_step,
    **dict.fromkeys(["KEEP", "DROP", "KEEPS"], lambda: installed_over(v1.train.experimental)),
    **dict.fromkeys(["SET_REWRITE", "IS_REWRITE", "HAS_OTHER_SESSION", "IS_MIXED", "GLOBAL_STATE"], rewritten),
    **dict.fromkeys(["PAIRING", "RUN", "NODE", "PAIRED", "PATH", "GRAPH"], restored),
    **dict.fromkeys(["CHILD", "ALL_PAIRED"], restored),
    **dict.fromkeys(["BULK_BUILDER", "ADD_RESTORE", "SAVEABLE", "SAVE_SPEC", *SAVER.split()], graph_step),
    "USE_LOCKING": v1_step,
    "CREATE_SLOTS": v1_step,
    "NON_SLOTS": graph_step,
    "V1_SCALE": lambda: mpls.monitor.LossScaleHook(v1_native()),
    "SYNC_INNER": sync_replicas,
    "TF_KERAS_SCALE": lambda: converted(tf_keras.mixed_precision.LossScaleOptimizer(legacy.SGD(0.5)), wrapped()),
    "SUM_OF_KERAS": lambda: mirrored(lambda: legacy.SGD(0.5)),
    "COMPUTE_GRADIENTS": wrapped,
    "TRANSFORM": wrapped,
    "AGGREGATE": lambda: (wrapped(), mirrored(lambda: legacy.SGD(0.5))),
    "CREATE_WEIGHTS": skipped_step,
    "GET_HYPER": lambda: wrapped()._get_hyper("learning_rate"),
    "SET_HYPER": lambda: wrapped()._set_hyper("learning_rate", 0.25),
    "DECAYED_RATE": lambda: wrapped()._decayed_lr(tf.float32),
    "RESTORE_SLOT": lambda: wrapped()._restore_slot_variable("momentum", None, None),
    "LEGACY_SLOT": lambda: checkpoint(lambda: mpls.keras.LossScaleOptimizer(legacy.SGD(0.5, 0.5))),
    "LEGACY_NAME": skipped_step,
    **dict.fromkeys(
        ["LEGACY_SLOTS", "WEIGHTS", "LEGACY_STEPS", "HAS_HYPERS", "MOMENTUM"],
        lambda: converted(legacy.SGD(0.5), legacy.SGD(0.25)),
    ),
    **dict.fromkeys(
        ["INDEX", "VARIABLE_KEY", "NEW_STEPS", "COMPUTE_RATE"],
        lambda: converted(tf_keras.optimizers.Adam(0.5), tf_keras.optimizers.Adam(0.25)),
    ),
    **dict.fromkeys(
        ["U_PRODUCT", "U_COUNTER"],
        lambda: converted(tf_keras.optimizers.Nadam(0.5), tf_keras.optimizers.Nadam(0.25)),
    ),
    "TRACK_VARIABLE": lambda: keras_graph(with_state=False),
    "GET_SESSION": keras_graph,
    **dict.fromkeys(["TF_KERAS_COMPILE", "TF_KERAS_COMPILE_V1", "COMPILING"], policy),
    "TF_KERAS_COMPILED": saved_tf_keras,
    **dict.fromkeys(["TRAINABLE", "KERAS_3_STEPS", "OWN_VARIABLES", "INDICES", "KERAS_3_KEY"], keras_3_step),
    "VARIABLE_INDEX": converted_3,
    "UNPICKLE": lambda: pickle.loads(pickle.dumps(keras_3_step())),
    "KERAS_3_COMPILED": saved_keras_3,
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
