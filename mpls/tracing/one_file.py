"""Joins the recorder to one file, for old machines that have no mpls: what `mpls trace --recorder` prints."""

from __future__ import annotations

import ast
from pathlib import Path

__all__ = ["recorder_source"]

# In the order in which they import each other.
_PARTS = (
    "measures",
    "trace_writer",
    "step_recorder",
    "scale_states",
    "step_tensors",
    "around_steps",
    "compiled_functions",
    "recorded_classes",
    "tracing_session",
    "recording_options",
    "standalone",
)
_HEAD = '''\
#!/usr/bin/env python
"""Records what the loss-scaling optimizers of TensorFlow 1.13 to 2.15 do at each step of a program.

    python mpls_recorder.py OUT.json program.py --its --own=arguments

`mpls compare` compares the trace with one that `mpls trace` has written. This file was written by mpls {version}. It
needs Python 3.6 or later, and nothing but the TensorFlow that the program uses.
"""
'''
_END = """

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
"""


def recorder_source(version: str) -> str:
    """Return the source of the recorder: the modules of this package without what Python 3.6 does not know.

    Args:
        version: that of mpls.
    """
    folder = Path(__file__).parent
    imports: set[str] = set()
    bodies = []
    for name in _PARTS:
        source = (folder / f"{name}.py").read_text(encoding="utf-8")
        tree = ast.parse(source)
        imports |= _imports(tree)
        bodies.append(_body(source, tree))
    head = _HEAD.format(version=version)
    return f"{head}\n{chr(10).join(sorted(imports))}\n\n\n" + "\n\n\n".join(bodies) + _END


def _imports(tree: ast.Module) -> set[str]:
    """Return the statements that import what is not of mpls, at the top of a module."""
    found = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            found.add(ast.unparse(node))
    return found


def _body(source: str, tree: ast.Module) -> str:
    """Return a module without its docstring, imports, `__all__` and annotations."""
    lines = [line.encode() for line in source.splitlines()]
    left_out = [*tree.body[:1], *(node for node in tree.body if _is_left_out(node))]
    cuts = [_annotation(node) for node in ast.walk(tree)]
    for start, column, end, end_column in sorted((each for cut in cuts for each in cut), reverse=True):
        rest = lines[end - 1][end_column:]
        lines[start - 1 : end] = [lines[start - 1][:column] + rest, *[b""] * (end - start)]
    for node in left_out:
        lines[node.lineno - 1 : node.end_lineno] = [b""] * ((node.end_lineno or node.lineno) - node.lineno + 1)
    return b"\n".join(lines).decode().strip()


def _is_left_out(node: ast.stmt) -> bool:
    if isinstance(node, ast.Assign):
        return isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__"
    return isinstance(node, ast.Import | ast.ImportFrom)


def _annotation(node: ast.AST) -> list[tuple[int, int, int, int]]:
    """Return where an annotation begins and ends: line and column in bytes, of each."""
    if isinstance(node, ast.arg) and node.annotation is not None:
        end = node.annotation
        return [(node.lineno, node.col_offset + len(node.arg.encode()), end.end_lineno or 0, end.end_col_offset or 0)]
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        target, end = node.target, node.annotation
        return [(target.end_lineno or 0, target.end_col_offset or 0, end.end_lineno or 0, end.end_col_offset or 0)]
    if isinstance(node, ast.FunctionDef) and node.returns is not None:
        end = node.returns
        # Up to `->`, which is on the same line.
        return [(end.lineno, end.col_offset - len(" -> "), end.end_lineno or 0, end.end_col_offset or 0)]
    return []
