"""After an error that an option would have cured, a line says which; after any other, none does."""

from __future__ import annotations

import json
import re
import unittest
from typing import NamedTuple

from .test_run import Programs

OPT = """
import tensorflow as tf
import tf_keras
opt = tf.keras.mixed_precision.experimental.LossScaleOptimizer(tf_keras.optimizers.legacy.SGD(0.5), "dynamic")
"""

SGD = """
import tensorflow as tf
opt = tf.keras.optimizers.SGD(0.1)
"""

MODEL = """
import tensorflow as tf
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.build((1, 1))
"""

DELETED = """
import tensorflow as tf
value = {0}.{1}
del {0}.{1}
try:
    {2}
finally:
    {0}.{1} = value
"""


class Case(NamedTuple):
    """A program that ends in an error.

    Attributes:
        source: the program.
        hint: what is in the line after its error; empty for none.
        cure: the option with which it runs; empty where there is none.
    """

    source: str
    hint: str = ""
    cure: str = ""


CASES = {
    # Each cause, in the forms in which programs meet it.
    "called": Case(OPT + "opt.loss_scale()", "--as-of 2.3", "--as-of"),
    "called_of_self": Case(
        OPT + "class Trainer:\n    def step(self):\n        return 2 * self.opt.loss_scale()\n"
        "trainer = Trainer()\ntrainer.opt = opt\ntrainer.step()",
        "--as-of 2.3",
        "--as-of",
    ),
    "current": Case(OPT + "float(opt.loss_scale._current_loss_scale)", "--as-of 2.3", "--as-of"),
    "current_of_variable": Case(OPT + "scale = opt.loss_scale\nscale._num_good_steps", "--as-of 2.3", "--as-of"),
    "period": Case(OPT + "print(opt.loss_scale.increment_period)", "--as-of 2.3", "--as-of"),
    "current_in_function": Case(
        OPT + "@tf.function\ndef step():\n    return opt.loss_scale._current_loss_scale\nstep()",
        "--as-of 2.3",
        "--as-of",
    ),
    "called_in_function": Case(
        OPT + "@tf.function\ndef step():\n    return 2 * opt.loss_scale()\nstep()", "--as-of 2.3", "--as-of"
    ),
    "called_in_method": Case(
        OPT + "class Trainer:\n    @tf.function\n    def step(self):\n        return self.opt.loss_scale() * 2\n"
        "trainer = Trainer()\ntrainer.opt = opt\ntrainer.step()",
        "--as-of 2.3",
        "--as-of",
    ),
    "scaled": Case(
        "import tensorflow as tf\nopt = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD())\n"
        "opt.get_scaled_loss(tf.constant(1.0))",
        "--replace-existing",
        "--replace-existing",
    ),
    "contrib": Case(
        "import tensorflow as tf\ntf.contrib.mixed_precision.FixedLossScaleManager(8)", "--contrib", "--contrib"
    ),
    "contrib_module": Case(
        "import tensorflow.contrib.mixed_precision as mp\nmp.LossScaleManager", "--contrib", "--contrib"
    ),
    "contrib_from": Case("from tensorflow.contrib import mixed_precision", "--contrib", "--contrib"),
    "slim": Case("from tensorflow.contrib import slim", "the package tf-slim has tf.contrib.slim"),
    "slim_module": Case("import tensorflow.contrib.slim as slim", "the package tf-slim has tf.contrib.slim"),
    "rnn": Case("import tensorflow as tf\ntf.contrib.rnn.LSTMCell(4)", "tf.compat.v1.nn.rnn_cell"),
    "all_of_contrib": Case(
        "import tensorflow as tf\ncontrib = tf.contrib", "mpls has tf.contrib.mixed_precision of it"
    ),
    "placeholder": Case(
        "import tensorflow as tf\ntf.placeholder(tf.float32)", "name of TF 1. Run it with --v1", "--v1"
    ),
    "session": Case("from tensorflow import Session", "--v1", "--v1"),
    "adam": Case("import tensorflow as tf\ntf.train.AdamOptimizer(0.1)", "--v1", "--v1"),
    "adam_from": Case("from tensorflow.train import AdamOptimizer", "--v1", "--v1"),
    "flags": Case("import tensorflow as tf\ntf.app.flags.DEFINE_integer('x_of_hints', 1, '')", "--v1", "--v1"),
    "log": Case("import tensorflow as tf\ntf.logging.set_verbosity(tf.logging.INFO)", "--v1", "--v1"),
    "eager_placeholder": Case(
        "import tensorflow.compat.v1 as tf\ntf.placeholder(tf.float32)", "graphs TF 2 does not build", "--v1"
    ),
    "estimator": Case("import tensorflow as tf\ntf.estimator.RunConfig()", "removed in TF 2.16"),
    "estimator_v1": Case("import tensorflow.compat.v1 as tf\ntf.estimator.Estimator", "removed in TF 2.16"),
    "tracking": Case("from tensorflow.python.training.tracking import base", "tensorflow.python.trackable"),
    "context": Case(
        "from tensorflow.python.distribute import distribution_strategy_context", "distribute_lib; tf.distribute"
    ),
    "mnist": Case("from tensorflow.examples.tutorials.mnist import input_data", "tf.keras.datasets"),
    "scikit": Case("from tensorflow.keras.wrappers.scikit_learn import KerasClassifier", "scikeras"),
    "decayed": Case(SGD + "opt._decayed_lr(tf.float32)", "--keras 2 --legacy-optimizers", "--legacy-optimizers"),
    "updates": Case(SGD + "opt.get_updates", "--keras 2 --legacy-optimizers", "--legacy-optimizers"),
    "weights": Case(SGD + "opt.get_weights()", "--keras 2 --legacy-optimizers", "--legacy-optimizers"),
    "hyper": Case(
        "import tensorflow as tf\nclass Own(tf.keras.optimizers.SGD):\n    pass\nOwn(0.1)._get_hyper('learning_rate')",
        "--keras 2 --legacy-optimizers",
        "--legacy-optimizers",
    ),
    "decayed_of_tf_keras": Case(
        "import tf_keras\ntf_keras.optimizers.SGD(0.1)._decayed_lr('float32')", "with --legacy-optimizers"
    ),
    "lr": Case("import tensorflow as tf\ntf.keras.optimizers.Adam(lr=0.1)", "with --keras 2", "--keras"),
    "legacy": Case("import tensorflow as tf\ntf.keras.optimizers.legacy.SGD(0.1)", "with --keras 2", "--keras"),
    "layers": Case(
        "import tensorflow as tf\ntf.compat.v1.layers.dense(tf.ones([1, 1]), 1)", "with --keras 2", "--keras"
    ),
    "phase": Case("import tensorflow as tf\ntf.keras.backend.learning_phase()", "with --keras 2", "--keras"),
    "experimental_layers": Case(
        "from tensorflow.keras.layers.experimental import preprocessing", "with --keras 2", "--keras"
    ),
    # What looks alike, and has another cause.
    "typo_of_keras": Case("import tensorflow as tf\ntf.keras.backend.learning_fase()"),
    "own_lr": Case("raise ValueError(\"Argument(s) not recognized: {'lr': 1}\")"),
    "other_argument": Case("import tensorflow as tf\ntf.keras.optimizers.Adam(rl=0.1)"),
    "saved": Case(MODEL + "model.save('saved')", "--keras 2", "--keras"),
    "saved_weights": Case(MODEL + "model.save_weights('epoch_1')", "--keras 2", "--keras"),
    "saved_by_callback": Case(MODEL + "tf.keras.callbacks.ModelCheckpoint('best')", "--keras 2", "--keras"),
    "saved_weights_by_callback": Case(
        MODEL + "tf.keras.callbacks.ModelCheckpoint('best', save_weights_only=True)", "--keras 2", "--keras"
    ),
    # A slip in the name of a file that Keras 3 has.
    "saved_with_an_extension": Case(MODEL + "model.save('model.kears')"),
    "weights_with_an_extension": Case(MODEL + "model.save_weights('model.h5')"),
    "own_saved": Case("raise ValueError('Invalid filepath extension for saving. Received: filepath=model.')"),
    "own_decayed": Case("class Optimizer: pass\nOptimizer()._decayed_lr"),
    "typo_of_optimizer": Case(SGD + "opt._decayed_lrs"),
    "call_of_own_tensor": Case("import tensorflow as tf\nscale = tf.constant(1.0)\nscale()"),
    "call_of_own_attribute": Case(
        "import tensorflow as tf\nclass Own:\n    loss_scale = tf.constant(1.0)\nOwn().loss_scale()"
    ),
    "own_in_function": Case(
        OPT + "scale = tf.constant(1.0)\n@tf.function\ndef step():\n    return opt.loss_scale + scale()\nstep()"
    ),
    "call_with_arguments": Case(OPT + "opt.loss_scale(3)"),
    "own_current": Case(
        "import tensorflow as tf\nclass Own:\n    loss_scale = tf.constant(1.0)\nOwn().loss_scale._current_loss_scale"
    ),
    # What TensorFlow has, but for the program.
    "deleted": Case(DELETED.format("tf", "constant", "tf.constant(1)")),
    "deleted_from": Case(DELETED.format("tf.train", "Checkpoint", "from tensorflow.train import Checkpoint")),
    "deleted_of_keras": Case(DELETED.format("tf.keras.layers", "Dense", "tf.keras.layers.Dense(1)")),
    "deleted_of_v1": Case(DELETED.format("tf.compat.v1", "app", "tf.compat.v1.app.flags")),
    "own_scaled": Case("class LossScaleOptimizer: pass\nLossScaleOptimizer().get_scaled_loss(1)"),
    "own_contrib": Case("import types\ntf = types.ModuleType('tf')\ntf.contrib"),
    "own_placeholder": Case("class tf: pass\ntf.placeholder"),
    "own_module": Case("import types\ntypes.ModuleType('own').placeholder"),
    "typo": Case("import tensorflow as tf\ntf.placeholdr(tf.float32)"),
    "no_module": Case("import tensorflow.contribution"),
    "of_another_package": Case("import json.estimator"),
    "own_estimator": Case("class tf: pass\ntf.estimator"),
    "own_type_error": Case("raise TypeError(\"'EagerTensor' object is not callable\")"),
    "own_runtime_error": Case("raise RuntimeError('tf.gradients is not supported')"),
    "raised_without_name": Case("raise AttributeError('contrib')"),
}


