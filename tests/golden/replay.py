"""Reading recorded traces: JSON, tensor literals, which release counts, and comparison.

A recorded case is `{"id", "spec", "outcomes": [{"runs", "result"}], ...}`. A run is named
`release:mode` or `release:flavour:mode`; runs with the same result share an outcome. Floats are the shortest
decimals of the recorded value, non-finite ones the strings "nan", "inf", "-inf". A tensor literal is one of

    null                                              None
    {"d": "float32", "v": nested list, "shape"?}      dense tensor
    {"is": {"d", "v", "i": indices, "ds": shape?}}    tf.IndexedSlices
    [...], {"tuple": [...]}, {"map": {...}}           nested structure
    {"var": {...}}, {"np": {...}}, {"py": number}     a variable, a NumPy array, a Python number
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from parameterized import parameterized

from tests.conformance.devices import mirrored

DATA = pathlib.Path(__file__).parent / "data"


def load(name: str) -> dict[str, Any]:
    """Return the cases of `data/<name>.json`, by id."""
    document = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    return {case["id"]: case for case in document["cases"]}


def recorded_as(case: dict[str, Any], run: str, of: str = "outcomes") -> Any:
    """Return what a run recorded for a case; None if it did not run.

    `of="metas"` returns the record of names and types instead of that of values.
    """
    key = "meta" if of == "metas" else "result"
    for group in case.get(of, ()):
        if run in group["runs"]:
            return group[key]
    return None


def recorded(case: dict[str, Any], mode: str, of: str = "outcomes") -> Any:
    """Return what the newest release, TensorFlow 2.21, recorded for a case in a mode."""
    return recorded_as(case, f"tf21:{mode}", of)


def runs(cases: dict[str, Any]) -> list[tuple[str, str]]:
    """Return case and mode of everything that any release recorded."""
    modes = {
        (name, run.split(":", 1)[1])
        for name, case in cases.items()
        for outcome in case["outcomes"]
        for run in outcome["runs"]
    }
    return sorted(modes)


class Differs(NamedTuple):
    """What mpls does differently from the record, on purpose.

    Attributes:
        case: id of the recorded case.
        modes: the modes in which it differs.
        right: what mpls does: a word that the test knows, or the mode in which the originals did it.
        reason: what is wrong with what was recorded.
    """

    case: str
    modes: tuple[str, ...]
    right: str
    reason: str


def named(function: Any, index: int, call: Any) -> str:
    """Return the name of a case: that of its test, and all that its row holds."""
    words = (str(getattr(each, "name", each)) for each in call.args)
    return re.sub(r"\W+", "_", "_".join([function.__name__, *words]))


def expand(rows: list[Any]) -> Any:
    """Parameterize a test by rows, and name it after all that a row holds."""
    return parameterized.expand(rows, name_func=named)


def is_error(result: Any) -> bool:
    """Return whether a recorded value is an exception."""
    return isinstance(result, dict) and "error" in result


def numbers(value: Any) -> Any:
    """Return a recorded value with the strings for non-finite floats made floats, in any nesting."""
    if isinstance(value, dict):
        return {key: numbers(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [numbers(entry) for entry in value]
    return float(value) if isinstance(value, str) and value in ("nan", "inf", "-inf") else value


def array(literal: dict[str, Any]) -> np.ndarray:
    """Return the NumPy array of a dense literal; bfloat16 included."""
    values = np.array(numbers(literal["v"]), dtype=np.float64)
    if "shape" in literal:
        values = values.reshape(literal["shape"])
    # Saturating to infinity is what a literal too large for its dtype is there for.
    with np.errstate(over="ignore"):
        return values.astype(tf.as_dtype(literal["d"]).as_numpy_dtype)


def tensor(literal: Any) -> Any:
    """Return what a literal stands for."""
    if literal is None:
        return None
    if isinstance(literal, list):
        return [tensor(entry) for entry in literal]
    (kind,) = {"tuple", "map", "py", "np", "var", "is", "v"} & literal.keys()
    if kind == "is":
        part = literal["is"]
        shape = part.get("ds")
        return tf.IndexedSlices(
            tf.constant(array(part)),
            tf.constant(part["i"], tf.int64),
            None if shape is None else tf.constant(shape, tf.int64),
        )
    decode = {
        "tuple": lambda: tuple(tensor(entry) for entry in literal["tuple"]),
        "map": lambda: {key: tensor(entry) for key, entry in literal["map"].items()},
        "py": lambda: numbers(literal["py"]),
        "np": lambda: array(literal["np"]),
        "var": lambda: tf.Variable(array(literal["var"])),
        "v": lambda: tf.constant(array(literal)),
    }
    return decode[kind]()


def loss_of(spec: dict[str, Any], variables: list[Any], factors: list[Any]) -> Any:
    """Return the loss of a trace: a quadratic (or linear) term for each variable, times a factor of the step.

    A factor that is no finite number makes the gradient of its variable non-finite.
    """
    kind = spec.get("loss", "quad")
    total = None
    for index, variable in enumerate(variables[:1] if kind == "unused" else variables):
        value = tf.convert_to_tensor(variable)
        if kind == "embed" and index == 0:
            value = tf.nn.embedding_lookup(variable, tf.constant(spec["ids"]))
        elif kind == "fp16":
            value = tf.cast(variable, tf.float16)
        factor = tf.cast(factors[index], value.dtype)
        if kind == "linear":
            term = factor * tf.reduce_sum(value)
        else:
            distance = value - tf.constant(spec["target"][index], value.dtype)
            weight = tf.constant(0.5 * spec["coef"][index], value.dtype)
            term = factor * tf.reduce_sum(weight * distance * distance)
        total = term if total is None else total + tf.cast(term, total.dtype)
    return total


def describe_gradients(grads: list[Any] | None) -> list[Any] | None:
    if grads is None:
        return None
    return [
        None if grad is None else ["IndexedSlices" if isinstance(grad, tf.IndexedSlices) else "Tensor", grad.dtype.name]
        for grad in grads
    ]


# One strategy over two devices, for all replays.
two_replicas = mirrored


def replica_id() -> int:
    """Return the index of the replica whose function is running."""
    index = tf.distribute.get_replica_context().replica_id_in_sync_group
    return int(index if isinstance(index, int) else tf.get_static_value(index))


@contextlib.contextmanager
def control_flow(v2: bool) -> Iterator[None]:
    """Build conditionals of graphs with TensorFlow's second control flow or its first."""
    switches = (tf.compat.v1.disable_control_flow_v2, tf.compat.v1.enable_control_flow_v2)
    before = tf.compat.v1.control_flow_v2_enabled()
    switches[v2]()
    try:
        yield
    finally:
        switches[before]()


