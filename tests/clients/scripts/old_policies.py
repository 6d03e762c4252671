# A benchmark of 2019, with the policy names that went away with TF 2.1.
# Written for TF 1.14 and 1.15.
import json
import sys

import tensorflow as tf

name = sys.argv[1] if len(sys.argv) > 1 else "infer_float32_vars"
policy = tf.keras.mixed_precision.experimental.Policy(name)
tf.keras.mixed_precision.experimental.set_policy(policy)
for k in (1.0, float("inf")):
    print(json.dumps({"step": k, "seen": "policy", "value": policy.name}))
tf.keras.mixed_precision.experimental.set_policy("infer")
