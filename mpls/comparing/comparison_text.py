"""The words and the table of `mpls compare`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from mpls.comparing.differences import Comparison, Difference, total
from mpls.comparing.explaining import explanations
from mpls.comparing.pairing import PairedStep
from mpls.errors import printable
from mpls.saved.traces import Trace, TracedStep

__all__ = ["text_of"]

_AROUND = 2
_WORDS = {
    "scale": "the loss scale",
    "counter": "the count of good steps",
    "loss": "the loss",
    "nonfinite": "the number of non-finite elements of gradients",
    "gradients": "the norm of a gradient",
    "applied": "whether the step was applied",
    "scale_after": "the loss scale after the step",
    "counter_after": "the count of good steps after the step",
    "variables": "the norm of a variable after the step",
    "steps": "the number of steps",
}
_Cell = Callable[[TracedStep], str]


def text_of(comparison: Comparison) -> str:
    """Return what is printed: whether two traces agree, and otherwise where they first differ, and why."""
    old, new = comparison.old, comparison.new
    lines = [_about("old", old), _about("new", new), ""]
    lines += _agreement(comparison) if comparison.first is None else _difference(comparison, comparison.first)
    return "\n".join(lines)


def _about(which: str, trace: Trace) -> str:
    environment = trace.environment
    versions = [f"TensorFlow {environment.get('tensorflow', '?')}"]
    versions += [f"mpls {environment['mpls']}"] if trace.is_of_mpls else []
    as_of = trace.options.get("as_of")
    versions += [f"as of {as_of}"] if as_of else []
    ended = f", ended by {trace.ended_by}" if trace.ended_by else ""
    return printable(
        f"{which}: {trace.path} ({trace.program}, {', '.join(versions)}, {_steps(len(trace.steps))}{ended})"
    )


def _steps(number: int) -> str:
    return f"{number} step{'' if number == 1 else 's'}"


def _agreement(comparison: Comparison) -> list[str]:
    count, same = len(comparison.pairing.steps), comparison.same_bits
    optimizers = len(comparison.old.wrappers)
    what = f"{_steps(count)} of {optimizers} optimizer{'' if optimizers == 1 else 's'}"
    exact = "the same scales, counts, applied and skipped steps"
    if same == count:
        lines = [f"The two agree to the last bit, in {what}: {exact}, and the same bits of gradients and variables."]
    else:
        losses = "losses and norms" if comparison.knows_losses else "norms"
        size = f"by at most {comparison.largest:.2g}, relatively" if comparison.largest else "in no digit"
        first = "no step" if not same else "the first step only" if same == 1 else f"the first {_steps(same)}"
        lines = [
            f"The two agree, in {what}: {exact}; {losses} of gradients and variables differ {size} (tolerance "
            f"{comparison.tolerance:g}).",
            f"The bits are the same in {first}.",
        ]
    if not comparison.knows_losses:
        lines.append("One of them has no loss in some steps, as the wrapper did not see it.")
    if comparison.counts_differ:
        lines.append("In steps that overflow, the numbers of non-finite elements differ, which no step depends on.")
    return lines


def _difference(comparison: Comparison, first: Difference) -> list[str]:
    lines = [_headline(comparison, first), _agreed_until(comparison, first), ""]
    lines += _table(comparison, first)
    for each in explanations(comparison):
        lines += ["", f"{each.text_for(comparison)} See mpls docs {each.anchor}"]
    return lines


def _headline(comparison: Comparison, first: Difference) -> str:
    values = f"{_shown(first.old)} in the old run, {_shown(first.new)} in the new one"
    if first.step is None:
        return f"The two differ in {_WORDS[first.quantity]}: {values}."
    what = _WORDS[first.quantity]
    if first.variable is not None:
        what += f", {printable(comparison.old.wrappers[first.step.wrapper].variables[first.variable].name)}"
    size = first.relative
    by = f" (relatively {size:.2g}; tolerance {comparison.tolerance:g})" if size and math.isfinite(size) else ""
    of = f" of optimizer {first.step.wrapper}" if len(comparison.old.wrappers) > 1 else ""
    return f"The two differ from step {first.step.old.step}{of} on: {what}: {values}{by}."


def _agreed_until(comparison: Comparison, first: Difference) -> str:
    if not first.at:
        return "They have no step in which they agree."
    same = min(comparison.same_bits, first.at)
    bits = "to the last bit" if same == first.at else f"to {comparison.largest:.2g}, relatively"
    before = f"In the {_steps(first.at)} before, they agree {bits}."
    is_sparse = first.step is not None and comparison.pairing.leaves_out(first.at)
    return before + " Steps in between were not recorded: --every 1 shows the first." if is_sparse else before


def _table(comparison: Comparison, first: Difference) -> list[str]:
    """Return the steps around the first difference; a cell has one value where both runs have the same."""
    steps = comparison.pairing.steps[max(0, first.at - _AROUND) : first.at + _AROUND + 1]
    columns = list(_columns(comparison, first))
    header = ["", "step", *(name for name, _ in columns)]
    rows = []
    for step in steps:
        mark = ">" if step is first.step else ""
        number = f"{step.old.step}" + (f" ({step.wrapper})" if len(comparison.old.wrappers) > 1 else "")
        rows.append([mark, number, *(_both(cell(step.old), _cell_of_new(cell, step)) for _, cell in columns)])
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    table = [header, *rows]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
    return [*lines, "where two values stand, they are those of the old and of the new run"]


def _cell_of_new(cell: _Cell, step: PairedStep) -> str:
    return cell(_reordered(step))


def _reordered(step: PairedStep) -> TracedStep:
    """Return the step of the new trace, with its variables in the order of the old one."""
    values = dict(vars(step.new))
    for name in ("gradient_norms", "variable_norms"):
        values[name] = tuple(values[name][at] for at in step.order)
    return TracedStep(**values)


def _columns(comparison: Comparison, first: Difference) -> Iterator[tuple[str, _Cell]]:
    yield "scale", lambda step: _shown(step.scale)
    yield "count", lambda step: _shown(step.counter)
    if any(step.old.loss is not None for step in comparison.pairing.steps):
        yield "loss", lambda step: _shown(step.loss)
    yield "non-finite", lambda step: _shown(step.nonfinite)
    yield "applied", lambda step: _shown(step.applied)
    yield "|gradients|", lambda step: _shown(total(step.gradient_norms))
    yield "|variables|", lambda step: _shown(total(step.variable_norms))
    at = first.variable
    if at is not None:
        has_several = len(comparison.old.wrappers) > 1
        # Other optimizers have other variables.
        wrapper = None if first.step is None or not has_several else first.step.wrapper
        yield (
            "|this gradient|" if first.quantity == "gradients" else "|this variable|",
            lambda step: _norm_at(step, first.quantity, at, wrapper),
        )


def _norm_at(step: TracedStep, quantity: str, at: int, wrapper: int | None) -> str:
    if wrapper is not None and step.wrapper != wrapper:
        return ""
    return _shown((step.gradient_norms if quantity == "gradients" else step.variable_norms)[at])


def _both(old: str, new: str) -> str:
    return old if old == new else f"{old} / {new}"


def _shown(value: float | bool | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.7g}"
