"""`load_model`: the framework's own loader, and then the compilation and the optimizer's state that it leaves out."""

from __future__ import annotations

import inspect
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any, Literal

from mpls.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    Described,
    MissingFileError,
    SavedStateError,
    error_text,
)
from mpls.formats.families import Framework
from mpls.formats.file_kinds import INDEX, TRAINING_CONFIG, TRAINING_OPTIMIZER
from mpls.formats.record import FileRecord
from mpls.formats.validity import ANCHOR
from mpls.formats.wrapper_state import WRAPPER
from mpls.keras.files.native_wrappers import native_wrappers_loadable
from mpls.keras.files.optimizer_state import restore_optimizer, warn_of_default_optimizer
from mpls.keras.files.saving import breaks_on_some_pythons, pack_weights
from mpls.keras.marked_configs import reading_all_as_ours, wrapped_optimizer_follows
from mpls.keras.optimizer import LossScaleOptimizer
from mpls.saved.foreign_files import broken
from mpls.saved.model_files import H5Model, ModelFile
from mpls.saved.reading import opened_model
from mpls.upstream.keras_packages import ObjectsOfUser, h5_loader_of_keras, native_keras_wrappers

# The settings in a Keras 3 H5 file that `compile` gets as they are. Such files do not hold the state of metrics.
_PASSED_ON = ("loss_weights", "run_eagerly", "steps_per_execution", "jit_compile")
# On Linux, a folder of links to the open files of the process. A link stays valid if the file's path changes.
_OPEN_FILES = "/proc/self/fd"
# In bytes. Some systems hold temporary files in memory, and may have no room for more.
_LARGE = 1 << 29


def load_model(
    path: str | os.PathLike[str],
    custom_objects: dict[str, Any] | None = None,
    compile: bool = True,  # noqa: A002 - the name that both Kerases have
    safe_mode: bool = True,
    *,
    keras: Literal["tf_keras", "keras"] | ModuleType | None = None,
    **kwargs: Any,
) -> Any:
    """Load a model with the weights, optimizer, loss scale and counters that the file holds.

    Examples:
        >>> import os, tempfile
        >>> import numpy as np, tf_keras, mpls.keras
        >>> model = tf_keras.Sequential([tf_keras.layers.Dense(1, input_shape=(1,))])
        >>> opt = mpls.keras.LossScaleOptimizer(tf_keras.optimizers.SGD(0.5, 0.5), initial_scale=8)
        >>> model.compile(opt, "mse")
        >>> _ = model.fit(np.ones([2, 1]), np.ones([2, 1]), verbose=0)
        >>> path = os.path.join(tempfile.mkdtemp(), "model.keras")
        >>> mpls.keras.save_model(model, path)
        >>> again = mpls.keras.load_model(path)
        >>> int(again.optimizer.iterations), int(again.optimizer.dynamic_counter)
        (1, 1)

    The file is an H5 file, a SavedModel or a `.keras` file of tf_keras, of `tf.keras` since TF 2.2, or of Keras 3. A
    native wrapper is loaded as `mpls.keras.LossScaleOptimizer`. An optimizer without a wrapper gets none. mpls also
    reads the state that Keras' own loaders lose: slots in a SavedModel, H5 files of Keras 3, and models that were
    compiled with another global policy. If the file lacks some state, this state gets its initial values, and one
    warning lists it.

    Args:
        path: the file, or the folder of a SavedModel: a string or path object.
        custom_objects: your own classes and functions, by name.
        compile: whether to compile the model, if it was compiled. With False, the optimizer is not read.
        safe_mode: whether to refuse a file that names an unknown class, function or graph op. Pass your own classes and
            functions in `custom_objects`, or register them. See `mpls docs security`.
        keras: the Keras that loads the file: `'tf_keras'`, `'keras'`, or the module; by default the Keras that wrote
            it.
        **kwargs: other arguments of Keras' own loader, such as `options` for a SavedModel.

    Returns:
        The model, of tf_keras or of Keras 3.

    Raises:
        FileNotFoundError: the file does not exist.
        TypeError: `custom_objects` is not a dict, or `safe_mode` is not a bool.
        SavedStateError: a ValueError that names the file and the key. The file is broken or not a model, `safe_mode`
            refuses it, or the state of its optimizer is not valid.
        ValueError: `keras` is not one of the two, or cannot load the format.

    Reproduces:
        `tf.keras.models.load_model` of TF 2.2 to 2.15, `tf_keras.models.load_model` and `keras.models.load_model`. They
        do not restore the current loss scale (except Keras 3 from `.keras` files), nor all of the optimizer's state.
    """
    objects = _own_objects(custom_objects)
    _require_bool("safe_mode", safe_mode)
    path = _existing(os.fspath(path))
    with opened_model(path) as file:
        if file is None:
            constraint = "be a model: a SavedModel folder, an H5 file or a .keras file"
            advice = "Checkpoints are restored by tf.train.Checkpoint(model=model, optimizer=optimizer).restore(path)"
            kind = "folder" if os.path.isdir(path) else "file"
            is_checkpoint = any(name.endswith(INDEX) for name in (os.listdir(path) if kind == "folder" else [path]))
            got = Described("a checkpoint" if is_checkpoint else f"another {kind}")
            raise broken(path, "", constraint, got, advice)
        file.require_whole()
        model = _load(file, _Request(_framework(file, keras), objects, compile, safe_mode, kwargs))
        file.require_unchanged()
    return model


