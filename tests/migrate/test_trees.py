"""Several files: what they import from each other, and modules that hide the frameworks."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from .migrating import command, migrated_tree

OLD = "tf.keras.mixed_precision.experimental.LossScaleOptimizer"


def test_a_module_that_is_passed_on(tmp_path: pathlib.Path) -> None:
    changed = migrated_tree(
        tmp_path,
        {
            "compat.py": "import tensorflow.compat.v2 as tf\nfrom tensorflow.keras.mixed_precision import experimental as mp\n",
            "train.py": f"from compat import tf, mp\nopt = {OLD}(opt, 'dynamic')\nmp.set_policy('float32')\n"
            "other = mp.LossScaleOptimizer(opt, scale)\nlast = mp.LossScaleOptimizer(opt, 8)\n",
        },
    ).changed
    assert changed == {
        "compat.py": "import tensorflow.compat.v2 as tf\nfrom mpls import experimental as mp\n",
        "train.py": "from compat import tf, mp\nimport mpls.keras\nopt = mpls.keras.LossScaleOptimizer(opt, dynamic=True)\n"
        "mp.set_policy('float32')\nother = mp.LossScaleOptimizer(opt, scale)\n"
        "last = mpls.keras.LossScaleOptimizer(opt, dynamic=False, initial_scale=8)\n",
    }


def test_a_class_that_is_passed_on(tmp_path: pathlib.Path) -> None:
    source = "from tensorflow.keras.mixed_precision.experimental import LossScaleOptimizer\n"
    changed = migrated_tree(
        tmp_path,
        {
            "pkg/__init__.py": "from pkg.other import *\n",
            "pkg/other.py": "",
            "pkg/tools/__init__.py": "from .half import LossScaleOptimizer as Wrapper\n",
            "pkg/tools/half.py": f"{source}opt = LossScaleOptimizer(opt, 'dynamic')\n",
            "pkg/train.py": "from .tools import Wrapper\nopt = Wrapper(opt, loss_scale=scale)\n",
            "main.py": "import pkg.tools\nopt = pkg.tools.Wrapper(opt, 'dynamic')\nisinstance(opt, pkg.tools.Wrapper)\n",
        },
    ).changed
    new = "from mpls.keras import LossScaleOptimizer\n"
    assert changed == {
        # What a file of its own makes of the name is right there; others write what they need.
        "pkg/tools/half.py": f"{new}opt = LossScaleOptimizer(opt, dynamic=True)\n",
        "pkg/train.py": "from .tools import Wrapper\nimport mpls.experimental\n"
        "opt = mpls.experimental.LossScaleOptimizer(opt, loss_scale=scale)\n",
        "main.py": "import pkg.tools\nopt = pkg.tools.Wrapper(opt, dynamic=True)\nisinstance(opt, pkg.tools.Wrapper)\n",
    }


def test_what_is_inserted_goes_after_imports_of_frameworks(tmp_path: pathlib.Path) -> None:
    train = "{}size = 3\nimport tensorflow as tf\n{}opt = {}.LossScaleOptimizer(opt, 'dynamic')\nopt.get_config()\n"
    own = "from compat import keras\n"
    files = {
        "compat.py": "from tensorflow import keras\n",
        "train.py": train.format(own, "", "tf.keras.mixed_precision.experimental"),
    }
    changed = migrated_tree(tmp_path, files, "--as-of", "2.3").changed
    inserted = 'import mpls.experimental\nmpls.install(as_of="2.3")\n'
    assert changed == {"train.py": train.format(own, inserted, "mpls.experimental")}


AMP = f"import tensorflow as tf\nLSO = {OLD}\ndef wrap(opt):\n    return LSO(opt, 'dynamic')\n"
BY_STAR = "opt = LSO(inner, 'dynamic')\nprint(isinstance(wrap(inner), LSO), opt.loss_scale())\n"


STARS = [("amp", ""), ("pkg", ""), ("a", "from amp import *\nfrom tensorflow.keras import *\n")]


@pytest.mark.parametrize(("module", "others"), STARS)
def test_what_a_star_of_a_module_imports(tmp_path: pathlib.Path, module: str, others: str) -> None:
    files = {
        "a.py": "from main import *\n",
        "amp.py": AMP,
        "pkg/__init__.py": "from .amp import *\n",
        "pkg/amp.py": AMP,
    }
    files["main.py"] = f"from {module} import *\n{others}{BY_STAR}"
    changed, left = migrated_tree(tmp_path, files, "--as-of", "2.2")
    assert changed["main.py"] == (
        f"from {module} import *\nimport mpls.keras\n{others}"
        "opt = mpls.keras.LossScaleOptimizer(inner, dynamic=True, skip_counts_step=False)\n"
        "print(isinstance(wrap(inner), mpls.keras.LossScaleOptimizer), opt.loss_scale)\n"
    )
    assert (changed.keys(), left) == ({"main.py", "amp.py", "pkg/amp.py"}, [])


@pytest.mark.parametrize("options", [(), ("--as-of", "2.2")])
def test_what_may_be_of_a_star_that_is_not_known_stays_and_is_reported(tmp_path: pathlib.Path, options: Any) -> None:
    stars = "from numpy import *\nfrom amp import *\n"
    call, others = BY_STAR.split("\n", 1)
    files = {"amp.py": AMP, "main.py": f"{stars}{call}\n", "other.py": f"{stars}opt = wrap(inner)\n{others}"}
    changed, left = migrated_tree(tmp_path, files, *options)
    # The call lacks the argument for the release, and `isinstance` asks for another class than that of `wrap`.
    lacks = [("main.py", "experimental-wrapper")] if options else []
    assert left == [*lacks, ("other.py", "experimental-wrapper"), ("other.py", "loss-scale-calls")]
    assert changed.keys() == {"amp.py"}


def test_frameworks_that_a_star_imports(tmp_path: pathlib.Path) -> None:
    module = "tensorflow.keras.mixed_precision.experimental"
    files = {
        "imports.py": "import tensorflow as tf\nfrom tensorflow.keras.mixed_precision import experimental as mp\n",
        "train.py": "from imports import *\nopt = mp.LossScaleOptimizer(inner, 8)\nopt.loss_scale()\n",
        "log.py": "def log(opt):\n    print(opt.loss_scale())\n",
        "names.py": f"from {module} import *\n",
        "other.py": "from names import *\nset_policy('float32')\nopt = LossScaleOptimizer(tf.v(), 8)\n",
    }
    changed, left = migrated_tree(tmp_path, files)
    made = "opt = mpls.keras.LossScaleOptimizer({}, dynamic=False, initial_scale=8)\n"
    assert changed["train.py"] == f"from imports import *\nimport mpls.keras\n{made.format('inner')}opt.loss_scale\n"
    assert changed["other.py"] == (
        f"from names import *\nimport mpls.keras\nset_policy('float32')\n{made.format('tf.v()')}"
    )
    assert left == [("log.py", "loss-scale-calls")]


@pytest.mark.parametrize("value", ["KINDS = (LSO,)", "def f(opt, kind=LSO): pass", "class C:\n    kind = LSO"])
def test_a_class_that_is_a_value_where_no_wrapper_is_made(tmp_path: pathlib.Path, value: str) -> None:
    source = "from tensorflow.keras.mixed_precision.experimental import LossScaleOptimizer as LSO\n"
    files = {
        "train.py": f"import kinds\n{source}opt = LSO(inner, 'dynamic')\nisinstance(opt, kinds.KINDS)\n",
        "kinds.py": f"{source}{value}\n",
        "names.py": f"{source}Wrapper = LSO\n",
    }
    changed, left = migrated_tree(tmp_path, files)
    assert "opt = LSO(inner, dynamic=True)\n" in changed["train.py"]
    assert changed["kinds.py"] == f"from mpls.experimental import LossScaleOptimizer as LSO\n{value}\n"
    # Another name of it is followed to where it is imported.
    assert left == [("kinds.py", "experimental-wrapper")]


OWN = "class Own:\n    def loss_scale(self):\n        return 3\n"
PARTS = {
    "attribute": (
        f"class A:\n    def __init__(self):\n        self.opt = {OLD}(o, 'dynamic')\n"
        "    def f(self):\n        self.opt.loss_scale()\n"
    ),
    "parameter": f"def f(o):\n    o.loss_scale()\nf({OLD}(o, 'dynamic'))\n",
    "use": "def f(o):\n    o.get_scaled_loss(1)\n    o.loss_scale()\n",
    "variable": f"opt = {OLD}(o, 'dynamic')\ndef f():\n    opt.loss_scale()\n",
}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("other", ["", f"{OWN}import a\na.f(Own())\na.opt = Own()\n"])
def test_objects_that_another_module_may_put_there(tmp_path: pathlib.Path, part: str, other: str) -> None:
    policy = "import tensorflow as tf\ntf.keras.mixed_precision.set_global_policy('float32')\n"
    files = {"a.py": f"import tensorflow as tf\n{PARTS[part]}", "b.py": other, "policy.py": policy}
    changed, left = migrated_tree(tmp_path, files)
    assert (".loss_scale()" in changed.get("a.py", ".loss_scale()")) is bool(other)
    assert left == ([("a.py", "loss-scale-calls")] if other else [])


def test_calls_in_files_that_import_no_framework(tmp_path: pathlib.Path) -> None:
    files = {
        "compat.py": "import tensorflow as tf\n"
        "from tensorflow.keras.mixed_precision.experimental import LossScaleOptimizer as LSO\nopt = LSO(o, 8)\n",
        "train.py": "from compat import LSO\nopt = LSO(inner, 'dynamic')\nopt.loss_scale()\n",
        "log.py": "def log(opt):\n    print(opt.loss_scale())\n",
        "make.py": "import compat\nopt = getattr(compat, 'LSO')(inner, 'dynamic')\n",
    }
    changed, left = migrated_tree(tmp_path, files)
    assert changed["train.py"].endswith("opt.loss_scale\n")
    assert left == [("log.py", "loss-scale-calls"), ("make.py", "names-in-strings")]


SHARED = (
    "scale = tf.mixed_precision.experimental.DynamicLossScale(8)\n"
    f"opt = {OLD}(optimizer, scale)\nprint(scale(), opt.loss_scale())\n"
)


@pytest.mark.parametrize(
    ("other", "is_asked"),
    [
        ("import mpls\nmpls.install(as_of='2.3')\n", True),
        ("import train\n", False),
        ("print 1\n", False),
        ("#" * 1_000_001, False),
    ],
)
def test_a_release_that_an_imported_module_asks_for(tmp_path: pathlib.Path, other: str, is_asked: bool) -> None:
    program = f"import tensorflow as tf\n{SHARED}"
    files = {"other.py": other, "train.py": f"import other, train\n{program}", "last.py": f"import train\n{program}"}
    changed, left = migrated_tree(tmp_path, files)
    for name in ("last.py", "train.py"):
        assert (("opt.loss_scale()" in changed[name]), (name, "loss-scale-objects") in left) == (is_asked, not is_asked)


def test_modules_import_each_other(tmp_path: pathlib.Path) -> None:
    changed = migrated_tree(
        tmp_path,
        {
            "a.py": "from b import tf\nfrom b import nothing\nfrom b import x\n",
            "b.py": "from a import tf\nfrom a import x\nx = x\nimport tensorflow as tf\n",
            "c.py": f"from a import tf, x\nopt = {OLD}(opt, 1)\nopt = x.keras.mixed_precision.experimental.Policy\n",
        },
    ).changed
    # In b, tf may be that of a, which is not known without knowing that of b.
    assert changed == {}


@pytest.mark.parametrize("shadow", ["tensorflow.py", "tensorflow/__init__.py", "sub/tensorflow.py"])
def test_a_module_that_hides_tensorflow(tmp_path: pathlib.Path, shadow: str) -> None:
    program = f"import tensorflow as tf\nopt = {OLD}(opt, 1)\n"
    changed = migrated_tree(tmp_path, {shadow: "keras = None\n", "sub/train.py": program, "other.py": program}).changed
    assert set(changed) == ({"other.py"} if shadow.startswith("sub/") else set())


AS_OF = ("--as-of", "2.3")
INSTALL = 'mpls.install(as_of="2.3")\n'
MADE = f"import tensorflow as tf\nopt = {OLD}(opt, scale)\n"


def test_imports_by_dots(tmp_path: pathlib.Path) -> None:
    files = {
        "pkg/__init__.py": "from tensorflow.keras.mixed_precision import experimental as mp\nimport tensorflow as tf\n",
        "pkg/sub/__init__.py": "",
        "pkg/sub/train.py": f"from ... import x\nfrom .. import mp, tf\nopt = {OLD}(opt, 8)\nmp.set_policy('float32')\n",
        "pkg/train.py": f"from . import tf\nopt = {OLD}(opt, 8)\n",
    }
    changed = migrated_tree(tmp_path, files).changed
    made = "opt = mpls.keras.LossScaleOptimizer(opt, dynamic=False, initial_scale=8)\n"
    assert changed["pkg/sub/train.py"].endswith(f"import mpls.keras\n{made}mp.set_policy('float32')\n")
    assert changed["pkg/train.py"] == f"from . import tf\nimport mpls.keras\n{made}"


@pytest.mark.parametrize("package", [{}, {"pk/__init__.py": ""}], ids=["a folder", "a package"])
@pytest.mark.parametrize(("name", "module"), [("main.py", "pk"), ("pk/train.py", ".")])
def test_a_class_of_a_module_in(tmp_path: pathlib.Path, package: dict[str, str], name: str, module: str) -> None:
    use = f"from {module} import comp\nopt = comp.LSO(inner, 4)\nheld = isinstance(opt, comp.LSO)\n"
    comp = "import tensorflow as tf\nLSO = tf.keras.mixed_precision.experimental.LossScaleOptimizer\n"
    changed, left = migrated_tree(tmp_path, {"pk/comp.py": comp, name: use, **package})
    new = "mpls.keras.LossScaleOptimizer"
    assert changed[name] == (
        f"from {module} import comp\nimport mpls.keras\nopt = {new}(inner, dynamic=False, initial_scale=4)\n"
        f"held = isinstance(opt, {new})\n"
    )
    assert left == []


@pytest.mark.parametrize(
    "package", [{}, {"pk/__init__.py": "", "pk/sub/__init__.py": ""}], ids=["a folder", "a package"]
)
@pytest.mark.parametrize("name", ["pk.comp", "pk.sub.comp"])
def test_a_class_by_the_whole_name_of_its_module(tmp_path: pathlib.Path, package: dict[str, str], name: str) -> None:
    use = f"import {name}\nopt = {name}.LSO(inner, 4)\nheld = isinstance(opt, {name}.LSO), {name}.other.LSO, pk.x.y\n"
    comp = "import tensorflow as tf\nLSO = tf.keras.mixed_precision.experimental.LossScaleOptimizer\n"
    changed, left = migrated_tree(tmp_path, {f"{name.replace('.', '/')}.py": comp, "main.py": use, **package})
    new = "mpls.keras.LossScaleOptimizer"
    assert changed["main.py"] == (
        f"import {name}\nimport mpls.keras\nopt = {new}(inner, dynamic=False, initial_scale=4)\n"
        f"held = isinstance(opt, {new}), {name}.other.LSO, pk.x.y\n"
    )
    assert left == []


def test_loss_scales_of_what_another_file_makes(tmp_path: pathlib.Path) -> None:
    """The file that makes no wrapper may be imported after those are made."""
    class_ = "from tensorflow.keras.mixed_precision.experimental import LossScaleOptimizer\n"
    held = f"{class_}def first(o): return isinstance(o, LossScaleOptimizer), make(o).loss_scale()\n"
    train = f"{class_}def main():\n    opt = LossScaleOptimizer(o, 8)\n    import held\n    held.first(opt)\n"
    changed, left = migrated_tree(tmp_path, {"held.py": held, "train.py": train}, *AS_OF)
    assert not any("mpls.install" in each for each in changed.values())
    assert left == [("held.py", "loss-scale-calls")]


def test_a_module_whose_wrappers_have_objects(tmp_path: pathlib.Path) -> None:
    """Who imports it gets such wrappers too, and goes on to call their loss scales."""
    changed = migrated_tree(
        tmp_path,
        {
            "wrappers.py": f"{MADE}print(opt.get_config())\n",
            "train.py": f"import wrappers\n{MADE}loss = opt.get_scaled_loss(loss)\nprint(opt.loss_scale())\n",
        },
        *AS_OF,
    ).changed
    made = f"import tensorflow as tf\nimport mpls.experimental\n{{}}opt = mpls.experimental.{OLD.rpartition('.')[2]}(opt, scale)\n"
    assert changed == {
        "wrappers.py": f"{made.format(INSTALL)}print(opt.get_config())\n",
        "train.py": f"import wrappers\n{made.format('')}loss = opt.get_scaled_loss(loss)\nprint(opt.loss_scale())\n",
    }


def test_a_module_with_objects_that_is_imported_late(tmp_path: pathlib.Path) -> None:
    """It installs the release after the wrappers above were made, so each file does it."""
    needs = f"{MADE}print(opt.get_config())\n"
    changed = migrated_tree(
        tmp_path, {"late.py": needs, "train.py": f"{needs}def show():\n    import late\n"}, *AS_OF
    ).changed
    assert [name for name, each in sorted(changed.items()) if INSTALL in each] == ["late.py", "train.py"]


@pytest.mark.parametrize(
    ("scale", "is_asked"), [("DynamicLossScale()", True), ("FixedLossScale(8)", True), ("flags.loss_scale", False)]
)
def test_a_loss_scale_that_another_file_passes_on(tmp_path: pathlib.Path, scale: str, is_asked: bool) -> None:
    """If files have loss scale objects, a wrapper's scale may be one, which the other file goes on to use."""
    helpers = f"import tensorflow as tf\ndef wrap(opt, loss_scale):\n    return {OLD}(opt, loss_scale)\n"
    train = f"import tensorflow as tf\nfrom helpers import wrap\nscale = tf.mixed_precision.experimental.{scale}\n"
    changed = migrated_tree(
        tmp_path, {"helpers.py": helpers, "train.py": f"{train}opt = wrap(o, scale)\nprint(scale())\n"}, *AS_OF
    ).changed
    assert (INSTALL in changed["helpers.py"]) is is_asked


