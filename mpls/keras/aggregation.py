"""Gradients that methods of users have summed or averaged over workers, as all-reduce libraries put them on a class."""

from __future__ import annotations

from typing import Any

from mpls.errors import ArgumentValueError, error_text

_Pairs = list[tuple[Any, Any]]
_METHOD = "_aggregate_gradients"


def own_aggregation(wrapper: Any, family: Any) -> Any:
    """Return the `_aggregate_gradients` of a user's subclass, which `fit` called up to TF 2.3; or None."""
    own = getattr(type(wrapper), _METHOD, None)
    is_own = wrapper._shows_loss_scale_object and own is not getattr(family, _METHOD, None)
    return own if is_own else None


def as_pairs(aggregated: Any, pairs: _Pairs, method: str = _METHOD) -> _Pairs:
    """Return pairs of gradient and variable, of which users' methods returned the gradients alone up to TF 2.3.

    Args:
        aggregated: what the method returned.
        pairs: what it was given.
        method: its name, for the error.

    Raises:
        ValueError: it has returned gradients, and not as many as it was given.
    """
    results = list(aggregated)
    if all(isinstance(each, tuple | list) and len(each) == 2 for each in results):
        return results
    if len(results) != len(pairs):
        raise ArgumentValueError(
            error_text(
                f"LossScaleOptimizer: what {method}() returns",
                f"be pairs, or the gradients of all {len(pairs)} variables",
                len(results),
                "Return list(zip(grads, variables))",
                "all-reduce",
            )
        )
    return [(grad, variable) for grad, (_, variable) in zip(results, pairs, strict=True)]
