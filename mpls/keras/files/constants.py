"""The limit of what TensorFlow computes from constants while it adds ops to a graph, to know the shapes of tensors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from mpls.keras.files.constant_work import OF_AN_OP, work_of
from mpls.keras.files.shape_inputs import JOINING, NEVER_COMPUTED, SHAPES, computed_inputs

__all__ = ["ConstantShapes", "CostlyShapes"]

# The limits for every model: units of work (see `constant_work`), and bytes of all tensors that are computed for one
# input.
_WORK = 1 << 31
_MEMORY = 1 << 28
# The units of work with which TensorFlow begins each time that it computes an input.
_OF_A_RUN = 50_000
# TensorFlow caches a result of at most this many numbers, and does not compute it again.
_KEPT = 8
# TensorFlow looks for sizes by recursion, one call for each op. This is the largest depth: deeper, its stack overflows.
_DEPTH = 500
_MOST_VISITS = 1 << 40


class _Facts(NamedTuple):
    """What an op depends on.

    Attributes:
        is_constant: whether TensorFlow can compute it ahead.
        visits: how many tensors TensorFlow looks at, if the op is one of `JOINING`.
        depth: how many ops of `JOINING` follow each other up to this one.
    """

    is_constant: bool
    visits: int
    depth: int


class CostlyShapes(Exception):
    """Too much is computed for shapes.

    Args:
        constraint: what a model must do instead.
        got: what it does.
    """

    def __init__(self, constraint: str, got: str) -> None:
        super().__init__(constraint, got)
        self.constraint, self.got = constraint, got


class ConstantShapes:
    """Counts what TensorFlow computes from constants when ops are added to graphs.

    Args:
        more: units of work besides those that any model may need.
    """

    def __init__(self, more: float = 0) -> None:
        self._left = _WORK + more
        self._facts: WeakKeyDictionary[Any, _Facts] = WeakKeyDictionary()
        self._kept: WeakKeyDictionary[Any, set[int]] = WeakKeyDictionary()
        self._have_states: dict[str, bool] = {}

    def note(self, op_type: str, inputs: Sequence[Any]) -> None:
        """Count an op that is about to be added.

        Args:
            op_type: its type.
            inputs: its inputs, symbolic tensors, in a flat list.

        Raises:
            CostlyShapes: TensorFlow would compute too much for the shapes of the outputs.
        """
        for tensor in inputs:
            self._facts_of(tensor.op)
        for tensor in computed_inputs(op_type, inputs):
            self.compute(tensor)

    def compute(self, tensor: Any) -> None:
        """Count that TensorFlow computes a tensor, if it can do so, or the sizes in it.

        Raises:
            CostlyShapes: that is too much.
        """
        facts = self.look_into(tensor)
        if facts.is_constant:
            self._run(tensor)
        elif tensor.op.type in JOINING:
            for part in _parts(tensor):
                if self._facts_of(part.op).is_constant:
                    self._run(part)

    def look_into(self, tensor: Any) -> _Facts:
        """Count that TensorFlow looks for the single sizes in a tensor.

        Raises:
            CostlyShapes: it has too many parts.
        """
        facts = self._facts_of(tensor.op)
        if facts.depth > _DEPTH:
            raise CostlyShapes("put few sizes together to a shape", f"parts of parts, {facts.depth} times")
        if facts.visits > 1:
            self._charge(facts.visits * OF_AN_OP)
        return facts

    def _run(self, tensor: Any) -> None:
        if tensor.value_index in self._kept.get(tensor.op, ()):
            return
        work, memory = 0.0 if tensor.op.type == "Const" else _OF_A_RUN, 0.0
        for op in self._needed(tensor):
            more, made = work_of(op.type, self._sources(op), op.outputs)
            work, memory = work + more, memory + made
            if work > self._left or memory > _MEMORY:
                shapes = [str(each.shape) for each in op.outputs[:1]]
                raise CostlyShapes("compute shapes from constants with little work", " ".join([op.type, *shapes]))
        self._charge(work)
        if (tensor.shape.num_elements() or math.inf) <= _KEPT:
            self._kept.setdefault(tensor.op, set()).add(tensor.value_index)

    def _charge(self, work: float) -> None:
        self._left -= work
        if self._left < 0:
            raise CostlyShapes("compute shapes from constants with little work", "many")

    def _needed(self, tensor: Any) -> Iterator[Any]:
        """Yield each op that TensorFlow runs to compute a tensor."""
        stack, seen = [tensor.op], {tensor.op}
        while stack:
            op = stack.pop()
            yield op
            for each in self._sources(op):
                if each.op not in seen and each.value_index not in self._kept.get(each.op, ()):
                    seen.add(each.op)
                    stack.append(each.op)

    def _facts_of(self, op: Any) -> _Facts:
        found = self._facts.get(op)
        if found is not None:
            return found
        stack = [op]
        while stack:
            op = stack[-1]
            missing = [each.op for each in self._sources(op) if each.op not in self._facts]
            if missing:
                stack += missing
            else:
                stack.pop()
                self._facts[op] = self._from_sources(op)
        return self._facts[op]

    def _sources(self, op: Any) -> Sequence[Any]:
        """Return the inputs of which an op is computed; none if it is not computed, or told by their shapes."""
        if op.type in NEVER_COMPUTED or (op.type in SHAPES and self._is_told_by_shapes(op)):
            return ()
        if op.type not in self._have_states:
            self._have_states[op.type] = op.op_def.is_stateful
        sources: Sequence[Any] = () if self._have_states[op.type] else op.inputs
        return sources

    def _is_told_by_shapes(self, op: Any) -> bool:
        if op.type == "Rank":
            return op.inputs[0].shape.rank is not None
        return all(each.shape.is_fully_defined() for each in op.inputs)

    def _from_sources(self, op: Any) -> _Facts:
        sources = [self._facts[each.op] for each in self._sources(op)]
        if not sources:
            is_constant = op.type == "Const" or (op.type in SHAPES and self._is_told_by_shapes(op))
        else:
            is_constant = all(each.is_constant for each in sources)
        if op.type not in JOINING or not sources:
            return _Facts(is_constant, 1, 0)
        followed = sources[:1] if op.type in ("Cast", "StridedSlice") else sources
        visits = min(sum(each.visits for each in followed), _MOST_VISITS)
        return _Facts(is_constant, visits, 1 + max(each.depth for each in followed))


def _parts(tensor: Any) -> Iterator[Any]:
    """Yield the tensors in which TensorFlow looks for the sizes in a shape, each once."""
    stack, seen = [tensor], {tensor.ref()}
    while stack:
        tensor = stack.pop()
        if tensor.op.type not in JOINING:
            yield tensor
            continue
        for each in tensor.op.inputs:
            if each.ref() not in seen:
                seen.add(each.ref())
                stack.append(each)
