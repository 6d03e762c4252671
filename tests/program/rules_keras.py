"""Programs of Keras 2 and of its older optimizers, and ones that nearly look the same: source and options."""

from __future__ import annotations

from .programs import EXPERIMENTAL, OF_2_8, TF, WRAPPED

KERAS = [
    ("the experimental API", EXPERIMENTAL + "prec.set_policy('mixed_float16')", "--keras 2"),
    ("with an optimizer", WRAPPED, OF_2_8),
    ("in its full spelling", TF + "tf.keras.mixed_precision.experimental.set_policy('float32')", "--keras 2"),
    (
        "by compat.v2",
        "import tensorflow.compat.v2 as tf2\np = tf2.keras.mixed_precision.experimental.Policy('float16')",
        "--keras 2",
    ),
    ("legacy optimizers by name", TF + "tf.keras.optimizers.legacy.Adam()", "--keras 2"),
    ("a preprocessing layer", TF + "tf.keras.layers.experimental.preprocessing.Rescaling(2)", "--keras 2"),
    (
        "tf_keras by its name, where there is one",
        "try:\n    import tf_keras as keras\nexcept ImportError:\n    from tensorflow import keras\n"
        "import tensorflow as tf\ntf.keras.layers.experimental.preprocessing.Rescaling(2)",
        "--keras 2",
    ),
    ("keras itself", "import keras\nK = keras.backend\nK.set_learning_phase(1)", "--keras 2"),
    ("an alias of an alias", TF + "k = tf.keras\nK = k.backend\nK.learning_phase()", "--keras 2"),
    ("fit_generator", TF + "m = tf.keras.Sequential()\nm.fit_generator(None)", "--keras 2"),
    ("save_format", TF + "m = tf.keras.Sequential()\nm.save_weights('a', save_format='tf')", "--keras 2"),
    ("dynamic_counter", TF + "def f(m): return m.optimizer.dynamic_counter\nf(tf.keras.Model())", "--keras 2"),
    ("lr of an optimizer", TF + "opt = tf.keras.optimizers.Adam()\nprint(opt.lr)", "--keras 2"),
    ("setting lr of an optimizer", TF + "opt = tf.keras.optimizers.Adam()\nopt.lr = 0.1", "--keras 2"),
    ("lr of a model's", TF + "m = tf.keras.Sequential()\nm.compile()\nm.optimizer.lr = 1", "--keras 2"),
    (
        "lr of the model's in a callback",
        TF
        + "class C(tf.keras.callbacks.Callback):\n"
        + "    def on_epoch_end(self, *a):\n        self.model.optimizer.lr = 1\nC()",
        "--keras 2",
    ),
    (
        "lr of a model's by another name",
        TF + "m = tf.keras.Sequential()\nm.compile()\no = m.optimizer\nprint(o.lr)",
        "--keras 2",
    ),
    ("a rate by the backend", TF + "def f(opt): tf.keras.backend.set_value(opt.learning_rate, 1)", "--keras 2"),
    ("updated by the backend", "from keras import backend as K\ndef f(m): K.update(m.optimizer.lr, 1)", "--keras 2"),
    (
        "a variable by the backend",
        TF + "K = tf.keras.backend\nlr = K.variable(1)\nK.set_value(lr, 2)\nx.update(opt.lr)",
        "",
    ),
    ("loss_scale of a model's", TF + "m = tf.keras.Sequential()\nprint(m.optimizer.loss_scale)", "--keras 2"),
    ("modules of Keras 2", "import keras\nfrom keras.utils import np_utils\nkeras.layers.Dense(1)", "--keras 2"),
    ("its engine", "import keras\nimport keras.engine\nkeras.layers.Dense(1)", "--keras 2"),
    ("loading a folder", TF + "m = tf.keras.models.load_model('saved/1')", "--keras 2"),
    # Nearly.
    ("loading a file", TF + "m = tf.keras.models.load_model('saved.keras')", ""),
    ("learning_rate of a model's", TF + "m = tf.keras.Sequential()\nm.optimizer.learning_rate = 1", ""),
    ("lr of another optimizer", TF + "tf.keras.Model\nm = Mine()\nm.optimizer.lr = 1", ""),
    (
        "tf_keras with its own wrapper",
        "import tf_keras, tensorflow as tf\n"
        "opt = tf_keras.mixed_precision.LossScaleOptimizer(tf_keras.optimizers.SGD())\n"
        "opt.get_scaled_loss(1.0)\nopt.dynamic_counter\nprint(tf.keras.__version__)",
        "",
    ),
    (
        "tf_keras by its name",
        TF + "import tf_keras\ntf_keras.layers.Dense(1)\ntf.keras.layers.experimental.preprocessing.Rescaling(2)",
        "",
    ),
    ("the experimental API over tf_keras", EXPERIMENTAL + "import tf_keras\nprec.Policy(tf_keras.Input)", ""),
    ("Keras alone", TF + "m = tf.keras.Sequential()\nm.compile('adam', 'mse')", ""),
    ("keras alone", "import keras\nkeras.layers.Dense(1)", ""),
    ("the new API", TF + "tf.keras.mixed_precision.set_global_policy('mixed_float16')", ""),
    (
        "Keras 3",
        TF + "import keras\nkeras.ops.sum(tf.zeros([]))\ntf.keras.mixed_precision.set_dtype_policy('float16')",
        "",
    ),
    ("lr of something else", TF + "opt = Args()\nprint(opt.lr, tf.keras.optimizers.Adam)", ""),
    (
        "fit_generator of its own",
        TF + "class M(tf.keras.Model):\n    def fit_generator(self): pass\nM().fit_generator()",
        "",
    ),
    ("fit_generator without Keras", "import torch\nm = f()\nm.fit_generator(None)", ""),
    (
        "behind hasattr",
        TF + "o = tf.keras.optimizers\nif hasattr(o, 'legacy'):\n    o = tf.keras.optimizers.legacy",
        "",
    ),
    ("by getattr", TF + "o = getattr(tf.keras.optimizers, 'legacy', tf.keras.optimizers)\nx = o.SGD()", ""),
    (
        "where it is there",
        "try:\n    from tensorflow.keras.mixed_precision import experimental\nexcept ImportError:\n"
        "    experimental = None",
        "",
    ),
    (
        "names that are still there",
        TF + "tf.compat.v1.mixed_precision.DynamicLossScale()\ntf.keras.layers.Dense(1)",
        "",
    ),
]