def assert_exact(actual: Any, expected: Any, what: str = "") -> None:
    """Require numbers, booleans and nested lists of them to be the recorded ones, to the last bit."""
    assert_close(actual, expected, what, rtol=0.0, ulps=0)


def assert_close(actual: Any, expected: Any, what: str = "", rtol: float = 1e-6, ulps: int = 1) -> None:
    """Require numbers to be the recorded ones to `ulps` last bits of `actual`'s dtype, or to `rtol`.

    Non-finite numbers have to be the same. A Python number is compared as float32, booleans as booleans.
    """
    if isinstance(expected, dict):
        assert isinstance(actual, dict), f"{what}: {actual!r} is no dict"
        assert set(actual) == set(expected), f"{what}: {sorted(actual)} is not {sorted(expected)}"
        for key, entry in expected.items():
            assert_close(actual[key], entry, f"{what}[{key}]", rtol, ulps)
        return
    if isinstance(expected, list) and isinstance(actual, list):
        assert len(actual) == len(expected), f"{what}: {len(actual)} entries are not {len(expected)}"
        for index, (one, entry) in enumerate(zip(actual, expected, strict=True)):
            assert_close(one, entry, f"{what}[{index}]", rtol, ulps)
        return
    if expected is None or isinstance(expected, bool):
        assert actual is None or isinstance(actual, (bool, np.bool_)), f"{what}: {actual!r} is not {expected!r}"
        assert actual == expected, f"{what}: {actual!r} is not {expected!r}"
        return
    _assert_numbers_close(actual, numbers(expected), what, rtol, ulps)


def _assert_numbers_close(actual: Any, expected: Any, what: str, rtol: float, ulps: int) -> None:
    got = np.asarray(actual)
    assert got.dtype != bool, f"{what}: {actual!r} is not {expected!r}"
    if got.dtype.kind in "iu":
        assert np.array_equal(got, np.asarray(expected)), f"{what}: {got!r} is not {expected!r}"
        return
    if isinstance(actual, (float, list)):
        got = got.astype(np.float32)
    want = np.asarray(expected, np.float64).astype(got.dtype)
    assert got.shape == want.shape, f"{what}: shape {got.shape} is not {want.shape}"
    if got.dtype.kind != "f":
        got, want = got.astype(np.float32), want.astype(np.float32)
    finite = np.isfinite(want)
    same = np.array_equal(got[~finite], want[~finite], equal_nan=True) and bool(np.all(np.isfinite(got[finite])))
    allowed = np.maximum(np.abs(want[finite]) * rtol, np.spacing(np.abs(want[finite])) * ulps)
    # One-element arrays keep the comparison below simple for scalars, too.
    difference = np.abs(got[finite].astype(np.float64) - want[finite].astype(np.float64))
    assert same, f"{what}: {got!r} is not {want!r}"
    assert np.all(difference <= allowed), f"{what}: {got!r} is not {want!r}; off by {difference.max():.3g}"
