"""All forms of imports: of modules, of names, with aliases, in one statement with others, in branches."""

from __future__ import annotations

from .pairs import becomes, stays

PAIRS = {
    "comments behind names that go to several modules": becomes(
        "from tensorflow.keras.mixed_precision.experimental import (\n    # Half of it.\n"
        "    LossScaleOptimizer,  # the wrapper\n    set_policy,  # noqa: F401\n    global_policy, Policy,\n)\n"
        "opt = LossScaleOptimizer(o, 'dynamic')\n",
        "# Half of it.\n# the wrapper\n# noqa: F401\nfrom mpls.keras import LossScaleOptimizer\n"
        "from mpls.experimental import set_policy, global_policy, Policy\nopt = LossScaleOptimizer(o, dynamic=True)\n",
    ),
    "names of several modules": becomes(
        "from tensorflow.train.experimental import DynamicLossScale, enable_mixed_precision_graph_rewrite\n",
        "from mpls.v1 import DynamicLossScale, enable_mixed_precision_graph_rewrite\n",
    ),
    "a removed module": becomes(
        "from tensorflow.keras.mixed_precision import experimental as prec\nprec.set_policy('mixed_float16')\n",
        "from mpls import experimental as prec\nprec.set_policy('mixed_float16')\n",
    ),
    "import as": becomes(
        "import tensorflow.keras.mixed_precision.experimental as mixed_precision\nmixed_precision.global_policy()\n",
        "import mpls.experimental as mixed_precision\nmixed_precision.global_policy()\n",
    ),
    "import without as": becomes(
        "import tensorflow.keras.mixed_precision.experimental\n"
        "tensorflow.keras.mixed_precision.experimental.set_policy('mixed_float16')\n",
        "import tensorflow\nimport mpls.experimental\nmpls.experimental.set_policy('mixed_float16')\n",
    ),
    "a name": becomes(
        "from tensorflow.keras.mixed_precision.experimental import LossScaleOptimizer\n"
        "opt = LossScaleOptimizer(opt, 'dynamic')\n",
        "from mpls.keras import LossScaleOptimizer\nopt = LossScaleOptimizer(opt, dynamic=True)\n",
    ),
    "a name that is only passed on": becomes(
        "from tensorflow.keras.mixed_precision.experimental import LossScaleOptimizer\n__all__ = ['LossScaleOptimizer']\n",
        "from mpls.experimental import LossScaleOptimizer\n__all__ = ['LossScaleOptimizer']\n",
    ),
    "some names stay": becomes(
        "from tensorflow.keras.mixed_precision import Policy, LossScaleOptimizer  # both\nopt = LossScaleOptimizer(opt)\n",
        "from tensorflow.keras.mixed_precision import Policy\n"
        "from mpls.keras import LossScaleOptimizer  # both\nopt = LossScaleOptimizer(opt)\n",
    ),
    "a private module of policies": becomes(
        "from tensorflow.python.keras.mixed_precision.experimental import policy\npolicy.policy_scope('float32')\n",
        "from mpls.experimental import policy\npolicy.policy_scope('float32')\n",
    ),
    "contrib": becomes(
        "from tensorflow.contrib import mixed_precision as cmp\n"
        "opt = cmp.LossScaleOptimizer(opt, cmp.ExponentialUpdateLossScaleManager(2**32, 1000))\n",
        "from mpls import contrib as cmp\n"
        "opt = cmp.LossScaleOptimizer(opt, cmp.ExponentialUpdateLossScaleManager(2**32, 1000))\n",
    ),
    "contrib by attributes": becomes(
        "import tensorflow as tf\nm = tf.contrib.mixed_precision.FixedLossScaleManager(1)\n",
        "import tensorflow as tf\nimport mpls.contrib\nm = mpls.contrib.FixedLossScaleManager(1)\n",
    ),
    "keras of tf": becomes(
        "from tensorflow import keras\nkeras.mixed_precision.experimental.set_policy('float32')\n",
        "from tensorflow import keras\nimport mpls.experimental\nmpls.experimental.set_policy('float32')\n",
    ),
    "a namespace that is still there": becomes(
        "from tensorflow.keras import mixed_precision as mp\n"
        "mp.experimental.set_policy('float32')\nmp.set_global_policy('float32')\n",
        "from tensorflow.keras import mixed_precision as mp\nimport mpls.experimental\n"
        "mpls.experimental.set_policy('float32')\nmp.set_global_policy('float32')\n",
    ),
    "a namespace that nothing has as a whole": becomes(
        "from tensorflow import mixed_precision\nscale = mixed_precision.experimental.DynamicLossScale()\n",
        "from tensorflow import mixed_precision\nimport mpls.experimental\nscale = mpls.experimental.DynamicLossScale()\n",
        "unknown-modules",
    ),
    "an alias by assignment": becomes(
        "import tensorflow as tf\nmp = tf.keras.mixed_precision.experimental\nmp.set_policy(mp.Policy('float32'))\n",
        "import tensorflow as tf\nimport mpls.experimental\nmp = mpls.experimental\nmp.set_policy(mp.Policy('float32'))\n",
    ),
    "an import in a function": becomes(
        "def f(opt):\n    import tensorflow as tf\n    return tf.train.experimental.enable_mixed_precision_graph_rewrite(opt)\n",
        "def f(opt):\n    import tensorflow as tf\n    import mpls.v1\n"
        "    return mpls.v1.enable_mixed_precision_graph_rewrite(opt)\n",
    ),
    "an import in another function": becomes(
        "@run\ndef load():\n    global tf\n    import tensorflow as tf\n"
        "def f():\n    return tf.keras.mixed_precision.experimental.Policy('float32')\n",
        "import mpls.experimental\n@run\ndef load():\n    global tf\n    import tensorflow as tf\n"
        "def f():\n    return mpls.experimental.Policy('float32')\n",
    ),
    "an import after a colon": becomes(
        "try: import tensorflow as tf\nexcept ImportError: tf = None\n"
        "tf.keras.mixed_precision.experimental.set_policy('float32')\n",
        "try: import tensorflow as tf; import mpls.experimental\nexcept ImportError: tf = None\n"
        "mpls.experimental.set_policy('float32')\n",
    ),
    "two imports of tf": becomes(
        "import tensorflow as tf\nimport tensorflow as tf\ntf.keras.mixed_precision.experimental.set_policy('float32')\n",
        "import tensorflow as tf\nimport mpls.experimental\nimport tensorflow as tf\n"
        "mpls.experimental.set_policy('float32')\n",
    ),
    "an import that is there already": becomes(
        "import mpls.experimental\nimport tensorflow as tf\ntf.keras.mixed_precision.experimental.set_policy('float32')\n",
        "import mpls.experimental\nimport tensorflow as tf\nmpls.experimental.set_policy('float32')\n",
    ),
    "the name mpls is taken": becomes(
        "import tensorflow as tf\nmpls = 1\ntf.keras.mixed_precision.experimental.set_policy('float32')\n",
        "import tensorflow as tf\nimport mpls.experimental as mpls_experimental\nmpls = 1\n"
        "mpls_experimental.set_policy('float32')\n",
    ),
    "both arms of a try": becomes(
        "try:\n    from tensorflow.keras.mixed_precision import experimental as mp\n"
        "except ImportError:\n    from tensorflow.keras import mixed_precision as mp\nmp.Policy('float32')\n",
        "try:\n    from mpls import experimental as mp\n"
        "except ImportError:\n    from tensorflow.keras import mixed_precision as mp\nmp.Policy('float32')\n",
    ),
    "both arms of a try, by name": becomes(
        "try:\n    from tensorflow.keras.mixed_precision.experimental import LossScaleOptimizer\n"
        "except ImportError:\n    from tensorflow.keras.mixed_precision import LossScaleOptimizer\n"
        "opt = LossScaleOptimizer(opt, 'dynamic')\n",
        "try:\n    from mpls.keras import LossScaleOptimizer\n"
        "except ImportError:\n    from mpls.keras import LossScaleOptimizer\n"
        "opt = LossScaleOptimizer(opt, dynamic=True)\n",
    ),
    "both arms of a gate": becomes(
        "import tensorflow as tf\nif hasattr(tf.keras.mixed_precision, 'set_global_policy'):\n"
        "    opt = tf.keras.mixed_precision.LossScaleOptimizer(opt)\nelse:\n"
        "    opt = tf.keras.mixed_precision.experimental.LossScaleOptimizer(opt, 'dynamic')\n",
        "import tensorflow as tf\nimport mpls.keras\nif hasattr(tf.keras.mixed_precision, 'set_global_policy'):\n"
        "    opt = mpls.keras.LossScaleOptimizer(opt)\nelse:\n"
        "    opt = mpls.keras.LossScaleOptimizer(opt, dynamic=True)\n",
    ),
    "one of two classes": becomes(
        "import tensorflow as tf\nmp = tf.keras.mixed_precision\n"
        "LSO = mp.experimental.LossScaleOptimizer if old else mp.LossScaleOptimizer\nopt = LSO(opt)\n",
        "import tensorflow as tf\nimport mpls.experimental\nimport mpls.keras\nmp = tf.keras.mixed_precision\n"
        "LSO = mpls.experimental.LossScaleOptimizer if old else mpls.keras.LossScaleOptimizer\n"
        "opt = mpls.keras.LossScaleOptimizer(opt)\n",
    ),
    "None where it is missing": becomes(
        "try:\n    from tensorflow.keras.mixed_precision.experimental import LossScaleOptimizer\n"
        "except ImportError:\n    LossScaleOptimizer = None\nisinstance(opt, LossScaleOptimizer)\n",
        "try:\n    from mpls.keras import LossScaleOptimizer\n"
        "except ImportError:\n    LossScaleOptimizer = None\nisinstance(opt, LossScaleOptimizer)\n",
    ),
    "a star of another module": stays(
        "from tensorflow.keras.layers import *\nimport tensorflow.keras.mixed_precision\n"
    ),
    "a star of contrib": becomes(
        "from tensorflow.contrib.mixed_precision import *\n",
        "from mpls.contrib import ExponentialUpdateLossScaleManager, FixedLossScaleManager, LossScaleManager, "
        "LossScaleOptimizer\n",
    ),
    "contrib under another name": becomes(
        "import tensorflow.contrib as tfc\nm = tfc.mixed_precision.FixedLossScaleManager(1)\n",
        "import tensorflow.contrib as tfc\nimport mpls.contrib\nm = mpls.contrib.FixedLossScaleManager(1)\n",
        "unknown-modules",
    ),
    "a relative import": stays(
        "from .mixed_precision import LossScaleOptimizer\nopt = LossScaleOptimizer(opt, 'dynamic')\n"
    ),
    "a local name": stays("def f(mixed_precision):\n    return mixed_precision.experimental.Policy('float32')\n"),
}
