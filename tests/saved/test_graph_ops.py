"""What SavedModels may hold: honest ones pass, and those with ops or files that reach out of them are refused."""

from __future__ import annotations

import os
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

# What TensorFlow and tf_keras run when they load a model of a class that is not at hand, and what they run later.
ROLES = ["_create_resource", "_initialize", "save_function", "restore_function"]
ROLES += ["_destroy_resource", "call_and_return_conditional_losses"]
HOSTILE_OPS = ("WriteFile", "MapDataset", "ReadFile", "PrintV2", "EagerPyFunc", "Unheard")


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

    @parameterized.expand(zip(ROLES, HOSTILE_OPS, strict=True))
    def test_ops_in_functions_of_objects(self, role: str, op: str) -> None:
        function = self.roles[role][0]
        add(function, op, "hostile")
        text = self.refused(f"must have an op that is known to stay within the model; got '{op}'")
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


class TestFolder(Folders):
    """TensorFlow reads the files in the folder of a model, and no others."""

    def test_assets(self) -> None:
        self.graph.meta.asset_file_def.add(filename="words.txt").tensor_info.name = "name:0"
        self.refused("asset 'words.txt' must be values in the graph, not a file beside it; got 'words.txt'")

    @parameterized.expand(
        [
            ("saved_model.pb",),
            ("keras_metadata.pb",),
            ("fingerprint.pb",),
            ("variables",),
            ("variables/variables.index",),
            ("variables/variables.data-00000-of-00001",),
            ("debug",),
        ]
    )
    def test_links_out_of_it(self, name: str) -> None:
        path, target = self.graph.folder / name, self.outside / "target"
        if name == "debug":
            target.mkdir()
            (target / "saved_model_debug_info.pb").write_bytes(b"")
        else:
            path.rename(target)
        path.symlink_to(target)
        assert re.search(r"the file must be inside .*, not a link to elsewhere", refusal_of(self.graph.folder) or "")

    def test_links_within_it(self) -> None:
        path = self.graph.folder / "fingerprint.pb"
        path.rename(self.graph.folder / "other.pb")
        path.symlink_to("other.pb")
        assert refusal_of(self.graph.folder) is None

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no FIFOs")
    def test_pipes_are_not_waited_for(self) -> None:
        (self.graph.folder / "fingerprint.pb").unlink()
        os.mkfifo(self.graph.folder / "fingerprint.pb")
        assert re.search(r"fingerprint.pb: the file must be a regular file", refusal_of(self.graph.folder) or "")

    def test_graphs_in_other_files(self) -> None:
        # The text is not read where there is the other; of chunks, mpls does not know what TensorFlow makes of them.
        (self.graph.folder / "saved_model.pbtxt").write_text("no graph")
        assert refusal_of(self.graph.folder) is None
        assert tf.io.gfile.exists(str(self.graph.folder / "saved_model.pbtxt"))
        load_natively(self.graph.folder)
        (self.graph.folder / "saved_model.cpb").write_bytes(b"")
        self.refused("saved_model.cpb must not be there")


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
