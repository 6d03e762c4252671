"""What is released: files in the wheel and the sdist, the version, and what is declared to be needed."""

from __future__ import annotations

import ast
import email
import pathlib
import re
import sys
import tarfile
import tempfile
import unittest
import zipfile
from collections.abc import Iterator
from email.message import Message
from typing import ClassVar

import pytest
from parameterized import parameterized

import mpls
from tests.processes import build

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
# What a document names that is in the repository: a file in a folder of it, or a document.
NAMED = re.compile(r"\b(?:(?:benchmarks|examples|scripts|tests)/[\w./-]*\w|[A-Z]{4,}\.md)\b")


def files_in(*folders: str) -> set[str]:
    return {
        path.relative_to(ROOT).as_posix()
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
    }


@pytest.mark.matrix
class PackageTest(unittest.TestCase):
    wheel: ClassVar[dict[str, bytes]]
    source: ClassVar[set[str]]
    metadata: ClassVar[Message]

    @classmethod
    def setUpClass(cls) -> None:
        with tempfile.TemporaryDirectory() as folder:
            build(ROOT, pathlib.Path(folder), "sdist", "wheel")
            (path,) = pathlib.Path(folder).glob("*.whl")
            with zipfile.ZipFile(path) as wheel:
                cls.wheel = {name: wheel.read(name) for name in wheel.namelist()}
            (name,) = (each for each in cls.wheel if each.endswith(".dist-info/METADATA"))
            cls.metadata = email.message_from_bytes(cls.wheel[name])
            (path,) = pathlib.Path(folder).glob("*.tar.gz")
            with tarfile.open(path) as source:
                cls.source = {member.name.partition("/")[2] for member in source if member.isfile()}

    def test_the_wheel_has_the_package_and_nothing_else(self) -> None:
        installed = {name for name in self.wheel if ".dist-info/" not in name}
        documents = {f"mpls/{name}" for name in files_in("docs")}
        self.assertEqual(installed, files_in("mpls") | documents | {"mpls/MIGRATION.md", "mpls/SECURITY.md"})
        self.assertEqual(self.wheel["mpls/MIGRATION.md"], (ROOT / "MIGRATION.md").read_bytes())
        self.assertIn("mpls/py.typed", installed)
        self.assertTrue(any(name.endswith("/licenses/LICENSE") for name in self.wheel))

    def test_the_sdist_has_all_that_is_needed_to_test_and_build(self) -> None:
        folders = ("mpls", "docs", "tests", "benchmarks", "examples", "scripts", "constraints", ".ci")
        missing = files_in(*folders) - self.source
        self.assertEqual(missing, set())
        others = {"pyproject.toml", "noxfile.py", "LICENSE", ".pre-commit-hooks.yaml", *DOCUMENTS}
        self.assertLessEqual(others, self.source)

    @parameterized.expand(DOCUMENTS)
    def test_the_sdist_has_what_a_document_names(self, document: str) -> None:
        named = set(NAMED.findall((ROOT / document).read_text(encoding="utf-8")))
        missing = {each for each in named if not any(f"{file}/".startswith(f"{each}/") for file in self.source)}
        self.assertEqual(missing - self.modules_named(missing), set())

    def modules_named(self, names: set[str]) -> set[str]:
        """Return what stands for a module, without the suffix."""
        return {each for each in names if f"{each}.py" in self.source}

    def test_the_version_is_that_of_the_newest_section_of_the_changelog(self) -> None:
        sections = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
        self.assertEqual(sections[0], "Unreleased")
        self.assertRegex(sections[1], rf"^{re.escape(mpls.__version__)} - \d{{4}}-\d\d-\d\d$")
        self.assertEqual(self.metadata["Version"], mpls.__version__)

    def test_what_is_imported_is_declared_with_an_upper_bound_where_it_is_a_framework(self) -> None:
        needed = [each for each in self.metadata.get_all("Requires-Dist", []) if "extra ==" not in each]
        bounds = {re.split(r"[<>=]", each)[0].replace("-", "_"): each for each in needed}
        # The package protobuf brings google.protobuf, and mpls imports h5py by its name, where it reads an H5 file.
        bounds["google"] = bounds.pop("protobuf")
        self.assertIn('import_module("h5py")', (ROOT / "mpls" / "saved" / "containers.py").read_text())
        del bounds["h5py"]
        imported = {name for path in (ROOT / "mpls").rglob("*.py") for name in imports(path)}
        # Those that a program has, if it has them: nobody needs them for mpls.
        asked_for = {"jax", "IPython", "sitecustomize"}
        # What an extra brings.
        asked_for |= {"matplotlib"}
        self.assertEqual(imported - sys.stdlib_module_names - asked_for - {"mpls"}, set(bounds))
        for each in ("keras", "tensorflow", "tf_keras"):
            self.assertIn("<", bounds[each])


class VersionsTest(unittest.TestCase):
    def test_the_readme_names_the_versions_of_the_matrix(self) -> None:
        tree = ast.parse((ROOT / "noxfile.py").read_text())
        (matrix,) = (
            ast.literal_eval(node.value)
            for node in tree.body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "MATRIX"
        )
        *releases, _ = matrix
        declared = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
        self.assertEqual(sorted({matrix[release] for release in releases}), declared)
        said = f"Python {declared[0]} to {declared[-1]} and TensorFlow {releases[0]} to {releases[-1]}"
        self.assertIn(said, (ROOT / "README.md").read_text())


def imports(path: pathlib.Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module.partition(".")[0]
