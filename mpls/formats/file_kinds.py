"""The kinds of files that hold training state: the names of their parts, and the first bytes that tell them apart."""

from __future__ import annotations

from typing import Literal

# The formats that hold a whole model.
ModelFormat = Literal["SavedModel", "H5", ".keras"]
# The formats that hold the state of an optimizer.
Format = Literal["object checkpoint", "v1 checkpoint", "SavedModel", "H5", ".keras", "config"]

# In a SavedModel folder: the graph, Keras' metadata (from TF 2.5 on), and the name of the checkpoint and of its folder.
SAVED_MODEL, KERAS_METADATA, VARIABLES = "saved_model.pb", "keras_metadata.pb", "variables"
# In Keras' metadata: the place of the model, and the kinds of the object there that are models.
ROOT, MODEL_KINDS = "root", ("_tf_keras_network", "_tf_keras_model", "_tf_keras_sequential")
# In a `.keras` archive: the model's config, and the versions of Keras and of the format; the weights, and the member
# that Keras reads if these are missing; and what mpls.keras.save_model adds, as tf_keras does not save the weights of
# legacy optimizers.
ARCHIVE_CONFIG, ARCHIVE_METADATA = "config.json", "metadata.json"
ARCHIVE_WEIGHTS, ARCHIVE_ARRAYS = "model.weights.h5", "model.weights.npz"
LEGACY_WEIGHTS = "optimizer_weights.npz"
# In the metadata of an archive, and in an H5 file of a model: the version of Keras.
KERAS_VERSION = "keras_version"
# In an H5 file of a model: its config, and the groups of its weights and of those of its optimizer, by name.
MODEL_CONFIG, MODEL_WEIGHTS, OPTIMIZER_WEIGHTS = "model_config", "model_weights", "optimizer_weights"
# In an H5 file of weights, and in that of an archive, the groups of numbered variables: of the optimizer, or of a
# wrapper; and of the optimizer in a wrapper.
OPTIMIZER_VARS, WRAPPED_VARS = "optimizer/vars", "optimizer/inner_optimizer/vars"
# The key of the arguments of `compile`, and the keys that lead to the optimizer's config: in the config of a `.keras`
# file, and in H5 files and Keras' metadata.
COMPILE_CONFIG, TRAINING_CONFIG = "compile_config", "training_config"
COMPILED_OPTIMIZER, TRAINING_OPTIMIZER = (COMPILE_CONFIG, "optimizer"), (TRAINING_CONFIG, "optimizer_config")
# The file in a folder of checkpoints that names the latest one, and the key of that name, with which the file begins.
LATEST, LATEST_KEY = "checkpoint", "model_checkpoint_path"
# A checkpoint is an index, `<prefix>.index`, and data files, `<prefix>.data-00000-of-00001` and so on.
INDEX = ".index"
_DATA = ".data-"


def data_file(prefix: str, shard: int, shards: int) -> str:
    """Return the path of one data file of a checkpoint that has `shards` of them."""
    return f"{prefix}{_DATA}{shard:05d}-of-{shards:05d}"


def checkpoint_prefixes(path: str) -> list[str]:
    """Return the prefixes of the checkpoint that a path may stand for: a prefix, an index or a data file."""
    prefixes = [path]
    if path.endswith(INDEX):
        prefixes.append(path.removesuffix(INDEX))
    head, separator, rest = path.rpartition(_DATA)
    if separator and rest.replace("-of-", "").isdecimal():
        prefixes.append(head)
    return prefixes


def kind_of_bytes(start: bytes) -> Literal["H5", ".keras", "config", "list of checkpoints"] | None:
    """Return the kind of a file, told by its first bytes; None if it is no kind that holds state.

    A text may start with blanks, so pass some hundred bytes.
    """
    if start.startswith(b"\x89HDF\r\n\x1a\n"):
        return "H5"
    if start.startswith(b"PK"):
        return ".keras"
    if start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return "config"
    return "list of checkpoints" if start.startswith(LATEST_KEY.encode()) else None
