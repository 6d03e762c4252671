"""Policies for both Kerases."""

import keras
import tf_keras

import mpls.keras

policy = mpls.keras.Policy("mixed_float16")
compute: str | None = policy.compute_dtype
assert tf_keras.layers.Dense(1, dtype=policy).dtype_policy is policy
assert keras.layers.Dense(1, dtype=policy).dtype_policy is policy
mpls.keras.set_global_policy("mixed_bfloat16")
current: mpls.keras.Policy = mpls.keras.global_policy()
mpls.keras.set_global_policy(policy)
mpls.keras.set_global_policy(keras.DTypePolicy("float32"))
mpls.keras.set_global_policy(None)
again: mpls.keras.Policy = mpls.keras.Policy.from_config(policy.get_config())
