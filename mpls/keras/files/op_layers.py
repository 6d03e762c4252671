"""The layers of tf_keras that call a function, op or method of TensorFlow: which of these they may call.

tf_keras makes such a layer when TensorFlow is called on a symbolic tensor of a functional model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from mpls.keras.files.allowed_functions import INSTANCE_ATTRIBUTES, RAGGED_CLASS_METHODS, is_arithmetic
from mpls.keras.files.op_types import ALLOWED as ALLOWED_OPS

__all__ = ["OP_LAYERS", "Refusal", "has_symbolic_input", "is_shape", "refusal_of"]

OP_LAYERS = (
    "TFOpLambda",
    "SlicingOpLambda",
    "InstanceProperty",
    "InstanceMethod",
    "ClassMethod",
    # TF 2.2 and 2.3 wrote it where later releases write `TFOpLambda`.
    "TensorFlowOpLayer",
)
# What tf_keras writes instead of a layer's name for an argument that is not a symbolic tensor.
_CONSTANT = "_CONSTANT_VALUE"


class Refusal(NamedTuple):
    """What is wrong with the settings of a layer: the key, the constraint and the offending value, for the error."""

    key: str
    constraint: str
    got: object


def refusal_of(name: str, settings: Mapping[str, Any]) -> Refusal | None:
    """Return why one of `OP_LAYERS` is refused with these settings; None if it is allowed."""
    if name == "TensorFlowOpLayer":
        node = settings.get("node_def")
        op = node.get("op") if isinstance(node, dict) else node
        is_allowed = isinstance(op, str) and op in ALLOWED_OPS
        refusal = Refusal("node_def/op", "be an op that is known to stay within the model", op)
    elif name in ("InstanceProperty", "InstanceMethod"):
        attribute = settings.get("attr_name")
        is_allowed = isinstance(attribute, str) and attribute in INSTANCE_ATTRIBUTES
        refusal = Refusal("attr_name", "be an attribute of ragged or sparse tensors", attribute)
    elif name == "ClassMethod":
        owner, method = settings.get("cls_symbol"), settings.get("method_name")
        is_allowed = owner == "RaggedTensor" and isinstance(method, str) and method in RAGGED_CLASS_METHODS
        refusal = Refusal("method_name", "be one that makes a RaggedTensor", f"{owner}.{method}")
    else:
        function = settings.get("function")
        is_allowed = isinstance(function, str) and is_arithmetic(function)
        refusal = Refusal("function", "be a function of TensorFlow that does arithmetic on tensors", function)
    return None if is_allowed else refusal


def has_symbolic_input(node: Any) -> bool:
    """Return whether a call in `inbound_nodes` has a tensor of another layer among its arguments.

    A call without one is computed while the model is loaded.
    """
    stack = [node]
    while stack:
        value = stack.pop()
        if isinstance(value, list):
            if len(value) in (3, 4) and isinstance(value[0], str) and value[0] != _CONSTANT:
                return True
            stack += value
        elif isinstance(value, dict):
            if value.get("class_name") == "__keras_tensor__":
                return True
            stack += value.values()
    return False


def is_shape(value: Any) -> bool:
    """Return whether the output shape of a Lambda layer is one, and no function."""
    return isinstance(value, list) and all(each is None or isinstance(each, (int, list)) for each in value)