DRIVER = """
import importlib, json, sys
import mpls.hints
import mpls

now = mpls.installed()
settings = now.settings
results = {}
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
        results[name] = None
    except Exception as error:
        results[name] = [f"{type(error).__name__}: {error}", mpls.hints.hint_of(error, settings)]
print(json.dumps(results))
"""


def outcomes(names: list[str], *options: str) -> dict[str, list[str] | None]:
    with Programs(driver=DRIVER, **{f"case_{name}": CASES[name].source for name in names}) as programs:
        process = programs.run("-m", "mpls", "run", *options, "driver.py", *(f"case_{name}" for name in names))
    assert process.returncode == 0, process.stderr
    results = json.loads(process.stdout.splitlines()[-1])
    return {name: results[f"case_{name}"] for name in names}


KERAS_2 = ["--keras", "2", "--legacy-optimizers"]


class HintsTest(unittest.TestCase):
    def test_each_cause_and_what_looks_alike(self) -> None:
        for name, found in outcomes(list(CASES)).items():
            with self.subTest(name):
                self.assertIsNotNone(found, "it did not fail")
                error, hint = found
                if CASES[name].hint:
                    self.assertIsNotNone(hint, error)
                    self.assertIn(CASES[name].hint, hint)
                    self.assertTrue(hint.startswith("mpls run: "))
                else:
                    self.assertIsNone(hint, error)

    def test_options_cure_what_they_are_named_for(self) -> None:
        for options in (["--as-of", "2.3", "--contrib", "--replace-existing"], ["--v1"], KERAS_2):
            names = [name for name, case in CASES.items() if case.cure in options]
            self.assertGreater(len(names), 6)
            for name, found in outcomes(names, *options).items():
                with self.subTest(name):
                    self.assertIsNone(found)

    def test_no_option_is_named_that_was_given(self) -> None:
        names = ["call_with_arguments", "typo", "estimator"]
        found = outcomes(names, "--v1")
        self.assertIsNone(found["typo"][1])
        self.assertIn("removed in TF 2.16", found["estimator"][1])


