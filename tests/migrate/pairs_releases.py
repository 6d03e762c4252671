"""Programs that rely on what wrappers had up to TF 2.3, and programs that look as if they did."""

from __future__ import annotations

import dataclasses

from .pairs import Pair, becomes, stays

TF = "import tensorflow as tf\n"
OLD = "tf.keras.mixed_precision.experimental.LossScaleOptimizer"
KEPT = "mpls.experimental.LossScaleOptimizer"
NEW = "mpls.keras.LossScaleOptimizer"
SCALES = "tf.mixed_precision.experimental"
IMPORT = "import mpls.experimental\n"
INSTALL = 'mpls.install(as_of="2.3")\n'


def installs(program: str, *left: str, as_of: str = "2.3", expected: str = "") -> Pair:
    """A program whose wrappers stay as they are, behind a call of `mpls.install`."""
    after = (expected or program).replace(OLD, KEPT).replace(SCALES, "mpls.experimental")
    head = TF + IMPORT + INSTALL.replace("2.3", as_of)
    return becomes(TF + program, head + after, *left, as_of=as_of)


def translated(program: str, expected: str, *left: str, as_of: str | None = "2.3", head: str = "") -> Pair:
    """A program that gets the wrapper of today."""
    return becomes(TF + program, f"{TF}{head or 'import mpls.keras' + chr(10)}{expected}", *left, as_of=as_of)


def made(loss_scale: str = "'dynamic'") -> str:
    return f"opt = {OLD}(optimizer, {loss_scale})\n"


NOW = f"opt = {NEW}(optimizer, dynamic=True, skip_counts_step=True)\n"

