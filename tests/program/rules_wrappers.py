"""Programs that get the public wrapper in roundabout ways, and ones that nearly look the same: source and options."""

from __future__ import annotations

from .programs import NEW, TF

_PREC = TF + "mp = tf.keras.mixed_precision\n"
_PUBLIC = "from tensorflow.keras.mixed_precision import LossScaleOptimizer as W"
_OTHER = "from tensorflow.keras.mixed_precision.experimental import LossScaleOptimizer as W"
_USE = "\nclass L(W): pass\nopt = L(tf.keras.optimizers.SGD())\nopt.get_weights()"
_REPLACED = "--keras 2 --replace-existing"
_OF_EXPERIMENTAL = "--keras 2 --legacy-optimizers"


def _if(test: str, first: str, second: str) -> str:
    return f"{_PREC}if {test}:\n    {first}\nelse:\n    {second}{_USE}"


def _try(first: str, second: str, error: str = "ImportError") -> str:
    return f"{_PREC}try:\n    {first}\nexcept {error}:\n    {second}{_USE}"


_BY_VERSION = "major, minor = map(int, tf.__version__.split('.')[:2])\n"
_MODULES = (
    TF + _BY_VERSION + "if (major, minor) >= (2, 4):\n    from tensorflow.keras import mixed_precision as mp\n"
    "    W = mp.LossScaleOptimizer\n"
    "else:\n    from tensorflow.keras.mixed_precision import experimental as mp\n    W = mp.LossScaleOptimizer" + _USE
)

TWO_BRANCHES = [
    ("a version by its parts", _MODULES, _REPLACED),
    (
        "getattr or",
        _PREC + "W = getattr(mp, 'LossScaleOptimizer', None) or mp.experimental.LossScaleOptimizer" + _USE,
        _REPLACED,
    ),
    (
        "a conditional expression",
        _PREC
        + "W = mp.LossScaleOptimizer if hasattr(mp, 'LossScaleOptimizer') else mp.experimental.LossScaleOptimizer"
        + _USE,
        _REPLACED,
    ),
    # The experimental one, which is looked for first and is there.
    ("not hasattr of the other", _if("not hasattr(mp, 'experimental')", _PUBLIC, _OTHER), _OF_EXPERIMENTAL),
    ("try of the other, and then try", _try(_OTHER, f"try: {_PUBLIC}\n    except ImportError: pass"), _OF_EXPERIMENTAL),
    # Nearly.
    ("no test for a release", _if("args.old", _OTHER, _PUBLIC).replace("get_weights()", "lr"), _OF_EXPERIMENTAL),
]

_MAKE = TF + "def make(fp16):\n    o = tf.keras.optimizers.Adam()\n"
_WRAP = "tf.keras.mixed_precision.LossScaleOptimizer(o)\n"

FLOWS = [
    ("a variable", NEW + "other = opt\nprint(other.momentum)", _REPLACED),
    (
        "an attribute of a class",
        NEW
        + "class T:\n    def __init__(self, model, optimizer): self.optimizer = optimizer\n"
        + "    def run(self): return self.optimizer.momentum\nT(None, opt).run()",
        _REPLACED,
    ),
    ("a method", NEW + "class T:\n    def f(self, o): o.rho\n    def g(self): self.f(opt)\nT().g()", _REPLACED),
    (
        "one that a function returns",
        _MAKE + "    if fp16: o = " + _WRAP + "    return o\nopt = make(1)\nopt.beta_1",
        _REPLACED,
    ),
    ("what scales a loss", NEW + "def f(o):\n    o.get_scaled_loss(x)\n    o.momentum\nf(opt, *a)", _REPLACED),
    ("what compile gets", NEW + "m = make()\nm.compile(opt)\nm.optimizer.momentum", _REPLACED),
    (
        "what isinstance finds",
        NEW + "L = tf.keras.mixed_precision.LossScaleOptimizer\ndef f(o):\n    if isinstance(o, L): o.rho",
        _REPLACED,
    ),
    # Nearly.
    ("either", NEW + "def f(o): return o.momentum\nf(opt)\nf(tf.keras.optimizers.SGD())", ""),
    (
        "a method of two classes",
        NEW + "class T:\n    def f(self, o): o.rho\nclass U:\n    def f(self, o): 0\nU().f(opt)",
        "",
    ),
    ("a loop over more", NEW + "for o in [opt, *others]: o.momentum", ""),
]
