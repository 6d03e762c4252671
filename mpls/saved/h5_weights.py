"""The lists of the weights in a model's H5 file, which say what a framework reads."""

from __future__ import annotations

from mpls.formats.file_kinds import MODEL_WEIGHTS
from mpls.saved.errors import broken
from mpls.saved.h5_content import Content
from mpls.saved.memory_limits import Budget, object_limit, unpacked_limit

_TOP = f"{MODEL_WEIGHTS}/top_level_model_weights"


def check_weights(path: str, content: Content, size: int) -> None:
    """Check that a framework reads no more for a model's weights than the file can hold.

    It reads each array as often as the lists name it, before it compares their number with the model.

    Args:
        path: the path, for errors.
        content: the file.
        size: its size in bytes.

    Raises:
        SavedStateError: a list is broken, has a name twice or that of no group, or the arrays are together too large.
    """
    if not content.has_group(MODEL_WEIGHTS):
        return
    groups = [f"{MODEL_WEIGHTS}/{name}" for name in content.names(MODEL_WEIGHTS, "layer_names")]
    budget = Budget(object_limit(size), "names of weights")
    left = most = unpacked_limit(size) + size
    for group in [*groups, *([_TOP] if content.has_group(_TOP) else [])]:
        if not content.has_group(group):
            raise broken(path, f"{MODEL_WEIGHTS}/layer_names", "be names of groups in it", group)
        for nbytes in content.sizes_of_weights(group, budget):
            left -= nbytes
            if left < 0:
                raise broken(path, group, f"leave all weights that are named at most {most} bytes", "more")
