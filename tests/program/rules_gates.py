"""Conditions that test for the release, ones that only sound so, and names with several spellings: source and options."""

from __future__ import annotations

from .programs import TF, WRAPPED

SESSION = "    tf.Session()\n"
GATES = [
    ("a version", TF + "if tf.__version__ < '2.5':\n    pass\nelif tf.version.VERSION > x:\n" + SESSION, ""),
    ("a part of it", TF + "MAJOR, MINOR = map(int, tf.__version__.split('.')[:2])\nif MAJOR == 1:\n" + SESSION, ""),
    ("a function for it", TF + "def is_old(): return tf.__version__[0] == '1'\nif is_old():\n" + SESSION, ""),
    ("an attribute of self", TF + "class C:\n    def __init__(self):\n        self.old = tf.__version__[0] == '1'\n"
     "    def run(self):\n        if self.old:\n        " + SESSION, ""),
    ("what TensorFlow has", TF + "if hasattr(tf, 'Session'):\n" + SESSION, ""),
    ("what a part of it has", TF + "import tensorflow.compat as c\nif not hasattr(c, 'v9'):\n" + SESSION, ""),
    ("what an optimizer has", TF + "if hasattr(opt, 'get_scaled_loss'):\n" + SESSION, ""),
    ("a module that may be None", TF + "try:\n    import tf_keras\nexcept ImportError:\n    tf_keras = None\n"
     "if tf_keras is None:\n" + SESSION, ""),
    ("eager mode", TF + "if not tf.executing_eagerly():\n" + SESSION, ""),
    ("a flag of a try", TF + "try:\n    import horovod\n    HVD = True\nexcept ImportError:\n    HVD = False\nif HVD:\n" + SESSION, ""),
    ("a flag of a module that is not read", TF + "from somewhere.compat import IS_TF2\nif not IS_TF2:\n" + SESSION, ""),
    ("an attribute of such a module", TF + "from somewhere import compat\nif not compat.is_tf_2:\n" + SESSION, ""),
]  # fmt: skip
NO_GATES = [
    ("a device", TF + "if tf.test.is_gpu_available():\n" + SESSION, "--v1"),
    ("a word of data", TF + "def f(has_labels):\n    if has_labels:\n    " + SESSION + "f(1)", "--v1"),
    ("an option", TF + "args = parse()\nif args.use_legacy_decay:\n" + SESSION, "--v1"),
    ("a version of data", TF + "data_version = 3\nif data_version > 2:\n" + SESSION, "--v1"),
    ("an object of the program's", TF + "class A: pass\na = A()\nif hasattr(a, 'x'):\n" + SESSION, "--v1"),
    ("what can be called", TF + "def f(hook):\n    if callable(hook):\n    " + SESSION + "f(1)", "--v1"),
    ("its directory", TF + "if 'x' in dir(thing):\n" + SESSION, "--v1"),
    ("a name of tf.compat", TF + "if flag == tf.compat.as_str('x'):\n" + SESSION, "--v1"),
    ("an installed dataset", TF + "installed = find('data')\nif installed:\n" + SESSION, "--v1"),
    ("a flag of TensorFlow", TF + "FLAGS = tf.compat.v1.flags.FLAGS\nif FLAGS.fp16:\n" + SESSION, "--v1"),
]
NAMES = [
    ("of a tuple", TF + "mp, n = tf.keras.mixed_precision.experimental, 1\nmp.set_policy('float32')", "--keras 2"),
    ("of a walrus", TF + "if (mp := tf.keras.mixed_precision.experimental):\n    mp.set_policy('float32')", "--keras 2"),
    (
        "of another scope",
        TF + "mp = None\ndef f():\n    global mp\n    mp = tf.keras.mixed_precision.experimental\nf()\nmp.set_policy('float32')",
        "--keras 2",
    ),
    ("None first", "tf = None\n" + TF + "tf.Session()", "--v1"),
    ("or None", TF + "S = tf.Session if x else None\nS()", "--v1"),
    ("of a case", TF + "match x:\n    case tf.keras.mixed_precision.experimental.LossScaleOptimizer():\n        pass", "--keras 2"),
    ("deleted later", WRAPPED + "del tf", "--keras 2 --legacy-optimizers"),
    ("a default", TF + "S = getattr(tf, 'Session', tf.compat.v1.layers)\n", ""),
]  # fmt: skip
