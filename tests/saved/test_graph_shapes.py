"""What TensorFlow computes from constants for the shapes in a SavedModel: refused before it does, if that is much."""

from __future__ import annotations

import pathlib
import shutil
import tempfile
import unittest
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from parameterized import parameterized

import mpls.keras
from mpls.errors import SavedStateError
from mpls.keras.files import constants, graph_rehearsal
from mpls.keras.files.constant_work import _PRODUCTS, _RATES
from mpls.keras.files.graph_ops import refuse_graph_ops
from mpls.keras.files.op_types import ALLOWED
from mpls.keras.files.shape_inputs import _INPUTS, _NONE, COMPUTED_IN_PYTHON
from tests.saved import watching
from tests.saved.fuzz_driver import Lane
from tests.saved.graph_folders import save
from tests.saved.graphs import add
from tests.saved.mutations.sources import Sources
from tests.saved.shape_graphs import COSTLY, ShapeGraph, add_function, model_of_a_fixed_shape

_LITTLE = "must compute shapes from constants with little work; got"
needs_watch = unittest.skipUnless(watching.IS_SUPPORTED, watching.WHY_NOT)


@pytest.fixture
def folder() -> Iterator[pathlib.Path]:
    path = pathlib.Path(tempfile.mkdtemp())
    yield path / "model"
    shutil.rmtree(path)


def _sum(n: Any) -> Any:
    return tf.cumsum(tf.fill(tf.stack([n]), 1.0))


def _matrix(n: Any) -> Any:
    return tf.fill(tf.stack([n, n]), 1.0) * 0.0


def _refused(path: str, words: str) -> None:
    with pytest.raises(SavedStateError, match=words) as caught:
        refuse_graph_ops(path)
    assert path in str(caught.value)
    assert "safe_mode=False" in str(caught.value)


class TestConstants:
    @pytest.mark.default_run("one case")
    @pytest.mark.parametrize("op", COSTLY)
    def test_much_work(self, op: str, folder: pathlib.Path) -> None:
        compute, size = COSTLY[op]
        graph = ShapeGraph(folder, compute)
        assert op in {each.op for each in graph.function.node_def}
        graph.set_size(size)
        _refused(graph.save(), f"function '__inference_reshape_.*', node '.*' {_LITTLE}")

    @pytest.mark.default_run("one case")
    @pytest.mark.parametrize("op", ["Cumsum", "Fill", "MatMul", "Mul", "Range", "StatelessRandomUniformV2"])
    def test_little_work(self, op: str, folder: pathlib.Path) -> None:
        graph = ShapeGraph(folder, COSTLY[op][0])
        graph.set_size(300)
        refuse_graph_ops(graph.save())

    def test_work_many_times(self, folder: pathlib.Path) -> None:
        def compute(n: Any) -> Any:
            matrices = [tf.linalg.matmul(_matrix(n), _matrix(n)) for _ in range(50)]
            return [tf.ones(tf.cast(each[0, :1], tf.int32)) for each in matrices]

        graph = ShapeGraph(folder, compute)
        for size, is_refused in ((100, False), (1000, True)):
            graph.set_size(size)
            if is_refused:
                _refused(graph.save(), f"{_LITTLE} 'MatMul")
            else:
                refuse_graph_ops(graph.save())

    def test_what_is_no_shape(self, folder: pathlib.Path) -> None:
        """TensorFlow does not compute it."""

        def compute(n: Any) -> Any:
            return tf.size(tf.range(n)) + tf.shape(tf.linalg.matmul(tf.fill(tf.stack([n, n]), 1.0), tf.eye(97)))[0]

        graph = ShapeGraph(folder, compute)
        refuse_graph_ops(graph.save())


