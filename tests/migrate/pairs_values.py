"""The class of the experimental wrapper, and the module that has it, as values; and programs that look as if they were.

The programs wrap `inner`, and `held` is true if their tests hold.
"""

from __future__ import annotations

import dataclasses

from .pairs import Pair, becomes, becomes_native

TF = "import tensorflow as tf\n"
TF_AND_EXPERIMENTAL = "import tensorflow as tf\nimport mpls.experimental\n"
MODULE = "tf.keras.mixed_precision.experimental"
OLD = f"{MODULE}.LossScaleOptimizer"
KEPT = "mpls.experimental.LossScaleOptimizer"
NEW = "mpls.keras.LossScaleOptimizer"
IMPORT = "from tensorflow.keras.mixed_precision.experimental import LossScaleOptimizer as LSO\n"
FROM_EXPERIMENTAL = "from mpls.experimental import LossScaleOptimizer as LSO\n"
MULTIPLIER = "tf.train.experimental.DynamicLossScale(8, 1000, 4)"
SINGLE = "import functools\n@functools.singledispatch\ndef f(opt): return False\n"
RULE = "experimental-wrapper"


def kept(program: str, *left: str) -> Pair:
    """A program whose wrappers are of the experimental class."""
    after = program.replace(IMPORT, FROM_EXPERIMENTAL).replace(MODULE, "mpls.experimental")
    return becomes(TF + program, (TF_AND_EXPERIMENTAL if MODULE in program else TF) + after, *left)


def asked(before: str, test: str, *left: str) -> Pair:
    """A program that makes a wrapper, which is of the experimental class, and asks for its class."""
    return kept(f"{IMPORT}{before}opt = LSO(inner, 'dynamic')\nheld = {test}\n", *left)


def public(before: str, after: str, modules: str = "mpls.keras") -> Pair:
    """A program whose wrappers are of the public class."""
    imports = "".join(f"import {each}\n" for each in modules.split())
    return becomes(
        f"{TF}{before.replace('MADE', f'opt = {OLD}(inner, 8)')}",
        f"{TF}{imports}{after.replace('MADE', f'opt = {NEW}(inner, dynamic=False, initial_scale=8)')}",
    )


