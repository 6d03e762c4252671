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
    "an attribute of a class": asked(f"class C:\n    L = {OLD}\n", "isinstance(opt, C.L)"),
    "an import in a class": becomes(
        f"{TF}class C:\n    from tensorflow.keras.mixed_precision import experimental\n"
        f"opt = {OLD}(inner, 8)\nheld = isinstance(opt, C.experimental.LossScaleOptimizer)\n",
        f"{TF_AND_EXPERIMENTAL}class C:\n    from mpls import experimental\n"
        f"opt = {KEPT}(inner, 8)\nheld = isinstance(opt, C.experimental.LossScaleOptimizer)\n",
    ),
    "an argument of a partial call": asked(
        "import functools\ndef f(kind, opt): return isinstance(opt, kind)\n", "functools.partial(f, LSO)(opt)"
    ),
    "arguments in a tuple": asked("", "isinstance(*(opt, LSO))"),
    "what and returns": asked("kind = inner and LSO\n", "isinstance(opt, kind)"),
    "a member of a module by its name": asked(
        f"E = {MODULE}\n", "isinstance(opt, getattr(E, 'LossScaleOptimizer'))", "names-in-strings"
    ),
    "the members of a module": asked(f"E = {MODULE}\n", "isinstance(opt, E.__dict__['LossScaleOptimizer'])"),
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
    "a class that is deleted": asked("", "isinstance(opt, LSO)\ndel LSO"),
    # Files that make no wrapper.
    "no wrapper is made": kept(f"KINDS = ({OLD},)\n", RULE),
    # Wrappers that are of the public class.
    "a tuple in the test": public(
        f"MADE\nheld = isinstance(opt, ({OLD}, int))\n", f"MADE\nheld = isinstance(opt, ({NEW}, int))\n"
    ),
    "a union in the test": public(
        f"MADE\nheld = isinstance(opt, int | {OLD})\n", f"MADE\nheld = isinstance(opt, int | {NEW})\n"
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
    "singledispatch by annotation": public(
        f"{SINGLE}@f.register\ndef _(opt: {OLD}): return True\nMADE\nheld = f(opt)\n",
        f"{SINGLE}@f.register\ndef _(opt: {NEW}): return True\nMADE\nheld = f(opt)\n",
    ),
    # Today's own names.
    "native: a module that is passed on": becomes_native(
        f"{TF}E = {MODULE}\nf(E)\nopt = E.LossScaleOptimizer(inner, 8)\n",
        f"{TF_AND_EXPERIMENTAL}E = mpls.experimental\nf(E)\nopt = E.LossScaleOptimizer(inner, 8)\n",
    ),
    "native: a tuple in the test": becomes_native(
        f"{TF}opt = {OLD}(inner, 8)\nheld = isinstance(opt, ({OLD}, int))\n",
        f"{TF}opt = tf.keras.mixed_precision.LossScaleOptimizer(inner, dynamic=False, initial_scale=8)\n"
        "held = isinstance(opt, (tf.keras.mixed_precision.LossScaleOptimizer, int))\n",
    ),
}
# What is migrated stays as it is.
PAIRS |= {f"again: {name}": dataclasses.replace(pair, before=pair.after, left=()) for name, pair in PAIRS.items()}
