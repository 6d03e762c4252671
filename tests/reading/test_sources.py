"""Which files of a program are read, and that no file is too odd to be."""

from __future__ import annotations

import os
import pathlib
import unittest
import unittest.mock
import zipapp
import zipfile

from parameterized import parameterized

from mpls.program import files
from mpls.reading import Program, Reading, code, module, script, sources

from .programs import TF, flags, program, read

USES_V1 = TF + "x = tf.placeholder(tf.float32)\n"


def names(of: Program) -> list[str]:
    return [source.shown for source in of.sources]


class FollowingTest(unittest.TestCase):
    def test_imports_are_followed_wherever_they_stand(self) -> None:
        reading = read(
            "import a\ndef f():\n    from b import x\n",
            a="from c import *",
            b="import os, numpy",
            c="import a",
            d="import tensorflow",
        )
        self.assertEqual(names(reading.program), ["main.py", "a.py", "b.py", "c.py"])

    def test_packages_and_relative_imports(self) -> None:
        with program(
            main="import package.train",
            package__INIT="",
            package__train="from . import model\nfrom .layers.dense import Dense\nfrom ..outside import x",
            package__model="from .train import y",
            package__layers__INIT="",
            package__layers__dense=USES_V1,
            other="",
        ):
            reading = Reading(script("main.py"))
        expected = ["main", "package/__init__", "package/train", "package/model"]
        expected += ["package/layers/__init__", "package/layers/dense"]
        self.assertEqual(names(reading.program), [f"{name}.py" for name in expected])
        self.assertEqual([choice.flag for choice in reading.decide().choices], ["--v1"])

    def test_a_script_in_a_package_finds_what_is_beside_the_package(self) -> None:
        with program(
            package__INIT="", package__main="from package.net import x", package__net="import outer", outer=""
        ):
            found = script("package/main.py")
        self.assertEqual(names(found), ["package/main.py", "package/__init__.py", "package/net.py", "outer.py"])

    def test_a_module_and_its_package(self) -> None:
        with program(package__INIT="", package__MAIN="from .train import x", package__train=USES_V1):
            self.assertEqual(names(module("package"))[::2], ["package/__main__.py", "package/train.py"])
            self.assertEqual(names(module("package.train")), ["package/train.py", "package/__init__.py"])
            self.assertEqual(names(module("nowhere.at.all")), [])

    def test_a_folder_and_an_archive(self) -> None:
        with program(folder__MAIN="import tools", folder__tools=USES_V1) as path:
            with zipfile.ZipFile(path / "app.zip", "w") as archive:
                archive.write(path / "folder" / "__main__.py", "__main__.py")
                archive.write(path / "folder" / "tools.py", "tools.py")
            for name in ("folder", "app.zip"):
                reading = Reading(script(name))
                self.assertEqual(names(reading.program), [f"{name}/__main__.py", f"{name}/tools.py"])
                self.assertEqual([choice.flag for choice in reading.decide().choices], ["--v1"])

    def test_an_archive_with_a_line_for_the_shell(self) -> None:
        with program(folder__MAIN=USES_V1) as path:
            zipapp.create_archive(path / "folder", path / "app.pyz", interpreter="/usr/bin/env python3")
            reading = Reading(script("app.pyz"))
            self.assertEqual(names(reading.program), ["app.pyz/__main__.py"])
            self.assertEqual([choice.flag for choice in reading.decide().choices], ["--v1"])

    @parameterized.expand([("file",), ("folder",)])
    def test_links(self, kind: str) -> None:
        with program(real__main="import tools", real__tools=USES_V1, elsewhere__tools="") as path:
            if kind == "file":
                (path / "elsewhere" / "link.py").symlink_to(path / "real" / "main.py")
            else:
                (path / "link").symlink_to(path / "real")
            found = script("elsewhere/link.py" if kind == "file" else "link/main.py")
        self.assertEqual(names(found), ["real/main.py", "real/tools.py"])

    @parameterized.expand(
        [
            ("os.path", "sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))"),
            ("append", "sys.path.append(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))"),
            ("pardir", "sys.path.append(os.path.join(os.path.dirname(__file__), os.pardir))"),
            ("by sum", "HERE = os.path.dirname(__file__)\nsys.path.insert(1, HERE + '/..')"),
            ("extend", "sys.path.extend(['nowhere', os.path.dirname(os.path.dirname(__file__)), other()])"),
            ("pathlib", "sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))"),
            ("parents", "FILE = Path(__file__).resolve()\nROOT = FILE.parents[1]\nsys.path.append(str(ROOT))"),
            ("slash", "if True:\n    sys.path.append((Path(__file__).parent / '..').absolute().as_posix())"),
            ("cwd", "sys.path.insert(0, os.getcwd())"),
            ("dot", "try:\n    sys.path.append('.')\nexcept OSError:\n    pass"),
        ]
    )
    def test_folders_added_to_the_search_path(self, label: str, source: str) -> None:
        with program(scripts__run=f"{source}\nfrom tools import x", tools="import more", more=USES_V1):
            self.assertEqual(names(script("scripts/run.py")), ["scripts/run.py", "tools.py", "more.py"])

    @parameterized.expand(
        [
            ("another path", "other.path.append('..')\nself.sys.path.append('..')"),
            ("unknown", "sys.path.append(ROOT)\nsys.path.append(os.path.join(ROOT, '..'))\nsys.path.append(f())"),
            (
                "no folder",
                "sys.path.append(1)\nsys.path.append()\nsys.path.remove('..')\nsys.path.append(P.parents[9])",
            ),
            ("later", "def f():\n    sys.path.append('..')"),
        ]
    )
    def test_folders_that_are_not_added(self, label: str, source: str) -> None:
        with program(scripts__run=f"{source}\nimport tools", tools=USES_V1):
            self.assertEqual(names(script("scripts/run.py")), ["scripts/run.py"])

    def test_code(self) -> None:
        with program(tools=USES_V1):
            self.assertEqual(names(code("import tools", "-c")), ["-c", "tools.py"])

    def test_what_is_installed_is_not_read(self) -> None:
        with program(site_packages="") as path:
            (path / "site-packages").mkdir()
            (path / "site-packages" / "tool.py").write_text(USES_V1)
            (path / "site-packages" / "main.py").write_text("import tool, numpy")
            self.assertEqual(names(script("site-packages/main.py")), ["site-packages/main.py"])

    def test_an_own_module_hides_a_framework(self) -> None:
        # A folder called keras beside the program is what `import keras` gives.
        self.assertEqual(
            flags("import keras\nkeras.ops.x\nkeras.backend.learning_phase()", keras="ops = backend = 1"), ""
        )


