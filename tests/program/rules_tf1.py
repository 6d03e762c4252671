"""Programs of TF 1, those of its contrib, and ones that nearly look the same: source and options."""

from __future__ import annotations

from .programs import TF

V1 = [
    ("a placeholder", TF + "x = tf.placeholder(tf.float32)", "--v1"),
    ("a session", "import tensorflow\nwith tensorflow.Session() as s:\n    pass", "--v1"),
    ("from the package", "from tensorflow import placeholder", "--v1"),
    ("from a module in it", "from tensorflow.train import AdamOptimizer", "--v1"),
    ("flags", TF + "tf.app.flags.DEFINE_string('a', '', '')", "--v1"),
    ("eager TF 1", TF + "tf.enable_eager_execution()\nwith tf.GradientTape() as tape:\n    pass", "--v1"),
    ("the rest of contrib", TF + "tf.contrib.layers.xavier_initializer()", "--v1"),
    ("in a function", TF + "def f():\n    return tf.get_variable('a', [])", "--v1"),
    ("layers, which need Keras 2", TF + "tf.layers.dense(tf.placeholder(tf.float32), 1)", "--v1 --keras 2"),
    ("with Keras", TF + "s = tf.Session()\ntf.keras.layers.Dense(1)", "--v1 --keras 2"),
    ("a session for Keras", TF + "tf.keras.backend.set_session(None)", "--v1 --keras 2"),
    ("in a function that is named", TF + "def f():\n    tf.Session()\nCALLS = {'f': f}\nprint(CALLS)", "--v1"),
    ("in main, for tf.app", TF + "def main(_):\n    tf.Session()\nif __name__ == '__main__': tf.app.run()", "--v1"),
    ("in a method", TF + "class A(B):\n    def f(self):\n        tf.Session()\nprint()", "--v1"),
    ("in functions of a file without more", TF + "def f():\n    tf.Session()", "--v1"),
    ("in a function that is looked up", TF + "def f():\n    tf.Session()\nglobals()[NAME]()", "--v1"),
    ("in a function that getattr finds", TF + "def f():\n    tf.Session()\ngetattr(here, NAME)()", "--v1"),
    ("in a decorated function", TF + "@command\ndef f():\n    tf.Session()\nrun()", "--v1"),
    # Nearly.
    ("in a function that nothing calls", TF + "def f():\n    tf.Session()\nprint()", ""),
    ("in a class that nothing makes", TF + "class A:\n    def f(self):\n        tf.Session()\nprint()", ""),
    ("where nothing comes", TF + "if False:\n    tf.Session()\nif TYPE_CHECKING:\n    tf.Session()", ""),
    (
        "behind a gate of two numbers",
        TF + "major, minor = map(int, tf.__version__.split('.')[:2])\nif major < 2:\n    tf.Session()",
        "",
    ),
    ("a loss of both", TF + "tf.losses.mean_squared_error(1, 1)", ""),
    ("compat.v1", "import tensorflow.compat.v1 as tf\ntf.disable_v2_behavior()\nx = tf.placeholder(tf.float32)", ""),
    ("compat.v1 from the package", "from tensorflow.compat import v1 as tf\ns = tf.Session()", ""),
    ("compat.v1 as an attribute", TF + "s = tf.compat.v1.Session()", ""),
    ("an alias of compat.v1", TF + "tf1 = tf.compat.v1\ns = tf1.Session()", ""),
    ("a name of both", TF + "x = tf.constant(1.0)\ny = tf.reduce_sum(x)\nv = tf.Variable(x)", ""),
    ("another package", "import torch as tf\ns = tf.Session()", ""),
    ("a shadowed name", TF + "def f(tf):\n    return tf.Session()", ""),
    ("a name in a comprehension", TF + "a = [tf.placeholder for tf in ()]", ""),
    ("a member of something else", TF + "class A:\n    def f(self):\n        return self.tf.Session()", ""),
    (
        "compat.v1 where it is there",
        "try:\n    import tensorflow.compat.v1 as tf\nexcept ImportError:\n    " + TF + "s = tf.Session()",
        "",
    ),
    ("behind a gate", TF + "if tf.__version__.startswith('1.'):\n    s = tf.Session()", ""),
    ("behind hasattr", TF + "s = tf.Session() if hasattr(tf, 'Session') else None", ""),
    ("behind hasattr and and", TF + "x = hasattr(tf, 'app') and tf.app.flags", ""),
    ("behind a gate with a name", TF + "IS_OLD = int(tf.__version__[0]) < 2\nif IS_OLD:\n    s = tf.Session()", ""),
    (
        "behind a function that is a gate",
        TF + "def is_1():\n    return tf.__version__ < '2'\nif is_1():\n    tf.Session()",
        "",
    ),
    (
        "after a gate that returned",
        TF + "def f():\n    if tf.__version__ >= '2':\n        return tf.zeros([])\n    return tf.Session()",
        "",
    ),
    ("in a handler", TF + "try:\n    a = tf.math.log\nexcept AttributeError:\n    a = tf.log", ""),
    ("in a text", TF + "'tf.Session()'  # tf.placeholder", ""),
]

CONTRIB = [
    ("an attribute", TF + "tf.contrib.mixed_precision.FixedLossScaleManager(8)", "--contrib"),
    ("an import", "from tensorflow.contrib.mixed_precision import LossScaleOptimizer", "--contrib"),
    ("an import of the module", "from tensorflow.contrib import mixed_precision", "--contrib"),
    ("and TF 1", TF + "tf.contrib.mixed_precision.FixedLossScaleManager(8)\ntf.Session()", "--v1 --contrib"),
    # Nearly.
    (
        "where it is there",
        "try:\n    from tensorflow.contrib import mixed_precision\nexcept ImportError:\n    pass",
        "",
    ),
    ("another namespace", "import mine\nmine.contrib.mixed_precision.LossScaleOptimizer()", ""),
]
