"""Today's own names of TensorFlow and Keras, where they mean the same as the historical ones: `--to native`."""

from __future__ import annotations

import ast
import functools
import re

from mpls.migrate.analysis import Analysis, Decision, Use
from mpls.migrate.replacements import home_of
from mpls.migrate.wrapper_calls import EXPERIMENTAL, PUBLIC, arguments_of_release
from mpls.names import GRAPH_REWRITES, GRAPH_WRAPPER, SCALE_CLASSES
from mpls.program.meaning import are_optimizers_of_tf_1
from mpls.program.objects import Instance, is_experimental
from mpls.program.scopes import Chain, Region, Role

__all__ = ["Native", "checkpoint_names", "leave_what_cannot_be_written", "written"]

_KERAS = "tf.keras.mixed_precision"
_GRAPH = "tf.compat.v1.mixed_precision"
_POLICIES = {"Policy": "Policy", "global_policy": "global_policy", "set_policy": "set_global_policy"}
_POLICIES["set_global_policy"] = "set_global_policy"
_OF_GRAPH = (GRAPH_WRAPPER, *SCALE_CLASSES, *GRAPH_REWRITES)
# Arguments that only the wrapper of mpls has.
_OF_MPLS = re.compile("skip_counts_step|growth_factor")
# Functions that tell the names of the variables in a checkpoint.
_LISTS = ("list_variables", "load_checkpoint", "NewCheckpointReader")


def checkpoint_names(analysis: Analysis) -> ast.expr | None:
    """Return where a file with a wrapper of graph mode asks which variables are in a checkpoint; None if it does not.

    Savers write some variables under two names if the wrapper is that of mpls, and under one if it is TensorFlow's own.
    """
    has_wrapper = any(row.target == f"mpls.v1:{GRAPH_WRAPPER}" for use, _ in analysis.uses for row in use.rows)
    asks = (chain.parts[-1] for chain in analysis.survey.chains if chain.names[-1] in _LISTS and chain.call is not None)
    return next(asks, None) if has_wrapper else None


