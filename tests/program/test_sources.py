"""Which files of a program are read, and that no file is too odd to be."""

from __future__ import annotations

import gc
import json
import unittest
import unittest.mock
import zipapp

from parameterized import parameterized

from .programs import TF, chosen, described, flags, needs, program, read

USES_V1 = TF + "x = tf.placeholder(tf.float32)\n"
MAX_FILES, MAX_BYTES, MAX_FILE_BYTES = 400, 1_500_000, 1_000_000


class FollowingTest(unittest.TestCase):
    @parameterized.expand(
        [
            ("in a function", "import a\ndef f():\n    from b import x\n", {"b": USES_V1}),
            ("by a star", "import a", {"a": "from c import *", "c": USES_V1}),
            ("in a circle", "import a", {"a": "import main, c", "c": "import a\n" + USES_V1}),
            ("after what is not", "if False:\n    import b\nimport a", {"a": USES_V1}),
            ("what is known already", "import lib, a", {"lib": TF, "a": "from lib import tf\ntf.Session()"}),
            ("a package", "import package.train", {"package__INIT": "", "package__train": USES_V1}),
            ("its __init__", "import package.train", {"package__INIT": USES_V1, "package__train": ""}),
            (
                "relative",
                "import package.train",
                {"package__INIT": "", "package__train": "from . import model", "package__model": USES_V1},
            ),
            (
                "relative to the package around",
                "import package.inner.train",
                {"package__inner__train": "from ..model import net", "package__model": USES_V1},
            ),
            ("again, without the switch", "ON = parse()\nif ON:\n    import a\nimport a", {"a": USES_V1}),
            ("a folder that is no package", "from folder import net", {"folder__net": USES_V1}),
        ]
    )
    def test_imports_are_followed(self, label: str, source: str, others: dict[str, str]) -> None:
        self.assertEqual(flags(source, d=TF + "tf.contrib.mixed_precision", **others), "--v1")

    @parameterized.expand(["folder.net", "folder.inner.net"])
    def test_the_whole_name_of_a_module_in_a_folder_that_is_no_package(self, name: str) -> None:
        net = "from tensorflow.keras import mixed_precision as mp\nLSO = mp.experimental.LossScaleOptimizer"
        use = f"import {name}, folder\nopt = {name}.LSO(inner, 4)\nopt.loss_scale()\n"
        with program(main=use, **{name.replace(".", "__"): net}):
            self.assertEqual(needs("main.py"), "--keras 2 --as-of 2.3")

    def test_items_of_what_another_file_makes(self) -> None:
        lib = "from tensorflow.keras.mixed_precision.experimental import LossScaleOptimizer as L\nopts = [L(inner, 4)]"
        with program(main="from lib import opts\nfor o in opts: o.loss_scale()", lib=lib):
            self.assertEqual(needs("main.py"), "--keras 2 --as-of 2.3")

    def test_what_a_module_has_that_is_loaded_by_its_name(self) -> None:
        with program(main="import importlib, lib\nimportlib.import_module('lib').tf.Session()", lib=TF):
            self.assertEqual(needs("main.py"), "--v1")

    def test_what_a_module_of_the_program_has_is_no_release(self) -> None:
        source = "from lib import settings\nif hasattr(settings, 'fast'):\n    tf.Session()"
        with program(main=TF + source, lib__INIT="", lib__settings="fast = 1"):
            self.assertEqual(needs("main.py"), "--v1")

    @parameterized.expand(["tf", "tensorflow", "tf1", "tf2"])
    def test_what_is_imported_on_no_release_is_not_read(self, name: str) -> None:
        source = f"import tensorflow as {name}\nif {name}.__version__ < '2':\n    import old\n"
        self.assertEqual(read(source, old="print 1")["unread"], [])

    def test_a_script_in_a_package_finds_what_is_beside_the_package(self) -> None:
        with program(
            package__INIT="", package__main="from package.net import x", package__net="import outer", outer=USES_V1
        ):
            self.assertEqual(needs("package/main.py"), "--v1")
        inner = {"INIT": "", "main": "from ..net import x"}
        with program(package__INIT="", package__net=USES_V1, **{f"package__inner__{key}": inner[key] for key in inner}):
            self.assertEqual(needs("package/inner/main.py"), "--v1")

    def test_a_module_and_its_package(self) -> None:
        with program(package__INIT="", package__MAIN="from .train import x", package__train=USES_V1):
            for name in ("package", "package.train"):
                self.assertIn("chose --v1 (package/train.py:2 uses tf.placeholder)", chosen("-m", name))
            self.assertEqual(chosen("-m", "nowhere.at.all"), "")
        with program(package__INIT=USES_V1, package__train="import package"):
            self.assertIn("package/__init__.py:2", chosen("-m", "package.train"))

    def test_packages_run_before_a_module_of_theirs(self) -> None:
        package = {"package__INIT": "from .net import x", "package__net": USES_V1, "package__train": ""}
        with program(**package, package__deep__INIT="", package__deep__MAIN=""):
            for name in ("package.train", "package.deep"):
                self.assertIn("chose --v1 (package/net.py:2 uses tf.placeholder)", chosen("-m", name))
        sources = {"INIT": "", "net": USES_V1, "deep__INIT": "from ..net import x", "deep__MAIN": "", "deep__train": ""}
        with program(**{f"package__{name}": source for name, source in sources.items()}):
            for name in ("package.deep", "package.deep.train"):
                self.assertIn("chose --v1 (package/net.py:2 uses tf.placeholder)", chosen("-m", name))

    def test_the_programs_in_a_folder(self) -> None:
        main = "if __name__ == '__main__': pass\n"
        sources = {"tool": USES_V1 + main, "main": "import tool, lib", "lib": TF, "sub__x": "import deep"}
        with program(**sources, sub__deep="import main", z="import a", a="import z", sub__INIT=""):
            found = {each["path"]: len(each["options"]) for each in described(".")["programs"]}
        # A file that a program of its subfolder imports is none, but for those that test for `__main__`.
        self.assertEqual(found, {"a.py": 0, "sub/x.py": 1, "tool.py": 1})

    def test_a_folder_and_an_archive(self) -> None:
        with program(folder__MAIN="import tools", folder__tools=USES_V1) as path:
            self.assertIn("chose --v1 (folder/tools.py:2 uses tf.placeholder)", chosen("folder"))
            zipapp.create_archive(path / "folder", path / "app.pyz")
            self.assertEqual(chosen("app.pyz"), "")

    @parameterized.expand(
        [
            ("os.path", "sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))"),
            ("by sum", "HERE = os.path.dirname(__file__)\nsys.path.insert(1, HERE + '/..')"),
            ("pathlib", "sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))"),
            ("parents", "FILE = Path(__file__).resolve()\nROOT = FILE.parents[1]\nsys.path.append(str(ROOT))"),
            ("a list of them", "sys.path.extend([Path(__file__).parent / '..', 'x'])"),
            ("cwd", "sys.path.insert(0, os.getcwd())"),
            ("dot", "try:\n    sys.path.append('.')\nexcept OSError:\n    pass"),
        ]
    )
    def test_folders_added_to_the_search_path(self, label: str, source: str) -> None:
        with program(scripts__run=f"{source}\nfrom tools import x", tools="import more", more=USES_V1):
            self.assertEqual(needs("scripts/run.py"), "--v1")

    @parameterized.expand(
        [
            ("another path", "other.path.append('..')\nself.sys.path.append('..')"),
            ("unknown", "sys.path.append(ROOT)\nsys.path.append(os.path.join(ROOT, '..'))\nsys.path.append(f())"),
            (
                "no folder",
                "sys.path.append(1)\nsys.path.append()\nsys.path.remove('..')\nsys.path.append(P.parents[9])",
            ),
            ("of what may be anything", "sys.path.append(f('..'))\nsys.path.append(Path(__file__).others[1])"),
            ("later", "def f():\n    sys.path.append('..')"),
            ("long", "sys.path.append('..' + " + " + ".join(["''"] * 60) + ")"),
        ]
    )
    def test_folders_that_are_not_added(self, label: str, source: str) -> None:
        with program(scripts__run=f"{source}\nimport tools", tools=USES_V1):
            self.assertEqual(needs("scripts/run.py"), "")

    def test_code(self) -> None:
        with program(tools=USES_V1):
            self.assertIn("chose --v1 (tools.py:2", chosen("-c", "import tools"))

    def test_what_is_installed_is_not_read(self) -> None:
        with program(site_packages="") as path:
            (path / "site-packages").mkdir()
            (path / "site-packages" / "tool.py").write_text(USES_V1)
            (path / "site-packages" / "main.py").write_text("import tool, numpy")
            self.assertEqual(needs("site-packages/main.py"), "")

    def test_a_module_that_programs_share_imports_what_is_beside_each(self) -> None:
        main = "import os, sys\nsys.path.append(os.path.dirname(os.path.dirname(__file__)))\nimport y"
        shared = {"y": "import x, z", "z": "import x", "x": "import config"}
        with program(a__main=main, a__config="", b__main=main, b__config=USES_V1, **shared):
            found = {each["path"]: [one["flag"] for one in each["options"]] for each in described(".")["programs"]}
        self.assertEqual(found, {"a/main.py": [], "b/main.py": ["--v1"]})

    def test_names_of_modules_that_programs_link_differently(self) -> None:
        main = "import os, sys\nsys.path.append(os.path.dirname(os.path.dirname(__file__)))\n"
        main += "from y import tf\ntf.Session()"
        shared = {"y": "from z import *", "z": "from x import tf", "x": "from config import tf"}
        for configs in (["tf = 1", TF], [TF, "tf = 1"]):
            own = dict(zip(("a__config", "b__config"), configs, strict=True))
            with program(a__main=main, b__main=main, **own, **shared):
                found = [bool(each["options"]) for each in described(".")["programs"]]
            self.assertEqual(found, [each == TF for each in configs])

    @parameterized.expand(
        [
            ("if False: import odd", False),
            ("if True: x = 1\nelse: import odd", False),
            ("if TYPE_CHECKING:\n    if x: import odd", False),
            ("if x: pass\nelse:\n    if 0: import odd", False),
            ("if x: import odd", True),
            ("if not TYPE_CHECKING: import odd", True),
        ]
    )
    def test_imports_that_never_run_are_not_read(self, source: str, is_read: bool) -> None:
        with program(main=source, odd="print 'a'"):
            unread = described("main.py")["programs"][0]["unread"]
        self.assertEqual([each["path"] for each in unread], ["odd.py"] * is_read)

    def test_an_own_module_hides_a_framework(self) -> None:
        # A folder called keras beside the program is what `import keras` gives.
        with program(main="import keras\nkeras.ops.x\nkeras.backend.learning_phase()") as path:
            (path / "keras.py").write_text("ops = backend = 1")
            self.assertEqual(needs("main.py"), "")


