"""Programs and the options that they need, and programs that nearly look the same: source and options."""

from __future__ import annotations

from tests.install.hint_cases import CASES

from .programs import EXPERIMENTAL, NEW, OF_2_8, TF, WRAPPED

# Programs of TF 1.
V1 = [
    ("eager TF 1", TF + "tf.enable_eager_execution()\nwith tf.GradientTape() as tape:\n    pass", "--v1"),
    # Nearly.
    ("behind a gate", TF + "if tf.__version__.startswith('1.'):\n    s = tf.Session()", ""),
    ("in a text", TF + "'tf.Session()'  # tf.placeholder", ""),
]

GRAPH = TF + "tf.compat.v1.disable_eager_execution()\n"
_APPLY = "    def _resource_apply_dense(self, g, v): pass"
# Programs of Keras 2 and of its older optimizers.
KERAS = [
    ("a function of losses", TF + "loss = tf.keras.losses.mean_squared_error(x, y)", "--keras 2"),
    ("a function of tf.losses", TF + "m = tf.keras.Model()\nloss = tf.losses.mean_squared_error(x, y)", "--keras 2"),
    ("lr of a model's", TF + "m = tf.keras.Sequential()\nm.compile()\nm.optimizer.lr = 1", "--keras 2"),
    *(
        (f"{rate} of a model's", TF + f"m = tf.keras.Sequential()\ntf.keras.backend.{rate}, 1)", "--keras 2")
        for rate in (
            "set_value(m.optimizer.lr",
            "set_value(m.optimizer.learning_rate",
            "update(m.optimizer.learning_rate",
        )
    ),
    ("workers of fit", TF + "m = tf.keras.Sequential()\nm.fit(g, workers=3, max_queue_size=9)", "--keras 2"),
    (
        "a method around that of Keras 2",
        TF + "class M(tf.keras.Model):\n    def fit_generator(self, *a):\n"
        "        return super().fit_generator(*a)\nM()",
        "--keras 2",
    ),
    ("an old period", TF + "tf.keras.callbacks.ModelCheckpoint('a.h5', period=1)", "--keras 2"),
    ("layers in graphs", GRAPH + "tf.keras.layers.Dense(1)", "--keras 2"),
    (
        "layers of TF 1 in graphs",
        "import tensorflow.compat.v1 as tf\ntf.disable_v2_behavior()\ntf.keras.Model()",
        "--keras 2",
    ),
    ("graphs alone", GRAPH + "tf.compat.v1.placeholder(tf.float32)", ""),
    ("a session beside layers", TF + "tf.compat.v1.Session()\ntf.keras.layers.Dense(1)", ""),
    *(
        (source, f"{TF}m = tf.keras.Sequential()\n{source}", expected)
        for source, expected in (
            ("o = tf.keras.optimizers.SGD()\no.get_slot(v, 'm')", OF_2_8),
            ("o = tf.keras.optimizers.legacy.SGD()\no.get_slot(v, 'm')", "--keras 2"),
            (
                "o = tf.keras.optimizers.SGD()\nif x: o = tf.keras.optimizers.legacy.SGD()\no.get_slot(v, 'm')",
                "--keras 2",
            ),
            (f"class X(tf.keras.optimizers.Optimizer):\n{_APPLY}", OF_2_8),
            ("class X(tf.keras.optimizers.Optimizer):\n    def other(self, g): pass", ""),
            (f"class X(tf.keras.layers.Layer):\n{_APPLY}", ""),
            (f"B = tf.keras.optimizers.Optimizer if tf.__version__ < x else tf.Module\nclass X(B):\n{_APPLY}", ""),
        )
    ),
]

MODEL = TF + "import os, tempfile\nmodel = tf.keras.Sequential()\n"
SAVING = [
    ("in a folder", MODEL + "def f(d): model.save(os.path.join(d, 'model'))", "--keras 2"),
    ("a callback of keras", "from keras.callbacks import ModelCheckpoint\nModelCheckpoint(filepath='b')", "--keras 2"),
    *(
        (f"to {path}", f"{MODEL}p = 'a'\nq = p\nmodel.save({path})", "--keras 2")
        for path in (
            "f'{d}/b'",
            "d + '/b'",
            "d / 'b'",
            "tempfile.mkdtemp(prefix='x', dir=d)",
            "p",
            "q",
            "'a', save_format='tf'",
        )
    ),
    *(
        (call, f"{MODEL}{call}", "--keras 2")
        for call in (
            "model.save_weights('a')",
            "model.save_weights('a.h5')",
            "model.load_weights('a')",
            "tf.keras.callbacks.ModelCheckpoint('a.h5', save_weights_only=True)",
        )
    ),
    # Nearly.
    *(
        (call, f"{MODEL}{call}", "")
        for call in (
            "model.save_weights('a.weights.h5')",
            "p = 'hf://a'\nmodel.save(p)",
            "model.load_weights('a.h5')",
            "tf.keras.callbacks.ModelCheckpoint('a.h5', save_weights_only=False)",
            "tf.keras.callbacks.ModelCheckpoint('a.h5', save_best_only=True)",
        )
    ),
    *(
        (f"to {path}", f"{MODEL}p = 'a'\np = other()\nmodel.save({path})", "")
        for path in (
            "d - 'b'",
            "f'{d}/{x}'",
            "tempfile.mkdtemp(suffix='.h5')",
            "tempfile.mkdtemp('.h5')",
            "os.path.join('a')",
            "os.path.join('a', 'b', 'c.h5')",
            "os.path.join(d, x)",
            "os.path.join('hf://a', 'b')",
            "b'x'",
            "'a', zipped=False",
            "'a', **options",
            "p",
            "name + '5'",
            "path_of('b')",
        )
    ),
    ("to what is not told", MODEL + "model.save(*arguments)\nmodel.save(paths[0])", ""),
    ("to .hdf5", MODEL + "model.save('a.hdf5')", ""),
    ("to the hub", MODEL + "def f(u): model.save(f'hf://{u}/model')\nmodel.save('hf://a/b')", ""),
]

