"""Policies with a loss scale, and the functions for them, come from mpls.experimental.

`Policy`, `set_policy`, `global_policy` and `get_layer_policy` of `tf.keras.mixed_precision.experimental` were removed
in TF 2.9. Those of `mpls.experimental` take the same arguments, `loss_scale` among them, and `compile` wraps the
optimizer as it did. Private modules with these names and with `policy_scope`, `get`, `serialize` and the like are
replaced too. Public names of policies, such as `tf.keras.mixed_precision.set_global_policy`, stay: they mean today what
they have always meant.
"""

from __future__ import annotations

from mpls.migrate.ruling import Rule
from mpls.names import Name

__all__ = ["RULE"]

_HOMES = ("mpls.experimental.policy:", "mpls.experimental.loss_scales:")
_PUBLIC = ("Policy", "global_policy", "set_policy", "get_layer_policy", "set_global_policy")


def _owns(row: Name) -> bool:
    home, _, name = row.target.partition(":")
    return row.target.startswith(_HOMES) or (home in ("mpls.experimental", "mpls.keras") and name in _PUBLIC)


RULE = Rule("experimental-policies", str(__doc__), owns=_owns)
