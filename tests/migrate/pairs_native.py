"""Today's own names of TensorFlow and Keras, where they mean the same."""

from __future__ import annotations

from .pairs import becomes_native

TF = "import tensorflow as tf\n"
TF_AND_KERAS = "import tensorflow as tf\nimport mpls.keras\n"
TF_AND_EXPERIMENTAL = "import tensorflow as tf\nimport mpls.experimental\n"
TF_AND_V1 = "import tensorflow as tf\nimport mpls.v1\n"
OLD = "tf.keras.mixed_precision.experimental"
NEW = "tf.keras.mixed_precision"
GRAPH = "tf.compat.v1.mixed_precision"


def native(before: str, after: str, *left: str, **more):
    """A program that needs no other import."""
    return becomes_native(TF + before, TF + after, *left, **more)


PAIRS = {
    "a fixed scale": native(
        f"opt = {OLD}.LossScaleOptimizer(opt, 128)\n",
        f"opt = {NEW}.LossScaleOptimizer(opt, dynamic=False, initial_scale=128)\n",
    ),
    "a dynamic scale": native(
        f"opt = {OLD}.LossScaleOptimizer(optimizer=opt, loss_scale='dynamic')\nprint(opt.loss_scale())\n",
        f"opt = {NEW}.LossScaleOptimizer(inner_optimizer=opt, dynamic=True)\nprint(opt.loss_scale)\n",
    ),
    "another multiplier": becomes_native(
        f"{TF}opt = {OLD}.LossScaleOptimizer(opt, tf.train.experimental.DynamicLossScale(multiplier=4))\n",
        f"{TF_AND_KERAS}opt = mpls.keras.LossScaleOptimizer(opt, growth_factor=4, backoff_factor=1 / 4)\n",
    ),
    "a namespace of tf.compat.v1 in a variable": becomes_native(
        f"import tensorflow.compat.v1 as tf\nmp = {OLD}\nmp.set_policy('float32')\n",
        "import tensorflow.compat.v1 as tf\nimport mpls.experimental\nmp = mpls.experimental\n"
        "mp.set_policy('float32')\n",
    ),
    "a namespace of tf.compat that is imported": becomes_native(
        "from tensorflow.compat.v2.keras.mixed_precision import experimental as mp\n"
        "opt = mp.LossScaleOptimizer(opt, 'dynamic')\n",
        "from tensorflow.keras import mixed_precision as mp\nopt = mp.LossScaleOptimizer(opt, dynamic=True)\n",
    ),
    "a subclass of the public wrapper": becomes_native(
        f"{TF}class Mine({NEW}.LossScaleOptimizer):\n    pass\n",
        f"{TF_AND_KERAS}class Mine(mpls.keras.LossScaleOptimizer):\n    pass\n",
    ),
    "a policy under which compile makes the wrapper, as of 2.4": becomes_native(
        f"{TF}{OLD}.set_policy('mixed_float16')\nmodel.compile('adam')\n",
        f"{TF_AND_EXPERIMENTAL}mpls.experimental.set_policy('mixed_float16')\nmodel.compile('adam')\n",
        "experimental-policies",
        as_of="2.4",
        keras=3,
    ),
    "a step with the wrapper that compile makes": becomes_native(
        f"{TF}{OLD}.set_policy('mixed_float16')\nclass M(tf.keras.Model):\n    def train_step(self, data):\n"
        "        self.optimizer.get_scaled_loss(loss(data))\n",
        f"{TF_AND_EXPERIMENTAL}mpls.experimental.set_policy('mixed_float16')\nclass M(tf.keras.Model):\n"
        "    def train_step(self, data):\n        self.optimizer.get_scaled_loss(loss(data))\n",
        keras=3,
    ),
    "as of 2.2": becomes_native(
        f"{TF}opt = {OLD}.LossScaleOptimizer(opt, 'dynamic')\n",
        f"{TF_AND_KERAS}opt = mpls.keras.LossScaleOptimizer(opt, dynamic=True, skip_counts_step=False)\n",
        as_of="2.2",
    ),
    "a second argument that is passed on": becomes_native(
        f"{TF}opt = {OLD}.LossScaleOptimizer(opt, 8)\nopt.apply_gradients(pairs, 1.0)\n",
        f"{TF_AND_KERAS}opt = mpls.keras.LossScaleOptimizer(opt, dynamic=False, initial_scale=8)\n"
        "opt.apply_gradients(pairs, 1.0)\n",
    ),
    "a second argument that is a name": native(
        f"opt = {OLD}.LossScaleOptimizer(opt, 8)\nopt.apply_gradients(pairs, 'train')\n",
        f"opt = {NEW}.LossScaleOptimizer(opt, dynamic=False, initial_scale=8)\nopt.apply_gradients(pairs, 'train')\n",
    ),
    "a wrapper with Keras 3": becomes_native(
        f"{TF}opt = {OLD}.LossScaleOptimizer(opt, 'dynamic')\n",
        f"{TF_AND_KERAS}opt = mpls.keras.LossScaleOptimizer(opt, dynamic=True)\n",
        keras=3,
    ),
    "the public wrapper": native(f"opt = {NEW}.LossScaleOptimizer(opt)\n", f"opt = {NEW}.LossScaleOptimizer(opt)\n"),
    "isinstance": native(
        f"isinstance(opt, {OLD}.LossScaleOptimizer)\n", f"isinstance(opt, {NEW}.LossScaleOptimizer)\n"
    ),
    "policies": native(
        f"{OLD}.set_policy('mixed_float16')\np = {OLD}.Policy('mixed_float16')\nprint({OLD}.global_policy().name)\n",
        f"{NEW}.set_global_policy('mixed_float16')\np = {NEW}.Policy('mixed_float16')\nprint({NEW}.global_policy().name)\n",
    ),
    "a policy with a loss scale": becomes_native(
        f"{TF}p = {OLD}.Policy('mixed_float16', loss_scale=8)\n{OLD}.set_policy(p)\n",
        f"{TF_AND_EXPERIMENTAL}p = mpls.experimental.Policy('mixed_float16', loss_scale=8)\n{NEW}.set_global_policy(p)\n",
    ),
    "a policy whose loss scale is read": becomes_native(
        f"{TF}p = {OLD}.Policy('mixed_float16')\nprint(p.loss_scale)\n",
        f"{TF_AND_EXPERIMENTAL}p = mpls.experimental.Policy('mixed_float16')\nprint(p.loss_scale)\n",
    ),
    "an assigned module": native(
        f"mp = {OLD}\nmp.set_policy(mp.Policy('mixed_float16'))\n",
        f"mp = {NEW}\nmp.set_global_policy(mp.Policy('mixed_float16'))\n",
    ),
    "a graph": native(
        "opt = tf.train.experimental.MixedPrecisionLossScaleOptimizer(opt, tf.train.experimental.DynamicLossScale(8))\n",
        f"opt = {GRAPH}.MixedPrecisionLossScaleOptimizer(opt, {GRAPH}.DynamicLossScale(8))\n",
    ),
    "the rewrite of an optimizer of TF 1": native(
        "opt = tf.train.AdamOptimizer(0.1)\nopt = tf.train.experimental.enable_mixed_precision_graph_rewrite(opt)\n",
        f"opt = tf.train.AdamOptimizer(0.1)\nopt = {GRAPH}.enable_mixed_precision_graph_rewrite(opt)\n",
    ),
    "the rewrite of another optimizer": becomes_native(
        f"{TF}opt = tf.train.experimental.enable_mixed_precision_graph_rewrite(opt)\n",
        f"{TF_AND_V1}opt = mpls.v1.enable_mixed_precision_graph_rewrite(opt)\n",
    ),
}
