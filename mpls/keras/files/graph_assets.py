"""The check that TensorFlow's loader reads only files inside a SavedModel's folder."""

from __future__ import annotations

import os
from typing import Any

from mpls.formats.file_kinds import KERAS_METADATA, SAVED_MODEL, VARIABLES
from mpls.keras.files.graph_calls import described, refused
from mpls.saved.files import size_of

# TensorFlow reads saved_model.pbtxt only if there is no saved_model.pb.
_FILES = (SAVED_MODEL, KERAS_METADATA, "fingerprint.pb", os.path.join("debug", "saved_model_debug_info.pb"))
# A graph that is split into several messages.
_CHUNKS = "saved_model.cpb"


def check_files(path: str) -> None:
    """Check the files that TensorFlow reads besides assets: graph, metadata, debug info and checkpoint.

    Raises:
        SavedStateError: a file is a link out of the folder or not a regular file, or the graph is split.
    """
    if os.path.lexists(os.path.join(path, _CHUNKS)):
        raise refused(path, _CHUNKS, "not be there, since what is in it is not looked at", _CHUNKS)
    for name in _FILES:
        if os.path.lexists(os.path.join(path, name)):
            size_of(os.path.join(path, name), path)
    variables = os.path.join(path, VARIABLES)
    if os.path.isdir(variables):
        # TensorFlow reads the files of the checkpoint only.
        for name in os.listdir(variables):
            if name.startswith(VARIABLES):
                size_of(os.path.join(variables, name), path)


class Assets:
    """The assets of a SavedModel.

    A function that fills a lookup table from an asset gets the asset's path as an argument. The loader binds an object
    of the kind "asset" to this argument.

    Args:
        path: the SavedModel's folder.
        graph: its only MetaGraphDef.
    """

    def __init__(self, path: str, graph: Any) -> None:
        self._path, self._files, self._objects = path, graph.asset_file_def, graph.object_graph_def
        slots = (slot.slot_variable_node_id for node in self._objects.nodes for slot in node.slot_variables)
        self._slots = frozenset(slots)
        self._checked: set[int] = set()

    def require(self, key: str, function: Any, node: Any) -> None:
        """Check that a table is filled from an asset in the folder.

        Args:
            key: the place of the node, for the error.
            function: the function that fills the table; no other function may call it.
            node: the only node of the function that reads a file.

        Raises:
            SavedStateError: the file is not certainly an asset, or not in the folder.
        """
        number = self._bound_object(function, node)
        if number is None or not self._is_plain_asset(number):
            raise refused(self._path, key, "read an asset of the folder, and no other file", node.op)
        self._check_asset(key, number)

    def check_all(self) -> None:
        """Check that all assets are in the folder. TensorFlow copies them if the model is saved again.

        Raises:
            SavedStateError: one is not.
        """
        for number, node in enumerate(self._objects.nodes):
            if node.WhichOneof("kind") == "asset":
                self._check_asset(f"{SAVED_MODEL}: object {number}", number)

    def _check_asset(self, key: str, number: int) -> None:
        index = self._objects.nodes[number].asset.asset_file_def_index
        if not 0 <= index < len(self._files):
            raise refused(self._path, key, f"read one of {len(self._files)} assets", index)
        if index not in self._checked:
            self._check_file(self._files[index].filename)
            self._checked.add(index)

    def _check_file(self, name: str) -> None:
        parts = name.split("/")
        if "\\" in name or os.path.splitdrive(name)[0] or any(each in ("", ".", "..") for each in parts):
            raise refused(self._path, f"asset {described(name)}", "be the path of a file below assets", name)
        size_of(os.path.join(self._path, "assets", *parts), self._path)

    def _bound_object(self, function: Any, node: Any) -> int | None:
        """Return the number of the object that the loader binds to the argument with the path, or None."""
        if len(node.input) < 2 or not node.input[1].isidentifier():
            return None
        arguments = [each.name for each in function.signature.input_arg]
        name = function.signature.name
        if arguments.count(node.input[1]) != 1 or name not in self._objects.concrete_functions:
            return None
        # The loader binds the last arguments.
        bound = self._objects.concrete_functions[name].bound_inputs
        position = arguments.index(node.input[1]) - (len(arguments) - len(bound))
        return int(bound[position]) if 0 <= position < len(bound) else None

    def _is_plain_asset(self, number: int) -> bool:
        """Return whether the loader makes an asset of an object: it has no registered class, children or slots."""
        if not 0 <= number < len(self._objects.nodes) or number in self._slots:
            return False
        node = self._objects.nodes[number]
        return node.WhichOneof("kind") == "asset" and not node.registered_name and not node.children
