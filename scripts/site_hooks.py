"""Hooks of mkdocs: the order of the pages, and the generated pages: names, reference, and the documents of the root."""

from __future__ import annotations

import ast
import pathlib
import re
from typing import Any

from mkdocs.structure.files import File, Files

import mpls
from mpls.documentation import PAGES, name_page, sections
from mpls.names import NAMES

ROOT = pathlib.Path(__file__).resolve().parents[1]
DOCUMENTS = {"migration": "MIGRATION.md", "security": "SECURITY.md", "changelog": "CHANGELOG.md"}
PACKAGES = ("mpls.keras", "mpls.v1", "mpls.experimental", "mpls.contrib", "mpls.monitor")
SHOWN = [name for name in NAMES if name.replacement]


def on_config(config: Any) -> Any:
    """Set the navigation: the pages in their order, the documents of the root, and the reference."""
    titles = {section.page: section.title for section in sections() if section.level == 1}
    pages = [{"Home" if page == "index" else titles[page]: f"{page}.md"} for page in PAGES]
    documents = [{titles.get(page, page.capitalize()): f"{page}.md"} for page in DOCUMENTS]
    reference = [{module: f"reference/{module}.md"} for module in ("mpls", *PACKAGES, "mpls.errors")]
    config.nav = [*pages, *documents, {"API reference": reference}]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are generated."""
    for page, file in DOCUMENTS.items():
        files.append(File.generated(config, f"{page}.md", content=(ROOT / file).read_text(encoding="utf-8")))
    for name in SHOWN:
        text = re.sub(r"\]\(([\w-]+\.md)", r"](../\1", name_page(name))
        files.append(File.generated(config, f"names/{name.path}.md", content=text))
    for module, members in _reference().items():
        text = f"# {module}\n\n" + "".join(f"::: {module}.{each}\n\n" for each in members)
        files.append(File.generated(config, f"reference/{module}.md", content=text))
    return files


def _reference() -> dict[str, list[str]]:
    """Return the public objects of each module."""
    functions = ["install", "uninstall", "installed", "convert_state"]
    return {"mpls": functions, **{module: _listed(module) for module in PACKAGES}, "mpls.errors": mpls.errors.__all__}


def _listed(module: str) -> list[str]:
    """Return `__all__` of a package, which is not imported, as it would load TensorFlow."""
    source = (ROOT / module.replace(".", "/") / "__init__.py").read_text(encoding="utf-8")
    (names,) = re.findall(r"^__all__ = (\[.*?\])", source, re.MULTILINE | re.DOTALL)
    listed: list[str] = ast.literal_eval(names)
    return listed


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:  # noqa: ARG001
    """Let links lead to pages of the site; those to other files of the repository become text."""
    if page.file.src_uri == "names.md":
        rows = "".join(f"* [`{name.path}`](names/{name.path}.md): {name.releases}\n" for name in SHOWN)
        markdown += f"\n## All names\n\n{rows}"

    def place(found: re.Match[str]) -> str:
        text, path, anchor = found[1], found[2], found[3] or ""
        path = path.removeprefix("../") if page.file.src_uri.count("/") == 0 else path
        path = path.removeprefix("docs/")
        path = next((f"{new}.md" for new, old in DOCUMENTS.items() if old == path), path)
        target = path if page.file.src_uri.count("/") == 0 else path.removeprefix("../")
        return f"[{text}]({path}{anchor})" if files.get_file_from_path(target) else text

    return re.sub(r"(?<!!)\[([^]]+)\]\(((?!http)[^)#\s]+)(#[^)]*)?\)", place, markdown)
