"""What counts as a number, how it is converted, and which numbers a scale can have."""

from __future__ import annotations

import decimal
import fractions
import unittest
from typing import Any

import numpy as np
import tensorflow as tf
from parameterized import parameterized

from mpls.core.numbers import require_usable, to_float, to_int
from mpls.errors import MplsError
from mpls.formats.scale_range import FLOAT32_MAX, can_be_scale
from mpls.formats.validity import is_number

INF, NAN = float("inf"), float("nan")
FLOAT32 = np.finfo(np.float32)


class IsNumberTest(unittest.TestCase):
    @parameterized.expand(
        [
            (value,)
            for value in (
                0,
                -1,
                10**400,
                True,
                1.5,
                INF,
                NAN,
                np.float16(2),
                np.float32(2),
                np.float64(2),
                np.int8(2),
                np.int64(2),
                np.uint32(2),
                np.array(2),
                np.array(2.0, np.float16),
            )
        ]
    )
    def test_numbers(self, value: Any) -> None:
        self.assertTrue(is_number(value))

    @parameterized.expand(
        [
            (value,)
            for value in (
                None,
                "128",
                "dynamic",
                b"1",
                [],
                [1.0],
                (1.0,),
                {},
                1j,
                np.bool_(True),
                np.complex64(1),
                np.str_("1"),
                np.datetime64("2020"),
                np.array([1.0]),
                np.array([[1.0]]),
                np.array(True),
                np.array(1j),
                np.array("1"),
                np.array(None, object),
                float,
                decimal.Decimal(1),
                fractions.Fraction(1, 2),
            )
        ]
    )
    def test_others(self, value: Any) -> None:
        self.assertFalse(is_number(value))

    def test_tensors_are_none(self) -> None:
        self.assertFalse(is_number(tf.constant(1.0)))
        self.assertFalse(is_number(tf.Variable(1.0)))


class ConversionTest(unittest.TestCase):
    @parameterized.expand(
        [
            (2, 2.0),
            (True, 1.0),
            ("128", 128.0),
            (" 1e3 ", 1000.0),
            (np.float32(0.1), float(np.float32(0.1))),
            (np.float16(1.5), 1.5),
            (np.int64(7), 7.0),
            (np.array(2.5), 2.5),
            (decimal.Decimal("0.5"), 0.5),
            (INF, INF),
        ]
    )
    def test_to_float(self, value: Any, expected: float) -> None:
        result = to_float(value, "it")
        self.assertEqual((type(result), result), (float, expected))

    @parameterized.expand(
        [(2, 2), (2.9, 2), (-2.9, -2), (True, 1), ("3", 3), (np.float32(2.9), 2), (np.int8(3), 3), (np.array(4), 4)]
    )
    def test_to_int(self, value: Any, expected: int) -> None:
        result = to_int(value, "it")
        self.assertEqual((type(result), result), (int, expected))

    @parameterized.expand(
        [
            (to_float, None, TypeError),
            (to_float, [1.0], TypeError),
            (to_float, {}, TypeError),
            (to_float, 1j, TypeError),
            (to_float, "foo", ValueError),
            (to_float, "", ValueError),
            (to_float, 10**400, OverflowError),
            (to_int, None, TypeError),
            (to_int, [1], TypeError),
            (to_int, "2.5", ValueError),
            (to_int, NAN, ValueError),
            (to_int, INF, OverflowError),
            (to_int, -INF, OverflowError),
        ]
    )
    def test_what_has_no_value_is_the_error_of_python(self, convert: Any, value: Any, error: type) -> None:
        with self.assertRaises(error) as caught:
            convert(value, "Thing: argument")
        self.assertIsInstance(caught.exception, MplsError)
        # Exactly the one built-in that Python itself raises.
        builtins = [cls for cls in (TypeError, ValueError, OverflowError) if isinstance(caught.exception, cls)]
        self.assertEqual(builtins, [error])
        self.assertRegex(str(caught.exception), r"^Thing: argument must be a (whole )?number; got .*MIGRATION\.md#")
        self.assertIsInstance(caught.exception.__cause__, error)


class UsableTest(unittest.TestCase):
    @parameterized.expand(
        [(1.0,), (0.5,), (1e-30,), (2.0**127,), (float(FLOAT32.max),), (float(FLOAT32.smallest_subnormal),)]
    )
    def test_usable(self, value: float) -> None:
        self.assertEqual(require_usable(value, "it", value), value)

    @parameterized.expand([(3.4028235e38,), (1e-45,)])
    def test_what_float32_rounds_to_a_usable_number_is_usable(self, value: float) -> None:
        """The first is how the largest float32 is printed."""
        self.assertTrue(np.isfinite(np.float32(value)))
        self.assertGreater(np.float32(value), 0)
        require_usable(value, "it", value)

    @parameterized.expand([(0.0,), (-0.0,), (-1.0,), (NAN,), (INF,), (-INF,), (1e39,), (1e-50,), (3.5e38,)])
    def test_unusable(self, value: float) -> None:
        with self.assertRaisesRegex(ValueError, r"^Thing: arg must be positive and finite in float32; got 'x' \(str\)"):
            require_usable(value, "Thing: arg", "x")

    def test_the_range_is_that_of_float32(self) -> None:
        edges = [
            edge * sign for edge in (2.0**-150, 2.0**-149, FLOAT32_MAX, (2 - 2.0**-24) * 2.0**127) for sign in (1, -1)
        ]
        near = [float(np.nextafter(edge, towards)) for edge in edges for towards in (-INF, INF)]
        for value in (*edges, *near, *map(np.float32, (1, FLOAT32_MAX)), np.float16(0.5)):
            with np.errstate(over="ignore", under="ignore"):
                is_usable = 0 < np.float32(value) < INF
            self.assertEqual(can_be_scale(value), is_usable, value)
        self.assertFalse(can_be_scale(10**400))
        self.assertEqual(FLOAT32_MAX, float(FLOAT32.max))
