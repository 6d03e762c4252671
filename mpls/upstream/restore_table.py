"""The private names of TensorFlow that mpls uses while object-based checkpoints are restored: rows of `table`."""

from __future__ import annotations

from mpls.upstream.private import Private, rows_in

_NO_LOOK = "checkpoints of tf.train.Checkpoint(root, ...) are restored without a look at what is attached to the root"
_NOT_LOOKED_AT = (
    "checkpoints are restored as TensorFlow does, and not looked at before. Call `mpls inspect PATH` before"
)
_FUNCTION = "_queue_children_for_restoration"
_RESTORE = "tensorflow.python.checkpoint.restore"
_POSITION = f"{_RESTORE}:CheckpointPosition"
# Each restore has an object of this class.
_RUN = "tensorflow.python.checkpoint.checkpoint:_CheckpointRestoreCoordinator"

TRACKABLE_SAVER = Private("tensorflow.python.checkpoint.checkpoint", "TrackableSaver", _NO_LOOK)
ATTACHED = Private("tensorflow.python.checkpoint.checkpoint:TrackableSaver", "_graph_view", _NO_LOOK)
OBJECT_GRAPH = Private(
    "tensorflow.core.protobuf.trackable_object_graph_pb2",
    "TrackableObjectGraph",
    "checkpoints are restored as TensorFlow does, and not looked at before",
)
# The function that pairs an object with a place in the checkpoint, and its argument for the place.
PAIRING = Private(_RESTORE, _FUNCTION, _NOT_LOOKED_AT)
PLACE = Private(f"{_RESTORE}:{_FUNCTION}", "checkpoint_position", _NOT_LOOKED_AT)
RUN, NODE, PAIRED = (Private(_POSITION, name, _NOT_LOOKED_AT) for name in ("checkpoint", "proto_id", "trackable"))
PATH, GRAPH = (Private(_RUN, name, _NOT_LOOKED_AT) for name in ("save_path_string", "object_graph_proto"))
_NO_SLOTS = "slots that are restored before their optimizer are not looked at before. Call `mpls inspect PATH` before"
CHILD = Private(_POSITION, "create_child_position", _NO_SLOTS)
ALL_PAIRED = Private(_RUN, "object_by_proto_id", _NO_SLOTS)
TOUCHED = Private(
    _RUN,
    "all_python_objects",
    "after a checkpoint is refused, variables that are created later may still get their values from it. "
    "Create the objects anew",
)

ROWS = rows_in(vars())
