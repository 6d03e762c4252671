"""What `--report` and `--replace-existing` take over stays whole for the frameworks: programs compute what they did."""

from __future__ import annotations

import importlib
import itertools
import os
import pickle
import re
import subprocess
import sys
import tempfile
import unittest
import warnings
from typing import Any
from unittest import mock

import pytest
import tensorflow as tf
from parameterized import parameterized

import mpls
import mpls.keras
from mpls.importing.namespaces import hosts
from tests.install.test_run import Programs

# The lines that it prints are the same whatever the options, but for those of classes.
TF2 = """
import os, tempfile
import numpy as np
import tensorflow as tf

os.chdir(tempfile.mkdtemp())
tf.keras.utils.set_random_seed(1)
is_keras_2 = hasattr(tf.keras, "__internal__") and "tf_keras" in tf.keras.Model.__module__
mixed_precision = tf.keras.mixed_precision
x, y = tf.random.normal([8, 3]), tf.random.normal([8, 1])

def is_of_mpls(thing):
    return any(each.__module__.startswith("mpls.") for each in type(thing).__mro__)

def show(name, value):
    print(name, np.round(np.asarray(value, "float32"), 2).tolist())

show("layer", tf.keras.layers.Dense(1)(tf.ones([1, 2])))
show("recurrent", tf.keras.layers.LSTM(2)(tf.ones([1, 2, 2])))
mixed_precision.set_global_policy("mixed_float16")
print("policy", mixed_precision.global_policy().name, mixed_precision.global_policy().compute_dtype)
print("policy", mixed_precision.Policy("mixed_bfloat16").name, tf.keras.layers.Dense(1, dtype="float64").compute_dtype)

def model_of(optimizer):
    model = tf.keras.Sequential([tf.keras.Input([3]), tf.keras.layers.Dense(4, activation="relu", name="a"),
                                 tf.keras.layers.Dense(1, dtype="float32", name="b")])
    model.compile(optimizer, tf.keras.losses.MeanSquaredError())
    return model

model = model_of("adam")
history = model.fit(x, y, epochs=2, batch_size=4, verbose=0).history["loss"]
show("fit", history)
print("wrapped", type(model.optimizer).__name__.startswith("LossScaleOptimizer"),
      isinstance(model.optimizer, mixed_precision.LossScaleOptimizer))
expected = model.predict(x, verbose=0)
for path in ("a.keras", "a.h5") + (("a",) if is_keras_2 else ()):
    model.save(path)
    loaded = tf.keras.models.load_model(path)
    print(path, np.allclose(loaded.predict(x, verbose=0), expected, atol=1e-2), loaded.layers[0].compute_dtype)
    if is_keras_2 or path == "a.keras":
        # Keras 3 itself cannot train on with what it has read from H5 files.
        show("goes on", loaded.fit(x, y, epochs=1, batch_size=4, verbose=0).history["loss"])
model.save_weights("a.weights.h5")
model.load_weights("a.weights.h5")
checkpoint = tf.train.Checkpoint(model=model)
checkpoint.restore(checkpoint.save("ckpt"))
print("config", type(model).from_config(model.get_config()).layers[0].compute_dtype)
print("json", tf.keras.models.model_from_json(model.to_json()).layers[0].compute_dtype)
print("clone", tf.keras.models.clone_model(model).layers[0].compute_dtype)

opt = mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(0.25))
print("CLASS", is_of_mpls(opt))
show("fit with one's own", model_of(opt).fit(x, y, batch_size=4, verbose=0).history["loss"])
variable = tf.Variable(1.0)
opt = mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(0.25))
opt.build([variable]) if hasattr(opt, "build") else None

@tf.function
def step():
    with tf.GradientTape() as tape:
        loss = variable**2
        loss = opt.get_scaled_loss(loss) if is_keras_2 else opt.scale_loss(loss)
    gradients = tape.gradient(loss, [variable])
    if is_keras_2:
        gradients = opt.get_unscaled_gradients(gradients)
    opt.apply_gradients(zip(gradients, [variable]))

step()
show("custom loop", variable)
print("configs", type(opt).from_config(opt.get_config()) is not None)
if is_keras_2:
    legacy = mixed_precision.LossScaleOptimizer(tf.keras.optimizers.legacy.SGD(0.5), dynamic=False, initial_scale=8)
    legacy.minimize(lambda: variable**2, [variable])
    show("legacy", variable)
    from tf_keras.src.mixed_precision import loss_scale_optimizer, policy
    wrapper = loss_scale_optimizer.LossScaleOptimizerV3(tf.keras.optimizers.SGD())
    print("CLASS", is_of_mpls(wrapper))
    with policy.policy_scope("float64"):
        print("scope", tf.keras.layers.Dense(1).compute_dtype)
    from tf_keras.src.engine import base_layer
    print("deserialized", type(tf.keras.layers.deserialize(tf.keras.layers.serialize(model.layers[0]))).__name__)
mixed_precision.set_global_policy("float32")

from tensorflow.python.keras import layers as core_layers
from tensorflow.python.keras.mixed_precision import policy as core_policy
show("core", core_layers.Dense(1, kernel_initializer="ones")(tf.ones([1, 2])))
print("core policy", core_policy.Policy("mixed_float16").compute_dtype)
v1 = tf.compat.v1
with tf.Graph().as_default(), v1.Session() as session:
    weight = v1.get_variable("weight", initializer=1.0)
    optimizer = v1.mixed_precision.MixedPrecisionLossScaleOptimizer(
        v1.train.GradientDescentOptimizer(0.25), v1.mixed_precision.DynamicLossScale(8.0))
    print("CLASS", is_of_mpls(optimizer))
    train = optimizer.minimize(weight**2)
    session.run(v1.global_variables_initializer())
    session.run(train)
    show("graph", session.run(weight))
optimizer = v1.mixed_precision.enable_mixed_precision_graph_rewrite(v1.train.GradientDescentOptimizer(0.1))
print("rewrite", type(optimizer).__name__)
v1.mixed_precision.disable_mixed_precision_graph_rewrite()
"""

