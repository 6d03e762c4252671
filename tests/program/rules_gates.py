"""Conditions that test for the release, ones that only sound so, and names with several spellings: source and options."""

from __future__ import annotations

from .programs import TF, WRAPPED

SESSION = "    tf.Session()\n"
GATES = [
    ("a version", TF + "if tf.__version__ < '2.5':\n    pass\nelif tf.version.VERSION > x:\n" + SESSION, ""),
    ("an attribute of self", TF + "class C:\n    def __init__(self):\n        self.old = tf.__version__[0] == '1'\n"
     "    def run(self):\n        if self.old:\n        " + SESSION, ""),
    ("what TensorFlow has", TF + "if hasattr(tf, 'Session'):\n" + SESSION, ""),
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
    ("None first", "tf = None\n" + TF + "tf.Session()", "--v1"),
    ("or None", TF + "S = tf.Session if x else None\nS()", "--v1"),
    ("deleted later", WRAPPED + "del tf", "--keras 2 --legacy-optimizers"),
    ("a default", TF + "S = getattr(tf, 'Session', tf.compat.v1.layers)\n", ""),
]  # fmt: skip
SPELLINGS = [
    ("a compat module in one", "import tensorflow.compat.v1 as tf\ntf.compat.v2.keras.mixed_precision.experimental.set_policy('float32')", "--keras 2"),
    ("deeper", "import tensorflow.compat.v2 as tf\ntf.compat.v1.compat.v2.compat.v1.keras.mixed_precision.experimental.set_policy('float32')", "--keras 2 --as-of 2.2"),
    ("layers of TF 1", "import tensorflow.compat.v2 as tf\ntf.compat.v1.layers.dense(x, 1)", "--keras 2"),
    ("what neither has", "import tensorflow.compat.v2 as tf\ntf.compat.v3.layers.dense(x, 1)", ""),
    ("the core", "from tensorflow_core.python.keras.mixed_precision.experimental import loss_scale_optimizer as l\n" + TF
     + "l.LossScaleOptimizer(tf.keras.optimizers.SGD(1), 1)", "--keras 2 --legacy-optimizers --as-of 2.3"),
    ("keras of python", TF + "from tensorflow.keras.mixed_precision import experimental\nopt = tf.python.keras.optimizers.SGD(1)\n"
     "experimental.LossScaleOptimizer(opt, 1)", "--keras 2 --legacy-optimizers"),
]  # fmt: skip
SUB = TF + "class L(tf.keras.mixed_precision.LossScaleOptimizer):\n    def __init__(self, opt, **kw):\n        "
SUBCLASSES = [
    ("by position", SUB + "super().__init__(opt, False, 2)", "--keras 2 --replace-existing"),
    (
        "by the name of the base",
        SUB + "tf.keras.mixed_precision.LossScaleOptimizer.__init__(self, opt, dynamic=False)",
        "--keras 2 --replace-existing",
    ),
    ("behind a test", SUB + "if tf.__version__ > x:\n            super().__init__(opt, dynamic=False)", ""),
]
AMP = TF + "AMP = False\n"
OLD = "tf.keras.mixed_precision.experimental.set_policy('float32')\n"
SWITCHES = [
    ("a switch", AMP + "if AMP:\n    " + OLD, "--keras 2"),
    ("a number", TF + "AMP = 0\nif AMP:\n    " + OLD, "--keras 2"),
    ("negated", TF + "NO_AMP = True\nif not NO_AMP:\n    " + OLD, "--keras 2"),
    ("the other arm", TF + "NEW = True\nif NEW:\n    pass\nelse:\n    " + OLD, ""),
    ("after a return", AMP + "def f():\n    if not AMP:\n        return\n    " + OLD + "f()", "--keras 2"),
    ("in an expression", AMP + "x = tf.Session if AMP else None", ""),
    ("what is imported behind it", AMP + "if AMP:\n    from tensorflow.keras.mixed_precision import experimental as e\n    e.set_policy('float32')", "--keras 2"),
    ("imported and used behind it", AMP + "if AMP:\n    from tensorflow.keras.mixed_precision import experimental as e\nif AMP:\n    e.set_policy('float32')", "--keras 2"),
    ("contradicted", AMP + "import tf_keras\nif AMP:\n    " + OLD, ""),
    ("contradicted by the mode", AMP + "with tf.GradientTape():\n    pass\nif AMP:\n    tf.Session()", ""),
    *(
        (f"contradicted, by {test}", AMP + f"MODE, VER = 'tf2', 2\nwith tf.GradientTape():\n    pass\nif {test}:\n    tf.Session()", "")
        for test in ("AMP and A", "A and AMP", "AMP is True", "AMP == True", "AMP is not False", "bool(AMP)", "not (A or not AMP)")
    ),
    *(
        (f"contradicted, by {test}", TF + f"MODE = 'tf2'\nVER = 2\nwith tf.GradientTape():\n    pass\nif {test}:\n    tf.Session()", "")
        for test in ("MODE == 'tf1'", "VER == 1", "VER < 2", "MODE in ('tf1', 'graph')", "MODE not in ['tf2']")
    ),
    ("contradicted, in an operand", AMP + "with tf.GradientTape():\n    pass\nAMP and tf.Session()", ""),
    ("a test that may hold", AMP + "if A or not AMP:\n    " + OLD, "--keras 2"),
    ("an operand that may run", AMP + "with tf.GradientTape():\n    pass\nA and " + OLD, "--keras 2"),
    ("a part of a text", TF + "MODE = 'tf1'\nif MODE in 'tf1 graph':\n    " + OLD, "--keras 2"),
    ("a tuple", TF + "VER = 1\nif VER != (1, 2):\n    " + OLD, "--keras 2"),
    ("values that are not compared", TF + "VER = 'a'\nif VER < 2:\n    " + OLD, "--keras 2"),
    ("TF 1", AMP + "if AMP:\n    tf.Session()", ""),
    ("TF 1 that runs anyway", AMP + "tf.placeholder(tf.float32)\nif AMP:\n    tf.Session()", "--v1"),
    ("no switch", TF + "if False:\n    " + OLD, ""),
    ("for type checkers", TF + "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    " + OLD, ""),
    ("a version", TF + "OLD = tf.__version__ < '2.4'\nif OLD:\n    pass\nelse:\n    " + OLD, ""),
    ("set again", AMP + "AMP = parse()\nif AMP:\n    " + OLD, "--keras 2"),
]  # fmt: skip
MODEL = TF + "m = tf.keras.Sequential()\n"
FIRST_TRY = [
    ("metrics", TF + "m = tf.keras.metrics.Mean()\nm.reset_states()", "--keras 2"),
    ("weights of any name", MODEL + "m.save_weights(name + '.h5')\nm.save_weights(name)", ""),
    ("an aggregator", TF + "tf.optimizers.Adam(1, gradient_aggregator=f)", "--keras 2 --legacy-optimizers"),
    ("cells of TF 1", TF + "tf.keras.layers.CuDNNLSTM(2)", "--v1 --keras 2"),
    ("contrib and layers", TF + "tf.contrib.mixed_precision.FixedLossScaleManager(8)\nx = tf.placeholder(1)\ntf.layers.dense(x, 2)", "--v1 --contrib --keras 2"),
    ("contrib and layers of Keras", TF + "tf.contrib.mixed_precision.FixedLossScaleManager(8)\nx = tf.compat.v1.layers.dense(x, 2)", "--contrib --keras 2"),
]  # fmt: skip
