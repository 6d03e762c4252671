"""Historical names in strings, in `getattr` and in `hasattr` are reported, and those in magics of notebooks.

They are never changed: what becomes of a string is not known. `hasattr(tf.keras.mixed_precision, "experimental")` is
False today, and the branch for newer releases runs. In a notebook, they are reported too where the code is not read:
in magics, shell commands, and cells that another process runs or that are written to a file.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mpls.migrate.analysis import Analysis
from mpls.migrate.replacements import home_of, is_gone, replacement_of
from mpls.migrate.ruling import Finding, Kind, Rule
from mpls.migrate.source_text import Edit

__all__ = ["RULE", "names_in_notebook"]

_NAME = "names-in-strings"
_FROM = re.compile(r"\bfrom\s+([\w.]+)\s+import\s+(\w+)")
_DOTTED = re.compile(r"[A-Za-z_][\w]*(?:\.[A-Za-z_]\w*)+")


def _look(analysis: Analysis) -> Iterator[Edit | Finding]:
    text = analysis.text
    for node in analysis.survey.strings:
        for dotted in _DOTTED.findall(str(node.value)):
            path = _path_of(dotted)
            if path:
                yield Finding(text.span(node)[0], _NAME, f"names {path} in a string: {_advice(path)}", Kind.LEFT)
    for call, region in analysis.survey.probes:
        name = call.args[1]
        if not isinstance(name, ast.Constant) or not isinstance(name.value, str) or not isinstance(call.func, ast.Name):
            continue
        for path in sorted(analysis.meanings.member(analysis.meanings.of(call.args[0], region), name.value).paths):
            if is_gone(path):
                is_probe = call.func.id == "hasattr"
                what = f"{call.func.id} asks for {path}, which is gone"
                advice = "it is False today, and the other branch runs" if is_probe else _advice(path)
                kind = Kind.NOTED if is_probe else Kind.LEFT
                yield Finding(text.span(call)[0], _NAME, f"{what}: {advice}", kind)


def names_in_notebook(line: str) -> Iterator[str]:
    """Yield what to say of the historical names in a line of a notebook that is not read as Python."""
    imported = [".".join(match) for match in _FROM.findall(line)]
    for dotted in dict.fromkeys([*imported, *_DOTTED.findall(line)]):
        path = _path_of(dotted)
        if path:
            yield f"names {path} in a line that is not read as Python: {_advice(path)}"


def _path_of(dotted: str) -> str:
    """Return the path of a removed name that a string has in it, maybe without its beginning; "" for others."""
    path = dotted.replace("tensorflow.", "tf.", 1) if dotted.startswith("tensorflow.") else dotted
    is_whole = path.startswith(("tf.", "keras."))
    for each in (path, f"tf.{path}"):
        if is_gone(each):
            return each
        if is_whole and is_gone(each.rpartition(".")[0]):
            return each.rpartition(".")[0]
    return ""


def _advice(path: str) -> str:
    replacement = replacement_of(path)
    home = home_of(path) if replacement is None else replacement.path
    return f"{home} has it" if home else "see mpls docs which-import-replaces-which"


RULE = Rule(_NAME, str(__doc__), look=_look)
