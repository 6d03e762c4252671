"""`mpls inspect`: describes the contents of a file."""

from __future__ import annotations

import json
import math
import os
from typing import Any

from mpls.errors import SavedStateError, printable
from mpls.formats.algorithms import state_of
from mpls.formats.families import FAMILY_MODULES, Family
from mpls.formats.file_kinds import Format
from mpls.formats.record import LossScaleRecord, OptimizerRecord
from mpls.progress import wrapped
from mpls.saved.config_safety import NothingOwn
from mpls.saved.foreign_files import NotAnArtefactError
from mpls.saved.model_files import ModelFile
from mpls.saved.reading import in_memory, opened_model, read

__all__ = ["describe", "inspect", "text_of"]

WHOLE, BROKEN, NOTHING = 0, 1, 2

# The call that reads each format into the family that wrote it.
_READERS: dict[Format, str] = {
    "object checkpoint": "tf.train.Checkpoint.restore",
    "v1 checkpoint": "tf.compat.v1.train.Saver.restore",
    "SavedModel": "mpls.keras.load_model",
    "H5": "mpls.keras.load_model",
    ".keras": "mpls.keras.load_model",
    "config": "mpls.keras.LossScaleOptimizer.from_config",
}


def inspect(path: str, *, as_json: bool = False) -> tuple[int, str]:
    """Describe the contents of a file, and whether mpls can restore it.

    No code in the file is run, no other file is opened, and nothing is written.

    Args:
        path: a checkpoint, a SavedModel, an H5 file, a `.keras` file or a config in JSON.
        as_json: whether to return the result of `describe` as JSON instead of text for people.

    Returns:
        The exit status and the text. The status is 0; 1 if the file is broken; 2 if it does not exist, or is not of a
        format that any release wrote.
    """
    description = describe(path)
    text = json.dumps(description, indent=2, allow_nan=False) if as_json else text_of(description)
    return {"ok": WHOLE, "broken": BROKEN}.get(description["status"], NOTHING), text


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the contents of a file as a JSON-able dict.

    Args:
        path: as with `inspect`.

    Returns:
        These keys, always all of them. NaN and infinity are the strings `'nan'`, `'inf'` and `'-inf'`.

        * `path`: as given.
        * `status`: `'ok'`; `'broken'`: mpls refuses to restore it; or `'unknown'`: no release wrote such a file.
        * `reason`: what is wrong, a string; null if the status is `'ok'`.
        * `format`: `'object checkpoint'`, `'v1 checkpoint'`, `'SavedModel'`, `'H5'`, `'.keras'` or `'config'`; or null.
        * `written_by`: the releases that write it, in words; or null.
        * `refusal`: why `mpls.keras.load_model` refuses the file, a string, as where it holds Python code; null if it
          does not, and for files that `load_model` does not read. Classes of yours count as unknown here.
        * `optimizers`: a list of objects:

          * `key`: where it is in the file.
          * `family`: `'v1'`, `'legacy'`, `'new'` or `'keras3'`.
          * `algorithm`: its class in Keras, such as `'Adam'`; or null.
          * `iterations`: its steps, an int; or null.
          * `hyperparameters`: an object.
          * `slots`: `{"names": [...], "variables": int, "numbers": int}`, the last over all slots.
          * `other_state`: the names of other state.
          * `loss_scale`: null if it has none or is unknown, or `{"dynamic": bool, "scale": float, "good_steps": int,
            "initial_scale": float, "growth_steps": int, "multiplier": float, "options": object}`, with null for values
            not in the file. `options` has what only mpls has: arguments, and variables such as `bad_steps`.
          * `options`: arguments that only mpls has and that concern steps, an object.
          * `counts`: the counters of `count_steps` by name, an object; empty if there are none.
          * `possible_steps`: beta powers and a global step that belong to this optimizer or to another one of the file,
            by the names of their variables, an object.
          * `possible_scales`: the same for loss scales; the values are objects as in `loss_scale`.
          * `restores_into`: a list of `{"family": str, "by": str, "state": bool}`: the family of optimizers that it can
            be restored into, the call that does it, as `'mpls.convert_state'`, and whether that restores steps and
            slots or only settings.

    Examples:
        >>> import json, pathlib, tempfile
        >>> import mpls.inspect
        >>> path = pathlib.Path(tempfile.mkdtemp(), "config.json")
        >>> inner = {"class_name": "SGD", "config": {"learning_rate": 0.1}}
        >>> _ = path.write_text(json.dumps({"inner_optimizer": inner, "dynamic": False, "initial_scale": 64.0}))
        >>> description = mpls.inspect.describe(path)
        >>> description["format"], description["optimizers"][0]["loss_scale"]["scale"]
        ('config', 64.0)
    """
    result: dict[str, Any] = {
        "path": os.fspath(path),
        "status": "ok",
        "reason": None,
        "format": None,
        "written_by": None,
        "refusal": None,
        "optimizers": [],
    }
    refusal: str | None = None
    by = None
    try:
        with opened_model(os.fspath(path)) as model:
            record = read(path) if model is None else in_memory(model.record())
            if model is not None:
                refusal = _refusal(model)
                by = "model.load_weights" if model.is_of_weights else None
    except SavedStateError as error:
        status = "unknown" if isinstance(error, NotAnArtefactError) else "broken"
        return {**result, "status": status, "reason": str(error)}
    if by is None and refusal is None:
        by = _READERS[record.format]
    optimizers = [_optimizer(each, by) for each in record.optimizers]
    found = {"format": record.format, "written_by": record.written_by, "optimizers": optimizers}
    return {**result, **found, "refusal": refusal}


def _refusal(model: ModelFile) -> str | None:
    try:
        model.require_whole()
        _ = model.framework
        model.refuse_unsafe(NothingOwn())
    except SavedStateError as error:
        return str(error)
    return None


def _optimizer(optimizer: OptimizerRecord, by: str | None) -> dict[str, Any]:
    slots = [slot for variable in optimizer.variables for slot in variable.slots]
    return {
        "key": optimizer.key,
        "family": optimizer.family,
        "algorithm": optimizer.algorithm,
        "iterations": optimizer.iterations,
        "hyperparameters": _plain(dict(optimizer.hyperparameters)),
        "slots": {
            "names": list(dict.fromkeys(slots)),
            "variables": len(optimizer.variables),
            "numbers": sum(int(value.size) for variable in optimizer.variables for value in variable.slots.values()),
        },
        "other_state": list(optimizer.others),
        "loss_scale": None if optimizer.loss_scale is None else _loss_scale(optimizer.loss_scale),
        "options": _plain(dict(optimizer.options)),
        "counts": dict(optimizer.counts),
        "possible_steps": _plain(dict(optimizer.possible_steps)),
        "possible_scales": {name: _loss_scale(each) for name, each in optimizer.possible_scales.items()},
        "restores_into": _targets(optimizer, by),
    }


def _loss_scale(loss_scale: LossScaleRecord) -> dict[str, Any]:
    names = ("dynamic", "scale", "good_steps", "initial_scale", "growth_steps", "multiplier")
    values = {name: _plain(getattr(loss_scale, name)) for name in names}
    return {**values, "options": _plain(dict(loss_scale.options))}


def _targets(optimizer: OptimizerRecord, by: str | None) -> list[dict[str, Any]]:
    """Return what an optimizer can be restored into; `by` is what does it, besides `convert_state`, or None."""
    has_state = optimizer.iterations is not None or bool(optimizer.variables)
    if by == _READERS["config"] and optimizer.loss_scale is None:
        return []
    own = [] if by is None else [{"family": optimizer.family, "by": by, "state": has_state}]
    # A file of weights does not say which slots its arrays are, so only the same Keras can restore them.
    are_slots_unknown = bool(optimizer.others) and not optimizer.variables and by == "model.load_weights"
    if not has_state or are_slots_unknown or state_of(optimizer.algorithm) is None:
        return own
    others: list[Family] = ["legacy", "new", "keras3"]
    lacking = {"AdamW": "legacy", "Lion": "legacy"}.get(optimizer.algorithm or "")
    return own + [
        {"family": family, "by": "mpls.convert_state", "state": True}
        for family in others
        if family not in (optimizer.family, lacking)
    ]


def _plain(value: Any) -> Any:
    """Return a value in a form that strict JSON allows."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def text_of(description: dict[str, Any]) -> str:
    """Return the result of `describe` as text for people; control characters are escaped."""
    path, reason = description["path"], description["reason"]
    if description["status"] == "unknown":
        return printable(str(reason))
    if description["status"] == "broken":
        return printable(f"{path}: cannot be restored: {reason}")
    lines = [f"{path}: {description['format']}, written by {description['written_by']}"]
    if description["refusal"] is not None:
        lines.append(f"  mpls.keras.load_model refuses it: {description['refusal']}")
    if not description["optimizers"]:
        lines.append("  no optimizer: nothing to restore but weights")
    for optimizer in description["optimizers"]:
        for line in map(printable, _lines(optimizer)):
            text = line.lstrip()
            lines += wrapped(text, 2 + len(line) - len(text))
    return "\n".join(map(printable, lines))


