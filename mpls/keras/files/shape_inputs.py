"""Which inputs of ops TensorFlow computes while it adds the op to a graph, if they depend on constants only.

The shape of an op's output may be the value of an input, such as that of Reshape. TensorFlow then computes the input at
once, with all that it depends on, whatever that costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mpls.keras.files.allowed_names import names
from mpls.keras.files.op_types import HARMLESS

__all__ = ["COMPUTED_IN_PYTHON", "JOINING", "NEVER_COMPUTED", "SHAPES", "computed_inputs"]

# Ops whose result TensorFlow does not compute ahead, besides those with a state.
NEVER_COMPUTED = HARMLESS["control flow"] | {"Placeholder", "PlaceholderV2", "PlaceholderWithDefault"}

# Ops whose result is told by the shape of the input.
SHAPES = frozenset({"Shape", "ShapeN", "Size", "Rank"})

# If a shape does not depend on constants only, TensorFlow follows these ops to the single sizes in it, and follows an
# input again for each use.
JOINING = frozenset({"Cast", "Concat", "ConcatV2", "Pack", "StridedSlice"})

# Ops whose values TensorFlow computes in Python, where its Python functions need them.
COMPUTED_IN_PYTHON = names(
    """
    BroadcastTo Cast CheckNumerics Concat ConcatV2 Equal Fill Identity NotEqual Pack PreventGradient Range Split
    StopGradient Unpack
    """
)

# The positions of an op's inputs whose values give a shape; a negative position counts from the end. For all other ops,
# every input of integers counts as one.
_INPUTS: dict[str, tuple[int, ...]] = {
    "Concat": (0,),
    "Fill": (0,),
    "Split": (0,),
    "Range": (0, 1, 2),
    "SplitV": (1, 2),
    "OneHot": (1,),
    **dict.fromkeys(("ConcatV2", "GatherV2"), (-1,)),
    **dict.fromkeys(("ArgMax", "ArgMin", "BroadcastTo", "ExpandDims", "MirrorPad", "Pad", "PadV2", "Reshape"), (1,)),
    **dict.fromkeys(("All", "Any", "EuclideanNorm", "Max", "Mean", "Min", "Prod", "Sum", "Tile", "Transpose"), (1,)),
    **dict.fromkeys(("Slice", "StridedSlice"), (1, 2, 3)),
    **dict.fromkeys(("ScatterNd", "UnsortedSegmentMax", "UnsortedSegmentMin", "UnsortedSegmentProd"), (2,)),
    "UnsortedSegmentSum": (2,),
    # The others are seeds.
    **dict.fromkeys((each for each in HARMLESS["random numbers"] if each.startswith("StatelessRandomUniform")), (0,)),
    **dict.fromkeys(("StatelessRandomNormal", "StatelessRandomNormalV2", "StatelessTruncatedNormal"), (0,)),
    "StatelessTruncatedNormalV2": (0,),
}
# These look at shapes alone, at whatever they are.
_NONE = HARMLESS["elementwise"] | HARMLESS["variables"] | HARMLESS["optimizers"] | SHAPES
_NONE |= names(
    """
    Assert BatchMatMul BatchMatMulV2 BatchMatMulV3 BiasAdd BroadcastArgs BroadcastGradientArgs Bucketize
    ConcatOffset Const CudnnRNN CudnnRNNBackprop CudnnRNNBackpropV2 CudnnRNNBackpropV3 CudnnRNNV2 CudnnRNNV3
    Cumprod Cumsum DeepCopy DynamicPartition Exit Gather GatherNd GuaranteeConst Identity IdentityN If InTopK
    InTopKV2 InvertPermutation ListDiff LookupTableFindV2 LookupTableInsertV2 MatMul Merge NextIteration OnesLike
    Pack PartitionedCall PreventGradient RaggedBincount RaggedCross RaggedGather RaggedRange RaggedTensorToSparse
    RaggedTensorToVariant Relu Relu6 Reverse ReverseSequence Roll SegmentMax SegmentMean SegmentMin SegmentProd
    SegmentSum Snapshot SparseConcat SparseCross SparseReorder SparseSegmentMean SparseSegmentSqrtN
    SparseSegmentSum Squeeze StatefulPartitionedCall StatelessIf StatelessWhile StopGradient StringFormat Substr
    Switch TensorListPushBack TensorListSetItem TensorScatterAdd TensorScatterMax TensorScatterMin
    TensorScatterSub TensorScatterUpdate UnicodeEncode Unique UniqueWithCounts Unpack Where While ZerosLike
    """
)


def computed_inputs(op_type: str, inputs: Sequence[Any]) -> Iterator[Any]:
    """Yield each input of an op that TensorFlow may compute when it adds the op.

    Args:
        op_type: the type of the op.
        inputs: its inputs, symbolic tensors, in a flat list.
    """
    if op_type in _NONE:
        return
    found = _INPUTS.get(op_type)
    if found is None:
        yield from (each for each in inputs if each.dtype.is_integer)
        return
    for number in found:
        if -len(inputs) <= number < len(inputs):
            yield inputs[number]