_STARS = {f"m{number}": f"from m{number + 1} import *\n" for number in range(30)} | {"m30": TF}


class AliasTest(unittest.TestCase):
    @parameterized.expand(
        [
            ("from a module", "from common import tf\ntf.placeholder(1)", {"common": TF}, "--v1"),
            ("as an attribute", "import common as c\nc.tf.placeholder(1)", {"common": TF}, "--v1"),
            ("by a star", "from common import *\ntf.placeholder(1)", {"common": TF}, "--v1"),
            (
                "imported behind a gate",
                "import tensorflow as tf\nif tf.__version__ < '2':\n    import old",
                {"old": USES_V1},
                "",
            ),
            ("imported for types", "from typing import *\nif TYPE_CHECKING:\n    import old", {"old": USES_V1}, ""),
            (
                "a gate of another module",
                TF + "from common import NEW\nif NEW:\n    pass\nelse:\n    tf.placeholder(1)",
                {"common": TF + "NEW = int(tf.__version__.split('.')[0]) > 1"},
                "",
            ),
            (
                "a gate by what another module has",
                TF + "from common import tf as t\nif hasattr(t, 'Session'):\n    tf.Session()",
                {"common": TF},
                "",
            ),
            (
                "what something of another module has",
                TF + "from common import thing\nif hasattr(thing, 'Session'):\n    tf.Session()",
                {"common": "thing = 1"},
                "--v1",
            ),
            ("by more stars than are followed", "from m0 import *\ntf.Session()", _STARS, ""),
        ]
    )
    def test_aliases(self, label: str, source: str, others: dict[str, str], expected: str) -> None:
        self.assertEqual(flags(source, **others), expected)

    @parameterized.expand(
        [
            ("package.train", f"from {where} import {what}\n{use}.placeholder(1)")
            for where, what, use in (
                (".common", "tf", "tf"),
                (".", "common", "common.tf"),
                (".", "common as c", "c.tf"),
                ("package", "common as c", "c.tf"),
            )
        ]
        + [
            ("package.train", "import package.common\npackage.common.tf.placeholder(1)"),
            ("package.inner.train", "from ..common import tf\ntf.placeholder(1)"),
            ("package.inner.train", "from .. import common\ncommon.tf.placeholder(1)"),
        ]
    )
    def test_aliases_in_a_package(self, module: str, source: str) -> None:
        package = {"package__INIT": "", "package__inner__INIT": "", module.replace(".", "__"): source}
        for common in ("package__common", "package__common__INIT"):
            self.assertEqual(flags(f"import {module}", **package, **{common: TF}), "--v1")
        folder = {module.replace(".", "__"): source, "package__common": TF}
        self.assertEqual(flags(f"import {module}", **folder), "--v1")

    @parameterized.expand(["NEW", "is_new()"])
    def test_gates_in_a_package(self, test: str) -> None:
        gate = TF + "NEW = int(tf.__version__.split('.')[0]) > 1\ndef is_new(): return NEW"
        for imported, name in ((f".common import {test.strip('()')}", test), (". import common", f"common.{test}")):
            train = TF + f"from {imported}\nif {name}: pass\nelse: tf.placeholder(1)"
            for common, expected in ((gate, ""), ("NEW = 1\nis_new = NEW", "--v1")):
                package = {"package__INIT": "", "package__train": train, "package__common": common}
                self.assertEqual(flags("import package.train", **package), expected)

    def test_a_gate_that_programs_share(self) -> None:
        main = "import os, sys\nsys.path.append(os.path.dirname(os.path.dirname(__file__)))\nimport config\n"
        main += "from shared import tf, NEW\nif not NEW: tf.placeholder(1)\ntf.Session()"
        shared = TF + "NEW = tf.__version__ > '2'"
        with program(a__main=main, a__config="", b__main=main, b__config="", shared=shared):
            found = [each["options"] for each in described(".")["programs"]]
        self.assertEqual([(each["flag"], each["because"]["place"]["line"]) for (each,) in found], [("--v1", 6)] * 2)


