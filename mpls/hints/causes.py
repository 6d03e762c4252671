"""The known causes of errors in programs for earlier TensorFlow releases, a row for each, and the hint for an error.

Imported only after an error, since its own imports take time.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import mpls.hints.keras as keras
import mpls.hints.missing_members as missing_members
from mpls.hints.callees import makers_of, mentions_class
from mpls.hints.failures import Failure
from mpls.hints.removed_names import removal_of
from mpls.hints.sites import original, site_of
from mpls.optimizer_members import ATTRIBUTES_OF_LOSS_SCALES

__all__ = ["ROWS", "Row", "hint_of"]

# Up to TF 2.3, `opt.loss_scale` was a LossScale object with these attributes; no tensor has them.
_OF_LOSS_SCALES = {*ATTRIBUTES_OF_LOSS_SCALES, "update", "get_config"}


@dataclass(frozen=True)
class Row:
    """A known cause of errors.

    Attributes:
        applies: returns whether it caused a failure; or a text, which replaces `says`.
        says: the explanation, in a sentence.
        option: the option of `mpls run` that helps; empty if none does.
        anchor: the heading of MIGRATION.md that says more.
    """

    applies: Callable[[Failure], bool | str]
    says: str
    option: str = ""
    anchor: str = "programs-as-they-are"


def _tensors() -> tuple[type, ...]:
    tf = sys.modules.get("tensorflow")
    return () if tf is None else (tf.Tensor,)


def _is_experimental_wrapper(value: Any) -> bool:
    wrapper = _experimental_wrapper()
    return wrapper is not None and isinstance(value, wrapper)


def _experimental_wrapper() -> Any:
    """Return the class of experimental wrappers; None if the program has not loaded it: then there is no instance."""
    if "mpls.experimental" not in sys.modules:
        return None
    from mpls.experimental import LossScaleOptimizer

    return LossScaleOptimizer


def _calls_a_loss_scale(failure: Failure) -> bool:
    if failure.settings.get("as_of") is not None or not isinstance(failure.error, TypeError):
        return False
    if "object is not callable" not in str(failure.error):
        return False
    site = failure.site
    is_called = site.is_call and site.reads[-1:] == ("loss_scale",)
    return is_called and (_is_experimental_wrapper(site.owner("loss_scale")) or _is_of_new_wrapper(failure))


def _is_of_new_wrapper(failure: Failure) -> bool:
    """Return whether `loss_scale` is read from the result of a call that makes an experimental wrapper."""
    wrapper = _experimental_wrapper()
    if wrapper is None or failure.site.base is not None:
        return False
    makers = list(makers_of(failure.site, "loss_scale"))
    return bool(makers) and all(mentions_class(each, wrapper) for each in makers)


def _reads_of_a_loss_scale(failure: Failure) -> bool:
    holder, name = failure.missing
    if failure.settings.get("as_of") is not None or name not in _OF_LOSS_SCALES:
        return False
    # Only LossScale objects had the private ones, but `loss_scale` in the expression may be the program's own.
    is_private = name.startswith("_") and "loss_scale" not in failure.site.reads
    is_certain = is_private or _is_experimental_wrapper(failure.site.owner("loss_scale"))
    return isinstance(holder, _tensors()) and (is_certain or _is_of_new_wrapper(failure))


def _reads_loss_scale_of_a_config(failure: Failure) -> bool:
    is_missing = isinstance(failure.error, KeyError) and failure.error.args == ("loss_scale",)
    if failure.settings.get("as_of") is not None or not is_missing:
        return False
    wrapper = failure.site.owner_of_call("get_config")
    config = failure.site.key_is_read_of("loss_scale", "get_config")
    is_of_wrapper = config is True or (isinstance(config, dict) and config.keys() == wrapper.get_config().keys())
    return _is_experimental_wrapper(wrapper) and is_of_wrapper


def _needs_contrib(failure: Failure) -> bool:
    if failure.settings.get("contrib"):
        return False
    return any(f"{path}.".startswith("tf.contrib.mixed_precision.") for path in failure.missing_paths)


def _needs_v1(failure: Failure) -> bool:
    if failure.settings.get("v1"):
        return False
    tf = sys.modules.get("tensorflow")
    v1 = None if tf is None else getattr(tf.compat, "v1", None)
    paths = failure.missing_paths
    # With `--v1`, `tf.python` is an attribute, as in TF 1.
    is_private = isinstance(failure.error, AttributeError) and failure.missing == (tf, "python")
    return is_private or any(v1 is not None and _is_in(v1, path.split(".")[1:]) for path in paths)


def _is_in(v1: Any, parts: list[str]) -> bool:
    """Return whether TF 1 has a path; beyond the first object that is not a module, attributes may be missing."""
    if not parts or parts[0] in ("keras", "python", "compat", "contrib"):
        return False
    value = v1
    for number, part in enumerate(parts):
        if not hasattr(value, part):
            return number > 0 and not isinstance(value, ModuleType)
        value = getattr(value, part)
    return True


def _makes_placeholders(failure: Failure) -> bool:
    is_refused = isinstance(failure.error, RuntimeError) and str(failure.error).startswith(
        ("tf.placeholder() is not compatible with eager execution", "tf.sparse_placeholder() is not compatible")
    )
    return is_refused and not failure.settings.get("v1")


def _is_gone(failure: Failure) -> bool | str:
    found = next(filter(None, map(removal_of, failure.missing_paths)), None)
    return found is not None and found[1]


ROWS = (
    Row(
        _calls_a_loss_scale,
        "opt.loss_scale is a tensor since TF 2.4; before, it was an object to call",
        "--as-of 2.3",
        "as-of",
    ),
    Row(
        _reads_of_a_loss_scale,
        "opt.loss_scale is a tensor since TF 2.4; before, it was an object that had this attribute",
        "--as-of 2.3",
        "as-of",
    ),
    Row(
        _reads_loss_scale_of_a_config,
        "the config of a wrapper has initial_scale and dynamic_growth_steps since TF 2.4; before, it had loss_scale",
        "--as-of 2.3",
        "as-of",
    ),
    Row(
        missing_members.needs_wrapper_of_mpls,
        "the LossScaleOptimizer of this Keras is another class than the one of TF 2.4, and has no such thing",
        "--replace-existing",
    ),
    Row(
        missing_members.subclasses_wrapper_of_keras_2,
        "the LossScaleOptimizer of this Keras is a class that cannot be derived from",
        "--replace-existing",
    ),
    Row(
        missing_members.scales_with_wrapper_of_compile,
        "compile of Keras 3 has wrapped this optimizer, by a class that has no such thing",
        "--keras 2",
        "keras-2",
    ),
    Row(
        missing_members.needs_keras_2_for_optimizers,
        "optimizers of Keras 3 have no such thing, those of Keras 2 had",
        "--keras 2",
        "keras-2",
    ),
    Row(_needs_contrib, "tf.contrib.mixed_precision is put back if it is asked for", "--contrib", "contrib"),
    Row(_is_gone, "", anchor="removed-with-tf-1"),
    Row(
        missing_members.needs_legacy_optimizers_of_keras_2,
        "optimizers have had this up to TF 2.10",
        "--legacy-optimizers",
        "keras-2",
    ),
    Row(
        missing_members.needs_legacy_optimizers,
        "optimizers have had this up to TF 2.10",
        "--keras 2 --legacy-optimizers",
        "keras-2",
    ),
    Row(
        keras.loads_a_folder,
        "Keras 3 does not load SavedModels, Keras 2 does",
        "--keras 2",
        "keras-2",
    ),
    Row(
        keras.saves_to_a_folder,
        "Keras 3 saves to files with an extension, Keras 2 to folders and checkpoints too",
        "--keras 2",
        "keras-2",
    ),
    Row(keras.needs_keras_2, "Keras 3 has no such thing, Keras 2 had", "--keras 2", "keras-2"),
    Row(_needs_v1, "this is a name of TF 1", "--v1"),
    Row(_makes_placeholders, "this is a program of TF 1, whose graphs TF 2 does not build by itself", "--v1"),
)


def hint_of(error: BaseException, settings: Mapping[str, Any], function: Any = None) -> str | None:
    """Return a line about the cause of an error; None if the cause is not certain.

    Args:
        error: the error that ended a program.
        settings: the arguments of `install` that apply.
        function: `install`, for programs that call it; None for `mpls run`.
    """
    # A failure while looking for the hint must not hide the program's own error.
    try:
        first = original(error)
        site = site_of(first)
        if site is None:
            return None
        failure = Failure(first, error, site, settings)
        if failure.is_of_the_program:
            return None
        return next((_line(row, says, function) for row in ROWS if (says := row.applies(failure))), None)
    except Exception:
        return None


def _line(row: Row, says: bool | str, function: Any) -> str:
    text = says if isinstance(says, str) else row.says
    if row.option:
        text = f"{text}. {_advice(row.option, function)}"
    return f"{'mpls' if function is not None else 'mpls run'}: {text}. See mpls docs {row.anchor}"


def _advice(option: str, function: Any) -> str:
    options = [each.partition(" ") for each in option.removeprefix("--").split(" --")]
    arguments = {name.replace("-", "_"): value for name, _, value in options}
    if function is not None and arguments.keys() <= inspect.signature(function).parameters.keys():
        shown = (f"{name}={_argument(value)}" for name, value in arguments.items())
        return f"Call mpls.install({', '.join(shown)})"
    return f"Run it with {'' if function is None else 'mpls run '}{option}"


def _argument(value: str) -> str:
    return (value if value.isdigit() else repr(value)) if value else "True"
