"""The public wrapper of TF 2.4 to 2.15 becomes that of mpls.

`tf.keras.mixed_precision.LossScaleOptimizer` is another class since Keras 3, without `get_scaled_loss`, `loss_scale` or
fixed scales. `mpls.keras.LossScaleOptimizer` has the arguments and members of the old one, over the optimizers of both
Kerases, and those of Keras 3. `tf_keras.mixed_precision.LossScaleOptimizer` and `keras.optimizers.LossScaleOptimizer`
stay: they are names of today, and whoever writes them means these classes.
"""

from __future__ import annotations

from mpls.migrate.ruling import Rule
from mpls.migrate.wrapper_calls import is_public, replace_wrapper

__all__ = ["RULE"]

RULE = Rule("public-wrapper", str(__doc__), owns=is_public, replace=replace_wrapper)
