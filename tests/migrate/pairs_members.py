"""`.loss_scale()` on wrappers and on everything else; gates, strings and policies that are only reported."""

from __future__ import annotations

from .pairs import Pair, becomes, stays

NAME = "loss-scale-calls"
OLD = "tf.keras.mixed_precision.experimental.LossScaleOptimizer"


def made(use: str, after: str = "", *left: str) -> Pair:
    """What a program does with a wrapper `opt`; "" if that stays."""
    return becomes(
        f"import tensorflow as tf\nopt = {OLD}(inner, 'dynamic')\n{use}",
        f"import tensorflow as tf\nimport mpls.keras\nopt = mpls.keras.LossScaleOptimizer(inner, dynamic=True)\n{after or use}",
        *left,
    )


def imported(use: str, after: str, *left: str) -> Pair:
    """What a program does that imports the class of the wrapper."""
    old = "from tensorflow.keras.mixed_precision.experimental import LossScaleOptimizer\n"
    return becomes(f"{old}{use}", f"from mpls.keras import LossScaleOptimizer\n{after}", *left)


PAIRS = {
    "a variable": made("print(opt.loss_scale())\n", "print(opt.loss_scale)\n"),
    "an attribute of self": becomes(
        "import tensorflow as tf\nclass A:\n    def __init__(self, inner):\n"
        "        self.opt = tf.keras.mixed_precision.experimental.LossScaleOptimizer(inner, 'dynamic')\n"
        "    def f(self):\n        return float(self.opt.loss_scale())\n",
        "import tensorflow as tf\nimport mpls.keras\nclass A:\n    def __init__(self, inner):\n"
        "        self.opt = mpls.keras.LossScaleOptimizer(inner, dynamic=True)\n    def f(self):\n"
        "        return float(self.opt.loss_scale)\n",
    ),
    "self in a subclass": becomes(
        "import tensorflow as tf\nclass A(tf.keras.mixed_precision.experimental.LossScaleOptimizer):\n"
        "    def f(self):\n        return self.loss_scale() * 2\n",
        "import tensorflow as tf\nimport mpls.experimental\nclass A(mpls.experimental.LossScaleOptimizer):\n"
        "    def f(self):\n        return self.loss_scale * 2\n",
    ),
    "what a function returns": becomes(
        "import tensorflow as tf\ndef make(opt):\n"
        "    return tf.keras.mixed_precision.experimental.LossScaleOptimizer(opt, 'dynamic')\nopt = make(o)\n"
        "opt.loss_scale( ).numpy()\n",
        "import tensorflow as tf\nimport mpls.keras\ndef make(opt):\n"
        "    return mpls.keras.LossScaleOptimizer(opt, dynamic=True)\nopt = make(o)\nopt.loss_scale.numpy()\n",
    ),
    "what isinstance asks for": becomes(
        "import tensorflow as tf\ndef f(opt):\n"
        "    if isinstance(opt, tf.keras.mixed_precision.experimental.LossScaleOptimizer) and opt:\n"
        "        print('scale', opt.loss_scale())\n",
        "import tensorflow as tf\nimport mpls.keras\ndef f(opt):\n"
        "    if isinstance(opt, mpls.keras.LossScaleOptimizer) and opt:\n        print('scale', opt.loss_scale)\n",
    ),
    "an f-string": made(
        "print(f'{opt.loss_scale()} and {opt.loss_scale()}')\n",
        "print(f'{opt.loss_scale} and {opt.loss_scale}')\n",
    ),
    "the graph rewrite of an optimizer of Keras": becomes(
        "import tensorflow as tf\nopt = tf.keras.optimizers.SGD()\n"
        "wrapped = tf.train.experimental.enable_mixed_precision_graph_rewrite(opt)\nwrapped.loss_scale()\n",
        "import tensorflow as tf\nimport mpls.v1\nopt = tf.keras.optimizers.SGD()\n"
        "wrapped = mpls.v1.enable_mixed_precision_graph_rewrite(opt)\nwrapped.loss_scale\n",
    ),
    "what is used as a wrapper": becomes(
        "import tensorflow as tf\ndef f(opt, opts):\n"
        "    s = opt.get_scaled_loss(l), opts[0].get_unscaled_gradients(g)\n"
        "    print(opt.loss_scale(), opts[i].loss_scale())\n",
        "import tensorflow as tf\ndef f(opt, opts):\n"
        "    s = opt.get_scaled_loss(l), opts[0].get_unscaled_gradients(g)\n"
        "    print(opt.loss_scale, opts[i].loss_scale)\n",
    ),
    "a parameter that gets nothing else": imported(
        "opt = LossScaleOptimizer(o, 8)\ndef scale(opt):\n    return opt.loss_scale()\nscale(opt)\n"
        "scale(opt=LossScaleOptimizer(o, 8))\n",
        "opt = LossScaleOptimizer(o, dynamic=False, initial_scale=8)\ndef scale(opt):\n    return opt.loss_scale\n"
        "scale(opt)\nscale(opt=LossScaleOptimizer(o, dynamic=False, initial_scale=8))\n",
    ),
    "an attribute of an object of the file": imported(
        "class A:\n    def __init__(self):\n        self.opt = LossScaleOptimizer(o, 'dynamic')\na = A()\n"
        "a.opt.loss_scale()\n",
        "class A:\n    def __init__(self):\n        self.opt = LossScaleOptimizer(o, dynamic=True)\na = A()\n"
        "a.opt.loss_scale\n",
    ),
    "what a loop goes through": imported(
        "first = LossScaleOptimizer(o, 8)\nfor opt in [first, LossScaleOptimizer(o, 8)]:\n    opt.loss_scale()\n"
        "for name, each in ('a', first), ('b', first):\n    each.loss_scale()\n"
        "x = [other.loss_scale() for other in (first, first)]\n",
        "first = LossScaleOptimizer(o, dynamic=False, initial_scale=8)\n"
        "for opt in [first, LossScaleOptimizer(o, dynamic=False, initial_scale=8)]:\n    opt.loss_scale\n"
        "for name, each in ('a', first), ('b', first):\n    each.loss_scale\n"
        "x = [other.loss_scale for other in (first, first)]\n",
    ),
    "a method of the program's own that only wrappers have": stays(
        "import tensorflow as tf\nclass Own:\n    def get_scaled_loss(self, loss):\n        return loss\n"
        "def f(opt):\n    opt.get_scaled_loss(1)\n    return opt.loss_scale()\n",
        NAME,
    ),
    "its methods": made("opt.loss_scale.update(grads)\nopt.loss_scale.get_config()\n", "", NAME, NAME),
    "methods of what may be one": stays("import tensorflow as tf\ndef f(opt):\n    opt.loss_scale.update(1)\n", NAME),
    "called by another name": made("scale = opt.loss_scale\nprint(scale())\n", "", NAME),
    "called as an attribute": stays(
        "import tensorflow as tf\nclass A:\n    def __init__(self, opt):\n        self.scale = opt.loss_scale\n"
        "    def f(self):\n        return self.scale()\n",
        NAME,
    ),
    "called of getattr": stays("import tensorflow as tf\ndef f(opt):\n    return getattr(opt, 'loss_scale')()\n", NAME),
    "the loss scale of a policy by another name": becomes(
        "import tensorflow as tf\np = tf.keras.mixed_precision.experimental.Policy('mixed_float16')\n"
        "scale = p.loss_scale\nscale()\np.loss_scale.get_config()\n",
        "import tensorflow as tf\nimport mpls.experimental\np = mpls.experimental.Policy('mixed_float16')\n"
        "scale = p.loss_scale\nscale()\np.loss_scale.get_config()\n",
    ),
    "an object beside a class with a loss scale": becomes(
        "import tensorflow as tf\nclass Own:\n    def loss_scale(self):\n        return 3\n"
        "opt = tf.keras.mixed_precision.experimental.LossScaleOptimizer(inner, 'dynamic')\nopt.loss_scale()\n"
        "own = Own()\nown.loss_scale()\n",
        "import tensorflow as tf\nimport mpls.keras\nclass Own:\n    def loss_scale(self):\n        return 3\n"
        "opt = mpls.keras.LossScaleOptimizer(inner, dynamic=True)\nopt.loss_scale()\nown = Own()\nown.loss_scale()\n",
        NAME,
    ),
    "a parameter that is used as a wrapper beside a class with a loss scale": stays(
        "import tensorflow as tf\nclass Own:\n    def loss_scale(self):\n        return 3\ndef f(opt):\n"
        "    opt.get_scaled_loss(1)\n    return opt.loss_scale()\n",
        NAME,
    ),
    "an attribute beside a class with a loss scale": imported(
        "class Own:\n    def loss_scale(self):\n        return 3\nclass A:\n    def __init__(self):\n"
        "        self.opt = LossScaleOptimizer(o, 'dynamic')\n    def f(self):\n        self.opt.loss_scale()\n",
        "class Own:\n    def loss_scale(self):\n        return 3\nclass A:\n    def __init__(self):\n"
        "        self.opt = LossScaleOptimizer(o, dynamic=True)\n    def f(self):\n        self.opt.loss_scale()\n",
        NAME,
    ),
    "a parameter": stays("import tensorflow as tf\ndef f(opt):\n    return opt.loss_scale()\n", NAME),
    "a policy": becomes(
        "import tensorflow as tf\np = tf.keras.mixed_precision.experimental.Policy('mixed_float16')\np.loss_scale()\n",
        "import tensorflow as tf\nimport mpls.experimental\np = mpls.experimental.Policy('mixed_float16')\n"
        "p.loss_scale()\n",
    ),
    "what is no use of the API": stays(
        "import tensorflow as tf\nclass LossScaleOptimizer(tf.keras.optimizers.Optimizer):\n    pass\n"
        "class DynamicLossScale:\n    pass\nopt = LossScaleOptimizer('dynamic')\nscale = DynamicLossScale()\n"
        "def enable_mixed_precision_graph_rewrite(opt):\n    return opt\n"
        "opt = enable_mixed_precision_graph_rewrite(opt)\nclass Config:\n    loss_scale = 'dynamic'\n"
        "Config.loss_scale\n"
        "layer = tf.keras.layers.Dense(1, dtype=tf.keras.mixed_precision.Policy('mixed_float16'))\n"
        "state = tf.train.experimental.PythonState()\n"
        "model.optimizer.apply_gradients(zip(grads, model.trainable_variables))\n"
        "scale = model.optimizer.loss_scale\n"
        "raise ValueError('The loss scale of LossScaleOptimizer must be at least 1')\noptimizer.loss_scale = 128\n"
        "opt._loss_scale = scale\nopt.loss_scale(3)\n",
    ),
    "a gate that compares strings": stays(
        "import tensorflow as tf\nif tf.__version__ < '2.4.0':\n    pass\n",
        "version-strings",
    ),
    "a gate the other way round": stays(
        "import tensorflow as tf\nOLD = '2.4' > tf.version.VERSION\n",
        "version-strings",
    ),
    "a gate that is right": stays("import tensorflow as tf\nif tf.__version__ >= '2':\n    pass\n"),
    "another package's version": stays("import numpy as np\nif np.__version__ < '1.4.0':\n    pass\n"),
    "an equal version": stays("import tensorflow as tf\nif tf.__version__ == '2.4.0':\n    pass\n"),
    "a name in a string": stays(
        "import importlib\nm = importlib.import_module('tensorflow.keras.mixed_precision.experimental')\n",
        "names-in-strings",
    ),
    "a name that is there, in a string": stays("f = tf_any('keras.mixed_precision.set_global_policy')\n"),
    "another word in a string": stays("log('mixed_precision is on', 'mixed_precision.yaml')\n"),
    "hasattr": stays("import tensorflow as tf\nOLD = hasattr(tf.keras.mixed_precision, 'experimental')\n"),
    "a module of __import__": stays(
        "tf = __import__('tensorflow')\ns = tf.train.experimental.DynamicLossScale()\n",
        "unknown-modules",
    ),
    "a namespace of what may be something else": stays(
        "import tensorflow as tf\nmp = tf.keras.mixed_precision.experimental\nif old:\n    tf = other()\n",
        "unknown-modules",
    ),
    "tf.contrib in a variable": becomes(
        "import tensorflow as tf\ncontrib = tf.contrib\nm = contrib.mixed_precision.FixedLossScaleManager(8)\n",
        "import tensorflow as tf\nimport mpls.contrib\ncontrib = tf.contrib\n"
        "m = mpls.contrib.FixedLossScaleManager(8)\n",
        "unknown-modules",
    ),
    "a policy that was removed": becomes(
        "import tensorflow as tf\ntf.keras.mixed_precision.experimental.set_policy('infer_float32_vars')\n",
        "import tensorflow as tf\nimport mpls.experimental\nmpls.experimental.set_policy('infer_float32_vars')\n",
        "removed-policies",
    ),
    "names of other packages": stays(
        "import jmp\nscale = jmp.DynamicLossScale(2. ** 15)\nnone = jmp.NoOpLossScale()\n"
        "fixed = jmp.StaticLossScale(8)\nfrom flax.training import dynamic_scale\n"
        "ds = dynamic_scale.DynamicScale()\nloss_scale = ds.scale\n"
        "from mindspore import FixedLossScaleManager, DynamicLossScaleManager\n"
        "from mindspore.nn import FixedLossScaleUpdateCell\nmanager = FixedLossScaleManager(128, False)\n"
        "scale = manager.get_loss_scale()\nimport torch\nscaler = torch.cuda.amp.GradScaler(init_scale=128.)\n"
        "loss_scale = scaler.get_scale()\nfrom apex import amp\n"
        "model, opt = amp.initialize(model, opt, loss_scale='dynamic')\nimport paddle\n"
        "opt = paddle.static.amp.decorate(opt, init_loss_scaling=128.0)\nloss_scale = opt.get_loss_scaling()\n"
        "from npu_bridge.npu_init import *\n"
        "manager = ExponentialUpdateLossScaleManager(init_loss_scale=2**32, incr_every_n_steps=1000)\n"
        "opt = NPULossScaleOptimizer(opt, manager)\nfixed = FixedLossScaleManager(loss_scale=1)\n"
        "from absl import flags\nflags.DEFINE_float('loss_scale', 128., 'Static loss scale.')\n"
        "config = {'loss_scale': 'dynamic', 'LossScaleOptimizer': True}\nconfig['loss_scale']\n"
        "from haiku import mixed_precision\nmixed_precision.set_policy(Net, policy)\nimport argparse\n"
        "parser = argparse.ArgumentParser()\nparser.add_argument('--loss_scale', default='dynamic')\n"
        "loss_scale = parser.parse_args().loss_scale\nimport optax\n"
        "opt = optax.apply_if_finite(optax.adam(1e-3), 5)\nloss_scale = 2 ** 15\n"
        "config = {'fp16': {'enabled': True, 'loss_scale': 0, 'initial_scale_power': 16}}\n"
        "from transformers import TFTrainingArguments\narguments = TFTrainingArguments('out', fp16=True)\n"
        "if arguments.fp16:\n    loss_scale = None\nfrom torch.distributed.fsdp import MixedPrecision\n"
        "mixed_precision = MixedPrecision()\nmixed_precision.experimental\nfrom accelerate import Accelerator\n"
        "a = Accelerator(mixed_precision='fp16')\n",
    ),
    "a step with a wrapper of the program": becomes(
        "import tensorflow as tf\ntf.keras.mixed_precision.set_global_policy('mixed_float16')\n"
        "model.compile(tf.keras.mixed_precision.LossScaleOptimizer(opt))\nprint(model.optimizer.loss_scale)\n",
        "import tensorflow as tf\nimport mpls.keras\ntf.keras.mixed_precision.set_global_policy('mixed_float16')\n"
        "model.compile(mpls.keras.LossScaleOptimizer(opt))\nprint(model.optimizer.loss_scale)\n",
    ),
    "a public policy under which compile makes the wrapper, as of 2.4": stays(
        "import tensorflow as tf\ntf.keras.mixed_precision.set_global_policy('mixed_float16')\n"
        "tf.keras.mixed_precision.set_global_policy('mixed_bfloat16')\nmodel.compile('adam')\n",
        "public-wrapper",
        as_of="2.4",
    ),
    "a deleted name": stays(
        "import tensorflow as tf\ndel tf\ntf.keras.mixed_precision.experimental.set_policy('float32')\n",
        "experimental-policies",
    ),
}
