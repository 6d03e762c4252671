"""Wrappers of Keras: calls by the value of the loss scale, and what else their classes are used for."""

from __future__ import annotations

from .pairs import becomes, stays

TF = "import tensorflow as tf\n"
TF_AND_KERAS = "import tensorflow as tf\nimport mpls.keras\n"
TF_AND_EXPERIMENTAL = "import tensorflow as tf\nimport mpls.experimental\n"
OLD = "tf.keras.mixed_precision.experimental.LossScaleOptimizer"
NEW = "mpls.keras.LossScaleOptimizer"
PUBLIC = "tf.keras.mixed_precision.LossScaleOptimizer"
KEPT = "mpls.experimental.LossScaleOptimizer"
SCALES = "tf.mixed_precision.experimental"


def call(old: str, new: str):
    """A call whose loss scale is in the source."""
    return becomes(f"{TF}opt = {OLD}({old})\n", f"{TF_AND_KERAS}opt = {NEW}({new})\n")


def kept(arguments: str, *left: str, before: str = "", after: str | None = None):
    """A call that goes to the experimental wrapper of mpls."""
    new = arguments if after is None else after
    return becomes(
        f"{TF}{before}opt = {OLD}({arguments})\n", f"{TF_AND_EXPERIMENTAL}{before}opt = {KEPT}({new})\n", *left
    )


