"""`load_model`: the framework's own loader, and after it all the state that the file holds."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any, Literal

from mpls.errors import ArgumentTypeError, ArgumentValueError, SavedStateError, error_text
from mpls.formats.families import Framework
from mpls.formats.record import FileRecord
from mpls.formats.validity import ANCHOR
from mpls.keras.files.contents import ModelFile, opened_model
from mpls.keras.files.graph_ops import refuse_graph_ops
from mpls.keras.files.model_limits import limited, refuse_too_many_layers
from mpls.keras.files.optimizer_state import restore_optimizer
from mpls.keras.files.safety import refuse_unsafe_configs
from mpls.keras.own_files import reading_all_as_ours
from mpls.keras.state_in_files import wrapped_optimizer_follows
from mpls.saved.errors import broken
from mpls.saved.hdf5 import H5Model
from mpls.upstream.kerases import native_keras_wrappers
from mpls.upstream.loading import OwnObjects, h5_loader_of_keras, has_class


def load_model(
    path: str | os.PathLike[str],
    custom_objects: dict[str, Any] | None = None,
    compile: bool = True,  # noqa: A002 - the name that both Kerases have
    safe_mode: bool = True,
    *,
    keras: Literal["tf_keras", "keras"] | ModuleType | None = None,
    **kwargs: Any,
) -> Any:
    """Load a model with everything that its file holds: weights, optimizer, loss scale, counters.

    Reads H5, SavedModel and `.keras` files of every release since TF 2.2, written by tf_keras, by `tf.keras`, or by
    Keras 3, with a wrapper of mpls, with a native one, or without. A native wrapper comes back as
    `mpls.keras.LossScaleOptimizer`; a bare optimizer stays bare. What the framework's own loader leaves out, the
    optimizer's slots in a SavedModel for example, is read from the file. What the file itself does not hold starts
    anew, and one warning says what that is.

    Also comes back: a Keras 3 model whose optimizer `compile` had wrapped by itself under `mixed_float16`, which Keras
    loads under another policy without the optimizer's state; and Keras 3's H5 files.

    Args:
        path: the file, or the SavedModel's folder: a string or path object.
        custom_objects: classes and functions of the user by name.
        compile: whether to compile the model, if it was. If not, nothing is read of the optimizer.
        safe_mode: whether to refuse a file that names a class, a function or an op of a graph that is neither known to
            be harmless nor yours, in `custom_objects` or registered; in every format, also where the framework would
            run it. SECURITY.md says what else is refused.
        keras: which Keras loads it, `'tf_keras'` or `'keras'`, or the module itself; by default the one that wrote it.
        **kwargs: what else the loader of tf_keras takes, as `options` for a SavedModel.

    Returns:
        The model, of tf_keras or of Keras 3.

    Raises:
        FileNotFoundError: there is no such file.
        TypeError: `custom_objects` is no dict.
        SavedStateError: the file is broken, is no model, holds under `safe_mode` what is not known to be harmless, or
            state that no optimizer can have; a ValueError. It names file and key, and no model is returned.
        ValueError: `keras` is none of the two, or cannot load the format.

    Reproduces:
        `tf.keras.models.load_model` of TF 2.2 to 2.15, `tf_keras.models.load_model` and `keras.models.load_model`. They
        give back neither the current loss scale (Keras 3 does, in `.keras` files) nor all of the optimizer's state.

    Example:
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
    """
    objects = _own_objects(custom_objects)
    with opened_model(os.fspath(path)) as file:
        model = _load(file, _Request(_framework(file, keras), objects, compile, safe_mode, kwargs))
        if file.pinned is not None:
            file.pinned.require_unchanged()
    return model


@dataclass(frozen=True)
class _Request:
    """What `load_model` was asked for, with the framework that was found."""

    framework: Framework
    custom_objects: dict[str, Any]
    with_compile: bool
    safe_mode: bool
    others: dict[str, Any]


def _load(file: ModelFile, request: _Request) -> Any:
    """Look at all of a file, then have the framework make the model, and restore the optimizer."""
    framework, safe_mode = request.framework, request.safe_mode
    names_own = False
    if safe_mode:
        own = OwnObjects(import_module(framework), request.custom_objects)
        names_own = refuse_unsafe_configs(file, own, has_class, request.with_compile)
        refuse_too_many_layers(file)
        if file.format == "SavedModel":
            refuse_graph_ops(file.path)
    # Before the model is made: what cannot be restored is refused.
    record: FileRecord | None = file.record() if request.with_compile else None
    with warnings.catch_warnings():
        # Said of the state that is read below.
        warnings.filterwarnings("ignore", "Skipping variable loading for optimizer", UserWarning)
        with (
            _any_error_as_ours(file, "the model", framework),
            limited(file, with_own=names_own) if safe_mode else nullcontext(),
        ):
            model = _load_natively(file, request)
    if file.format != "SavedModel" and not isinstance(model, import_module(framework).Model):
        raise broken(file.path, "the file", "hold a model", model)
    if record is not None:
        with _any_error_as_ours(file, "the optimizer", framework):
            restore_optimizer(model, file, record)
    return model


@contextmanager
def _any_error_as_ours(file: ModelFile, part: str, framework: Framework) -> Iterator[None]:
    """Have what the frameworks raise over what a file holds, which is anything, be a SavedStateError."""
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


def _framework(file: ModelFile, asked: Any) -> Framework:
    framework: Any = getattr(asked, "__name__", asked) or file.framework
    subject = "mpls.keras.load_model: keras"
    if framework not in ("tf_keras", "keras"):
        constraint = "be 'tf_keras' or 'keras'" + ("" if asked else ", as the file does not say which wrote it")
        raise ArgumentValueError(
            error_text(subject, constraint, asked, f"mpls.keras.load_model({file.path!r}, keras='tf_keras')", ANCHOR)
        )
    if framework == "keras" and file.format == "SavedModel":
        raise ArgumentValueError(
            error_text(
                subject,
                "be 'tf_keras' for a SavedModel, which Keras 3 does not read",
                asked,
                "Load it with tf_keras, and convert the optimizer's state with mpls.convert_state",
                ANCHOR,
            )
        )
    known: Framework = framework
    return known


def _load_natively(file: ModelFile, request: _Request) -> Any:
    framework, module = request.framework, import_module(request.framework)
    # Users who pass the native wrapper mean the class of that name, which here is that of mpls.
    natives = native_keras_wrappers()
    custom_objects = {name: each for name, each in request.custom_objects.items() if each not in natives}
    compiles_here = request.with_compile and framework == "keras" and file.format == "H5"
    # Keras 3 takes no open H5 file but there.
    load_h5 = h5_loader_of_keras() if framework == "keras" else module.models.load_model
    load = load_h5 if load_h5 is not None and file.format == "H5" else module.models.load_model
    with (
        _as_it_was(file, takes_h5=load is load_h5) as source,
        wrapped_optimizer_follows.raised() if file.has_wrapped_optimizer else nullcontext(),
        reading_all_as_ours(),
    ):
        model = load(
            source,
            custom_objects=custom_objects,
            compile=request.with_compile and not compiles_here,
            **({"safe_mode": request.safe_mode} if file.format == ".keras" else {}),
            **request.others,
        )
    if compiles_here:
        from mpls.keras.files.h5_compiling import compile_from_h5

        compile_from_h5(model, file, custom_objects)
    return model


def _as_it_was(file: ModelFile, *, takes_h5: bool) -> AbstractContextManager[Any]:
    """Return, for a block, what a framework's loader takes for the file that was looked at."""
    if takes_h5 and isinstance(file.content, H5Model):
        return nullcontext(file.content.file)
    return nullcontext(file.path) if file.pinned is None else file.pinned.at_a_path()
