"""What a hostile config may have where an honest one names a class or a function."""

from __future__ import annotations

from typing import Any

SPY = "spy_that_configs_name"
CODE = "4wEAAAAAAAAAAAAAAAA="


def _named(module: str | None, name: str, registered: str | None = "function") -> dict[str, Any]:
    return {"module": module, "class_name": "function", "config": name, "registered_name": registered}


def _object(module: str | None, name: str, config: Any = None, registered: str | None = None) -> dict[str, Any]:
    return {"module": module, "class_name": name, "config": config or {}, "registered_name": registered}


def _legacy(name: str, **config: Any) -> dict[str, Any]:
    return {"class_name": name, "config": {"name": "hostile", **config}}


# In the dialect of `.keras` files, which loaders of other formats read too, in places.
PAYLOADS: dict[str, Any] = {
    "function of os": _named("os", "system"),
    "function of builtins": _named("builtins", "eval"),
    "function of the framework": _named("keras.utils", "get_file"),
    "function by its registered name": _named("keras.losses", "relu", "get_file"),
    "function of a module of another package": _named("pickle", "relu"),
    "class of another package": _object("subprocess", "Popen", {"args": "true"}),
    "class that is imported": _object(SPY, "Anything"),
    "allowed name elsewhere": _object(SPY, "Dense", registered="Dense"),
    "allowed name registered as another": _object("keras.layers", "Dense", registered=f"{SPY}>Dense"),
    "registered name alone": _object(None, "Anything", registered=f"{SPY}>Anything"),
    "class by path": _object("keras.layers", "Layer.from_config"),
    "no name": {"class_name": ["Dense"], "config": {}, "module": "keras.layers"},
    "bytecode": {"class_name": "__lambda__", "config": {"value": [CODE, None, None], "code": CODE}},
    "Lambda of bytecode": _legacy("Lambda", function=[CODE, None, None], function_type="lambda"),
    "Lambda of bytecode in a package": _legacy("keras>Lambda", function=[CODE, None, None], function_type="lambda"),
    "Lambda of a named function": _object(
        "keras.layers", "Lambda", {"function": _named("os", "system"), "function_type": "function"}
    ),
    "Lambda of a name in a module": _legacy("Lambda", function="system", module="os", function_type="function"),
    "Lambda of a raw function": _legacy("Lambda", function="system", function_type="raw"),
    "Lambda with a mask": _legacy("Lambda", function=None, mask="system", mask_module="os", mask_type="function"),
    "function of TensorFlow": _legacy("TFOpLambda", function="io.write_file"),
    "raw function of TensorFlow": _legacy("SlicingOpLambda", function="raw_ops.WriteFile"),
    "function of TensorFlow that calls Python": _legacy("TFOpLambda", function="compat.v1.py_func"),
    "op of TensorFlow": _legacy("TensorFlowOpLayer", node_def={"name": "a", "op": "WriteFile"}, constants={}),
    "method of a class": _legacy("ClassMethod", cls_symbol="io.gfile.GFile", method_name="write"),
    "method of a tensor": _legacy("InstanceMethod", attr_name="numpy"),
    "attribute of a tensor": _legacy("InstanceProperty", attr_name="__class__"),
    "wrapper of a cell": _legacy("ResidualWrapper", residual_fn=[CODE], residual_fn_type="lambda"),
    "another saved model": _object("keras.layers", "TFSMLayer", {"filepath": "elsewhere"}),
    "module of Torch": _object("keras.layers", "TorchModuleWrapper", {"module": "gASVAAAAAAAAAAA="}),
    "function of JAX": _object("keras.layers", "JaxLayer", {"call_fn": _named(SPY, "call")}),
    "operation with a function": _object("keras.src.ops.core", "Map", {"name": "map"}),
    "vocabulary elsewhere": _object("keras.layers", "StringLookup", {"vocabulary": "elsewhere.txt"}),
    "type of another package": {
        "class_name": "__typespec__",
        "spec_name": "TensorSpec",
        "module": SPY,
        "config": [],
        "registered_name": None,
    },
    "registered type": {"class_name": "TypeSpec", "type_spec": f"{SPY}.Spec", "serialized": []},
}
# Where a string is looked up as a name.
NAMES = ["eval", "deserialize_keras_object", "Lambda", "os", f"{SPY}>Anything"]
