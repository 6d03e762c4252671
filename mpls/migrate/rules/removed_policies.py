"""Names of policies that were removed before the API was are reported.

`Policy("infer_float32_vars")`, `Policy("float16_with_float32_vars")` and the like were names of TF 1.14 to 2.2. What
replaces them depends on what the program wants.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mpls.migrate.analysis import Analysis
from mpls.migrate.ruling import Finding, Kind, Rule
from mpls.migrate.source_text import Edit
from mpls.names import REMOVED_POLICIES

__all__ = ["RULE"]

_NAME = "removed-policies"


def _look(analysis: Analysis) -> Iterator[Edit | Finding]:
    for use, _ in analysis.uses:
        call = use.call
        is_policy = {row.attribute for row in use.rows} <= {"Policy", "set_policy"}
        first = call.args[0] if call is not None and call.args and is_policy else None
        name = first.value if isinstance(first, ast.Constant) else None
        if isinstance(name, str) and (name in REMOVED_POLICIES or name.endswith("_float32_vars")):
            today = REMOVED_POLICIES.get(name, REMOVED_POLICIES["infer"])
            assert first is not None
            what = f"the policy {name!r} was removed: write {today}"
            yield Finding(analysis.text.span(first)[0], _NAME, what, Kind.LEFT)


RULE = Rule(_NAME, str(__doc__), look=_look)