def _existing(path: str) -> str:
    # `save_model` may have been killed between the two renames with which it replaces a folder.
    for each in (path, f"{path}.old"):
        if os.path.exists(each):
            return each
    if os.path.exists(path + INDEX):
        return path + INDEX
    advice = f"There is no such file or folder; see what is in {os.path.dirname(os.path.abspath(path))!r}"
    raise MissingFileError(error_text("mpls.keras.load_model: path", "exist", path, advice, ANCHOR))


@dataclass(frozen=True)
class _Request:
    """The arguments of `load_model`, and the framework that loads the file."""

    framework: Framework
    custom_objects: dict[str, Any]
    with_compile: bool
    safe_mode: bool
    others: dict[str, Any]


def _load(file: ModelFile, request: _Request) -> Any:
    """Check the whole file, have the framework load the model, and restore the optimizer."""
    framework = request.framework
    if request.safe_mode:
        own = ObjectsOfUser(import_module(framework), request.custom_objects)
        file.refuse_unsafe(own, with_compile=request.with_compile)
    # Read the record before the model is made, so that invalid state is refused first.
    record: FileRecord | None = file.record() if request.with_compile else None
    with warnings.catch_warnings():
        # `restore_optimizer` restores the state that this warning is about.
        warnings.filterwarnings("ignore", "Skipping variable loading for optimizer", UserWarning)
        with _any_error_as_ours(file, "the model", framework):
            model = _load_natively(file, request)
    if file.format != "SavedModel" and not isinstance(model, import_module(framework).Model):
        raise broken(file.path, "the file", "hold a model", model)
    if record is not None:
        with _any_error_as_ours(file, "the optimizer", framework):
            if file.is_of_weights:
                warn_of_default_optimizer(model, file, record)
            else:
                restore_optimizer(model, file, record, request.custom_objects)
    return model


@contextmanager
def _any_error_as_ours(file: ModelFile, part: str, framework: Framework) -> Iterator[None]:
    """Turn an exception that a framework raises in the block into a SavedStateError; warnings stay what they are."""
    try:
        yield
    except (SavedStateError, Warning):
        raise
    except Exception as error:
        got = f"{type(error).__name__}: {error}"
        raise broken(file.path, part, f"be one that {framework} can load", got) from error


def _own_objects(custom_objects: Any) -> dict[str, Any]:
    if custom_objects is not None and not isinstance(custom_objects, Mapping):
        subject = "mpls.keras.load_model: custom_objects"
        advice = "mpls.keras.load_model(path, custom_objects={'MyLayer': MyLayer})"
        raise ArgumentTypeError(error_text(subject, "be a dict of objects by name", custom_objects, advice, ANCHOR))
    return dict(custom_objects or {})


def _require_bool(name: str, value: Any) -> None:
    """Refuse all but a bool: another false value, such as None, must not switch the checks off."""
    if not isinstance(value, bool):
        advice = f"mpls.keras.load_model(path, {name}=True)"
        raise ArgumentTypeError(error_text(f"mpls.keras.load_model: {name}", "be a bool", value, advice, ANCHOR))


def _framework(file: ModelFile, asked: Any) -> Framework:
    if asked is None:
        return file.framework
    framework: Any = getattr(asked, "__name__", asked)
    subject, advice = "mpls.keras.load_model: keras", f"mpls.keras.load_model({file.path!r}, keras='tf_keras')"
    if framework not in ("tf_keras", "keras"):
        raise ArgumentValueError(error_text(subject, "be 'tf_keras' or 'keras'", asked, advice, ANCHOR))
    if framework == "keras" and file.format == "SavedModel":
        advice = "Load it with tf_keras, and convert the optimizer's state with mpls.convert_state"
        constraint = "be 'tf_keras' for a SavedModel, which Keras 3 does not read"
        raise ArgumentValueError(error_text(subject, constraint, asked, advice, ANCHOR))
    known: Framework = framework
    return known


