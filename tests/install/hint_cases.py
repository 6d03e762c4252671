"""Programs that end in errors which an option cures, and programs that look alike."""

from __future__ import annotations

from typing import NamedTuple

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


WRAPPED = """
import tensorflow as tf
v = tf.Variable(1.0)
opt = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1, momentum=0.9))
opt.apply_gradients([(v * 0.0, v)])
"""

ADAM = """
import tensorflow as tf
opt = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.Adam(0.1))
opt.apply_gradients([(tf.constant(0.0), tf.Variable(1.0))])
"""

GIVEN = """
import tensorflow as tf
from tensorflow.keras.mixed_precision import LossScaleOptimizer, set_global_policy
set_global_policy("mixed_float16")
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile(LossScaleOptimizer(tf.keras.optimizers.SGD(0.1, momentum=0.9)), "mse")
set_global_policy("float32")
model.fit(tf.ones([1, 1]), tf.ones([1, 1]), verbose=0)
"""

EXPERIMENTAL = """
import tensorflow as tf
opt = tf.keras.mixed_precision.experimental.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1), "dynamic")
"""

DERIVED = """
import tensorflow as tf
from tensorflow.keras import mixed_precision
class Own(mixed_precision.LossScaleOptimizer):
    def __init__(self, inner, every=2, **kwargs):
        super().__init__(inner, **kwargs)
        self.every = every
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
    "called_of_new": Case(
        OPT + "W = tf.keras.mixed_precision.experimental.LossScaleOptimizer\n"
        "W(tf_keras.optimizers.legacy.SGD(), 'dynamic').loss_scale()",
        "--as-of 2.3",
        "--as-of",
    ),
    "called_of_new_in_function": Case(
        OPT + "from tensorflow.keras.mixed_precision import experimental as prec\n"
        "def make():\n    return prec.LossScaleOptimizer(tf_keras.optimizers.legacy.SGD(), 'dynamic')\n"
        "def f():\n    return (\n        make()\n        .loss_scale()\n    )\nf()",
        "--as-of 2.3",
        "--as-of",
    ),
    "called_of_new_by_method": Case(
        OPT + "class T:\n    def make(self):\n"
        "        sgd = tf_keras.optimizers.legacy.SGD()\n"
        "        return tf.keras.mixed_precision.experimental.LossScaleOptimizer(sgd, 'dynamic')\n"
        "    def run(self):\n        self.make().loss_scale()\nT().run()",
        "--as-of 2.3",
        "--as-of",
    ),
    "current_of_new": Case(
        OPT + "prec = tf.keras.mixed_precision.experimental\n"
        "prec.LossScaleOptimizer(tf_keras.optimizers.legacy.SGD(), 'dynamic').loss_scale._current_loss_scale",
        "--as-of 2.3",
        "--as-of",
    ),
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
    # Members of the wrapper of TF 2.4 to 2.15, on that of Keras 3.
    **{
        f"of_wrapper_{name}": Case(WRAPPED + code, "--replace-existing", "--replace-existing")
        for name, code in {
            "loss_scale": "float(opt.loss_scale)",
            "lr": "float(opt.lr)",
            "dynamic": "opt.dynamic",
            "counter": "opt.dynamic_counter",
            "weights": "opt.weights",
            "momentum": "float(opt.momentum)",
            "optimizer": "opt._optimizer",
            "minimize": "opt.minimize(lambda: v * v, [v])",
            "variables": "opt.variables()",
            "variables_of_self": "class T:\n    def f(self):\n        return len(self.o.variables())\n"
            "t = T()\nt.o = opt\nt.f()",
            "aggregate": "opt.apply_gradients([(v * 1.0, v)], experimental_aggregate_gradients=False)",
            "aggregate_in_function": "@tf.function\ndef step():\n    opt.apply_gradients([(v * 1.0, v)], "
            "experimental_aggregate_gradients=False)\nstep()",
            "loss_scale_in_function": "@tf.function\ndef step():\n    return opt.loss_scale * 2.0\nstep()",
            "loss_scale_in_callback": "class Log(tf.keras.callbacks.Callback):\n"
            "    def on_epoch_end(self, epoch, logs=None):\n        print(float(self.model.optimizer.loss_scale))\n"
            "model = tf.keras.Sequential([tf.keras.layers.Dense(1)])\n"
            "model.compile(tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD()), 'mse')\n"
            "model.fit(tf.ones([1, 1]), tf.ones([1, 1]), verbose=0, callbacks=[Log()])",
        }.items()
    },
    "of_wrapper_beta_1": Case(ADAM + "float(opt.beta_1)", "--replace-existing", "--replace-existing"),
    "of_wrapper_given_loss_scale": Case(
        GIVEN + "model.optimizer.loss_scale", "--replace-existing", "--replace-existing"
    ),
    "of_wrapper_given_momentum": Case(GIVEN + "model.optimizer.momentum", "--replace-existing", "--replace-existing"),
    "of_derived": Case(
        DERIVED + "    def scale(self):\n        return self.loss_scale\nOwn(tf.keras.optimizers.SGD()).scale()",
        "--replace-existing",
        "--replace-existing",
    ),
    "of_derived_super": Case(
        DERIVED + "    def apply_gradients(self, pairs):\n        return super().apply_gradients(pairs, "
        "experimental_aggregate_gradients=True)\n"
        "Own(tf.keras.optimizers.SGD()).apply_gradients([(tf.constant(0.0), tf.Variable(1.0))])",
        "--replace-existing",
        "--replace-existing",
    ),
    "of_wrapper_decay": Case(WRAPPED + "opt.decay", "--keras 2 --legacy-optimizers", "--legacy-optimizers"),
    "of_wrapper_slot": Case(
        WRAPPED + "opt.get_slot(v, 'momentum')", "--keras 2 --legacy-optimizers", "--legacy-optimizers"
    ),
    # Members of optimizers.
    "of_optimizer_lr": Case(SGD + "opt.lr", "with --keras 2", "--keras"),
    "of_inner_lr": Case(WRAPPED + "opt.inner_optimizer.lr", "with --keras 2", "--keras"),
    "of_inner_decay": Case(WRAPPED + "opt.inner_optimizer.decay", "--keras 2 --legacy", "--legacy-optimizers"),
    "of_optimizer_decay": Case(SGD + "opt.decay", "--keras 2 --legacy-optimizers", "--legacy-optimizers"),
    "of_optimizer_weights": Case(SGD + "opt.weights", "--keras 2 --legacy-optimizers", "--legacy-optimizers"),
    "of_optimizer_variables": Case(SGD + "opt.variables()", "with --keras 2", "--keras"),
    "of_optimizer_minimize": Case(
        SGD + "v = tf.Variable(1.0)\nopt.minimize(lambda: v * v, [v])", "with --keras 2", "--keras"
    ),
    "of_optimizer_aggregate": Case(
        SGD + "v = tf.Variable(1.0)\nopt.apply_gradients([(v * 1.0, v)], experimental_aggregate_gradients=False)",
        "with --keras 2",
        "--keras",
    ),
    "of_model": Case(
        MODEL + "model.compile('sgd', 'mse')\ntf.keras.backend.get_value(model.optimizer.lr)",
        "with --keras 2",
        "--keras",
    ),
    "config": Case(EXPERIMENTAL + "opt.get_config()['loss_scale']", "--as-of 2.3", "--as-of"),
    "config_of_variable": Case(
        EXPERIMENTAL + "config = opt.get_config()\nprint(config['loss_scale'])", "--as-of 2.3", "--as-of"
    ),
    "config_of_self": Case(
        EXPERIMENTAL + "class T:\n    def f(self):\n        return self.opt.get_config()['loss_scale']['class_name']\n"
        "t = T()\nt.opt = opt\nt.f()",
        "--as-of 2.3",
        "--as-of",
    ),
    # What looks alike, and has another cause.
    "typo_of_wrapper": Case(WRAPPED + "opt.loss_scal"),
    "of_no_wrapper": Case(WRAPPED + "opt.nothing"),
    "of_no_wrapper_hyper": Case(WRAPPED + "opt._get_hyper('momentum')"),
    "of_another_optimizer": Case(WRAPPED + "opt.beta_1"),
    "of_no_variable": Case(ADAM + "opt.epsilon"),
    "of_plain_optimizer": Case(SGD + "opt.loss_scale"),
    "of_plain_dynamic": Case(SGD + "opt.dynamic"),
    "own_wrapper": Case("class LossScaleOptimizer: pass\nLossScaleOptimizer().loss_scale"),
    "own_optimizer_lr": Case("class Optimizer: pass\nclass SGD(Optimizer): pass\nSGD().lr"),
    "own_variables": Case("class SGD:\n    variables = []\nSGD().variables()"),
    "own_list": Case(WRAPPED + "variables = opt.variables\nvariables()"),
    "own_apply": Case(
        "class BaseOptimizer:\n    def apply_gradients(self, pairs): pass\n"
        "BaseOptimizer().apply_gradients([], experimental_aggregate_gradients=False)"
    ),
    "own_apply_of_derived": Case(
        "import tensorflow as tf\nclass Own(tf.keras.optimizers.SGD):\n    def apply_gradients(self, pairs): pass\n"
        "Own().apply_gradients([], experimental_aggregate_gradients=False)"
    ),
    "other_argument_of_apply": Case(WRAPPED + "opt.apply_gradients([(v * 1.0, v)], aggregate=False)"),
    "name_of_keras_3": Case(
        "import tensorflow as tf\nopt = tf.keras.optimizers.LossScaleOptimizer(tf.keras.optimizers.SGD())\n"
        "opt.loss_scale"
    ),
    "config_of_public": Case(WRAPPED + "opt.get_config()['loss_scale']"),
    "own_config": Case("config = {'initial_scale': 1}\nconfig['loss_scale']"),
    "own_config_beside": Case(EXPERIMENTAL + "opt.get_config()\nconfig = {}\nconfig['loss_scale']"),
    "other_key_of_config": Case(EXPERIMENTAL + "opt.get_config()['loss_scales']"),
    "own_derived": Case("class Own:\n    def __init__(self, x):\n        super().__init__(x)\nOwn(1)"),
    "typo_of_keras": Case("import tensorflow as tf\ntf.keras.backend.learning_fase()"),
    "own_lr": Case("raise ValueError(\"Argument(s) not recognized: {'lr': 1}\")"),
    "other_argument": Case("import tensorflow as tf\ntf.keras.optimizers.Adam(rl=0.1)"),
    "saved": Case(MODEL + "model.save('saved')", "--keras 2", "--keras"),
    "saved_weights": Case(MODEL + "model.save_weights('epoch_1')", "--keras 2", "--keras"),
    "saved_by_callback": Case(MODEL + "tf.keras.callbacks.ModelCheckpoint('best')", "--keras 2", "--keras"),
    "saved_weights_by_callback": Case(
        MODEL + "tf.keras.callbacks.ModelCheckpoint('best', save_weights_only=True)", "--keras 2", "--keras"
    ),
    "loaded": Case(
        "import tensorflow as tf, pathlib, tempfile\nfolder = tempfile.mkdtemp()\n"
        "(pathlib.Path(folder) / 'saved_model.pb').write_bytes(b'')\ntf.keras.models.load_model(folder)",
        "--keras 2",
    ),
    "loaded_from_elsewhere": Case("import tensorflow as tf\ntf.keras.models.load_model('nowhere')"),
    "own_loaded": Case(
        "import pathlib, tempfile\nfolder = tempfile.mkdtemp()\n"
        "(pathlib.Path(folder) / 'saved_model.pb').write_bytes(b'')\n"
        "raise ValueError(f'File format not supported: filepath={folder}. Keras 3 only supports')"
    ),
    "private": Case("import tensorflow as tf\ntf.python.framework", "--v1", "--v1"),
    "private_module": Case("import tensorflow.python.none_such"),
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
    "own_of_call": Case(
        OPT
        + "def make():\n    class Own:\n        loss_scale = tf.constant(1.0)\n    return Own()\nmake().loss_scale()"
    ),
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

# compile has wrapped the optimizer; the programs do not name the class, or only to test for it.
COMPILED = """
import tensorflow as tf
tf.keras.mixed_precision.set_global_policy("mixed_float16")
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile(tf.keras.optimizers.Adam(0.1), "mse")
tf.keras.mixed_precision.set_global_policy("float32")
model.fit(tf.ones([1, 1]), tf.ones([1, 1]), verbose=0)
opt = model.optimizer
kernel = model.trainable_variables[0]
"""
NAMED = COMPILED + "assert isinstance(opt, tf.keras.mixed_precision.LossScaleOptimizer)\n"

CASES_OF_COMPILE = {
    "compiled_loss_scale": Case(COMPILED + "opt.loss_scale", "compile of Keras 3 has wrapped", "--keras"),
    "compiled_model": Case(COMPILED + "print(float(model.optimizer.loss_scale))", "with --keras 2", "--keras"),
    "compiled_named": Case(NAMED + "opt.loss_scale", "with --keras 2", "--keras"),
    "compiled_scaled": Case(NAMED + "opt.get_scaled_loss(tf.constant(1.0))", "with --keras 2", "--keras"),
    "compiled_lr": Case(COMPILED + "opt.lr", "with --keras 2", "--keras"),
    "compiled_variables": Case(COMPILED + "opt.variables()", "with --keras 2", "--keras"),
    "compiled_minimize": Case(
        COMPILED + "opt.minimize(lambda: tf.reduce_sum(kernel**2), model.trainable_variables[:1])",
        "with --keras 2",
        "--keras",
    ),
    "compiled_aggregate": Case(
        COMPILED + "opt.apply_gradients([(tf.zeros_like(kernel), kernel)], experimental_aggregate_gradients=False)",
        "with --keras 2",
        "--keras",
    ),
    "compiled_weights": Case(COMPILED + "opt.weights", "--keras 2 --legacy-optimizers", "--legacy-optimizers"),
    "compiled_beta_1": Case(COMPILED + "opt.beta_1", "--keras 2 --legacy-optimizers", "--legacy-optimizers"),
    "compiled_beta_1_named": Case(NAMED + "opt.beta_1", "--keras 2 --legacy-optimizers", "--legacy-optimizers"),
    "compiled_nothing": Case(COMPILED + "opt.nothing"),
    "compiled_momentum": Case(COMPILED + "opt.momentum"),
}

# Programs that run with --keras 2, where the wrapper is that of tf_keras over new optimizers.
CASES_OF_KERAS_2 = {
    "keras_2_beta_1": Case(ADAM + "float(opt.beta_1)", "with --replace-existing", "--replace-existing"),
    "keras_2_momentum": Case(WRAPPED + "opt.momentum", "with --replace-existing", "--replace-existing"),
    "keras_2_clipnorm": Case(WRAPPED + "opt.clipnorm", "with --replace-existing", "--replace-existing"),
    "keras_2_weights": Case(WRAPPED + "opt.weights", "with --replace-existing", "--replace-existing"),
    "keras_2_given": Case(GIVEN + "model.optimizer.momentum", "with --replace-existing", "--replace-existing"),
    "keras_2_derived": Case(
        DERIVED + "Own(tf.keras.optimizers.SGD(), initial_scale=4.0)", "with --replace-existing", "--replace-existing"
    ),
    "keras_2_derived_plainly": Case(
        DERIVED + "class Plain(mixed_precision.LossScaleOptimizer): pass\nclass S(Plain): pass\n"
        "S(tf.keras.optimizers.SGD())",
        "with --replace-existing",
        "--replace-existing",
    ),
    "keras_2_decay": Case(WRAPPED + "opt.decay", "with --legacy-optimizers", "--legacy-optimizers"),
    "keras_2_compiled_beta_1": Case(NAMED + "opt.beta_1", "with --legacy-optimizers", "--legacy-optimizers"),
    "keras_2_rho": Case(WRAPPED + "opt.rho"),
    "keras_2_epsilon": Case(ADAM + "opt.epsilon"),
    "keras_2_nothing": Case(WRAPPED + "opt.nothing"),
    "keras_2_own_plain": Case(WRAPPED + "class Own: pass\nOwn(1)"),
    "keras_2_own_derived": Case("class Own:\n    def __init__(self, x):\n        super().__init__(x)\nOwn(1)"),
}