class TestLies:
    """Shapes that the file tells are believed, as TensorFlow does."""

    @pytest.mark.parametrize("where", ["node", "argument", "function", "nowhere"])
    def test_of_what_is_no_constant(self, where: str, folder: pathlib.Path) -> None:
        graph = ShapeGraph(folder, tf.identity)
        function = graph.function
        node = add(function, "Identity", "same", ["x"], T=tf.float32)
        add(function, "Shape", "shape", ["same:output:0"], T=tf.float32, out_type=tf.int32)
        add(function, "Const", "one", dtype=tf.int32, value=1)
        add(function, "Const", "axes", dtype=tf.int32, value=np.array([0, 1], np.int32))
        add(function, "Const", "vector", dtype=tf.int32, value=np.array([1], np.int32))
        add(function, "Fill", "fill", ["shape:output:0", "one:output:0"], T=tf.int32, index_type=tf.int32)
        add(function, "Sum", "sum", ["fill:output:0", "axes:output:0"], T=tf.int32, Tidx=tf.int32)
        add(function, "Reshape", "sums", ["sum:output:0", "vector:output:0"], T=tf.int32, Tshape=tf.int32)
        add(function, "Reshape", "end", ["x", "sums:output:0"], T=tf.float32, Tshape=tf.int32)
        places = {"node": node.attr["_output_shapes"], "argument": function.arg_attr[0].attr["_output_shapes"]}
        places["function"] = function.attr["_input_shapes"]
        for name, place in places.items():
            del place.list.shape[:]
            place.list.shape.add().CopyFrom(tf.TensorShape([200_000_000 if name == where else None, 4]).as_proto())
        if where == "function":
            del function.arg_attr[0].attr["_output_shapes"]
        if where == "nowhere":
            refuse_graph_ops(graph.save())
        else:
            _refused(graph.save(), f"node 'end' {_LITTLE} 'Sum")


def _joined(graph: ShapeGraph, op: str, number: int) -> None:
    """Have a function put a size together from one, again and again."""
    function = graph.function
    for name, value in (("axis", 0), ("from", [0]), ("to", [1])):
        add(function, "Const", name, dtype=tf.int32, value=np.array(value, np.int32))
    add(function, "Shape", "shape", ["x"], T=tf.float32, out_type=tf.int32)
    inputs = ["shape:output:0", "from:output:0", "to:output:0"]
    add(function, "Slice", "size", inputs, T=tf.int32, Index=tf.int32)
    last = "size:output:0"
    for index in range(number):
        name = f"joined{index}"
        if op == "Cast":
            add(function, op, name, [last], SrcT=tf.int32, DstT=tf.int32)
        else:
            add(function, op, name, [last, last, "axis:output:0"], N=2, T=tf.int32, Tidx=tf.int32)
        last = f"{name}:y:0" if op == "Cast" else f"{name}:output:0"
    add(function, "Reshape", "end", ["x", last], T=tf.float32, Tshape=tf.int32)


class TestParts:
    """TensorFlow looks for the sizes in a shape along each way, and calls itself for each op on the way."""

    @pytest.mark.default_run("one case")
    @pytest.mark.parametrize(
        ("op", "number", "words"),
        [("ConcatV2", 40, _LITTLE), ("Cast", 30_000, "must put few sizes together to a shape; got 'parts of parts")],
    )
    def test_many(self, op: str, number: int, words: str, folder: pathlib.Path) -> None:
        graph = ShapeGraph(folder, tf.identity)
        _joined(graph, op, number)
        _refused(graph.save(), f"node 'end' {words}")

    @pytest.mark.parametrize(("op", "number"), [("ConcatV2", 4), ("Cast", 100)])
    def test_few(self, op: str, number: int, folder: pathlib.Path) -> None:
        graph = ShapeGraph(folder, tf.identity)
        _joined(graph, op, number)
        assert mpls.keras.load_model(graph.save()).output_shape == (None, 4)


def _calls(graph: ShapeGraph, depth: int) -> None:
    """Have tf_keras call a function that calls two that call two."""
    first = add_function(graph.library, "calls0")
    add(first, "Const", "one", dtype=tf.float32, value=1.0)
    add(first, "Fill", "y", ["a", "one:output:0"], T=tf.float32, index_type=tf.int32)
    for number in range(1, depth):
        function = add_function(graph.library, f"calls{number}")
        for name in ("y", "other"):
            add(function, "PartitionedCall", name, ["a"], f=f"calls{number - 1}", Tin=[tf.int32], Tout=[tf.float32])
    graph.call_while_loading(f"calls{depth - 1}", [2])


def _work_in_a_call(graph: ShapeGraph, size: int) -> None:
    """Have tf_keras call a function that multiplies matrices of the size that it is given."""
    function = add_function(graph.library, "work")
    add(function, "Const", "one", dtype=tf.float32, value=1.0)
    add(function, "Const", "axes", dtype=tf.int32, value=[0, 1])
    add(function, "Const", "vector", dtype=tf.int32, value=[1])
    add(function, "Fill", "matrix", ["a", "one:output:0"], T=tf.float32, index_type=tf.int32)
    add(function, "MatMul", "product", ["matrix:output:0"] * 2, T=tf.float32)
    add(function, "Sum", "sum", ["product:product:0", "axes:output:0"], T=tf.float32, Tidx=tf.int32)
    add(function, "Cast", "cast", ["sum:output:0"], SrcT=tf.float32, DstT=tf.int32)
    add(function, "Reshape", "sums", ["cast:y:0", "vector:output:0"], T=tf.int32, Tshape=tf.int32)
    add(function, "Fill", "y", ["sums:output:0", "one:output:0"], T=tf.float32, index_type=tf.int32)
    graph.call_while_loading("work", [size, size])


