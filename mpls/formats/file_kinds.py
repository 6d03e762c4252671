"""What kinds of files hold the state of training, and how they are told apart."""

from __future__ import annotations

from typing import Literal

__all__ = ["INDEX", "LATEST", "SAVED_MODEL", "Format", "ModelFormat", "kind_of_bytes"]

# What holds a whole model, and which forms state comes in at all.
ModelFormat = Literal["SavedModel", "H5", ".keras"]
Format = Literal["object checkpoint", "v1 checkpoint", "SavedModel", "H5", ".keras", "config"]
# The file that makes a folder a SavedModel; the one that names the latest checkpoint of a folder; what the name of a
# checkpoint's index has at the end.
SAVED_MODEL, LATEST, INDEX = "saved_model.pb", "checkpoint", ".index"


def kind_of_bytes(start: bytes) -> Literal["H5", ".keras", "config", "list of checkpoints"] | None:
    """Return what a file is by its first bytes, of which some hundred tell; None if it is of no kind that has state."""
    if start.startswith(b"\x89HDF\r\n\x1a\n"):
        return "H5"
    if start.startswith(b"PK"):
        return ".keras"
    if start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return "config"
    return "list of checkpoints" if start.startswith(b"model_checkpoint_path") else None
