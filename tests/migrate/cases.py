"""Programs before and after, each as one text in which `«old→new»` changes; the rules and options of each."""

from __future__ import annotations

import dataclasses
import functools
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """A program before and after; the rules that say what is left, in the order of the lines."""

    before: str
    after: str
    left: tuple[str, ...] = ()
    as_of: str | None = None
    keras: int = 3
    is_native: bool = False

    @property
    def is_unchanged(self) -> bool:
        return self.before == self.after

    @property
    def options(self) -> list[str]:
        """The options of `mpls migrate`."""
        as_of = [] if self.as_of is None else ["--as-of", self.as_of]
        return [*as_of, "--keras", str(self.keras), *(["--to", "native"] if self.is_native else [])]


def case(text: str, *left: str, as_of: str | None = None, keras: int = 3, is_native: bool = False) -> Case:
    before, after = (re.sub("«(.*?)→(.*?)»", rf"\{side}", text, flags=re.DOTALL) for side in (1, 2))
    return Case(before, after, left, as_of, keras, is_native)


as_of_2_3 = functools.partial(case, as_of="2.3")
native = functools.partial(case, keras=2, is_native=True)

EXPERIMENTAL = "tf.keras.mixed_precision.experimental"
KERAS = "tf.keras.mixed_precision"
# Imports, and what is imported beside TensorFlow.
TF = "import tensorflow as tf\n"
TF_NEW = f"{TF}«→import mpls.keras\n»"
TF_OLD = f"{TF}«→import mpls.experimental\n»"
TF_BOTH = f"{TF}«→import mpls.experimental\nimport mpls.keras\n»"
TF_V1 = f"{TF}«→import mpls.v1\n»"
TF_INSTALL = f'{TF}«→import mpls.experimental\nmpls.install(as_of="2.3")\n»'
FROM = "from «tensorflow.keras.mixed_precision.experimental→mpls.keras» import LossScaleOptimizer\n"
# What becomes of the experimental wrapper, and of the public one.
NEW = f"«{EXPERIMENTAL}.LossScaleOptimizer→mpls.keras.LossScaleOptimizer»"
KEPT = f"«{KERAS}→mpls».experimental.LossScaleOptimizer"
NATIVE = f"«{EXPERIMENTAL}.LossScaleOptimizer→{KERAS}.LossScaleOptimizer»"
PUBLIC = f"«{KERAS}.LossScaleOptimizer→mpls.keras.LossScaleOptimizer»"
MODULE = f"«{KERAS}→mpls».experimental"
SCALES = "«tf.mixed_precision→mpls».experimental"
OF_GRAPH = "«tf.train.experimental→tf.compat.v1.mixed_precision»"
REWRITE = "«tf.train.experimental→mpls.v1».enable_mixed_precision_graph_rewrite"
DYNAMIC = "«'dynamic'→dynamic=True»"
FIXED = "«→dynamic=False, initial_scale=»"

