"""Every name that TensorFlow's loss-scaling API ever had, in one table.

`install` puts its names back, `run --report` prints those that a program read, MIGRATION.md's tables are generated from
it, and the API tests compare it with the names of the real packages. Nothing here imports TensorFlow.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = [
    "GRAPH_REWRITES",
    "GRAPH_WRAPPER",
    "NAMES",
    "RELEASES",
    "REMOVED_POLICIES",
    "SCALE_CLASSES",
    "Name",
    "instead_of_policy",
    "module_of",
    "named",
    "namespaces",
    "numbers_of",
]

# Every TensorFlow release that had one of the names, oldest first.
RELEASES = (
    *(f"1.{minor}" for minor in range(13, 16)),
    *(f"2.{minor}" for minor in range(22)),
)
# The classes of loss scales; the functions and the wrapper of graph mode.
SCALE_CLASSES = ("LossScale", "FixedLossScale", "DynamicLossScale")
GRAPH_REWRITES = ("enable_mixed_precision_graph_rewrite", "disable_mixed_precision_graph_rewrite")
GRAPH_WRAPPER = "MixedPrecisionLossScaleOptimizer"
_OPTIMIZER = "LossScaleOptimizer"
# Names of policies of TF 1.14 to 2.2, and their replacements.
REMOVED_POLICIES = {
    "infer": "Policy('float32'), or leave the policy out",
    "float16_with_float32_vars": "Policy('mixed_float16'), with which compile() scales the loss",
    "bfloat16_with_float32_vars": "Policy('mixed_bfloat16')",
    "float32_with_float32_vars": "Policy('float32')",
}
# Other such names computed in the dtype of the inputs.
_OF_INPUTS = "Policy('mixed_float16') or Policy('mixed_bfloat16') if the inputs have that dtype, else Policy('float32')"


def instead_of_policy(name: str, *, is_graph: bool) -> str:
    """Return what to write in place of the name of a policy that TensorFlow removed.

    Args:
        name: the name.
        is_graph: whether the program runs in graph mode, in which layers ignore policies unless they are told.
    """
    today = REMOVED_POLICIES.get(name, _OF_INPUTS)
    needs = "tf.compat.v1.keras.layers.enable_v2_dtype_behavior() and --keras 2"
    return f"{today}; in graph mode this needs {needs}" if is_graph else today


@dataclass(frozen=True)
class Name:
    """A historical name.

    Attributes:
        path: the path as code spells it, with `tf` for the package tensorflow.
        target: the object of mpls that replaces it, `"mpls.v1:LossScale"`; empty for a namespace.
        first: the first release that had it.
        last: the last one; None if the newest release still has it.
        needs_keras_3: whether it exists only if `tf.keras` is Keras 3.
        is_private: whether it was never documented, but real code imports it.
    """

    path: str
    target: str
    first: str
    last: str | None = None
    needs_keras_3: bool = False
    is_private: bool = False

    @property
    def is_namespace(self) -> bool:
        """Whether it is a module."""
        return not self.target

    @property
    def parent(self) -> str:
        """The path of the namespace that contains it."""
        return self.path.rpartition(".")[0]

    @property
    def attribute(self) -> str:
        """The last part of its path."""
        return self.path.rpartition(".")[2]

    @property
    def is_contrib(self) -> bool:
        """Whether it is in `tf.contrib`, which is put back only on request."""
        return self.path.startswith("tf.contrib.")

    @property
    def replacement(self) -> str:
        """The replacement to write today, `"mpls.v1.LossScale"`; empty for a namespace, or if mpls has none."""
        return self.target.replace(":", ".") if self.target.startswith("mpls.") else ""

    @property
    def stays(self) -> bool:
        """Whether it means the same today as ever, whichever Keras there is."""
        is_policy = self.target.startswith("mpls.keras:") and _OPTIMIZER not in self.target
        return self.path.startswith("tf_keras.") or (is_policy and self.last is None and not self.is_private)

    @property
    def today(self) -> str:
        """What `mpls migrate` writes in its place where it is called; empty if it stays, or mpls has none."""
        if self.stays or self.needs_keras_3:
            return ""
        is_wrapper = self.target.startswith(("mpls.keras:", "mpls.experimental:")) and _OPTIMIZER in self.target
        return f"mpls.keras.{_OPTIMIZER}" if is_wrapper else self.replacement

    @property
    def releases(self) -> str:
        """The releases that had it, `"1.14 to 2.8"`."""
        return self.first if self.first == self.last else f"{self.first} to {self.last or RELEASES[-1]}"

    @property
    def fate(self) -> str:
        """Whether it was removed: `"removed"`, `"Keras 3 only"` or `"still there"`."""
        if self.last is not None:
            return "removed"
        return "Keras 3 only" if self.needs_keras_3 else "still there"


def numbers_of(release: str) -> tuple[int, int]:
    """Return the numbers of a release, `(2, 4)` for `"2.4"`."""
    major, minor = release.split(".")
    return int(major), int(minor)


def module_of(path: str) -> str:
    """Return the dotted name by which a path is imported: `tensorflow.keras` for `tf.keras`."""
    return f"tensorflow{path[2:]}" if path == "tf" or path.startswith("tf.") else path


def named(path: str) -> Name | None:
    """Return the row of a path, spelled with `tf` or `tensorflow`; None if it is not a historical name."""
    return _BY_MODULE.get(module_of(path))


@functools.cache
def namespaces() -> dict[str, tuple[Name, ...]]:
    """Return the rows in each namespace, by its path; a nested namespace is a row too."""
    members: dict[str, list[Name]] = {}
    for name in NAMES:
        members.setdefault(name.parent, []).append(name)
    return {path: tuple(rows) for path, rows in members.items()}


_BY_IDENTIFIER = "mpls.experimental.loss_scales"
_POLICIES = "mpls.experimental.policy"


def _rows(
    parent: str, home: str, members: tuple[str, ...], first: str, last: str | None = None, **more: bool
) -> Iterator[Name]:
    for member in members:
        yield Name(f"{parent}.{member}", f"{home}:{member}", first, last, **more)


def _namespace(path: str, first: str, last: str | None = None, **more: bool) -> Iterator[Name]:
    yield Name(path, "", first, last, **more)


def _core_names() -> Iterator[Name]:
    # TensorFlow's own classes, under tf.train and later under tf.mixed_precision.
    for root, first in (("tf", "1.14"), ("tf.compat.v2", "1.15")):
        train = f"{root}.train.experimental"
        yield from _rows(train, "mpls.experimental", SCALE_CLASSES, "1.14", "2.8")
        yield from _rows(train, "mpls.v1", GRAPH_REWRITES, first, "2.5")
        yield from _namespace(f"{root}.mixed_precision", "2.1", "2.8")
        yield from _namespace(f"{root}.mixed_precision.experimental", "2.1", "2.8")
        yield from _rows(f"{root}.mixed_precision.experimental", "mpls.experimental", SCALE_CLASSES, "2.1", "2.8")
        internal = f"{root}.__internal__"
        yield from _namespace(f"{internal}.mixed_precision", "2.6")
        yield from _rows(f"{internal}.mixed_precision", "mpls.v1", ("register_loss_scale_wrapper",), "2.6")
        states = ("is_mixed_precision_graph_rewrite_enabled", "set_using_mixed_precision_policy")
        yield from _rows(f"{internal}.train", "tensorflow.__internal__.train", states, "2.6")
    yield from _rows("tf.train.experimental", "mpls.v1", (GRAPH_WRAPPER,), "1.14", "1.15")
    v1 = "tf.compat.v1"
    yield from _rows(f"{v1}.train.experimental", "mpls.v1", (*SCALE_CLASSES, GRAPH_WRAPPER, *GRAPH_REWRITES), "1.14")
    yield from _namespace(f"{v1}.mixed_precision", "2.1")
    yield from _rows(f"{v1}.mixed_precision", "mpls.v1", (*SCALE_CLASSES, GRAPH_WRAPPER, *GRAPH_REWRITES), "2.4")
    yield from _namespace(f"{v1}.mixed_precision.experimental", "2.1")
    yield from _rows(f"{v1}.mixed_precision.experimental", "mpls.v1", SCALE_CLASSES, "2.1")


def _keras_names() -> Iterator[Name]:
    for root in ("tf.keras", "tf.compat.v2.keras", "tf.compat.v1.keras"):
        is_v1 = root == "tf.compat.v1.keras"
        new = f"{root}.mixed_precision"
        yield from _namespace(new, "1.14")
        yield from _rows(new, "mpls.keras", (_OPTIMIZER,), "2.4")
        policies = ("Policy", "global_policy", "set_global_policy")
        yield from _rows(new, "mpls.keras", policies, "2.16" if is_v1 else "2.4", needs_keras_3=is_v1)
        old = f"{new}.experimental"
        last = "2.2" if is_v1 else "2.8"
        yield from _namespace(old, "1.14", "2.8")
        yield from _rows(old, "mpls.experimental", (_OPTIMIZER,), "1.14", "2.8")
        yield from _rows(old, "mpls.experimental", ("Policy", "global_policy", "set_policy"), "1.14", last)
        yield from _rows(old, "mpls.experimental", ("get_layer_policy",), "2.2", last)
    members = (_OPTIMIZER, "Policy", "global_policy", "set_global_policy")
    yield from _namespace("tf_keras.mixed_precision", "2.16")
    yield from _rows("tf_keras.mixed_precision", "mpls.keras", members, "2.16")
    yield from _namespace("keras.mixed_precision", "2.5")
    yield from _rows("keras.mixed_precision", "mpls.keras", members, "2.9")
    # Private modules that the package keras did not hide.
    yield from _namespace("keras.mixed_precision.get_layer_policy", "2.6", "2.8")
    yield from _namespace("keras.mixed_precision.loss_scale", "2.5", "2.8")
    yield from _keras_3_names()


def _keras_3_names() -> Iterator[Name]:
    tf_roots = ("tf.keras", "tf.compat.v1.keras", "tf.compat.v2.keras")
    for root in ("keras", *tf_roots):
        yield from _rows(f"{root}.optimizers", "mpls.keras", (_OPTIMIZER,), "2.16", needs_keras_3=True)
        # Keras 3's own names for policies; mpls.keras.Policy works as one.
        yield Name(f"{root}.mixed_precision.DTypePolicy", "mpls.keras:Policy", "2.16", needs_keras_3=True)
        for member, target in (("dtype_policy", "global_policy"), ("set_dtype_policy", "set_global_policy")):
            path = f"{root}.mixed_precision.{member}"
            yield Name(path, f"mpls.keras:{target}", "2.16", needs_keras_3=True)
    for root in ("keras", "tf.keras"):
        yield Name(f"{root}.DTypePolicy", "mpls.keras:Policy", "2.16", needs_keras_3=True)
        yield Name(f"{root}.FloatDTypePolicy", "mpls.keras:Policy", "2.16", needs_keras_3=True)
        yield Name(f"{root}.config.dtype_policy", "mpls.keras:global_policy", "2.16", needs_keras_3=True)
        yield Name(f"{root}.config.set_dtype_policy", "mpls.keras:set_global_policy", "2.16", needs_keras_3=True)


def _contrib_names() -> Iterator[Name]:
    members = (
        "ExponentialUpdateLossScaleManager",
        "FixedLossScaleManager",
        "LossScaleManager",
        "LossScaleOptimizer",
    )
    yield from _namespace("tf.contrib.mixed_precision", "1.13", "1.15")
    yield from _rows("tf.contrib.mixed_precision", "mpls.contrib", members, "1.13", "1.15")
    python = "tf.contrib.mixed_precision.python"
    yield from _namespace(python, "1.13", "1.15", is_private=True)
    for module, classes in (("loss_scale_manager", members[:3]), ("loss_scale_optimizer", members[3:])):
        yield from _namespace(f"{python}.{module}", "1.13", "1.15", is_private=True)
        yield from _rows(f"{python}.{module}", "mpls.contrib", classes, "1.13", "1.15", is_private=True)


def _private_names() -> Iterator[Name]:
    # Modules that real code imports, although they were never part of the API.
    core = "tf.python.training.experimental"
    for module, home, members, last in (
        ("loss_scale", "mpls.v1", SCALE_CLASSES, None),
        ("loss_scale", _BY_IDENTIFIER, ("get_loss_scale_weights",), "2.3"),
        ("loss_scale_optimizer", "mpls.v1", (GRAPH_WRAPPER,), None),
        ("mixed_precision", "mpls.v1", GRAPH_REWRITES, "2.5"),
    ):
        yield from _namespace(f"{core}.{module}", "1.14", is_private=True)
        yield from _rows(f"{core}.{module}", home, members, "1.14", last, is_private=True)
    yield from _private_experimental_names()
    core_keras = "tf.python.keras.mixed_precision"
    yield from _namespace(f"{core_keras}.get_layer_policy", "2.4", is_private=True)
    yield from _namespace(f"{core_keras}.loss_scale", "2.4", is_private=True)
    for root, first, last in ((core_keras, "2.4", None), ("keras.mixed_precision", "2.6", "2.8")):
        path = f"{root}.get_layer_policy"
        yield from _rows(path, "mpls.experimental", ("get_layer_policy",), first, last, is_private=True)
    for root, first, last in ((core_keras, "2.4", None), ("keras.mixed_precision", "2.5", "2.8")):
        path = f"{root}.loss_scale"
        yield from _rows(path, _BY_IDENTIFIER, ("get", "serialize", "deserialize"), first, last, is_private=True)
    # The modules since TF 2.4. tensorflow.python.keras is a copy of Keras that accepts no optimizer of tf_keras or
    # Keras 3; the others are in the packages keras and tf_keras.
    for root, first, last in (
        ("tf.python.keras", "2.4", None),
        ("keras", "2.5", "2.12"),
        ("keras.src", "2.13", "2.15"),
        ("tf_keras.src", "2.16", None),
    ):
        path = f"{root}.mixed_precision"
        for module, home, members in (
            ("loss_scale_optimizer", "mpls.keras", (_OPTIMIZER, "LossScaleOptimizerV3")),
            ("policy", "mpls.keras", ("Policy", "global_policy", "set_global_policy")),
            ("policy", _POLICIES, ("policy_scope",)),
            ("device_compatibility_check", _POLICIES, ("log_device_compatibility_check",)),
        ):
            is_core = root == "tf.python.keras"
            kept = tuple(member for member in members if not (is_core and member.endswith("V3")))
            yield from _namespace(f"{path}.{module}", first, last, is_private=True)
            yield from _rows(f"{path}.{module}", home, kept, first, last, is_private=True)


def _private_experimental_names() -> Iterator[Name]:
    keras = "tf.python.keras.mixed_precision.experimental"
    yield from _namespace(keras, "1.14", "2.3", is_private=True)
    for module, home, members, first in (
        ("loss_scale_optimizer", "mpls.experimental", (_OPTIMIZER,), "1.14"),
        ("policy", "mpls.experimental", ("Policy", "global_policy", "set_policy"), "1.14"),
        ("policy", _POLICIES, ("policy_scope",), "1.14"),
        ("get_layer_policy", "mpls.experimental", ("get_layer_policy",), "2.2"),
        ("loss_scale", _BY_IDENTIFIER, ("get", "serialize", "deserialize"), "2.0"),
        ("device_compatibility_check", _POLICIES, ("log_device_compatibility_check",), "2.2"),
    ):
        path = f"{keras}.{module}"
        yield from _namespace(path, first, "2.3", is_private=True)
        yield from _rows(path, home, members, first, "2.3", is_private=True)


def _unique(names: Iterator[Name]) -> tuple[Name, ...]:
    # A namespace with two groups of members is generated twice.
    return tuple({name.path: name for name in reversed([*names])}.values())[::-1]


NAMES: tuple[Name, ...] = _unique(
    name for group in (_core_names, _keras_names, _contrib_names, _private_names) for name in group()
)

_BY_MODULE = {module_of(name.path): name for name in NAMES}