# Conditions that test for the release, ones that only sound so, and names with several spellings.
SESSION = "    tf.Session()\n"
_PARSE = "from packaging.version import parse as P\n"
_NEW = TF + "NEW = tf.__version__ > x\n"
GATES = [
    ("a part after others", TF + "*_, a, b = tf.__version__.split('.')\nif a == '9':\n" + SESSION, ""),
    ("a module that may be None", TF + "try:\n    import tf_keras\nexcept ImportError:\n    tf_keras = None\n"
     "if tf_keras is None:\n" + SESSION, ""),
    ("not what TensorFlow has", TF + "mp = tf.keras.mixed_precision\n"
     "x = None if not hasattr(mp, 'experimental') else mp.experimental\nx.set_policy('float32')", ""),
    ("what a module of it has", TF + "from tensorflow import compat\nif hasattr(compat.v1, 'x'):\n" + SESSION, ""),
    ("a number of a release", TF + "from compat import __version__\nif __version__ < '2':\n" + SESSION, ""),
    ("an answer by its name", TF + "from compat import IS_TF2\nif not IS_TF2:\n" + SESSION, ""),
    ("a module that is imported", "import tensorflow as tf, tf_keras\nif not tf_keras is None:\n" + SESSION, ""),
    ("any error", TF + "try:\n    import x\n    OK = True\nexcept:\n    OK = False\nif OK:\n" + SESSION, ""),
    ("a choice in a choice", TF + "s = (tf.Session() if x else 1) if hasattr(tf, 'Session') else 2", ""),
    ("what follows a choice in a choice", TF + "s = [1 if x else 2, tf.Session()] if hasattr(tf, 'Session') else 2", ""),
    ("what follows a default", TF + "s = [getattr(x, 'y', 2), tf.Session()] if hasattr(tf, 'Session') else 2", ""),
    ("a default in a choice", TF + "s = getattr(x, 'y', tf.Session()) if hasattr(tf, 'Session') else 2", ""),
    ("a default of what TensorFlow has", TF + "s = getattr(tf, 'session', tf.Session())", ""),
    ("of what a star brings", "from tensorflow import *\nif hasattr(compat, 'x'):\n    compat.Session()", ""),
    ("eager mode", TF + "if not tf.executing_eagerly():\n" + SESSION, ""),
    *(
        (f"not the only arm of {test}", TF + f"{_PARSE}v = tf.__version__\nif {test}:\n" + SESSION, "")
        for test in ("v.startswith('2.2')", "v[:4] == '2.21'", "v[9] == v", "float(v) < 2", "v[:4] > '2.19'", "3 > v",
                     "[int(x) for x in v.split('.') if x] > [2, 4]", "P(v) < P('2.4rc0')", "P(v).minor < 19")
    ),
    ("the side of a choice that is never taken", TF + "s = tf.Session() if False else None", ""),
    *(
        (source, _NEW + source, "")
        for source in (
            "NEW and tf.Session()", "NEW or tf.Session()", "x and NEW and tf.Session()", "NEW and x and tf.Session()",
            "False and tf.Session()", "True or tf.Session()", "ON = False\nON and tf.Session()",
            "ON = True\nON or tf.Session()", "m = getattr(tf, 'contrib', tf.compat.v1)\nm.Session()",
            "for x in y:\n    if NEW: continue\n" + SESSION,
            *(f"def f():\n    {lines}\n{SESSION}f()" for lines in (
                "if NEW: return", "if NEW: pass\n    else: return", "if True: return", "if False: pass\n    else: return",
            )),
            "ON = True\ndef f():\n    if ON: return\n" + SESSION + "f()",
            "def f():\n    if NEW: return tf.Session()\nf()",
            "def is_new():\n    a = 1\n    b = 2\n    return NEW\nif is_new():\n" + SESSION,
            "from lib import *\nif IS_TF2:\n" + SESSION, "import lib\nif lib.IS_TF2:\n" + SESSION,
            "class C:\n    def __init__(self): self.new = NEW\n    def f(self):\n        if self.new: tf.Session()\nC().f()",
            "class C:\n    new = NEW\n    def f(self):\n        if self.new: tf.Session()\nC().f()",
            "if 'Session' in tf.__dict__:\n" + SESSION, "if getattr(tf, 'x', 0):\n" + SESSION,
            "if hasattr(opt, 'loss_scale'):\n" + SESSION, "mp = tf.keras\nif hasattr(mp, 'x'):\n" + SESSION,
            "from tensorflow import *\nif compat.v1.executing_eagerly():\n    Session()",
            "from tensorflow import *\nif hasattr(keras, 'x'):\n" + SESSION,
            "from lib import x as np\nif np.__version__ > '1':\n" + SESSION,
            "import tf_keras\nif x and tf_keras:\n" + SESSION, "if tf.version.VERSION > x:\n" + SESSION,
            "A = B = False\nif A or B:\n" + SESSION,
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n" + SESSION,
            "import packaging.version as p\nif p.parse(tf.__version__).release != (2, 20, 0):\n" + SESSION,
            "MINOR, MAJOR = [int(x) for x in tf.__version__.split('.')[:2]][::-1]\nif MAJOR < 2:\n" + SESSION,
        )
    ),
]  # fmt: skip
NO_GATES = [
    *(
        (f"{test} on every release", TF + f"if {test.replace('v', 'tf.__version__')}:\n" + SESSION, "--v1")
        for test in (
            "'2.4' > v",
            "v[:3] < '2.4'",
            "float(v[:3]) < 2.4",
            "v[:3] in ('2.1', '2.2')",
            "v[0] == '2'",
            "v.startswith('2.')",
            "int(v.split('.')[0]) >= 2",
        )
    ),
    *(
        (f"{start} {test}", TF + f"{start}\nif {test}:\n" + SESSION, "--v1")
        for start, test in (
            ("MAJOR, MINOR, *_ = [int(x) for x in tf.__version__.split('.')]", "(MAJOR, MINOR) >= (2, 4)"),
            ("v = tuple(map(int, tf.__version__.split('.')[:2]))", "v >= (2, 4)"),
            ("v = list(int(x) for x in tf.version.VERSION.split('.'))", "v >= [2, 4]"),
            ("v = tuple(map(float, tf.__version__.split('.')[:2]))", "v >= (2, 4)"),
            ("from packaging.version import parse as P", "P(tf.__version__) >= P('2.4')"),
            ("import packaging.version", "packaging.version.parse(tf.__version__).release[:2] > (2, 3)"),
            ("import pkg_resources as p", "p.parse_version(tf.__version__).major == 2"),
        )
    ),
    ("a list, which may change", TF + "v = []\nv.append(1)\nif v:\n" + SESSION, "--v1"),
    ("the side of a choice that is always taken", TF + "s = tf.Session() if True else None", "--v1"),
    ("a device", TF + "if tf.test.is_gpu_available():\n" + SESSION, "--v1"),
    ("the version of a library", TF + "import lib\nif lib.VERSION < '2':\n" + SESSION, "--v1"),
    ("a default of an object", TF + "s = getattr(config, 'session', tf.Session())", "--v1"),
    ("numbers and text", TF + "VER = '2'\nif VER < 2:\n" + SESSION, "--v1"),
    ("a flag of TensorFlow", TF + "FLAGS = tf.compat.v1.flags.FLAGS\nif FLAGS.fp16:\n" + SESSION, "--v1"),
    *(
        (source, _NEW + source, "--v1")
        for source in (
            "x and tf.Session()", "tf.Session() and NEW", "True and tf.Session()", "False or tf.Session()",
            "s = getattr(tf, 'Session')\ns()", "def f():\n    tf.Session()\n    if NEW: return\nf()",
            *(f"def f():\n    {lines}\n{SESSION}f()" for lines in (
                "if x: return", "if False: return", "if True: pass\n    else: return", "if NEW: pass",
            )),
            "ON = False\ndef f():\n    if ON: return\n" + SESSION + "f()",
            "def is_new():\n    a = 1\n    b = 2\n    c = 3\n    return NEW\nif is_new():\n" + SESSION,
            "def is_new(): NEW\nif is_new():\n" + SESSION, "if IS_TF2:\n" + SESSION,
            "from lib import *\nif FAST:\n" + SESSION, "from tensorflow import *\nif IS_TF2:\n" + SESSION,
            "import lib\nif lib.FAST:\n" + SESSION, "import lib\nif lib.a.IS_TF2:\n" + SESSION,
            "lib = make()\nif lib.IS_TF2:\n" + SESSION, "import lib_compat\nif lib_compat:\n" + SESSION,
            "class C:\n    new = x\n    def f(self):\n        if self.new: tf.Session()\nC().f()",
            "if 'Session' in x.__dict__:\n" + SESSION, "if getattr(tf, 'x'):\n" + SESSION,
            "if hasattr(opt, 'other'):\n" + SESSION, "import x\nif x is not None:\n" + SESSION,
            "k = other\nif hasattr(k, 'x'):\n" + SESSION, "if hasattr(make(), 'x'):\n" + SESSION,
            "def f():\n    if tf.Session() and NEW: return\nf()", "try:\n    tf.Session()\nexcept ValueError: pass",
            "ALL = (False, True)\nfor x in ALL:\n    if x: tf.Session()",
            "ALL = (False, True)\nfor _, x in enumerate(ALL):\n    if x: tf.Session()",
            "C = 0\nif C.x:\n" + SESSION, "a = b\nb = a\nif a:\n" + SESSION,
            "def f():\n    global late\n    if late: tf.Session()\nf()",
            "def f():\n    n = NEW\n    if n: x\ndef g():\n    n = x\n    if n: tf.Session()\nf()\ng()",
            "from tensorflow import *\ny = make()\nif hasattr(y, 'x'):\n" + SESSION,
            "y = 1 if NEW else 2\nif y:\n" + SESSION, "y = getattr(tf, 'x', 0)\nif y:\n" + SESSION,
            "a, b, *_ = [int(x) for x in tf.__version__.split('.')]\nif a == 2:\n" + SESSION,
            "import packaging.version as p\nif p.parse(tf.__version__) > p.parse('2.16'):\n" + SESSION,
        )
    ),
]  # fmt: skip
NAMES = [
    ("by a walrus", "import tensorflow\n[(t := tensorflow) for _ in x]\n(tf := t).Session()", "--v1"),
    ("of a function around", "def f():\n    s = None\n    class C:\n        def g(self):\n            nonlocal s, late\n"
     "            import tensorflow as s\n            s.Session()\n    late = 2", "--v1"),
    ("of a pattern", TF + "match x:\n    case str() | {'a': _, **tf} | [*_, tf] as tf:\n        tf.Session()", ""),
    ("too many", TF + "".join(f"a{i + 1} = a{i}\n" for i in range(30)).replace("a0", "tf") + "a30.Session()", "--v1"),
    ("too many in one", TF + "x = " + "getattr(" * 30 + "tf" + ", 'compat')" * 30 + "\nx.Session()", ""),
    ("deleted before", "del tf\ntf.Session()", ""),
    ("in a walrus of a function", TF + "def f():\n    if (tf := make()): pass\ntf.Session()", "--v1"),
    ("in what a comprehension goes through", TF + "x = [y for y in tf.Session()]", "--v1"),
    ("of the rest", TF + "a, *tf = tensorflows\ntf.Session()", ""),
    ("deleted later", WRAPPED + "del tf", "--keras 2 --legacy-optimizers"),
]  # fmt: skip
SPELLINGS = [
    ("a compat module in one", "import tensorflow.compat.v1 as tf\ntf.compat.v2.keras.mixed_precision.experimental.set_policy('float32')", "--keras 2"),
    *(
        (f"loaded by {module}", f"{module}.Session()", "--v1")
        for module in ("import_module('tensorflow')", "__import__('tensorflow')", "__import__('tensorflow.keras.layers')",
                       "sys.modules['tensorflow']", "__import__('tensorflow', fromlist=['Session'])")
    ),
    ("the package keras", "import keras\nkeras.mixed_precision.experimental.set_policy('float32')", "--keras 2"),
]  # fmt: skip
_REPLACED = "--keras 2 --replace-existing"
SUB = TF + "class L(tf.keras.mixed_precision.LossScaleOptimizer):\n    def __init__(self, opt, **kw):\n        "
_COPY = TF + "from tensorflow.python.keras.mixed_precision.loss_scale_optimizer import LossScaleOptimizer as L\n"
SUBCLASSES = [
    *(
        (call, SUB + call, expected)
        for call, expected in (
            ("super(L, self).__init__(opt, True)", _REPLACED),
            ("super().__init__(opt, 5)", ""),
            ("if tf.__version__ < x: super().__init__(opt, False)", ""),
            ("tf.__version__ < x and super().__init__(opt, False)", ""),
            ("super().__init__(opt, False, 2)", _REPLACED),
            ("tf.keras.mixed_precision.LossScaleOptimizer.__init__(self, opt, False)", _REPLACED),
            ("other(opt, False)", ""),
        )
    ),
    ("after a call of another class", "object.__init__(x)\n" + SUB + "super().__init__(opt, True)", _REPLACED),
    ("of two bases", SUB.replace("Optimizer)", "Optimizer, Mixin)") + "super().__init__(opt, True)", _REPLACED),
    *(
        (f"of the private copy: {code}", f"{_COPY}{code}L(tf.keras.optimizers.SGD())", expected)
        for code, expected in (
            ("", _REPLACED),
            ("from tensorflow.python.keras.optimizer_v2.adam import Adam\nL(Adam())\n", ""),
        )
    ),
]
AMP = TF + "AMP = False\n"
SETS_POLICY = "tf.keras.mixed_precision.experimental.set_policy('float32')\n"
SWITCHES = [
    ("the other arm", TF + "NEW = True\nif NEW:\n    pass\nelse:\n    " + SETS_POLICY, ""),
    ("after a return", AMP + "def f():\n    if not AMP:\n        return\n    " + SETS_POLICY + "f()", "--keras 2"),
    ("what is imported behind it", AMP + "if AMP:\n    from tensorflow.keras.mixed_precision import experimental as e\n    e.set_policy('float32')", "--keras 2"),
    ("an operand", AMP + "x = AMP and " + SETS_POLICY, "--keras 2"),
    ("a choice", AMP + "x = " + SETS_POLICY.strip() + " if AMP else 1", ""),
    ("contradicted", AMP + "import tf_keras\nif AMP:\n    " + SETS_POLICY, ""),
    *(
        (f"contradicted, by {test}", AMP + f"MODE, VER = 'tf2', 2\nwith tf.GradientTape():\n    pass\nif {test}:\n    tf.Session()", "")
        for test in ("AMP and A", "AMP is True", "not (A or not AMP)", "MODE == 'tf1'", "VER < 2")
    ),
    ("TF 1", AMP + "if AMP:\n    tf.Session()", ""),
    ("TF 1 that runs anyway", AMP + "tf.placeholder(tf.float32)\nif AMP:\n    tf.Session()", "--v1"),
    ("a version", TF + "SETS_POLICY = tf.__version__ < '2.4'\nif SETS_POLICY:\n    pass\nelse:\n    " + SETS_POLICY, ""),
]  # fmt: skip
FIRST_TRY = [
    ("an aggregator", TF + "tf.optimizers.Adam(1, gradient_aggregator=f)", "--keras 2 --legacy-optimizers"),
    ("arguments of new optimizers", TF + "tf.keras.optimizers.Adam(1, jit_compile=True, lr=1)", "--keras 2"),
    ("the real name", "import tensorflow_core as tf\ntf.Session()", "--v1"),
    ("all of contrib", "from tensorflow.contrib import *", "--v1"),
]  # fmt: skip

