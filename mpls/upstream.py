"""What mpls knows of particular TensorFlow and Keras releases: only this module and `upstream_saving` ask for it.

Presence is probed, never inferred from a version number. Each fact says which upstream change it follows.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import tensorflow as tf

from mpls.formats.record import Family
from mpls.importing.keras2 import VARIABLE, is_keras_2

__all__ = [
    "NATIVE_WRAPPERS_OF_KERAS",
    "NATIVE_WRAPPERS_OF_TF_KERAS",
    "Trackable",
    "captured",
    "chosen_keras",
    "compile_hooks",
    "compile_settings_kept",
    "elements_of",
    "first_control_flow_conditional",
    "graph_key",
    "graph_rewrite_state",
    "has_session_without_rewrite",
    "hidden_from_xla",
    "is_compiled_by_xla",
    "is_dtensor_strategy_set",
    "is_graph_rewrite_enabled",
    "is_graph_rewrite_set_by_mpls",
    "is_mixed_policy_set",
    "is_recorded",
    "keras_graph_session",
    "kinds_of",
    "loaded_keras",
    "loaded_tf_keras",
    "native_keras_wrappers",
    "native_policies",
    "native_tf_keras_wrapper",
    "native_v1_class",
    "quick_call",
    "replace_optimizer",
    "restore_graph_rewrite",
    "runs_with_dtensor",
    "serialize_as_keras_policy",
    "set_graph_rewrite_enabled",
    "strategy_needs_no_merge_call",
    "tensorflow_keras",
    "track_in_keras_graph",
    "track_list",
    "unknown_variables",
]

Trackable: Any = tf.__internal__.tracking.Trackable


def native_v1_class(name: str) -> Any:
    """Return TensorFlow's own class of that name, to be recognised as an instance of it.

    Every release up to 2.21 still has `tf.compat.v1.mixed_precision`; one that drops it leaves None.
    """
    return getattr(getattr(tf.compat.v1, "mixed_precision", None), name, None)


def graph_key() -> str | None:
    """Return the key under which TensorFlow files per-graph state; None in eager mode.

    Seen from inside a `tf.function` or a branch it is the key of the outermost graph, where variables live.
    """
    if tf.executing_eagerly():
        return None
    with tf.init_scope():
        if tf.executing_eagerly():
            return None
        # Trackable state of v1 graphs is filed under this name since TensorFlow 1.9; there is no public spelling.
        return str(tf.compat.v1.get_default_graph()._graph_key)


def is_compiled_by_xla() -> bool:
    """Return whether the graph that is being built will be compiled by XLA, or is part of one that will be.

    TensorFlow marks such graphs by their control-flow contexts (TensorFlow 1.14 to 2.21).
    """
    if tf.executing_eagerly():
        return False
    from tensorflow.python.ops import control_flow_util

    return bool(control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph()))


def first_control_flow_conditional(
    condition: Any, if_true: Callable[[], Any], if_false: Callable[[], Any], name: str | None
) -> Any:
    """Do what `tf.cond` does with TensorFlow's first control flow, whatever the process uses (TF 1.14 to 2.21).

    To switch it for a moment would switch it for all threads.

    Args:
        condition: scalar boolean tensor of a graph.
        if_true: returns an op, or tensors.
        if_false: the same.
        name: name of the conditional; by default that of `tf.cond`.

    Returns:
        An op that does it, or the tensors.
    """
    from tensorflow.python.ops import control_flow_ops

    with tf.name_scope(name or "cond"):
        # Ops without inputs wait for an identity, which runs in its branch only; the switch itself always does.
        switched = control_flow_ops.switch(condition, condition)
        pivots = [tf.identity(each, name=name) for each, name in zip(switched, ("switch_f", "switch_t"), strict=True)]
        predicate = tf.identity(condition, name="pred_id")
        results = []
        for branch, build in enumerate((if_false, if_true)):
            context = control_flow_ops.CondContext(predicate, pivots[branch], branch)
            context.Enter()
            try:
                result, flat = context.BuildCondBranch(build)
            finally:
                context.Exit()
            context.ExitResult(flat)
            results.append((result, flat))
            tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.COND_CONTEXT, context)
        (_, of_false), (result, of_true) = results
        merged = [control_flow_ops.merge(list(pair))[0] for pair in zip(of_false, of_true, strict=True)]
        if isinstance(result, tf.Operation):
            return tf.group(*merged)
        return tf.nest.pack_sequence_as(result, merged)


def is_recorded() -> bool:
    """Return whether a gradient tape or a forward accumulator watches the ops of this thread (TF 2.13 to 2.21)."""
    from tensorflow.python.eager import record

    return bool(record.could_possibly_record())


def elements_of(tensor: Any) -> int:
    """Return the number of elements of an eager tensor, without making an object of its shape (TF 2.0 to 2.21)."""
    elements: int = tensor._num_elements()
    return elements


def kinds_of(tensors: list[Any], varying: Sequence[int] = ()) -> tuple[tuple[int, tuple[int, ...] | None], ...]:
    """Return what tells eager tensors from those that another function is needed for: their dtypes and shapes.

    The public attributes make objects of them, which takes longer than an op on the tensor (TF 2.0 to 2.21).

    Args:
        tensors: the tensors.
        varying: places of tensors whose shapes do not matter.
    """
    kinds = [(tensor._datatype_enum(), tensor._shape_tuple()) for tensor in tensors]
    for place in varying:
        kinds[place] = kinds[place][0], None
    return tuple(kinds)


def quick_call(function: Any) -> Callable[[list[Any]], list[Any]]:
    """Return what calls a concrete function of eager tensors, without what its own call does for tapes and names."""
    outputs = [tensor.dtype for tensor in function.outputs]
    return lambda tensors: list(tf.raw_ops.PartitionedCall(args=tensors, Tout=outputs, f=function))


def captured(tensors: list[Any]) -> list[Any]:
    """Return tensors as they are in the graph that is being built, where that is a function's or a branch's."""
    graph = tf.compat.v1.get_default_graph()
    return [graph.capture(tensor) for tensor in tensors] if hasattr(graph, "capture") else list(tensors)


def hidden_from_xla(tensor: Any) -> Any:
    """Return a tensor into whose origin XLA does not look; for graphs that it compiles (TF 2.12 to 2.21)."""
    from tensorflow.compiler.tf2xla.ops import gen_xla_ops

    return gen_xla_ops.xla_optimization_barrier([tensor])[0]


def loaded_tf_keras() -> ModuleType | None:
    """Return tf_keras if the process has loaded it: without it, nothing can be an instance of its classes."""
    return sys.modules.get("tf_keras")


def loaded_keras() -> ModuleType | None:
    """Return Keras 3 if the process has loaded it."""
    module = sys.modules.get("keras")
    return module if module is not None and hasattr(module, "version") else None


def is_sum_of_keras(aggregator: Any) -> bool:
    """Return whether a legacy optimizer's aggregator is the default one, which has no public name (Keras 2.4 on)."""
    from tf_keras.src.optimizers import utils

    return aggregator is utils.all_reduce_sum_gradients


