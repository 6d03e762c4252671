"""The private names of TensorFlow, tf_keras and Keras 3 that mpls uses, and what it does without each.

A test finds all of them in the oldest and in the newest release that is supported, and takes each away in turn. Names
that mpls itself sets or defines for a framework, or that an object has at times only, have no row.
"""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from mpls.errors import MplsWarning, UnsupportedReleaseError, advise_user
from mpls.patches import ABSENT

_SEEN = {"tensorflow": "TensorFlow 2.16 to 2.21", "tf_keras": "tf_keras 2.16 to 2.21", "keras": "Keras 3.6 to 3.15"}
# The rows of which a warning has been given in this process.
_told: set[Private] = set()
_lock = threading.Lock()


def look_up(holder: Any, name: str) -> Any:
    """Return an attribute of a framework's object or module; ABSENT if this release has none."""
    try:
        return getattr(holder, name)
    except AttributeError:
        if hasattr(type(holder), name):
            # A property that fails is there, and says why it fails.
            raise
        return ABSENT


@dataclass(frozen=True)
class Private:
    """A private name of a framework: a row of `mpls.upstream.table`, or of one of the tables that it joins.

    Attributes:
        owner: where it is: a module, and after a colon a class in it, `"tensorflow:Graph"`, or a function.
        name: the name.
        without: the consequence in a release that lacks it, as the end of a sentence; for a name that is required, what
            fails.
    """

    owner: str
    name: str
    without: str

    @property
    def framework(self) -> str:
        """The top-level package that has it."""
        return self.owner.partition(":")[0].partition(".")[0]

    def of(self, holder: Any, default: Any = None) -> Any:
        """Return the attribute of an object; without it, warn once and return the default.

        Args:
            holder: an object of the class that has it, or the class.
            default: what to return without it.
        """
        found = look_up(holder, self.name)
        if found is ABSENT:
            self.warn_that_it_is_gone()
            return default
        return found

    def needed_of(self, holder: Any) -> Any:
        """Return the attribute of an object.

        Raises:
            UnsupportedReleaseError: it is gone.
        """
        found = look_up(holder, self.name)
        if found is ABSENT:
            raise UnsupportedReleaseError(self._text())
        return found

    def load(self, default: Any = None) -> Any:
        """Import the module and return the name; without it, warn once and return the default."""
        return self.of(self._module(), default)

    def needed(self) -> Any:
        """Import the module and return the name.

        Raises:
            UnsupportedReleaseError: it is gone.
        """
        return self.needed_of(self._module())

    def _module(self) -> Any:
        name = self.owner.partition(":")[0]
        try:
            return import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise
            return ABSENT

    def warn_that_it_is_gone(self) -> None:
        """Warn, once per process, that this release lacks the name."""
        with _lock:
            is_first = self not in _told
            _told.add(self)
        if is_first:
            advise_user(self._text(), MplsWarning)

    def _text(self) -> str:
        version = getattr(sys.modules.get(self.framework), "__version__", "")
        return (
            f"mpls does not find {self.owner.replace(':', '.')}.{self.name} in {self.framework} {version}: "
            f"{self.without}. It was there in {_SEEN[self.framework]}: use one of these, or a newer mpls, and report "
            "it, please. See mpls docs newer-frameworks"
        )


_INTERNAL_TRACKING = "tensorflow.__internal__.tracking"
_V1_OPTIMIZER = "tensorflow.compat.v1.train:Optimizer"
_SAVER = "tensorflow.compat.v1.train:Saver"
_EAGER = "tensorflow.python.framework.ops:EagerTensor"
_LEGACY = "tf_keras.optimizers.legacy:Optimizer"
_NEW = "tf_keras.optimizers:Optimizer"
_KERAS_3 = "keras.optimizers:Optimizer"
_REWRITE = "tensorflow.python.training.experimental.mixed_precision_global_state"
_WRAPPED = "tensorflow.python.util.module_wrapper:TFModuleWrapper"