PAIRS = {
    "dynamic": call("opt, 'dynamic'", "opt, dynamic=True"),
    "dynamic by keyword": call('opt, loss_scale="dynamic"', "opt, dynamic=True"),
    "a number": call("opt, 128", "opt, dynamic=False, initial_scale=128"),
    "a shift": call("opt, 1 << 7", "opt, dynamic=False, initial_scale=1 << 7"),
    "the loss scale first": call("loss_scale='dynamic', optimizer=opt", "dynamic=True, inner_optimizer=opt"),
    "a fixed object": call(f"opt, {SCALES}.FixedLossScale(16)", "opt, dynamic=False, initial_scale=16"),
    "a dynamic object": call(
        f"opt, {SCALES}.DynamicLossScale(8, 1000)", "opt, initial_scale=8, dynamic_growth_steps=1000"
    ),
    "a dynamic object without arguments": call(f"opt, {SCALES}.DynamicLossScale()", "opt, dynamic=True"),
    "an attribute": kept("opt, loss_scale=flags.loss_scale"),
    "stars": kept("opt, *arguments", "experimental-wrapper"),
    "two stars": kept("opt, **arguments", "experimental-wrapper"),
    "a scale below 1": kept("opt, 0.5", "experimental-wrapper"),
    "the largest scale": call("opt, 2.0**63 * 2.0**63", "opt, dynamic=False, initial_scale=2.0**63 * 2.0**63"),
    "a scale that mpls refuses": kept("opt, 1e38", "experimental-wrapper"),
    "an object with a scale that no float holds": kept(
        f"opt, {SCALES}.DynamicLossScale(1{'0' * 400})",
        "experimental-wrapper",
        after=f"opt, mpls.experimental.DynamicLossScale(1{'0' * 400})",
    ),
    "another word": kept("opt, 'static'", "experimental-wrapper"),
    "another multiplier": call(
        f"opt, {SCALES}.DynamicLossScale(8, multiplier=4)",
        "opt, initial_scale=8, growth_factor=4, backoff_factor=1 / 4",
    ),
    "a calculated multiplier": call(
        f"opt, {SCALES}.DynamicLossScale(multiplier=2 ** 3)", "opt, growth_factor=2 ** 3, backoff_factor=1 / (2 ** 3)"
    ),
    "a multiplier without an exact inverse": kept(
        f"opt, {SCALES}.DynamicLossScale(8, multiplier=3)",
        "experimental-wrapper",
        after="opt, mpls.experimental.DynamicLossScale(8, multiplier=3)",
    ),
    "an object with values of the program": kept(
        f"opt, {SCALES}.DynamicLossScale(flags.scale)", after="opt, mpls.experimental.DynamicLossScale(flags.scale)"
    ),
    "an object that is used elsewhere": becomes(
        f"{TF}scale = {SCALES}.DynamicLossScale(8)\nopt = {OLD}(opt, scale)\nprint(scale())\n",
        f"{TF_AND_EXPERIMENTAL}scale = mpls.experimental.DynamicLossScale(8)\nopt = {KEPT}(opt, scale)\n"
        "print(scale())\n",
    ),
    "a variable of the module": kept("opt, SCALE", before="SCALE = 'dynamic'\n"),
    "a constant of a function": becomes(
        f"{TF}def f(opt):\n    word, number = 'dynamic', 128\n    return {OLD}(opt, word), {OLD}(opt, number)\n",
        f"{TF_AND_KERAS}def f(opt):\n    word, number = 'dynamic', 128\n"
        f"    return {NEW}(opt, dynamic=True), {NEW}(opt, dynamic=False, initial_scale=number)\n",
    ),
    "a name that a function may set": becomes(
        f"{TF}scale = 128\n\ndef f():\n    global scale\n    scale = 1\n\nopt = {OLD}(opt, scale)\n",
        f"{TF_AND_EXPERIMENTAL}scale = 128\n\ndef f():\n    global scale\n    scale = 1\n\nopt = {KEPT}(opt, scale)\n",
    ),
    "a parameter": becomes(
        f"{TF}def f(opt, scale='dynamic'):\n    return {OLD}(opt, scale)\n",
        f"{TF_AND_EXPERIMENTAL}def f(opt, scale='dynamic'):\n    return {KEPT}(opt, scale)\n",
    ),
    "isinstance": becomes(
        f"{TF}isinstance(opt, {OLD})\nisinstance(opt, (int, {OLD}))\n",
        f"{TF_AND_KERAS}isinstance(opt, {NEW})\nisinstance(opt, (int, {NEW}))\n",
    ),
    "annotations": becomes(
        f"{TF}def f(opt: {OLD}, *others: 'int') -> Optional[{OLD}]:\n    x: {OLD} = opt\n    return x\n",
        f"{TF_AND_KERAS}def f(opt: {NEW}, *others: 'int') -> Optional[{NEW}]:\n    x: {NEW} = opt\n    return x\n",
    ),
    "a base class": becomes(
        f"""
        {TF.strip()}
        class Mine({OLD}):
            def __init__(self, opt):
                super().__init__(opt, 'dynamic')
        """,
        f"""
        {TF.strip()}
        import mpls.experimental
        class Mine({KEPT}):
            def __init__(self, opt):
                super().__init__(opt, 'dynamic')
        """,
    ),
    "a value": becomes(
        f"{TF}objects = {{'LossScaleOptimizer': {OLD}}}\nmake = {OLD}.from_config\n",
        f"{TF_AND_EXPERIMENTAL}objects = {{'LossScaleOptimizer': {KEPT}}}\nmake = {KEPT}.from_config\n",
        "experimental-wrapper",
    ),
    "the public wrapper": becomes(
        f"{TF}opt = tf.keras.mixed_precision.LossScaleOptimizer(opt, dynamic=False, initial_scale=128)\n",
        f"{TF_AND_KERAS}opt = {NEW}(opt, dynamic=False, initial_scale=128)\n",
    ),
    "as of 2.2": becomes(
        f"{TF}opt = {OLD}(opt, 'dynamic')\nother = {OLD}(opt, scale)\n",
        f"{TF}import mpls.experimental\nimport mpls.keras\nopt = {NEW}(opt, dynamic=True, skip_counts_step=False)\n"
        f"other = {KEPT}(opt, scale, skip_counts_step=False)\n",
        as_of="2.2",
    ),
    "the public wrapper with Keras 2": stays(
        f"{TF}opt = tf.keras.mixed_precision.LossScaleOptimizer(opt, dynamic=False, initial_scale=128)\n"
        "from tensorflow.keras.mixed_precision import LossScaleOptimizer\n",
        keras=2,
    ),
    "a hyperparameter of the public wrapper with Keras 2": becomes(
        f"{TF}opt = {PUBLIC}(opt)\nprint(opt.beta_1, opt.lr)\n",
        f"{TF_AND_KERAS}opt = {NEW}(opt)\nprint(opt.beta_1, opt.lr)\n",
        keras=2,
    ),
    "weights of the public wrapper with Keras 2": becomes(
        f"{TF}class A:\n    def __init__(self, o):\n        self.opt = {PUBLIC}(o)\n\n"
        "    def f(self):\n        return self.opt.get_weights()\n",
        f"{TF_AND_KERAS}class A:\n    def __init__(self, o):\n        self.opt = {NEW}(o)\n\n"
        "    def f(self):\n        return self.opt.get_weights()\n",
        keras=2,
    ),
    "issubclass of the public wrapper with Keras 2": becomes(
        f"{TF}issubclass(type(opt), {PUBLIC})\n", f"{TF_AND_KERAS}issubclass(type(opt), {NEW})\n", keras=2
    ),
    "the type of the public wrapper with Keras 2": becomes(
        f"{TF}type(opt) is {PUBLIC}\n", f"{TF_AND_KERAS}type(opt) is {NEW}\n", keras=2
    ),
    "a scale of the program's own class": becomes(
        f"{TF}class Mine({SCALES}.DynamicLossScale): pass\nopt = {OLD}(opt, Mine())\n",
        f"{TF_AND_EXPERIMENTAL}class Mine(mpls.experimental.DynamicLossScale): pass\nopt = {KEPT}(opt, Mine())\n",
        "loss-scale-classes",
    ),
    "an object that wrappers of TF 2.3 keep, behind a gate": becomes(
        f"{TF}scale = {SCALES}.DynamicLossScale(8)\nopt = {OLD}(opt, scale)\nprint(scale(), tf.__version__)\n",
        f"{TF_AND_EXPERIMENTAL}scale = mpls.experimental.DynamicLossScale(8)\n"
        f"opt = {KEPT}(opt, scale, skip_counts_step=True)\nprint(scale(), tf.__version__)\n",
        "experimental-wrapper",
        as_of="2.3",
    ),
    "that of Keras 3": stays("import keras\nopt = keras.optimizers.LossScaleOptimizer(opt, initial_scale=8)\n"),
    "that of mpls": stays("import mpls.keras\nopt = mpls.keras.LossScaleOptimizer(opt, dynamic=True)\n"),
    "public policies": stays(
        "import tensorflow as tf\n"
        "tf.keras.mixed_precision.set_global_policy('mixed_float16')\n"
        "policy = tf.keras.mixed_precision.Policy('mixed_float16')\n"
        "print(tf.keras.mixed_precision.global_policy().compute_dtype)\n"
    ),
    "a comment": stays(f"{TF}# {OLD}(opt, 'dynamic')\nprint()\n"),
    "a docstring": stays(f'"""Wraps by {OLD}."""\n{TF}'),
    "another name of tf": stays(
        "tf = make()\nopt = tf.keras.mixed_precision.experimental.LossScaleOptimizer(opt, 1)\n",
        "unknown-modules",
    ),
    "a variable of a loop called tf": stays(
        f"def f(opt):\n    for tf in []:\n        {OLD}(opt, 1)\n", "unknown-modules"
    ),
    "a comprehension's tf": stays(f"{TF}x = [{OLD}(opt, 1) for tf in modules]\n", "unknown-modules"),
    "a lambda's tf": stays(f"{TF}x = lambda tf: {OLD}(opt, 1)\n", "unknown-modules"),
    "tf that may be something else": stays(
        f"{TF}if other:\n    tf = other\nopt = {OLD}(opt, 1)\n", "experimental-wrapper"
    ),
    "an exception called tf": stays(
        f"{TF}try:\n    pass\nexcept Exception as tf:\n    {OLD}(opt, 1)\n", "experimental-wrapper"
    ),
    "comments beside a loss scale in parentheses": becomes(
        f"{TF}opt = {OLD}(\n    o,  # inner\n    (\n        128  # fixed\n    ),\n)\n",
        "import tensorflow as tf\nimport mpls.experimental\nopt = mpls.experimental.LossScaleOptimizer(\n"
        "    o,  # inner\n    (\n        128  # fixed\n    ),\n)\n",
    ),
    "a case of match": becomes(
        f"{TF}match opt:\n    case {OLD}():\n        pass\n    case [{OLD}(loss_scale=x), *_] | {{1: {OLD}()}}:\n        pass\n",
        f"{TF_AND_KERAS}match opt:\n    case {NEW}():\n        pass\n    case [{NEW}(loss_scale=x), *_] | {{1: {NEW}()}}:\n"
        "        pass\n",
    ),
    "a multiplier in a variable": becomes(
        f"{TF}ls = {SCALES}.DynamicLossScale(8.0, 2, 4.0)\nopt = {OLD}(opt, ls)\n",
        f"{TF_AND_EXPERIMENTAL}ls = mpls.experimental.DynamicLossScale(8.0, 2, 4.0)\nopt = {KEPT}(opt, ls)\n",
        "experimental-wrapper",
    ),
    "a comment in a name": becomes(
        f"{TF}opt = (\n    tf.keras  # Keras\n    .mixed_precision.experimental\n    # the wrapper\n"
        "    .LossScaleOptimizer(opt, 8)\n)\n",
        f"{TF_AND_KERAS}opt = (\n    {NEW}  # Keras\n    # the wrapper\n    (opt, dynamic=False, initial_scale=8)\n)\n",
    ),
    "no tf at all": stays(f"opt = {OLD}(opt, 1)\n", "unknown-modules"),
}
