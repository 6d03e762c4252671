"""Names that show for which TensorFlow or Keras a program was written. Tests compare them with the frameworks."""

from __future__ import annotations

import functools
import re
from collections.abc import Set
from enum import Enum

from mpls.names import SCALE_CLASSES, Name, named
from mpls.optimizer_members import (
    ATTRIBUTES_OF_LOSS_SCALES,
    HYPERPARAMETERS,
    LEGACY_METHODS,
    LEGACY_USES,
    SCALING_METHODS,
    WEIGHTS,
    WRAPPER_ATTRIBUTES,
)


def _names(root: str, names: str) -> frozenset[str]:
    return frozenset(f"{root}.{name}" for name in names.split())


def is_in(path: str, names: Set[str]) -> str:
    """Return the name in a table that a path equals or lies below; "" if there is none."""
    end = len(path)
    while end > 0:
        if path[:end] in names:
            return path[:end]
        end = path.rfind(".", 0, end)
    return ""


# Names in `tf` up to TF 1.15, and never in TF 2.
TF_1 = _names(
    "tf",
    """
    AUTO_REUSE ConfigProto FixedLenFeature GPUOptions GraphKeys GraphOptions InteractiveSession MetaGraphDef
    OptimizerOptions Print RunMetadata RunOptions Session Summary TFRecordReader VarLenFeature add_check_numerics_ops
    add_to_collection all_variables app arg_max arg_min assign assign_add assign_sub ceil check_numerics cholesky
    colocate_with confusion_matrix container cross cumprod decode_csv decode_raw diag diag_part
    disable_eager_execution disable_v2_behavior distributions div enable_eager_execution enable_resource_variables
    enable_v2_behavior erf fixed_size_partitioner flags floor_div floormod get_collection get_default_graph
    get_default_session get_local_variable get_variable get_variable_scope gfile global_norm global_variables
    global_variables_initializer glorot_normal_initializer glorot_uniform_initializer initialize_all_variables
    invert_permutation is_finite is_inf is_nan is_variable_initialized layers lgamma local_variables
    local_variables_initializer log log1p logging logical_xor make_template manip matrix_band_part matrix_determinant
    matrix_diag matrix_inverse matrix_solve mod model_variables moving_average_variables multinomial
    orthogonal_initializer parse_example parse_single_example parse_tensor placeholder placeholder_with_default
    py_func python_io qr random_crop random_gamma random_normal random_shuffle random_uniform read_file real reciprocal
    report_uninitialized_variables reset_default_graph resource_loader rint rsqrt scatter_add scatter_nd_update
    scatter_sub scatter_update segment_max segment_mean segment_sum self_adjoint_eig set_random_seed setdiff1d
    space_to_depth sparse_placeholder sparse_reduce_sum sparse_reorder sparse_reshape sparse_tensor_dense_matmul
    sparse_tensor_to_dense sparse_to_dense spectral squared_difference string_join string_split string_to_number
    substr svd tables_initializer to_bfloat16 to_double to_float to_int32 to_int64 trainable_variables truncated_normal
    truncated_normal_initializer uniform_unit_scaling_initializer unsorted_segment_sum variable_op_scope variable_scope
    variables_initializer variance_scaling_initializer verify_tensor_all_finite write_file
    data.make_initializable_iterator data.make_one_shot_iterator image.resize_area image.resize_bicubic
    image.resize_bilinear image.resize_image_with_crop_or_pad image.resize_images image.resize_nearest_neighbor
    keras.backend.get_session keras.backend.set_session keras.layers.CuDNNGRU keras.layers.CuDNNLSTM
    keras.layers.enable_v2_dtype_behavior
    losses.absolute_difference losses.add_loss losses.get_regularization_loss losses.get_total_loss losses.huber_loss
    losses.sigmoid_cross_entropy losses.softmax_cross_entropy
    losses.sparse_softmax_cross_entropy nn.bidirectional_dynamic_rnn nn.dynamic_rnn nn.fused_batch_norm
    nn.max_pool_v2 nn.raw_rnn nn.rnn_cell nn.softmax_cross_entropy_with_logits_v2 nn.static_rnn nn.xw_plus_b
    saved_model.Builder saved_model.simple_save summary.FileWriter summary.merge summary.merge_all
    train.AdadeltaOptimizer train.AdagradOptimizer train.AdamOptimizer train.FtrlOptimizer
    train.GradientDescentOptimizer train.MomentumOptimizer train.MonitoredSession train.MonitoredTrainingSession
    train.Optimizer train.RMSPropOptimizer train.Saver train.Scaffold train.Server train.SessionRunArgs
    train.SessionRunHook train.Supervisor train.SyncReplicasOptimizer train.cosine_decay train.create_global_step
    train.exponential_decay train.get_global_step train.get_or_create_global_step train.global_step
    train.import_meta_graph train.init_from_checkpoint train.piecewise_constant train.polynomial_decay
    train.replica_device_setter train.start_queue_runners train.string_input_producer
    """,
)

