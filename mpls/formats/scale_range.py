"""Which numbers can be loss scales. It needs no NumPy, so that `mpls migrate` need not load it."""

from __future__ import annotations

__all__ = ["FLOAT32_MAX", "LARGEST_FIXED_SCALE", "can_be_scale"]

FLOAT32_MAX = 3.4028234663852886e38
# Numbers up to the first are 0 in float32, those from the second on are infinite.
_ZERO, _INFINITE = 2.0**-150, (2 - 2.0**-24) * 2.0**127
# The reciprocal of a larger power of two is a denormal float32. TensorFlow's graph optimizer turns a division by a
# constant into a multiplication by its reciprocal, and kernels flush denormals to zero.
LARGEST_FIXED_SCALE = 2.0**126


def can_be_scale(value: float) -> bool:
    """Return whether a number is positive and finite in float32."""
    try:
        return _ZERO < float(value) < _INFINITE
    except OverflowError:
        # A whole number that no float holds.
        return False