def tensorflow_keras() -> ModuleType:
    """Return what `tf.keras` is, tf_keras or Keras 3; it is loaded with TensorFlow, or now."""
    is_legacy = tf.keras.Model.__module__.partition(".")[0] == "tf_keras"
    return sys.modules["tf_keras" if is_legacy else "keras"]


def chosen_keras() -> int:
    """Return which Keras `tf.keras` is, 2 or 3, without loading it.

    TensorFlow (2.16 to 2.21) chooses by the environment when `tf.keras` is first used.
    """
    loader = vars(tf)["keras"]
    if vars(loader).get("_tfll_initialized", True):
        return 2 if vars(loader)["__name__"].partition(".")[0] == "tf_keras" else 3
    return 2 if is_keras_2(os.environ.get(VARIABLE)) else 3


def native_tf_keras_wrapper(name: str) -> Any:
    """Return a class of tf_keras' loss-scale module; only its base class has a public name.

    tf_keras tests for the base class in `Model.compile`, for the concrete legacy class in its v1 training code, and for
    the other concrete class where it turns new optimizers into legacy ones (Keras 2.9, tf_keras 2.16 to 2.21).
    """
    from tf_keras.src.mixed_precision import loss_scale_optimizer

    return getattr(loss_scale_optimizer, name)


