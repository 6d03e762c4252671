"""Programs of Keras 2 and of its older optimizers, and ones that nearly look the same: source and options."""

from __future__ import annotations

from .programs import OF_2_8, TF, WRAPPED

KERAS = [
    ("with an optimizer", WRAPPED, OF_2_8),
    ("a function of losses", TF + "loss = tf.keras.losses.mean_squared_error(x, y)", "--keras 2"),
    ("a function of tf.losses", TF + "m = tf.keras.Model()\nloss = tf.losses.mean_squared_error(x, y)", "--keras 2"),
    ("that and a tape", TF + "with tf.GradientTape() as t:\n    tf.metrics.kl_divergence(x, y)", "--keras 2"),
    ("that alone", TF + "loss = tf.losses.mean_squared_error(x, y)", ""),
    ("that of compat.v1", TF + "tf.keras.Model()\ntf.compat.v1.losses.mean_squared_error(x, y)", ""),
    ("an alias of an alias", TF + "k = tf.keras\nK = k.backend\nK.learning_phase()", "--keras 2"),
    ("fit_generator", TF + "m = tf.keras.Sequential()\nm.fit_generator(None)", "--keras 2"),
    ("lr of a model's", TF + "m = tf.keras.Sequential()\nm.compile()\nm.optimizer.lr = 1", "--keras 2"),
    (
        "lr of the model's in a callback",
        TF
        + "class C(tf.keras.callbacks.Callback):\n"
        + "    def on_epoch_end(self, *a):\n        self.model.optimizer.lr = 1\nC()",
        "--keras 2",
    ),
    ("updated by the backend", "from keras import backend as K\ndef f(m): K.update(m.optimizer.lr, 1)", "--keras 2"),
    (
        "a variable by the backend",
        TF + "K = tf.keras.backend\nlr = K.variable(1)\nK.set_value(lr, 2)\nx.update(opt.lr)",
        "",
    ),
    # Nearly.
    (
        "tf_keras with its own wrapper",
        "import tf_keras, tensorflow as tf\n"
        "opt = tf_keras.mixed_precision.LossScaleOptimizer(tf_keras.optimizers.SGD())\n"
        "opt.get_scaled_loss(1.0)\nopt.dynamic_counter\nprint(tf.keras.__version__)",
        "",
    ),
    ("keras alone", "import keras\nkeras.layers.Dense(1)", ""),
    ("by getattr", TF + "o = getattr(tf.keras.optimizers, 'legacy', tf.keras.optimizers)\nx = o.SGD()", ""),
]

MODEL = TF + "import os, tempfile\nmodel = tf.keras.Sequential()\n"
SAVING = [
    ("in a folder", MODEL + "def f(d): model.save(os.path.join(d, 'model'))", "--keras 2"),
    ("a callback of keras", "from keras.callbacks import ModelCheckpoint\nModelCheckpoint(filepath='b')", "--keras 2"),
    # Nearly.
    ("to .h5", MODEL + "def f(d): model.save(os.path.join(d, 'a.h5'))", ""),
    ("to .hdf5", MODEL + "model.save('a.hdf5')", ""),
    ("to what options say", MODEL + "path = make()\nmodel.save(path)", ""),
    ("by an f-string that may end so", MODEL + "def f(e): model.save(f'model.{e}')", ""),
    ("in a new folder with a name", MODEL + "model.save(tempfile.mkdtemp('.keras'))", ""),
    ("to the hub", MODEL + "def f(u): model.save(f'hf://{u}/model')\nmodel.save('hf://a/b')", ""),
    ("not zipped", MODEL + "model.save('saved', zipped=False)", ""),
    ("with arguments that are not known", MODEL + "def f(**how): model.save('saved', **how)", ""),
    ("of what is not known", MODEL + "def f(m): m.save('a')", ""),
    ("a callback that saves where it is told", TF + "def f(p): tf.keras.callbacks.ModelCheckpoint(p)", ""),
]