TF1 = """
import os, tempfile
import numpy as np

os.chdir(tempfile.mkdtemp())
tf.set_random_seed(1)

def is_of_mpls(thing):
    return any(each.__module__.startswith("mpls.") for each in type(thing).__mro__)

def show(name, value):
    print(name, np.round(np.asarray(value, "float32"), 3).tolist())

x = tf.constant([[1.0, 2.0]])
weights = tf.get_variable("weights", initializer=[[1.0], [2.0]])
loss = tf.reduce_mean(tf.matmul(x, weights) ** 2)
scale = tf.train.experimental.DynamicLossScale(16.0, 2)
opt = tf.train.experimental.MixedPrecisionLossScaleOptimizer(tf.train.MomentumOptimizer(0.01, 0.9), scale)
print("CLASS", is_of_mpls(opt))
also = tf.train.experimental.MixedPrecisionLossScaleOptimizer(tf.train.AdamOptimizer(), "dynamic")
step = opt.minimize(loss, global_step=tf.train.get_or_create_global_step())
also_step = also.minimize(loss)
rewritten = tf.train.experimental.enable_mixed_precision_graph_rewrite(tf.train.GradientDescentOptimizer(0.1))
print("rewrite", type(rewritten).__name__)
tf.train.experimental.disable_mixed_precision_graph_rewrite()
saver = tf.train.Saver()
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for _ in range(3):
        session.run([step])
    session.run(also_step)
    show("weights", session.run(weights))
    show("scale", session.run(scale()))
    saver.restore(session, saver.save(session, "./model"))
    show("restored", session.run(weights))
if is_keras_2:
    layer = tf.layers.dense(x, 2, kernel_initializer=tf.ones_initializer())
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer="ones", input_shape=[2])])
    model.compile(tf.keras.optimizers.SGD(0.01), "mse")
    show("fit", model.fit(np.ones([4, 2]), np.ones([4, 1]), verbose=0).history["loss"])
    model.save("a.h5")
    show("loaded", tf.keras.models.load_model("a.h5").predict(np.ones([1, 2])))
    wrapper = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(0.5), dynamic=False, initial_scale=8)
    print("CLASS", is_of_mpls(wrapper))
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer="ones", input_shape=[2])])
    model.compile(wrapper, "mse")
    show("wrapped", model.fit(np.ones([4, 2]), np.ones([4, 1]), verbose=0).history["loss"])
else:
    print(tf.keras.mixed_precision.Policy("mixed_float16").name)
"""
PLAIN_TF1 = "import tensorflow.compat.v1 as tf\ntf.disable_v2_behavior()\n"
OPTIONS = {
    "neither": [],
    "report": ["--report"],
    "replace": ["--replace-existing"],
    "both": ["--report", "--replace-existing"],
}


