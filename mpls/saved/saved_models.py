"""SavedModel folders of Keras: the state of their optimizers in a checkpoint, their settings in metadata."""

from __future__ import annotations

import functools
import os
from dataclasses import replace
from typing import Any

from mpls.formats.families import Framework
from mpls.formats.file_kinds import (
    INDEX,
    KERAS_METADATA,
    MODEL_KINDS,
    ROOT,
    SAVED_MODEL,
    TRAINING_CONFIG,
    TRAINING_OPTIMIZER,
    VARIABLES,
    ModelFormat,
)
from mpls.formats.object_graph import GRAPH_KEY
from mpls.formats.record import FileRecord, LossScaleRecord, OptimizerRecord
from mpls.saved.bundles import Bundle
from mpls.saved.checkpoints import ObjectCheckpoint
from mpls.saved.config_safety import COMPILE_CONFIGS, OwnObjects
from mpls.saved.foreign_files import broken, parse_json, read_bytes, reading_foreign_bytes
from mpls.saved.graph_safety import refuse_unsafe_graph
from mpls.saved.messages import parse
from mpls.saved.model_files import ModelFile
from mpls.saved.optimizer_configs import read_optimizer, value_at, with_state
from mpls.saved.plain_numbers import good_steps_of_variable


class SavedModel(ModelFile):
    """A SavedModel folder, whose graph and Keras metadata the constructor parses."""

    format: ModelFormat = "SavedModel"

    def __init__(self, path: str) -> None:
        super().__init__(path)
        graph_path, keras_path = os.path.join(path, SAVED_MODEL), os.path.join(path, KERAS_METADATA)
        with reading_foreign_bytes(graph_path, "the graph", "be a whole SavedModel"):
            self._graphs = parse("SavedModel", read_bytes(graph_path, path)).meta_graphs
            if not self._graphs:
                raise ValueError("it has no graph")
        self._has_metadata = os.path.lexists(keras_path)
        # Of each Keras object: its place, its kind and a JSON text.
        self._texts: list[tuple[str, str, str]] = []
        if self._has_metadata:
            with reading_foreign_bytes(keras_path, "the metadata", "be whole"):
                nodes = parse("KerasMetadata", read_bytes(keras_path, path)).nodes
            self._texts = [(each.node_path or str(each.node_id), each.identifier, each.metadata) for each in nodes]
            return
        # Up to TF 2.4, Keras' metadata are in the graph.
        for graph in self._graphs:
            for number, node in enumerate(graph.object_graph_def.nodes):
                if node.user_object.identifier.startswith("_tf_keras_"):
                    place = f"node {number}" if number else ROOT
                    self._texts.append((place, node.user_object.identifier, node.user_object.metadata))

    @property
    def framework(self) -> Framework:
        """The Keras that wrote it."""
        return "tf_keras"

    @functools.cached_property
    def configs(self) -> dict[str, Any]:
        """The metadata of each Keras object, by the object's place in the model, and the config of training."""
        found: dict[str, Any] = {}
        for number, (place, _, text) in enumerate(self._texts):
            # A file may give two objects one place, or one the name of another part.
            while place in found or place in COMPILE_CONFIGS:
                place = f"{place} ({number})"
            if text:
                found[place] = parse_json(self.path, place, text)
        training = value_at(found.get(ROOT), [TRAINING_CONFIG])
        return found if training is None else {**found, TRAINING_CONFIG: training}

    def require_whole(self) -> None:
        """Refuse a folder that holds no model of Keras."""
        if not self.configs:
            advice = "One that model.export() or tf.saved_model.save() wrote is loaded by tf.saved_model.load(path)"
            raise broken(self.path, "", "hold a Keras model", "a SavedModel without Keras metadata", advice)

    def refuse_unsafe(self, own: OwnObjects, *, with_compile: bool = True) -> None:
        """Refuse a folder that may run code, or reach out of itself."""
        super().refuse_unsafe(own, with_compile=with_compile)
        refuse_unsafe_graph(self.path, self._graphs)

    def record(self) -> FileRecord:
        """Return a record of the folder and of its optimizers."""
        path = self.path
        metadata = next((text for key, kind, text in self._texts if key == ROOT and kind in MODEL_KINDS), None)
        if metadata is None and self._has_metadata:
            raise broken(path, KERAS_METADATA, "be whole", "no description of a model")
        version = self._graphs[0].meta_info_def.tensorflow_version
        prefix = os.path.join(path, VARIABLES, VARIABLES)
        records: list[OptimizerRecord] = []
        if self._needs_checkpoint() or os.path.lexists(prefix + INDEX):
            bundle = Bundle(prefix, path)
            records = ObjectCheckpoint(bundle).optimizers() if GRAPH_KEY in bundle else []
            config = value_at(parse_json(path, "the metadata", metadata or "{}"), TRAINING_OPTIMIZER)
            if config is not None:
                settings = read_optimizer(path, "/".join(TRAINING_OPTIMIZER), config).optimizer
                records = [_merged(path, each, settings) if each.key == "optimizer" else each for each in records]
        return FileRecord(path, "SavedModel", f"TF {version}" if version else "TF 2", records)

    def _needs_checkpoint(self) -> bool:
        # TF 1 writes collections. TF 2 writes a checkpoint with each object graph, even if it holds no variables.
        return any(
            set(graph.collection_def) & {"variables", "trainable_variables"} or graph.object_graph_def.nodes
            for graph in self._graphs
        )


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