# Names in `tf` since TF 2.0, and never in TF 1.
TF_2 = _names(
    "tf",
    """
    experimental.numpy initializers.GlorotNormal initializers.GlorotUniform initializers.HeNormal initializers.HeUniform
    nn.gelu optimizers random.set_seed summary.create_file_writer summary.record_if summary.trace_on summary.write
    losses.BinaryCrossentropy losses.CategoricalCrossentropy losses.Huber losses.KLDivergence losses.Loss
    losses.MeanAbsoluteError losses.MeanSquaredError losses.SparseCategoricalCrossentropy metrics.AUC metrics.Accuracy
    metrics.BinaryAccuracy metrics.CategoricalAccuracy metrics.Mean metrics.MeanAbsoluteError metrics.MeanIoU
    metrics.MeanSquaredError metrics.Metric metrics.Precision metrics.Recall metrics.RootMeanSquaredError
    metrics.SparseCategoricalAccuracy metrics.Sum
    distribute.TPUStrategy distribute.MultiWorkerMirroredStrategy distribute.ParameterServerStrategy
    """,
)

# Names in tf.keras up to TF 2.15 and in tf_keras, but not in Keras 3.
KERAS_2 = _names(
    "keras",
    """
    backend.function backend.learning_phase backend.learning_phase_scope backend.placeholder
    backend.set_learning_phase dtensor estimator experimental.CosineDecay experimental.CosineDecayRestarts
    experimental.LinearModel experimental.SequenceFeatures experimental.WideDeepModel layers.AbstractRNNCell
    layers.DenseFeatures layers.LocallyConnected1D layers.LocallyConnected2D layers.experimental metrics.MeanTensor
    models.experimental optimizers.experimental optimizers.legacy preprocessing.text utils.GeneratorEnqueuer
    utils.OrderedEnqueuer utils.experimental
    """,
)

# Functions in tf.keras up to TF 2.15 and in tf_keras, that Keras 3 has in `keras` but not in `tf.keras`.
KERAS_2_OF_TF = _names(
    "keras",
    """
    losses.kl_divergence losses.log_cosh losses.mean_absolute_error losses.mean_absolute_percentage_error
    losses.mean_squared_error losses.mean_squared_logarithmic_error metrics.kl_divergence metrics.log_cosh
    metrics.mean_absolute_error metrics.mean_absolute_percentage_error metrics.mean_squared_error
    metrics.mean_squared_logarithmic_error
    """,
)

# Private modules of Keras 2 that other packages import; `--keras 2` has them.
KERAS_2_PRIVATE = _names(
    "keras",
    """
    engine utils.conv_utils utils.data_utils utils.generic_utils utils.layer_utils utils.np_utils
    """,
)

# Names in TF 1 that tf.compat.v1 has only with Keras 2.
KERAS_2_OF_TF_1 = frozenset(
    (
        "tf.layers",
        "tf.nn.rnn_cell",
        "tf.compat.v1.layers",
        "tf.compat.v1.nn.rnn_cell",
        "tf.keras.backend.get_session",
        "tf.keras.backend.set_session",
        "tf.compat.v1.keras.backend.get_session",
        "tf.compat.v1.keras.backend.set_session",
        *(f"tf.keras.layers.{name}" for name in ("CuDNNGRU", "CuDNNLSTM", "enable_v2_dtype_behavior")),
        "tf.compat.v1.keras.layers.enable_v2_dtype_behavior",
        "tf.compat.v1.keras.layers.CuDNNGRU",
        "tf.compat.v1.keras.layers.CuDNNLSTM",
    )
)

# Names in Keras 3, and never in Keras 2.
KERAS_3 = _names(
    "keras",
    """
    DTypePolicy KerasTensor Operation StatelessScope Variable config device distribution dtype_policies
    layers.JaxLayer layers.TFSMLayer layers.TorchModuleWrapper mixed_precision.dtype_policy
    mixed_precision.set_dtype_policy ops optimizers.LossScaleOptimizer optimizers.Muon quantizers
    random.SeedGenerator random.normal random.uniform saving.KerasFileEditor tree utils.PyDataset
    """,
)

# Optimizers in every generation of Keras.
OPTIMIZERS = (
    "Adadelta",
    "Adagrad",
    "Adam",
    "Adamax",
    "Ftrl",
    "Nadam",
    "Optimizer",
    "RMSprop",
    "SGD",
    "get",
    "deserialize",
)
# Optimizers that exist only since the new ones of TF 2.11, not among the legacy ones.
LATER_THAN_2_10 = ("AdamW", "Adafactor", "Lion", "Lamb", "Muon", "experimental")

