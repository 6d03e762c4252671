"""How numbers are converted, and which numbers a scale can have."""

from __future__ import annotations

import contextlib
import decimal
import unittest
from typing import Any

import numpy as np
from parameterized import parameterized

import mpls.v1
from mpls.errors import MplsError

INF, NAN = float("inf"), float("nan")
FLOAT32 = np.finfo(np.float32)


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
        ]
    )
    def test_to_float(self, value: Any, expected: float) -> None:
        scale = mpls.v1.DynamicLossScale(value, multiplier=value)
        for result in (scale.initial_loss_scale, scale.multiplier):
            self.assertEqual((type(result), result), (float, expected))

    @parameterized.expand(
        [(2, 2), (2.9, 2), (-2.9, -2), (True, 1), ("3", 3), (np.float32(2.9), 2), (np.int8(3), 3), (np.array(4), 4)]
    )
    def test_to_int(self, value: Any, expected: int) -> None:
        result = mpls.v1.DynamicLossScale(8, value).increment_period
        self.assertEqual((type(result), result), (int, expected))

    @parameterized.expand(
        [
            ("initial_loss_scale", None, TypeError),
            ("initial_loss_scale", [1.0], TypeError),
            ("initial_loss_scale", {}, TypeError),
            ("initial_loss_scale", 1j, TypeError),
            ("initial_loss_scale", "foo", ValueError),
            ("initial_loss_scale", "", ValueError),
            ("initial_loss_scale", 10**400, OverflowError),
            ("increment_period", None, TypeError),
            ("increment_period", [1], TypeError),
            ("increment_period", "2.5", ValueError),
            ("increment_period", NAN, ValueError),
            ("increment_period", INF, OverflowError),
            ("increment_period", -INF, OverflowError),
        ]
    )
    def test_what_has_no_value_is_the_error_of_python(self, argument: str, value: Any, error: type) -> None:
        with self.assertRaises(error) as caught:
            mpls.v1.DynamicLossScale(**{argument: value})
        self.assertIsInstance(caught.exception, MplsError)
        # Exactly the one built-in that Python itself raises.
        builtins = [cls for cls in (TypeError, ValueError, OverflowError) if isinstance(caught.exception, cls)]
        self.assertEqual(builtins, [error])
        message = rf"^DynamicLossScale: {argument} must be a (whole )?number; got .*mpls docs "
        self.assertRegex(str(caught.exception), message)
        self.assertIsInstance(caught.exception.__cause__, error)


class UsableTest(unittest.TestCase):
    @parameterized.expand([(0.0,), (-0.0,), (-1.0,), (NAN,), (INF,), (-INF,), (1e39,), (1e-50,), (3.5e38,)])
    def test_unusable(self, value: float) -> None:
        for argument in ("initial_loss_scale", "multiplier"):
            message = rf"^DynamicLossScale: {argument} must be positive and finite in float32; got {value} \(float\)"
            with self.assertRaisesRegex(ValueError, message.replace("+", r"\+")):
                mpls.v1.DynamicLossScale(**{argument: value})

    def test_the_range_is_that_of_float32(self) -> None:
        edges = [
            edge * sign
            for edge in (2.0**-150, 2.0**-149, float(FLOAT32.max), (2 - 2.0**-24) * 2.0**127)
            for sign in (1, -1)
        ]
        near = [float(np.nextafter(edge, towards)) for edge in edges for towards in (-INF, INF)]
        for value in (*edges, *near, *map(np.float32, (1, FLOAT32.max)), np.float16(0.5)):
            with np.errstate(over="ignore", under="ignore"):
                is_usable = 0 < np.float32(value) < INF
            with contextlib.nullcontext() if is_usable else self.assertRaises(ValueError):
                mpls.v1.DynamicLossScale(value)
