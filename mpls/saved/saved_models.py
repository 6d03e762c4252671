"""SavedModel folders of Keras: the state of their optimizers in a checkpoint, their settings in metadata; their graph.

TensorFlow's loader runs functions of the file: those that create and fill a lookup table, and that save and restore an
object. Calls of the model run other functions, and so does saving it again. So all functions are checked. Assets, files
from which tables are filled, are refused: each way to one would have to be followed through the graph.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Iterator, Sequence, Set
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
from mpls.saved.allowed import OPS, SAVERS
from mpls.saved.bundles import Bundle
from mpls.saved.checkpoints import ObjectCheckpoint
from mpls.saved.config_safety import COMPILE_CONFIGS, OwnObjects
from mpls.saved.foreign_files import IF_TRUSTED, broken, parse_json, read_bytes, reading_foreign_bytes, size_of
from mpls.saved.messages import parse
from mpls.saved.model_files import ModelFile
from mpls.saved.optimizer_configs import read_optimizer, value_at, with_state
from mpls.saved.plain_numbers import good_steps_of_variable

# The files that TensorFlow reads besides assets and the checkpoint. It reads saved_model.pbtxt only if there is no
# saved_model.pb, and a graph that is split into several files.
_FILES = (SAVED_MODEL, KERAS_METADATA, "fingerprint.pb", os.path.join("debug", "saved_model_debug_info.pb"))
_SPLIT = "saved_model.cpb"
# The names of ops. A node may have the name of a function as its op, so the names of functions must differ from them.
_NAME_OF_OP = re.compile(r"_?[A-Z][A-Za-z0-9_]*(>\w+)*", re.ASCII)
# The most characters of a name in an error.
_SHOWN = 100


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
        _refuse_unsafe_graph(self.path, self._graphs)

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
                settings = read_optimizer(path, "/".join(TRAINING_OPTIMIZER), config)
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


# The check of the graph.


def _refuse_unsafe_graph(path: str, graphs: Sequence[Any]) -> None:
    """Refuse a SavedModel with ops that may use files, the network, Python or another machine.

    A file that TensorFlow's loader reads must be in the folder.

    Args:
        path: the SavedModel's folder.
        graphs: the graphs in it.
    """
    _check_files(path)
    # Without an object graph, or with several graphs, TensorFlow loads it as a file of TF 1, and runs ops of its main
    # graph.
    if len(graphs) != 1 or not graphs[0].HasField("object_graph_def"):
        raise broken(path, SAVED_MODEL, "hold one graph with the objects in it", f"{len(graphs)} graphs", IF_TRUSTED)
    _Graph(path, graphs[0]).check()


def _shown(name: str) -> str:
    return repr(name if len(name) <= _SHOWN else f"{name[:_SHOWN]}...")


def _check_files(path: str) -> None:
    """Refuse links out of the folder, files that are not regular, and a graph that is split."""
    if os.path.lexists(os.path.join(path, _SPLIT)):
        raise broken(path, _SPLIT, "not be there, since mpls does not read it", _SPLIT, IF_TRUSTED)
    names = [name for name in _FILES if os.path.lexists(os.path.join(path, name))]
    folder = os.path.join(path, VARIABLES)
    if os.path.isdir(folder):
        # TensorFlow reads the files of the checkpoint only.
        names += [os.path.join(VARIABLES, name) for name in os.listdir(folder) if name.startswith(VARIABLES)]
    for name in names:
        size_of(os.path.join(path, name), path)


class _Graph:
    """The graph of a SavedModel, with its functions and objects.

    In a file that TensorFlow has written, the two functions that save and restore all variables are called by no
    function, and no object has them. The main graph calls them, which TensorFlow imports for files of TF 1 only.
    """

    def __init__(self, path: str, graph: Any) -> None:
        self._path, self._graph = path, graph
        self._library, self._objects = graph.graph_def.library, graph.object_graph_def
        self._names: set[str] = set()

    def _refused(self, key: str, constraint: str, got: object) -> Exception:
        return broken(self._path, key, constraint, got, IF_TRUSTED)

    def check(self) -> None:
        """Refuse what may reach out of the model."""
        for asset in self._graph.asset_file_def:
            key = f"asset {_shown(asset.filename)}"
            raise self._refused(key, "be values in the graph, not a file beside it", asset.filename)
        for function in self._library.function:
            name = function.signature.name
            if not name or name in self._names or _NAME_OF_OP.fullmatch(name):
                raise self._refused(f"function {_shown(name)}", "have a name of its own", name)
            self._names.add(name)
        reached = self._reached()
        self._check_ops("the main graph", self._graph.graph_def.node, OPS)
        for function in self._library.function:
            name = function.signature.name
            # TensorFlow may replace a function with this attribute by another one with it.
            is_reached = name in reached or "api_implements" in function.attr
            allowed = OPS | self._names if is_reached else OPS | self._names | SAVERS
            self._check_ops(f"function {_shown(name)}", function.node_def, allowed)

    def _check_ops(self, place: str, nodes: Iterable[Any], allowed: Set[str]) -> None:
        for node in nodes:
            if node.op not in allowed:
                key = f"{place}, node {_shown(node.name)}"
                raise self._refused(key, "have an op that is known to stay within the model", node.op)

    def _reached(self) -> set[str]:
        """Return the functions that something can call: another function, a gradient, an object or a caller."""
        # The loader makes all of these callable, and also those that only a node names.
        found = {*self._objects.concrete_functions, *self._graph.meta_info_def.function_aliases}
        found.update(name for node in self._objects.nodes for name in _functions_of(node))
        found.update(name for each in self._library.gradient for name in (each.function_name, each.gradient_func))
        found.update(each.gradient_func for each in self._library.registered_gradients)
        found.update(name for function in self._library.function for name in self._called_by(function))
        return found

    def _called_by(self, function: Any) -> Iterator[str]:
        for node in function.node_def:
            if node.op in self._names:
                yield node.op
            for value in node.attr.values():
                kind = value.WhichOneof("value")
                for each in value.list.func if kind == "list" else [value.func] if kind == "func" else ():
                    key = f"function {_shown(function.signature.name)}, node {_shown(node.name)}"
                    # TensorFlow's loader renames functions, but not in the attributes of a function attribute. Such a
                    # name could be that of a function in this process.
                    if any(inner.WhichOneof("value") in ("func", "list") for inner in each.attr.values()):
                        raise self._refused(key, "pass no functions to functions", each.name)
                    if each.name not in self._names:
                        raise self._refused(key, "call functions of the file", each.name)
                    yield each.name


def _functions_of(node: Any) -> Iterator[str]:
    kind = node.WhichOneof("kind")
    if kind == "function":
        yield from node.function.concrete_functions
    elif kind == "bare_concrete_function":
        yield node.bare_concrete_function.concrete_function_name
    elif kind == "captured_tensor":
        yield node.captured_tensor.concrete_function