def _lines(optimizer: dict[str, Any]) -> list[str]:
    number = optimizer["iterations"]
    steps = "steps unknown" if number is None else f"{number} step{'' if number == 1 else 's'}"
    name = optimizer["algorithm"] or "an optimizer of an unknown class"
    lines = [f"optimizer {optimizer['key']!r}: {name} of {FAMILY_MODULES[optimizer['family']]}, {steps}"]
    settings = [f"{key} {_short(value)}" for key, value in optimizer["hyperparameters"].items() if value is not None]
    if settings:
        lines.append(f"  hyperparameters: {', '.join(settings)}")
    slots = optimizer["slots"]
    if slots["variables"]:
        names = ", ".join(slots["names"])
        lines.append(f"  slots: {names}, of {slots['variables']} variables, {slots['numbers']} numbers")
    if optimizer["other_state"]:
        lines.append(f"  other state: {', '.join(optimizer['other_state'])}")
    possible = [f"{name} {_short(value)}" for name, value in optimizer["possible_steps"].items()]
    if possible:
        lines.append(f"  of this optimizer or another: {', '.join(possible)}")
    scales = [f"{name} ({_loss_scale_line(each)})" for name, each in optimizer["possible_scales"].items()]
    lines.append(f"  loss scale: {' or '.join(scales) or _loss_scale_line(optimizer['loss_scale'])}")
    lines += _option_lines(optimizer)
    for target in optimizer["restores_into"]:
        what = "restores" if target["state"] else "gives settings only"
        lines.append(f"  {what}: into {FAMILY_MODULES[target['family']]}, by {target['by']}")
    return lines


