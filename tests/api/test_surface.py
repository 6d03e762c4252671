"""Names, signatures, defaults, constants, kinds of members and base classes, against the recorded API."""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import pathlib
import re
import unittest
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.contrib
import mpls.errors
import mpls.experimental
import mpls.keras
import mpls.v1

SURFACE = json.loads((pathlib.Path(__file__).parent / "data" / "surface.json").read_text())
CLASSES: dict[str, Any] = SURFACE["classes"]
FUNCTIONS: dict[str, Any] = SURFACE["functions"]

# Where the recorded names are now.
PUBLIC_CLASSES = {
    "LossScale": (mpls.v1, mpls.experimental),
    "FixedLossScale": (mpls.v1, mpls.experimental),
    "DynamicLossScale": (mpls.v1, mpls.experimental),
    "MixedPrecisionLossScaleOptimizer": (mpls.v1,),
}


def new_optimizer() -> Any:
    return tf_keras.optimizers.SGD(0.5, momentum=0.9)


def legacy_optimizer() -> Any:
    return tf_keras.optimizers.legacy.SGD(0.5, momentum=0.9)


@functools.cache
def wrapper(target: str) -> Any:
    """An instance of the public Keras class: what it can do is settled by the optimizer that it wraps."""
    keras, experimental = mpls.keras.LossScaleOptimizer, mpls.experimental.LossScaleOptimizer
    make = {
        "keras, new": lambda: keras(new_optimizer()),
        "keras, legacy": lambda: keras(legacy_optimizer()),
        "experimental, new": lambda: experimental(new_optimizer(), "dynamic"),
        "experimental, legacy": lambda: experimental(legacy_optimizer(), "dynamic"),
    }[target]
    with mpls.errors.without_deprecations():
        return make()


# The public class of tf_keras makes instances of two concrete ones, which hold most of the record.
WRAPPERS = {
    "keras, new": ("keras.LossScaleOptimizer", "keras.LossScaleOptimizer (new)"),
    "keras, legacy": ("keras.LossScaleOptimizer", "keras.LossScaleOptimizer (legacy)"),
    "experimental, new": ("keras.LossScaleOptimizer (new)",),
    "experimental, legacy": ("experimental.LossScaleOptimizer", "keras.LossScaleOptimizer (legacy)"),
}


def plain_classes() -> Iterator[tuple[str, type, dict[str, Any]]]:
    for name, modules in PUBLIC_CLASSES.items():
        for module in modules:
            yield f"{module.__name__}.{name}", getattr(module, name), CLASSES[name]


def same(cls: type) -> type:
    return cls


def class_of_wrapper(target: str) -> type:
    return type(wrapper(target))


Member = tuple[str, Callable[[], type], str, dict[str, Any]]


def members(section: str) -> Iterator[Member]:
    """Every recorded member, with a function that returns the class of mpls that must have it."""
    for path, cls, record in plain_classes():
        for name, member in record[section].items():
            yield f"{path}.{name}", functools.partial(same, cls), name, member
    for target, records in WRAPPERS.items():
        for recorded in records:
            for name, member in CLASSES[recorded][section].items():
                yield f"{target}, {recorded}.{name}", functools.partial(class_of_wrapper, target), name, member


def kind_of(cls: type, name: str) -> str:
    """The kind of a member, in the words of the record."""
    value = inspect.getattr_static(cls, name)
    if isinstance(value, classmethod):
        return "classmethod"
    if inspect.isfunction(value):
        return "method"
    return "property" if inspect.isdatadescriptor(value) else "constant"


def is_settable(cls: type, name: str) -> bool:
    value = inspect.getattr_static(cls, name)
    return value.fset is not None if isinstance(value, property) else hasattr(value, "__set__")


def parameters(function: Any) -> list[dict[str, str]]:
    """The parameters of a function, in the form of the record."""
    found = []
    for parameter in inspect.signature(function).parameters.values():
        entry = {"name": parameter.name, "kind": parameter.kind.name}
        if parameter.default is not parameter.empty:
            entry["default"] = repr(parameter.default)
        found.append(entry)
    return found


def is_opt_in(parameter: dict[str, str]) -> bool:
    """Whether code that was written for the original cannot notice the parameter."""
    return parameter["kind"] == "KEYWORD_ONLY" and "default" in parameter


def reproduced(found: list[dict[str, str]]) -> list[dict[str, str]]:
    return [parameter for parameter in found if not is_opt_in(parameter)]


def unbound(cls: type, name: str) -> Any:
    value = inspect.getattr_static(cls, name)
    return value.__func__ if isinstance(value, classmethod) else value


