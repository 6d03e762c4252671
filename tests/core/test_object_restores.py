"""What mpls relies on in how TensorFlow restores; each check fails where TensorFlow has changed."""

from __future__ import annotations

import dataclasses
import pathlib
import types
from typing import Any

import pytest
import tensorflow as tf
import tf_keras

import mpls.keras
import mpls.v1
from mpls.errors import MplsWarning
from mpls.upstream import table, trackables
from mpls.upstream.trackables import RestorePlace, place_being_restored

v1 = tf.compat.v1


class Watching(tf.train.Checkpoint):
    """An object that notes from where it is restored."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.__dict__["places"] = []

    def _trackable_children(self, *args: Any, **kwargs: Any) -> Any:
        self.places.append(place_being_restored(self))
        return super()._trackable_children(*args, **kwargs)


def test_an_object_learns_from_where_it_is_restored(tmp_path: pathlib.Path) -> None:
    path = tf.train.Checkpoint(a=Watching(value=tf.Variable(1.0))).save(str(tmp_path / "ckpt"))
    watching = Watching(value=tf.Variable(2.0))
    outer = tf.train.Checkpoint(a=watching)
    watching.places.clear()
    outer.restore(path).assert_consumed()
    (place,) = (each for each in watching.places if each is not None)
    assert isinstance(place, RestorePlace)
    assert place.path == path
    assert place.graph == trackables.object_graph_of(path)
    (child,) = place.graph.nodes[place.node].children
    assert child.local_name == "value"
    # Saving asks for another reason, and so does an object that asks for one inside of it.
    watching.places.clear()
    outer.save(str(tmp_path / "again"))
    assert watching.places
    assert set(watching.places) == {None}


@pytest.fixture
def _nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "_told", set())


def _without_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trackables, "_RESTORE_MODULE", "tensorflow.python.checkpoint.another")


def _with_another_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorflow.python.checkpoint import restore

    original = restore._queue_children_for_restoration

    def _queue_children_for_restoration(position: Any, visit_queue: Any) -> None:
        original(position, visit_queue)
        position.trackable._trackable_children()

    # As if it were TensorFlow's own, with a variable of another name.
    code = _queue_children_for_restoration.__code__
    own = types.FunctionType(code, restore.__dict__, closure=_queue_children_for_restoration.__closure__)
    monkeypatch.setattr(restore, "_queue_children_for_restoration", own)


def _with_another_attribute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "PATH", dataclasses.replace(table.PATH, name="another_path"))


CHANGES = (_without_the_module, _with_another_variable, _with_another_attribute)


@pytest.mark.usefixtures("_nothing_said")
@pytest.mark.parametrize("change", CHANGES)
def test_where_tensorflow_has_changed_it_restores_as_it_does(
    change: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def checkpoint(scale: Any) -> Any:
        opt = mpls.v1.MixedPrecisionLossScaleOptimizer(v1.train.MomentumOptimizer(0.5, 0.5), scale)
        keras_opt = mpls.keras.LossScaleOptimizer(
            tf_keras.optimizers.legacy.SGD(0.5, 0.5), initial_scale=float(scale())
        )
        variable = tf.Variable([1.0])
        for each in (opt, keras_opt):
            each.minimize(lambda: variable * 1.0, var_list=[variable])
        return tf.train.Checkpoint(opt=opt, keras_opt=keras_opt, variable=variable), keras_opt

    path = checkpoint(mpls.v1.DynamicLossScale(4.0))[0].save(str(tmp_path / "ckpt"))
    change(monkeypatch)

    def restore() -> None:
        scale = mpls.v1.DynamicLossScale(8.0)
        restored, keras_opt = checkpoint(scale)
        restored.restore(path).assert_consumed()
        assert (float(scale()), float(keras_opt.loss_scale)) == (4.0, 4.0)

    with pytest.warns(MplsWarning, match="mpls does not find .* in tensorflow .* not looked at before") as caught:
        restore()
    assert len(caught) == 1
    restore()
    assert pathlib.Path(caught[0].filename).name == pathlib.Path(__file__).name