_NO_PARTS = "tf.train.Checkpoint neither writes nor restores the wrapped optimizer's parts. Save opt.state_dict()"
_NO_NAMES = "tf.compat.v1.train.Saver does not find state under names of other releases"
_SLOWLY = "a training step in eager mode takes longer"
_SCALE_NOT_CONVERTED = "convert_state does not read the loss scale of such a wrapper"
_NOT_CONVERTED = "training goes on as before, but convert_state cannot read or set such an optimizer's state"

# Trackable objects.
TRACKABLE = Private(_INTERNAL_TRACKING, "Trackable", "its place is taken by the base of tf.Module")
WRAP = Private(_INTERNAL_TRACKING, "wrap", "checkpoints of wrappers over Keras 3 lack their list of variables")
TRACK = Private(
    f"{_INTERNAL_TRACKING}:Trackable",
    "_track_trackable",
    "tf.train.Checkpoint does not hold the loss scale. Save opt.state_dict()",
)
CHILDREN = Private(f"{_INTERNAL_TRACKING}:Trackable", "_trackable_children", _NO_PARTS)
LOOKUP = Private(f"{_INTERNAL_TRACKING}:Trackable", "_lookup_dependency", _NO_PARTS)
DEFERRED = Private(
    f"{_INTERNAL_TRACKING}:Trackable",
    "_deferred_dependencies",
    "variables that are created after tf.train.Checkpoint.restore are not restored",
)
V1_SLOT = Private(
    _V1_OPTIMIZER, "_create_or_restore_slot_variable", "tf.train.Checkpoint does not restore slots through a wrapper"
)

HANDLE_DEFERRED = Private(
    f"{_INTERNAL_TRACKING}:Trackable",
    "_handle_deferred_dependencies",
    "a loss scale that is used first after tf.train.Checkpoint.restore is not restored. Use it once before",
)

# Loss scales of TensorFlow itself.
_SCALES = "tensorflow.compat.v1.mixed_precision"
FIXED_VALUE = Private(f"{_SCALES}:FixedLossScale", "_loss_scale_value", "mpls reads get_config() in its place")
SCALE, GOOD_STEPS = (
    Private(f"{_SCALES}:DynamicLossScale", name, "opt.dynamic_counter is None, and convert_state starts a scale anew")
    for name in ("_current_loss_scale", "_num_good_steps")
)
SCALE_WEIGHTS = Private(f"{_SCALES}:LossScale", "_weights", "its variables are to be initialized by the program")

# Graphs, ops and tensors.
GRAPH_KEY = Private("tensorflow:Graph", "_graph_key", "what belongs to a graph is kept under a key of mpls")
XLA_CONTEXT = Private(
    "tensorflow.python.ops.control_flow_util",
    "GraphOrParentsInXlaContext",
    "every graph is built as if XLA compiled it, and may run slower",
)
IS_RECORDING = Private("tensorflow.python.eager.record", "could_possibly_record", _SLOWLY)
EAGER_TENSOR = Private("tensorflow.__internal__", "EagerTensor", "its place is taken by the class of tf.constant(0)")
ELEMENTS = Private(_EAGER, "_num_elements", _SLOWLY)
DATATYPE = Private(_EAGER, "_datatype_enum", _SLOWLY)
SHAPE = Private(_EAGER, "_shape_tuple", _SLOWLY)
BARRIER = Private(
    "tensorflow.compiler.tf2xla.ops.gen_xla_ops",
    "xla_optimization_barrier",
    "steps that XLA compiles copy the variables and take longer",
)
NO_MERGE_CALL = Private(
    "tensorflow.__internal__.distribute",
    "strategy_supports_no_merge_call",
    "replicas meet in merge_call, which functions that XLA compiles for several GPUs do not allow",
)
VARIABLE_ID = Private("tensorflow:Variable", "_unique_id", _SLOWLY)