class TestCosts:
    """Measured from outside, in a process that is killed if it takes too long."""

    lane: Lane

    @pytest.fixture(autouse=True, scope="class")
    def _lane(self, request: pytest.FixtureRequest) -> Iterator[None]:
        base = pathlib.Path(tempfile.mkdtemp()).resolve()
        request.cls.lane = Lane(base, Sources([]), few=True, limits={})
        # What is loaded first takes longer.
        yield
        request.cls.lane.close()
        shutil.rmtree(base)

    @needs_watch
    @parameterized.expand(
        [
            ("product", lambda graph: graph.set_size(16_000)),
            ("parts", lambda graph: _joined(graph, "ConcatV2", 40)),
            ("depth", lambda graph: _joined(graph, "Cast", 30_000)),
            ("calls", lambda graph: _calls(graph, 30)),
            ("work in a call", lambda graph: _work_in_a_call(graph, 15_000)),
        ]
    )
    @pytest.mark.default_run("one case")
    @pytest.mark.matrix
    def test_in_seconds_and_megabytes(self, name: str, change: Callable[[ShapeGraph], None]) -> None:
        graph = ShapeGraph(self.lane.base / "case" / "model", COSTLY["MatMul"][0])
        change(graph)
        self.lane.request("load_model", graph.save())
        failures, self.lane.results.failures = self.lane.results.failures, []
        shutil.rmtree(self.lane.base / "case")
        assert failures == []


class TestCalls:
    def test_the_shapes_of_their_outputs_stay(self, folder: pathlib.Path) -> None:
        graph = ShapeGraph(folder, tf.identity)
        _work_in_a_call(graph, 2)
        model = mpls.keras.load_model(graph.save())
        assert model.output_shape == (None, 4)
        assert model(np.ones([3, 4], np.float32)).shape == (3, 4)


class TestOrder:
    def test_functions_that_are_not_connected(self, folder: pathlib.Path) -> None:
        graph = ShapeGraph(folder, tf.identity)
        for text in ("nothing:output:0", "x:output:0:0", "Shape:nothing:0", "x:y:z"):
            add(graph.function, "Identity", "end", [text], T=tf.float32)
            if text.startswith("x"):
                # An argument has one output.
                refuse_graph_ops(graph.save())
            else:
                _refused(graph.save(), "must have ops as TensorFlow writes them; got .KeyError")
            del graph.function.node_def[-1]

    def test_ops_that_wait_for_themselves(self, folder: pathlib.Path) -> None:
        graph = ShapeGraph(folder, tf.identity)
        add(graph.function, "Identity", "one", ["other:output:0"], T=tf.int32)
        add(graph.function, "Identity", "other", ["one:output:0"], T=tf.int32)
        refuse_graph_ops(graph.save())

    def test_ops_that_do_not_fit(self, folder: pathlib.Path) -> None:
        graph = ShapeGraph(folder, _sum)
        add(graph.function, "MatMul", "end", ["x", "x"], T=tf.float32, transpose_a=1)
        _refused(graph.save(), "node 'end' must be one that TensorFlow can add to a graph; got")

    def test_large_functions(self, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
        graph = ShapeGraph(folder, _sum)
        refuse_graph_ops(graph.save())
        monkeypatch.setattr(graph_rehearsal, "_OPS", 10)
        _refused(graph.save(), "must compute shapes from constants in small functions; got 'functions of 10 ops'")


class TestHonest:
    @pytest.mark.full
    def test_a_model_of_a_fixed_shape(self, folder: pathlib.Path) -> None:
        model = model_of_a_fixed_shape()
        save(model, folder)
        assert mpls.keras.load_model(folder).output_shape == model.output_shape

    @pytest.mark.matrix
    def test_they_need_a_tenth_of_the_limit(self, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(constants, "_WORK", constants._WORK // 10)
        self.test_a_model_of_a_fixed_shape(folder)


class TestTables:
    def test_the_ops_are_allowed_ones(self) -> None:
        assert {*_RATES, *_PRODUCTS, *_INPUTS, *_NONE, *COMPUTED_IN_PYTHON} - ALLOWED == set()

    def test_none_is_in_two(self) -> None:
        assert set(_INPUTS) & _NONE == set()
        assert set(_RATES) & _PRODUCTS == set()