@pytest.mark.parametrize("other", [MADE, "def f(opt):\n    opt.get_scaled_loss(1)\n    return opt.loss_scale()\n"])
def test_a_module_that_knows_no_objects(tmp_path: pathlib.Path, other: str) -> None:
    """What imports it gets no such wrappers, which it would take for those of today."""
    files = {"other.py": other, "train.py": f"import other\n{MADE}print(opt.get_config())\n"}
    assert "install" not in migrated_tree(tmp_path, files, *AS_OF).changed["train.py"]


def test_any_number_of_workers_gives_the_same(tmp_path: pathlib.Path) -> None:
    program = f"from compat import tf\nopt = {OLD}(opt, 'dynamic')\nprint(opt.loss_scale())\nother.loss_scale()\n"
    files = {f"{number % 7}/{number}.py": program for number in range(100)}
    for number in range(7):
        files[f"{number}/compat.py"] = "import tensorflow as tf\n"
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    one, two, five = (command(str(tmp_path), "--jobs", jobs, "--report", "json") for jobs in "125")
    assert one == two == five
    assert sum(each["is_changed"] for each in json.loads(one[1])["files"]) == 100


def test_what_is_collected(tmp_path: pathlib.Path) -> None:
    program = f"import tensorflow as tf\nopt = {OLD}(opt, 1)\n"
    notebook = json.dumps({"nbformat": 4, "metadata": {}, "cells": [{"cell_type": "code", "source": program}]})
    names = ["b.py", "a.ipynb", "c.pyi", "sub/a.py", "d.txt", ".hidden/x.py", "site-packages/x.py", "env/x.py"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(notebook if name.endswith(".ipynb") else program)
    (tmp_path / "env/pyvenv.cfg").write_text("")
    (tmp_path / "link.py").symlink_to(tmp_path / "b.py")
    (tmp_path / "empty").mkdir()
    paths = [str(tmp_path), str(tmp_path / "b.py"), str(tmp_path / "d.txt"), "nowhere", str(tmp_path / "empty")]
    status, out, _ = command(*paths, "--report", "json")
    found = json.loads(out)["files"]
    assert status == 2
    assert [each["unread"] for each in found if each["unread"]] == [["is not there"], ["has no Python source in it"]]
    read = [pathlib.Path(each["path"]).relative_to(tmp_path).as_posix() for each in found if not each["unread"]]
    assert read == ["a.ipynb", "b.py", "c.pyi", "sub/a.py", "d.txt"]