# Modules, and modes of TensorFlow.
KEEP, DROP, KEEPS = (
    Private(_WRAPPED, name, "names that install(replace_existing=True) replaces may be read as TensorFlow's own")
    for name in ("_fastdict_insert", "_fastdict_pop", "_fastdict_key_in")
)
INNER_MODULE = Private(_WRAPPED, "_tfmw_wrapped_module", "install() does not reach names in such a module")
IS_LOADED = Private(
    "tensorflow.python.util.lazy_loader:KerasLazyLoader",
    "_tfll_initialized",
    "mpls takes the Keras of tf.keras to be the one that TF_USE_LEGACY_KERAS says",
)
IS_TF2 = Private("tensorflow.python.tf2", "enabled", "install(v1=True) tells TF 1 from TF 2 by eager execution alone")
MODE, EAGER_MODE = (
    Private(
        "tensorflow.python.eager.context",
        name,
        "install(v1=True) asks tf.compat.v1.executing_eagerly_outside_functions() in its place",
    )
    for name in ("default_execution_mode", "EAGER_MODE")
)
SET_REWRITE, IS_REWRITE, HAS_OTHER_SESSION, IS_MIXED = (
    Private(_REWRITE, name, without)
    for name, without in (
        ("set_mixed_precision_graph_rewrite_enabled", "the graph rewrite runs in functions, and not in Sessions"),
        ("is_mixed_precision_graph_rewrite_enabled", "only tf.config.optimizer says whether the graph rewrite is on"),
        ("non_mixed_precision_session_created", "nobody warns of Sessions that are older than the graph rewrite"),
        (
            "is_using_mixed_precision_policy",
            "the graph rewrite and mixed policies of tf_keras do not exclude each other",
        ),
    )
)

# Saving by name.
OBJECT_KEYS = Private("tensorflow.python.training.saver", "object_graph_key_mapping", _NO_NAMES)
BULK_BUILDER = Private("tensorflow.python.training.saver", "BulkSaverBuilder", _NO_NAMES)
ADD_RESTORE = Private("tensorflow.python.training.saver:BulkSaverBuilder", "_AddRestoreOps", _NO_NAMES)
SAVEABLE, SAVE_SPEC = (
    Private("tensorflow.python.training.saving.saveable_object", name, _NO_NAMES)
    for name in ("SaveableObject", "SaveSpec")
)
SAVER_BUILD, SAVER_VARIABLES, SAVER_IS_BUILT, SAVER_BUILDER, SAVER_VERSION, SAVER_IS_EMPTY = (
    Private(_SAVER, name, _NO_NAMES)
    for name in ("_build", "_var_list", "_is_built", "_builder", "_write_version", "_is_empty")
)

# Optimizers of tf.compat.v1.train.
USE_LOCKING = Private(_V1_OPTIMIZER, "_use_locking", "wrappers have no use_locking; what they wrap keeps its own")
CREATE_SLOTS = Private(_V1_OPTIMIZER, "_create_slots", "slots are created by the first step that is applied")
NON_SLOTS = Private(_V1_OPTIMIZER, "_non_slot_dict", "Adam's powers are not found by a Saver")
V1_SCALE = Private(f"{_SCALES}:MixedPrecisionLossScaleOptimizer", "_loss_scale", "LossScaleHook takes no such wrapper")
SYNC_INNER = Private(
    "tensorflow.compat.v1.train:SyncReplicasOptimizer",
    "_opt",
    "a dynamic loss scale cannot go around a SyncReplicasOptimizer. Put it inside: "
    "SyncReplicasOptimizer(MixedPrecisionLossScaleOptimizer(opt, 'dynamic'), ...)",
)

