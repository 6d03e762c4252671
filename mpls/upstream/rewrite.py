"""TensorFlow's mixed-precision graph rewrite: flags that Sessions and functions read when they are created."""

from __future__ import annotations

import tensorflow as tf

from mpls.upstream import table
from mpls.upstream.keras_packages import loaded_keras

_REWRITE_OPTION = "auto_mixed_precision"


# The state after the last call of `set_graph_rewrite_enabled`.
_rewrite_set: tuple[bool, bool | None] | None = None


# Sessions read the flags of the table when they are made (TensorFlow 1.14 to 2.21). The public spellings under
# tf.__internal__.train can neither set the first nor read the others.


def set_graph_rewrite_enabled(enabled: bool) -> None:
    """Tell sessions and functions that are created from now on whether to run the mixed-precision graph rewrite."""
    tf.config.optimizer.set_experimental_options({_REWRITE_OPTION: enabled})
    _set_flag(enabled)
    global _rewrite_set
    _rewrite_set = graph_rewrite_state()


def is_graph_rewrite_enabled() -> bool:
    """Return whether the mixed-precision graph rewrite is on."""
    is_enabled = table.IS_REWRITE.load()
    return bool(_option() if is_enabled is None else is_enabled())


def _set_flag(enabled: bool) -> None:
    set_enabled = table.SET_REWRITE.load()
    if set_enabled is not None:
        set_enabled(enabled)


def _option() -> bool | None:
    option: bool | None = tf.config.optimizer.get_experimental_options().get(_REWRITE_OPTION)
    return option


def has_session_without_rewrite() -> bool:
    """Return whether a Session has been created while the graph rewrite was off."""
    was_created = table.HAS_OTHER_SESSION.load()
    return was_created is not None and bool(was_created())


def graph_rewrite_state() -> tuple[bool, bool | None]:
    """Return the rewrite's flag, and its option in `tf.config`, which is None until it is set."""
    return is_graph_rewrite_enabled(), _option()


def is_graph_rewrite_set_by_mpls() -> bool:
    """Return whether mpls was the last to change the rewrite's state."""
    return graph_rewrite_state() == _rewrite_set


def restore_graph_rewrite(state: tuple[bool, bool | None]) -> None:
    """Restore a state that `graph_rewrite_state` returned."""
    is_enabled, option = state
    _set_flag(is_enabled)
    tf.config.optimizer.set_experimental_options({_REWRITE_OPTION: option})


def is_mixed_policy_set() -> bool:
    """Return whether the global dtype policy of tf_keras or Keras 3 is a mixed one."""
    is_mixed = table.IS_MIXED.load()
    if is_mixed is not None and is_mixed():
        return True
    if loaded_keras() is None:
        return False
    # Keras 3 does not tell TensorFlow. Its public function would fix the default policy when it is first called.
    get = table.GLOBAL_STATE.load()
    policy = None if get is None else get("dtype_policy")
    return policy is not None and policy.compute_dtype != policy.variable_dtype