class Native:
    """Finds today's own names for the uses in a file.

    Args:
        analysis: the file.
    """

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        self._instances = analysis.instances
        self._has_scales_of_policies: bool | None = None
        self._are_rewrites_plain: bool | None = None

    def decision(self, use: Use, decision: Decision, uses: list[Use]) -> Decision:
        """Return what becomes of a use: today's own name if it means the same, else what was decided.

        Args:
            use: the use.
            decision: what it becomes with names of mpls.
            uses: all uses in the file.
        """
        of_graph = decision.path.rpartition(".")[2] in _OF_GRAPH
        path = self._path(use, decision, uses) if of_graph or self._analysis.settings.is_native else None
        if path is None:
            return decision
        return Decision(path, decision.edits, decision.note, decision.kind, otherwise=decision)

    def _path(self, use: Use, decision: Decision, uses: list[Use]) -> str | None:
        home, _, name = decision.path.rpartition(".")
        if decision.path == PUBLIC:
            is_same = not any(_OF_MPLS.search(edit.new) for edit in decision.edits)
            is_plain = use.role in (Role.CALL, Role.TYPE_TEST, Role.ANNOTATION)
            has_it = self._analysis.settings.keras == 2 and not self._has_second_arguments
            is_enough = has_it and not self._analysis.is_unsupported_by_tf_keras
            return f"{_KERAS}.LossScaleOptimizer" if is_enough and is_same and is_plain else None
        if name in _POLICIES and home in ("mpls.experimental", "mpls.keras") and decision.path != EXPERIMENTAL:
            return f"{_KERAS}.{_POLICIES[name]}" if self._is_plain_policy(use, name) else None
        if name in _OF_GRAPH:
            return self._of_graph(use, name, uses)
        return None

    @functools.cached_property
    def _has_second_arguments(self) -> bool:
        """Whether the file gives `apply_gradients` a second argument by place, which the one of mpls passes on."""
        calls = [each.call for each in self._analysis.survey.chains if each.names[-1] == "apply_gradients"]
        second = [each.args[1] for each in calls if each is not None and len(each.args) > 1]
        return not all(isinstance(each, ast.Constant) and isinstance(each.value, str) for each in second)

    @functools.cached_property
    def _needs_own_compiled(self) -> bool:
        """Whether the wrapper that `compile` makes under a policy of today's own is not what the program needs."""
        if self._analysis.settings.keras == 3 and self._analysis.facts.reads_compiled:
            return True
        return bool(arguments_of_release(self._analysis))

    def _is_plain_policy(self, use: Use, name: str) -> bool:
        """Return whether a use of a policy has nothing to do with its loss scale."""
        if self._has_scales_of_policies is None:
            kinds = [self._instances.kind(each) for each in self._analysis.survey.reads if each.name == "loss_scale"]
            self._has_scales_of_policies = any(kind is not Instance.WRAPPER for kind in kinds)
        if self._has_scales_of_policies or use.role is Role.BASE or self._needs_own_compiled:
            return False
        call = use.call
        if name != "Policy" or call is None:
            return name != "Policy" or use.role is not Role.VALUE
        first = call.args[0] if len(call.args) == 1 and not call.keywords else None
        # The names that were removed are no names of policies today; a name that is not known may be one.
        return isinstance(first, ast.Constant) and not str(first.value).endswith(("infer", "_vars"))

    def _of_graph(self, use: Use, name: str, uses: list[Use]) -> str | None:
        """Return the name in `tf.compat.v1`, which has the same classes for optimizers of TF 1."""
        is_there = all(row.path.startswith("tf.compat.v1.") and row.last is None for row in use.rows)
        if name in GRAPH_REWRITES and not self._are_rewrites_of_plain_optimizers(uses):
            return None
        if name in SCALE_CLASSES and any(
            is_experimental(row) or row.attribute in _POLICIES for each in uses for row in each.rows
        ):
            # Wrappers of mpls get objects of mpls.
            return None
        return use.rows[0].path if is_there and len(use.rows) == 1 else f"{_GRAPH}.{name}"

    def _are_rewrites_of_plain_optimizers(self, uses: list[Use]) -> bool:
        """Return whether the graph rewrite gets optimizers of TF 1 only: TensorFlow's own refuses others."""
        if self._are_rewrites_plain is None:
            calls = [each for each in uses if each.rows[0].attribute == GRAPH_REWRITES[0]]
            self._are_rewrites_plain = all(
                each.call is not None
                and bool(each.call.args)
                and self._is_plain(each.call.args[0], each.chain.region, 0)
                for each in calls
            )
        return self._are_rewrites_plain

    def _is_plain(self, node: ast.expr, region: Region, depth: int) -> bool:
        if isinstance(node, ast.Call):
            meaning = self._analysis.meanings.of(node.func, region)
            return meaning.is_whole and are_optimizers_of_tf_1(meaning.paths)
        if isinstance(node, ast.Name) and depth == 0:
            bindings = region.find(node.id)
            value = bindings[0].value if bindings else None
            # `opt = rewrite(opt)` binds the name again.
            return isinstance(value, ast.expr) and len(bindings) <= 2 and self._is_plain(value, bindings[0].region, 1)
        return False


def written(analysis: Analysis, chain: Chain, node: ast.expr, path: str) -> str | None:
    """Return how a path of TensorFlow's own is written in place of a part of a chain; None if it cannot be.

    Args:
        analysis: the file.
        chain: the chain.
        node: the part.
        path: the path.
    """
    for part in chain.parts[chain.parts.index(node) :: -1]:
        now = analysis.after(part, chain.region)
        if len(now) == 1:
            (start,) = now
            if path == start or path.startswith(f"{start}."):
                return f"{analysis.text.source(part)}{path.removeprefix(start)}"
    return None


def leave_what_cannot_be_written(analysis: Analysis) -> None:
    """Go back to names of mpls where a chain has no part from which TensorFlow's own path can be written.

    Args:
        analysis: the file, with all other decisions made.
    """
    for place, (chain, node, home) in enumerate(analysis.spaces):
        if not home.startswith("mpls.") and written(analysis, chain, node, home) is None:
            (own,) = {home_of(path) for path in analysis.meanings.of(node, chain.region).paths}
            assert own is not None
            analysis.spaces[place] = chain, node, own
            analysis.afterwards.becomes[node] = own
    # Names come from these namespaces.
    analysis.afterwards.forget()
    for place, (use, decision) in enumerate(analysis.uses):
        otherwise = None if decision is None else decision.otherwise
        if decision is None or otherwise is None:
            continue
        if written(analysis, use.chain, use.node, decision.path) is None:
            analysis.uses[place] = use, otherwise
            analysis.afterwards.becomes[use.node] = otherwise.path
    analysis.afterwards.forget()