class AliasTest(unittest.TestCase):
    @parameterized.expand(
        [
            ("from a module", "from common import tf\ntf.placeholder(1)", {"common": TF}, "--v1"),
            ("as an attribute", "import common as c\nc.tf.placeholder(1)", {"common": TF}, "--v1"),
            ("by a star", "from common import *\ntf.placeholder(1)", {"common": TF}, "--v1"),
            (
                "compat.v1 by a star",
                "from common import *\ntf.placeholder(1)",
                {"common": "import tensorflow.compat.v1 as tf"},
                "",
            ),
            (
                "which of two",
                "from common import tf\ntf.placeholder(1)",
                {"common": "try:\n    import tensorflow.compat.v1 as tf\nexcept ImportError:\n    " + TF},
                "",
            ),
            ("in a circle", "from common import tf\ntf.placeholder(1)", {"common": "from main import tf"}, ""),
            (
                "imported behind a gate",
                "import tensorflow as tf\nif tf.__version__ < '2':\n    import old",
                {"old": USES_V1},
                "",
            ),
            (
                "imported behind a gate and elsewhere",
                "import tensorflow as tf\nif tf.__version__[0] == '1':\n    import old\nimport new",
                {"old": "import x", "new": "import old", "x": USES_V1},
                "--v1",
            ),
            (
                "a gate of another module",
                TF + "from common import NEW\nif NEW:\n    pass\nelse:\n    tf.placeholder(1)",
                {"common": TF + "NEW = int(tf.__version__.split('.')[0]) > 1"},
                "",
            ),
        ]
    )
    def test_aliases(self, label: str, source: str, others: dict[str, str], expected: str) -> None:
        self.assertEqual(flags(source, **others), expected)