def _load_natively(file: ModelFile, request: _Request) -> Any:
    framework, module = request.framework, import_module(request.framework)
    # Drop native wrappers from custom_objects: in files, their name stands for the class of mpls.
    natives = native_keras_wrappers()
    custom_objects = {name: each for name, each in request.custom_objects.items() if each not in natives}
    compiles_here = request.with_compile and framework == "keras" and file.format == "H5"
    # Of Keras 3's loaders, this one alone takes an open H5 file.
    load_h5 = h5_loader_of_keras() if framework == "keras" else module.models.load_model
    load = load_h5 if load_h5 is not None and file.format == "H5" else module.models.load_model
    with (
        _as_it_was(file, framework, takes_h5=load is load_h5) as source,
        wrapped_optimizer_follows.raised() if file.has_wrapped_optimizer else nullcontext(),
        reading_all_as_ours(),
        native_wrappers_loadable(),
    ):
        model = load(
            source,
            custom_objects=custom_objects,
            compile=request.with_compile and not compiles_here,
            # Keras 3 has it for H5 files too, but not in each release.
            **({"safe_mode": request.safe_mode} if "safe_mode" in inspect.signature(load).parameters else {}),
            **request.others,
        )
    if compiles_here:
        _compile_from_h5(model, file, custom_objects)
    return model


@contextmanager
def _as_it_was(file: ModelFile, framework: Framework, *, takes_h5: bool) -> Iterator[Any]:
    """Yield the argument with which a framework's loader reads the file that was checked.

    Args:
        file: the file.
        framework: the framework.
        takes_h5: whether the loader takes an open `h5py.File`.
    """
    if takes_h5 and isinstance(file, H5Model):
        yield file.content.file
    elif file.file is None:
        yield file.path
    else:
        with _path_of_open_file(file) as path, tempfile.TemporaryDirectory(prefix=".mpls-") as folder:
            if (
                file.format == ".keras"
                and framework == "tf_keras"
                and sys.hexversion >= 0x030C0000
                and breaks_on_some_pythons(path)
            ):
                packed = os.path.join(folder, "model.keras")
                pack_weights(path, packed)
                path = packed
            yield path


@contextmanager
def _path_of_open_file(file: ModelFile) -> Iterator[str]:
    """Yield a path that leads to an open file, even if another file is moved to the original path.

    Systems without `/proc/self/fd` have no such paths. They get the original path, which must lead there at the end.
    """
    if file.file is None or not os.path.isdir(_OPEN_FILES):
        yield file.path
        if file.file is not None and not os.path.samestat(os.stat(file.path), os.fstat(file.file.fileno())):
            raise file.changed("another one at its place")
        return
    # Keras 3 may unpack weights beside the link. So a large file gets it in its own folder.
    folder = os.path.dirname(os.path.abspath(file.path))
    is_large = os.fstat(file.file.fileno()).st_size > _LARGE and os.access(folder, os.W_OK)
    with tempfile.TemporaryDirectory(prefix=".mpls-", dir=folder if is_large else None) as made:
        # Frameworks tell the format by the suffix.
        link = os.path.join(made, "model.keras" if file.format == ".keras" else "model.h5")
        os.symlink(f"{_OPEN_FILES}/{file.file.fileno()}", link)
        yield link


def _compile_from_h5(model: Any, file: ModelFile, custom_objects: dict[str, Any]) -> None:
    """Compile a Keras 3 model as its H5 file says.

    Keras' own loader (3.6 to 3.15) fails if a loss or metric has a short name such as `'mse'`, and builds the optimizer
    such that it cannot train.

    Args:
        model: the model, not compiled.
        file: the file.
        custom_objects: classes and functions of the user by name.
    """
    keras = import_module("keras")
    settings = file.configs.get(TRAINING_CONFIG)
    if not isinstance(settings, dict):
        return
    with keras.saving.CustomObjectScope(custom_objects):
        optimizer = _optimizer(keras, settings[TRAINING_OPTIMIZER[1]], custom_objects)
        arguments = {key: settings[key] for key in _PASSED_ON if settings.get(key) is not None}
        for key, made in (("loss", keras.losses), ("metrics", keras.metrics), ("weighted_metrics", keras.metrics)):
            arguments[key] = _resolved(settings.get(key), made.deserialize)
        model.compile(optimizer=optimizer, **arguments)


def _optimizer(keras: ModuleType, config: dict[str, Any], custom_objects: dict[str, Any]) -> Any:
    if config["class_name"] == WRAPPER and WRAPPER not in custom_objects:
        # Keras would make its native wrapper, which has no fixed scale.
        return LossScaleOptimizer.from_config(config["config"], custom_objects)
    return keras.optimizers.deserialize(config)


def _resolved(config: Any, deserialize: Callable[[Any], Any]) -> Any:
    """Return a loss or metrics, nested as in the config, within the scope of the user's own objects.

    Names of built-in ones stay, since `compile` takes them; it does not take those of the user's functions.
    """
    if isinstance(config, str):
        return import_module("keras").saving.get_registered_object(config) or config
    if isinstance(config, dict) and "class_name" in config:
        return deserialize(config)
    if isinstance(config, dict):
        return {key: _resolved(value, deserialize) for key, value in config.items()}
    if isinstance(config, (list, tuple)):
        return [_resolved(value, deserialize) for value in config]
    return config
