"""Programs of TF 1, those of its contrib, and ones that nearly look the same: source and options."""

from __future__ import annotations

from .programs import TF

V1 = [
    ("a session", "import tensorflow\nwith tensorflow.Session() as s:\n    pass", "--v1"),
    ("eager TF 1", TF + "tf.enable_eager_execution()\nwith tf.GradientTape() as tape:\n    pass", "--v1"),
    ("in a function that is looked up", TF + "def f():\n    tf.Session()\nglobals()[NAME]()", "--v1"),
    ("in a function that getattr finds", TF + "def f():\n    tf.Session()\ngetattr(here, NAME)()", "--v1"),
    ("in a decorated function", TF + "@command\ndef f():\n    tf.Session()\nrun()", "--v1"),
    # Nearly.
    ("a name in a comprehension", TF + "a = [tf.placeholder for tf in ()]", ""),
    ("behind a gate", TF + "if tf.__version__.startswith('1.'):\n    s = tf.Session()", ""),
    ("behind hasattr", TF + "s = tf.Session() if hasattr(tf, 'Session') else None", ""),
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
    ("in a text", TF + "'tf.Session()'  # tf.placeholder", ""),
]

CONTRIB = [
    ("an attribute", TF + "tf.contrib.mixed_precision.FixedLossScaleManager(8)", "--contrib"),
    ("and TF 1", TF + "tf.contrib.mixed_precision.FixedLossScaleManager(8)\ntf.Session()", "--v1 --contrib"),
]