BROKEN = [
    ("Python 2", b"print 'a'"),
    ("binary", bytes(range(256))),
    ("a null byte", b"a = 1\0"),
    ("another encoding that lies", b"# coding: utf-8\n'\xff'"),
    ("an encoding that is none", b"# coding: none-such\n"),
    ("deeply nested", b"(" * 5000 + b")" * 5000),
    ("a long chain", b"x" + b".y" * 3000),
    ("a long sum", b"x = 1" + b" + 1" * 5000),
    ("a long path", b"x = y" + b".parent" * 5000),
    ("too large", b"x = 1\n" * (files.MAX_FILE_BYTES // 6 + 1)),
]


class OddFilesTest(unittest.TestCase):
    @parameterized.expand(BROKEN)
    def test_a_file_that_cannot_be_read_is_left_out(self, label: str, content: bytes) -> None:
        with program(main="import odd\n" + USES_V1) as path:
            (path / "odd.py").write_bytes(content)
            reading = Reading(script("main.py"))
            alone = Reading(script("odd.py"))
        self.assertEqual([choice.flag for choice in reading.decide().choices], ["--v1"])
        self.assertEqual(alone.decide().choices, ())
        unread = [path for path, _ in reading.program.unread] + reading.uses.too_deep
        self.assertEqual(unread, ["odd.py"])

    def test_other_encodings(self) -> None:
        with program() as path:
            (path / "main.py").write_bytes(b"# -*- coding: latin-1 -*-\n'\xe9'\n" + USES_V1.encode())
            (path / "bom.py").write_bytes(b"\xef\xbb\xbf" + USES_V1.encode())
            for name in ("main.py", "bom.py"):
                self.assertEqual(len(Reading(script(name)).decide().choices), 1)

    def test_what_is_not_there(self) -> None:
        with program():
            self.assertEqual(Reading(script("nowhere.py")).decide().choices, ())

    def test_a_pipe_is_left_to_the_program(self) -> None:
        with program() as path:
            os.mkfifo(path / "main.py")
            # To open it would wait for a writer for ever.
            self.assertEqual(names(script("main.py")), [])

    def test_warnings_of_the_program_are_its_own(self) -> None:
        self.assertEqual(flags("x = '\\d'\nassert (1, 'always')\n"), "")

    def test_a_circle_of_links(self) -> None:
        with program(main="import a.a.a.a.b") as path:
            (path / "a").mkdir()
            (path / "a" / "a").symlink_to(path / "a")
            self.assertEqual(names(script("main.py")), ["main.py"])


class BoundsTest(unittest.TestCase):
    def test_no_more_files_than_the_limit(self) -> None:
        others = {f"m{number}": f"import m{number + 1}" for number in range(30)}
        with unittest.mock.patch.object(sources, "MAX_FILES", 10):
            reading = read("import m0", **others)
        self.assertEqual(len(reading.program.sources), 10)
        self.assertFalse(reading.program.is_whole)

    def test_no_more_bytes_than_the_limit(self) -> None:
        size = files.MAX_BYTES // 2
        reading = read("import a, b", a="#" * size, b="#" * size)
        self.assertEqual(names(reading.program), ["main.py", "a.py"])
        self.assertFalse(reading.program.is_whole)

    def test_nothing_is_chosen_for_a_program_that_is_not_read_whole(self) -> None:
        with unittest.mock.patch.object(sources, "MAX_FILES", 1):
            reading = read(USES_V1 + "import a", a="")
        self.assertEqual(reading.decide().choices, ())

    def test_every_file_is_read_once(self) -> None:
        opened: list[str] = []
        read_file = files.Folder.read

        def counted(folder: files.Folder, relative: str) -> bytes | None:
            opened.append(str(pathlib.Path(folder.path) / relative))
            return read_file(folder, relative)

        with unittest.mock.patch.object(files.Folder, "read", counted):
            read("import a, b, numpy\n" * 20, a="import b, c, numpy", b="import a, c", c="import main")
        self.assertEqual(len(opened), len(set(opened)))
