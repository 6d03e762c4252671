"""The files that TensorFlow's loader reads of a SavedModel: within its folder, and no others."""

from __future__ import annotations

import os
from typing import Any

from mpls.keras.files.graph_calls import described, refused
from mpls.saved.files import size_of

# saved_model.pbtxt is not read where saved_model.pb is.
_FILES = ("saved_model.pb", "keras_metadata.pb", "fingerprint.pb", os.path.join("debug", "saved_model_debug_info.pb"))
_CHUNKS = "saved_model.cpb"


def check_files(path: str) -> None:
    """Check what is read besides assets.

    Raises:
        SavedStateError: a file is a link out of the folder, or no regular file; or the graph is in parts.
    """
    if os.path.lexists(os.path.join(path, _CHUNKS)):
        raise refused(path, _CHUNKS, "not be there, since what is in it is not looked at", _CHUNKS)
    for name in _FILES:
        if os.path.lexists(os.path.join(path, name)):
            size_of(os.path.join(path, name), path)
    variables = os.path.join(path, "variables")
    if os.path.isdir(variables):
        # The checkpoint, of whatever format; TensorFlow takes no notice of others.
        for name in os.listdir(variables):
            if name.startswith("variables"):
                size_of(os.path.join(variables, name), path)


class Assets:
    """The assets of a SavedModel, and which function reads which.

    TensorFlow saves an asset's name as an argument of the function that fills a table, to which the loader binds an
    object of the kind "asset".
    """

    def __init__(self, path: str, graph: Any) -> None:
        self._path, self._files, self._objects = path, graph.asset_file_def, graph.object_graph_def
        slots = (slot.slot_variable_node_id for node in self._objects.nodes for slot in node.slot_variables)
        self._slots = frozenset(slots)
        self._checked: set[int] = set()

    def require(self, key: str, function: Any, node: Any) -> None:
        """Check that a table is filled from an asset in the folder.

        Args:
            key: where it is, for the error.
            function: the function that fills it, which no other calls.
            node: its only node that reads a file.

        Raises:
            SavedStateError: the file cannot be shown to be an asset, or is not in the folder.
        """
        number = self._bound_object(function, node)
        if number is None or not self._is_plain_asset(number):
            raise refused(self._path, key, "read an asset of the folder, and no other file", node.op)
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
        """Return the number of the object that the loader binds to the argument that names the file."""
        if len(node.input) < 2 or not node.input[1].isidentifier():
            return None
        arguments = [each.name for each in function.signature.input_arg]
        name = function.signature.name
        if arguments.count(node.input[1]) != 1 or name not in self._objects.concrete_functions:
            return None
        # The last arguments are the bound ones.
        bound = self._objects.concrete_functions[name].bound_inputs
        position = arguments.index(node.input[1]) - (len(arguments) - len(bound))
        return int(bound[position]) if 0 <= position < len(bound) else None

    def _is_plain_asset(self, number: int) -> bool:
        """Return whether the loader makes an asset of an object: of no registered class, and nothing put into it."""
        if not 0 <= number < len(self._objects.nodes) or number in self._slots:
            return False
        node = self._objects.nodes[number]
        return node.WhichOneof("kind") == "asset" and not node.registered_name and not node.children
