"""The files that a SavedModel may have TensorFlow read: those in its folder."""

from __future__ import annotations

import os
import re

import pytest
import tensorflow as tf
from parameterized import parameterized

from tests.saved.graphs import Folders, load_natively, refusal_of


class TestFolder(Folders):
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
