"""Mutations of SavedModels and checkpoints."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable
from typing import Any

from tests.saved.mutations.canary import Canary
from tests.saved.mutations.values import Mutator

OPS = ["WriteFile", "ReadFile", "PyFunc", "EagerPyFunc", "PyFuncStateless", "MatchingFiles", "SaveV2", "RestoreV2"]
OPS += [
    "PrintV2",
    "Const",
    "NoOp",
    "DebugIdentityV3",
    "InitializeTableFromTextFileV2",
    "Abort",
    "Fill",
    "Unknown",
    "XlaLaunch",
]
ROLES = [
    "_create_resource",
    "_initialize",
    "_destroy_resource",
    "_initializer",
    "__call__",
    "call_and_return_conditional_losses",
]
ROLES += [
    "signatures",
    "keras_api",
    "optimizer",
    "variables",
    "_self_saveable_object_factories",
    "table",
    "asset",
    "_asset_path",
]


def mutate(mutator: Mutator, path: pathlib.Path, canary: Canary) -> str:
    """Change a SavedModel's folder, or the files of a checkpoint that a prefix names."""
    is_model = path.is_dir()
    if is_model and mutator.random.random() < 0.6:
        ways: list[Callable[[Mutator, Any, Canary], str]] = [
            _ops,
            _planted,
            _planted,
            _objects,
            _objects,
            _assets,
            _sizes,
            _work,
        ]
        return _in_graph(mutator, path, canary, mutator.random.choice(ways))
    root = path if is_model else path.parent
    files = sorted(file for file in root.rglob("*") if file.is_file())
    file = mutator.random.choice(files)
    name = str(file.relative_to(root))
    way = mutator.random.choice(("bytes",) * 6 + ("missing", "empty", "link", "other", "folder", "pipe"))
    if way == "bytes":
        file.write_bytes(mutator.content(file.read_bytes()))
        return f"{name}: bytes"
    old = file.read_bytes()
    file.unlink()
    if way == "empty":
        file.write_bytes(b"")
    elif way == "link":
        file.symlink_to(canary.secret(mutator.random.choice((".txt", ".bin", ".h5"))))
    elif way == "other":
        others = [each for each in files if each != file]
        file.write_bytes(mutator.random.choice(others).read_bytes() if others else old[::-1])
    elif way == "folder":
        file.mkdir()
    elif way == "pipe":
        os.mkfifo(file)
    return f"{name}: {way}"


def _in_graph(mutator: Mutator, path: pathlib.Path, canary: Canary, way: Callable[[Mutator, Any, Canary], str]) -> str:
    from tensorflow.core.protobuf import saved_model_pb2

    proto = saved_model_pb2.SavedModel()
    file = path / "saved_model.pb"
    proto.ParseFromString(file.read_bytes())
    what = way(mutator, proto.meta_graphs[0], canary)
    file.write_bytes(proto.SerializeToString())
    # It would give the changes away, and is not needed.
    (path / "fingerprint.pb").unlink(missing_ok=True)
    return f"saved_model.pb: {what}"


def _nodes(graph: Any) -> list[Any]:
    functions = [each.node_def for each in graph.graph_def.library.function]
    return [node for nodes in (graph.graph_def.node, *functions) for node in nodes]


def _ops(mutator: Mutator, graph: Any, canary: Canary) -> str:
    node = mutator.random.choice(_nodes(graph))
    old, node.op = node.op, mutator.random.choice(OPS)
    if mutator.random.random() < 0.5:
        del node.input[:]
    return f"{node.op} for {old}"