_COMPILED = "m = tf.keras.Sequential()\nm.compile('sgd')\n"
_SCALE_OF_CONFIG = "m.optimizer.get_config()['loss_scale']"
_COMPILING = EXPERIMENTAL + "prec.set_policy('mixed_float16')\n" + _COMPILED
MAKING = TF + "L, SGD = tf.keras.mixed_precision.experimental.LossScaleOptimizer, tf.keras.optimizers.SGD\n"
_SCALE = "tf.mixed_precision.experimental.DynamicLossScale"
AS_OF = [
    (
        "a multiplier for a wrapper",
        EXPERIMENTAL
        + "s = tf.mixed_precision.experimental.DynamicLossScale(multiplier=4.0)\n"
        + "opt = prec.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1), s)",
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
            *(
                f"s = tf.mixed_precision.experimental.DynamicLossScale()\n{before}o = {wrap}(SGD(), loss_scale=s)\n{use}"
                for before, wrap, use in (
                    ("", "L", "s()\no.get_config()"),
                    ("t = s\n", "L", "t()"),
                    ("", "L", "for t in (s,): t()"),
                    ("def wrap(o, loss_scale): return L(o, loss_scale)\n", "wrap", "s()"),
                    ("class A:\n    def __init__(self): self.s = s\n    def show(self): self.s()\n", "L", "A().show()"),
                )
            ),
            f"s, t = {_SCALE}(), {_SCALE}()\no = L(SGD(), s)\ns()",
            "o = L(SGD(), 1)\nisinstance(o.loss_scale, tf.mixed_precision.experimental.DynamicLossScale)",
            "def show(o): o.loss_scale()\nshow(L(SGD(), 1))",
            "from x import get_loss_scale_weights\nget_loss_scale_weights(L(SGD(), 1).loss_scale)",
            "(o := L(SGD(), 1)).loss_scale()",
            "(o := L(SGD(), 1))\nx.o.loss_scale()",
            *(
                f"opts = {{0: L(SGD(), 1)}}\nfor {target} in {values}: o.loss_scale()"
                for target, values in (
                    ("o", "opts.values()"),
                    ("_, o", "opts.items()"),
                    ("_, o", "enumerate(opts)"),
                    ("_, (x, o)", "enumerate(zip(x, opts), 1)"),
                )
            ),
            "opts = [L(SGD(), 1)]\n[o.loss_scale() for o in opts]",
            "o = L(SGD(), 1)\nif hasattr(o, 'loss_scale'): o.loss_scale()",
            "s = L(SGD(), 1).loss_scale\ns(1)\ns()",
            "o = L(SGD(), 1)\nx = o.loss_scale() if hasattr(o, 'loss_scale') else None",
            f"class T:\n    def __init__(self):\n        self.s = {_SCALE}()\n        self.o = L(SGD(), self.s)\n"
            "    def f(self): self.s()\nT().f()",
            "class T:\n    def f(self):\n        self.opts = [x, L(SGD(), 1)]\n        for o in self.opts: o.loss_scale()",
            "def make(): return [L(SGD(), 1) if x else y]\nfor o in make(): o.loss_scale()",
            "def f(self):\n    self.opt = L(SGD(), 1)\n    self.opt.loss_scale()",
            "class T:\n    def __init__(self): self.s = L(SGD(), 1).loss_scale\n    def f(self): return self.s()",
            "class T:\n    def test(self): self.assertIs(L(SGD(), s).loss_scale, s)",
            "assert L(SGD(), s).loss_scale is s",
            "r, t = thing.loss_scale, L(SGD(), 1).loss_scale\nr()\nt()",
            "compile('1', '', 'eval')\nm = tf.keras.Sequential()\nm.compile(L(SGD(), 1))\nm.optimizer.loss_scale()",
            "class B(L):\n    def __init__(self, o):\n        f = super().__init__\n        super().__init__(o, 8)\n"
            "        if hasattr(tf, 'Session'): super().__init__(o)\nB(SGD(), 8).loss_scale()",
        )
    ),
    *(
        (f"of nothing that is a wrapper: {code}", f"{MAKING}opts = [L(SGD(), 1)]\n{code}", OF_2_8)
        for code in (
            "for o in others: o.loss_scale()",
            "for o, x in enumerate(opts): o.loss_scale()",
            "for o, x in opts.items(): o.loss_scale()",
            "for o, x in zip(y, opts): o.loss_scale()",
            "for o in opts.items(1): o.loss_scale()",
            "for o in opts.values(1): o.loss_scale()",
            "for o in opts.others(): o.loss_scale()",
        )
    ),
    *(
        (f"of the wrapper that compile makes: {code}", _COMPILING + code, f"{OF_2_8} --as-of 2.3")
        for code in (
            "m.optimizer.loss_scale()",
            "m.optimizer.loss_scale.increment_period",
            "opt = m.optimizer\nprint(opt.get_config()['loss_scale'])",
            "def make():\n    n = tf.keras.Sequential()\n    n.compile('sgd')\n    return n\n"
            f"net = make()\nnet.{_SCALE_OF_CONFIG[2:]}",
            "class C(tf.keras.callbacks.Callback):\n"
            f"    def on_epoch_end(self, *a): print(self.model.{_SCALE_OF_CONFIG[2:]})\nC()",
        )
    ),
    *(
        (f"under a policy with a loss scale: {code}", f"{EXPERIMENTAL}{code}\n{_COMPILED}{_SCALE_OF_CONFIG}", expected)
        for code, expected in (
            ("prec.set_policy(prec.Policy('mixed_float16', loss_scale='dynamic'))", f"{OF_2_8} --as-of 2.3"),
            ("p = prec.Policy('float32', 8)\nprec.set_policy(policy=p)", f"{OF_2_8} --as-of 2.3"),
            ("prec.set_policy(prec.Policy(name='mixed_float16'))", f"{OF_2_8} --as-of 2.3"),
            ("set_policy = prec.set_policy\nset_policy('mixed_float16')", f"{OF_2_8} --as-of 2.3"),
            # Nearly.
            ("prec.set_policy(prec.Policy('mixed_float16', loss_scale=None))", OF_2_8),
            ("prec.set_policy('mixed_bfloat16')", OF_2_8),
            ("prec.set_policy(prec.Policy('float32'))", OF_2_8),
            ("prec.set_policy(prec.Policy(make()))", OF_2_8),
            ("prec.set_policy(make())", OF_2_8),
            ("import half\nhalf.set_policy('mixed_float16')", OF_2_8),
            ("prec.set_policy(args.policy)", OF_2_8),
            ("tf.keras.layers.Dense(1, dtype=prec.Policy('mixed_float16'))", OF_2_8),
            ("prec.set_policy('mixed_float16')\nif x: tf.keras.mixed_precision.set_global_policy('float32')", OF_2_8),
        )
    ),
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
    ("the name of a policy", EXPERIMENTAL + "prec.set_policy('infer')", "--keras 2 --as-of 2.2"),
    (
        "a program of TF 1",
        TF + "s = tf.Session()\nprec = tf.keras.mixed_precision.experimental\n"
        "o = prec.LossScaleOptimizer(tf.keras.optimizers.SGD(1), 1)",
        "--v1 --keras 2 --legacy-optimizers --as-of 1.15",
    ),
    # Nearly.
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
            "o, p = L(SGD()), thing()\np.loss_scale()",
            "o, p = [L(SGD()) for L in kinds]\no.loss_scale()",
            "s, n, m = tf.mixed_precision.experimental.DynamicLossScale(), DynamicLossScale(), make()\no = L(SGD(), s)\n"
            "o.get_config()\nL(SGD(), n)\nL(SGD(), m)\nn()\nm()\ndef f(s): s()",
            "s = tf.mixed_precision.experimental.DynamicLossScale()\no = L(SGD(), s)\ns()\nprint(o.loss_scale)",
            f"s, t = {_SCALE}(), {_SCALE}()\no = L(SGD(), s)\nt()",
            "a0 = L(SGD())\n" + "".join(f"a{i + 1} = a{i}\n" for i in range(9)) + "a9.loss_scale()",
            "s = L(SGD()).loss_scale\ns(1)\na.b.s()\na.s()\nassertIs(s, None)",
            "class A:\n    def run(self, o): o.loss_scale()\nx = make().run\nmake().run(L(SGD()))\nmake().run(x)",
            "o = L(SGD())\no.get_config()['optimizer']",
            "s = thing.x\ns = L(SGD()).loss_scale\ns()",
            "s = 1\ns = L(SGD()).loss_scale\ns()",
            "o = L(SGD())\nassert o.loss_scale is not s\nassert o.loss_scale is None\nassert o.loss_scale == s",
            "o = L(SGD())\nsame = o.loss_scale is s\nassertIs(s, None, o.loss_scale)",
            "def f(o: L | None): o.loss_scale()\nL(SGD())",
            "L(SGD())\nif tf.__version__ >= '1':\n    pass\nelse:\n    class C(L):\n"
            "        def f(self): return self.loss_scale()",
            "o = L(SGD())\nlayer.get_config()['loss_scale']",
            "o = L(SGD())\nassert not isinstance(o.loss_scale, tf.mixed_precision.experimental.LossScale)",
            "o = L(SGD())\nisinstance(o.loss_scale, tf.Tensor)",
            "o = L(SGD())\nget_loss_scale_weights(o._loss_scale), get_loss_scale_weights()",
            "a = b = L(SGD())\nif callable(b.loss_scale): b.loss_scale()",
            "a = b = L(SGD())\nif hasattr(b, 'loss_scale'): print(b.loss_scale)",
            f"class T:\n    def __init__(self):\n        self.s, self.o = {_SCALE}(), L(SGD(), self.s)\n"
            "class U:\n    def __init__(self): self.s = x\n    def f(self): self.s(), a.s(), a.b.s()\n"
            "class V:\n    def f(self): self.s()\nT(), U().f(), V().f()",
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
        "a method that the last wrapper of Keras 2 has not",
        NEW + "opt._decayed_lr(tf.float32)",
        "--keras 2 --replace-existing",
    ),
    *(
        (f"{use}, which only wrappers over legacy optimizers have", NEW + use, OF_2_8)
        for use in (
            "opt.decay = 0.5",
            "def f(o): return o.decay\nf(opt)",
            "opt.get_slot_names()",
            "opt.add_slot(v, 'm')",
            "opt.get_gradients(loss, v)",
            "opt.lr\nopt.get_updates(loss, v)",
        )
    ),
    *(
        (f"of a wrapper of mpls, {code}", MPLS + code, expected)
        for code, expected in (
            ("opt.lr\nopt.weights\nopt.dynamic\nopt.get_scaled_loss(1)\nopt.beta_1\nopt.minimize(f, v)", ""),
            ("m.compile(opt)\nm.optimizer.loss_scale\nm.optimizer.lr = 1", ""),
            ("m.compile(loss='mse', optimizer=opt)\nm.optimizer.get_weights()", ""),
            ("mpls.experimental.set_policy('mixed_float16')\nm.compile('sgd')\nm.optimizer.loss_scale", ""),
            ("opt.decay", OF_2_8),
            ("opt.get_slot(v, 'm')", OF_2_8),
            ("m.compile(opt)\nm.optimizer.decay", "--keras 2"),
            ("m.compile(opt)\nm.compile('sgd')\nm.optimizer.lr", "--keras 2"),
            ("m.optimizer.lr", "--keras 2"),
            ("tf.keras.optimizers.SGD(0.1).lr", "--keras 2"),
        )
    ),
    *(
        (f"{use}, which only those of mpls over legacy optimizers have", NEW + use, f"{OF_2_8} --replace-existing")
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
        "--keras 2 --legacy-optimizers --replace-existing",
    ),
    # Nearly.
    ("a scale by position", NEW.replace("0.1)", "0.1), 128.0"), ""),
]