class MemberTest(unittest.TestCase):
    """Members of every class."""

    @parameterized.expand(members("members"))
    def test_kind(self, label: str, get_class: Callable[[], type], name: str, record: dict[str, Any]) -> None:
        self.assertTrue(hasattr(get_class(), name), f"{get_class()} has no {name}")
        self.assertEqual(kind_of(get_class(), name), record["kind"])
        if record["kind"] == "property":
            self.assertEqual(is_settable(get_class(), name), record["settable"])
        if record["kind"] == "constant":
            value = getattr(get_class(), name)
            self.assertEqual((repr(value), type(value).__name__), (record["value"], record["type"]))

    @parameterized.expand(
        [
            *(member for member in members("members") if "params" in member[3]),
            *(member for member in members("special_members") if member[2] in ("__call__", "__repr__")),
            # Users' subclasses call the one, and code that looks into a wrapper the other.
            *(m for m in members("private_members") if m[2] in ("_add_weight", "_doing_dynamic_loss_scaling")),
        ]
    )
    def test_signature(self, label: str, get_class: Callable[[], type], name: str, record: dict[str, Any]) -> None:
        self.assertEqual(reproduced(parameters(unbound(get_class(), name))), record["params"])

    @parameterized.expand([(target,) for target in WRAPPERS])
    def test_instance_has_every_member(self, target: str) -> None:
        instance = wrapper(target)
        expected = {name for recorded in WRAPPERS[target] for name in CLASSES[recorded]["members"]}
        for name in sorted(expected):
            with self.subTest(name):
                # `update_step` and `aggregate_gradients` cannot be called on the original, but are there.
                self.assertTrue(hasattr(instance, name))
        self.assertLessEqual(expected, set(dir(instance)))


# The private members that the originals' own classes define, TF 1.15 to 2.21 and Keras 3, but those by which they are
# tracked. Those of the managers and of `tf.train` optimizers are TF 1.15's.
STATE = "_loss_scale _optimizer _loss_has_been_scaled _gradients_have_been_unscaled"
OF_LEGACY = (
    "_apply_gradients _apply_gradients_cross_replica _compute_gradients _create_all_weights _aggregate_gradients "
    "_raise_if_strategy_unsupported _restore_slot_variable _create_or_restore_slot_variable _HAS_AGGREGATE_GRAD _hyper"
)
# Of the base class; programs call them on wrappers.
INHERITED = "_clip_gradients _get_hyper _set_hyper _decayed_lr"
OF_KERAS_3 = (
    "_stateful_handle_finite_grads _stateful_handle_non_finite_grads _stateless_handle_finite_grads "
    "_stateless_handle_non_finite_grads _common_apply _tf_apply"
)
OF_V1 = (
    "_doing_dynamic_loss_scaling _scale_loss _unscale_grads _scale_grad _distributed_apply _apply_gradients "
    "_apply_sparse _apply_dense _resource_apply_sparse _resource_apply_dense _loss_scale _optimizer"
)
OF_MANAGERS = (
    "_reset_stats _decr_every_n_nan_or_inf _decr_ratio _incr_every_n_steps _incr_ratio _loss_scale _num_bad_steps "
    "_num_good_steps"
)
OF_LOSS_SCALES = "_add_weight _weights _trackable_children _checkpoint_dependencies _lookup_dependency"
OF_DYNAMIC = "_current_loss_scale _increment_period _initial_loss_scale _multiplier _num_good_steps"
OF_LATER_STATE = "_counter _growth_steps _current_loss_scale _initial_loss_scale _multiplier _weights"


def v1_optimizer() -> Any:
    return tf.compat.v1.train.GradientDescentOptimizer(0.5)


def manager() -> Any:
    return mpls.contrib.ExponentialUpdateLossScaleManager(8.0, 2)


# By the words of the table in docs/differences.md.
HOLDERS: dict[str, tuple[Callable[[], Any], str]] = {
    "Keras wrapper over a legacy optimizer": (lambda: wrapper("keras, legacy"), f"{STATE} {OF_LEGACY} {INHERITED}"),
    "Keras wrapper over a new optimizer": (lambda: wrapper("keras, new"), f"{STATE} {OF_LEGACY} {INHERITED}"),
    "Keras wrapper over a Keras 3 optimizer": (
        lambda: mpls.keras.LossScaleOptimizer(keras.optimizers.SGD()),
        f"{STATE} {OF_LEGACY} {INHERITED} {OF_KERAS_3}",
    ),
    "`_loss_scale` of a Keras wrapper": (lambda: wrapper("keras, legacy")._loss_scale, OF_LATER_STATE),
    "v1 wrapper": (lambda: mpls.v1.MixedPrecisionLossScaleOptimizer(v1_optimizer(), 8.0), OF_V1),
    "contrib wrapper": (
        lambda: mpls.contrib.LossScaleOptimizer(v1_optimizer(), manager()),
        "_down_scale _opt _loss_scale_manager",
    ),
    "`ExponentialUpdateLossScaleManager`": (manager, OF_MANAGERS),
    "`DynamicLossScale`": (mpls.v1.DynamicLossScale, f"{OF_LOSS_SCALES} {OF_DYNAMIC}"),
    "`FixedLossScale`": (lambda: mpls.v1.FixedLossScale(8.0), f"{OF_LOSS_SCALES} _loss_scale_value"),
}