MODEL = TF + "import os, tempfile\nmodel = tf.keras.Sequential()\n"
SAVING = [
    ("to a folder", MODEL + "model.save('saved/one')", "--keras 2"),
    ("by a keyword", MODEL + "model.save(filepath='saved')", "--keras 2"),
    ("in a folder", MODEL + "def f(d): model.save(os.path.join(d, 'model'))", "--keras 2"),
    ("by pathlib", MODEL + "def f(d): model.save(d / 'model')", "--keras 2"),
    ("by an f-string", MODEL + "def f(d): model.save(f'{d}/model')", "--keras 2"),
    ("by +", MODEL + "def f(d): model.save(d + '/model')", "--keras 2"),
    ("by a name", MODEL + "PATH = os.path.join('out', 'one')\ndef f(): model.save(PATH)", "--keras 2"),
    ("in a new folder", MODEL + "folder = tempfile.mkdtemp()\nmodel.save(folder)", "--keras 2"),
    ("another extension", MODEL + "model.save('model.tf')", "--keras 2"),
    ("of what is loaded", TF + "m = tf.keras.models.load_model('a.h5')\nm.save('b')", "--keras 2"),
    ("of what a function returns", TF + "def f(): return tf.keras.Model()\nm = f()\nm.save('b')", "--keras 2"),
    ("of a subclass", TF + "class M(tf.keras.Model):\n    def keep(self): self.save('b')", "--keras 2"),
    ("save_model", TF + "def f(m): tf.keras.models.save_model(m, 'b')", "--keras 2"),
    (
        "a callback",
        TF + "tf.keras.callbacks.ModelCheckpoint('cp-{epoch:04d}.ckpt', save_weights_only=True)",
        "--keras 2",
    ),
    ("a callback of keras", "from keras.callbacks import ModelCheckpoint\nModelCheckpoint(filepath='b')", "--keras 2"),
    # Nearly.
    ("to .keras", MODEL + "model.save('a.keras')", ""),
    ("to .h5", MODEL + "def f(d): model.save(os.path.join(d, 'a.h5'))", ""),
    ("to .hdf5", MODEL + "model.save('a.hdf5')", ""),
    ("to what is given", MODEL + "def f(path): model.save(path)", ""),
    ("to what options say", MODEL + "path = make()\nmodel.save(path)", ""),
    ("to one or the other", MODEL + "path = 'a'\nif model.x:\n    path = 'a.keras'\nmodel.save(path)", ""),
    ("with an extension added", MODEL + "path = 'a'\npath += '.keras'\nmodel.save(path)", ""),
    ("by an f-string that may end so", MODEL + "def f(e): model.save(f'model.{e}')", ""),
    ("by a part of an extension", MODEL + "def f(d): model.save(d + 'h5')", ""),
    ("in a new folder with a name", MODEL + "model.save(tempfile.mkdtemp('.keras'))", ""),
    ("to the hub", MODEL + "def f(u): model.save(f'hf://{u}/model')\nmodel.save('hf://a/b')", ""),
    ("not zipped", MODEL + "model.save('saved', zipped=False)", ""),
    ("with arguments that are not known", MODEL + "def f(**how): model.save('saved', **how)", ""),
    ("of a checkpoint", MODEL + "c = tf.train.Checkpoint(model=model)\nc.save('ckpt')", ""),
    ("of an array", MODEL + "import numpy as np\nnp.save('a', [1])", ""),
    ("of what is not known", MODEL + "def f(m): m.save('a')", ""),
    ("of something else of that name", MODEL + "def f():\n    model = torch_model()\n    model.save('a')", ""),
    ("of its own", TF + "class M(tf.keras.Model):\n    def save(self, path): pass\nmodel = M()\nmodel.save('a')", ""),
    ("that may fail", MODEL + "try:\n    model.save('a')\nexcept ValueError:\n    pass", ""),
    ("that has to fail", MODEL + "import pytest\nwith pytest.raises(ValueError):\n    model.save('a')", ""),
    ("behind a gate", MODEL + "if int(tf.__version__.split('.')[1]) < 16:\n    model.save('a')", ""),
    ("a callback that saves to .keras", TF + "tf.keras.callbacks.ModelCheckpoint('{epoch}.keras')", ""),
    ("a callback that saves weights", TF + "tf.keras.callbacks.ModelCheckpoint('{epoch}.weights.h5')", ""),
    ("a callback that saves where it is told", TF + "def f(p): tf.keras.callbacks.ModelCheckpoint(p)", ""),
    ("a callback of others", "from lightning.callbacks import ModelCheckpoint\nModelCheckpoint('b')", ""),
]

