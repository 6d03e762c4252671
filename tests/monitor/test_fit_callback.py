"""The callback shows what the optimizer has, in every family and way to run, and what comes after it writes it."""

from __future__ import annotations

import io
import json
import unittest
import warnings
from contextlib import redirect_stdout
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.keras
from mpls.errors import MplsWarning, TrainingStuckError
from mpls.monitor import LossScaleCallback
from mpls.plotting import read_course
from tests.folders import InFolder
from tests.options.trainers import unscaled

from .events import scalars
from .models import BATCHES, CELLS, WAYS, data, is_ours, keras_of, model_of

COUNTERS = ["applied_steps", "skipped_steps", "consecutive_skips"]
# By the rule: 16, doubled after 3 finite steps, halved at a step that overflows. Batch 3 overflows in each epoch.
SCALES = [[16.0, 16.0, 32.0, 16.0], [16.0, 16.0, 32.0, 16.0]]
FIRST = {"step": 0, "loss_scale": 16.0}
SAVED = '{"step": 0, "loss_scale": 16.0, "applied_steps": 0, "skipped_steps": 0, "consecutive_skips": 0},'
APPLIED, SKIPPED = [[1, 2, 3, 3], [4, 5, 6, 6]], [[0, 0, 0, 1], [1, 1, 1, 2]]


class FitTest(InFolder, unittest.TestCase):
    @parameterized.expand(CELLS)
    @pytest.mark.default_run("one case", by=lambda name, family, way: (family, way))
    def test_logs_are_what_the_rule_says(self, name: str, family: str, way: str) -> None:
        model = model_of(family, way, **({"count_steps": True} if is_ours(family) else {}))
        seen: list[dict[str, Any]] = []
        note = keras_of(family).callbacks.LambdaCallback(on_train_batch_end=lambda _, logs: seen.append(dict(logs)))
        callback = LossScaleCallback()
        history = model.fit(**data(3), epochs=2, callbacks=[callback, note]).history
        step = WAYS[way].get("steps_per_execution", 1)
        at = [(epoch, batch) for epoch in range(2) for batch in range(step - 1, BATCHES, step)]
        self.assertEqual([log["loss_scale"] for log in seen], [SCALES[e][b] for e, b in at])
        self.assertEqual(history["loss_scale"], [16.0, 16.0])
        if is_ours(family):
            self.assertEqual([log["applied_steps"] for log in seen], [APPLIED[e][b] for e, b in at])
            self.assertEqual([log["skipped_steps"] for log in seen], [SKIPPED[e][b] for e, b in at])
            self.assertEqual([history[each] for each in COUNTERS], [[3, 6], [1, 2], [1, 1]])
        else:
            self.assertEqual(set(history) & set(COUNTERS), set())
        first, *after = callback.history
        self.assertEqual({**first, **dict.fromkeys(COUNTERS, 0)}, {**FIRST, **dict.fromkeys(COUNTERS, 0)})
        self.assertEqual([each["step"] for each in after], [BATCHES * e + b + 1 for e, b in at])
        names = ["loss_scale", *(COUNTERS if is_ours(family) else ())]
        self.assertEqual(
            [[each[key] for key in names] for each in after], [[log[key] for key in names] for log in seen]
        )
        np.testing.assert_array_equal([each["loss"] for each in after], [float(log["loss"]) for log in seen])

    @parameterized.expand([("tf_keras", "new"), ("keras3", "keras3")])
    @pytest.mark.default_run("one case")
    def test_csv_tensorboard_the_bar_and_plots_show_it(self, name: str, family: str) -> None:
        model, callbacks = model_of(family, track_overflows=True), keras_of(family).callbacks
        path, logs, history = (str(self.folder / each) for each in ("log.csv", "logs", "history.json"))
        callback = LossScaleCallback()
        after = [callbacks.CSVLogger(path, separator=";"), callbacks.TensorBoard(logs)]
        x = np.ones([4, 1], np.float32)
        settings = {**data(3), "verbose": 1, "validation_data": (x, x)}
        with redirect_stdout(io.StringIO()) as shown:
            model.fit(**settings, epochs=2, callbacks=[callback, *after])
        self.assertEqual(scalars(logs)["epoch_applied_steps"], [(0, 3.0), (1, 6.0)])
        self.assertIn("loss_scale: ", shown.getvalue())
        course = read_course(path)
        self.assertEqual((course.unit, course.scale), ("epoch", [(0, 16.0), (1, 16.0)]))
        self.assertEqual((course.skipped, course.loss, course.bad_loss), ([(0, 1.0), (1, 2.0)], [], [0, 1]))
        callback.save(history)
        course = read_course(history)
        self.assertEqual((course.unit, course.scale), ("step", list(enumerate([16.0, *SCALES[0], *SCALES[1]]))))
        self.assertEqual((course.marks()[0], course.bad_loss), ([(4, 16.0), (8, 16.0)], [4, 8]))