PAIRS = {
    # Where the class may get to a test.
    "a tuple": asked("KINDS = (LSO, int)\n", "isinstance(opt, KINDS)"),
    "an item of a list": asked("KINDS = [LSO]\n", "isinstance(opt, KINDS[0])"),
    "a set": asked("kinds = {LSO}\n", "isinstance(opt, tuple(kinds))"),
    "a default": asked("def f(opt, kind=LSO): return isinstance(opt, kind)\n", "f(opt)"),
    "a default of a module": asked(f"def f(opt, E={MODULE}): return isinstance(opt, E.LossScaleOptimizer)\n", "f(opt)"),
    "an attribute of a class": asked(f"class C:\n    L = {OLD}\n", "isinstance(opt, C.L)"),
    "a module as an attribute of a class": asked(
        f"class C:\n    E = {MODULE}\n", "isinstance(opt, C.E.LossScaleOptimizer)"
    ),
    "an import in a class": becomes(
        f"{TF}class C:\n    from tensorflow.keras.mixed_precision import experimental\n"
        f"opt = {OLD}(inner, 8)\nheld = isinstance(opt, C.experimental.LossScaleOptimizer)\n",
        f"{TF_AND_EXPERIMENTAL}class C:\n    from mpls import experimental\n"
        f"opt = {KEPT}(inner, 8)\nheld = isinstance(opt, C.experimental.LossScaleOptimizer)\n",
    ),
    "an attribute of an object": asked(
        "class C:\n    def __init__(self): self.kind = LSO\n", "isinstance(opt, C().kind)"
    ),
    "isinstance by another name": asked("check = isinstance\n", "check(opt, LSO)"),
    "map": asked("", "all(map(isinstance, [opt], [LSO]))"),
    "an argument of a partial call": asked(
        "import functools\ndef f(kind, opt): return isinstance(opt, kind)\n", "functools.partial(f, LSO)(opt)"
    ),
    "arguments in a tuple": asked("", "isinstance(*(opt, LSO))"),
    "what a function returns": asked("def kind(): return LSO\n", "isinstance(opt, kind())"),
    "a condition in a test": asked("", "isinstance(opt, LSO if inner else int)"),
    "what and returns": asked("kind = inner and LSO\n", "isinstance(opt, kind)"),
    "a method of the class": asked("", "LSO.__instancecheck__(opt)"),
    "a member of a module by its name": asked(
        f"E = {MODULE}\n", "isinstance(opt, getattr(E, 'LossScaleOptimizer'))", "names-in-strings"
    ),
    "the members of a module": asked(f"E = {MODULE}\n", "isinstance(opt, E.__dict__['LossScaleOptimizer'])"),
    "singledispatch": asked(f"{SINGLE}@f.register(LSO)\ndef _(opt): return True\n", "f(opt)"),
    "singledispatch of a module's": asked(
        f"E = {MODULE}\n{SINGLE}@f.register(E.LossScaleOptimizer)\ndef _(opt): return True\n", "f(opt)"
    ),
    "a class in an expression": becomes(
        f"{TF}opt = {OLD}(inner, 8)\nheld = isinstance(opt, (E := {MODULE}).LossScaleOptimizer)\n",
        f"{TF_AND_EXPERIMENTAL}opt = {KEPT}(inner, 8)\n"
        "held = isinstance(opt, (E := mpls.experimental).LossScaleOptimizer)\n",
    ),
    "a multiplier": becomes(
        f"{TF}KINDS = ({OLD},)\nopt = {OLD}(inner, {MULTIPLIER})\n",
        f"{TF}import mpls.experimental\nimport mpls.keras\nKINDS = ({KEPT},)\n"
        f"opt = {NEW}(inner, initial_scale=8, dynamic_growth_steps=1000, growth_factor=4, backoff_factor=1 / 4)\n",
        RULE,
    ),
    # Names that may be something else, or unbound.
    "a module that is deleted": asked(f"E = {MODULE}\n", "isinstance(opt, E.LossScaleOptimizer)\ndel E", RULE),
    "an imported module that is deleted": becomes(
        f"{TF}from tensorflow.keras.mixed_precision import experimental as E\nopt = {OLD}(inner, 8)\n"
        "held = isinstance(opt, E.LossScaleOptimizer)\ndel E\n",
        f"{TF}import mpls.experimental\nfrom mpls import experimental as E\nopt = {KEPT}(inner, 8)\n"
        "held = isinstance(opt, E.LossScaleOptimizer)\ndel E\n",
        RULE,
    ),
    "a module that is deleted in a function": asked(
        f"def f(opt):\n    E = {MODULE}\n    found = isinstance(opt, E.LossScaleOptimizer)\n    del E\n    return found\n",
        "f(opt)",
        RULE,
    ),
    "one of two objects": asked(
        f"if not inner:\n    E = object()\nelse:\n    E = {MODULE}\n", "isinstance(opt, E.LossScaleOptimizer)", RULE
    ),
    "a call by one of two objects": becomes(
        f"{TF}E = object()\nE = {MODULE}\nopt = E.LossScaleOptimizer(inner, 8)\nheld = True\n",
        f"{TF_AND_EXPERIMENTAL}E = object()\nE = mpls.experimental\nopt = E.LossScaleOptimizer(inner, 8)\nheld = True\n",
        RULE,
    ),
    "a class that is deleted": asked("", "isinstance(opt, LSO)\ndel LSO"),
    "another name of the class that is deleted": asked("L = LSO\n", "isinstance(opt, L)\ndel L"),
    # Files that make no wrapper.
    "no wrapper is made": kept(f"KINDS = ({OLD},)\n", RULE),
    "a module is passed on where no wrapper is made": kept(f"f({MODULE})\n", RULE),
    "singledispatch where no wrapper is made": kept(f"@f.register({OLD})\ndef _(opt): return True\n", RULE),
    "a policy's module where no wrapper is made": kept(f"E = {MODULE}\nE.set_policy('float32')\n"),
    # Wrappers that are of the public class.
    "a tuple in the test": public(
        f"MADE\nheld = isinstance(opt, ({OLD}, int))\n", f"MADE\nheld = isinstance(opt, ({NEW}, int))\n"
    ),
    "a union in the test": public(
        f"MADE\nheld = isinstance(opt, int | {OLD})\n", f"MADE\nheld = isinstance(opt, int | {NEW})\n"
    ),
    "annotations only": public(
        f"def f(opt: {OLD}) -> {OLD}: return opt\nMADE\nheld = f(opt) is opt\n",
        f"def f(opt: {NEW}) -> {NEW}: return opt\nMADE\nheld = f(opt) is opt\n",
    ),
    "a name that is only called": public(
        f"LSO = {OLD}\nopt = LSO(inner, 8)\nheld = isinstance(opt, {OLD})\n",
        f"LSO = {KEPT}\nopt = {NEW}(inner, dynamic=False, initial_scale=8)\nheld = isinstance(opt, {NEW})\n",
        "mpls.experimental mpls.keras",
    ),
    "names that are tested": public(
        f"LSO, E = {OLD}, {MODULE}\nMADE\nheld = isinstance(opt, LSO) and isinstance(opt, E.LossScaleOptimizer)\n",
        f"LSO, E = {KEPT}, mpls.experimental\nMADE\nheld = isinstance(opt, {NEW}) and isinstance(opt, {NEW})\n",
        "mpls.experimental mpls.keras",
    ),
    "a class that may be missing": public(
        f"LSO = {OLD}\nif not inner:\n    LSO = None\nMADE\nheld = LSO is not None and isinstance(opt, LSO)\n",
        f"LSO = {KEPT}\nif not inner:\n    LSO = None\nMADE\nheld = LSO is not None and isinstance(opt, {NEW})\n",
        "mpls.experimental mpls.keras",
    ),
    "a class that a condition chooses": public(
        f"LSO = {OLD} if inner else None\nMADE\nheld = LSO is not None and isinstance(opt, LSO)\n",
        f"LSO = {KEPT} if inner else None\nMADE\nheld = LSO is not None and isinstance(opt, {NEW})\n",
        "mpls.experimental mpls.keras",
    ),
    "a module that a condition chooses": public(
        f"E = {MODULE} if inner else None\nMADE\nheld = E is not None and isinstance(opt, E.LossScaleOptimizer)\n",
        f"E = mpls.experimental if inner else None\nMADE\nheld = E is not None and isinstance(opt, {NEW})\n",
        "mpls.experimental mpls.keras",
    ),
    "a class that is asked for": public(
        f"LSO = {OLD}\nif LSO and hasattr(LSO, 'x'):\n    print(LSO.__name__)\nMADE\nheld = isinstance(opt, LSO)\n",
        f"LSO = {KEPT}\nif LSO and hasattr(LSO, 'x'):\n    print(LSO.__name__)\nMADE\nheld = isinstance(opt, {NEW})\n",
        "mpls.experimental mpls.keras",
    ),
    "a condition of several": public(
        f"MADE\nLSO = {OLD}\nif inner and LSO:\n    held = isinstance(opt, LSO)\n",
        f"MADE\nLSO = {KEPT}\nif inner and LSO:\n    held = isinstance(opt, {NEW})\n",
        "mpls.experimental mpls.keras",
    ),
    "another member by its name": public(
        f"E = {MODULE}\ngetattr(E, 'x', None)\nMADE\nheld = isinstance(opt, E.LossScaleOptimizer)\n",
        f"E = mpls.experimental\ngetattr(E, 'x', None)\nMADE\nheld = isinstance(opt, {NEW})\n",
        "mpls.experimental mpls.keras",
    ),
    "a base class": public(
        f"class Mine({OLD}): pass\nMADE\nheld = isinstance(opt, {OLD}) and not isinstance(opt, Mine)\n",
        f"class Mine({KEPT}): pass\nMADE\nheld = isinstance(opt, {NEW}) and not isinstance(opt, Mine)\n",
        "mpls.experimental mpls.keras",
    ),
    "singledispatch by annotation": public(
        f"{SINGLE}@f.register\ndef _(opt: {OLD}): return True\nMADE\nheld = f(opt)\n",
        f"{SINGLE}@f.register\ndef _(opt: {NEW}): return True\nMADE\nheld = f(opt)\n",
    ),
    # Today's own names.
    "native: a tuple": becomes_native(
        f"{TF}KINDS = ({OLD},)\nopt = {OLD}(inner, 8)\nheld = isinstance(opt, KINDS)\n",
        f"{TF_AND_EXPERIMENTAL}KINDS = ({KEPT},)\nopt = {KEPT}(inner, 8)\nheld = isinstance(opt, KINDS)\n",
    ),
    "native: a module that is passed on": becomes_native(
        f"{TF}E = {MODULE}\nf(E)\nopt = E.LossScaleOptimizer(inner, 8)\n",
        f"{TF_AND_EXPERIMENTAL}E = mpls.experimental\nf(E)\nopt = E.LossScaleOptimizer(inner, 8)\n",
    ),
    "native: no wrapper is made": becomes_native(
        f"{TF}KINDS = ({OLD},)\n", f"{TF_AND_EXPERIMENTAL}KINDS = ({KEPT},)\n", RULE
    ),
    "native: a tuple in the test": becomes_native(
        f"{TF}opt = {OLD}(inner, 8)\nheld = isinstance(opt, ({OLD}, int))\n",
        f"{TF}opt = tf.keras.mixed_precision.LossScaleOptimizer(inner, dynamic=False, initial_scale=8)\n"
        "held = isinstance(opt, (tf.keras.mixed_precision.LossScaleOptimizer, int))\n",
    ),
}
# What is migrated stays as it is.
PAIRS |= {f"again: {name}": dataclasses.replace(pair, before=pair.after, left=()) for name, pair in PAIRS.items()}
