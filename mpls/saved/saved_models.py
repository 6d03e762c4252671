"""The optimizers in SavedModel folders of Keras: their state in a checkpoint, their settings in metadata."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass, field, replace

from mpls.formats.file_kinds import (
    INDEX,
    KERAS_METADATA,
    MODEL_KINDS,
    ROOT,
    SAVED_MODEL,
    TRAINING_OPTIMIZER,
    VARIABLES,
)
from mpls.formats.object_graph import GRAPH_KEY
from mpls.formats.record import FileRecord, LossScaleRecord, OptimizerRecord
from mpls.saved.bundles import Bundle
from mpls.saved.checkpoints import ObjectCheckpoint
from mpls.saved.errors import broken, reading_foreign_bytes
from mpls.saved.files import read_bytes
from mpls.saved.messages import parse
from mpls.saved.optimizer_configs import read_optimizer, value_at, with_state
from mpls.saved.plain_numbers import good_steps_of_variable
from mpls.saved.texts import parse_json


class SavedModel:
    """A SavedModel folder, whose graph and Keras metadata the constructor parses.

    Args:
        path: the folder.
        lazily: whether arrays other than scalars are `StoredArray`s, which read the file each time that their numbers
            are needed.

    Attributes:
        path: the folder.

    Raises:
        SavedStateError: the graph or the metadata are broken.
    """

    def __init__(self, path: str, *, lazily: bool = False) -> None:
        self.path = path
        self._lazily = lazily
        self._graph = _read_graph(path)
        texts = _keras_texts(path)
        # Up to TF 2.4, Keras' metadata are in the graph.
        self._has_metadata = texts is not None
        self._texts = self._graph.texts if texts is None else texts

    def texts(self) -> dict[str, str]:
        """Return the metadata of each Keras object, a JSON text, by the object's place in the model."""
        found: dict[str, str] = {}
        for number, (key, _, text) in enumerate(self._texts):
            found[f"{key} ({number})" if key in found else key] = text
        return found

    @functools.cached_property
    def _bundle(self) -> Bundle | None:
        """Its checkpoint, None if it has none and needs none."""
        prefix = os.path.join(self.path, VARIABLES, VARIABLES)
        if not os.path.lexists(prefix + INDEX) and not self._graph.has_variables:
            return None
        return Bundle(prefix, self.path, lazily=self._lazily)

    def record(self) -> FileRecord:
        """Return a record of the folder and of its optimizers.

        Raises:
            SavedStateError: the checkpoint is broken, or the state of an optimizer is not valid.
        """
        path = self.path
        metadata = next((text for key, kind, text in self._texts if key == ROOT and kind in MODEL_KINDS), None)
        if metadata is None and self._has_metadata:
            raise broken(path, KERAS_METADATA, "be whole", "no description of a model")
        written_by = f"TF {self._graph.version}" if self._graph.version else "TF 2"
        bundle = self._bundle
        if bundle is None:
            return FileRecord(path, "SavedModel", written_by, ())
        records = ObjectCheckpoint(bundle).optimizers() if GRAPH_KEY in bundle else []
        described = _training_optimizer(path, metadata or "")
        if described is not None:
            records = [_merged(path, record, described) if record.key == "optimizer" else record for record in records]
        return FileRecord(path, "SavedModel", written_by, records)


@dataclass
class _Graph:
    """What is read of `saved_model.pb`.

    Attributes:
        version: the version of TensorFlow that wrote it.
        texts: the Keras metadata of releases up to TF 2.4, for each object: its place, its kind and a JSON text.
        has_variables: whether the folder must have a checkpoint.
    """

    version: str = ""
    texts: list[tuple[str, str, str]] = field(default_factory=list)
    has_variables: bool = False


def _read_graph(path: str) -> _Graph:
    graph_path = os.path.join(path, SAVED_MODEL)
    content = read_bytes(graph_path, path)
    with reading_foreign_bytes(graph_path, "the graph", "be a whole SavedModel"):
        graphs = parse("SavedModel", content).meta_graphs
        if not graphs:
            raise ValueError("it has no graph")
    found = _Graph(graphs[0].meta_info_def.tensorflow_version)
    for graph in graphs:
        # TF 1 writes collections. TF 2 writes a checkpoint with each object graph, even if it holds no variables.
        collections = set(graph.collection_def)
        found.has_variables |= bool(collections & {"variables", "trainable_variables"} or graph.object_graph_def.nodes)
        for number, node in enumerate(graph.object_graph_def.nodes):
            if node.user_object.identifier.startswith("_tf_keras_"):
                place = f"node {number}" if number else ROOT
                found.texts.append((place, node.user_object.identifier, node.user_object.metadata))
    return found


def _keras_texts(path: str) -> list[tuple[str, str, str]] | None:
    """Return the texts in `keras_metadata.pb`, as in `_Graph.texts`; None if the file is missing."""
    keras_path = os.path.join(path, KERAS_METADATA)
    if not os.path.lexists(keras_path):
        return None
    with reading_foreign_bytes(keras_path, "the metadata", "be whole"):
        nodes = parse("KerasMetadata", read_bytes(keras_path, path)).nodes
    return [(each.node_path or str(each.node_id), each.identifier, each.metadata) for each in nodes]


def _training_optimizer(path: str, metadata: str) -> OptimizerRecord | None:
    if not metadata:
        return None
    config = value_at(parse_json(path, "the metadata", metadata), TRAINING_OPTIMIZER)
    return None if config is None else read_optimizer(path, "/".join(TRAINING_OPTIMIZER), config).optimizer


def _merged(path: str, state: OptimizerRecord, settings: OptimizerRecord) -> OptimizerRecord:
    return replace(
        state,
        algorithm=settings.algorithm or state.algorithm,
        hyperparameters={**settings.hyperparameters, **state.hyperparameters},
        loss_scale=_merged_loss_scale(path, state.loss_scale, settings.loss_scale),
        options=settings.options,
        counts=state.counts or settings.counts,
    )


def _merged_loss_scale(
    path: str, state: LossScaleRecord | None, settings: LossScaleRecord | None
) -> LossScaleRecord | None:
    if state is None or settings is None or not state.dynamic:
        return settings or state
    if state.good_steps is not None:
        good_steps_of_variable(path, "optimizer/loss_scale/good_steps", state.good_steps, settings.growth_steps)
    merged = with_state(settings, state.scale, state.good_steps)
    return replace(merged, options={**settings.options, **state.options})