WRAPPERS = {
    "parentheses around the loss scale": case(
        f"{TF_BOTH}E = {KEPT}\n«E→mpls.keras.LossScaleOptimizer»(o, «((8))→dynamic=False, initial_scale=8»)\n"
        "«E→mpls.keras.LossScaleOptimizer»(o,«( ( 8 ) )→dynamic=False, initial_scale=8»)\n"
        "«E→mpls.keras.LossScaleOptimizer»((o), «(8)→dynamic=False, initial_scale=8» )\n",
    ),
    "no loss scale, or not by its name": case(
        f"{TF_OLD}E = {KEPT}\nE(o, x=1«→, skip_counts_step=False»)\nE(o«→, skip_counts_step=False»)\n"
        "E(*both«→, skip_counts_step=False»)\nE(o,\n  1, x=2«→, skip_counts_step=False»)\nE(o, skip_counts_step=f)\n",
        *["experimental-wrapper"] * 5,
        as_of="2.2",
    ),
    "fixed and dynamic ones in today's own names": case(
        f"{TF_NEW}{NATIVE}(o, «→dynamic=False, initial_scale=»8)\n{NEW}(o, {DYNAMIC[:-1]}, skip_counts_step=False»)\n",
        as_of="2.2",
        keras=2,
        is_native=True,
    ),
    "a fixed object": case(
        f"{TF_NEW}"
        f"opt = {NEW}(opt, «tf.mixed_precision.experimental.FixedLossScale(16))→dynamic=False, initial_scale=16)»\n",
    ),
    "a dynamic object without arguments": case(
        f"{TF_NEW}opt = {NEW}(opt, «tf.mixed_precision.experimental.DynamicLossScale()→dynamic=True»)\n"
    ),
    "an attribute": case(f"{TF_OLD}opt = {KEPT}(opt, loss_scale=flags.loss_scale)\n"),
    "stars": case(f"{TF_OLD}opt = {KEPT}(opt, *arguments)\n", "experimental-wrapper"),
    "a scale below 1": case(f"{TF_OLD}opt = {KEPT}(opt, 0.5)\nother = {KEPT}(opt, 0)\n", "experimental-wrapper"),
    "a scale that mpls refuses": case(f"{TF_OLD}opt = {KEPT}(opt, 1e38)\n", "experimental-wrapper"),
    "another multiplier": case(
        f"{TF_NEW}opt = {NEW}(opt, «tf.mixed_precision.experimental.DynamicLossScale(8, "
        "multiplier=4)→initial_scale=8, growth_factor=4, backoff_factor=1 / 4»)\n",
    ),
    "a multiplier without an exact inverse": case(
        f"{TF_OLD}opt = {KEPT}(opt, {SCALES}.DynamicLossScale(8, multiplier=3))\n", "experimental-wrapper"
    ),
    "an object with values of the program": case(
        f"{TF_OLD}opt = {KEPT}(opt, {SCALES}.DynamicLossScale(flags.scale))\n"
    ),
    "objects of which the arguments are not all told": case(
        f"{TF_OLD}a = {KEPT}(opt, {SCALES}.DynamicLossScale(*arguments))\n"
        f"b = {KEPT}(opt, {SCALES}.FixedLossScale(value=8))\nc = {KEPT}(opt, {SCALES}.FixedLossScale(flags.scale))\n"
    ),
    "an object that is used elsewhere": case(
        f"{TF_OLD}scale = {SCALES}.DynamicLossScale(8)\nopt = {KEPT}(opt, scale)\nprint(scale())\n",
        "loss-scale-objects",
    ),
    "an object that is used under another name": case(
        f"{TF_OLD}scale = {SCALES}.DynamicLossScale(8)\nsame = scale\nopt = {KEPT}(opt, scale)\nprint(same())\n",
        "loss-scale-objects",
    ),
    "an object that a function gives the wrapper": case(
        f"{TF_OLD}scale = {SCALES}.DynamicLossScale(8)\ndef wrap(opt, scale):\n    return {KEPT}(opt, scale)\n"
        "opt = wrap(opt, scale)\nprint(scale())\n",
        "loss-scale-objects",
    ),
    "a parameter": case(f"{TF_OLD}def f(opt, scale='dynamic'):\n    return {KEPT}(opt, scale)\n"),
    "annotations": case(
        f"{TF_NEW}def f(opt: {NEW}, *others: 'int') -> Optional[{NEW}]:\n    x: {NEW} = opt\n    return x\n"
    ),
    "a value": case(
        f"{TF_OLD}objects = {{'LossScaleOptimizer': {KEPT}}}\nmake = {KEPT}.from_config\n", "experimental-wrapper"
    ),
    "the public wrapper as of 2.2": case(
        f"{TF_NEW}a = {PUBLIC}(opt, dynamic=False, initial_scale=8)\n"
        f"b = {PUBLIC}(opt«→, skip_counts_step=False»)\nc = {PUBLIC}(opt, **more)\nd = {PUBLIC}()\n",
        *("public-wrapper",) * 2,
        as_of="2.2",
    ),
    "the public wrapper that may be fixed, as of 2.4": case(
        f"{TF_NEW}a = {PUBLIC}(opt, False, 8)\nb = {PUBLIC}(opt, dynamic)\nc = {PUBLIC}(opt, dynamic=flags.dynamic)\n"
        f"d = {PUBLIC}(*given)\ne = {PUBLIC}(opt, True«→, skip_counts_step=True»)\n"
        f"f = {PUBLIC}(opt, dynamic=True«→, skip_counts_step=True»)\n",
        *("public-wrapper",) * 3,
        as_of="2.4",
    ),
    "one of two wrappers that may be fixed, as of 2.4": case(
        "try:\n    from «tensorflow.keras.mixed_precision.experimental→mpls.keras» import LossScaleOptimizer\n"
        "except ImportError:\n    from «tensorflow.keras.mixed_precision→mpls.keras» import LossScaleOptimizer\n"
        "a = LossScaleOptimizer(opt, dynamic=flag)\nb = LossScaleOptimizer(opt«→, skip_counts_step=True»)\n",
        "public-wrapper",
        as_of="2.4",
    ),
    "an initial scale that none can have": case(
        f"{TF_OLD}opt = {KEPT}(opt, {SCALES}.DynamicLossScale(0))\n", "experimental-wrapper"
    ),
    "one of two, by keyword": case(
        "try:\n    from «tensorflow.keras.mixed_precision→mpls».experimental import LossScaleOptimizer\n"
        "except ImportError:\n    from «tensorflow.keras.mixed_precision→mpls.experimental» import LossScaleOptimizer\n"
        "opt = LossScaleOptimizer(opt, loss_scale=scale)\n"
    ),
    "a hyperparameter of the public wrapper with Keras 2": case(
        f"{TF_NEW}opt = {PUBLIC}(opt)\nprint(opt.beta_1, opt.lr)\n", keras=2
    ),
    "the type of the public wrapper with Keras 2": case(
        f"{TF_NEW}type(opt) is {PUBLIC}\n", "types-of-wrappers", keras=2
    ),
    "a scale of the program's own class": case(
        f"{TF_OLD}class Mine({SCALES}.DynamicLossScale): pass\nopt = {KEPT}(opt, Mine())\n", "loss-scale-classes"
    ),
    "an object that wrappers of TF 2.3 keep, behind a gate": as_of_2_3(
        f"{TF_OLD}scale = {SCALES}.DynamicLossScale(8)\nopt = {KEPT}(opt, scale«→, skip_counts_step=True»)\n"
        "print(scale(), tf.__version__)\n",
        "experimental-wrapper",
    ),
    "that of the package keras": case(
        "import keras\nfrom «keras.mixed_precision→mpls» import experimental as mp\n«→import mpls.keras\n"
        "»opt = «mp→mpls.keras».LossScaleOptimizer(keras.optimizers.SGD(), «128→dynamic=False, initial_scale=128»)\n"
    ),
    "that of Keras 3": case("import keras\nopt = keras.optimizers.LossScaleOptimizer(opt, initial_scale=8)\n"),
    "that of mpls": case("import mpls.keras\nopt = mpls.keras.LossScaleOptimizer(opt, dynamic=True)\n"),
    "a comment": case(f"{TF}# {EXPERIMENTAL}.LossScaleOptimizer(opt, 'dynamic')\nprint()\n"),
    "a docstring": case(f'"""Wraps by {EXPERIMENTAL}.LossScaleOptimizer."""\n{TF}'),
    "another name of tf": case(f"tf = make()\nopt = {EXPERIMENTAL}.LossScaleOptimizer(opt, 1)\n", "unknown-modules"),
    "tf that may be something else": case(
        f"{TF}if other:\n    tf = other\nopt = {EXPERIMENTAL}.LossScaleOptimizer(opt, 1)\n", "experimental-wrapper"
    ),
    "a value that may be something else": case(
        f"{TF}if other:\n    tf = other\nKINDS = [{EXPERIMENTAL}.LossScaleOptimizer]\n", "experimental-wrapper"
    ),
    "comments beside a loss scale in parentheses": case(
        f"{TF_OLD}opt = {KEPT}(\n    o,  # inner\n    (\n        128  # fixed\n    ),\n)\n"
    ),
    "a comment in a name": case(
        f"{TF}opt = (\n    tf.keras  # Keras\n    .mixed_precision.experimental.LossScaleOptimizer(opt, 8)\n)\n",
        "experimental-wrapper",
    ),
    "comments in a namespace and in a call": case(
        f"{TF_NEW}mp = (\n    tf.keras  # Keras\n    .mixed_precision.experimental\n)\nopt = {NEW}(opt, {FIXED}8)\n"
        "opt.loss_scale(  # now\n)\n",
        "experimental-policies",
        "loss-scale-calls",
    ),
    "no tf at all": case(f"opt = {EXPERIMENTAL}.LossScaleOptimizer(opt, 1)\n", "unknown-modules"),
}
WRAPPERS |= {
    f"the scale {scale}": case(f"{TF_NEW}opt = {NEW}(opt, {FIXED}{scale})\n")
    for scale in ("1 << 15", "1024 ** 2", "2 ** 64", "1", "1.0")
}
WRAPPERS |= {
    f"the scale {scale}, of which nothing is told": case(f"{TF_OLD}opt = {KEPT}(opt, {scale})\n")
    for scale in ("3 << 127", "2000 ** 2", "2 ** 65", "2 ** -1", "1 >> 2", "x << 2", "-1")
}
WRAPPERS |= {
    f"the multiplier {given}": case(
        f"{TF_OLD}opt = {KEPT}(opt, {SCALES}.DynamicLossScale(multiplier={given}))\n", "experimental-wrapper"
    )
    for given in ("m", "1", "0.5", "1e400", "2 ** 127")
}
WRAPPERS |= {
    f"a loss scale of one class or {kind}": case(
        f"{TF_OLD}opt = {KEPT}(opt, ({SCALES}.FixedLossScale if a else {other})(8))\n"
    )
    for kind, other in (("something else", "make"), ("another", f"{SCALES}.DynamicLossScale"))
}
WRAPPERS |= {
    f"the arguments {given}": case(f"{TF_OLD}opt = {KEPT}({given})\n", "experimental-wrapper")
    for given in ("", "optimizer=o", "o, **more", "o, loss_scale=8, **more", "o, name='a'")
}
VALUES = {
    "comparisons of types": case(
        f"{TF_OLD}opt = {KEPT}(o, 8)\ntype(opt) is {KEPT} is x\ntype(opt) > {KEPT}\ntype(opt) == int\nint is type(opt)\n"
        f"{KEPT} is type(opt)\n",
        "types-of-wrappers",
    ),
    "two questions for subclasses, with Keras 2": case(
        f"{TF_NEW}issubclass(a, ({PUBLIC}, int))\nissubclass(b, int)\n", keras=2
    ),
    "a tuple": case(
        f"{TF}from «tensorflow.keras.mixed_precision→mpls».experimental import LossScaleOptimizer as LSO\n"
        "KINDS = (LSO, int)\nopt = LSO(inner, 'dynamic')\nheld = isinstance(opt, KINDS)\n",
    ),
    "an import in a class": case(
        "from «tensorflow.keras.mixed_precision→mpls».experimental import LossScaleOptimizer as LSO\nclass C:\n"
        "    from «tensorflow.keras.mixed_precision→mpls».experimental import LossScaleOptimizer\n"
        "    from os import *\nopt = LSO(inner, 'dynamic')\n"
    ),
    "in the dictionary of a module": case(
        f"{TF_OLD}E = {MODULE}\nkind = E.__dict__['LossScaleOptimizer']\nopt = E.LossScaleOptimizer(inner, 8)\n"
    ),
    "an attribute of a class": case(
        f"{TF}«from tensorflow.keras.mixed_precision.experimental→import mpls.experimental\n"
        f"from mpls.experimental» import LossScaleOptimizer as LSO\nclass C:\n    L = {KEPT}\n"
        "opt = LSO(inner, 'dynamic')\nheld = isinstance(opt, C.L)\n",
    ),
    "names in code that is not read": case(
        "from «tensorflow.keras.mixed_precision→mpls».experimental import LossScaleOptimizer\n«→import mpls.keras\n»"
        "opt = LossScaleOptimizer(inner, 'dynamic')\nheld = isinstance(opt, globals()['LossScaleOptimizer'])\n"
        "assert isinstance(opt, «LossScaleOptimizer→mpls.keras.LossScaleOptimizer») and eval('opt')\n"
    ),
    "attributes that are set": case(
        f"{TF_OLD}LSO = {KEPT}\nopt = LSO(inner, 'dynamic')\nLSO.scale, other = make, LSO.loss_scale\n"
    ),
    "a member of a module by its name": case(
        f"{TF}«from tensorflow.keras.mixed_precision.experimental→import mpls.experimental\n"
        f"from mpls.experimental» import LossScaleOptimizer as LSO\nE = {MODULE}\nopt = LSO(inner, 'dynamic')\n"
        "held = isinstance(opt, getattr(E, 'LossScaleOptimizer'))\nassert hasattr(E, 'Policy')\n",
    ),
    "a multiplier": case(
        f"{TF_BOTH}KINDS = ({KEPT},)\n"
        f"opt = {NEW}(inner, «tf.train.experimental.DynamicLossScale(8, 1000, 4))→initial_scale=8, "
        "dynamic_growth_steps=1000, growth_factor=4, backoff_factor=1 / 4)»\n",
        "experimental-wrapper",
    ),
    "no wrapper is made, and an annotation": case(
        f"{TF_BOTH}KINDS = ({KEPT},)\ndef f(opt: {NEW}): pass\n", "experimental-wrapper"
    ),
    "a tuple in the test": case(f"{TF_NEW}opt = {NEW}(inner, {FIXED}8)\nheld = isinstance(opt, ({NEW}, int))\n"),
    "names that are tested": case(
        f"{TF_BOTH}LSO = {KEPT}\nE = {MODULE}\nopt = {NEW}(inner, {FIXED}8)\n"
        "held = isinstance(opt, «LSO→mpls.keras.LossScaleOptimizer») and isinstance(opt, "
        "«E.LossScaleOptimizer→mpls.keras.LossScaleOptimizer»)\n",
    ),
    "native: a tuple in the test": native(
        f"{TF}opt = {NATIVE}(inner, {FIXED}8)\nheld = isinstance(opt, ({NATIVE}, int))\n"
    ),
}
VALUES |= {
    f"harmless: {asked}": case(
        f"{TF_BOTH}LSO = {KEPT}\n{asked}\nopt = «LSO→mpls.keras.LossScaleOptimizer»(o, {FIXED}8)\n"
    )
    for asked in (
        "if LSO is None: pass",
        "if None != LSO: pass",
        "getattr(LSO, 'from_config')",
        "hasattr(LSO, '__dict__')",
    )
}
VALUES |= {
    f"of an unknown class: {asked}": case(f"{TF_OLD}LSO = {KEPT}\n{asked}\nopt = LSO(o, 8)\n")
    for asked in ("if LSO is kind: pass", "getattr(LSO, '__dict__')", "x.hasattr(LSO, 'y')")
}
OWN = "class Own:\n    def loss_scale(self): return 1\n"
SET_POLICY = f"{TF_OLD}{MODULE}.set_policy('mixed_float16')\n"
_USED = "o.get_scaled_loss(l), o.loss_scale«()→»\n"
_USE = f"def f(o): {_USED}"
_RUN = "class C:\n    def run(self, o): return o.loss_scale()\n"
# What has a loss scale by what it is assigned, and what may be something else.
OBJECTS = {
    "attributes of an object of the file's class": case(
        f"{TF_NEW}class T:\n    kind = {NEW}(o, {FIXED}8)\n    def __init__(self, o):\n        self.opt = {NEW}(o, {DYNAMIC})\n"
        "t = T(o)\nprint(t.opt.loss_scale«()→», t.kind.loss_scale«()→»)\nt.other.loss_scale()\n"
        "def f(t): t.opt.loss_scale()\nu = make()\nu.opt.loss_scale()\n",
        *("loss-scale-calls",) * 3,
    ),
    "an attribute of another object in a method": case(
        f"{TF_NEW}class T:\n    def __init__(self, o): self.opt = {NEW}(o, {FIXED}8)\n"
        "    def f(self, x): return x.opt.loss_scale()\n",
        "loss-scale-calls",
    ),
    "one of two wrappers": case(
        f"{TF_NEW}opt = {NEW}(a, {FIXED}8) if x else {NEW}(b, {FIXED}4)\nopt.loss_scale«()→»\n"
    ),
    "what a function without a result gives": case(
        f"{TF_OLD}{MODULE}.Policy('x')\ndef make(): pass\nx = make()\nx.loss_scale()\n", "loss-scale-calls"
    ),
    "isinstance with another class": case(
        f"{TF_NEW}opt = {NEW}(o, {FIXED}8)\ndef f(x):\n    if isinstance(x, Other): x.loss_scale()\n",
        "loss-scale-calls",
    ),
    "compile of Python, and of a model": case(
        f"{TF_NEW}compile('1', '', 'exec')\nm = make()\nm.compile({NEW}(o, {FIXED}8))\nm.optimizer.loss_scale«()→»\n"
    ),
    "a wrapper in parentheses": case(f"{TF_NEW}(opt := {NEW}(o, {FIXED}8)).loss_scale«()→»\n"),
    "a subclass with a loss scale of its own": case(
        f"{TF_OLD}class A({KEPT}):\n    def loss_scale(self): return 1\n    def f(self): return self.loss_scale()\n"
        "a = A(o, 8)\na.loss_scale()\n"
    ),
    "the graph rewrite of what is unknown": case(
        f"{TF_V1}w = «tf.train.experimental→mpls.v1».enable_mixed_precision_graph_rewrite(make())\nw.loss_scale()\n"
        "v = «tf.train.experimental→mpls.v1».enable_mixed_precision_graph_rewrite()\nv.loss_scale()\n",
        *("loss-scale-calls",) * 2,
    ),
    "a decorated function": case(
        f"{TF_NEW}@wrap\ndef make(): return {NEW}(o, {FIXED}8)\nmake().loss_scale()\nopt = make()\nopt.loss_scale()\n",
        *("loss-scale-calls",) * 2,
    ),
    "None, and then a wrapper": case(
        f"{TF_NEW}def make(): return\nopt = make()\nopt = {NEW}(o, {FIXED}8)\nopt.loss_scale«()→»\n"
    ),
    "isinstance with no class, and with one more": case(
        f"{TF_NEW}if isinstance(a, ()): a.loss_scale()\nif isinstance(b, ({NEW}, int)): b.loss_scale()\n",
        *("loss-scale-calls",) * 2,
    ),
    "a wrapper or an object of the file's class": case(
        f"{TF_NEW}{OWN}o = Own()\nopt = {NEW}(i, {FIXED}8) if x else o\nopt.loss_scale()\n", "loss-scale-calls"
    ),
    "what a library made, passed on three times": case(
        f"{TF}import lib\n{KERAS}.Policy\ndef g(a): a.get_scaled_loss(l), a.loss_scale()\ndef f(b): g(b)\n"
        "def e(c): f(c)\ne(lib.x())\n",
        "loss-scale-calls",
    ),
    "an attribute of the class": case(
        f"{TF_NEW}class T:\n    opt = {NEW}(o, {FIXED}8)\n    def f(self): return self.opt.loss_scale«()→»\n"
    ),
    **{
        f"made by {made}, of {returned}": case(
            f"{TF}{KERAS}.Policy\nclass Plain: pass\ndef make(): return {returned}\no = {made}\n{_USED}".replace(
                "«()→»", "()" if left else "«()→»"
            ),
            *left,
        )
        for returned, made, *left in (
            ("thing", "make()"),
            ("thing()", "make()"),
            ("other", "thing()"),
            ("Plain()", "make()", "loss-scale-calls"),
            ("other", "thing() if x else Plain()", "loss-scale-calls"),
        )
    },
    "what compile wraps": case(
        f"{SET_POLICY}def f(o):\n    m = make()\n    m.compile(o)\n    m.optimizer.loss_scale«()→»\n"
    ),
    "what compile wraps, or an object of the file's class": case(
        f"{SET_POLICY}{OWN}m = make()\nm.compile(tf.keras.optimizers.SGD())\nm.optimizer.loss_scale«()→»\n"
        "n = make()\nn.compile('sgd')\nn.optimizer.loss_scale«()→»\nk = make()\nk.compile(Own())\n"
        "k.optimizer.loss_scale()\ndef f(o):\n    m = make()\n    m.compile(o)\n    m.optimizer.loss_scale()\n",
        *("loss-scale-calls",) * 2,
    ),
    "what compile does not wrap": case(
        f"{TF_NEW}def f(o):\n    m = make()\n    m.compile(o)\n    m.optimizer.loss_scale()\nn = make()\nn.compile()\n"
        f"n.compile(*a)\nn.compile({NEW}(o, {FIXED}8))\nn.optimizer.loss_scale«()→»\n",
        "loss-scale-calls",
    ),
    "a policy that is passed on": case(
        f"{TF_OLD}p = {MODULE}.Policy('mixed_float16')\n{_USE}f(p)\n".replace("«()→»", "()"), "loss-scale-calls"
    ),
    "an optimizer that is passed on": case(f"{TF}{KERAS}.Policy\nopt = tf.keras.optimizers.SGD()\n{_USE}f(opt)\n"),
    "the optimizer of a model": case(
        f"{TF}{KERAS}.Policy\nm = tf.keras.Sequential()\nm.optimizer.get_scaled_loss(l), m.optimizer.loss_scale«()→»\n"
    ),
    "the optimizer of a model that is kept": case(
        f"{TF}{KERAS}.Policy\nclass A:\n    def __init__(self): self.m = tf.keras.Sequential()\n"
        "    def f(self): self.m.optimizer.get_scaled_loss(l), self.m.optimizer.loss_scale«()→»\n",
    ),
    "items of items": case(
        f"{TF}{KERAS}.Policy\ndef f(x): x[0][1].get_scaled_loss(l), x[0][2].loss_scale«()→», x[3].loss_scale()\n",
        "loss-scale-calls",
    ),
    "one of two unknown objects": case(f"{TF}{KERAS}.Policy\n{_USE}f(x if y else z)\n"),
    "an unknown object, or one of a library": case(
        f"{TF}import lib\n{KERAS}.Policy\n{_USE}f(x if y else lib.z())\n".replace("«()→»", "()"), "loss-scale-calls"
    ),
    "attributes of self, of a library or not": case(
        f"{TF}import lib\n{KERAS}.Policy\nclass A(B):\n    def __init__(self): self.z = lib.w\n"
        "    def f(self): self.z.opt.get_scaled_loss(l), self.z.opt.loss_scale()\n"
        "    def g(self): self.k.get_scaled_loss(l), self.k.loss_scale«()→»\n"
        "    def h(self): self[0].get_scaled_loss(l), self[0].loss_scale«()→»\n",
        "loss-scale-calls",
    ),
    **{
        f"what a method gets by {call}": case(
            f"{TF_NEW}class C:\n    def run(self, o): return o.loss_scale«()→»\n{call}({name}{NEW}(i, {FIXED}8))\n"
        )
        for call, name in (("c.run", ""), ("make().run", ""), ("C().run", "o="))
    },
    **{
        f"what {what} gets": case(
            f"{TF_NEW}import lib\n{start}x.run({star}{NEW}(i, {FIXED}8))\n{more}", "loss-scale-calls"
        )
        for what, start, star, more in (
            ("a method of two classes", f"class D:\n    def run(self, o): pass\n{_RUN}", "", ""),
            ("a method from a library too", _RUN, "", "y.run(lib.z())\n"),
            ("a method unknown objects too", _RUN, "", "y.run(z)\n"),
            ("a method by a star", _RUN, "*", ""),
            ("a function of that name", "def run(self, o): return o.loss_scale()\n", "", ""),
        )
    },
}
MEMBERS = {
    "two questions for a removed namespace": case(
        f"{TF_OLD}if x: f()\nif hasattr({KERAS}, 'experimental'):\n    {MODULE}.set_policy('x')\nelse:\n"
        f"    {KERAS}.set_global_policy('x')\nhasattr({KERAS}, 'experimental')\n",
        "names-in-strings",
    ),
    "a variable": case(
        f"{TF_NEW}opt = {NEW}(inner, {DYNAMIC})\nprint(opt.loss_scale«()→ »if a else opt.loss_scale«()→»)\n"
    ),
    "self in a subclass": case(
        f"{TF_OLD}class A({KEPT}):\n    def f(self):\n        return self.loss_scale«()→» * 2\n"
    ),
    "what a function returns": case(
        f"{TF_NEW}def make(opt):\n    return {NEW}(opt, {DYNAMIC})\nopt = make(o)\n"
        "«opt.loss_scale( ).numpy→opt.loss_scale.numpy»()\n",
    ),
    "what isinstance asks for": case(
        f"{TF_NEW}def f(opt):\n    if isinstance(opt, {NEW}) and opt:\n        print('scale', opt.loss_scale«()→»)\n"
    ),
    "an f-string": case(
        f"{TF_NEW}opt = {NEW}(inner, {DYNAMIC})\n"
        "print(f«'{opt.loss_scale()} and {opt.loss_scale()}'→'{opt.loss_scale} and {opt.loss_scale}'»)\n",
    ),
    "the graph rewrite of an optimizer of Keras": case(
        f"{TF_V1}opt = tf.keras.optimizers.SGD()\n"
        "wrapped = «tf.train.experimental→mpls.v1».enable_mixed_precision_graph_rewrite(opt)\n"
        "wrapped.loss_scale«()→»\n",
    ),
    "what is used as a wrapper": case(
        f"{TF}{KERAS}.Policy\ndef f(opt, opts):\n    s = opt.get_scaled_loss(l), opts[0].get_unscaled_gradients(g)\n"
        "    print(opt.loss_scale«()→», opts[i].loss_scale«()→»)\n",
    ),
    "what a loop goes through": case(
        f"{FROM}first = LossScaleOptimizer(o, {FIXED}8)\nfor opt in [first, LossScaleOptimizer(o, {FIXED}8)]:\n"
        "    opt.loss_scale«()→»\nfor name, each in ('a', first), ('b', first):\n    each.loss_scale«()→»\n"
        "x = [other.loss_scale«()→» for other in (first, first)]\n",
    ),
    "its methods": case(
        f"{TF_NEW}opt = {NEW}(inner, {DYNAMIC})\nopt.loss_scale.update(grads)\nopt.loss_scale.get_config()\n",
        "loss-scale-calls",
        "loss-scale-calls",
    ),
    "called by another name": case(
        f"{TF_NEW}opt = {NEW}(inner, {DYNAMIC})\nscale = opt.loss_scale\nprint(scale())\n", "loss-scale-calls"
    ),
    "the loss scale of a policy by another name": case(
        f"{TF_OLD}p = {MODULE}.Policy('mixed_float16')\nscale = p.loss_scale\nscale()\np.loss_scale.get_config()\n"
    ),
    "what is used as a wrapper in a program without loss scaling": case(
        f"{TF}def f(opt):\n    return opt.get_scaled_loss(l), opt.loss_scale()\n", "loss-scale-calls"
    ),
    "what comes from a library, or is of another class": case(
        f"{TF}import lib\n{KERAS}.Policy\nclass Own: pass\ndef make():\n    return lib.Scaler()\nclass T(lib.Base):\n"
        "    def f(self):\n        self.a.get_scaled_loss(l), self.a.loss_scale()\n        self.b = Own()\n"
        "        self.b.get_scaled_loss(l), self.b.loss_scale()\na = make()\ndef f(b):\n"
        "    b.get_scaled_loss(l), b.loss_scale()\nf(a)\nc = lib.scalers[0] if old else a or None\n"
        "c.get_scaled_loss(l), c.loss_scale()\nd = a.inner[0]\nd.get_scaled_loss(l), d.loss_scale()\n",
        *("loss-scale-calls",) * 5,
    ),
    "a policy": case(f"{TF_OLD}p = {MODULE}.Policy('mixed_float16')\np.loss_scale()\n"),
    "what is no use of the API": case(
        f"{TF}class LossScaleOptimizer(tf.keras.optimizers.Optimizer):\n    pass\nclass DynamicLossScale:\n"
        "    pass\nopt = LossScaleOptimizer('dynamic')\nscale = DynamicLossScale()\n"
        "def enable_mixed_precision_graph_rewrite(opt):\n    return opt\n"
        "opt = enable_mixed_precision_graph_rewrite(opt)\nclass Config:\n    loss_scale = 'dynamic'\n"
        f"Config.loss_scale\nlayer = tf.keras.layers.Dense(1, dtype={KERAS}.Policy('mixed_float16'))\n"
        "state = tf.train.experimental.PythonState()\n"
        "model.optimizer.apply_gradients(zip(grads, model.trainable_variables))\n"
        "scale = model.optimizer.loss_scale\n"
        "raise ValueError('The loss scale of LossScaleOptimizer must be at least 1')\noptimizer.loss_scale = 128\n"
        "opt._loss_scale = scale\nopt.loss_scale(3)\n",
    ),
    "a gate that compares strings": case(f"{TF}if tf.__version__ < '2.4.0':\n    pass\n", "version-strings"),
    "other comparisons of the version": case(
        f"{TF}a = tf.__version__ == '2.4'\nb = tf.__version__ < '2.x'\nc = '2.4' > other\nd = tf.__version__ < OLD\n"
    ),
    "a gate the other way round": case(f"{TF}OLD = '2.4' > tf.version.VERSION\n", "version-strings"),
    "gates by a part of the version": case(
        f"{TF}v = tf.__version__\na = v[:3] < '2.4'\nb = 2.4 <= float(v[:3])\n", *("version-strings",) * 2
    ),
    "gates that are right": case(
        f"{TF}v = tf.__version__\na = v >= '2' or v[:1] > '1' or int(v[0]) > 2 or '2' > '10'\n"
    ),
    "the type of a subclass": case(
        f"{TF_OLD}class Mine({KEPT}):\n    pass\nif type(opt) is Mine or {KEPT} == type(opt):\n    pass\n",
        *("types-of-wrappers",) * 2,
    ),
    "a name in a string": case(
        "import importlib\nm = importlib.import_module('tensorflow.keras.mixed_precision.experimental')\n"
        "make = find('tf.train.experimental.DynamicLossScale.from_config')\n",
        *("names-in-strings",) * 2,
    ),
    "what is there, or not known": case(f"{TF}hasattr({KERAS}, name)\ngetattr({KERAS}, 'Policy')\n"),
    "a name that unknown modules have": case("tf = make()\nx = tf.keras.mixed_precision.other.name\n"),
    "what a comprehension makes": case(
        f"{TF_NEW}a, b = [{NEW}(o, {DYNAMIC}) for o in inner]\na.loss_scale«()→»\nc, d = [f(o) for f in fs]\n"
    ),
    "an f-string after one in it": case(
        f"{TF}print(f\"{{f'{{x}}'}} {{{EXPERIMENTAL}.LossScaleOptimizer(o, 'dynamic')}}\")\n",
        "experimental-wrapper",
    ),
    "an f-string with a name": case(f"{TF_OLD}print(f'{{{SCALES}.DynamicLossScale}}')\n"),
    "more names than are followed": case(
        f"{TF}a0 = tf if x else None\n{'; '.join(f'a{i + 1} = a{i} or y' for i in range(30))}\n"
        f"a30.{EXPERIMENTAL[3:]}.set_policy('float32')\n",
        "experimental-policies",
    ),
    "a guard without another branch": case(f"{TF}if hasattr({KERAS}, 'experimental'):\n    f()\n", "names-in-strings"),
    "a guard that is denied": case(
        f"{TF}if not hasattr({KERAS}, 'experimental'):\n    Policy = {KERAS}.Policy\n"
        f"if not hasattr({KERAS}, 'experimental'):\n    Policy = None\n",
        "names-in-strings",
    ),
    "a module that is not followed": case(
        f"{TF}self.mp = {KERAS}\nself.mp.experimental.set_policy('float32')\nother.keras.mixed_precision.Policy('float32')\n",
        "experimental-wrapper",
    ),
    "a guard with another branch": case(
        f"{TF}if hasattr({KERAS}, 'experimental'):\n    f()\nelse:\n    f({KERAS}.Policy)\n"
    ),
    "what is read from something unknown": case(
        "tf = __import__('tensorflow')\ns = tf.train.experimental.DynamicLossScale()\nx = tf.keras.mixed_precision\n"
        "from pkg import t, u\nt.keras.mixed_precision.experimental.Policy\nu.keras.mixed_precision.LossScaleOptimizer\n"
        "MODULES['tf'].keras.mixed_precision.experimental.Policy\nself.t.train.experimental.FixedLossScale(1)\n"
        "mp = importlib.import_module('tensorflow.keras.mixed_precision').experimental\n"
        "x.experimental.set_policy('float32')\nget().keras.mixed_precision.experimental.Policy\n",
        *("unknown-modules",) * 6,
    ),
    "a namespace of what may be something else": case(
        f"{TF}mp = {EXPERIMENTAL}\nif old:\n    tf = other()\n", "unknown-modules"
    ),
    "a module that becomes its own part": case(
        f"{TF_NEW}mp = {KERAS}\nif hasattr(mp, 'experimental'):\n    mp = mp.experimental\n"
        f"opt = «mp→mpls.keras».LossScaleOptimizer(o, {DYNAMIC})\nmp.set_policy('float32')\n",
        *("unknown-modules",) * 2,
    ),
    "a module that becomes a part": case(
        f"{TF_OLD}mp = {KERAS}\nif hasattr(mp, 'experimental'):\n    mp = {MODULE}\n"
        f"opt = «mp→mpls.experimental».LossScaleOptimizer(o, 'dynamic')\nmp.set_policy('float32')\nprint(mp)\n",
        "unknown-modules",
    ),
    "a function that becomes another one's result": case(
        f"{TF}tf = tf.compat.v1\ntf = wrap(tf)\nf = f.g\nmp = {KERAS}\n"
        f"def use(mp):\n    mp = mp.experimental\n    mp.set_policy('float32')\n",
    ),
    "tf.contrib in a variable": case(
        f"{TF}«→import mpls.contrib\n»contrib = tf.contrib\n"
        "m = «contrib.mixed_precision→mpls.contrib».FixedLossScaleManager(8)\n",
        "unknown-modules",
    ),
    "a policy that was removed": case(f"{TF_OLD}{MODULE}.set_policy('infer_float32_vars')\n", "removed-policies"),
    "names of other packages": case(
        "from npu_bridge.npu_init import *\nopt = NPULossScaleOptimizer(opt, manager)\n"
        "fixed = FixedLossScaleManager(loss_scale=1)\n"
        "from haiku import mixed_precision\nmixed_precision.set_policy(Net, policy)\n"
        "from torch.distributed.fsdp import MixedPrecision\n"
        "mixed_precision = MixedPrecision()\nmixed_precision.experimental\n",
    ),
    "a step with a wrapper of the program": case(
        f"{TF_NEW}{KERAS}.set_global_policy('mixed_float16')\nmodel.compile({PUBLIC}(opt))\n"
        "print(model.optimizer.loss_scale)\n",
    ),
    "a public policy under which compile makes the wrapper, as of 2.4": case(
        f"{TF}{KERAS}.set_global_policy('mixed_float16')\n{KERAS}.set_global_policy('mixed_bfloat16')\n"
        "model.compile('adam')\n",
        "public-wrapper",
        as_of="2.4",
    ),
}
# Where variables have `initialized_value`, and where they have not.
MEMBERS |= {
    f"initial values of {label}": case(
        f"{TF_V1}from tensorflow.compat import v1\n{calls}opt = {REWRITE}(o)\na.v.initialized_value()\n", *left
    )
    for label, calls, left in (
        ("references by v1", "v1.disable_v2_behavior()\n", ()),
        ("references", "v1.disable_resource_variables()\n", ()),
        ("resources again", "v1.disable_v2_behavior()\nv1.enable_resource_variables()\n", ("graph-mode",)),
    )
}
RELEASES = {
    "optimizers of TF 1 and others for the graph rewrite": case(
        f"{TF_V1}r = {REWRITE}\nadam = tf.compat.v1.train.AdamOptimizer\na = adam()\na = r(a)\nb = adam()\nb = wrap(b)\nr(b)\n"
        "c = adam()\nc = tf.keras.optimizers.SGD()\nr(c)\nr()\nr(adam())\nd = wrap(adam())\nr(d)\ne = adam()\ne = make(x)\n"
        "r(e)\n",
        *["graph-mode"] * 4,
        as_of="2.2",
    ),
    "loss scales of what may be a wrapper": as_of_2_3(
        f"{TF_INSTALL}opt = {KEPT}(o, 'dynamic')\nfor each in [opt]: each.loss_scale()\nmake().loss_scale(), opt.loss_scale()\n",
    ),
    "loss scales of what another file may make": as_of_2_3(
        f"{FROM}def f(o): return isinstance(o, LossScaleOptimizer), make(o).loss_scale()\n", "loss-scale-calls"
    ),
    "what asks for the release, or not, of mpls": case(
        f"{TF_NEW}import mpls\nother.install('2.3')\nmpls.install(release)\nmpls.install()\nopt = {NEW}(o, {FIXED}8)\n"
        "opt.loss_scale«()→»\n",
    ),
    "no place for the release that is needed": case(
        f"{TF}«→import mpls.keras as mpls_keras\n»mpls = 1\n"
        f"opt = «{EXPERIMENTAL}.LossScaleOptimizer→mpls_keras.LossScaleOptimizer»(o, {DYNAMIC})\nassert opt.loss_scale is s\n",
        "loss-scale-objects",
    ),
    "types with more arguments": as_of_2_3(f"{TF_INSTALL}opt = {KEPT}(o, 8)\ntype(opt, (), {{}})\ntype(opt)\n"),
    "what may be a function of the program's, as of 2.2": case(
        f"{TF_OLD}try:\n    LSO = {KEPT}\nexcept AttributeError:\n    LSO = make\nopt = LSO(o, 8)\n",
        *["experimental-wrapper"] * 2,
        as_of="2.2",
    ),
    "an object in a variable that nothing else uses": as_of_2_3(
        f"{TF_INSTALL}scale = {SCALES}.DynamicLossScale(8)\nopt = {KEPT}(optimizer, loss_scale=scale)\n"
    ),
    "a wrapper that is made in a function which imports it": as_of_2_3(
        f'{TF}«→import mpls\nmpls.install(as_of="2.3")\n»def make():\n'
        "    from «tensorflow.keras.mixed_precision→mpls» import experimental\n"
        "    return experimental.LossScaleOptimizer(optimizer, 'dynamic')\nmake().get_config()\n"
    ),
    **{
        f"the program may use {what}": as_of_2_3(
            f"{TF_INSTALL}s = {SCALES}.DynamicLossScale(8)\n{before}opt = {KEPT}(o, {given})\n"
        )
        for what, before, given in (
            ("an item", "a = [s]\n", "a[0]"),
            ("what a function gets", "", "get(s)"),
            ("an attribute", "x.s = s\n", "x.s"),
        )
    },
    "a number that only the program knows": as_of_2_3(f"{TF_OLD}opt = {KEPT}(o, x.scale«→, skip_counts_step=True»)\n"),
    "a loss scale in a partial": as_of_2_3(
        f"import functools\n{TF_INSTALL}wrap = functools.partial({KEPT}, loss_scale={SCALES}.DynamicLossScale(8))\n"
    ),
    "the loss scales of items": as_of_2_3(
        f"{TF_INSTALL}opts = [{KEPT}(o, 8)]\nscales = [opt.loss_scale for opt in opts]\n"
    ),
    "no loss scale of an item": as_of_2_3(
        f"{TF_NEW}{NEW}(o, «8→dynamic=False, initial_scale=8»)\nx.get_config(), y.loss_scale, z.w.loss_scale\n"
    ),
    "an object that may be either": as_of_2_3(
        f'{TF}«→import mpls.experimental\n»import os\n«→mpls.install(as_of="2.3")\n»'
        f"scale = {SCALES}.DynamicLossScale(8)\nif fixed:\n    scale = {SCALES}.FixedLossScale(8)\n"
        f"opt = {KEPT}(optimizer, scale)\nprint(scale())\n"
    ),
    "where the name mpls is taken": as_of_2_3(
        f"{TF}«→import mpls.experimental as mpls_experimental\n»mpls = 1\n"
        f"opt = «{EXPERIMENTAL}→mpls_experimental».LossScaleOptimizer(optimizer, scale«→, skip_counts_step=True»)\n"
        "print(opt.get_config())\n",
        "loss-scale-objects",
    ),
    "attributes of the object": as_of_2_3(
        f"{TF_INSTALL}opt = {KEPT}(optimizer, 'dynamic')\nprint(opt.loss_scale._num_good_steps)\n"
    ),
    "a loss scale's class": as_of_2_3(
        f"{TF_INSTALL}class Mine({SCALES}.LossScale): pass\nopt = {KEPT}(optimizer, Mine())\n"
    ),
    "a wrapper's class": as_of_2_3(
        f"{TF_INSTALL}class Mine({KEPT}):\n    def scale(self):\n        return self.loss_scale()\n"
        "opt = Mine(optimizer, 'dynamic')\n",
    ),
    "isinstance of a wrapper": as_of_2_3(
        f'{TF}«→import mpls.experimental\nimport mpls.keras\nmpls.install(as_of="2.3")\n'
        f"»opt = {KEPT}(optimizer, 'dynamic')\nisinstance(opt, {NEW})\nprint(opt.get_config())\n",
    ),
    "no release": case(f"{TF_NEW}opt = {NEW}(optimizer, {DYNAMIC})\nprint(opt.get_config())\n"),
    "no release, and an object that nothing shares": case(
        f"{TF_OLD}scale = {SCALES}.DynamicLossScale(64.0, 3)\nopt = {KEPT}(optimizer, scale)\n"
        "print(opt.loss_scale«()→»)\n",
    ),
    "as of 2.4": case(
        f"{TF_NEW}opt = {NEW}(optimizer, «'dynamic'→dynamic=True, skip_counts_step=True»)\nprint(opt.get_config())\n",
        as_of="2.4",
    ),
    "only the scale": as_of_2_3(
        f"{TF_NEW}opt = {NEW}(optimizer, «'dynamic'→dynamic=True, skip_counts_step=True»)\n"
        "print(opt.loss_scale«()→»)\n",
    ),
    "a gate by numbers": as_of_2_3(
        f"{TF_NEW}opt = {NEW}(optimizer, «'dynamic'→dynamic=True, skip_counts_step=True»)\n"
        "if tuple(map(int, tf.__version__.split('.')[:2])) < (2, 4):\n    print(opt.get_config())\n",
    ),
    "a gate by hasattr": as_of_2_3(
        f"{TF_NEW}opt = {NEW}(optimizer, «'dynamic'→dynamic=True, skip_counts_step=True»)\n"
        f"if hasattr({KERAS}, 'experimental'):\n    print(opt.get_config())\n",
        "names-in-strings",
    ),
    "it is called already": case(
        'import mpls.experimental\nsetup.install()\nmpls.install(as_of="2.3")\n'
        "opt = mpls.experimental.LossScaleOptimizer(optimizer, 'dynamic')\nloss = opt.get_scaled_loss(loss)\n"
        "print(opt.loss_scale())\n",
    ),
    "what is written is imported already": as_of_2_3(
        f'import mpls\nimport mpls.experimental\n{TF}«→mpls.install(as_of="2.3")\n»'
        f"opt = {KEPT}(optimizer, 'dynamic')\nprint(opt.get_config())\n"
    ),
    "the class is passed on, and asked for": case(
        f"{TF_BOTH}opt = {KEPT}(optimizer, 'dynamic'«→, skip_counts_step=True»)\nf({KEPT})\n"
        f"assert isinstance(opt, {NEW})\n",
        "experimental-wrapper",
        as_of="2.8",
    ),
    "a loaded optimizer": case(
        f"{TF_OLD}opt = {KEPT}(optimizer, 'dynamic'«→, skip_counts_step=True»)\n"
        f"model = tf.keras.models.load_model(path, {{'LossScaleOptimizer': {KEPT}}})\n"
        f"print(isinstance(model.optimizer, {KEPT}))\n",
        as_of="2.8",
    ),
    "a compiled optimizer by keyword": case(
        f"{TF_NEW}model = make()\nmodel.compile(loss='mse', optimizer={NEW}(optimizer, {FIXED}8))\n"
        "print(model.optimizer.loss_scale«()→»)\n",
    ),
    "the config of the wrapper that compile makes": as_of_2_3(
        f"{TF_INSTALL}{MODULE}.set_policy('mixed_float16')\nmodel = make()\nmodel.compile('sgd')\n"
        "opt = model.optimizer\nprint(opt.get_config()['loss_scale'])\n",
    ),
    "no release, and the wrapper that compile makes": case(
        f"{TF_OLD}p = {MODULE}.Policy('mixed_float16', loss_scale=8)\n{MODULE}.set_policy(p)\ndef build():\n"
        "    model = make()\n    model.compile('sgd')\n    return model\nnet = build()\n"
        "print(net.optimizer.get_config()['loss_scale'], net.optimizer.loss_scale«()→»)\n",
        "loss-scale-objects",
    ),
    "a gate for TF 1": as_of_2_3(
        f"{TF_INSTALL}if tf.__version__.startswith('1.'):\n    tf.enable_eager_execution()\n"
        f"opt = {KEPT}(optimizer, 'dynamic')\nprint(opt.get_config())\n",
    ),
    "shapes in a checkpoint": case(
        "import tensorflow.compat.v1 as tf\nopt = tf.mixed_precision.MixedPrecisionLossScaleOptimizer(opt, 8)\n"
        "print(tf.train.NewCheckpointReader(path).get_variable_to_shape_map())\n",
    ),
    "a method that variables lack": case(
        f"{TF_V1}opt = «tf.train.experimental→mpls.v1».MixedPrecisionLossScaleOptimizer(opt, 8)\n"
        "x = v.initialized_value()\n",
        "graph-mode",
    ),
    "a star": case(
        "from «tensorflow.keras.mixed_precision.experimental import *→mpls.experimental import "
        "LossScaleOptimizer, Policy, get_layer_policy, global_policy, set_policy»  # noqa\n«→import mpls.keras\n"
        "»set_policy('mixed_float16')\n"
        f"opt = «LossScaleOptimizer→mpls.keras.LossScaleOptimizer»(optimizer, {FIXED}8)\n"
        "print(opt.loss_scale«()→»)\n",
    ),
    "a star and a class of the program's own": case(
        "from «tensorflow.keras.mixed_precision.experimental import *→mpls.experimental import "
        "LossScaleOptimizer, Policy, get_layer_policy, global_policy, set_policy»\nclass LossScaleOptimizer: pass\n"
        "opt = LossScaleOptimizer(optimizer, 8)\n",
    ),
    "stars of modules that stay": case("from tensorflow.keras.mixed_precision import *\nfrom tensorflow import *\n"),
    "a star of a private module": case(
        "from tensorflow.python.keras.mixed_precision.experimental.loss_scale_optimizer import *\n", "star-imports"
    ),
}
IMPORTS = {
    "comments behind names that go to several modules": case(
        "«from tensorflow.keras.mixed_precision.experimental import (\n    →»# Half of it.\n"
        "«    LossScaleOptimizer,  →»# the wrapper\n«    set_policy,  →»# noqa: F401\n"
        "«    →from mpls.keras import LossScaleOptimizer\n"
        "from mpls.experimental import set_policy, »global_policy, Policy«,\n)→»\n"
        f"opt = LossScaleOptimizer(o, {DYNAMIC})\n",
    ),
    "names of several modules": case(
        "from «tensorflow.train.experimental→mpls.v1» import DynamicLossScale, enable_mixed_precision_graph_rewrite\n",
    ),
    "import as": case(
        "import «tensorflow.keras.mixed_precision→mpls».experimental as mixed_precision\n"
        "mixed_precision.global_policy()\n",
    ),
    "a class like a module": case(
        "import «tensorflow.keras.mixed_precision.experimental→tensorflow»\n«→import mpls.experimental\n»"
        "import tensorflow.keras.mixed_precision.experimental.Policy\n"
        "«tensorflow.keras.mixed_precision→mpls».experimental.Policy('float32')\n"
    ),
    "a module of either release, whose class gets what either may take": case(
        "if new:\n    from tensorflow.keras import mixed_precision as mp\n«→    import mpls.keras\n»else:\n"
        "    from «tensorflow.keras.mixed_precision→mpls» import experimental as mp\n«→    import mpls.keras\n»"
        "«mp→mpls.keras».LossScaleOptimizer(o, dynamic=True)\n«mp→mpls.keras».LossScaleOptimizer(o, «→dynamic=False, initial_scale=»8)\n"
        "mp.LossScaleOptimizer(o, flag)\nmp.LossScaleOptimizer(o, **given)\nmp.LossScaleOptimizer(o, flag, x)\n"
        "mp.LossScaleOptimizer(o, dynamic=True, loss_scale=8)\n",
        *["experimental-wrapper"] * 4,
    ),
    "a class by its third name": case(
        "from «keras.src.mixed_precision.loss_scale_optimizer→mpls.keras» import "
        "«LossScaleOptimizerV3→LossScaleOptimizer as LossScaleOptimizerV3»\nLossScaleOptimizerV3(o)\n",
    ),
    "a module of either release, with Keras 2": case(
        "if new:\n    from tensorflow.keras import mixed_precision as mp\nelse:\n"
        "    from «tensorflow.keras.mixed_precision→mpls» import experimental as mp\nmp.LossScaleOptimizer(o, flag)\n",
        keras=2,
    ),
    "a module of either release, whose class is passed on and derived from": case(
        "try:\n    from tensorflow.keras import mixed_precision as mp\nexcept ImportError:\n"
        "    from «tensorflow.keras.mixed_precision→mpls» import experimental as mp\n"
        "C = mp.LossScaleOptimizer\nkinds = {'lso': C, 'policy': mp.Policy}\nclass Own(C): pass\n",
        "experimental-wrapper",
        "experimental-wrapper",
    ),
    "a name that is only passed on": case(
        "from «tensorflow.keras.mixed_precision→mpls».experimental import LossScaleOptimizer\n"
        "__all__ = ['LossScaleOptimizer']\n",
    ),
    "a name that is passed on and used": case(
        "from «tensorflow.keras.mixed_precision→mpls».experimental import LossScaleOptimizer\n«→import mpls.keras\n»"
        "__all__ = ['LossScaleOptimizer']\n__all__ = __all__ + ['x']\n"
        f"opt = «LossScaleOptimizer→mpls.keras.LossScaleOptimizer»(o, {DYNAMIC})\n",
    ),
    "what an annotated name gets, and what follows a loop": case(
        f"{TF_NEW}opt: object = {NEW}(o, {DYNAMIC})\nfor x in y:\n    pass\nelse:\n    opt = {NEW}(o, {DYNAMIC})\n"
    ),
    "a union of classes": case(
        f"{TF_NEW}isinstance(x, {NEW} | int) or isinstance(x, int | {NEW})\nopt = {NEW}(o, {DYNAMIC})\n"
    ),
    "a class that is matched": case(
        f"{TF_NEW}opt = {NEW}(o, {DYNAMIC})\nmatch opt:\n    case {NEW}():\n        pass\n"
    ),
    "an error of the name": case(
        "import tensorflow as tf\ntry:\n    x()\nexcept Exception as tf:\n"
        "    tf.mixed_precision.experimental.FixedLossScale(1)\n",
        "loss-scale-classes",
    ),
    "some names stay": case(
        "from tensorflow.keras.mixed_precision import Policy«,→\n"
        "from mpls.keras import» LossScaleOptimizer  # both\nopt = LossScaleOptimizer(opt)\n",
    ),
    "a private module of policies": case(
        "from «tensorflow.python.keras.mixed_precision→mpls».experimental import policy\n"
        "policy.policy_scope('float32')\n",
    ),
    "a namespace that is still there": case(
        "from tensorflow.keras import mixed_precision as mp\n«→import mpls.experimental\n"
        "»«mp→mpls».experimental.set_policy('float32')\nmp.set_global_policy('float32')\n",
    ),
    "a namespace that nothing has as a whole": case(
        "from tensorflow import mixed_precision\n«→import mpls.experimental\n"
        "»scale = «mixed_precision→mpls».experimental.DynamicLossScale()\n",
        "unknown-modules",
    ),
    "an alias by assignment": case(f"{TF_OLD}mp = {MODULE}\nmp.set_policy(mp.Policy('float32'))\n"),
    "an import in a function": case(
        f"def f(opt):\n    {TF}"
        "    «return tf.train.experimental.enable_mixed_precision_graph_rewrite→import mpls.v1\n"
        "    return mpls.v1.enable_mixed_precision_graph_rewrite»(opt)\n",
    ),
    "imports in a part of a function": case(
        f"{TF}«→import mpls.keras\nimport mpls.v1\n»def f(opt, old):\n    if old:\n        import tensorflow.compat.v1 as t\n"
        "        return «t.train.experimental→mpls.v1».enable_mixed_precision_graph_rewrite(opt)\n"
        f"    return {NEW}(opt, {DYNAMIC})\n",
    ),
    "imports in a function in another": case(
        f"«→import mpls.experimental\nimport mpls.v1\n»class C:\n    def f(opt, old):\n        {TF}        def g():\n"
        "            if old:\n                import tensorflow.compat.v1 as t\n"
        "                «t.train.experimental→mpls.v1».enable_mixed_precision_graph_rewrite(opt)\n"
        f"            {MODULE}.set_policy('float32')\n",
    ),
    "an import in another function": case(
        f"«→import mpls.experimental\n»@run\ndef load():\n    global tf\n    {TF}def f():\n"
        f"    return {MODULE}.Policy('float32')\n",
    ),
    "an import after a colon": case(
        "try: import tensorflow as tf«→; import mpls.experimental»\nexcept ImportError: tf = None\n"
        f"{MODULE}.set_policy('float32')\n",
    ),
    "an import that is there already": case(f"import mpls.experimental\n{TF}{MODULE}.set_policy('float32')\n"),
    "the name mpls is local": case(
        f"{TF}«→import mpls.experimental as mpls_experimental\n»import mpls.experimental\ndef f():\n    if new:\n"
        f"        import mpls\n    «{EXPERIMENTAL}→mpls_experimental».set_policy('float32')\n",
    ),
    "both arms of a try, by name": case(
        f"try:\n    {FROM}except ImportError:\n"
        "    from «tensorflow.keras.mixed_precision→mpls.keras» import LossScaleOptimizer\n"
        f"opt = LossScaleOptimizer(opt, {DYNAMIC})\n",
    ),
    "one of two classes": case(
        f"{TF_BOTH}mp = {KERAS}\nLSO = «mp→mpls».experimental.LossScaleOptimizer if old else "
        "«mp.LossScaleOptimizer→mpls.keras.LossScaleOptimizer»\nopt = «LSO→mpls.keras.LossScaleOptimizer»(opt)\n",
    ),
    "None where it is missing": case(
        f"try:\n    {FROM}except ImportError:\n    LossScaleOptimizer = None\nisinstance(opt, LossScaleOptimizer)\n",
        "experimental-wrapper",
    ),
    "ways that are taken no more": case(
        f"{TF_OLD}try:\n    try:\n        {MODULE}.set_policy('float32')\n    except ValueError:\n        pass\n"
        "except AttributeError:\n    pass\n"
        "try:\n    import «tensorflow.contrib.mixed_precision→mpls.contrib» as cmp\nexcept ImportError:\n    cmp = None\n",
        "experimental-policies",
        "contrib",
    ),
    "contrib under another name": case(
        "import tensorflow.contrib as tfc\n«→import mpls.contrib\n"
        "»m = «tfc.mixed_precision→mpls.contrib».FixedLossScaleManager(1)\n",
        "unknown-modules",
    ),
}
NATIVES = {
    "policies that are passed on": native(
        f"{TF_OLD}f({KERAS}«.experimental→».global_policy)\nf({MODULE}.Policy)\n{KERAS}«.experimental→».Policy('float32')\n"
        f"{KERAS}«.experimental→».global_policy()\n",
    ),
    "a class that is passed on, and a multiplier": native(
        f"{TF_BOTH}KINDS = ({KEPT},)\nopt = {NEW}(inner, «tf.train.experimental.DynamicLossScale(8, 1000, 4))→initial_scale=8, "
        "dynamic_growth_steps=1000, growth_factor=4, backoff_factor=1 / 4)»\n",
        "experimental-wrapper",
    ),
    "a dynamic scale": native(
        f"{TF}opt = «{EXPERIMENTAL}.LossScaleOptimizer(optimizer→{KERAS}.LossScaleOptimizer(inner_optimizer»=opt, "
        "«loss_scale='dynamic'→dynamic=True»)\nprint(opt.loss_scale«()→»)\n",
    ),
    "a namespace of tf.compat.v1 in a variable": native(
        f"import tensorflow.compat.v1 as tf\n«→import mpls.experimental\n»mp = {MODULE}\nmp.set_policy('float32')\n"
    ),
    "a namespace of tf.compat that is imported": native(
        "from «tensorflow.compat.v2.keras.mixed_precision import experimental→tensorflow.keras import "
        f"mixed_precision» as mp\nopt = mp.LossScaleOptimizer(opt, {DYNAMIC})\n",
    ),
    "a policy under which compile makes the wrapper, as of 2.4": native(
        f"{TF_OLD}{MODULE}.set_policy('mixed_float16')\nmodel.compile('adam')\n",
        "experimental-policies",
        as_of="2.4",
        keras=3,
    ),
    "a step with the wrapper that compile makes": native(
        f"{TF_OLD}{MODULE}.set_policy('mixed_float16')\nclass M(tf.keras.Model):\n    def train_step(self, data):\n"
        "        self.optimizer.get_scaled_loss(loss(data))\n",
        keras=3,
    ),
    "as of 2.4, with Keras 2": native(
        f"{TF}opt = {NATIVE}(opt, {DYNAMIC})\nother = {KERAS}.LossScaleOptimizer(opt)\n", as_of="2.4"
    ),
    "as of 2.2": native(f"{TF_NEW}opt = {NEW}(opt, «'dynamic'→dynamic=True, skip_counts_step=False»)\n", as_of="2.2"),
    "a second argument that is passed on": native(
        f"{TF_NEW}opt = {NEW}(opt, {FIXED}8)\nopt.apply_gradients(pairs, 1.0)\n"
    ),
    "the public wrapper": native(f"{TF}opt = {KERAS}.LossScaleOptimizer(opt)\n"),
    "a policy with a loss scale": native(
        f"{TF_OLD}p = {MODULE}.Policy('mixed_float16', loss_scale=8)\n"
        f"«{EXPERIMENTAL}.set_policy→{KERAS}.set_global_policy»(p)\n",
    ),
    "a module in an attribute": native(
        f"{TF_OLD}self.mp = {MODULE}\nself.mp.set_policy('float32')\n", "experimental-wrapper"
    ),
    "one of two modules": native(
        f"{TF_OLD}mp = {KERAS} if new else tf.compat.v1.keras.mixed_precision\n"
        "«mp→mpls».experimental.set_policy('float32')\n",
        *("experimental-wrapper",) * 2,
    ),
    "modules in two variables": native(
        f"{TF}mp = «{EXPERIMENTAL}→{KERAS}»\nmp.Policy('float32')\ndef f():\n    own = «{EXPERIMENTAL}→{KERAS}»\n"
        "    own.Policy('float32')\n"
    ),
    "an unknown scale": native(f"{TF_OLD}opt = {KEPT}(opt, scale)\n"),
    "a test for subclasses": native(f"{TF_NEW}opt = {PUBLIC}(opt)\nissubclass(kind, {PUBLIC})\n"),
    "a key of a dictionary": native(f"{TF_NEW}opt = {PUBLIC}(opt)\nNAMES = {{{PUBLIC}: 'wrapper'}}\n"),
    "an assigned module": native(
        f"{TF}mp = «{EXPERIMENTAL}→{KERAS}»\n«mp.set_policy→mp.set_global_policy»(mp.Policy('mixed_float16'))\n"
    ),
    "a graph": native(
        f"{TF}opt = {OF_GRAPH}.MixedPrecisionLossScaleOptimizer(opt, {OF_GRAPH}.DynamicLossScale(8))\n",
    ),
    "the rewrite of an optimizer of TF 1": native(
        f"{TF}opt = tf.train.AdamOptimizer(0.1)\nopt = {OF_GRAPH}.enable_mixed_precision_graph_rewrite(opt)\n",
    ),
    "the rewrite of another optimizer": native(
        f"{TF_V1}opt = «tf.train.experimental→mpls.v1».enable_mixed_precision_graph_rewrite(opt)\n"
    ),
}
NATIVES |= {
    f"the policy that {policy} gives": native(f"{TF_OLD}p = {MODULE}.{policy}\n")
    for policy in (
        "Policy('float32_vars')",
        "Policy(name)",
        "Policy('float32', None)",
        "Policy(name='float16')",
        "Policy",
    )
}
NATIVES |= {
    "a policy that was removed": native(f"{TF_OLD}p = {MODULE}.Policy('infer')\n", "removed-policies"),
    "the loss scale of a policy": native(f"{TF_OLD}p = {MODULE}.Policy('mixed_float16')\nprint(p.loss_scale)\n"),
    "a policy beside a wrapper's loss scale": native(
        f"{TF}p = «{EXPERIMENTAL}→{KERAS}».Policy('mixed_float16')\nopt = {NATIVE}(o, {FIXED}8)\n"
        "print(opt.loss_scale«()→»)\n"
    ),
    "a subclass of the policy": native(f"{TF_OLD}class P({MODULE}.Policy): pass\n"),
}
# What is migrated stays as it is.
VALUES |= {f"again: {name}": dataclasses.replace(each, before=each.after, left=()) for name, each in VALUES.items()}
RELEASES |= {
    f"again: {name}": dataclasses.replace(each, before=each.after, left=())
    for name, each in RELEASES.items()
    if 'mpls.install(as_of="2.3")' in each.after and not each.left
}
TABLES = {
    "imports": IMPORTS,
    "members": MEMBERS,
    "native": NATIVES,
    "objects": OBJECTS,
    "releases": RELEASES,
    "values": VALUES,
    "wrappers": WRAPPERS,
}
CASES = {f"{table}: {name}": each for table, cases in TABLES.items() for name, each in cases.items()}
# What is no use of the API stays whichever names are written.
CASES |= {
    f"native: {name}": dataclasses.replace(each, is_native=True) for name, each in MEMBERS.items() if each.is_unchanged
}
