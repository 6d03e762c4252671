"""Every name that TensorFlow's loss-scaling API ever had: the one table that all else reads.

`install` puts names back, `run --report` prints what a script touched, MIGRATION.md's tables are generated, and the API
tests compare with the census of the real packages, from the same rows. Nothing here imports TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["NAMES", "RELEASES", "Name", "module_of", "named"]

# Every release that had one of the names, oldest first.
RELEASES = (
    *(f"1.{minor}" for minor in range(12, 16)),
    *(f"2.{minor}" for minor in range(22)),
)


@dataclass(frozen=True)
class Name:
    """A historical name.

    Attributes:
        path: as code spells it, with `tf` for the package tensorflow where it is an attribute path.
        target: the object of mpls that stands for it, `"mpls.v1:LossScale"`; empty for a namespace.
        first: the first release that had it.
        last: the last one; None if the newest has it still.
        needs_keras_2: whether the newest release has it only where `tf.keras` is tf_keras.
        is_private: whether it was never documented, and real code imports it all the same.
    """

    path: str
    target: str
    first: str
    last: str | None = None
    needs_keras_2: bool = False
    is_private: bool = False

    @property
    def is_namespace(self) -> bool:
        """Whether it is a module."""
        return not self.target

    @property
    def parent(self) -> str:
        """The path of the namespace that it is in."""
        return self.path.rpartition(".")[0]

    @property
    def attribute(self) -> str:
        """Its last part."""
        return self.path.rpartition(".")[2]

    @property
    def is_contrib(self) -> bool:
        """Whether it is in `tf.contrib`, which is put back only if asked for."""
        return ".contrib" in self.path

    @property
    def replacement(self) -> str:
        """What to write today, `"mpls.v1.LossScale"`; for a namespace, what holds its members."""
        return self.target.replace(":", ".")


def module_of(path: str) -> str:
    """Return the dotted name under which a namespace is imported: `tf.keras` is `tensorflow.keras`."""
    return f"tensorflow{path[2:]}" if path == "tf" or path.startswith("tf.") else path


def named(path: str) -> Name | None:
    """Return the row of a path, spelled with `tf` or `tensorflow`; None if it is no historical name."""
    return _BY_MODULE.get(module_of(path))


_SCALES = ("LossScale", "FixedLossScale", "DynamicLossScale")
_REWRITES = ("enable_mixed_precision_graph_rewrite", "disable_mixed_precision_graph_rewrite")
_WRAPPER = "MixedPrecisionLossScaleOptimizer"


def _rows(
    parent: str, home: str, members: tuple[str, ...], first: str, last: str | None = None, **more: bool
) -> Iterator[Name]:
    for member in members:
        yield Name(f"{parent}.{member}", f"{home}:{member}", first, last, **more)


def _namespace(path: str, first: str, last: str | None = None, **more: bool) -> Iterator[Name]:
    yield Name(path, "", first, last, **more)


def _core_names() -> Iterator[Name]:
    # TensorFlow's own classes, under tf.train and later under tf.mixed_precision.
    for root in ("tf", "tf.compat.v2"):
        train = f"{root}.train.experimental"
        yield from _rows(train, "mpls.experimental", _SCALES, "1.14", "2.8")
        yield from _rows(train, "mpls.v1", _REWRITES, "1.14" if root == "tf" else "1.15", "2.5")
        yield from _namespace(f"{root}.mixed_precision", "2.1", "2.8")
        yield from _namespace(f"{root}.mixed_precision.experimental", "2.1", "2.8")
        yield from _rows(f"{root}.mixed_precision.experimental", "mpls.experimental", _SCALES, "2.1", "2.8")
    yield from _rows("tf.train.experimental", "mpls.v1", (_WRAPPER,), "1.14", "1.15")
    v1 = "tf.compat.v1"
    yield from _rows(f"{v1}.train.experimental", "mpls.v1", (*_SCALES, _WRAPPER, *_REWRITES), "1.14")
    yield from _namespace(f"{v1}.mixed_precision", "2.1")
    yield from _rows(f"{v1}.mixed_precision", "mpls.v1", (*_SCALES, _WRAPPER, *_REWRITES), "2.4")
    yield from _namespace(f"{v1}.mixed_precision.experimental", "2.1")
    yield from _rows(f"{v1}.mixed_precision.experimental", "mpls.v1", _SCALES, "2.1")


def _keras_names() -> Iterator[Name]:
    policies = ("Policy", "global_policy", "set_policy")
    for root in ("tf.keras", "tf.compat.v2.keras", "tf.compat.v1.keras"):
        is_v1 = root == "tf.compat.v1.keras"
        old = f"{root}.mixed_precision.experimental"
        yield from _namespace(old, "1.14", "2.8")
        yield from _rows(old, "mpls.experimental", ("LossScaleOptimizer",), "1.14", "2.8")
        yield from _rows(old, "mpls.experimental", policies, "1.14", "2.2" if is_v1 else "2.8")
        yield from _rows(old, "mpls.experimental", ("get_layer_policy",), "2.2", "2.2" if is_v1 else "2.8")
        new = f"{root}.mixed_precision"
        yield from _namespace(new, "1.14")
        yield from _rows(new, "mpls.keras", ("LossScaleOptimizer",), "2.4")
        yield from _rows(new, "mpls.keras", ("Policy", "global_policy", "set_global_policy"), "2.16" if is_v1 else "2.4")
    yield from _namespace("tf_keras.mixed_precision", "2.16")
    members = ("LossScaleOptimizer", "Policy", "global_policy", "set_global_policy")
    yield from _rows("tf_keras.mixed_precision", "mpls.keras", members, "2.16")
    yield from _namespace("keras.mixed_precision", "2.5")
    yield from _rows("keras.mixed_precision", "mpls.keras", members, "2.9")
    for root in ("keras", "tf.keras", "tf.compat.v1.keras", "tf.compat.v2.keras"):
        yield from _rows(f"{root}.optimizers", "mpls.keras", ("LossScaleOptimizer",), "2.16")


def _contrib_names() -> Iterator[Name]:
    members = (
        "ExponentialUpdateLossScaleManager",
        "FixedLossScaleManager",
        "LossScaleManager",
        "LossScaleOptimizer",
    )
    yield from _namespace("tf.contrib.mixed_precision", "1.12", "1.15")
    yield from _rows("tf.contrib.mixed_precision", "mpls.contrib", members, "1.12", "1.15")
    python = "tf.contrib.mixed_precision.python"
    yield from _namespace(python, "1.12", "1.15", is_private=True)
    for module, classes in (("loss_scale_manager", members[:3]), ("loss_scale_optimizer", members[3:])):
        yield from _namespace(f"{python}.{module}", "1.12", "1.15", is_private=True)
        yield from _rows(f"{python}.{module}", "mpls.contrib", classes, "1.12", "1.15", is_private=True)


def _private_names() -> Iterator[Name]:
    # Modules that real code imports, although they were never part of the API.
    core = "tensorflow.python.training.experimental"
    yield from _namespace(f"{core}.loss_scale", "1.14", is_private=True)
    yield from _rows(f"{core}.loss_scale", "mpls.v1", _SCALES, "1.14", is_private=True)
    yield from _rows(f"{core}.loss_scale", "mpls._private", ("get_loss_scale_weights",), "1.14", "2.3", is_private=True)
    yield from _namespace(f"{core}.loss_scale_optimizer", "1.14", is_private=True)
    yield from _rows(f"{core}.loss_scale_optimizer", "mpls.v1", (_WRAPPER,), "1.14", is_private=True)
    yield from _namespace(f"{core}.mixed_precision", "1.14", is_private=True)
    yield from _rows(f"{core}.mixed_precision", "mpls.v1", _REWRITES, "1.14", "2.5", is_private=True)
    keras = "tensorflow.python.keras.mixed_precision.experimental"
    yield from _namespace(keras, "1.14", "2.3", is_private=True)
    for module, home, members, first in (
        ("loss_scale_optimizer", "mpls.experimental", ("LossScaleOptimizer",), "1.14"),
        ("policy", "mpls.experimental", ("Policy", "global_policy", "set_policy"), "1.14"),
        ("policy", "mpls._private", ("policy_scope",), "1.14"),
        ("get_layer_policy", "mpls.experimental", ("get_layer_policy",), "2.2"),
        ("loss_scale", "mpls._private", ("get", "serialize", "deserialize"), "2.0"),
        ("device_compatibility_check", "mpls._private", ("log_device_compatibility_check",), "2.2"),
    ):
        path = f"{keras}.{module}"
        yield from _namespace(path, first, "2.3", is_private=True)
        yield from _rows(path, home, members, first, "2.3", is_private=True)


def _unique(names: Iterator[Name]) -> tuple[Name, ...]:
    # The namespace of two groups of members comes twice.
    return tuple({name.path: name for name in reversed([*names])}.values())[::-1]


NAMES: tuple[Name, ...] = _unique(
    name for group in (_core_names, _keras_names, _contrib_names, _private_names) for name in group()
)

_BY_MODULE = {module_of(name.path): name for name in NAMES}
