"""The protocol buffers in checkpoints and SavedModels, as far as mpls reads them.

TensorFlow's generated classes take seconds to import. These are made by google.protobuf from the fields listed here.
"""

from __future__ import annotations

import functools
from typing import Any

# Each message, and its fields: `name=number type`. `*` marks a repeated field, `{}` a map from strings to values, and a
# prefix as `kind.` the fields of a oneof. An indented line continues the one before it.
_MESSAGES = """
BundleHeader: num_shards=1 int32; endianness=2 int32
BundleEntry: dtype=1 int32; shape=2 Shape; shard_id=3 int32; offset=4 int64; size=5 int64; crc32c=6 fixed32;
    slices=7 *Slice
Shape: dim=2 *Dimension; unknown_rank=3 bool
Dimension: size=1 int64
Slice: extent=1 *Extent
Extent: start=1 int64; has_length.length=2 int64

ObjectGraph: nodes=1 *Object
Object: children=1 *Child; attributes=2 *Value; slot_variables=3 *SlotVariable
Child: node_id=1 int32; local_name=2 string
Value: name=1 string; full_name=2 string; checkpoint_key=3 string
SlotVariable: original_variable_node_id=1 int32; slot_name=2 string; slot_variable_node_id=3 int32

KerasMetadata: nodes=1 *KerasObject
KerasObject: node_id=2 int32; node_path=3 string; identifier=4 string; metadata=5 string

SavedModel: meta_graphs=2 *MetaGraph
MetaGraph: meta_info_def=1 MetaInfo; graph_def=2 Graph; collection_def=4 {}Other; asset_file_def=6 *AssetFile;
    object_graph_def=7 SavedObjectGraph
MetaInfo: tensorflow_version=5 string; function_aliases=8 {}string
AssetFile: filename=2 string
Graph: node=1 *Node; library=2 Library
Node: name=1 string; op=2 string; attr=5 {}Attribute
Attribute: value.list=1 List; value.s=2 bytes; value.func=10 NamedFunction
List: func=9 *NamedFunction
NamedFunction: name=1 string; attr=2 {}Attribute
Library: function=1 *Function; gradient=2 *Gradient; registered_gradients=3 *RegisteredGradient
Function: signature=1 Signature; node_def=3 *Node; attr=5 {}Attribute
Signature: name=1 string
Gradient: function_name=1 string; gradient_func=2 string
RegisteredGradient: gradient_func=1 string
SavedObjectGraph: nodes=1 *SavedObject; concrete_functions=2 {}Other
SavedObject: kind.user_object=4 UserObject; kind.asset=5 Other; kind.function=6 FunctionObject; kind.variable=7 Other;
    kind.bare_concrete_function=8 BareFunction; kind.constant=9 Other; kind.resource=10 Other;
    kind.captured_tensor=12 Captured
UserObject: identifier=1 string; metadata=3 string
FunctionObject: concrete_functions=1 *string
BareFunction: concrete_function_name=1 string
Captured: concrete_function=2 string
Other:
"""
# The package of the messages.
_PACKAGE = "mpls_saved"


@functools.cache
def _class(name: str) -> Any:
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{_PACKAGE}.{name}"))


@functools.cache
def _pool() -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool

    file = descriptor_pb2.FileDescriptorProto(name="mpls/saved.proto", package=_PACKAGE, syntax="proto3")
    for line in _MESSAGES.replace("\n    ", " ").split("\n"):
        name, _, fields = line.partition(":")
        if name:
            message = file.message_type.add(name=name)
            for field in filter(None, map(str.strip, fields.split(";"))):
                _add(message, field)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return pool


def _add(message: Any, text: str) -> None:
    """Add a field to the description of a message, from its text in the list above."""
    place, kind = text.split(" ")
    name, _, number = place.partition("=")
    one_of, _, name = name.rpartition(".")
    settings: dict[str, Any] = {"name": name, "number": int(number), "label": 3 if kind[0] in "*{" else 1}
    if kind.startswith("{}"):
        # Protocol buffers write a map as a list of entries.
        entry = message.nested_type.add(name=f"{name.title().replace('_', '')}Entry", options={"map_entry": True})
        _add(entry, "key=1 string")
        _add(entry, f"value=2 {kind.removeprefix('{}')}")
        kind = f"{message.name}.{entry.name}"
    kind = kind.removeprefix("*")
    if kind[0].isupper():
        settings["type_name"] = f".{_PACKAGE}.{kind}"
    if one_of:
        if one_of not in [each.name for each in message.oneof_decl]:
            message.oneof_decl.add(name=one_of)
        settings["oneof_index"] = [each.name for each in message.oneof_decl].index(one_of)
    message.field.add(type="TYPE_MESSAGE" if kind[0].isupper() else f"TYPE_{kind.upper()}", **settings)


def parse(name: str, content: bytes | memoryview) -> Any:
    """Return a message of a name in the list above, with its fields as attributes.

    Raises:
        ValueError: the bytes are no such message.
    """
    from google.protobuf.message import DecodeError

    try:
        return _class(name).FromString(bytes(content))
    except (DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"no {name}: {error}") from error