# Where the classes are whose `from_config` makes wrappers from files: tf_keras 2.16 to 2.21, over legacy optimizers the
# first, over new ones the second; Keras 3.6 to 3.15.
NATIVE_WRAPPERS_OF_TF_KERAS = (
    "tf_keras.src.mixed_precision.loss_scale_optimizer",
    ("LossScaleOptimizer", "LossScaleOptimizerV3"),
)
NATIVE_WRAPPERS_OF_KERAS = ("keras.src.optimizers.loss_scale_optimizer", ("LossScaleOptimizer",))


def keras_family_of(optimizer: Any) -> Family | None:
    """Return the family of an optimizer, `'legacy'`, `'new'` or `'keras3'`, by its bases; None for anything else."""
    # Without its framework loaded, there can be no instance of a class.
    tf_keras, keras = loaded_tf_keras(), loaded_keras()
    if tf_keras is not None and isinstance(optimizer, tf_keras.optimizers.legacy.Optimizer):
        return "legacy"
    if tf_keras is not None and isinstance(optimizer, tf_keras.optimizers.Optimizer):
        return "new"
    if keras is not None and isinstance(optimizer, keras.optimizers.Optimizer):
        return "keras3"
    return None


def native_keras_wrappers() -> tuple[type, ...]:
    """Return the loss-scale wrappers of tf_keras and Keras 3, of those that the process has loaded."""
    tf_keras, keras = loaded_tf_keras(), loaded_keras()
    wrappers = []
    if tf_keras is not None:
        wrappers.append(tf_keras.mixed_precision.LossScaleOptimizer)
    if keras is not None:
        wrappers.append(keras.optimizers.LossScaleOptimizer)
    return tuple(wrappers)


def native_policies() -> tuple[type, ...]:
    """Return the classes of dtype policies of tf_keras and Keras 3, of those that the process has loaded."""
    tf_keras, keras = loaded_tf_keras(), loaded_keras()
    classes = []
    if tf_keras is not None:
        classes.append(tf_keras.mixed_precision.Policy)
    if keras is not None:
        classes.append(keras.DTypePolicy)
    return tuple(classes)


def serialize_as_keras_policy(cls: type) -> None:
    """Have files of Keras 3 name its own policy instead of a class of ours, so that it loads them without mpls.

    Layers need only the name of a policy that is loaded (Keras 3.6 to 3.15). tf_keras goes by the name of the class.
    """
    if loaded_keras() is not None:
        from keras.src import api_export

        api_export.REGISTERED_OBJS_TO_NAMES[cls] = "keras.DTypePolicy"


def compile_hooks() -> list[tuple[type, str]]:
    """Return the methods in which `compile` wraps optimizers, with their classes, of each Keras that is loaded.

    tf_keras has one for v1 graph mode (Keras 2.4, tf_keras 2.16 to 2.21). In Keras 3 it is `compile` itself.
    """
    hooks: list[tuple[type, str]] = []
    if loaded_tf_keras() is not None:
        from tf_keras.src.engine import training, training_v1

        hooks += [(training.Model, "_get_optimizer"), (training_v1.Model, "_set_optimizer")]
    if loaded_keras() is not None:
        from keras.src.trainers.trainer import Trainer

        hooks.append((Trainer, "compile"))
    return hooks


@contextmanager
def compile_settings_kept(model: Any) -> Iterator[None]:
    """Keep what a model was compiled with while it is saved.

    Keras 3 (3.6 to 3.15) takes the optimizer out of it when it writes an H5 file, and so leaves it out of what it saves
    of the model later.
    """
    held = getattr(model, "_compile_config", None)
    before = None if held is None else dict(held.config)
    try:
        yield
    finally:
        if held is not None:
            held.config = before


def replace_optimizer(model: Any, optimizer: Any) -> None:
    """Put an optimizer in the place of the one that a model was compiled with, also for when it is saved.

    `compile` sets the attribute itself (tf_keras 2.16 to 2.21, Keras 3.6 to 3.15), and writes the config of what it was
    given.
    """
    model.optimizer = optimizer
    held = getattr(model, "_compile_config", None)
    if held is not None:
        held.config["optimizer"] = optimizer


def unknown_variables(optimizer: Any, variables: list[Any]) -> list[Any]:
    """Return the variables that a Keras 3 optimizer was not built with; it refuses them when it applies gradients.

    Its own check tells by a ValueError, whose text cannot be made inside of a function before Keras 3.13.
    """
    return [each for each in variables if optimizer._var_key(each) not in optimizer._trainable_variables_indices]


