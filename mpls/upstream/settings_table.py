"""The private attributes in which optimizers of `tf.compat.v1.train` keep settings: rows of `table`."""

from __future__ import annotations

from mpls.upstream.private import Private

_ACCUMULATOR = {"initial_accumulator_value": "_initial_accumulator_value"}
_REGULARIZATION = {f"l{number}_regularization_strength": f"_l{number}_regularization_strength" for number in (1, 2)}
_FTRL = {name: f"_{name}" for name in ("learning_rate_power", "beta", "l2_shrinkage_regularization_strength")}
_RATE = {"learning_rate": "_learning_rate"}
_RMSPROP = {"rho": "_decay", "momentum": "_momentum", "epsilon": "_epsilon", "centered": "_centered"}
_KEPT = {
    "AdadeltaOptimizer": {"learning_rate": "_lr", "rho": "_rho", "epsilon": "_epsilon"},
    "AdagradDAOptimizer": {**_RATE, **_REGULARIZATION},
    "AdagradOptimizer": {**_RATE, **_ACCUMULATOR},
    "AdamOptimizer": {"learning_rate": "_lr", "beta_1": "_beta1", "beta_2": "_beta2", "epsilon": "_epsilon"},
    "FtrlOptimizer": {**_RATE, **_ACCUMULATOR, **_REGULARIZATION, **_FTRL},
    "GradientDescentOptimizer": _RATE,
    "MomentumOptimizer": {**_RATE, "momentum": "_momentum", "nesterov": "_use_nesterov"},
    "ProximalAdagradOptimizer": {**_RATE, **_ACCUMULATOR, **_REGULARIZATION},
    "ProximalGradientDescentOptimizer": {**_RATE, **_REGULARIZATION},
    "RMSPropOptimizer": {**_RATE, **_RMSPROP},
}
# By the class in `tf.compat.v1.train`, and by the name that Keras has for the setting.
V1_SETTINGS = {
    owner: {
        setting: Private(f"tensorflow.compat.v1.train:{owner}", name, f"convert_state does not read {setting} of it")
        for setting, name in kept.items()
    }
    for owner, kept in _KEPT.items()
}

ROWS = {f"{owner}.{name}": row for owner, rows in V1_SETTINGS.items() for name, row in rows.items()}