def left_out() -> dict[str, set[str]]:
    """Return the private members that docs/differences.md says are not there, or are errors."""
    text = (pathlib.Path(__file__).parents[2] / "docs" / "differences.md").read_text(encoding="utf-8")
    section = text.partition("## Private members\n")[2].partition("\n#")[0]
    found: dict[str, set[str]] = {}
    for row in re.findall(r"^\| ([^|]+) \| ((?:`_\w+`(?:, )?)+) \|", section, re.MULTILINE):
        for holder in row[0].split("; "):
            found.setdefault(holder, set()).update(re.findall(r"`(\w+)`", row[1]))
    return found


class PrivateMemberTest(unittest.TestCase):
    @parameterized.expand(HOLDERS)
    def test_each_is_there_or_left_out_with_a_reason(self, holder: str) -> None:
        make, names = HOLDERS[holder]
        instance, rows = make(), left_out().get(holder, set())
        self.assertEqual({name for name in names.split() if not _works(instance, name)}, rows)

    def test_every_row_is_of_a_class(self) -> None:
        self.assertLessEqual(set(left_out()), set(HOLDERS))
        self.assertTrue(left_out())


def _works(instance: Any, name: str) -> bool:
    """Return whether a member is there, and is not an error that says what to call instead."""
    if not hasattr(instance, name):
        return False
    value = getattr(instance, name)
    try:
        if inspect.ismethod(value) and all(
            each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
            for each in inspect.signature(value).parameters.values()
        ):
            value()
    except mpls.errors.MplsError:
        return False
    except TypeError:
        # It hands its arguments on.
        pass
    return True


class PrivateMethodTest(unittest.TestCase):
    """What those do that subclasses and copies of old training steps call."""

    def test_of_managers(self) -> None:
        exponential = manager()
        exponential.update_loss_scale(tf.constant(False))
        self.assertEqual(int(exponential._num_bad_steps), 1)
        exponential._reset_stats()
        self.assertEqual((int(exponential._num_good_steps), int(exponential._num_bad_steps)), (0, 0))
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            exponential = manager()
            update, reset = exponential.update_loss_scale(tf.constant(False)), exponential._reset_stats()
            session.run(tf.compat.v1.global_variables_initializer())
            for op, expected in ((update, 1), (reset, 0)):
                session.run(op)
                self.assertEqual(session.run(exponential._num_bad_steps), expected)

    @parameterized.expand([("half", tf.float16), ("single", tf.float32)])
    def test_of_v1_wrappers(self, name: str, dtype: Any) -> None:
        variable = tf.Variable([1.0], dtype=dtype)
        grads = [tf.constant([16.0], dtype), None, tf.IndexedSlices(tf.constant([8.0], dtype), [0], [1])]
        pairs = [(grad, variable) for grad in grads]
        contrib = mpls.contrib.LossScaleOptimizer(v1_optimizer(), manager())
        v1 = mpls.v1.MixedPrecisionLossScaleOptimizer(v1_optimizer(), 8.0)
        self.assertEqual(float(v1._scale_loss(tf.constant(2.0, dtype))), 16.0)
        dynamic = mpls.v1.MixedPrecisionLossScaleOptimizer(v1_optimizer(), "dynamic")
        self.assertEqual([each._doing_dynamic_loss_scaling() for each in (v1, dynamic)], [False, True])
        self.assertEqual(float(v1._scale_loss(lambda: tf.constant(2.0, dtype))()), 16.0)
        by_contrib = contrib._down_scale(iter(pairs), contrib._loss_scale_manager.get_loss_scale())
        self.assertTrue(all(each is variable for _, each in by_contrib))
        for found in (v1._unscale_grads(iter(grads)), [grad for grad, _ in by_contrib]):
            self.assertEqual((found[0].numpy().item(), found[1], found[2].values.numpy().item()), (2.0, None, 1.0))
            self.assertEqual((found[0].dtype, found[2].dtype), (dtype, dtype))
        self.assertEqual(contrib._down_scale([], 8.0), [])

    @parameterized.expand([(f"{r}_{c}", r, c) for r in ("2.2", "2.3") for c in (None, 0.5)])
    def test_a_copy_of_the_training_step_of_tf_2_3(self, name: str, release: str, clipnorm: Any) -> None:
        with mpls.install(as_of=release), mpls.errors.without_deprecations():
            optimizer: Any = mpls.experimental.LossScaleOptimizer(
                tf_keras.optimizers.legacy.SGD(1.0, clipnorm=clipnorm), "dynamic"
            )
        variable = tf.Variable([3.0, 4.0])
        with tf.GradientTape() as tape:
            loss = optimizer.get_scaled_loss(tf.reduce_sum(variable**2) / 2)
        grads = tape.gradient(loss, [variable])
        optimizer._raise_if_strategy_unsupported()
        with tf.distribute.experimental.CentralStorageStrategy(["CPU:0"]).scope(), self.assertRaises(ValueError):
            optimizer._raise_if_strategy_unsupported()
        self.assertTrue(optimizer._HAS_AGGREGATE_GRAD)
        grads = optimizer._aggregate_gradients(zip(grads, [variable], strict=True))
        grads = optimizer._clip_gradients(optimizer.get_unscaled_gradients(grads))
        optimizer.apply_gradients(zip(grads, [variable], strict=True), experimental_aggregate_gradients=False)
        expected = [0.0, 0.0] if clipnorm is None else [2.7, 3.6]
        np.testing.assert_allclose(variable, expected, rtol=1e-6, atol=1e-6)


