"""After an error that an option would have cured, a line says which; after any other, none does."""

from __future__ import annotations

import json
import unittest
from typing import NamedTuple

from .test_run import Programs

OPT = """
import tensorflow as tf
import tf_keras
opt = tf.keras.mixed_precision.experimental.LossScaleOptimizer(tf_keras.optimizers.legacy.SGD(0.5), "dynamic")
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
    # What looks alike, and has another cause.
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
settings = {name: getattr(now, name) for name in ("as_of", "contrib", "replace_existing")}
settings["v1"] = sys.argv[1] == "v1"
results = {}
for name in sys.argv[2:]:
    try:
        importlib.import_module(name)
        results[name] = None
    except Exception as error:
        results[name] = [f"{type(error).__name__}: {error}", mpls.hints.hint_of(error, settings)]
print(json.dumps(results))
"""


def outcomes(names: list[str], *options: str) -> dict[str, list[str] | None]:
    with Programs(driver=DRIVER, **{f"case_{name}": CASES[name].source for name in names}) as programs:
        mode = "v1" if "--v1" in options else "v2"
        process = programs.run("-m", "mpls", "run", *options, "driver.py", mode, *(f"case_{name}" for name in names))
    assert process.returncode == 0, process.stderr
    results = json.loads(process.stdout.splitlines()[-1])
    return {name: results[f"case_{name}"] for name in names}


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
        for options in (["--as-of", "2.3", "--contrib", "--replace-existing"], ["--v1"]):
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
    model.optimizer.get_scaled_loss(1.0)
else:
    tf.contrib.mixed_precision.LossScaleManager
"""


class ShownTest(unittest.TestCase):
    """At the end of whole programs."""

    def test_under_mpls_run(self) -> None:
        with Programs(program=ENDS) as programs:
            process = programs.run("-m", "mpls", "run", "program.py", "x")
            wrapped = programs.run("-m", "mpls", "run", "program.py", "wrapped by compile")
        *_, error, hint = process.stderr.splitlines()
        self.assertEqual(error, "AttributeError: module 'tensorflow' has no attribute 'contrib'")
        self.assertIn("Run it with --contrib", hint)
        self.assertTrue(
            wrapped.stderr.splitlines()[-1].startswith("AttributeError: 'LossScaleOptimizer'"), wrapped.stderr
        )