# Programs that get the public wrapper in roundabout ways.
_PREC = TF + "mp = tf.keras.mixed_precision\n"
_PUBLIC = "from tensorflow.keras.mixed_precision import LossScaleOptimizer as W"
_OTHER = "from tensorflow.keras.mixed_precision.experimental import LossScaleOptimizer as W"
_USE = "\nclass L(W): pass\nopt = L(tf.keras.optimizers.SGD())\nopt.get_weights()"
_OF_EXPERIMENTAL = "--keras 2 --legacy-optimizers"


def _if(test: str, first: str, second: str) -> str:
    return f"{_PREC}if {test}:\n    {first}\nelse:\n    {second}{_USE}"


_BY_VERSION = "major, minor = map(int, tf.__version__.split('.')[:2])\n"
_MODULES = (
    TF + _BY_VERSION + "if (major, minor) >= (2, 4):\n    from tensorflow.keras import mixed_precision as mp\n"
    "    W = mp.LossScaleOptimizer\n"
    "else:\n    from tensorflow.keras.mixed_precision import experimental as mp\n    W = mp.LossScaleOptimizer" + _USE
)


def _chosen(choice: str) -> str:
    classes = choice.replace("OTHER", "mp.experimental.LossScaleOptimizer").replace("PUBLIC", "mp.LossScaleOptimizer")
    return f"{TF}mp = tf.keras.mixed_precision\nL = {classes}\nopt = L(tf.keras.optimizers.SGD(1))\nopt.momentum"