BROKEN = [
    ("Python 2", b"print 'a'"),
    ("a null byte", b"a = 1\0"),
    ("an encoding that is none", b"# coding: none-such\n"),
    ("deep calls", b"x" + b".y()" * 700),
    ("deeply nested", b"(" * 5000 + b")" * 5000),
    ("a long chain", b"x" + b".y" * 3000),
    ("too large", b"x = 1\n" * (MAX_FILE_BYTES // 6 + 1)),
]


class OddFilesTest(unittest.TestCase):
    @parameterized.expand(BROKEN)
    def test_a_file_that_cannot_be_read_is_left_out(self, label: str, content: bytes) -> None:
        with program(main="import odd\n" + USES_V1) as path:
            (path / "odd.py").write_bytes(content)
            found = described("main.py")["programs"][0]
            alone = described("odd.py")
        self.assertEqual([option["flag"] for option in found["options"]], ["--v1"])
        self.assertEqual([option for each in alone["programs"] for option in each["options"]], [])
        # Pythons differ in how deep they parse.
        may_be_read = label.startswith("a long")
        if label == "deep calls":
            self.assertEqual(found["unread"][0]["reason"], "is nested too deeply to be read to the end")
        self.assertIn([each["path"] for each in found["unread"]], [["odd.py"], *([[]] if may_be_read else [])])

    def test_other_encodings(self) -> None:
        with program() as path:
            (path / "main.py").write_bytes(b"# -*- coding: latin-1 -*-\n'\xe9'\n" + USES_V1.encode())
            (path / "bom.py").write_bytes(b"\xef\xbb\xbf" + USES_V1.encode())
            for name in ("main.py", "bom.py"):
                self.assertEqual(needs(name), "--v1")

    def test_a_file_that_can_only_be_opened(self) -> None:
        with program(main="import odd\n" + USES_V1) as path:
            for name, reason in (("odd.py", "cannot be read"), ("odd.ipynb", "cannot be read: Input/output error")):
                (path / name).symlink_to("/proc/self/mem")
                self.assertEqual(described(name)["unread"], [{"path": name, "reason": reason}])
            self.assertEqual(needs("main.py"), "--v1")

    def test_the_current_folder_is_gone(self) -> None:
        with program() as path:
            path.rmdir()
            self.assertEqual(chosen("/nowhere/main.py"), "")
            (unread,) = described("main.py")["unread"]
            self.assertEqual(unread["reason"], "is not there: the current directory is gone")
            path.mkdir()

    def test_a_circle_of_links(self) -> None:
        with program(main="import a.a.a.a.b") as path:
            (path / "a").mkdir()
            (path / "a" / "a").symlink_to(path / "a")
            self.assertEqual(needs("main.py"), "")


class BoundsTest(unittest.TestCase):
    def test_large_notebooks(self) -> None:
        code = {"cell_type": "code", "source": "x = 1\n" * (MAX_FILE_BYTES // 6 + 1)}
        with program() as path:
            (path / "code.ipynb").write_text(json.dumps({"nbformat": 4, "metadata": {}, "cells": [code]}))
            with open(path / "zeros.ipynb", "wb") as file:
                file.truncate(100_000_001)
            unread = described("code.ipynb", "zeros.ipynb")["unread"]
        reasons = {"code.ipynb": "is larger than 1000000 bytes", "zeros.ipynb": "is larger than 100000000 bytes"}
        self.assertEqual({each["path"]: each["reason"] for each in unread}, reasons)

    def test_the_garbage_collector_is_left_as_it_was(self) -> None:
        self.addCleanup(gc.enable)
        for switch, is_on in ((gc.disable, False), (gc.enable, True)):
            switch()
            read(USES_V1)
            self.assertIs(gc.isenabled(), is_on)

    def test_sources_that_were_forgotten_are_read_again(self) -> None:
        deep = "x" + ".y()" * 700
        with program(main="import a, b, c\n", a=TF, b="import a, c\na.tf.Session(), c.tf.estimator", c=TF + deep):
            whole = described(".")
            with unittest.mock.patch("mpls.program.programs._KEPT_BYTES", 0):
                self.assertEqual(described("."), whole)

    def test_no_more_files_than_the_limit(self) -> None:
        for count, is_whole in ((MAX_FILES - 1, True), (MAX_FILES, False)):
            others = {f"m{number}": f"import m{number + 1}" for number in range(count)}
            found = read(USES_V1 + "import m0", **others)
            self.assertEqual((found["is_whole"], len(found["options"])), (is_whole, int(is_whole)))
