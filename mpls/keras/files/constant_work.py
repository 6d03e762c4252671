"""The cost of computing an op from constants, estimated by the op's type and the shapes of its tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from mpls.keras.files.allowed_names import names
from mpls.keras.files.op_types import HARMLESS

__all__ = ["OF_AN_OP", "work_of"]

# The unit of work is what TensorFlow does in at most a nanosecond. This is the cost of starting any op, and of mpls'
# look at it.
OF_AN_OP = 10_000
# The size of a small tensor, in numbers, and the most work of an op of `_OF_ARRAYS` whose tensors are all small.
_SMALL = 4_096
_OF_A_SMALL_OP = 2_000_000
_OF_ARRAYS = HARMLESS["arrays"] | HARMLESS["elementwise"] | HARMLESS["linear algebra"] | HARMLESS["reductions"]
# Ops whose output size depends on the values of their inputs. Outputs have at most as many numbers as the inputs; those
# of `Where`, that times the number of dimensions.
_NO_LARGER = frozenset({"BroadcastArgs", "BroadcastGradientArgs", "ListDiff", "Unique", "UniqueWithCounts", "Where"})
_BYTES_OF_A_NUMBER = 8

# Units for each byte of the inputs and outputs.
_SLOW = names(
    """
    Acos Acosh Asin Asinh Atan Atan2 Atanh Cos Cosh Cumprod Cumsum Erf Erfc Exp Expm1 FloorMod Log Log1p Mod Pow
    Sigmoid Sin Sinh Softplus StatelessRandomNormal StatelessRandomNormalV2 StatelessRandomUniform
    StatelessRandomUniformInt StatelessRandomUniformIntV2 StatelessRandomUniformV2 StatelessTruncatedNormal
    StatelessTruncatedNormalV2 Tan Tanh TruncateMod
    """
)
_FAST = names(
    """
    Abs Add AddN AddV2 All Any ArgMax ArgMin BitwiseAnd BitwiseOr BitwiseXor BroadcastTo Cast Ceil ClipByValue
    Concat ConcatV2 Const DepthToSpace Diag DiagPart Div DivNoNan DynamicStitch Empty EnsureShape Equal ExpandDims
    Fill Floor FloorDiv Gather GatherNd GatherV2 Greater GreaterEqual Identity IdentityN Inv Invert
    InvertPermutation IsFinite IsInf IsNan LeftShift Less LessEqual LinSpace LogicalAnd LogicalNot LogicalOr
    MatrixBandPart MatrixDiag MatrixDiagV2 MatrixDiagV3 MatrixSetDiag MatrixSetDiagV2 MatrixSetDiagV3 Max Maximum
    Mean Min Minimum MirrorPad Mul MulNoNan Neg NotEqual OneHot OnesLike Pack Pad PadV2 PreventGradient Prod Range
    Rank RealDiv Reciprocal Relu Relu6 Reshape Reverse ReverseV2 RightShift Rint Roll Round Rsqrt ScatterNd Select
    SelectV2 Shape ShapeN Sign Size Slice Snapshot SpaceToDepth Split SplitV Sqrt Square SquaredDifference Squeeze
    StatelessRandomGetKeyCounter StopGradient StridedSlice Sub Sum TensorScatterUpdate Tile Transpose TruncateDiv
    Unpack UnravelIndex ZerosLike
    """
)
_RATES = dict.fromkeys(_NO_LARGER, 8) | dict.fromkeys(_FAST, 2) | dict.fromkeys(_SLOW, 8)
# Multiplications of matrices. The value says which dimension of the two inputs is summed over.
_PRODUCTS = frozenset({"BatchMatMul", "BatchMatMulV2", "MatMul"})
_MULTIPLICATIONS_IN_A_UNIT = 8


def work_of(op_type: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> tuple[float, float]:
    """Return the work of an op, and the bytes of its outputs; infinite if they are not known, or not only numbers.

    Args:
        op_type: the type of the op.
        inputs: its inputs, symbolic tensors.
        outputs: its outputs.
    """
    numbers, taken = _sizes(inputs)
    made_numbers, made = _sizes(outputs)
    if op_type in _NO_LARGER:
        made_numbers = numbers * max((each.shape.rank or 1 for each in inputs), default=1)
        made = made_numbers * len(outputs) * _BYTES_OF_A_NUMBER
    if op_type in _RATES:
        work = _RATES[op_type] * (taken + made)
    elif op_type in _PRODUCTS:
        inner = max((each or 1 for tensor in inputs for each in tensor.shape.as_list()[-2:]), default=1)
        work = taken + made + made_numbers * inner / _MULTIPLICATIONS_IN_A_UNIT
    else:
        is_small = op_type in _OF_ARRAYS and numbers + made_numbers <= _SMALL
        work = _OF_A_SMALL_OP if is_small else math.inf
    return OF_AN_OP + work, made


def _sizes(tensors: Sequence[Any]) -> tuple[float, float]:
    """Return the numbers in tensors, and their bytes; infinite unless all are numbers in arrays of known shapes."""
    numbers, size = 0.0, 0.0
    for tensor in tensors:
        dtype, count = tensor.dtype.base_dtype, tensor.shape.num_elements()
        if count is None or not (dtype.is_bool or dtype.is_floating or dtype.is_integer):
            return math.inf, math.inf
        numbers += count
        size += count * dtype.size
    return numbers, size
