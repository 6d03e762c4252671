"""How `fresh` names what it writes; for those who do not import the frameworks."""

from __future__ import annotations

# The ending of a folder: the format, and what a user would name in it.
FOLDERS = {".folder": ("saved_model", ""), ".checkpoint": ("checkpoint", "ckpt"), ".saver": ("v1", "ckpt")}
