"""What policies and `compile` did, asked of the original and of mpls in the same words.

`python policy_traces.py DIRECTORY` on TensorFlow 2.1 to 2.8 records the originals, each release in a file of its own.
"""

import json
import os
import sys

import tensorflow as tf

# What a policy is made of: the name, and the loss scale if one is given. A list is a DynamicLossScale.
POLICIES = [
    ["mixed_float16"],
    ["mixed_float16", None],
    ["mixed_float16", "dynamic"],
    ["mixed_float16", 128],
    ["mixed_float16", 1.5],
    ["mixed_float16", [8.0, 2]],
    ["mixed_float16", True],
    ["mixed_float16", 0],
    ["mixed_float16", "foo"],
    ["mixed_float16", "128"],
    ["mixed_bfloat16"],
    ["mixed_bfloat16", 4],
    ["float16"],
    ["float16", "dynamic"],
    ["float32"],
    ["float32", None],
    ["float32", 128],
    ["float64"],
    ["int32"],
    ["bool"],
    ["_infer"],
    ["infer"],
    ["infer_float32_vars"],
    ["infer_with_float32_vars"],
    ["float16_with_float32_vars"],
    ["bfloat16_with_float32_vars"],
    ["float32_with_float32_vars"],
    ["nonsense"],
    [None],
    [5],
]
COMPILED = [*POLICIES[:6], ["mixed_bfloat16", 4], ["mixed_bfloat16"], ["float32", 128], ["float32"], ["float16"]]
SET = ["mixed_float16", "mixed_bfloat16", "float16", "float32", "float64", "int32", "bool", None, "nonsense", 5]
OPTIMIZERS = ["name", "object", "wrapped"]


def call(function, *args):
    """Return what a call returns, or the built-in class of its error."""
    try:
        return function(*args)
    except (TypeError, ValueError, AttributeError) as error:
        return {"error": [cls.__name__ for cls in (TypeError, ValueError, AttributeError) if isinstance(error, cls)]}


def loss_scale_argument(api, value):
    """Return the loss scale that a case stands for."""
    return api.DynamicLossScale(*value) if isinstance(value, list) else value


def describe_loss_scale(loss_scale):
    """Return its settings; None for None."""
    return loss_scale and loss_scale.get_config()


def describe(policy):
    """Return what can be seen of a policy."""
    return {
        "name": policy.name,
        "compute_dtype": policy.compute_dtype,
        "variable_dtype": policy.variable_dtype,
        "loss_scale": describe_loss_scale(policy.loss_scale),
        "config": policy.get_config(),
        "repr": repr(policy),
        "again": repr(type(policy).from_config(policy.get_config())) == repr(policy),
        "should_cast_variables": getattr(policy, "should_cast_variables", "absent"),
    }


def make(api, case):
    """Return the policy of a case."""
    return api.Policy(case[0], *(loss_scale_argument(api, value) for value in case[1:]))


def set_and_describe(api, policy):
    """Return what global_policy() is after set_policy()."""
    api.set_policy(policy)
    policy = api.global_policy()
    scale = describe_loss_scale(policy.loss_scale) if hasattr(policy, "loss_scale") else "absent"
    return {"name": policy.name, "loss_scale": scale}


def compiled(api, case, optimizer):
    """Return what `compile` makes of an optimizer, for a model with the policy of a case."""
    sgd, keras = api.sgd(), api.keras
    given = {"name": "sgd", "object": sgd, "wrapped": api.LossScaleOptimizer(sgd, 64) if optimizer == "wrapped" else 0}
    policy = make(api, case)
    layers = [keras.layers.Input([2]), keras.layers.Dense(1, dtype=policy, kernel_initializer="ones")]
    api.set_policy(policy)
    try:
        model = keras.Sequential(layers)
        model.compile(given[optimizer], "mse")
    finally:
        api.set_policy(None)
    result = model.optimizer
    seen = {
        "is_wrapped": isinstance(result, api.LossScaleOptimizer),
        "is_the_given_one": result is given[optimizer],
    }
    if seen["is_wrapped"]:
        seen["loss_scale"] = scale_of(result)
        seen["dynamic"] = dynamic_of(result)
    return seen


def scale_of(optimizer):
    """Return the loss scale as a number, in every release."""
    scale = optimizer.loss_scale
    return float(scale() if callable(scale) else scale)


def dynamic_of(optimizer):
    """Return the settings of a dynamic scale, in every release."""
    if hasattr(optimizer, "dynamic"):
        return [optimizer.initial_scale, optimizer.dynamic_growth_steps] if optimizer.dynamic else None
    config = optimizer.loss_scale.get_config()
    return [config["initial_loss_scale"], config["increment_period"]] if "increment_period" in config else None


def refusal(api):
    """Return the error of turning the rewrite on, or None."""
    result = call(api.enable, api.v1_optimizer())
    return result if isinstance(result, dict) else None


def interlock(api):
    """Return which of policies and rewrite refuses the other, in which order."""
    seen = {}
    for name in ("float32", "mixed_float16", "mixed_bfloat16", "float16"):
        api.set_policy(None)
        api.enable(api.v1_optimizer())
        seen["rewrite, " + name] = call(api.set_policy, name)
        api.disable()
        api.set_policy(name)
        seen[name + ", rewrite"] = refusal(api)
        api.set_policy("float32")
        seen[name + ", float32, rewrite"] = refusal(api)
        api.set_policy(None)
        seen[name + ", None, rewrite"] = refusal(api)
        api.disable()
    return seen


def all_traces(api):
    """Return all that is asked, by name."""
    traces = {"policy/" + json.dumps(case): call(lambda case=case: describe(make(api, case))) for case in POLICIES}
    traces["default"] = call(lambda: [api.global_policy().name, getattr(api.global_policy(), "loss_scale", "absent")])
    for policy in SET:
        traces["set/" + json.dumps(policy)] = call(set_and_describe, api, policy)
    api.set_policy(None)
    traces["layer"] = call(lambda: repr(api.get_layer_policy(api.keras.layers.Dense(1, dtype=make(api, POLICIES[3])))))
    traces["layer/5"] = call(lambda: api.get_layer_policy(5))
    for case in COMPILED:
        for optimizer in OPTIMIZERS:
            name = f"compile/{optimizer}/{json.dumps(case)}"
            traces[name] = call(compiled, api, case, optimizer)
    traces["interlock"] = interlock(api)
    return traces


class Original:
    """The names of the release that runs."""

    def __init__(self):
        policies = tf.keras.mixed_precision.experimental
        self.keras = tf.keras
        self.Policy, self.set_policy = policies.Policy, policies.set_policy
        self.global_policy, self.LossScaleOptimizer = policies.global_policy, policies.LossScaleOptimizer
        self.get_layer_policy = getattr(policies, "get_layer_policy", None)
        self.DynamicLossScale = tf.compat.v1.train.experimental.DynamicLossScale
        self.enable = tf.compat.v1.train.experimental.enable_mixed_precision_graph_rewrite
        self.disable = tf.compat.v1.train.experimental.disable_mixed_precision_graph_rewrite
        self.sgd = lambda: tf.keras.optimizers.SGD(0.5)
        self.v1_optimizer = lambda: tf.compat.v1.train.GradientDescentOptimizer(0.5)


if __name__ == "__main__":
    release = "".join(tf.__version__.split(".")[:2])
    with open(os.path.join(sys.argv[1], f"policies_tf{release}.json"), "w") as file:
        traces = all_traces(Original())
        file.write(
            "{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v, sort_keys=True)}" for k, v in traces.items()) + "\n}\n"
        )
