"""The experimental wrapper becomes the public one of mpls, with the same loss scale.

`tf.keras.mixed_precision.experimental.LossScaleOptimizer` took the loss scale as one argument. It was removed in TF
2.9. Where the value is in the source, the call becomes one of `mpls.keras.LossScaleOptimizer`: `'dynamic'` is
`dynamic=True`, a number or a `FixedLossScale` is `dynamic=False, initial_scale=…`, and a `DynamicLossScale` gives
`initial_scale`, `dynamic_growth_steps` and factors for another multiplier. Where it is not, the call goes to
`mpls.experimental.LossScaleOptimizer`, which takes it as it is. So do base classes, and what passes the class on.
`isinstance` and annotations get the public class, which the experimental one of mpls derives from.
"""

from __future__ import annotations

from mpls.migrate.ruling import Rule
from mpls.migrate.wrapper_calls import is_experimental, replace_wrapper

__all__ = ["RULE"]

RULE = Rule("experimental-wrapper", str(__doc__), owns=is_experimental, replace=replace_wrapper)
