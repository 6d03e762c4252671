"""Every place of Python's syntax in which a name of the API may stand, and everything that may take its name."""

from __future__ import annotations

import unittest

from parameterized import parameterized

from .programs import TF, flags

USE = "tf.Session()"
PLACES = [
    # Statements.
    f"x += {USE}",
    f"{USE}.a += 1",
    f"with {USE} as s: pass",
    f"with open(n) as {USE}.a: pass",
    f"for x in {USE}: pass",
    f"for {USE}.a in x: pass",
    f"while {USE}: pass",
    f"try: pass\nexcept {USE} as e: pass",
    f"del {USE}.a, y",
    f"assert {USE}",
    f"raise {USE}",
    f"@{USE}.g\ndef f(): pass",
    f"@{USE}.g\nclass C: pass",
    "class C(metaclass=tf.Session): pass",
    f"def f(x={USE}): pass",
    f"def f(*, x={USE}): pass",
    f"def f(): return {USE}",
    f"def f(): yield {USE}",
    f"async def f(): await {USE}",
    # Patterns.
    f"match {USE}:\n    case 1: pass",
    f"match x:\n    case 1 if {USE}: pass",
    f"match x:\n    case {{'a': [*_, b]}}: {USE}",
    "match x:\n    case tf.Session.a: pass",
    "match x:\n    case tf.Session.a as y: pass",
    "match x:\n    case {tf.Session.a: y}: pass",
    "match x:\n    case {1: tf.Session.a}: pass",
    f"match x:\n    case {USE}: pass",
    f"match x:\n    case A({USE}): pass",
    "match x:\n    case A(a=tf.Session.a): pass",
    # Expressions.
    f"(s := {USE})",
    f"lambda: {USE}",
    f"lambda x={USE}: x",
    f"[y for x in z for y in {USE}]",
    f"[x for x in z if {USE}]",
    f"{{{USE}: x for x in z}}",
    f"{{x: {USE} for x in z}}",
    f"f'{{{USE}}}'",
    f"f'{{x:{{{USE}}}}}'",
    f"{USE}.run()()",
    "getattr(tf, 'Session')()",
    f"getattr(x, 'a', {USE})",
    f"getattr({USE}, 'a', None)",
    f"f(a={USE})",
    f"f(*{USE}, **x)",
    f"f(*x, **{USE})",
    f"x[{USE}]",
    f"x[1:{USE}]",
    f"x or {USE}",
    f"{USE} if x else 1",
    "isinstance(x, (int, tf.Session))",
    "isinstance(x, tf.Session | int)",
    "isinstance(x, int | tf.Session)",
    # Other names of the module.
    "def f():\n    global s\n    s = tf\ndef g(): s.Session()",
    "def f():\n    s = None\n    def g():\n        nonlocal s\n        s = tf\n    s.Session()",
    "def f():\n    s = None\n    class C:\n        s = None\n        def g():\n"
    "            nonlocal s\n            s = tf\n    s.Session()",
    "def f():\n    [s := tf for _ in x]\n    s.Session()",
    "class C:\n    tf = x\n    def f(self): tf.Session()",
]  # fmt: skip
TAKEN = [
    *(f"def f({arguments}): {USE}" for arguments in ("tf", "tf, /", "*tf", "*, tf", "**tf")),
    *(f"def f():\n    {statement}: {USE}" for statement in ("with x as tf", "for tf in x", "if (tf := x)")),
    *(f"def f():\n    match x:\n        case {each}: {USE}" for each in ("[tf]", "A() as tf", "[1, *tf]", "{**tf}")),
    f"def f():\n    try: pass\n    except E as tf: {USE}",
    *(f"def f():\n    {each}\n    {USE}" for each in ("tf += 1", "del tf", "import x as tf", "class tf: pass")),
    f"def f():\n    tf: A = x\n    {USE}",
    f"def f():\n    [tf := x for _ in y]\n    {USE}",
    f"class C:\n    tf = x\n    {USE}",
    f"[{USE} for tf in x]",
    f"lambda tf: {USE}",
]


class PlacesTest(unittest.TestCase):
    @parameterized.expand([(each,) for each in PLACES])
    def test_found(self, source: str) -> None:
        self.assertEqual(flags(TF + source), "--v1")

    @parameterized.expand([(each,) for each in TAKEN])
    def test_another_thing_of_that_name(self, source: str) -> None:
        self.assertEqual(flags(TF + source), "")