_UNKNOWN = "def f(o): o.get_scaled_loss(x)\nf(o)"
TWO_BRANCHES = [
    ("a version by its parts", _MODULES, _REPLACED),
    ("a version in another form", _MODULES.replace("(major, minor)", "parts_of(tf.__version__)"), _REPLACED),
    *(
        (choice, _chosen(choice), _REPLACED)
        for choice in (
            "PUBLIC if hasattr(mp, 'experimental') else OTHER",
            "OTHER if tf.__version__ < x else PUBLIC",
            "PUBLIC if tf.__version__ > x else OTHER",
            "getattr(mp, 'LossScaleOptimizer', OTHER)",
            "getattr(mp, 'LossScaleOptimizer', None) or OTHER",
            "x or PUBLIC",
        )
    ),
    *(
        (f"{choice}, for an unknown wrapper", _chosen(choice).replace("opt.momentum", _UNKNOWN), "--keras 2")
        for choice in (
            "OTHER if hasattr(tf, 'Session') else PUBLIC",
            "getattr(mp, 'LossScaleOptimizer', OTHER)",
        )
    ),
    (
        "one class on both branches",
        TF + "if tf.__version__ < x:\n    from tensorflow.keras.mixed_precision import LossScaleOptimizer as L\n"
        "else:\n    L = tf.keras.mixed_precision.LossScaleOptimizer\nL(o)\n" + _UNKNOWN,
        "--keras 2",
    ),
    (
        "all names of either",
        "try: from tensorflow.keras.mixed_precision import *\nexcept ImportError:\n"
        "    from tensorflow.keras.mixed_precision.experimental import *\nLossScaleOptimizer(o)\n" + _UNKNOWN,
        "--keras 2",
    ),
    ("the public one or an optimizer", _chosen("PUBLIC if tf.__version__ > x else tf.keras.optimizers.Adam"), ""),
    ("the experimental one or an optimizer", _chosen("OTHER if tf.__version__ > x else tf.keras.optimizers.Adam"), ""),
    # The experimental one, which is looked for first and is there.
    *(
        (choice, _chosen(choice), "")
        for choice in (
            "OTHER if hasattr(mp, 'experimental') else PUBLIC",
            "PUBLIC if not hasattr(mp, 'experimental') else OTHER",
            "(OTHER if hasattr(mp, 'experimental') else None) or PUBLIC",
        )
    ),
    ("not hasattr of the other", _if("not hasattr(mp, 'experimental')", _PUBLIC, _OTHER), _OF_EXPERIMENTAL),
    # Nearly.
    ("no test", _chosen("OTHER if x else PUBLIC"), OF_2_8),
    ("a default of the experimental one", _chosen("getattr(mp.experimental, 'LossScaleOptimizer', PUBLIC)"), OF_2_8),
    ("no test for a release", _if("args.old", _OTHER, _PUBLIC).replace("get_weights()", "lr"), _OF_EXPERIMENTAL),
]

