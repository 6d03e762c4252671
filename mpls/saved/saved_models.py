"""SavedModel folders of Keras models: a checkpoint, and the settings in the metadata."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mpls.saved.bundles import Bundle
from mpls.saved.checkpoints import ObjectCheckpoint
from mpls.saved.configs import read_optimizer, with_state
from mpls.saved.files import read_bytes
from mpls.saved.graphs import GRAPH_KEY
from mpls.saved.record import FileRecord, LossScaleRecord, OptimizerRecord
from mpls.saved.texts import parse_json
from mpls.saved.validity import check_good_steps, reading_foreign_bytes
from mpls.saved.wire import as_text, fields, messages

_MODELS = ("_tf_keras_network", "_tf_keras_model", "_tf_keras_sequential")
_KEY = "training_config/optimizer_config"


def read_saved_model(path: str) -> FileRecord:
    """Read a SavedModel folder.

    Raises:
        SavedStateError: it is broken, or holds state that no optimizer can have.
    """
    graph_path = os.path.join(path, "saved_model.pb")
    content = read_bytes(graph_path, path)
    with reading_foreign_bytes(graph_path, "the graph", "be a whole SavedModel"):
        version, metadata = _graph(content)
    keras_path = os.path.join(path, "keras_metadata.pb")
    if os.path.lexists(keras_path):
        keras_content = read_bytes(keras_path, path)
        with reading_foreign_bytes(keras_path, "the metadata", "be whole"):
            metadata = _keras_metadata(keras_content)
    written_by = f"TF {version}" if version else "TF 2"
    prefix = os.path.join(path, "variables", "variables")
    if not os.path.lexists(f"{prefix}.index"):
        return FileRecord(path, "SavedModel", written_by, ())
    bundle = Bundle(prefix, path)
    records = ObjectCheckpoint(bundle).optimizers() if GRAPH_KEY in bundle else []
    described = _training_optimizer(path, metadata)
    if described is not None:
        records = [_merged(path, record, described) if record.key == "optimizer" else record for record in records]
    return FileRecord(path, "SavedModel", written_by, records)


def _graph(content: bytes) -> tuple[str, str]:
    """Return the version of TensorFlow, and the root's metadata, where releases up to 2.4 put it."""
    # All of them, to see that none is cut off.
    for meta_graph in list(messages(content, 2)):
        version = metadata = ""
        for number, value in fields(meta_graph):
            if number == 1 and not isinstance(value, int):
                version = next((as_text(each) for field, each in fields(value) if field == 5), "")
            elif number == 7 and not isinstance(value, int):
                metadata = _root_metadata(value)
        return version, metadata
    raise ValueError("it has no graph")


def _root_metadata(object_graph: memoryview) -> str:
    for node in messages(object_graph, 1):
        for user_object in messages(node, 4):
            values = dict(fields(user_object))
            if as_text(values.get(1, _EMPTY)) in _MODELS:
                return as_text(values.get(3, _EMPTY))
        return ""
    return ""


def _keras_metadata(content: bytes) -> str:
    for node in list(messages(content, 1)):
        values = dict(fields(node))
        if as_text(values.get(3, _EMPTY)) == "root" and as_text(values.get(4, _EMPTY)) in _MODELS:
            return as_text(values.get(5, _EMPTY))
    raise ValueError("it describes no model")


_EMPTY = memoryview(b"")


def _training_optimizer(path: str, metadata: str) -> OptimizerRecord | None:
    if not metadata:
        return None
    content: Any = parse_json(path, "the metadata", metadata)
    training = content.get("training_config") if isinstance(content, Mapping) else None
    config = training.get("optimizer_config") if isinstance(training, Mapping) else None
    return None if config is None else read_optimizer(path, _KEY, config).optimizer


def _merged(path: str, state: OptimizerRecord, settings: OptimizerRecord) -> OptimizerRecord:
    return replace(
        state,
        algorithm=settings.algorithm or state.algorithm,
        hyperparameters={**settings.hyperparameters, **state.hyperparameters},
        loss_scale=_merged_loss_scale(path, state.loss_scale, settings.loss_scale),
    )


def _merged_loss_scale(
    path: str, state: LossScaleRecord | None, settings: LossScaleRecord | None
) -> LossScaleRecord | None:
    if state is None or settings is None or not state.dynamic:
        return settings or state
    if state.good_steps is not None:
        check_good_steps(path, "optimizer/loss_scale/good_steps", state.good_steps, settings.growth_steps)
    return with_state(settings, state.scale, state.good_steps)
