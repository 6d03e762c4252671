"""What mpls puts in the place of TensorFlow's own is there while something needs it, and no longer."""

from __future__ import annotations

import copy
import functools
import gc
import pathlib
import pickle
import tempfile
import threading
import types
import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock

import keras
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized
from tensorflow.python.checkpoint.checkpoint import TrackableSaver

import mpls.experimental
import mpls.keras
import mpls.v1
from mpls.core import state_checks
from mpls.errors import SavedStateError
from mpls.experimental import compiling
from mpls.patches import ABSENT, Layer, WhileNeeded
from mpls.upstream import trackables
from mpls.upstream.keras_packages import compile_hooks

v1 = tf.compat.v1


def doubled(layer: Layer) -> Any:
    def ours(number: int) -> int:
        return 2 * layer.original(number) if layer.is_on else layer.original(number)

    return ours


def owner_of(kind: str) -> tuple[Any, Any]:
    """Return a class or a module with a function, and that function."""

    def own(number: int) -> int:
        return number + 1

    owner: Any = types.ModuleType("owner") if kind == "module" else type("Owner", (), {})
    owner.function = own
    return owner, own


KINDS = [("class", "class"), ("module", "module")]


class LayerTest(unittest.TestCase):
    @parameterized.expand(KINDS)
    @pytest.mark.default_run("one case")
    def test_there_and_back(self, name: str, kind: str) -> None:
        owner, own = owner_of(kind)
        for _ in range(3):
            layer = Layer(owner, "function", doubled)
            self.assertEqual(owner.function(1), 4)
            layer.take_away()
            self.assertIs(vars(owner)["function"], own)

    @parameterized.expand(KINDS)
    def test_where_there_was_none(self, name: str, kind: str) -> None:
        owner, _ = owner_of(kind)
        layer = Layer(owner, "other", lambda layer: lambda: layer.original)
        self.assertIs(owner.other(), ABSENT)
        layer.take_away()
        self.assertNotIn("other", vars(owner))

    @parameterized.expand(KINDS)
    def test_what_others_put_over_it_stays(self, name: str, kind: str) -> None:
        owner, own = owner_of(kind)
        layer = Layer(owner, "function", doubled)
        ours = owner.function

        # Copies the attributes of what it wraps.
        @functools.wraps(ours)
        def theirs(number: int) -> int:
            return 10 * ours(number)

        owner.function = theirs
        self.assertEqual(owner.function(1), 40)
        layer.take_away()
        self.assertIs(vars(owner)["function"], theirs)
        self.assertEqual(owner.function(1), 20)
        for _ in range(3):
            layer = Layer(owner, "function", doubled)
            self.assertEqual(owner.function(1), 40)
            layer.take_away()
            self.assertIs(vars(owner)["function"], theirs)
        # They go, and put back what they had found: ours, which does nothing, and goes with the next.
        owner.function = ours
        self.assertEqual(owner.function(1), 2)
        layer = Layer(owner, "function", doubled)
        self.assertEqual(owner.function(1), 4)
        layer.take_away()
        self.assertIs(vars(owner)["function"], own)

    def test_what_others_have_taken_away_comes_back_when_it_is_needed(self) -> None:
        owner, own = owner_of("class")
        needed = WhileNeeded(lambda: [(owner, "function", doubled)])
        with mock.patch.object(owner, "function", own):
            first = Thing()
            needed.hold_for(first)
            self.assertEqual(owner.function(1), 4)
        self.assertIs(owner.function, own)
        second = Thing()
        needed.hold_for(second)
        self.assertEqual(owner.function(1), 4)
        del first, second
        self.assertIs(owner.function, own)


class Thing:
    pass


