"""What happens to a training, step by step, and what the loss scale must be after each.

The scales and counts are written out, not computed: a finite step counts, every second one in a row doubles
the scale of 8 that the setups start from, a non-finite one halves it and starts the count again. Where the setup says
so, it is quadrupled and quartered.

A scenario runs in every cell: a new one is one more row.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from .setups import SETUPS, Setup

INF, NAN, LARGEST = math.inf, math.nan, 2.0**127

# What a term of the loss is multiplied by in a step. The other terms get a finite factor.
STEPS = {
    ".": None,
    "+": INF,
    "-": -INF,
    "n": NAN,
    # Finite gradients, which are infinite once they are scaled.
    "o": 2.0**127,
    # Finite gradients, also scaled by 1, which are infinite once they are summed over replicas.
    "s": 1.999 * 2.0**127,
    # Gradients so small that they are finite under the largest scale.
    "t": 2.0**-60,
}


@dataclasses.dataclass(frozen=True)
class Scenario:
    """A row of the table.

    Attributes:
        name: part of the test ids.
        steps: a letter for each step, see `STEPS`.
        scales: the loss scale after each.
        good_steps: the count of finite steps after each.
        start: scale and count before the first.
        setup: what is trained.
        at: the terms of the loss that the letters are for; by default the first.
        on: the replicas that they are for; steps take them in turn. Ignored with one replica.
        changes: what is done before a step, by its index: a scale that is set, or arguments of `configure`.
        gives_up: whether the optimizer gives up after the last step.
    """

    name: str
    steps: str
    scales: list[float]
    good_steps: list[int]
    start: tuple[float, int] = (8.0, 0)
    setup: str = "minimize"
    at: tuple[str, ...] = ()
    on: tuple[tuple[int, ...], ...] = ((1,),)
    changes: Mapping[int, float | dict[str, float]] = dataclasses.field(default_factory=dict)
    gives_up: bool = False

    def runs_on(self, replicas: int) -> bool:
        """Return whether the scenario says anything with one replica, or with two."""
        if replicas == 2:
            return self.setup not in ("bfloat16", "float64") or self.name == "inf_middle"
        return self.setup != "unaggregated" and self.on == ((1,),)

    def is_applied(self, index: int) -> bool:
        return self.steps[index] in ".t" or not SETUPS[self.setup].scaling.skips

    def factors(self, index: int, replicas: int) -> list[list[float]]:
        """Return the factors of a step, for each replica those of the terms of the loss."""
        setup = SETUPS[self.setup]
        value = STEPS[self.steps[index]]
        at = self.at or setup.terms[:1]
        on = self.on[index % len(self.on)] if replicas == 2 else (0,)
        return [
            [
                value if value is not None and (value == STEPS["t"] or (term in at and replica in on)) else finite
                for term, finite in zip(setup.terms, _finite(setup, index, replica), strict=True)
            ]
            for replica in range(replicas)
        ]

    def all_factors(self, replicas: int) -> list[list[list[float]]]:
        return [self.factors(index, replicas) for index in range(len(self.steps))]


def _finite(setup: Setup, index: int, replica: int) -> list[float]:
    # Different in each step, term and replica; 3/7 and the like, which round in every dtype.
    return [(3.0 + index + 2 * position + 4 * replica) / 7.0 for position in range(len(setup.terms))]


def _every(setup: str) -> tuple[Scenario, ...]:
    """Return the scenarios that a setup runs to show that what differs in it changes nothing."""
    return (
        Scenario("inf_middle", ".+..", [8, 4, 4, 8], [1, 0, 1, 0], setup=setup),
        Scenario("nan_first", "n..", [4, 4, 8], [0, 1, 0], setup=setup),
    )


SCENARIOS: tuple[Scenario, ...] = (
    Scenario("all_finite", ".....", [8, 16, 16, 32, 32], [1, 0, 1, 0, 1]),
    Scenario("inf_first", "+...", [4, 4, 8, 8], [0, 1, 0, 1]),
    Scenario("inf_middle", ".+..", [8, 4, 4, 8], [1, 0, 1, 0]),
    Scenario("inf_last", "..+", [8, 16, 8], [1, 0, 0]),
    Scenario("minus_inf", ".-.", [8, 4, 4], [1, 0, 1]),
    Scenario("nan", ".n.", [8, 4, 4], [1, 0, 1]),
    Scenario("inf_at_another_variable", ".+.", [8, 4, 4], [1, 0, 1], at=("second",)),
    Scenario("inf_at_all_variables", ".+.", [8, 4, 4], [1, 0, 1], at=("first", "second")),
    Scenario("finite_gradient_that_overflows_scaled", ".o.", [8, 4, 4], [1, 0, 1]),
    Scenario("overflows_down_to_the_floor", "+n-+.", [2, 1, 1, 1, 1], [0, 0, 0, 0, 1], start=(4.0, 1)),
    Scenario("growth_from_the_floor", "+..", [1, 1, 2], [0, 1, 0], start=(1.0, 0)),
    Scenario("scale_below_one_rises_to_it", ".+", [0.5, 1], [1, 0], start=(0.5, 0)),
    Scenario("growth_is_due_at_once", "..", [16, 16], [0, 1], start=(8.0, 1)),
    Scenario("count_beyond_the_period", "..", [16, 16], [0, 1], start=(8.0, 7)),
    Scenario(
        "growth_stops_at_the_largest_float",
        "tttt",
        [LARGEST / 2, LARGEST, LARGEST, LARGEST],
        [1, 0, 1, 0],
        start=(LARGEST / 2, 0),
    ),
    Scenario("shrinks_from_the_largest_float", "t+t", [LARGEST, LARGEST / 2, LARGEST / 2], [1, 0, 1], (LARGEST, 0)),
    Scenario("inf_on_the_first_replica", ".+..", [8, 4, 4, 8], [1, 0, 1, 0], on=((0,),)),
    Scenario("inf_on_both_replicas", ".+..", [8, 4, 4, 8], [1, 0, 1, 0], on=((0, 1),)),
    Scenario("nan_on_each_replica_in_turn", ".nn.n.", [8, 4, 2, 2, 1, 1], [1, 0, 0, 1, 0, 1], on=((0,), (1,))),
    Scenario("sum_over_replicas_overflows", ".s..", [1, 1, 1, 2], [1, 0, 1, 0], start=(1.0, 0), on=((0, 1),)),
    Scenario("all_finite", "....", [8, 32, 32, 128], [1, 0, 1, 0], setup="by_four"),
    Scenario("inf_middle", ".+..n.", [8, 2, 2, 8, 2, 2], [1, 0, 1, 0, 0, 1], setup="by_four"),
    Scenario("overflows_down_to_the_floor", "+..", [1, 1, 4], [0, 1, 0], start=(2.0, 1), setup="by_four"),
    Scenario("growth_stops_at_the_largest_float", "tt", [LARGEST / 2] * 2, [0, 1], (LARGEST / 2, 1), setup="by_four"),
    *_every("adam_clipped"),
    *_every("sparse"),
    *_every("stacked"),
    Scenario("inf_in_a_stack", ".+.", [8, 4, 4], [1, 0, 1], setup="stacked", at=("row_3",)),
    *_every("float16"),
    *_every("bfloat16"),
    *_every("float64"),
    *_every("unaggregated"),
    Scenario("inf_on_the_first_replica", ".+..", [8, 4, 4, 8], [1, 0, 1, 0], setup="unaggregated", on=((0,),)),
    Scenario("all_finite", "...", [128] * 3, [], setup="fixed"),
    Scenario("nan_goes_through", ".n.", [128] * 3, [], setup="fixed"),
)

# What the options of mpls promise, each in the setup that has it.
OPTION_SCENARIOS: tuple[Scenario, ...] = (
    Scenario("to_it", "+n-+.", [0.5, 0.25, 0.25, 0.25, 0.25], [0, 0, 0, 0, 1], start=(1.0, 1), setup="low_floor"),
    Scenario("to_it_and_down", "....+", [8, 16, 16, 16, 8], [1, 0, 1, 0, 0], setup="ceiling"),
    Scenario("up_and_down", "..+..", [8, 64, 16, 16, 128], [1, 0, 0, 1, 0], setup="factors"),
    Scenario(
        "only_growth_resets", "+.+.+..+.", [8, 8, 4, 4, 4, 4, 8, 8, 8], [0, 1, 0, 1, 0, 1, 0, 0, 1], setup="hysteresis"
    ),
    Scenario("finite_steps_reset", "+.++.", [8, 8, 8, 4, 4], [0, 1, 0, 0, 1], setup="in_a_row"),
    Scenario(
        "changed_in_training",
        "..+....+",
        [8, 16, 2, 2, 32, 64, 16, 2],
        [1, 0, 0, 1, 1, 0, 0, 0],
        setup="adjustable",
        changes={
            2: {"backoff_factor": 0.125, "min_scale": 0.5},
            4: 32.0,
            6: {"max_scale": 16.0, "growth_steps": 1},
        },
    ),
    Scenario("search_that_ends", "...+.", [16, 32, 64, 32, 32], [0, 0, 0, 0, 1], setup="auto"),
    Scenario("several_in_a_row", ".+-.", [8, 4, 2, 2], [1, 0, 0, 1], setup="counted"),
    Scenario("several_in_a_row", ".+-.", [8, 4, 2, 2], [1, 0, 0, 1], setup="skips_count"),
    Scenario("several_in_a_row", ".+-.", [8, 4, 2, 2], [1, 0, 0, 1], setup="skips_do_not_count"),
    Scenario("one", ".+.n.", [8, 4, 4, 2, 2], [1, 0, 1, 0, 1], setup="tracked", at=("second",)),
    Scenario("all", "+.", [4, 4], [0, 1], setup="tracked", at=("first", "second")),
    Scenario("too_many", ".+n", [8, 4, 2], [1, 0, 0], setup="gives_up", gives_up=True),
    Scenario("few", "+.n", [4, 4, 2], [0, 1, 0], setup="gives_up"),
    Scenario("hidden", ".+.n..", [8, 4, 4, 2, 2, 4], [1, 0, 1, 0, 1, 0], setup="unscaled_is_checked"),
    Scenario("all_kinds", ".n+-.", [128] * 5, [], setup="skips_at_a_fixed_scale"),
    Scenario("nan_goes_through", "..n.", [8] * 4, [0] * 4, setup="disabled"),
    Scenario(
        "search_gives_up",
        "..+n.+n-",
        [32, 64, 64, 16, 16, 16, 4, 4],
        [0, 0, 0, 0, 1, 0, 0, 0],
        setup="together",
        gives_up=True,
    ),
)
