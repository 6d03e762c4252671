"""Programs that end in errors which an option cures, and programs that look alike."""

from __future__ import annotations

from typing import NamedTuple

TF = "import tensorflow as tf\n"
LEGACY = "--keras 2 --legacy-optimizers"

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


OWN_RULE = """
import tensorflow as tf
class Own(tf.keras.optimizers.Optimizer):
    def _resource_apply_dense(self, grad, var):
        return var.assign_sub(grad)
    def get_config(self):
        return {}
v = tf.Variable(1.0)
Own(name="own").apply_gradients([(v * 1.0, v)])
"""

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


class Case(NamedTuple):
    """A program that ends in an error.

    Attributes:
        source: the program.
        options: the options of `mpls run` that the line after its error names, with which it runs; empty for none.
        says: what the line says beside; empty for any explanation, or for no line if there are no options.
        is_cured: whether the program runs with these options, and does not fail for another reason.
        chosen: the options that `mpls run` chooses from the source; None for those that the line names.
    """

    source: str
    options: str = ""
    says: str = ""
    is_cured: bool = True
    chosen: str | None = None


CASES = {
    # Each cause, in the forms in which programs meet it.
    "called": Case(OPT + "opt.loss_scale()", "--as-of 2.3"),
    "called_of_new": Case(
        OPT + "W = tf.keras.mixed_precision.experimental.LossScaleOptimizer\n"
        "W(tf_keras.optimizers.legacy.SGD(), 'dynamic').loss_scale()",
        "--as-of 2.3",
    ),
    "current": Case(OPT + "float(opt.loss_scale._current_loss_scale)", "--as-of 2.3"),
    "period": Case(OPT + "print(opt.loss_scale.increment_period)", "--as-of 2.3"),
    "called_in_function": Case(
        OPT + "@tf.function\ndef step():\n    return 2 * opt.loss_scale()\nstep()", "--as-of 2.3"
    ),
    "scaled": Case(
        TF + "opt = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD())\n"
        "opt.get_scaled_loss(tf.constant(1.0))",
        "--keras 2",
    ),
    "contrib": Case(TF + "tf.contrib.mixed_precision.FixedLossScaleManager(8)", "--contrib"),
    "contrib_module": Case("import tensorflow.contrib.mixed_precision as mp\nmp.LossScaleManager", "--contrib"),
    "slim": Case("from tensorflow.contrib import slim", says="the package tf-slim has tf.contrib.slim", chosen="--v1"),
    "rnn": Case(TF + "tf.contrib.rnn.LSTMCell(4)", says="tf.compat.v1.nn.rnn_cell", chosen="--v1"),
    "placeholder": Case(TF + "tf.placeholder(tf.float32)", "--v1"),
    "session": Case("from tensorflow import Session", "--v1"),
    "adam": Case(TF + "tf.train.AdamOptimizer(0.1)", "--v1"),
    "flags": Case(TF + "tf.app.flags.DEFINE_integer('x_of_hints', 1, '')", "--v1"),
    "child": Case(
        'from multiprocessing.pool import RemoteTraceback as R\nimport tensorflow as tf\nraise ImportError("cannot '
        "import name 'experimental'\", name='tensorflow.keras.mixed_precision') from R('')",
        says="leave out --no-children",
    ),
    "estimator": Case(TF + "tf.estimator.RunConfig()", says="removed in TF 2.16"),
    "tracking": Case("from tensorflow.python.training.tracking import base", says="tensorflow.python.trackable"),
    "context": Case(
        "from tensorflow.python.distribute import distribution_strategy_context",
        says="distribute_lib; tf.distribute",
    ),
    "mnist": Case("from tensorflow.examples.tutorials.mnist import input_data", says="tf.keras.datasets"),
    "scikit": Case("from tensorflow.keras.wrappers.scikit_learn import KerasClassifier", says="scikeras"),
    "decayed": Case(SGD + "opt._decayed_lr(tf.float32)", LEGACY),
    "updates": Case(SGD + "opt.get_updates", LEGACY),
    "weights": Case(SGD + "opt.get_weights()", LEGACY),
    "lr": Case(TF + "tf.keras.optimizers.Adam(lr=0.1)", LEGACY),
    "legacy": Case(TF + "tf.keras.optimizers.legacy.SGD(0.1)", "--keras 2"),
    "layers": Case(TF + "tf.compat.v1.layers.dense(tf.ones([1, 1]), 1)", "--keras 2"),
    "phase": Case(TF + "tf.keras.backend.learning_phase()", "--keras 2"),
    "experimental_layers": Case("from tensorflow.keras.layers.experimental import preprocessing", "--keras 2"),
    # Members of the wrapper of TF 2.4 to 2.15, on that of Keras 3.
    **{
        f"of_wrapper_{name}": Case(WRAPPED + code, "--keras 2")
        for name, code in {
            "loss_scale": "float(opt.loss_scale)",
            "lr": "float(opt.lr)",
            "dynamic": "opt.dynamic",
            "counter": "opt.dynamic_counter",
            "optimizer": "opt._optimizer",
            "minimize": "opt.minimize(lambda: v * v, [v])",
            "variables": "opt.variables()",
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
    "of_wrapper_beta_1": Case(ADAM + "float(opt.beta_1)", "--keras 2 --replace-existing", "passed this on"),
    "of_wrapper_weights": Case(WRAPPED + "opt.weights", "--keras 2 --replace-existing"),
    "of_wrapper_given_loss_scale": Case(GIVEN + "model.optimizer.loss_scale", "--keras 2"),
    "of_wrapper_given_momentum": Case(GIVEN + "model.optimizer.momentum", LEGACY, chosen=""),
    "of_derived": Case(
        DERIVED + "    def scale(self):\n        return self.loss_scale\nOwn(tf.keras.optimizers.SGD()).scale()",
        "--keras 2 --replace-existing",
    ),
    "of_wrapper_decay": Case(WRAPPED + "opt.decay", LEGACY),
    "of_wrapper_slot": Case(WRAPPED + "opt.get_slot(v, 'momentum')", LEGACY),
    # Members of optimizers.
    "of_optimizer_lr": Case(SGD + "opt.lr", "--keras 2"),
    "of_backend_set_value": Case(SGD + "tf.keras.backend.set_value(opt.iterations, 1)", "--keras 2", chosen=""),
    "of_optimizer_decay": Case(SGD + "opt.decay", LEGACY, chosen=""),
    "of_optimizer_weights": Case(SGD + "opt.weights", LEGACY, chosen=""),
    "of_model": Case(
        MODEL + "model.compile('sgd', 'mse')\ntf.keras.backend.get_value(model.optimizer.lr)",
        "--keras 2",
    ),
    "config": Case(EXPERIMENTAL + "opt.get_config()['loss_scale']", "--keras 2 --legacy-optimizers --as-of 2.3"),
    # Wrappers that `compile` has made.
    "compiled_model": Case(COMPILED + "print(float(model.optimizer.loss_scale))", "--keras 2"),
    "compiled_named": Case(NAMED + "opt.loss_scale", "--keras 2", chosen=""),
    "compiled_scaled": Case(NAMED + "opt.get_scaled_loss(tf.constant(1.0))", "--keras 2"),
    "compiled_variables": Case(COMPILED + "opt.variables()", "--keras 2", chosen=""),
    "compiled_weights": Case(COMPILED + "opt.weights", LEGACY, chosen="--keras 2"),
    "compiled_beta_1": Case(COMPILED + "opt.beta_1", LEGACY, chosen=""),
    # How frameworks refuse what others took.
    "reset_states": Case(TF + "tf.keras.metrics.Mean().reset_states()", "--keras 2"),
    "reset_states_of_model": Case(MODEL + "model.reset_states()", "--keras 2", chosen=""),
    "generator": Case(MODEL + "tf.keras.Model.fit_generator", "--keras 2", chosen=""),
    "workers": Case(
        MODEL + "model.compile('sgd', 'mse')\nmodel.fit(tf.ones([1, 1]), tf.ones([1, 1]), workers=2, verbose=0)",
        "--keras 2",
    ),
    "save_format": Case(MODEL + "model.save_weights('w', save_format='tf')", "--keras 2"),
    "epochs_between": Case(TF + "tf.keras.callbacks.ModelCheckpoint('x.h5', period=3)", "--keras 2"),
    "layers_in_graphs": Case(
        TF + "with tf.Graph().as_default():\n    layer = tf.keras.layers.Dense(1)\n"
        "    loss = tf.reduce_sum(layer(tf.ones([1, 1])))\n"
        "    tf.compat.v1.train.AdamOptimizer().compute_gradients(loss, layer.trainable_variables)",
        "--keras 2",
        "this takes no variables of Keras 3",
        chosen="",
    ),
    "run_function": Case(MODEL + "model.compile('sgd', 'mse', experimental_run_tf_function=False)", "--keras 2"),
    "weights_h5": Case(MODEL + "model.save_weights('model.h5')", "--keras 2", "refuses this path"),
    "weights_by_callback": Case(
        MODEL + "tf.keras.callbacks.ModelCheckpoint('m.h5', save_weights_only=True)", "--keras 2"
    ),
    "loaded_checkpoint": Case(
        MODEL + "import pathlib, tempfile\npath = tempfile.mkdtemp() + '/m'\n"
        "pathlib.Path(path + '.index').write_bytes(b'')\nmodel.load_weights(path)",
        "--keras 2",
        is_cured=False,
    ),
    "fixed": Case(
        SGD + "tf.keras.mixed_precision.LossScaleOptimizer(opt, dynamic=False, initial_scale=8)", "--keras 2"
    ),
    "dynamic_layer": Case(TF + "tf.keras.layers.Dense(1, dynamic=True)", "--keras 2", chosen=""),
    "transformers": Case(
        TF + "tf.keras.optimizers.SGD(0.1, gradient_transformers=[lambda pairs: pairs])",
        LEGACY,
        "taken this argument",
    ),
    "aggregator": Case(TF + "tf.keras.optimizers.Adam(gradient_aggregator=None)", LEGACY),
    "schedule_decay": Case(TF + "tf.keras.optimizers.Nadam(schedule_decay=0.004)", LEGACY, chosen=""),
    "lr_alone": Case(TF + "settings = {'lr': 0.1}\ntf.keras.optimizers.SGD(**settings)", "--keras 2", chosen=""),
    "two_clippings": Case(TF + "tf.keras.optimizers.SGD(clipnorm=1.0, clipvalue=1.0)", "--keras 2", chosen=""),
    "own_rule": Case(OWN_RULE, LEGACY, "called this method"),
    "reduction": Case(TF + "tf.keras.losses.MeanSquaredError(reduction='auto')", "--keras 2", chosen=""),
    "metric_of_layer": Case(
        MODEL + "model.add_metric(tf.constant(1.0), name='x')", "--keras 2", is_cured=False, chosen=""
    ),
    "op_on_input": Case(TF + "tf.reduce_sum(tf.keras.Input((1,)))", "--keras 2", chosen=""),
    # Where Keras and TensorFlow change the error and its traceback on its way.
    "lr_in_callback": Case(
        MODEL + "class Own(tf.keras.callbacks.Callback):\n    def on_epoch_begin(self, epoch, logs=None):\n"
        "        tf.keras.optimizers.SGD(lr=0.1)\n"
        "model.compile('sgd', 'mse')\nmodel.fit(tf.ones([1, 1]), tf.ones([1, 1]), verbose=0, callbacks=[Own()])",
        LEGACY,
    ),
    "reset_states_in_layer": Case(
        TF + "class Own(tf.keras.layers.Layer):\n    def call(self, x):\n"
        "        tf.keras.metrics.Mean().reset_states()\n        return x\nOwn()(tf.ones([1, 1]))",
        "--keras 2",
    ),
    # Names that only Keras 2 in TF 1 has.
    "dtype_behavior": Case(TF + "tf.keras.layers.enable_v2_dtype_behavior()", "--v1 --keras 2", "Keras 2 in TF 1"),
    "cudnn": Case(TF + "tf.keras.layers.CuDNNLSTM(2)", "--v1 --keras 2"),
    # All options that the program needs, not those for the first error alone.
    "contrib_and_layers": Case(
        "import tensorflow.compat.v1 as tf\ntf.contrib.mixed_precision.FixedLossScaleManager(8)\n"
        "tf.layers.dense(tf.ones([1, 1]), 1)",
        "--contrib --keras 2",
        chosen="--keras 2",
    ),
    "contrib_in_tf_1": Case(
        TF + "tf.contrib.mixed_precision.FixedLossScaleManager(8)\n"
        "tf.layers.dense(tf.placeholder(tf.float32, [1, 1]), 1)",
        "--v1 --contrib --keras 2",
    ),
    "old_wrapper_and_legacy": Case(
        EXPERIMENTAL + "opt.loss_scale()\nopt.get_weights()", "--keras 2 --legacy-optimizers --as-of 2.3"
    ),
    # Raised from another error.
    "from_another": Case(
        TF + "try:\n    tf.placeholder\nexcept AttributeError as error:\n    raise RuntimeError('old') from error",
        "--v1",
        chosen="",
    ),
    "during_another": Case(TF + "try:\n    1 / 0\nexcept ZeroDivisionError:\n    tf.placeholder", "--v1", chosen=""),
    # Last, as a graph rewrite that is enabled stays so.
    "rewrite": Case(
        SGD + "tf.compat.v1.mixed_precision.enable_mixed_precision_graph_rewrite(opt)",
        LEGACY,
        "the graph rewrite takes",
    ),
    "own_wrapper_float16": Case(
        "import tensorflow.compat.v1 as tf\nwith tf.Graph().as_default():\n"
        "    v = tf.Variable(tf.ones([], tf.float16))\n    sgd = tf.train.GradientDescentOptimizer(0.1)\n"
        "    opt = tf.mixed_precision.MixedPrecisionLossScaleOptimizer(sgd, 8.0)\n    opt.minimize(v * v)",
        "--replace-existing",
        "float16 gradients",
        chosen="",
    ),
    # What looks alike, and has another cause.
    "of_no_wrapper": Case(WRAPPED + "opt.nothing"),
    "of_the_copy": Case(
        SGD + "from tensorflow.python.keras.mixed_precision import loss_scale_optimizer as l\n"
        "l.LossScaleOptimizer(opt)",
        "--keras 2 --replace-existing",
    ),
    "of_another_optimizer": Case(WRAPPED + "opt.beta_1", chosen="--keras 2 --replace-existing"),
    "of_no_variable": Case(ADAM + "opt.epsilon"),
    "of_plain_optimizer": Case(SGD + "opt.loss_scale"),
    "own_wrapper": Case("class LossScaleOptimizer: pass\nLossScaleOptimizer().loss_scale"),
    "own_apply": Case(
        "class BaseOptimizer:\n    def apply_gradients(self, pairs): pass\n"
        "BaseOptimizer().apply_gradients([], experimental_aggregate_gradients=False)"
    ),
    "other_argument_of_apply": Case(WRAPPED + "opt.apply_gradients([(v * 1.0, v)], aggregate=False)"),
    "name_of_keras_3": Case(
        TF + "opt = tf.keras.optimizers.LossScaleOptimizer(tf.keras.optimizers.SGD())\nopt.loss_scale",
        chosen="--replace-existing",
    ),
    "config_of_public": Case(WRAPPED + "opt.get_config()['loss_scale']"),
    "own_config": Case("config = {'initial_scale': 1}\nconfig['loss_scale']"),
    "other_key_of_config": Case(EXPERIMENTAL + "opt.get_config()['loss_scales']", chosen=LEGACY),
    "other_argument": Case(TF + "tf.keras.optimizers.Adam(rl=0.1)"),
    "saved": Case(MODEL + "model.save('saved')", "--keras 2"),
    "saved_weights": Case(MODEL + "model.save_weights('epoch_1')", "--keras 2"),
    "saved_by_callback": Case(MODEL + "tf.keras.callbacks.ModelCheckpoint('best')", "--keras 2"),
    "loaded": Case(
        "import tensorflow as tf, pathlib, tempfile\nfolder = tempfile.mkdtemp()\n"
        "(pathlib.Path(folder) / 'saved_model.pb').write_bytes(b'')\ntf.keras.models.load_model(folder)",
        "--keras 2",
        is_cured=False,
    ),
    "loaded_from_elsewhere": Case(TF + "tf.keras.models.load_model('nowhere')", chosen="--keras 2"),
    "private": Case(TF + "tf.python.framework", "--v1", chosen=""),
    "typo_of_optimizer": Case(SGD + "opt._decayed_lrs"),
    "call_of_own_tensor": Case(TF + "scale = tf.constant(1.0)\nscale()"),
    "call_with_arguments": Case(OPT + "opt.loss_scale(3)"),
    "typo": Case(TF + "tf.placeholdr(tf.float32)"),
    "no_module": Case("import tensorflow.contribution"),
    # Messages of frameworks, raised by the program itself.
    **{
        f"own_message_{number}": Case(f"raise {error}")
        for number, error in enumerate(
            (
                "ValueError('The filename must end in `.weights.h5`. Received: filepath=x.h5')",
                "ValueError('\"opt\" must be an instance of a tf.train.Optimizer or a tf.keras.optimizers.Optimizer')",
                "TypeError(\"TensorFlowTrainer.fit() got an unexpected keyword argument 'workers'\")",
                "KeyError('loss_scale')",
                "ModuleNotFoundError(\"No module named 'tensorflow.contrib'\")",
            )
        )
    },
    # Classes of the program that have the names of others.
    "own_fit": Case("class Trainer:\n    def fit(self, x): pass\nTrainer().fit(1, workers=2)"),
    # Mistakes that every release refuses.
    "typo_of_argument": Case(MODEL + "model.compile('sgd', 'mse', experimental_run_function=False)"),
    "rewrite_of_nothing": Case(TF + "tf.compat.v1.mixed_precision.enable_mixed_precision_graph_rewrite(5)"),
    "three_clippings": Case(TF + "tf.keras.optimizers.SGD(clipnorm=1.0, global_clipnorm=1.0)"),
    # The program is for Keras 3 elsewhere, which Keras 2 would break.
    "for_keras_3": Case(SGD + "tf.keras.ops.add(1, 1)\nopt.lr"),
    "for_keras_3_name": Case(TF + "tf.keras.ops.add(1, 1)\ntf.keras.backend.learning_phase()"),
    # The program has dealt with the first error.
    "dealt_with": Case(TF + "try:\n    tf.placeholder\nexcept AttributeError:\n    raise RuntimeError('own')"),
    "dealt_with_later": Case(
        "try:\n    from tensorflow.contrib import mixed_precision\nexcept ImportError:\n    mixed_precision = None\n"
        "mixed_precision.LossScaleManager"
    ),
}

# Programs that run with --keras 2, where the wrapper is that of tf_keras over new optimizers.
CASES_OF_KERAS_2 = {
    "keras_2_beta_1": Case(ADAM + "float(opt.beta_1)", "--keras 2 --replace-existing"),
    "keras_2_clipnorm": Case(WRAPPED + "opt.clipnorm", LEGACY),
    "keras_2_weights": Case(WRAPPED + "opt.weights", "--keras 2 --replace-existing"),
    "keras_2_given": Case(GIVEN + "model.optimizer.momentum", LEGACY),
    "keras_2_derived": Case(
        DERIVED + "Own(tf.keras.optimizers.SGD(), initial_scale=4.0)", "--keras 2 --replace-existing"
    ),
    "keras_2_decay": Case(WRAPPED + "opt.decay", LEGACY),
    "keras_2_compiled_beta_1": Case(NAMED + "opt.beta_1", LEGACY),
    "keras_2_decay_argument": Case(TF + "tf.keras.optimizers.Adam(0.1, decay=0.1)", LEGACY),
    "keras_2_transformers": Case(
        TF + "tf.keras.optimizers.SGD(0.1, gradient_transformers=[lambda pairs: pairs])", LEGACY
    ),
    "keras_2_own_rule": Case(OWN_RULE, LEGACY),
    "keras_2_rewrite": Case(SGD + "tf.compat.v1.mixed_precision.enable_mixed_precision_graph_rewrite(opt)", LEGACY),
    "keras_2_cudnn": Case(TF + "tf.keras.layers.CuDNNLSTM(2)", "--v1 --keras 2"),
    "keras_2_checkpoint": Case(
        "import tensorflow as tf, tempfile\npath, v = tempfile.mkdtemp() + '/c', tf.Variable(1.0)\n"
        "old = tf.keras.optimizers.legacy.Adam()\nold.apply_gradients([(v * 1.0, v)])\n"
        "tf.train.Checkpoint(v=v, optimizer=old).write(path)\n"
        "tf.train.Checkpoint(v=tf.Variable(2.0), optimizer=tf.keras.optimizers.Adam()).restore(path)",
        LEGACY,
    ),
    "keras_2_argument": Case(TF + "tf.keras.optimizers.SGD(0.1, momentun=0.9)"),
    "keras_2_reset": Case(TF + "tf.keras.metrics.Mean().reset_stats()"),
    "keras_2_nothing": Case(WRAPPED + "opt.nothing"),
}