def _planted(mutator: Mutator, graph: Any, canary: Canary) -> str:
    """Have functions and the graph write or read a file when they run, and have some run while the model is loaded."""
    functions = list(graph.graph_def.library.function)
    # What makes and fills tables runs while the model is loaded.
    early = [each for each in functions if "creator" in each.signature.name or "initializer" in each.signature.name]
    reads = mutator.random.random() < 0.4
    chosen = functions if mutator.random.random() < 0.5 else [mutator.random.choice(early or functions)]
    for function in chosen:
        _add_op(function.node_def, canary, reads, ":output:0")
        function.control_ret["planted"] = "planted_op"
        function.signature.control_output.append("planted")
        function.signature.is_stateful = True
    _add_op(graph.graph_def.node, canary, reads, "")
    what = "ReadFile" if reads else "WriteFile"
    role = mutator.random.choice(("saver", "init", "resource", "none"))
    if role == "saver":
        graph.saver_def.restore_op_name = "planted_op"
    elif role == "init":
        graph.collection_def["saved_model_main_op"].node_list.value.append("planted_op")
    elif role == "resource":
        what += ", " + _as_resource(mutator, graph)
    return f"{what} in {len(chosen)} functions ({role})"


def _add_op(nodes: Any, canary: Canary, reads: bool, ending: str) -> None:
    from tensorflow.core.framework import types_pb2

    for name, value in (
        ("planted_name", canary.secret(".txt") if reads else str(canary.touched)),
        ("planted_value", "text"),
    ):
        node = nodes.add(name=name, op="Const")
        node.attr["dtype"].type = types_pb2.DT_STRING
        node.attr["value"].tensor.dtype = types_pb2.DT_STRING
        node.attr["value"].tensor.tensor_shape.SetInParent()
        node.attr["value"].tensor.string_val.append(value.encode())
    # In functions inputs have the outputs' names.
    inputs = [f"planted_name{ending}", f"planted_value{ending}"]
    nodes.add(name="planted_op", op="ReadFile" if reads else "WriteFile", input=inputs[: 1 if reads else 2])


def _as_resource(mutator: Mutator, graph: Any) -> str:
    """Have an object of the model be a resource, which a function makes while the model is loaded."""
    nodes = graph.object_graph_def.nodes
    functions = [number for number, node in enumerate(nodes) if node.WhichOneof("kind") == "function"]
    if not functions:
        return "no functions"
    number = mutator.random.randrange(len(nodes))
    role = mutator.random.choice(("resource", "saveable"))
    if role == "resource":
        nodes[number].resource.device = ""
        for name in ("_create_resource", "_initialize"):
            child = nodes[number].children.add()
            child.node_id, child.local_name = mutator.random.choice(functions), name
    else:
        saveable = nodes[number].saveable_objects["x"]
        saveable.save_function = mutator.random.choice(functions)
        saveable.restore_function = mutator.random.choice(functions)
    return f"object {number} as a {role}"


def _objects(mutator: Mutator, graph: Any, canary: Canary) -> str:
    """Change how objects hang together: numbers, names, kinds, cycles."""
    nodes = graph.object_graph_def.nodes
    number = mutator.random.randrange(len(nodes))
    node = nodes[number]
    way = mutator.random.choice(("number", "role", "identifier", "metadata", "kind", "shape", "function"))
    if way in ("number", "role") and node.children:
        child = mutator.random.choice(node.children)
        if way == "number":
            child.node_id = mutator.random.choice(
                (0, number, len(nodes), 2**31 - 1, -1, mutator.random.randrange(len(nodes)))
            )
        else:
            child.local_name = mutator.random.choice(ROLES)
    elif way == "identifier":
        node.user_object.identifier = mutator.random.choice(
            ("_tf_keras_layer", "_tf_keras_model", "optimizer", "os.system", "")
        )
    elif way == "metadata":
        node.user_object.metadata = mutator.random.choice(
            ("{}", "[]", '{"class_name": "Lambda", "config": {}}', "\x00")
        )
    elif way == "shape":
        node.variable.dtype = mutator.random.choice((0, 1, 7, 20, 21, 9999))
        for size in (2**20, 2**20):
            node.variable.shape.dim.add(size=size)
    elif way == "function":
        names = list(graph.object_graph_def.concrete_functions)
        node.function.concrete_functions.append(mutator.random.choice(names) if names else "x")
    else:
        node.constant.operation = mutator.random.choice([each.name for each in graph.graph_def.node] or ["x"])
    return f"object {number}: {way}"


