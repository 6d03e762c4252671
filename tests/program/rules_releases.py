"""Programs that need the behaviour of a release, or other classes, and ones that nearly do: source and options."""

from __future__ import annotations

from .programs import EXPERIMENTAL, NEW, OF_2_8, TF, WRAPPED

SHARED = (
    EXPERIMENTAL + "s = tf.mixed_precision.experimental.DynamicLossScale()\n"
    "opt = prec.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1), s)\n"
)
MAKING = TF + "L, SGD = tf.keras.mixed_precision.experimental.LossScaleOptimizer, tf.keras.optimizers.SGD\n"
AS_OF = [
    (
        "a multiplier for a wrapper",
        EXPERIMENTAL
        + "s = tf.mixed_precision.experimental.DynamicLossScale(multiplier=4.0)\n"
        + "opt = prec.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1), s)",
        f"{OF_2_8} --as-of 2.3",
    ),
    (
        "of an argument that is called an optimizer",
        WRAPPED + "def f(inner_opt): return inner_opt.loss_scale()",
        f"{OF_2_8} --as-of 2.3",
    ),
    (
        "of what isinstance finds",
        EXPERIMENTAL + "def f(o):\n    if isinstance(o, prec.LossScaleOptimizer):\n        o.loss_scale()",
        "--keras 2 --as-of 2.3",
    ),
    (
        "of one in a dict",
        EXPERIMENTAL + "os = {n: prec.LossScaleOptimizer(tf.keras.optimizers.SGD(1), 1) for n in 'ab'}\n"
        "os['a'].loss_scale()",
        f"{OF_2_8} --as-of 2.3",
    ),
    (
        "in an expression that every release takes",
        WRAPPED + "s = opt.loss_scale() if tf.__version__ < '2.4' else opt.loss_scale",
        f"{OF_2_8} --as-of 2.3",
    ),
    (
        "of a module chosen by a gate that every release passes",
        TF + "if tf.__version__ < '2.4':\n"
        "    from tensorflow.keras.mixed_precision import experimental as m\nelse:\n"
        "    from tensorflow.keras import mixed_precision as m\n"
        "o = m.LossScaleOptimizer(tf.keras.optimizers.SGD(1), 1)\no.loss_scale()",
        f"{OF_2_8} --as-of 2.3",
    ),
    (
        "by a star",
        TF + "from tensorflow.keras.mixed_precision.experimental import *\n"
        "o = LossScaleOptimizer(tf.keras.optimizers.SGD(1), 1)\no.loss_scale()",
        f"{OF_2_8} --as-of 2.3",
    ),
    *(
        (f"of a wrapper by what it is assigned: {code}", MAKING + code, f"{OF_2_8} --as-of 2.3")
        for code in (
            "a = b = L(SGD(), 'dynamic')\nb.loss_scale()",
            "o1, o2 = L(SGD(), 1), L(SGD(), 1)\no1.loss_scale()",
            "if (o := L(SGD(), 1)): o.loss_scale()",
            "o = L(SGD(), 1)\nprint(o.get_config()['loss_scale'])",
            "o = L(SGD(), 1)\nisinstance(o.loss_scale, tf.mixed_precision.experimental.DynamicLossScale)",
            "o = L(SGD(), 1)\nclass A:\n    def loss_scale(self): pass\no.loss_scale()",
            "def show(o): o.loss_scale()\nshow(L(SGD(), 1))",
            "def show(x, *, o=None): return o.loss_scale()\nprint(show(1, o=L(SGD(), 1)))",
            "s = L(SGD(), 1).loss_scale\ns()",
        )
    ),
    ("by a string", WRAPPED + "getattr(opt, '_loss_scale')()", f"{OF_2_8} --as-of 2.3"),
    (
        "in a subclass",
        EXPERIMENTAL + "class O(prec.LossScaleOptimizer):\n    def f(self): return self.loss_scale()\n"
        "tf.keras.optimizers.SGD(1)",
        f"{OF_2_8} --as-of 2.3",
    ),
    (
        "of the graph rewrite",
        TF + "x = tf.train.experimental.enable_mixed_precision_graph_rewrite("
        "tf.keras.optimizers.SGD(1))\nx.loss_scale()",
        f"{OF_2_8} --as-of 2.3",
    ),
    ("the very object", SHARED + "assert opt.loss_scale is s", f"{OF_2_8} --as-of 2.3"),
    (
        "in a test",
        SHARED + "class T(Base):\n    def test_it(self): self.assertIs(opt.loss_scale, s)",
        f"{OF_2_8} --as-of 2.3",
    ),
    ("the name of a policy", EXPERIMENTAL + "prec.set_policy('infer')", "--keras 2 --as-of 2.2"),
    (
        "a program of TF 1",
        TF + "s = tf.Session()\nprec = tf.keras.mixed_precision.experimental\n"
        "o = prec.LossScaleOptimizer(tf.keras.optimizers.SGD(1), 1)",
        "--v1 --keras 2 --legacy-optimizers --as-of 1.15",
    ),
    # Nearly.
    ("an equal one", SHARED + "assert opt.loss_scale == s", OF_2_8),
    ("or not", SHARED + "assert (opt.loss_scale is s) or tf.is_tensor(opt.loss_scale)", OF_2_8),
    ("none", SHARED + "def f(opt): assert opt.loss_scale is None", OF_2_8),
    ("the object of another", SHARED + "class A: pass\nA.loss_scale = s\nassert A.loss_scale is s", OF_2_8),
    (
        "of what is given such an object too",
        WRAPPED + "class A:\n    def loss_scale(self): pass\nopt = A()\nopt.loss_scale()",
        OF_2_8,
    ),
    *(
        (f"not certainly of a wrapper: {code}", MAKING + code, OF_2_8)
        for code in (
            "def show(o): o.loss_scale()\nshow(L(SGD()))\nshow(thing())",
            "class A:\n    def loss_scale(self): pass\ndef show(o): o.loss_scale()\nshow(L(SGD()))",
            "a = b = thing(L(SGD()))\nb.loss_scale()",
            "o, p = L(SGD()), thing()\np.loss_scale()",
            "o, p = pair(L(SGD()))\no.loss_scale()",
            "if (o := thing(L(SGD()))): o.loss_scale()",
            "o = L(SGD())\no = thing()\nif (p := o): p.loss_scale()",
            "o = L(SGD())\no.get_config()['optimizer']",
            "o = L(SGD())\nlayer.get_config()['loss_scale']",
            "o = L(SGD())\nassert not isinstance(o.loss_scale, tf.mixed_precision.experimental.LossScale)",
            "o = L(SGD())\nisinstance(o.loss_scale, tf.Tensor)",
            "s = L(SGD()).loss_scale\ns = thing\ns()",
            "s = L(SGD()).loss_scale\nv = s() if callable(s) else s",
            "s = L(SGD()).loss_scale\nif callable(s): s = s()",
            "s = L(SGD()).loss_scale\nif callable(s): print(s())",
            "a = b = L(SGD())\nif callable(b.loss_scale): b.loss_scale()",
            "from packaging import version\na = b = L(SGD())\n"
            "if version.parse(tf.__version__) < version.parse('2.4'): b.loss_scale()",
        )
    ),
    (
        "of the policy",
        EXPERIMENTAL + "policy = prec.Policy('mixed_float16')\npolicy.loss_scale._current_loss_scale",
        "--keras 2",
    ),
]