def _option_lines(optimizer: dict[str, Any]) -> list[str]:
    """Return what only mpls has written, if it has."""
    of_scale = {} if optimizer["loss_scale"] is None else optimizer["loss_scale"]["options"]
    given = ", ".join(f"{name} {_short(value)}" for name, value in {**of_scale, **optimizer["options"]}.items())
    counted = ", ".join(f"{name} {value}" for name, value in optimizer["counts"].items())
    lines = {"options": given, "steps": counted}
    return [f"  {name}: {line}" for name, line in lines.items() if line]


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return str(value.get("class_name", "of several settings"))
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) < 60 else f"{text[:57]}..."


def _loss_scale_line(loss_scale: dict[str, Any] | None) -> str:
    if loss_scale is None:
        return "none in the file"
    parts = ["dynamic" if loss_scale["dynamic"] else "fixed"]
    if not loss_scale["dynamic"]:
        parts.append("value unknown" if loss_scale["scale"] is None else f"{loss_scale['scale']:g}")
        return ", ".join(parts)
    parts.append("current unknown" if loss_scale["scale"] is None else f"now {loss_scale['scale']:g}")
    if loss_scale["good_steps"] is not None:
        parts.append(f"good steps {loss_scale['good_steps']}")
    if loss_scale["initial_scale"] is not None:
        parts.append(f"initially {loss_scale['initial_scale']:g}")
    if loss_scale["growth_steps"] is not None:
        parts.append(f"grows after {loss_scale['growth_steps']}")
    # An option goes before what all releases have.
    factor = loss_scale["options"].get("growth_factor", loss_scale["multiplier"])
    if factor is not None:
        parts.append(f"by {factor:g}")
    return ", ".join(parts)