def constructors() -> Iterator[tuple[str, Any, list[dict[str, str]]]]:
    for path, cls, record in plain_classes():
        yield path, cls, record["init"]
    keras = CLASSES["keras.LossScaleOptimizer (new)"]["init"]
    yield "mpls.keras.LossScaleOptimizer, new", mpls.keras.LossScaleOptimizer, keras
    keras = CLASSES["keras.LossScaleOptimizer (legacy)"]["init"]
    yield "mpls.keras.LossScaleOptimizer, legacy", mpls.keras.LossScaleOptimizer, keras
    experimental = CLASSES["experimental.LossScaleOptimizer"]["init"]
    yield "mpls.experimental.LossScaleOptimizer", mpls.experimental.LossScaleOptimizer, experimental


class ConstructorTest(unittest.TestCase):
    """What the classes are called with."""

    @parameterized.expand(constructors())
    def test_signature_of_the_class(self, label: str, cls: type, record: list[dict[str, str]]) -> None:
        self.assertEqual(reproduced(parameters(cls)), record[1:], "the signature that tools show")


# What an original inherits for its own inner working.
INTERNAL = ("DelegatingTrackableMixin", "_BaseOptimizer", "object")
# Of 2.8, where tf.keras was keras.
TODAY = {
    "keras.mixed_precision.loss_scale_optimizer.LossScaleOptimizerV1": ("mpls.experimental.LossScaleOptimizer"),
    "keras.mixed_precision.loss_scale_optimizer.LossScaleOptimizer": "mpls.keras.LossScaleOptimizer",
    "keras.optimizer_v2.optimizer_v2.OptimizerV2": ("tf_keras.src.optimizers.legacy.optimizer_v2.OptimizerV2"),
    "tensorflow.python.training.tracking.base.Trackable": "tensorflow.python.trackable.base.Trackable",
}


class BaseTest(unittest.TestCase):
    """What instances and subclasses are recognised as."""

    def bases(self, record: dict[str, Any]) -> list[type]:
        paths = [TODAY.get(path, path) for path in record["mro"]]
        found = []
        for path in paths:
            module, _, name = path.rpartition(".")
            if name not in INTERNAL:
                found.append(getattr(importlib.import_module(module), name))
        self.assertTrue(found)
        return found

    @parameterized.expand(plain_classes())
    def test_class(self, label: str, cls: type, record: dict[str, Any]) -> None:
        for base in self.bases(record):
            with self.subTest(base):
                self.assertTrue(issubclass(cls, base))
        module, _, name = record["metaclass"].rpartition(".")
        self.assertIsInstance(cls, getattr(importlib.import_module(module), name))
        self.assertEqual(sorted(getattr(cls, "__abstractmethods__", ())), record["abstract_methods"])

    @parameterized.expand([(target, name) for target, names in WRAPPERS.items() for name in names])
    def test_instance(self, target: str, recorded: str) -> None:
        for base in self.bases(CLASSES[recorded]):
            with self.subTest(base):
                self.assertIsInstance(wrapper(target), base)

    def test_experimental_is_a_subclass_and_not_the_other_way_round(self) -> None:
        self.assertTrue(issubclass(mpls.experimental.LossScaleOptimizer, mpls.keras.LossScaleOptimizer))
        self.assertFalse(issubclass(mpls.keras.LossScaleOptimizer, mpls.experimental.LossScaleOptimizer))


class FunctionTest(unittest.TestCase):
    """The module-level functions."""

    @parameterized.expand([(name, record["signature"]) for name, record in FUNCTIONS.items()])
    def test_parameters(self, name: str, recorded: str) -> None:
        signature = inspect.signature(getattr(mpls.v1, name))
        plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
        self.assertEqual(str(inspect.Signature(plain)), recorded)
