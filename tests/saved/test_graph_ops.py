"""What SavedModels may hold: honest ones pass, and those with ops that reach out of them are refused."""

from __future__ import annotations

import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

from mpls.saved.allowed import OPS, SAVERS
from tests.saved import honest_models
from tests.saved.graphs import Folders, add, add_call, add_text, add_write, load_natively, refusal_of, save
from tests.saved.op_registry import (
    KNOWN_TO_REACH_OUT,
    REFUSED,
    RELEASE,
    ops,
    signs_of_reaching_out,
)

# What TensorFlow and tf_keras run when they load a model of a class that is not at hand.
AT_LOAD = ("_create_resource", "_initialize", "save_function", "restore_function")
LATER = ("_destroy_resource", "call_and_return_conditional_losses")


class TestHonest:
    @pytest.mark.programs
    def test_small(self, tmp_path: pathlib.Path) -> None:
        for name, model in honest_models.small():
            save(model, tmp_path / name)
            assert refusal_of(tmp_path / name) is None

    def test_discretization_that_was_adapted_is_not_among_them(self, tmp_path: pathlib.Path) -> None:
        """Its `adapt` calls Python, and is saved with it."""
        layer = tf_keras.layers.Discretization(num_bins=3)
        layer.adapt(np.arange(12.0).reshape(4, 3))
        inputs = tf_keras.Input((3,))
        save(tf_keras.Model(inputs, layer(inputs)), tmp_path / "model")
        assert re.search(r"adapt_step.*got 'PyFunc'", refusal_of(tmp_path / "model") or "")


class TestFunctions(Folders):
    def test_the_honest_one(self) -> None:
        assert refusal_of(self.graph.folder) is None

    @parameterized.expand([(each,) for each in AT_LOAD + LATER])
    def test_ops_in_functions_of_objects(self, role: str) -> None:
        function = self.roles[role][0]
        add_write(function, self.outside / role)
        text = self.refused("must have an op that is known to stay within the model; got 'WriteFile'")
        assert f"function '{function.signature.name}', node 'hostile'" in text

    @parameterized.expand([("StatefulPartitionedCall",), ("PartitionedCall",), ("hidden",)])
    def test_ops_in_functions_of_functions(self, op: str) -> None:
        add_write(self.graph.new_function("hidden"), self.outside / "hidden")
        add_call(self.roles["call_and_return_conditional_losses"][0], "hidden", op)
        self.refused("function 'hidden', node 'hostile' .*got 'WriteFile'")
        if op == "StatefulPartitionedCall":
            load_natively(self.graph.folder)(np.ones((1, 4), np.float32))
            assert self.written() == {"hidden"}

    def test_ops_in_branches(self) -> None:
        add_write(self.graph.new_function("hidden"), self.outside / "hidden")
        function = self.roles["call_and_return_conditional_losses"][0]
        add(function, "Const", "which", dtype=tf.int32, value=0)
        add(function, "Case", "case", ["which:output:0"], branches=["hidden"], Tin=[], Tout=[])
        self.refused("function 'hidden', node 'hostile' .*got 'WriteFile'")

    @parameterized.expand([("main",), ("second",), ("none",), ("tf1",)])
    def test_main_graphs(self, name: str) -> None:
        graphs = self.graph.proto.meta_graphs
        if name == "main":
            self.graph.meta.graph_def.node.add(name="hostile", op="WriteFile")
            self.refused("the main graph, node 'hostile' .*got 'WriteFile'")
            return
        if name == "second":
            graphs.add().graph_def.node.add(name="hostile", op="WriteFile")
        elif name == "none":
            del graphs[:]
        else:
            self.graph.meta.ClearField("object_graph_def")
        self.refused("must hold one graph with the objects in it; got|it has no graph")

    @parameterized.expand(
        [("MapDataset",), ("ReadFile",), ("PrintV2",), ("EagerPyFunc",), ("RemoteCall",), ("Unheard",)]
    )
    def test_other_ops(self, op: str) -> None:
        add(self.roles["_initialize"][0], op, "hostile")
        self.refused(f"function '.*', node 'hostile' must have an op .*got '{op}'")

    def test_names_that_mean_two_things(self) -> None:
        self.graph.new_function("WriteFile")
        self.refused("function 'WriteFile' must have a name of its own")
        self.graph.library.function[-1].signature.name = self.graph.library.function[0].signature.name
        self.refused("must have a name of its own")

    def test_functions_of_the_process(self) -> None:
        node = add(self.roles["_initialize"][0], "PartitionedCall", "call", f="__inference_of_another_model_7")
        self.refused("must call functions of the file; got '__inference_of_another_model_7'")
        node.attr["f"].func.name = self.graph.library.function[0].signature.name
        node.attr["f"].func.attr["inner"].func.name = "__inference_of_another_model_7"
        self.refused("must pass no functions to functions")

    def test_names_are_shown_as_they_can_be(self) -> None:
        add(self.graph.new_function("\x1b[2J" + "x" * 10_000), "ReadFile", "hostile")
        text = self.refused("ReadFile")
        assert "\x1b" not in text
        assert len(text) < 1000


class TestSavers(Folders):
    """The functions that save and restore all variables open files; nothing runs them."""

    def test_in_functions_of_objects(self) -> None:
        function = self.roles["_initialize"][0]
        name = add_text(function, "prefix", str(self.outside / "stolen"))
        for key, text in (("names", "a"), ("slices", "")):
            add(function, "Const", key, dtype=tf.string, value=[text])
        inputs = [name, "names:output:0", "slices:output:0", name]
        add(function, "SaveV2", "hostile", inputs, dtypes=[tf.string])
        self.refused("must have an op that is known to stay within the model; got 'SaveV2'")
        load_natively(self.graph.folder)
        assert (self.outside / "stolen.index").exists()

    @parameterized.expand([("call",), ("object",), ("bare",), ("gradient",), ("registered",), ("alias",), ("swap",)])
    def test_made_callable(self, how: str) -> None:
        saver = self.graph.function("traced_restore")
        name, library = saver.signature.name, self.graph.library
        if how == "call":
            add_call(self.roles["call_and_return_conditional_losses"][0], name)
        elif how == "object":
            self.graph.objects.nodes.add().function.concrete_functions.append(name)
        elif how == "bare":
            self.graph.objects.nodes.add().bare_concrete_function.concrete_function_name = name
        elif how == "gradient":
            library.gradient.add(function_name="innocent", gradient_func=name)
        elif how == "registered":
            library.registered_gradients.add(gradient_func=name, registered_op_type="CustomGradient-1")
        elif how == "alias":
            self.graph.meta.meta_info_def.function_aliases[name] = "innocent"
        else:
            saver.attr["api_implements"].s = b"lstm"
        self.refused("must have an op that is known to stay within the model; got '(RestoreV2|SaveV2|ShardedFilename)'")


class TestTheWholeRegistry:
    def test_every_op_is_decided(self) -> None:
        """A new op of TensorFlow belongs to `allowed.py` or to the list of refused ones, after a look at it."""
        names = {each.name for each in ops()}
        allowed = OPS | SAVERS
        assert not allowed & REFUSED
        if tuple(map(int, tf.__version__.split(".")[:2])) >= RELEASE:
            assert names - allowed == REFUSED & names
        assert len(names & allowed) > 700

    def test_none_that_is_allowed_reaches_out(self) -> None:
        found = {each.name: signs_of_reaching_out(each) for each in ops()}
        # The signs are seen where they are.
        assert {name for name in KNOWN_TO_REACH_OUT if name in found and not found[name]} == set()
        assert {name: found[name] for name in OPS if found.get(name)} == {}