class HistoryTest(InFolder, unittest.TestCase):
    @parameterized.expand([("tf_keras", "new"), ("keras3", "keras3")])
    @pytest.mark.default_run("one case")
    def test_readings_between_which_there_are_batches(self, name: str, family: str) -> None:
        callback = LossScaleCallback(every=3)
        model_of(family).fit(**data(), epochs=2, callbacks=[callback])
        self.assertEqual([each["step"] for each in callback.history], [0, 3, 4, 7, 8])

    def test_another_model_begins_anew_and_one_that_has_been_trained_goes_on(self) -> None:
        callback = LossScaleCallback()
        model_of("new").fit(**data(), callbacks=[callback])
        counting = model_of("keras3", count_steps=True)
        # Its `iterations` do not count a skipped step.
        counting.fit(**data(3))
        for _ in range(2):
            counting.fit(**data(), callbacks=[callback])
        self.assertEqual([each["step"] for each in callback.history], list(range(4, 13)))

    def test_save(self) -> None:
        callback = LossScaleCallback()
        model_of("new", count_steps=True).fit(**data(1), callbacks=[callback])
        path = self.folder / "history.json"
        callback.save(path)
        text = path.read_text()
        self.assertEqual(text.splitlines()[1], SAVED)
        read = json.loads(text)
        kept = [{key: value for key, value in each.items() if key != "loss"} for each in callback.history]
        self.assertEqual([{key: value for key, value in each.items() if key != "loss"} for each in read], kept)
        # The mean over the epoch stays what it is after a batch that is not finite.
        self.assertEqual([each.get("loss", 0) is None for each in read], [False, False, True, True, True])