# Legacy optimizers of tf_keras.
_CREATED_LATER = "slots are created by the first step that is applied"
_HANDED_ON = "a wrapper has no such method to hand on"
WRAPPERS, WRAPPERS_OVER_NEW = (
    Private(
        "tf_keras.src.mixed_precision.loss_scale_optimizer",
        name,
        "wrappers over optimizers of tf_keras cannot be made. Use Keras 3, whose optimizers mpls wraps too",
    )
    for name in ("LossScaleOptimizer", "LossScaleOptimizerV3")
)
TF_KERAS_SCALE = Private("tf_keras.mixed_precision:LossScaleOptimizer", "_loss_scale", _SCALE_NOT_CONVERTED)
SUM_OF_KERAS = Private(
    "tf_keras.src.optimizers.utils", "all_reduce_sum_gradients", "replicas compare their gradients in each step"
)
COMPUTE_GRADIENTS = Private(_LEGACY, "_compute_gradients", _HANDED_ON)
TRANSFORM = Private(_LEGACY, "_transform_unaggregated_gradients", "gradients are summed over replicas as they are")
AGGREGATE = Private(
    _LEGACY,
    "_aggregate_gradients",
    "gradients cannot be summed over replicas. Sum them, and pass experimental_aggregate_gradients=False",
)
CREATE_WEIGHTS = Private(_LEGACY, "_create_all_weights", _CREATED_LATER)
GET_HYPER, SET_HYPER, DECAYED_RATE, RESTORE_SLOT = (
    Private(_LEGACY, name, _HANDED_ON) for name in ("_get_hyper", "_set_hyper", "_decayed_lr", "_restore_slot_variable")
)
LEGACY_SLOT = Private(
    _LEGACY, "_create_or_restore_slot_variable", "tf.train.Checkpoint does not restore slots through a wrapper"
)
HYPER = Private(_LEGACY, "_hyper", "settings are read and set on opt.inner_optimizer, and no longer on the wrapper")
LEGACY_NAME = Private(_LEGACY, "_name", "variables of the wrapped optimizer are named by its class")
LEGACY_SLOTS, WEIGHTS, LEGACY_STEPS = (
    Private(_LEGACY, name, _NOT_CONVERTED) for name in ("_slots", "_weights", "_iterations")
)
HAS_HYPERS = Private(_LEGACY, "_hypers_created", "an SGD without momentum is taken for one that has no variables yet")
MOMENTUM = Private("tf_keras.optimizers.legacy:SGD", "_momentum", "an SGD is taken for one with momentum")

# New optimizers of tf_keras.
NEW_SLOT = Private(
    _NEW, "_create_or_restore_slot_variable", "tf.train.Checkpoint does not restore slots through a wrapper"
)
INDEX, VARIABLE_KEY, NEW_STEPS, NEW_RATE = (
    Private(_NEW, name, _NOT_CONVERTED) for name in ("_index_dict", "_var_key", "_iterations", "_learning_rate")
)
COMPUTE_RATE = Private(
    _NEW, "_compute_current_learning_rate", "after convert_state, opt.learning_rate is that of the next step"
)
U_PRODUCT = Private("tf_keras.optimizers:Nadam", "_u_product", "convert_state knows no Nadam, and can convert none")
U_COUNTER = Private(
    "tf_keras.optimizers:Nadam", "_u_product_counter", "after convert_state, the first step of a Nadam is not exact"
)

# tf_keras elsewhere.
_UNINITIALIZED = "in graphs of tf_keras, run tf.compat.v1.global_variables_initializer() in its session"
TRACK_VARIABLE = Private("tf_keras.src.backend", "track_variable", _UNINITIALIZED)
GET_SESSION = Private("tf_keras.src.backend", "get_session", "state_dict(session) needs its argument in a graph")
_COMPILE = "compile does not wrap the optimizers of models with an experimental policy. Wrap them yourself"
TF_KERAS_COMPILE = Private("tf_keras.src.engine.training:Model", "_get_optimizer", _COMPILE)
TF_KERAS_COMPILE_V1 = Private("tf_keras.src.engine.training_v1:Model", "_set_optimizer", _COMPILE)
_NOT_RECOMPILED = "files of models that mpls.keras.load_model has loaded lack the loss scale"
TF_KERAS_COMPILED = Private("tf_keras:Model", "_compile_config", _NOT_RECOMPILED)
# The functions that write an optimizer's config or variables into files; mpls looks for them on the stack.
_NO_STATE = "files of models lack the loss scale and its counter. Save opt.state_dict() too"
TF_KERAS_H5_WRITER = Private("tf_keras.src.saving.legacy.saving_utils", "model_metadata", _NO_STATE)
BUILTIN_LAYER = Private(
    "tf_keras.src.layers.serialization", "get_builtin_layer", "SavedModels with layers are refused by load_model"
)
METRICS = Private("tf_keras.src", "metrics", "SavedModels with metrics are refused by load_model")

