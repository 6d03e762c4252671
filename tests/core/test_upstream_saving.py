"""What mpls relies on in how TensorFlow restores; each check fails where TensorFlow has changed."""

from __future__ import annotations

import pathlib
import types
from typing import Any

import pytest
import tensorflow as tf

import mpls.v1
from mpls import upstream_saving
from mpls.upstream_saving import RestorePlace, place_being_restored

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
    assert place.graph == upstream_saving.object_graph_of(path)
    (child,) = place.graph.nodes[place.node].children
    assert child.local_name == "value"
    # Saving asks for another reason, and so does an object that asks for one inside of it.
    watching.places.clear()
    outer.save(str(tmp_path / "again"))
    assert watching.places
    assert set(watching.places) == {None}


def test_a_changed_tensorflow_is_noticed(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorflow.python.checkpoint import restore

    path = tf.train.Checkpoint(a=mpls.v1.DynamicLossScale()).save(str(tmp_path / "ckpt"))
    monkeypatch.setattr(upstream_saving, "_RESTORE_FUNCTION", "_queue_children")
    with pytest.raises(RuntimeError, match=r"mpls does not know .*_queue_children_for_restoration"):
        tf.train.Checkpoint(a=mpls.v1.DynamicLossScale()).restore(path)
    monkeypatch.undo()
    original = restore._queue_children_for_restoration

    def _queue_children_for_restoration(position: Any, visit_queue: Any) -> None:
        original(position, visit_queue)
        position.trackable._trackable_children()

    # As if it were TensorFlow's own, with a variable of another name.
    code = _queue_children_for_restoration.__code__
    own = types.FunctionType(code, restore.__dict__, closure=_queue_children_for_restoration.__closure__)
    monkeypatch.setattr(restore, "_queue_children_for_restoration", own)
    with pytest.raises(RuntimeError, match="mpls does not know"):
        tf.train.Checkpoint(a=mpls.v1.DynamicLossScale()).restore(path)