def gan_of(module: Any) -> Any:
    """Return a model that trains two weights, each by an optimizer of its own; the first has the data."""

    class Gan(module.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.d, self.g = (module.layers.Dense(1, use_bias=False) for _ in range(2))
            self.d.build((None, 1))
            self.g.build((None, 1))
            self.built = True

        def call(self, x: Any) -> Any:
            return self.d(x)

        def compile(self, d_optimizer: Any, g_optimizer: Any) -> None:
            super().compile()
            self.d_optimizer, self.g_optimizer = d_optimizer, g_optimizer

        def train_step(self, batch: Any) -> Any:
            x, _ = batch
            for layer, opt, rows in ((self.d, self.d_optimizer, x), (self.g, self.g_optimizer, tf.ones_like(x))):
                (kernel,) = layer.trainable_variables
                grads = unscaled(opt, lambda layer=layer, rows=rows: tf.reduce_mean(layer(rows)), [kernel])
                opt.apply_gradients(zip(grads, [kernel], strict=True))
            return {"loss": tf.reduce_mean(layer(rows))}

    gan = Gan()
    gan.compile(*(mpls.keras.LossScaleOptimizer(module.optimizers.SGD(0.1), initial_scale=16) for _ in range(2)))
    return gan


class PartOfAnExecutionTest(unittest.TestCase):
    @parameterized.expand([("tf_keras", "new"), ("keras3", "keras3")])
    def test_messages_name_batches_that_there_are(self, name: str, family: str) -> None:
        if family == "keras3" and keras.__version__.startswith("3.6."):
            self.skipTest("Keras 3.6 ends an epoch before a part of an execution")
        model = model_of(family, "several_steps")
        arguments = data(2)
        few = {**arguments, "x": arguments["x"][:6], "y": arguments["y"][:6]}
        callback = LossScaleCallback()
        with self.assertLogs("mpls", "INFO") as logged:
            model.fit(**few, callbacks=[callback])
        self.assertIn("16 -> 8 in epoch 1, batch 3", logged.output[-1])
        self.assertEqual([each["step"] for each in callback.history], [0, 2, 3])


class SeveralOptimizersTest(unittest.TestCase):
    @parameterized.expand([("tf_keras", tf_keras), ("keras3", keras)])
    @pytest.mark.default_run("one case")
    def test_a_callback_for_each(self, name: str, module: Any) -> None:
        gan = gan_of(module)
        d = LossScaleCallback(optimizer=gan.d_optimizer, name="d")
        g = LossScaleCallback(optimizer=gan.g_optimizer, name="g")
        with self.assertLogs("mpls", "INFO") as logged:
            history = gan.fit(**data(1, 2), callbacks=[d, g]).history
        self.assertEqual((history["d_loss_scale"], history["g_loss_scale"]), ([4.0], [16.0]))
        self.assertNotIn("loss_scale", history)
        self.assertEqual([each["loss_scale"] for each in d.history], [16.0, 16.0, 8.0, 4.0, 4.0])
        self.assertTrue(all(" of d in epoch 1" in each for each in logged.output), logged.output)

    @parameterized.expand([("tf_keras", tf_keras), ("keras3", keras)])
    @pytest.mark.default_run("one case")
    def test_the_same_name_twice(self, name: str, module: Any) -> None:
        gan = gan_of(module)
        callbacks = [LossScaleCallback(optimizer=each) for each in (gan.d_optimizer, gan.g_optimizer)]
        with self.assertRaisesRegex(ValueError, "name must differ from that of a callback for another optimizer"):
            gan.fit(**data(), callbacks=callbacks)
        # Two may read one optimizer.
        gan.fit(**data(), callbacks=[LossScaleCallback(every, optimizer=gan.d_optimizer) for every in (1, 2)])
        with self.assertRaisesRegex(TypeError, r"must scale the loss.*LossScaleCallback\(optimizer=model.d_optimizer"):
            gan.fit(**data(), callbacks=[LossScaleCallback()])


class OrderTest(InFolder, unittest.TestCase):
    @parameterized.expand([("tf_keras", "new"), ("keras3", "keras3")])
    @pytest.mark.default_run("one case")
    def test_it_warns_once_after_what_reads_the_logs(self, name: str, family: str) -> None:
        callbacks = keras_of(family).callbacks
        logger = callbacks.CSVLogger(str(self.folder / "log.csv"))
        waiting = callbacks.EarlyStopping("loss", patience=9)
        late, early = LossScaleCallback(), LossScaleCallback()
        with pytest.warns(MplsWarning, match="must stand before.*got it after CSVLogger"):
            model_of(family).fit(**data(), callbacks=[waiting, logger, late])
        # Warnings are errors.
        model_of(family).fit(**data(), callbacks=[waiting, logger, late])
        model_of(family).fit(**data(), callbacks=[waiting, early, logger])
        model, stopping = model_of(family), callbacks.EarlyStopping("loss_scale", patience=9, mode="max")
        with warnings.catch_warnings():
            # Keras says it too.
            warnings.filterwarnings("ignore", "Early stopping conditioned on metric", UserWarning)
            with pytest.warns(MplsWarning, match="got it after EarlyStopping"):
                model.fit(**data(), callbacks=[stopping, LossScaleCallback()])


class GivingUpTest(unittest.TestCase):
    @parameterized.expand([("tf_keras", "new"), ("keras3", "keras3")])
    @pytest.mark.default_run("one case")
    def test_steps_compiled_by_xla_give_up_at_the_reading(self, name: str, family: str) -> None:
        model = model_of(family, "xla", max_consecutive_skips=2)
        with self.assertRaisesRegex(TrainingStuckError, "3 steps in a row were skipped"):
            model.fit(**data(0, 1, 2, 3), callbacks=[LossScaleCallback()])
        # Without the callback, at the next step.
        model = model_of(family, "xla", max_consecutive_skips=2)
        with self.assertRaisesRegex(tf.errors.InvalidArgumentError, "skipped more steps in a row"):
            model.fit(**data(0, 1, 2, 3))

    @parameterized.expand(["function", "eager"])
    @pytest.mark.default_run("one case")
    def test_it_warns_once_for_a_step(self, way: str) -> None:
        model = model_of("new", way, max_consecutive_skips=3, on_give_up="warn")
        with pytest.warns(MplsWarning) as caught:
            model.fit(**data(0, 1, 2, 3), callbacks=[LossScaleCallback(every=4)])
        # It looks after the batch and after the epoch.
        self.assertEqual(len(caught), 1)


class RefusedTest(unittest.TestCase):
    @parameterized.expand([("tf_keras", tf_keras), ("keras3", keras)])
    def test_an_optimizer_that_scales_nothing(self, name: str, module: Any) -> None:
        model = module.Sequential([module.layers.Input((1,)), module.layers.Dense(1)])
        model.compile(module.optimizers.SGD(), "mse")
        text = (
            r"LossScaleCallback: the optimizer of the model must scale the loss; got .*SGD.*\. Write model\.compile\("
        )
        with self.assertRaisesRegex(TypeError, text + r".*mpls docs monitoring"):
            model.fit(**data(), callbacks=[LossScaleCallback()])

    @parameterized.expand(
        [
            *(("every", value, ValueError, "be a whole number") for value in (0, -1, 1.5, True, float("nan"))),
            ("every", None, TypeError, ""),
            ("messages", 1, TypeError, "be a bool"),
            ("name", 1, TypeError, "be a string"),
            ("optimizer", keras.optimizers.SGD(), TypeError, "scale the loss"),
        ]
    )
    def test_arguments(self, name: str, value: Any, error: type, constraint: str) -> None:
        with self.assertRaisesRegex(error, f"LossScaleCallback: {name} must {constraint}"):
            LossScaleCallback(**{name: value})