def lines_of(process: subprocess.CompletedProcess[str]) -> tuple[list[str], list[str]]:
    """Return the lines of classes that a program has printed, and the others."""
    lines = process.stdout.splitlines()
    is_class = [line.startswith("CLASS") for line in lines]
    return list(itertools.compress(lines, is_class)), [
        line for line, is_one in zip(lines, is_class, strict=True) if not is_one
    ]


@pytest.mark.programs
class ProgramsTest(unittest.TestCase):
    """Whole programs, beside what `python` alone prints."""

    @parameterized.expand(
        [
            ("tf2", "2", "both"),
            ("tf2", "2", "neither"),
            ("tf2", "3", "report"),
            ("tf1", "2", "replace"),
            ("tf1", "3", "both"),
        ]
    )
    @pytest.mark.default_run("each value", by=lambda mode, keras, option: (mode, keras), rest="full")
    def test_they_print_what_they_did(self, mode: str, keras: str, option: str) -> None:
        first = f"is_keras_2 = {keras == '2'}\n"
        sources = {"plain": TF2, "program": TF2}
        if mode == "tf1":
            sources = {"plain": first + PLAIN_TF1 + TF1, "program": first + "import tensorflow as tf\n" + TF1}
        command = ["-m", "mpls", "run", *["--v1"] * (mode == "tf1")]
        environment = {"TF_USE_LEGACY_KERAS": "1" if keras == "2" else "0", "TF_ENABLE_ONEDNN_OPTS": "0"}
        with Programs(**sources) as programs:
            plain = programs.run("plain.py", **environment)
            self.assertEqual(plain.returncode, 0, plain.stderr)
            classes, expected = lines_of(plain)
            self.assertGreater(len(expected), 4)
            self.assertEqual(set(classes), {"CLASS False"})
            options = OPTIONS[option]
            process = programs.run(*command, *options, "program.py", **environment)
        self.assertEqual(process.returncode, 0, process.stderr)
        found, lines = lines_of(process)
        self.assertEqual(lines, expected)
        is_replaced = "--replace-existing" in options
        self.assertEqual(found, ["CLASS True"] * len(classes) if is_replaced else classes)
        is_reported = re.search(r"^program.py:\d+ +tf\.[\w.]+ \(\d", process.stderr, re.MULTILINE) is not None
        self.assertEqual(is_reported, "--report" in options, process.stderr[-2000:])


