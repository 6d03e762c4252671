"""SavedModels with a function that makes a shape of what it computes from constants."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tf_keras
from tensorflow.core.protobuf import saved_model_pb2
from tf_keras.protobuf import saved_metadata_pb2

from tests.saved.graph_folders import save
from tests.saved.graphs import add

# The number that stands in the traced functions for the size.
_SIZE = 97


def _filled(*shape: Any) -> Any:
    return tf.fill(tf.stack(shape), 1.0)


# Each as `(numbers to be summed to a shape from a size, a size that takes seconds or gigabytes)`.
COSTLY: dict[str, tuple[Callable[[Any], Any], int]] = {
    "BroadcastTo": (lambda n: tf.broadcast_to([1.0], tf.stack([n])), 10**9),
    "Conv2D": (lambda n: tf.nn.conv2d(_filled(1, n, n, 16), _filled(9, 9, 16, 16), 1, "SAME"), 1500),
    "Cumsum": (lambda n: tf.cumsum(_filled(n)), 4 * 10**8),
    "DenseBincount": (lambda n: tf.math.bincount([1, 2], minlength=n, maxlength=n, dtype=tf.float32), 5 * 10**8),
    "Einsum": (lambda n: tf.einsum("ab,bc->ac", _filled(n, n), _filled(n, n)), 12_000),
    "Fill": (lambda n: _filled(n, n), 30_000),
    "LinSpace": (lambda n: tf.raw_ops.LinSpace(start=0.0, stop=1.0, num=n), 5 * 10**8),
    "MatMul": (lambda n: tf.linalg.matmul(_filled(n, n), _filled(n, n)), 16_000),
    "MatrixInverse": (lambda n: tf.linalg.inv(tf.eye(n)), 6_000),
    "Mul": (lambda n: _filled(n, 1) * _filled(1, n), 30_000),
    "OneHot": (lambda n: tf.one_hot([1, 2], n), 5 * 10**8),
    "Pad": (lambda n: tf.pad([1.0], tf.stack([tf.stack([n, n])])), 5 * 10**8),
    "RaggedRange": (lambda n: tf.ragged.range(tf.stack([n])).values, 10**9),
    "Range": (tf.range, 10**9),
    "ResizeBilinear": (lambda n: tf.image.resize(tf.ones([1, 2, 2, 1]), tf.stack([n, n])), 20_000),
    "SelectV2": (lambda n: tf.where(_filled(n) > 0, _filled(n), _filled(n)), 4 * 10**8),
    "SparseToDense": (lambda n: tf.raw_ops.SparseToDense(**_SPARSE, output_shape=tf.stack([n])), 5 * 10**8),
    "StatelessRandomUniformV2": (lambda n: tf.random.stateless_uniform(tf.stack([n]), [1, 2]), 4 * 10**8),
    "StringLength": (lambda n: tf.strings.length(tf.fill(tf.stack([n]), "a" * 100)), 10**8),
    "Svd": (lambda n: tf.linalg.svd(_filled(n, n), compute_uv=False), 3_000),
    "Tile": (lambda n: tf.tile(tf.tile([1.0], tf.stack([n])), tf.stack([n])), 30_000),
    "TopKV2": (lambda n: tf.sort(tf.random.stateless_uniform(tf.stack([n]), [1, 2])), 3 * 10**7),
    "Unique": (lambda n: tf.unique(tf.range(n)).y, 10**8),
    "UnsortedSegmentSum": (lambda n: tf.math.unsorted_segment_sum([1.0], [0], n), 5 * 10**8),
    "Where": (lambda n: tf.where(_filled(n) > 0), 10**8),
    "Zeta": (lambda n: tf.math.zeta(_filled(n) + 1, _filled(n)), 10**7),
}
_SPARSE = {"sparse_indices": [[1]], "sparse_values": [1.0], "default_value": 0.0}


class ShapeGraph:
    """A SavedModel of a Dense layer, with a function that reshapes its input to `(2, …)`.

    Args:
        folder: where it is.
        compute: what of a size is summed; the sum is multiplied by zero.
    """

    def __init__(self, folder: pathlib.Path, compute: Callable[[Any], Any]) -> None:
        self.folder, self._size = folder, _SIZE

        @tf.function(input_signature=[tf.TensorSpec([None, 4])], autograph=False)
        def reshape(x: Any) -> Any:
            numbers = tf.cast(tf.reduce_sum(compute(tf.constant(_SIZE))), tf.float32)
            return tf.reshape(x, tf.stack([tf.cast(numbers * 0, tf.int32) + 2, -1]))

        inputs = tf_keras.Input([4])
        model = tf_keras.Model(inputs, tf_keras.layers.Dense(4, name="dense")(inputs))
        model.reshape = reshape
        save(model, folder)
        self.proto = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
        self.library = self.proto.meta_graphs[0].graph_def.library
        (self.function,) = (each for each in self.library.function if "__inference_reshape" in each.signature.name)
        # What it tells of shapes would not fit.
        for node in self.function.node_def:
            node.attr.pop("_output_shapes", None)

    def set_size(self, size: int) -> None:
        nodes = [each for each in self.function.node_def if list(each.attr["value"].tensor.int_val) == [self._size]]
        assert nodes
        for node in nodes:
            node.attr["value"].tensor.int_val[0] = size
        self._size = size

    def save(self) -> str:
        (self.folder / "saved_model.pb").write_bytes(self.proto.SerializeToString())
        return str(self.folder)

    def call_while_loading(self, callee: str, value: list[int]) -> None:
        """Have the Dense layer be one that tf_keras makes of its functions, and these call a function."""
        metadata = saved_metadata_pb2.SavedMetadata.FromString((self.folder / "keras_metadata.pb").read_bytes())
        for node in metadata.nodes:
            if node.identifier == "_tf_keras_layer":
                node.metadata = node.metadata.replace('"units": 4', '"units": -4')
        (self.folder / "keras_metadata.pb").write_bytes(metadata.SerializeToString())
        for function in self.library.function:
            if "dense_layer_call" in function.signature.name:
                add(function, "Const", "given", dtype=tf.int32, value=value)
                add(
                    function, "PartitionedCall", "call", ["given:output:0"], f=callee, Tin=[tf.int32], Tout=[tf.float32]
                )


def add_function(library: Any, name: str) -> Any:
    """Add a function of a vector of integers that returns numbers, and is to have a node `'y'`."""
    function = library.function.add()
    function.signature.name = name
    function.signature.input_arg.add(name="a", type=tf.int32.as_datatype_enum)
    function.signature.output_arg.add(name="y", type=tf.float32.as_datatype_enum)
    function.ret["y"] = "y:output:0"
    return function


def model_of_a_fixed_shape() -> Any:
    """Return an honest model, whose masks, positions and products of sizes all are constants."""
    inputs = tf_keras.Input([512, 16], batch_size=2)
    positions = tf.cast(tf.range(tf.shape(inputs)[1]), tf.float32)
    x = inputs + positions[tf.newaxis, :, tf.newaxis]
    x = tf_keras.layers.MultiHeadAttention(2, 8)(x, x, use_causal_mask=True)
    x = tf_keras.layers.LSTM(8, return_sequences=True)(tf_keras.layers.Masking()(x))
    shape = tf.shape(x)
    x = tf.tile(tf.reshape(x, [shape[0], shape[1] * shape[2], 1]), [1, 1, tf.size(shape)])
    mask = tf.cast(tf.cumsum(tf.ones_like(x), axis=1) > 3, tf.float32)
    return tf_keras.Model(inputs, tf_keras.layers.Flatten()(x * mask))
