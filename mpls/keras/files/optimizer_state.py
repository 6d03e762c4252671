"""Restoring the optimizer of a model that a framework has loaded, with all state that the file holds."""

from __future__ import annotations

import io
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import tensorflow as tf

from mpls.errors import MplsWarning, SavedStateError, error_text, warn_user
from mpls.formats.algorithms import state_of
from mpls.formats.file_kinds import COMPILE_CONFIG, LEGACY_WEIGHTS, OPTIMIZER_WEIGHTS
from mpls.formats.record import FileRecord, OptimizerRecord
from mpls.formats.validity import ANCHOR
from mpls.formats.wrapper_state import inner_key, is_of_keras_3
from mpls.keras.optimizer import LossScaleOptimizer
from mpls.saved.containers import in_order
from mpls.saved.model_files import H5Model, ModelFile
from mpls.transfer.load import load_record
from mpls.transfer.scales import plan_scale, set_scale
from mpls.transfer.transfer_report import Plan
from mpls.upstream.keras_packages import keras_family_of, loaded_tf_keras, replace_optimizer
from mpls.upstream.optimizers import create_weights, mark_as_wrapped


def restore_optimizer(model: Any, file: ModelFile, record: FileRecord, custom_objects: dict[str, Any]) -> None:
    """Replace a native wrapper by one of mpls, or by the bare optimizer of the file, and load the file's state into it.

    Whether `compile` wraps depends on the policy at that time, which may be another than when the model was saved. It
    warns of state that the file does not hold.

    Args:
        model: the model, as its framework has loaded it.
        file: the file.
        record: the record of the file.
        custom_objects: classes of the user by name.

    Raises:
        SavedStateError: the state does not fit the optimizer.
    """
    optimizer = getattr(model, "optimizer", None)
    found = _record_of(record)
    if optimizer is None or found is None:
        return
    wanted = _wrapped(optimizer, found, file, custom_objects)
    is_replaced = wanted is not optimizer
    if is_replaced:
        replace_optimizer(model, wanted)
    # Free a native wrapper and its slots before another optimizer is built.
    del optimizer
    missing: list[str] = []
    if file.legacy_weights is not None and keras_family_of(getattr(wanted, "inner_optimizer", wanted)) == "legacy":
        _set_legacy_weights(wanted, file, model.trainable_variables)
    elif _says_nothing(found):
        # The .keras files of tf_keras do not hold this state of a legacy optimizer. If it is not in another file, the
        # optimizer had no state yet.
        if file.format == ".keras" and found.family == "legacy":
            missing.append("the optimizer's iterations and slots")
    elif is_replaced and file.format == ".keras" and state_of(found.algorithm) is None:
        # The file does not name the slots of a class of the user. tf_keras has loaded them.
        set_scale(wanted, plan_scale(found, wanted, Plan(), found.key))
    elif _is_to_be_loaded(found) or is_replaced or not _keeps_optimizers(file):
        _load(found, wanted, file, model.trainable_variables)
    if found.loss_scale is not None and found.loss_scale.dynamic and found.loss_scale.scale is None:
        missing.append("the current loss scale and its counter")
    if missing:
        _say_what_is_missing(file.path, missing)


def _record_of(record: FileRecord) -> OptimizerRecord | None:
    """Return the optimizer with the shortest key: the model's own. Layers and nested models may have others."""
    return min(record.optimizers, key=lambda each: (each.key.count("/"), len(each.key)), default=None)


def _with_scale(record: OptimizerRecord, optimizer: Any) -> OptimizerRecord:
    """Return the record, with the optimizer's own scale if the file holds none.

    Otherwise `load_record` would warn of the missing scale, as `restore_optimizer` does.
    """
    scale = record.loss_scale
    if scale is None or not scale.dynamic or scale.scale is not None or not getattr(optimizer, "dynamic", False):
        return record
    current = replace(scale, scale=float(optimizer.loss_scale), good_steps=int(optimizer.dynamic_counter))
    return replace(record, loss_scale=current)


def _says_nothing(record: OptimizerRecord) -> bool:
    return not record.iterations and not record.others and not any(each.slots for each in record.variables)


def _is_to_be_loaded(record: OptimizerRecord) -> bool:
    # Leave an algorithm that mpls does not know, and a v1 graph, to the framework if it restores them itself.
    return state_of(record.algorithm) is not None and tf.executing_eagerly()


def _keeps_optimizers(file: ModelFile) -> bool:
    """Return whether the framework's own loader restores optimizers of any class from the file."""
    return file.format == ".keras" or (file.format == "H5" and file.framework == "tf_keras")


def _wrapped(optimizer: Any, record: OptimizerRecord, file: ModelFile, custom_objects: dict[str, Any]) -> Any:
    if LossScaleOptimizer in type(optimizer).__mro__:
        return optimizer
    if isinstance(optimizer, LossScaleOptimizer):
        # The `.keras` files of tf_keras do not say whether a legacy optimizer had a wrapper.
        is_known = file.format != ".keras" or record.family != "legacy"
        if record.loss_scale is None and is_known:
            return _bare(optimizer)
        return _in_place_of_native(optimizer, record, custom_objects)
    if record.loss_scale is None:
        return optimizer
    # `compile` had wrapped the optimizer, under a policy that is not set now. The config does not say so.
    scale = record.loss_scale
    settings: dict[str, Any] = {"initial_scale": scale.initial_scale, "dynamic_growth_steps": scale.growth_steps}
    if not scale.dynamic:
        settings = {"dynamic": False, "initial_scale": scale.scale}
    return LossScaleOptimizer(optimizer, **{key: value for key, value in settings.items() if value is not None})