PAIRS = {
    "an object in a variable": installs(f"scale = {SCALES}.DynamicLossScale(8)\n{made('scale')}print(scale())\n"),
    "the class of the object": installs(f"{made()}print(type(opt.loss_scale), opt.loss_scale())\n"),
    "the identity of the object": installs(f"{made('make()')}assert opt.loss_scale is other\n"),
    "attributes of the object": installs(f"{made()}print(opt.loss_scale._num_good_steps)\n"),
    "the config": installs(f"{made()}print(opt.get_config()['loss_scale'])\n"),
    "the private attribute of the object": installs(f"{made()}opt._loss_scale = {SCALES}.FixedLossScale(3)\n"),
    "the class of the wrapper": installs(f"{made()}print(type(opt).__name__)\n"),
    "a loss scale's class": installs(f"class Mine({SCALES}.LossScale): pass\n{made('Mine()')}"),
    "a wrapper's class": installs(
        f"class Mine({OLD}):\n    def scale(self):\n        return self.loss_scale()\nopt = Mine(optimizer, 'dynamic')\n"
    ),
    "the name of TF 1 for the optimizer": installs(
        f"opt = {OLD}(opt=optimizer, loss_scale=8)\nprint(opt.get_config())\n",
        expected=f"opt = {OLD}(optimizer=optimizer, loss_scale=8)\nprint(opt.get_config())\n",
    ),
    "unknown arguments": installs(f"opt = {OLD}(*arguments)\nprint(opt.get_config())\n", "experimental-wrapper"),
    "isinstance of a wrapper": becomes(
        f"{TF}{made()}isinstance(opt, {OLD})\nprint(opt.get_config())\n",
        f"{TF}{IMPORT}import mpls.keras\n{INSTALL}{made()}".replace(OLD, KEPT)
        + f"isinstance(opt, {NEW})\nprint(opt.get_config())\n",
        as_of="2.3",
    ),
    "more imports": becomes(
        f"{TF}import numpy\nx = 1\nimport random\n{made()}print(opt.get_config())\n",
        f"{TF}{IMPORT}import numpy\n{INSTALL}x = 1\nimport random\n{made()}print(opt.get_config())\n".replace(
            OLD, KEPT
        ),
        as_of="2.3",
    ),
    # What looks alike.
    "no release": translated(
        f"{made()}print(opt.get_config())\n",
        f"opt = {NEW}(optimizer, dynamic=True)\nprint(opt.get_config())\n",
        as_of=None,
    ),
    "no release, and an object that is shared": translated(
        f"scale = {SCALES}.DynamicLossScale(64.0, 3)\n{made('scale')}print(scale(), opt.loss_scale())\n",
        f"scale = mpls.experimental.DynamicLossScale(64.0, 3)\nopt = {KEPT}(optimizer, scale)\n"
        "print(scale(), opt.loss_scale)\n",
        "loss-scale-objects",
        as_of=None,
        head=IMPORT,
    ),
    "no release, and an object that nothing shares": translated(
        f"scale = {SCALES}.DynamicLossScale(64.0, 3)\n{made('scale')}print(opt.loss_scale())\n",
        f"scale = mpls.experimental.DynamicLossScale(64.0, 3)\nopt = {KEPT}(optimizer, scale)\nprint(opt.loss_scale)\n",
        as_of=None,
        head=IMPORT,
    ),
    "no release, and a class of another kind": translated(
        f"{made()}assert isinstance(opt.loss_scale, tf.Tensor)\n",
        f"opt = {NEW}(optimizer, dynamic=True)\nassert isinstance(opt.loss_scale, tf.Tensor)\n",
        as_of=None,
    ),
    "as of 2.4": translated(f"{made()}print(opt.get_config())\n", f"{NOW}print(opt.get_config())\n", as_of="2.4"),
    "only the scale": translated(f"{made()}print(opt.loss_scale())\n", f"{NOW}print(opt.loss_scale)\n"),
    "the object is passed on": installs(f"{made()}show(opt.loss_scale)\n"),
    "the config of something else": translated(
        f"{made()}print(model.get_config(), optimizer.get_config())\n",
        f"{NOW}print(model.get_config(), optimizer.get_config())\n",
    ),
    "a gate by numbers": translated(
        f"{made()}if tuple(map(int, tf.__version__.split('.')[:2])) < (2, 4):\n    print(opt.get_config())\n",
        f"{NOW}if tuple(map(int, tf.__version__.split('.')[:2])) < (2, 4):\n    print(opt.get_config())\n",
    ),
    "a gate by hasattr": translated(
        f"{made()}if hasattr(tf.keras.mixed_precision, 'experimental'):\n    print(opt.get_config())\n",
        f"{NOW}if hasattr(tf.keras.mixed_precision, 'experimental'):\n    print(opt.get_config())\n",
    ),
    "a use above the imports": becomes(
        f"def f():\n    return {OLD}(optimizer, 'dynamic')\n{TF}print(f().get_config())\n",
        f"def f():\n    return {NEW}(optimizer, dynamic=True, skip_counts_step=True)\n"
        f"{TF}import mpls.keras\nprint(f().get_config())\n",
        as_of="2.3",
    ),
    "another thing of the name": becomes(
        f"{TF}mpls = 1\n{made()}print(opt.get_config())\n",
        f"{TF}import mpls.keras as mpls_keras\nmpls = 1\n{NOW}print(opt.get_config())\n".replace(
            NEW, "mpls_keras.LossScaleOptimizer"
        ),
        as_of="2.3",
    ),
    "it is called already": stays(
        f"import mpls.experimental\n{INSTALL}opt = {KEPT}(optimizer, 'dynamic')\n"
        "loss = opt.get_scaled_loss(loss)\nprint(opt.loss_scale())\n"
    ),
    "it is called for a newer release": becomes(
        f"{TF}import mpls.experimental\nmpls.install(as_of='2.4')\nopt = {KEPT}(optimizer, 'dynamic')\n"
        "loss = opt.get_scaled_loss(loss)\nprint(opt.loss_scale())\n",
        f"{TF}import mpls.experimental\nmpls.install(as_of='2.4')\nopt = {KEPT}(optimizer, 'dynamic')\n"
        "loss = opt.get_scaled_loss(loss)\nprint(opt.loss_scale)\n",
    ),
    # What is done with the class.
    "the class is compared": translated(
        f"{made()}print(type(opt) is {OLD})\n",
        f"opt = {KEPT}(optimizer, 'dynamic')\nprint(type(opt) is {KEPT})\n",
        as_of=None,
        head=IMPORT,
    ),
    "the class is among several": translated(
        f"{made('8')}print(type(opt) in (int, {OLD}))\n",
        f"opt = {KEPT}(optimizer, 8, skip_counts_step=True)\nprint(type(opt) in (int, {KEPT}))\n",
        as_of="2.4",
        head=IMPORT,
    ),
    "the class is passed on, and asked for": translated(
        f"{made()}f({OLD})\nassert isinstance(opt, {OLD})\n",
        f"opt = {KEPT}(optimizer, 'dynamic', skip_counts_step=True)\nf({KEPT})\nassert isinstance(opt, {NEW})\n",
        "experimental-wrapper",
        as_of="2.8",
        head=IMPORT + "import mpls.keras\n",
    ),
    "a loaded optimizer": translated(
        f"{made()}model = tf.keras.models.load_model(path, {{'LossScaleOptimizer': {OLD}}})\n"
        f"print(isinstance(model.optimizer, {OLD}))\n",
        f"opt = {KEPT}(optimizer, 'dynamic', skip_counts_step=True)\n"
        f"model = tf.keras.models.load_model(path, {{'LossScaleOptimizer': {KEPT}}})\n"
        f"print(isinstance(model.optimizer, {KEPT}))\n",
        as_of="2.8",
        head=IMPORT,
    ),
    "another model's optimizer": translated(
        f"model = make({{'LossScaleOptimizer': {OLD}}})\nprint(isinstance(model.optimizer, {OLD}))\n",
        f"model = make({{'LossScaleOptimizer': {KEPT}}})\nprint(isinstance(model.optimizer, {NEW}))\n",
        "experimental-wrapper",
        as_of="2.8",
        head=IMPORT + "import mpls.keras\n",
    ),
    # Optimizers of models.
    "a compiled optimizer by keyword": translated(
        f"model = make()\nmodel.compile(loss='mse', optimizer={OLD}(optimizer, 8))\nprint(model.optimizer.loss_scale())\n",
        f"model = make()\nmodel.compile(loss='mse', optimizer={NEW}(optimizer, dynamic=False, initial_scale=8))\n"
        "print(model.optimizer.loss_scale)\n",
        as_of=None,
    ),
    "one of two optimizers is compiled": translated(
        f"{made()}model = make()\nmodel.compile(opt)\nmodel.compile(make())\nprint(model.optimizer.loss_scale())\n",
        f"{NOW}model = make()\nmodel.compile(opt)\nmodel.compile(make())\nprint(model.optimizer.loss_scale())\n",
        "loss-scale-calls",
    ),
    # Graph mode.
    "shapes in a checkpoint": stays(
        "import tensorflow.compat.v1 as tf\nopt = tf.mixed_precision.MixedPrecisionLossScaleOptimizer(opt, 8)\n"
        "print(tf.train.NewCheckpointReader(path).get_variable_to_shape_map())\n"
    ),
    "a method that variables lack": becomes(
        f"{TF}opt = tf.train.experimental.MixedPrecisionLossScaleOptimizer(opt, 8)\nx = v.initialized_value()\n",
        f"{TF}import mpls.v1\nopt = mpls.v1.MixedPrecisionLossScaleOptimizer(opt, 8)\nx = v.initialized_value()\n",
        "graph-mode",
    ),
    "that method of variables of TF 1": becomes(
        f"{TF}tf.compat.v1.disable_v2_behavior()\nopt = tf.train.experimental.MixedPrecisionLossScaleOptimizer(opt, 8)\n"
        "x = v.initialized_value()\n",
        f"{TF}import mpls.v1\ntf.compat.v1.disable_v2_behavior()\nopt = mpls.v1.MixedPrecisionLossScaleOptimizer(opt, 8)\n"
        "x = v.initialized_value()\n",
    ),
    "that method elsewhere": stays(f"{TF}x = v.initialized_value()\n"),
    # Imports of all names.
    "a star": becomes(
        "from tensorflow.keras.mixed_precision.experimental import *  # noqa\nset_policy('mixed_float16')\n"
        "opt = LossScaleOptimizer(optimizer, 8)\nprint(opt.loss_scale())\n",
        "from mpls.experimental import LossScaleOptimizer, Policy, get_layer_policy, global_policy, set_policy  # noqa\n"
        f"import mpls.keras\nset_policy('mixed_float16')\nopt = {NEW}(optimizer, dynamic=False, initial_scale=8)\nprint(opt.loss_scale)\n",
    ),
    "a star among others": becomes(
        "from tensorflow.keras.mixed_precision.experimental import *\nfrom mine import *\n"
        "opt = LossScaleOptimizer(optimizer, 8)\n",
        "from mpls.experimental import LossScaleOptimizer, Policy, get_layer_policy, global_policy, set_policy\n"
        "from mine import *\nopt = LossScaleOptimizer(optimizer, 8)\n",
    ),
    "a star and a class of the program's own": becomes(
        "from tensorflow.keras.mixed_precision.experimental import *\nclass LossScaleOptimizer: pass\n"
        "opt = LossScaleOptimizer(optimizer, 8)\n",
        "from mpls.experimental import LossScaleOptimizer, Policy, get_layer_policy, global_policy, set_policy\n"
        "class LossScaleOptimizer: pass\nopt = LossScaleOptimizer(optimizer, 8)\n",
    ),
    "a star of a private module": stays(
        "from tensorflow.python.keras.mixed_precision.experimental.loss_scale_optimizer import *\n", "star-imports"
    ),
}
# Without their releases, these stay as they are.
PAIRS |= {
    f"again: {name}": dataclasses.replace(pair, before=pair.after, left=())
    for name, pair in PAIRS.items()
    if pair.after.count(INSTALL) and not pair.left
}