# Attributes that tell what an object is, or what it needs.
MEMBERS = frozenset(
    (
        *ATTRIBUTES_OF_LOSS_SCALES,
        *HYPERPARAMETERS,
        *LEGACY_METHODS,
        *LEGACY_USES,
        *SCALING_METHODS,
        *WEIGHTS,
        *WRAPPER_ATTRIBUTES,
        *("loss_scale", "_loss_scale", "compile", "lr", "decay", "dynamic", "dynamic_counter", "optimizer"),
        *("load_weights", "reset_states"),
        *("fit_generator", "evaluate_generator", "predict_generator", "save", "save_weights"),
        *("evaluate", "fit", "predict"),
        *("minimize", "variables", "apply_gradients", "get_config"),
    )
)


class Kind(Enum):
    """What an object is."""

    OPTIMIZER = "an optimizer of Keras"
    LEGACY_OPTIMIZER = "one of those that are called legacy"
    EXPERIMENTAL_WRAPPER = "an experimental wrapper"
    PUBLIC_WRAPPER = "a public wrapper"
    # It has the same members on Keras 3.
    WRAPPER_OF_MPLS = "a wrapper of mpls"
    WRAPPER = "a wrapper of another class, or of which only its use tells that it is one"
    MODELS_OPTIMIZER = "the optimizer of a model"
    POLICY = "a policy"
    DYNAMIC_SCALE = "a dynamic loss scale"
    MODEL = "a model"
    METRIC = "a metric"
    OWN = "an object of a class of the program's with a loss scale of its own"
    NONE = "None"


_OF_TARGET = {
    "mpls.experimental:LossScaleOptimizer": Kind.EXPERIMENTAL_WRAPPER,
    "mpls.v1:enable_mixed_precision_graph_rewrite": Kind.EXPERIMENTAL_WRAPPER,
    "mpls.keras:LossScaleOptimizer": Kind.PUBLIC_WRAPPER,
    "mpls.keras:LossScaleOptimizerV3": Kind.WRAPPER,
    "mpls.experimental:DynamicLossScale": Kind.DYNAMIC_SCALE,
    "mpls.v1:DynamicLossScale": Kind.DYNAMIC_SCALE,
    "mpls.experimental:Policy": Kind.POLICY,
    "mpls.experimental:global_policy": Kind.POLICY,
    "mpls.experimental:get_layer_policy": Kind.POLICY,
    "mpls.keras:Policy": Kind.POLICY,
    "mpls.keras:global_policy": Kind.POLICY,
}
_OF_MPLS = ("mpls.keras.LossScaleOptimizer", "mpls.experimental.LossScaleOptimizer")
# What TF 2 has of Keras without `keras`: TF 1 had functions in these modules.
_IN_TF = re.compile(r"(?:metrics|losses)\.[A-Z]|optimizers\.")
_OPTIMIZERS = {f"keras.optimizers.{name}" for name in OPTIMIZERS}
_MODELS = {f"keras.{name}" for name in ("Model", "Sequential", "models.Model", "models.Sequential")}
_MODELS |= {f"keras.models.{name}" for name in ("load_model", "clone_model", "model_from_json")}
_LEGACY = {f"keras.optimizers.legacy.{name}" for name in OPTIMIZERS}
_METRIC = re.compile(r"keras\.metrics\.[A-Z]\w*")


def keras_path(path: str) -> str:
    """Return a path in Keras as `keras.…`, whether spelled with `tf`, as `tf.optimizers`, or not; else ""."""
    for root in ("tf.compat.v1.", "tf.compat.v2.", "tf.python.", "tf."):
        if path.startswith(root):
            path = path.removeprefix(root)
            if _IN_TF.match(path):
                return f"keras.{path}"
            break
    return path if path == "keras" or path.startswith("keras.") else ""


@functools.cache
def kind_of(path: str) -> Kind | None:
    """Return the kind of object that calling a path returns; None for none of these kinds."""
    if path in _OF_MPLS:
        return Kind.WRAPPER_OF_MPLS
    row = named(path)
    if row is not None and row.target in _OF_TARGET:
        kind = _OF_TARGET[row.target]
        # `tf_keras.….LossScaleOptimizer` is tf_keras' own wrapper.
        is_theirs = path.startswith("tf_keras.") and kind is Kind.PUBLIC_WRAPPER
        return Kind.WRAPPER if is_theirs else kind
    within = keras_path(path)
    if is_in(within, _LEGACY):
        return Kind.LEGACY_OPTIMIZER
    if is_in(within, _MODELS):
        return Kind.MODEL
    if _METRIC.fullmatch(within):
        return Kind.METRIC
    return Kind.OPTIMIZER if is_in(within, _OPTIMIZERS) else None


def is_experimental(row: Name) -> bool:
    """Return whether a historical name is that of the experimental wrapper."""
    return row.target == "mpls.experimental:LossScaleOptimizer"


def is_public(row: Name) -> bool:
    """Return whether a historical name is that of the public wrapper."""
    return row.target.startswith("mpls.keras:LossScaleOptimizer")


def is_scale_class(row: Name) -> bool:
    """Return whether a historical name is that of a class of loss scales."""
    home, _, name = row.target.partition(":")
    return home in ("mpls.experimental", "mpls.v1") and name in SCALE_CLASSES
