"""The files that a SavedModel may have TensorFlow read: those in its folder."""

from __future__ import annotations

import os
import re

import numpy as np
import pytest
import tensorflow as tf
from parameterized import parameterized

from tests.saved.graph_folders import Folders, load_natively, refusal_of
from tests.saved.graphs import add_text

TABLE = "InitializeTableFromTextFileV2"


class TestAssets(Folders):
    @pytest.fixture(autouse=True)
    def _table(self, _folders: None) -> None:
        functions = self.graph.library.function
        self.function = next(each for each in functions if any(node.op == TABLE for node in each.node_def))
        self.node = next(each for each in self.function.node_def if each.op == TABLE)
        self.number, self.asset = next(
            (number, each) for number, each in enumerate(self.graph.objects.nodes) if each.WhichOneof("kind") == "asset"
        )
        # As many lines, or the loader minds.
        (self.outside / "secret.txt").write_text("1\n0\n2\n")

    def test_the_honest_one(self) -> None:
        found = load_natively(self.graph.folder)(np.array([[0.0, 1.0, 2.0, 2.0]], np.float32))
        assert found.numpy().tolist() == [[0.0, 2.0, 4.0, 4.0]]

    def test_a_file_that_an_op_names(self) -> None:
        self.node.input[1] = add_text(self.function, "name", str(self.outside / "secret.txt"))
        self.refused(f"must read an asset of the folder, and no other file; got '{TABLE}'")
        # It is read: the numbers of the first two lines are exchanged.
        found = load_natively(self.graph.folder)(np.array([[0.0, 1.0, 2.0, 2.0]], np.float32))
        assert found.numpy().tolist() == [[1.0, 1.0, 4.0, 4.0]]

    @parameterized.expand([("kind",), ("class",), ("children",), ("slot",), ("number",), ("negative",)])
    def test_what_is_no_asset(self, how: str) -> None:
        if how == "kind":
            self.asset.user_object.identifier = "_generic_user_object"
        elif how == "class":
            self.asset.registered_name = "Custom.Asset"
        elif how == "children":
            self.asset.children.add(local_name="_path", node_id=0)
        elif how == "slot":
            self.graph.objects.nodes[0].slot_variables.add(slot_variable_node_id=self.number)
        else:
            self.asset.asset.asset_file_def_index = -1 if how == "negative" else 1
        self.refused("must read (an asset of the folder|one of 1 assets)")

    @parameterized.expand([("call",), ("swap",), ("twice",), ("unbound",), ("argument",), ("inputs",)])
    def test_what_cannot_be_shown(self, how: str) -> None:
        name = self.function.signature.name
        bound = self.graph.objects.concrete_functions[name].bound_inputs
        if how == "call":
            node = self.roles["call_and_return_conditional_losses"][0].node_def.add(name="call", op="PartitionedCall")
            node.attr["f"].func.name = name
        elif how == "swap":
            self.function.attr["api_implements"].s = b"lstm"
        elif how == "twice":
            self.function.node_def.add(name="second").MergeFrom(self.node)
        elif how == "unbound":
            del bound[:]
        elif how == "argument":
            bound[:] = list(reversed(bound))
        else:
            del self.node.input[1:]
        self.refused(TABLE)

    @parameterized.expand(
        [("../outside/secret.txt",), ("a/../../x",), ("/etc/hosts",), ("ram://x",), ("",), (".",), ("a\\b",), ("a\0b",)]
    )
    def test_paths_out_of_the_folder(self, name: str) -> None:
        self.graph.meta.asset_file_def[0].filename = name
        self.refused("must be the path of a file below assets; got")

    @parameterized.expand([("../outside/secret.txt",), ("/etc/hosts",)])
    def test_paths_that_nothing_reads(self, name: str) -> None:
        """TensorFlow would copy the file where the model is saved again."""
        number = len(self.graph.meta.asset_file_def)
        self.graph.meta.asset_file_def.add(filename=name).tensor_info.name = "other:0"
        asset = self.graph.objects.nodes.add()
        asset.asset.asset_file_def_index = number
        self.graph.objects.nodes[0].children.add(local_name="other", node_id=len(self.graph.objects.nodes) - 1)
        self.refused("must be the path of a file below assets; got")

    @parameterized.expand([("link",), ("folder",), ("missing",)])
    def test_files_that_are_elsewhere(self, how: str) -> None:
        path = self.graph.folder / "assets" / "vocabulary.txt"
        path.unlink()
        if how == "link":
            path.symlink_to(self.outside / "secret.txt")
        elif how == "folder":
            path.parent.rmdir()
            (self.outside / "vocabulary.txt").write_text("")
            path.parent.symlink_to(self.outside)
        self.refused("vocabulary.txt: the file must (be inside .*, not a link|exist)")

    def test_below_folders_of_assets(self) -> None:
        assets = self.graph.folder / "assets"
        (assets / "deep").mkdir()
        (assets / "vocabulary.txt").rename(assets / "deep" / "words.txt")
        self.graph.meta.asset_file_def[0].filename = "deep/words.txt"
        assert refusal_of(self.graph.save()) is None


class TestFolder(Folders):
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
