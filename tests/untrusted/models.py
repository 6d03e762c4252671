"""Models with a place for everything that a config can name, saved in each format, and the configs in them changed."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import tempfile
import zipfile
from collections.abc import Callable
from typing import Any

import h5py
import keras
import tf_keras
from tf_keras.protobuf import saved_metadata_pb2

import mpls.keras

# Each as `(Keras, format)`.
KINDS = [("tf_keras", ".keras"), ("tf_keras", ".h5"), ("tf_keras", ""), ("keras", ".keras"), ("keras", ".h5")]
FRAMEWORKS: dict[str, Any] = {"tf_keras": tf_keras, "keras": keras}
Change = Callable[[dict[str, Any]], None]


def model(framework: str) -> Any:
    """Return a small functional model, compiled."""
    k = FRAMEWORKS[framework]
    inputs = k.layers.Input([3, 2], name="inputs")
    dense = k.layers.Dense(
        2,
        activation="relu",
        kernel_initializer="he_normal",
        kernel_regularizer=k.regularizers.L2(1e-3),
        bias_constraint=k.constraints.NonNeg(),
        name="dense",
    )
    rnn = k.layers.RNN(k.layers.LSTMCell(2), name="rnn")
    around = k.layers.TimeDistributed(k.layers.Dense(2), name="around")
    nested = k.Sequential([k.layers.Dense(1, name="inner")], name="nested")
    result = k.Model(inputs, nested(rnn(around(dense(inputs)))), name="model")
    rate = k.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)
    result.compile(mpls.keras.LossScaleOptimizer(k.optimizers.Adam(rate)), loss="mse", metrics=["mae"])
    return result


class Templates:
    """One file of each kind, made when it is first asked for."""

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp()
        self._made: dict[tuple[str, str], str] = {}

    def path(self, framework: str, suffix: str) -> str:
        key = (framework, suffix)
        if key not in self._made:
            self._made[key] = os.path.join(self._folder, framework, f"model{suffix}")
            mpls.keras.save_model(model(framework), self._made[key])
        return self._made[key]

    def changed(self, framework: str, suffix: str, folder: pathlib.Path, change: Change) -> str:
        """Return a copy with its configs changed.

        Args:
            framework: which Keras.
            suffix: the format, as in `KINDS`.
            folder: where the copy goes.
            change: gets `{"model": config, "compile": config}`, in the dialect of the format, and changes it.
        """
        target = str(folder / f"model{suffix}")
        source = self.path(framework, suffix)
        if suffix == "":
            shutil.copytree(source, target)
            _change_saved_model(os.path.join(target, "keras_metadata.pb"), change)
        elif suffix == ".h5":
            shutil.copy(source, target)
            _change_h5(target, change)
        else:
            _change_archive(source, target, change)
        return target

    def remove(self) -> None:
        shutil.rmtree(self._folder)


def _change_archive(source: str, target: str, change: Change) -> None:
    with zipfile.ZipFile(source) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    config = json.loads(content["config.json"])
    parts = {"model": config, "compile": config.pop("compile_config")}
    change(parts)
    content["config.json"] = json.dumps({**parts["model"], "compile_config": parts["compile"]}).encode()
    with zipfile.ZipFile(target, "w") as archive:
        for name, value in content.items():
            archive.writestr(name, value)


def _change_h5(path: str, change: Change) -> None:
    with h5py.File(path, "r+") as file:
        training = json.loads(file.attrs["training_config"])
        parts = {"model": json.loads(file.attrs["model_config"]), "compile": _Renamed(training)}
        change(parts)
        file.attrs["model_config"] = json.dumps(parts["model"])
        file.attrs["training_config"] = json.dumps(training)


def _change_saved_model(path: str, change: Change) -> None:
    metadata = saved_metadata_pb2.SavedMetadata()
    metadata.ParseFromString(pathlib.Path(path).read_bytes())
    root = next(node for node in metadata.nodes if node.node_path == "root")
    content = json.loads(root.metadata)
    change({"model": content, "compile": _Renamed(content["training_config"])})
    root.metadata = json.dumps(content)
    pathlib.Path(path).write_bytes(metadata.SerializeToString())


class _Renamed(dict[str, Any]):
    """The training config of older formats, by the keys of `.keras` files."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._config = config

    def __getitem__(self, key: str) -> Any:
        return self._config[self._name(key)]

    def __setitem__(self, key: str, value: Any) -> None:
        self._config[self._name(key)] = value

    def update(self, **changes: Any) -> None:  # type: ignore[override]
        for key, value in changes.items():
            self[key] = value

    def _name(self, key: str) -> str:
        return "optimizer_config" if key == "optimizer" else key


def layer(parts: dict[str, Any], name: str) -> Any:
    """Return the config of a layer of the model."""
    return next(each for each in parts["model"]["config"]["layers"] if each["config"]["name"] == name)