SUBCLASS = "class O({}):\n    def {}(self, grad, var, apply_state=None): pass\n"
LEGACY = [
    ("a subclass of Optimizer", TF + SUBCLASS.format("tf.keras.optimizers.Optimizer", "_resource_apply_dense"), OF_2_8),
    (
        "of SGD, with slots",
        "from tensorflow.keras.optimizers import SGD\n" + SUBCLASS.format("SGD", "_create_slots"),
        OF_2_8,
    ),
    (
        "that calls _get_hyper",
        TF + "class O(tf.keras.optimizers.Adam):\n    def f(self): return self._get_hyper('a')",
        OF_2_8,
    ),
    ("weights of an optimizer", TF + "opt = tf.keras.optimizers.Adam()\nopt.get_weights()", OF_2_8),
    (
        "an optimizer by its name, in a program up to 2.8",
        EXPERIMENTAL + "prec.set_policy('mixed_float16')\nm = tf.keras.Sequential()\nm.compile('nadam', 'mse')",
        OF_2_8,
    ),
    ("lr=", TF + "tf.keras.optimizers.Adam(lr=0.1)", OF_2_8),
    (
        "decay= and a sign of Keras 2",
        TF + "tf.keras.optimizers.SGD(0.1, decay=1e-6)\ntf.keras.backend.learning_phase()",
        OF_2_8,
    ),
    # Nearly.
    (
        "a subclass of what is legacy by name",
        TF + SUBCLASS.format("tf.keras.optimizers.legacy.SGD", "_create_slots"),
        "--keras 2",
    ),
    (
        "that chooses",
        TF
        + "B = getattr(tf.keras.optimizers, 'legacy', tf.keras.optimizers)\n"
        + SUBCLASS.format("B.SGD", "_create_slots"),
        "",
    ),
    ("a new one", TF + SUBCLASS.format("tf.keras.optimizers.Optimizer", "update_step"), ""),
    (
        "an optimizer of TF 1",
        "import tensorflow.compat.v1 as tf\n" + SUBCLASS.format("tf.train.Optimizer", "_create_slots"),
        "",
    ),
    ("weights of a model", TF + "model = tf.keras.Sequential()\nmodel.get_weights()", ""),
    ("weights of both", TF + "a = tf.keras.optimizers.Adam()\nb = tf.keras.Sequential()\nb.get_weights()", ""),
    ("learning_rate=", TF + "tf.keras.optimizers.Adam(learning_rate=0.1)", ""),
    ("lr= of something else", TF + "make(lr=0.1)\ntf.keras.callbacks.LearningRateScheduler(lambda lr: lr)", ""),
    ("decay= alone, which Keras 3 ignores", TF + "tf.keras.optimizers.SGD(0.1, decay=1e-6)", ""),
    ("without an optimizer", EXPERIMENTAL + "prec.set_policy('mixed_float16')", "--keras 2"),
]