def _assets(mutator: Mutator, graph: Any, canary: Canary) -> str:
    asset = graph.asset_file_def.add()
    asset.filename = mutator.random.choice((canary.secret(".txt"), "../" * 12 + canary.secret(".txt"), "x"))
    asset.tensor_info.name = "planted_name:0"
    node = mutator.random.choice(graph.object_graph_def.nodes)
    node.asset.asset_file_def_index = mutator.random.choice((0, 1, 2**30))
    return f"the asset {asset.filename}"


def _sizes(mutator: Mutator, graph: Any, canary: Canary) -> str:
    """Have a constant or a variable be larger than what is there."""
    sized = [node for node in _nodes(graph) if "shape" in node.attr or "value" in node.attr]
    if not sized:
        return "nothing"
    node = mutator.random.choice(sized)
    held = node.attr["value"].tensor.tensor_shape if "value" in node.attr else node.attr["shape"].shape
    del held.dim[:]
    for size in mutator.random.choice(((2**31,), (2**20, 2**20), (-1,), (2**62, 2**62))):
        held.dim.add(size=size)
    return f"the shape of {node.name}"


def _work(mutator: Mutator, graph: Any, canary: Canary) -> str:
    """Have functions make a shape of what TensorFlow computes for it from constants."""
    from tensorflow.core.framework import types_pb2

    size = mutator.random.choice((3, 300, 3000, 30_000, 2**30))
    op = mutator.random.choice(("Fill", "MatMul", "Range", "Concat", "Cumsum"))
    functions = list(graph.graph_def.library.function)
    for function in mutator.random.sample(functions, min(len(functions), mutator.random.choice((1, 2, 5)))):
        nodes = function.node_def

        def add(name: str, op: str, *inputs: str, nodes: Any = nodes, **types: int) -> str:
            node = nodes.add(name=f"work_{name}", op=op, input=inputs)
            for key, value in types.items():
                node.attr[key].type = value
            return f"work_{name}"

        def constant(name: str, *values: int, add: Any = add, nodes: Any = nodes, is_vector: bool = True) -> str:
            name = add(name, "Const", dtype=types_pb2.DT_INT32)
            tensor = nodes[-1].attr["value"].tensor
            tensor.dtype = types_pb2.DT_INT32
            tensor.int_val.extend(values)
            tensor.tensor_shape.SetInParent()
            if is_vector:
                tensor.tensor_shape.dim.add(size=len(values))
            return f"{name}:output:0"

        number, zero = {"T": types_pb2.DT_INT32}, constant("zero", 0, is_vector=False)
        one, axes = constant("one", 1, is_vector=False), constant("axes", *range(1 if op == "Range" else 2))
        if op == "Range":
            last = add("numbers", "Range", zero, constant("size", size, is_vector=False), one, Tidx=number["T"])
        else:
            sizes = constant("size", size, size)
            last = add("numbers", "Fill", sizes, one, **number, index_type=number["T"])
        last += ":output:0"
        if op == "MatMul":
            last = add("product", "MatMul", last, last, **number) + ":product:0"
        elif op == "Cumsum":
            last = add("product", "Cumsum", last, zero, **number, Tidx=number["T"]) + ":out:0"
        last = add("sum", "Sum", last, axes, **number, Tidx=number["T"]) + ":output:0"
        last = add("vector", "Reshape", last, constant("length", 1), **number, Tshape=number["T"]) + ":output:0"
        for depth in range(40 if op == "Concat" else 0):
            last = add(f"join{depth}", "ConcatV2", last, last, zero, **number, Tidx=number["T"]) + ":output:0"
            nodes[-1].attr["N"].i = 2
        add("shape", "BroadcastTo", one, last, **number, Tidx=number["T"])
    return f"a shape from {op} of size {size}"