# Keras 3.
_FAILS_LATER = "variables that the optimizer does not know are refused by Keras, after the loss scale was updated"
TRAINABLE, KERAS_3_STEPS = (
    Private(_KERAS_3, name, "wrappers over optimizers of Keras 3 cannot train. Use keras.optimizers.LossScaleOptimizer")
    for name in ("_trainable_variables", "_iterations")
)
OWN_VARIABLES = Private(_KERAS_3, "_variables", "files hold no variables of the wrapper. Save opt.state_dict() too")
AVERAGES = Private(_KERAS_3, "_model_variables_moving_average", "averages of weights start at 0 after a skipped step")
INDICES = Private(_KERAS_3, "_trainable_variables_indices", _FAILS_LATER)
KERAS_3_KEY = Private(_KERAS_3, "_var_key", _FAILS_LATER)
VARIABLE_INDEX, KERAS_3_RATE = (
    Private(_KERAS_3, name, _NOT_CONVERTED) for name in ("_get_variable_index", "_learning_rate")
)
UNPICKLE = Private("keras:optimizers.Optimizer", "_unpickle_model", "pickled wrappers cannot be read. Save the model")
KERAS_3_COMPILED = Private("keras:Model", "_compile_config", _NOT_RECOMPILED)
KERAS_3_H5_WRITER = Private("keras.src.legacy.saving.saving_utils", "model_metadata", _NO_STATE)
KERAS_3_JSON_WRITER = Private("keras.src.saving.saving_lib", "_serialize_model_as_json", _NO_STATE)
KERAS_3_H5_VARIABLES = Private(
    "keras.src.legacy.saving.legacy_h5_format",
    "save_optimizer_weights_to_hdf5_group",
    "H5 files of models with a fixed loss scale load only where mpls is",
)
COMPILING = Private("keras.src.trainers.trainer", "Trainer", _COMPILE)
KERAS_NAMES = Private(
    "keras.src.api_export",
    "REGISTERED_OBJS_TO_NAMES",
    "files of models with an mpls.keras.Policy load only where mpls is",
)
GLOBAL_STATE = Private(
    "keras.src.backend.common.global_state",
    "get_global_attribute",
    "the graph rewrite and a mixed policy of Keras 3 do not exclude each other",
)
H5_LOADER = Private(
    "keras.src.legacy.saving.legacy_h5_format",
    "load_model_from_hdf5",
    "mpls.keras.load_model opens H5 files of Keras 3 a second time",
)
NATIVE_3 = Private(
    "keras.src.optimizers.loss_scale_optimizer",
    "LossScaleOptimizer",
    "only mpls.keras.load_model gives wrappers of mpls for files of Keras 3 that mpls has written",
)


_NOT_LOOKED_AT = (
    "checkpoints are restored as TensorFlow does, and not looked at before. Call `mpls inspect PATH` before"
)
_FUNCTION = "_queue_children_for_restoration"
_RESTORE = "tensorflow.python.checkpoint.restore"
_POSITION = f"{_RESTORE}:CheckpointPosition"
# Each restore has an object of this class.
_RUN = "tensorflow.python.checkpoint.checkpoint:_CheckpointRestoreCoordinator"

# The function that pairs an object with a place in the checkpoint, and its argument for the place.
PAIRING = Private(_RESTORE, _FUNCTION, _NOT_LOOKED_AT)
PLACE = Private(f"{_RESTORE}:{_FUNCTION}", "checkpoint_position", _NOT_LOOKED_AT)
RUN, NODE, PAIRED = (Private(_POSITION, name, _NOT_LOOKED_AT) for name in ("checkpoint", "proto_id", "trackable"))
PATH, GRAPH = (Private(_RUN, name, _NOT_LOOKED_AT) for name in ("save_path_string", "object_graph_proto"))
_NO_SLOTS = "slots that are restored before their optimizer are not looked at before. Call `mpls inspect PATH` before"
CHILD = Private(_POSITION, "create_child_position", _NO_SLOTS)
ALL_PAIRED = Private(
    _RUN,
    "object_by_proto_id",
    f"a loss scale that is shared on one side only is restored without a warning, and {_NO_SLOTS}",
)
TOUCHED = Private(
    _RUN,
    "all_python_objects",
    "after a checkpoint is refused, variables that are created later may still get their values from it. "
    "Create the objects anew",
)


ROWS: dict[str, Private] = {name: each for name, each in vars().items() if isinstance(each, Private)}