MPLS = (
    TF
    + """import mpls
import mpls.experimental
from mpls.keras import LossScaleOptimizer as L
m = tf.keras.Sequential()
opt = L(tf.keras.optimizers.SGD(0.1))
"""
)
REPLACING = [
    (
        "with its arguments",
        TF + "opt = tf.keras.mixed_precision.LossScaleOptimizer(o, dynamic=False, initial_scale=2)",
        3,
        "--replace-existing",
    ),
    *(
        (f"{use} of a wrapper", NEW + use, None, "--keras 2")
        for use in (
            "opt.lr = 0.5",
            "print(opt.dynamic)",
            "opt._optimizer",
            "opt.variables()",
            "opt.minimize(f, v)",
            "opt.apply_gradients(g, experimental_aggregate_gradients=False)",
        )
    ),
    *(
        (f"{use}, which the last wrapper of Keras 2 has not", NEW + use, None, "--keras 2 --replace-existing")
        for use in (
            "opt.momentum = 0.5",
            "print(opt.beta_1)",
            "opt.weights",
            "opt._decayed_lr(tf.float32)",
        )
    ),
    *(
        (f"{use}, which only wrappers over legacy optimizers have", NEW + use, None, OF_2_8)
        for use in (
            "print(opt.decay)",
            "opt.decay = 0.5",
            "def f(o): return o.decay\nf(opt)",
            "opt.get_slot(v, 'm')",
            "opt.get_slot_names()",
            "opt.add_slot(v, 'm')",
            "opt.get_gradients(loss, v)",
            "opt.lr\nopt.get_updates(loss, v)",
        )
    ),
    *(
        (f"of a wrapper of mpls, {code}", MPLS + code, None, expected)
        for code, expected in (
            ("opt.lr\nopt.weights\nopt.dynamic\nopt.get_scaled_loss(1)\nopt.beta_1\nopt.minimize(f, v)", ""),
            ("m.compile(opt)\nm.optimizer.loss_scale\nm.optimizer.lr = 1", ""),
            ("m.compile(loss='mse', optimizer=opt)\nm.optimizer.get_weights()", ""),
            ("mpls.experimental.set_policy('mixed_float16')\nm.compile('sgd')\nm.optimizer.loss_scale", ""),
            ("inner = tf.keras.optimizers.SGD(0.1)\ninner = L(inner)\ninner.lr = 1", ""),
            ("opt.decay", OF_2_8),
            ("opt.get_slot(v, 'm')", OF_2_8),
            ("m.compile(opt)\nm.optimizer.decay", "--keras 2"),
            ("m.compile(opt)\nm.compile('sgd')\nm.optimizer.lr", "--keras 2"),
            ("m.optimizer.lr", "--keras 2"),
            (
                "mp = tf.keras.mixed_precision\nW = getattr(mp, 'LossScaleOptimizer', L)\nclass O(W): pass\n"
                "o = O(opt)\no.get_weights()",
                "--keras 2 --replace-existing",
            ),
            ("tf.keras.optimizers.SGD(0.1).lr", "--keras 2"),
        )
    ),
    *(
        (
            f"{use}, which only those of mpls over legacy optimizers have",
            NEW + use,
            None,
            f"{OF_2_8} --replace-existing",
        )
        for use in (
            "opt._get_hyper('learning_rate')",
            "opt._set_hyper('learning_rate', 1)",
            "opt.decay\nopt._decayed_lr(tf.float32)",
        )
    ),
    (
        "a subclass of a wrapper that takes what it took up to 2.10",
        TF
        + "class W(tf.keras.mixed_precision.LossScaleOptimizer):\n"
        + "    def apply_gradients(self, gv, name=None, experimental_aggregate_gradients=True): pass",
        None,
        "--keras 2 --legacy-optimizers --replace-existing",
    ),
    # Nearly.
    ("of another thing by the same name", NEW + "def f(x):\n    opt = make(x)\n    opt.weights\nf(opt)", None, ""),
    ("a scale by position", NEW.replace("0.1)", "0.1), 128.0"), None, ""),
    ("of something else", TF + "other.get_scaled_loss(1.0)", 3, ""),
]