ENDS = """
import sys
import tensorflow as tf
if sys.argv[1] == "wrapped by compile":
    tf.keras.mixed_precision.set_global_policy("mixed_float16")
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.optimizer.get_scaled_loss(tf.constant(1.0))
else:
    tf.contrib.mixed_precision.LossScaleManager
"""


def said(stderr: str) -> list[str]:
    """Return the lines of Python; TensorFlow's libraries log among them when they please."""
    return [line for line in stderr.splitlines() if not re.match(r"WARNING: All log messages|[IWEF]\d{4} ", line)]


class ShownTest(unittest.TestCase):
    """At the end of whole programs."""

    def test_under_mpls_run(self) -> None:
        with Programs(program=ENDS) as programs:
            process = programs.run("-m", "mpls", "run", "--no-auto", "program.py", "x")
            wrapped = programs.run("-m", "mpls", "run", "program.py", "wrapped by compile")
            cured = programs.run("-m", "mpls", "run", "--keras", "2", "program.py", "wrapped by compile")
        *_, error, hint = said(process.stderr)
        self.assertEqual(error, "AttributeError: module 'tensorflow' has no attribute 'contrib'")
        self.assertIn("Run it with --contrib", hint)
        *_, error, hint = said(wrapped.stderr)
        self.assertEqual(error, "AttributeError: 'LossScaleOptimizer' object has no attribute 'get_scaled_loss'")
        self.assertIn("compile of Keras 3 has wrapped this optimizer", hint)
        self.assertEqual(cured.returncode, 0, cured.stderr)