def _bare(native: Any) -> Any:
    """Return the optimizer in a wrapper that `compile` has made, under a policy that was not set before."""
    inner = native.inner_optimizer
    mark_as_wrapped(inner, False)
    return inner


def _in_place_of_native(native: Any, record: OptimizerRecord, custom_objects: dict[str, Any]) -> Any:
    config = native.get_config()
    key = inner_key(config)
    if is_of_keras_3(config, config[key]):
        # Its inner optimizer may get a second wrapper, and keeps the state that Keras has loaded.
        config[key] = native.inner_optimizer
    elif state_of(record.algorithm) is None:
        config[key] = _bare(native)
    return LossScaleOptimizer.from_config(config, custom_objects)


def _set_legacy_weights(optimizer: Any, file: ModelFile, variables: list[Any]) -> None:
    """Set the weights of a legacy optimizer that `mpls.keras.save_model` has added to a `.keras` file.

    Raises:
        SavedStateError: they are not the iterations and slots of this optimizer.
    """
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    arrays = file.legacy_weights or {}
    weights = list(in_order(f"{file.path}/{LEGACY_WEIGHTS}", arrays).values())
    if not weights:
        return
    create_weights(inner, variables)
    wanted, given = ([tuple(each.shape) for each in values] for values in (inner.weights, weights))
    if wanted != given or weights[0].dtype.kind not in "iu" or weights[0] < 0:
        constraint = f"hold the iterations, and arrays of the shapes {wanted[1:]}"
        raise _of_another_optimizer(f"{file.path}: {LEGACY_WEIGHTS}", constraint, given)
    # The same as `set_weights`, which would copy the current values first.
    import_module("tf_keras").backend.batch_set_value(list(zip(inner.weights, weights, strict=True)))


def _load(record: OptimizerRecord, optimizer: Any, file: ModelFile, variables: list[Any]) -> None:
    if isinstance(file, H5Model) and record.family == "keras3" and state_of(record.algorithm) is None:
        _set_in_order(optimizer, file, variables)
        return
    subject, goes_by_order = f"{file.path}: {record.key}", file.format == ".keras"
    record = _with_scale(record, optimizer)
    load_record(record, optimizer, variables, subject=subject, goes_by_order=goes_by_order)


def _set_in_order(optimizer: Any, file: H5Model, variables: list[Any]) -> None:
    """Set the variables of a Keras 3 optimizer of a class that mpls does not know: Keras saves them in their order.

    Raises:
        SavedStateError: they are not the variables of this optimizer.
    """
    if not optimizer.built:
        optimizer.build(variables)
    names = file.content.names(OPTIMIZER_WEIGHTS, "weight_names")
    arrays = [file.content.array(f"{OPTIMIZER_WEIGHTS}/{name}") for name in names]
    wanted, given = ([tuple(each.shape) for each in values] for values in (optimizer.variables, arrays))
    if wanted != given:
        constraint = f"hold arrays of the shapes {wanted}"
        raise _of_another_optimizer(f"{file.path}: {OPTIMIZER_WEIGHTS}", constraint, given)
    for variable, array in zip(optimizer.variables, arrays, strict=True):
        variable.assign(np.asarray(array))


def _of_another_optimizer(subject: str, constraint: str, given: list[Any]) -> SavedStateError:
    advice = "Use an earlier file, or mpls.keras.load_model(path, compile=False)"
    return SavedStateError(error_text(subject, constraint, given, advice, ANCHOR))


def _say_what_is_missing(path: str, missing: list[str]) -> None:
    warn_user(
        f"mpls.keras.load_model: {path} does not hold {', nor '.join(missing)}, so training goes on with new ones. "
        "Files that mpls.keras.save_model writes hold them. See mpls docs my-checkpoints",
        MplsWarning,
    )


def warn_of_default_optimizer(model: Any, file: ModelFile, record: FileRecord) -> None:
    """Warn if a file has the variables of an optimizer and no config, so that Keras took its default optimizer."""
    optimizer = getattr(model, "optimizer", None)
    # A `get_compile_config` of the user's may have other settings, from which the model makes its optimizer.
    if optimizer is None or not record.optimizers or "loss" not in (file.configs[COMPILE_CONFIG] or ()):
        return
    warn_user(
        f"mpls.keras.load_model: {file.path} has the variables of an optimizer, but not its config, so the model has "
        f"Keras' default optimizer, {type(optimizer).__name__}. Keras 3 writes such files of a model that it saved as "
        "H5 before; mpls.keras.save_model does not. Compile the model with its optimizer, and call "
        "model.optimizer.build(model.trainable_variables) and model.load_weights(path). See mpls docs my-checkpoints",
        MplsWarning,
    )


def legacy_weights(optimizer: Any) -> bytes | None:
    """Return the weights of a legacy optimizer of tf_keras as the bytes of an `.npz` file; None for other optimizers.

    The file has no arrays if the optimizer has no weights yet.
    """
    tf_keras = loaded_tf_keras()
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    if tf_keras is None or not isinstance(inner, tf_keras.optimizers.legacy.Optimizer):
        return None
    stream = io.BytesIO()
    np.savez(stream, *inner.get_weights())
    return stream.getvalue()