def track_list(owner: Any, name: str, values: list[Any]) -> None:
    """Set a list attribute that object-based checkpoints see, past whatever else the owner's class does with it."""
    wrapped = tf.__internal__.tracking.wrap(values)
    owner.__dict__[name] = wrapped
    owner._track_trackable(wrapped, name, overwrite=True)


def track_in_keras_graph(variable: Any) -> None:
    """Have the session of tf_keras' v1 graph mode initialize a variable; nothing to do in eager mode."""
    from tf_keras.src import backend

    backend.track_variable(variable)


def keras_graph_session() -> Any:
    """Return the session of tf_keras' v1 graph mode, in which it has initialized what it tracks."""
    from tf_keras.src import backend

    return backend.get_session()


def runs_with_dtensor(optimizer: Any) -> bool:
    """Return whether a new tf_keras optimizer works on DTensors, which are aggregated by themselves."""
    return bool(getattr(optimizer, "_run_with_dtensor", False) or getattr(optimizer, "_mesh", None))


def is_dtensor_strategy_set() -> bool:
    """Return whether the current strategy is one of DTensor's, which tf_keras supports."""
    if loaded_tf_keras() is None:
        return False
    from tf_keras.src.dtensor import utils

    return bool(utils.running_with_dtensor_strategy())


def strategy_needs_no_merge_call() -> bool:
    """Return whether the current strategy aggregates in replica context and forbids `merge_call`.

    TensorFlow 2.5 introduced it for XLA-compiled replica functions on GPUs.
    """
    return bool(tf.__internal__.distribute.strategy_supports_no_merge_call())


_REWRITE_OPTION = "auto_mixed_precision"
# What `set_graph_rewrite_enabled` has left behind last.
_rewrite_set: tuple[bool, bool | None] | None = None


def _graph_rewrite_state() -> Any:
    # Sessions read these flags when they are created (TensorFlow 1.14 to 2.21). The public spellings under
    # tf.__internal__.train can neither set the first nor read the others.
    from tensorflow.python.training.experimental import mixed_precision_global_state

    return mixed_precision_global_state


def set_graph_rewrite_enabled(enabled: bool) -> None:
    """Tell sessions and functions that are created from now on whether to run the mixed-precision graph rewrite."""
    tf.config.optimizer.set_experimental_options({_REWRITE_OPTION: enabled})
    _graph_rewrite_state().set_mixed_precision_graph_rewrite_enabled(enabled)
    global _rewrite_set
    _rewrite_set = graph_rewrite_state()


def is_graph_rewrite_enabled() -> bool:
    """Return whether the mixed-precision graph rewrite is on."""
    return bool(_graph_rewrite_state().is_mixed_precision_graph_rewrite_enabled())


def has_session_without_rewrite() -> bool:
    """Return whether a Session has been created while the graph rewrite was off."""
    return bool(_graph_rewrite_state().non_mixed_precision_session_created())


def graph_rewrite_state() -> tuple[bool, bool | None]:
    """Return the rewrite's flag, and its option in `tf.config`, which is None until it is set."""
    options = tf.config.optimizer.get_experimental_options()
    return is_graph_rewrite_enabled(), options.get(_REWRITE_OPTION)


def is_graph_rewrite_set_by_mpls() -> bool:
    """Return whether the rewrite's state is what mpls has made it, and nobody else has changed it since."""
    return graph_rewrite_state() == _rewrite_set


def restore_graph_rewrite(state: tuple[bool, bool | None]) -> None:
    """Set what `graph_rewrite_state` has returned."""
    is_enabled, option = state
    _graph_rewrite_state().set_mixed_precision_graph_rewrite_enabled(is_enabled)
    tf.config.optimizer.set_experimental_options({_REWRITE_OPTION: option})


def is_mixed_policy_set() -> bool:
    """Return whether the global dtype policy of tf_keras or Keras 3 is a mixed one."""
    if _graph_rewrite_state().is_using_mixed_precision_policy():
        return True
    if loaded_keras() is None:
        return False
    # Keras 3 does not tell TensorFlow. Its public function would fix the default policy when it is first called.
    from keras.src.backend.common import global_state

    policy = global_state.get_global_attribute("dtype_policy")
    return policy is not None and policy.compute_dtype != policy.variable_dtype