class WhileNeededTest(unittest.TestCase):
    def setUp(self) -> None:
        self.owner, self.own = owner_of("class")
        self.needed = WhileNeeded(lambda: [(self.owner, "function", doubled)])

    def test_until_the_last_is_gone(self) -> None:
        things = [Thing() for _ in range(3)]
        for thing in things * 2:
            self.needed.hold_for(thing)
        ours = self.owner.function
        del thing
        while things:
            self.assertIs(self.owner.function, ours)
            things.pop()
        self.assertIs(self.owner.function, self.own)

    def test_undone_whatever_lives(self) -> None:
        first, second = Thing(), Thing()
        self.needed.hold_for(first)
        self.needed.undo()
        self.assertIs(self.owner.function, self.own)
        self.needed.hold_for(second)
        del first
        self.assertEqual(self.owner.function(1), 4)
        self.needed.hold_for(second)
        del second
        self.assertIs(self.owner.function, self.own)

    def test_what_is_loaded_later(self) -> None:
        """An object that is used again replaces what has been loaded since, and what other code restored."""
        others, other = owner_of("module")
        targets = [(self.owner, "function", doubled)]
        needed, thing = WhileNeeded(lambda: targets), Thing()
        needed.hold_for(thing)
        targets.append((others, "function", doubled))
        self.owner.function = self.own
        needed.hold_for(thing)
        self.assertEqual((self.owner.function(1), others.function(1)), (4, 4))
        del thing
        self.assertEqual((self.owner.function, others.function), (self.own, other))

    def test_an_object_that_goes_while_it_is_being_put(self) -> None:
        """Garbage is collected at any moment, in the thread that is at work too."""
        doomed = [Thing()]

        def targets() -> Any:
            doomed.clear()
            return [(self.owner, "function", doubled)]

        self.needed = WhileNeeded(targets)
        self.needed.hold_for(doomed[0])
        self.assertIs(self.owner.function, self.own)
        thing = Thing()
        self.needed.hold_for(thing)
        self.assertEqual(self.owner.function(1), 4)

    def test_many_threads(self) -> None:
        wrong: list[int] = []
        start = threading.Barrier(8)

        def work() -> None:
            start.wait()
            for _ in range(400):
                thing = Thing()
                thing.itself = thing  # type: ignore[attr-defined]
                self.needed.hold_for(thing)
                if self.owner.function(1) != 4:
                    wrong.append(self.owner.function(1))
                del thing
                if not _ % 50:
                    gc.collect()

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        gc.collect()
        self.assertEqual(wrong, [])
        self.assertIs(self.owner.function, self.own)


PATCHED = [(TrackableSaver, "restore"), (v1.train.Saver, "_build"), (v1.train.Saver, "restore"), *compile_hooks()]


def methods() -> list[Any]:
    gc.collect()
    return [vars(owner)[name] for owner, name in PATCHED]


class OwnScale(mpls.v1.LossScale):
    def __call__(self) -> Any:
        return tf.constant(1.0)

    def update(self, grads: Any) -> Any:
        return None, True

    def get_config(self) -> dict[str, Any]:
        return {}


def graph_with_wrapper(loss_scale: Any = "dynamic") -> Any:
    graph = tf.Graph()
    with graph.as_default():
        weight = v1.get_variable("weight", initializer=1.0)
        opt = mpls.v1.MixedPrecisionLossScaleOptimizer(v1.train.AdamOptimizer(0.5), loss_scale)
        opt.minimize(weight**2)
    return graph


def as_of_2_3(optimizer: Any) -> Any:
    with mpls.install("2.3"), pytest.warns(mpls.errors.MplsDeprecationWarning):
        return mpls.experimental.LossScaleOptimizer(optimizer, v1.mixed_precision.DynamicLossScale())


def used(optimizer: Any, framework: Any) -> Any:
    model = framework.Sequential([framework.layers.Dense(1)])
    model.compile(optimizer, "mse")
    model.train_on_batch(tf.ones([1, 1]), tf.ones([1, 1]))
    return model


ATTACHED, SAVERS, COMPILE = {0}, {0, 1, 2}, {0, 3, 4, 5}
Ours: Any = mpls.keras.LossScaleOptimizer
# How an object is made, and which of the methods are patched while it lives.
MAKERS: list[tuple[str, Callable[[], Any], set[int]]] = [
    ("dynamic", mpls.v1.DynamicLossScale, ATTACHED),
    ("fixed", lambda: mpls.v1.FixedLossScale(8), ATTACHED),
    ("of_a_users_class", OwnScale, ATTACHED),
    ("copied", lambda: copy.deepcopy(mpls.v1.DynamicLossScale()), ATTACHED),
    ("pickled", lambda: pickle.loads(pickle.dumps(mpls.v1.FixedLossScale(8))), ATTACHED),
    ("v1", lambda: mpls.v1.MixedPrecisionLossScaleOptimizer(v1.train.AdamOptimizer(), "dynamic"), ATTACHED),
    (
        "v1_with_a_scale_of_tensorflow",
        lambda: mpls.v1.MixedPrecisionLossScaleOptimizer(
            v1.train.AdamOptimizer(), v1.mixed_precision.DynamicLossScale()
        ),
        ATTACHED,
    ),
    ("legacy", lambda: Ours(tf_keras.optimizers.legacy.Adam()), ATTACHED),
    ("legacy_of_2_3", lambda: as_of_2_3(tf_keras.optimizers.legacy.Adam()), ATTACHED),
    ("keras3_of_2_3", lambda: as_of_2_3(keras.optimizers.Adam()), ATTACHED),
    ("new_fixed", lambda: Ours(tf_keras.optimizers.Adam(), dynamic=False, initial_scale=8), ATTACHED),
    ("legacy_copied", lambda: copy.deepcopy(Ours(tf_keras.optimizers.legacy.Adam())), ATTACHED),
    ("keras3", lambda: Ours(keras.optimizers.Adam()), ATTACHED),
    ("graph", graph_with_wrapper, SAVERS),
    ("graph_fixed", lambda: graph_with_wrapper(8), SAVERS),
    ("policy", lambda: mpls.experimental.Policy("mixed_float16"), COMPILE),
    ("policy_without_scale", lambda: mpls.experimental.Policy("mixed_float16", None), COMPILE - {0}),
    ("plain_policy", lambda: mpls.keras.Policy("mixed_float16"), set()),
]


class LifetimeTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        # What other tests have left behind counts no more.
        for needed in (state_checks._watch, compiling._while_needed, *trackables._saver_hooks.values()):
            needed.undo()
        gc.collect()
        self.before = methods()

    def patched(self) -> set[int]:
        return {number for number, method in enumerate(methods()) if method is not self.before[number]}

    @parameterized.expand(MAKERS)
    @pytest.mark.default_run("each value")
    def test_it_is_patched_while_the_object_lives(self, name: str, make: Callable[[], Any], expected: set[int]) -> None:
        for _ in range(2):
            objects = [make(), make()]
            self.assertEqual(self.patched(), expected)
            objects.pop()
            self.assertEqual(self.patched(), expected)
            objects.pop()
            self.assertEqual(self.patched(), set())

    def test_a_copy_that_outlives_the_original(self) -> None:
        original = mpls.v1.DynamicLossScale()
        copied = copy.copy(original)
        del original
        self.assertEqual(self.patched(), ATTACHED, copied)
        del copied
        self.assertEqual(self.patched(), set())

    @parameterized.expand([("tf_keras", tf_keras), ("keras", keras)])
    @pytest.mark.matrix
    def test_models_that_have_trained(self, name: str, framework: Any) -> None:
        model = used(Ours(framework.optimizers.SGD()), framework)
        self.assertEqual(self.patched(), ATTACHED)
        del model
        framework.backend.clear_session()
        self.assertEqual(self.patched(), set())

    @pytest.mark.matrix
    def test_others_patches_stay_and_ours_beneath_pass_on(self) -> None:
        graph = graph_with_wrapper()
        for number, (owner, name) in enumerate(PATCHED[:3]):
            # It ends by putting ours back, which does nothing by then, and stays until something is patched again.
            self.addCleanup(setattr, owner, name, self.before[number])
            beneath = vars(owner)[name]

            def theirs(*args: Any, _beneath: Any = beneath, **kwargs: Any) -> Any:
                return _beneath(*args, **kwargs)

            patch = mock.patch.object(owner, name, theirs)
            patch.start()
            self.addCleanup(patch.stop)
        theirs_there = methods()
        del graph
        self.assertEqual(methods(), theirs_there)
        with (
            tf.Graph().as_default(),
            v1.Session() as session,
            mock.patch("mpls.core.savers._feeds_for") as asked,
        ):
            v1.get_variable("weight", initializer=1.0)
            session.run(v1.global_variables_initializer())
            saver = v1.train.Saver()
            path = saver.save(session, str(self.folder / "model"))
            saver.restore(session, path)
        asked.assert_not_called()
        # And once more over theirs.
        graph = graph_with_wrapper()
        self.assertEqual(self.patched(), {0, 1, 2})
        del graph
        self.assertEqual(methods(), theirs_there)

    def test_it_works_as_long_as_it_is_needed(self) -> None:
        scale = mpls.v1.DynamicLossScale(8)
        scale._current_loss_scale.assign(float("nan"))
        root = tf.Variable(1.0)
        path = tf.train.Checkpoint(tf.train.Checkpoint(value=root), scale=scale).save(str(self.folder / "ckpt"))
        del scale
        gc.collect()
        for _ in range(2):
            root.assign(2.0)
            fresh = mpls.v1.DynamicLossScale(8)
            with self.assertRaises(SavedStateError):
                tf.train.Checkpoint(tf.train.Checkpoint(value=root), scale=fresh).restore(path)
            self.assertEqual(float(root), 2.0)
            del fresh
            gc.collect()

    @pytest.mark.matrix
    def test_threads_that_make_and_drop(self) -> None:
        wrong: list[Any] = []

        def work() -> None:
            for _ in range(30):
                scale = mpls.v1.FixedLossScale(8)
                if vars(TrackableSaver)["restore"] is self.before[0]:
                    wrong.append(scale)
                graph = graph_with_wrapper() if not _ % 10 else None
                if graph is not None and vars(v1.train.Saver)["restore"] is self.before[2]:
                    wrong.append(graph)
                del scale, graph

        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.assertEqual(self.patched(), set())
        self.assertEqual(state_checks._watch._count, 0)


if __name__ == "__main__":
    unittest.main()