def values_of(kit: Any, folder: str) -> list[Any]:
    """Return what a program computes with layers, policies, `fit` and files."""
    kit.utils.set_random_seed(1)
    before = kit.mixed_precision.global_policy()
    kit.mixed_precision.set_global_policy("mixed_float16")
    try:
        model = kit.Sequential([kit.layers.Dense(2), kit.layers.Dense(1, dtype=kit.mixed_precision.Policy("float32"))])
    finally:
        kit.mixed_precision.set_global_policy(before)
    model.compile("adam", kit.losses.MeanSquaredError())
    x, y = tf.random.normal([4, 3]), tf.random.normal([4, 1])
    losses = model.fit(x, y, verbose=0).history["loss"]
    predictions = [kit.layers.Dense(1, kernel_initializer="ones")(tf.ones([1, 2])).numpy(), model.predict(x, verbose=0)]
    for name in ("model.keras", "model.h5"):
        path = os.path.join(folder, name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.save(path)
            predictions.append(kit.models.load_model(path).predict(x, verbose=0))
    copies = [kit.models.clone_model(model), type(model).from_config(model.get_config())]
    dtypes = [layer.compute_dtype for copy in copies for layer in copy.layers]
    wrapper = kit.mixed_precision.LossScaleOptimizer(kit.optimizers.SGD(0.25))
    is_native = isinstance(model.optimizer, kit.mixed_precision.LossScaleOptimizer)
    return [losses, *(each.tolist() for each in predictions), dtypes, is_native, wrapper]


SETTINGS = {
    "none": {},
    "report": {"_on_touch": True},
    "replacing": {"replace_existing": True},
    "both": {"_on_touch": True, "replace_existing": True},
}


class InProcessTest(unittest.TestCase):
    """Some of it in this process, with both Kerases."""

    def setUp(self) -> None:
        self.addCleanup(mpls.uninstall)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    @parameterized.expand(itertools.product(SETTINGS, ("tf_keras", "keras")))
    @pytest.mark.default_run("each value", rest="full")
    @pytest.mark.matrix
    def test_programs_compute_what_they_did(self, name: str, package: str) -> None:
        kit = importlib.import_module(package)
        *expected, native = values_of(kit, self.folder)
        touched: set[str] = set()
        settings: dict[str, Any] = dict(SETTINGS[name])
        if "_on_touch" in settings:
            settings["_on_touch"] = lambda row, where: touched.add(f"{os.path.basename(where[0])} {row.path}")
        mpls.install(**settings)
        *found, wrapper = values_of(kit, self.folder)
        self.assertEqual(found, expected)
        is_replaced = "replace_existing" in settings
        expected_type = type(mpls.keras.LossScaleOptimizer(kit.optimizers.SGD()) if is_replaced else native)
        self.assertIs(type(wrapper), expected_type)
        path = f"{os.path.basename(__file__)} {package}.mixed_precision.LossScaleOptimizer"
        self.assertEqual(
            path in {each.replace(" tf.keras", f" {package}") for each in touched}, "_on_touch" in settings
        )
        self.assertEqual([each for each in touched if not each.startswith(os.path.basename(__file__))], [])

    @parameterized.expand([(name, settings) for name, settings in SETTINGS.items() if settings])
    def test_dictionaries_of_modules_are_left_alone(self, name: str, settings: dict[str, Any]) -> None:
        modules = [module for name, module in sys.modules.items() if name in hosts()]
        before = [dict(vars(module)) for module in modules]
        mpls.install(**{**settings, **({"_on_touch": print} if "_on_touch" in settings else {})})
        for module, attributes in zip(modules, before, strict=True):
            kept = {key: value for key, value in vars(module).items() if key in attributes}
            kept.pop("__getattr__", None), attributes.pop("__getattr__", None)
            kept.pop("__dir__", None), attributes.pop("__dir__", None)
            self.assertEqual({key: id(value) for key, value in kept.items()}, {k: id(v) for k, v in attributes.items()})

    def test_names_are_read_by_nobody_elses_class_without_a_setting(self) -> None:
        modules = [module for name, module in sys.modules.items() if name in hosts()]
        before = [type(module) for module in modules]
        mpls.install(contrib=True)
        self.assertEqual([type(module) for module in modules], before)
        mpls.install(replace_existing=True)
        self.assertNotEqual([type(module) for module in modules], before)
        mpls.uninstall()
        self.assertEqual([type(module) for module in modules], before)

    def test_another_class_that_somebody_has_given_a_module_stays(self) -> None:
        module = tf.keras.mixed_precision
        native, before = module.LossScaleOptimizer, type(module)
        self.addCleanup(lambda: setattr(module, "__class__", before))
        mpls.install(replace_existing=True)
        module.__class__ = theirs = type("Theirs", (type(module),), {"theirs": "theirs"})
        self.assertIs(module.LossScaleOptimizer, mpls.keras.LossScaleOptimizer)
        mpls.uninstall()
        self.assertEqual((type(module), module.theirs, module.LossScaleOptimizer), (theirs, "theirs", native))

    def test_what_is_set_meanwhile_is_what_is_read(self) -> None:
        for module, attribute in (
            (tf.keras.mixed_precision, "LossScaleOptimizer"),
            (tf.compat.v1.mixed_precision, "DynamicLossScale"),
        ):
            native, theirs = getattr(module, attribute), object()
            mpls.install(replace_existing=True)
            with mock.patch.object(module, attribute, theirs):
                self.assertIs(getattr(module, attribute), theirs)
            mpls.uninstall()
            self.assertIs(getattr(module, attribute), native)

    @parameterized.expand(SETTINGS)
    @pytest.mark.default_run("one case")
    def test_functions_that_use_modules_can_be_pickled_with_them(self, name: str) -> None:
        cloudpickle = pytest.importorskip("cloudpickle")
        settings: dict[str, Any] = dict(SETTINGS[name])
        mpls.install(**{**settings, **({"_on_touch": lambda row, where: None} if "_on_touch" in settings else {})})
        wrapped, plain = tf.compat.v1.mixed_precision, tf.keras.mixed_precision
        restored = plain.experimental
        found = pickle.loads(cloudpickle.dumps(lambda: (wrapped, plain, restored)))()
        self.assertEqual(
            [each is other for each, other in zip(found, (wrapped, plain, restored), strict=True)], [True] * 3
        )