_MAKE = TF + "def make(fp16):\n    o = tf.keras.optimizers.Adam()\n"
_WRAP = "tf.keras.mixed_precision.LossScaleOptimizer(o)\n"

FLOWS = [
    (
        "an attribute of a class",
        NEW
        + "class T:\n    def __init__(self, model, optimizer): self.optimizer = optimizer\n"
        + "    def run(self): return self.optimizer.momentum\nT(None, opt).run()",
        _REPLACED,
    ),
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
    *(
        (f"after others: {source}", NEW + source + "\nopt.momentum", _REPLACED)
        for source in (
            "class A:\n    def get_scaled_loss(self): pass\nA().get_scaled_loss()",
            "if False: opt.lr",
            "tf.keras.optimizers.SGD.momentum",
        )
    ),
    (
        "a wrapper of mpls for all",
        TF + "import mpls.keras\nm = tf.keras.Sequential()\nm.save('a.keras')\n"
        "m.compile(mpls.keras.LossScaleOptimizer(tf.keras.optimizers.SGD()))\nm.optimizer.loss_scale",
        "",
    ),
    (
        "around by mpls",
        TF + "import mpls.keras\no = tf.keras.optimizers.SGD()\no = mpls.keras.LossScaleOptimizer(o)\no.lr = 1",
        "",
    ),
    ("a method that is not called", NEW + "opt.minimize", ""),
    ("an item", NEW + "opts = [opt, tf.keras.mixed_precision.LossScaleOptimizer(x)]\nfor o in opts: o.rho", _REPLACED),
    ("an item, perhaps", NEW + "opts = [tf.keras.optimizers.SGD(), " + _WRAP[:-1] + "]\nfor o in opts: o.rho", ""),
    ("around what it was", TF + "o = tf.keras.optimizers.SGD()\no = " + _WRAP + "o.momentum", _REPLACED),
    (
        "around what it was, by functions",
        TF + "def wrap(o):\n    o = " + _WRAP + "    return o\n"
        "def make(): return wrap(tf.keras.optimizers.SGD())\no = make()\no.momentum",
        _REPLACED,
    ),
    (
        "of mpls, or one of TensorFlow",
        NEW + "import mpls.keras\nif x: opt = mpls.keras.LossScaleOptimizer(o)\nopt.momentum",
        _REPLACED,
    ),
    *(
        (f"a model: {source}", f"{TF}{source}.optimizer.lr = 1", "--keras 2")
        for source in (
            "tf.keras.Sequential()",
            "def make(x):\n    if x: return\n    return tf.keras.Sequential()\nmake(1)",
            "models = [tf.keras.Sequential()]\nmodels[0]",
            "models = {a: tf.keras.Sequential() for a in b}\nmodels[0]",
            "model = n or (tf.keras.Sequential() if x else None)\nmodel",
            "class A(tf.keras.Model): pass\nclass B(A): pass\nB()",
            "class N:\n    class A(tf.keras.Model): pass\nclass B(N.A): pass\nb = B()\nb",
        )
    ),
    *(
        (source, f"{TF}m = tf.keras.Sequential()\n{source}", "--keras 2")
        for source in (
            "opt = m.optimizer\nopt = other()\nopt.lr = 1",
            "def f(model): model.optimizer.lr = 1\nf(a)",
            "class M(tf.keras.Model):\n    def f(self):\n        def g(): self.optimizer.lr = 1\n        g()\nM().f()",
            "def f(m):\n    if isinstance(m, (int, tf.keras.metrics.Metric)): m.reset_states()\nf(a)",
        )
    ),
    *(
        (source, WRAPPED + source, f"{OF_2_8} --as-of 2.3")
        for source in (
            "def f(my_opt): my_opt.loss_scale()\nf(a)",
            "my_opt = other()\nmy_opt.loss_scale()",
            "getattr(opt, 'loss_scale')()",
            "object.__getattribute__(opt, 'loss_scale')()",
            "opt._loss_scale.multiplier",
        )
    ),
    *(
        (source, f"{WRAPPED}{source}", f"{OF_2_8}{as_of}")
        for source, as_of in (
            ("s = opt.loss_scale\nif callable(t): s()", " --as-of 2.3"),
            (
                "class A:\n    def __init__(self): self.s = opt.loss_scale\n    def f(self): self.s()\nA().f()",
                " --as-of 2.3",
            ),
            ("s = opt.loss_scale\nif isinstance(s, X): s()", ""),
            ("s = opt.loss_scale\ns = f\ns()", ""),
            ("class A:\n    def loss_scale(self): pass\nopt.loss_scale()", " --as-of 2.3"),
            ("class A:\n    def loss_scale(self): pass\nopt.loss_scale.multiplier", ""),
            (
                "class A:\n    def __init__(self): self.s = opt.loss_scale\n"
                "    def f(self):\n        if callable(self.s): self.s()\nA().f()",
                "",
            ),
        )
    ),
    # Nearly.
    ("either", NEW + "def f(o): return o.momentum\nf(opt)\nf(tf.keras.optimizers.SGD())", ""),
    ("one or the other", NEW + "if x: opt = tf.keras.optimizers.SGD()\nopt.momentum", ""),
    *(
        (source, f"{TF}m = tf.keras.Sequential()\n{source}", "")
        for source in (
            "def f(net): net.optimizer.lr = 1\nf(a)",
            "def f(self): self.optimizer.lr = 1\nf(a)",
            "def f(optimizer): optimizer.lr = 1\nf(a)",
            "def f(m):\n    if issubclass(m, tf.keras.metrics.Metric): m.reset_states()\nf(a)",
            "class L(tf.keras.optimizers.SGD):\n    @property\n    def lr(self): return super().lr\no = L()\no.lr",
        )
    ),
    *(
        (source, WRAPPED + source, OF_2_8)
        for source in (
            "def f(o): o.loss_scale()\nf(a)",
            "get_opt().loss_scale()",
            "my_opt = tf.keras.optimizers.SGD()\nmy_opt.loss_scale()",
            "opt.loss_scale(1)",
            "opt = prec.Policy('mixed_float16', loss_scale=8)\nopt.loss_scale()",
        )
    ),
]
TABLES = {
    "tf 1": V1,
    "keras": KERAS,
    "saving": SAVING,
    "as of": AS_OF,
    "replacing": REPLACING,
    "branches": TWO_BRANCHES,
    "flows": FLOWS,
    "gates": GATES,
    "no gates": NO_GATES,
    "names": NAMES,
    "spellings": SPELLINGS,
    "subclasses": SUBCLASSES,
    "at once": FIRST_TRY,
    # Most hints name what the source shows before the program runs.
    "hints": [
        (name, case.source, case.options if case.chosen is None else case.chosen) for name, case in CASES.items()
    ],
}
