"""Mutations of configs of models, of optimizers and of training, as JSON values and as texts."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from typing import Any

from mpls.formats.wrapper_state import (
    COUNTS,
    FLOAT_EXTRAS,
    INNER_KEYS,
    OPTIONS_KEY,
    OWN_SCALE_SETTINGS,
    OWN_STEP_SETTINGS,
    STATE_KEY,
    WHOLE_EXTRAS,
)
from tests.saved.mutations.payloads import KERAS3, NEW, OLD, Payloads
from tests.saved.mutations.values import Mutator, Place, copied, places

BIG = [
    0,
    -1,
    10**3,
    10**5,
    10**7,
    10**9,
    2**31,
    2**40,
    2**62,
    2**64,
    1e30,
    True,
    None,
    [10**6, 10**6],
    [2**31] * 8,
    "9" * 50,
]
SIZES = ["units", "filters", "input_dim", "output_dim", "kernel_size", "batch_input_shape", "batch_shape", "rate"]
SIZES += [
    "max_tokens",
    "num_oov_indices",
    "output_sequence_length",
    "unroll",
    "axis",
    "n",
    "size",
    "padding",
    "strides",
]
SIZES += ["input_shape", "shape", "num_heads", "dilation_rate", "target_shape", "decay_steps", "seed", "depth"]
NAMED = ["activation", "recurrent_activation", "kernel_initializer", "bias_initializer", "recurrent_initializer"]
NAMED += [
    "kernel_regularizer",
    "activity_regularizer",
    "bias_regularizer",
    "kernel_constraint",
    "bias_constraint",
    "loss",
]
NAMED += [
    "embeddings_initializer",
    "beta_initializer",
    "gamma_initializer",
    "metrics",
    "weighted_metrics",
    "optimizer",
    "fn",
]
NAMED += ["learning_rate", "dtype", "standardize", "split", "vocabulary", "merge_mode", "layer", "cell", "cells"]
NAMED += [
    "function",
    "module",
    "registered_name",
    "build_config",
    "inner_optimizer",
    "optimizer_config",
    "keras_version",
]
NAMED += [
    "node_def",
    "custom_objects",
    "shared_object_id",
    "backward_layer",
    "model_config",
    "training_config",
    "backend",
]
OPTIONS = (*OWN_SCALE_SETTINGS, *OWN_STEP_SETTINGS, *WHOLE_EXTRAS, *FLOAT_EXTRAS, *COUNTS)
WRAPPERS = {"TimeDistributed": "layer", "Bidirectional": "layer", "RNN": "cell", "StackedRNNCells": "cells"}
WRAPPERS |= {"SpectralNormalization": "layer", "Wrapper": "layer", "Residual": "layer", "Pipeline": "layers"}


@functools.cache
def framework_names() -> tuple[list[str], list[str]]:
    """Return the names of classes and functions of both frameworks, and their modules."""
    import keras
    import tf_keras

    names: set[str] = set()
    modules: set[str] = {"builtins", "tensorflow", "numpy", "tf_keras.src.losses", "keras.src.layers.core.lambda_layer"}
    for package in (tf_keras, keras):
        for part in ("layers", "losses", "metrics", "optimizers", "initializers", "regularizers", "constraints"):
            modules.add(f"{package.__name__}.{part}")
            names.update(name for name in dir(getattr(package, part)) if not name.startswith("_"))
        names.update(dir(package.activations))
        names.update(dir(package.optimizers.schedules))
        # What their loaders look up beside: what modules import for themselves.
        names.update(
            name for name in vars(package.src.losses if package is tf_keras else package.src.saving.serialization_lib)
        )
    return sorted(names), sorted(modules)


def mutated(mutator: Mutator, payloads: Payloads, config: Any, others: Sequence[Any]) -> tuple[str, Any]:
    """Return what was changed in a config, and what has become of it.

    Args:
        mutator: the source of chance.
        payloads: of nodes that no file may hold.
        config: a JSON value, which stays as it is.
        others: configs of other files.
    """
    root = {"root": copied(config)}
    payloads.dialect = _dialect(config)
    ways: list[Callable[[], str]] = [
        lambda: _anywhere(mutator, payloads, root),
        lambda: _added(mutator, payloads, root),
        lambda: _by_name(mutator, payloads, root),
        lambda: _layer(mutator, payloads, root),
        lambda: _layer(mutator, payloads, root),
        lambda: _layer(mutator, payloads, root),
        lambda: _layer(mutator, payloads, root),
        lambda: _other_class(mutator, root),
        lambda: _swapped(mutator, root, others),
        lambda: _number(mutator, root),
        lambda: _option(mutator, root),
        lambda: _plain(mutator, root),
    ]
    count = mutator.random.choice((1, 1, 1, 2, 3))
    return "; ".join(mutator.random.choice(ways)() for _ in range(count)), root["root"]


def _dialect(config: Any) -> str:
    keys = {key for _, key in places(config) if isinstance(key, str)}
    if keys & {"args", "batch_shape"}:
        return KERAS3
    layers = [value for parent, key in places(config) if key == "layers" and isinstance(value := parent[key], list)]
    modules = any(isinstance(each, dict) and "module" in each for value in layers for each in value)
    return NEW if modules or not layers else OLD


def _keyed(mutator: Mutator, root: Any, keys: Sequence[str]) -> Place:
    found = [(parent, key) for parent, key in places(root) if key in keys]
    return mutator.random.choice(found or list(places(root)))


def _anywhere(mutator: Mutator, payloads: Payloads, root: Any) -> str:
    parent, key = mutator.random.choice(list(places(root)))
    what, parent[key] = payloads.node()
    return f"{what} as {key!r}"


def _added(mutator: Mutator, payloads: Payloads, root: Any) -> str:
    found = [parent[key] for parent, key in places(root) if isinstance(parent[key], dict)]
    target = mutator.random.choice(found or [root])
    key = mutator.random.choice(NAMED + SIZES)
    what, target[key] = payloads.node()
    return f"{what} added as {key!r}"


def _by_name(mutator: Mutator, payloads: Payloads, root: Any) -> str:
    parent, key = _keyed(mutator, root, NAMED)
    if mutator.random.random() < 0.4:
        names, _ = framework_names()
        parent[key] = mutator.random.choice(names)
        return f"{parent[key]!r} as {key!r}"
    what, parent[key] = payloads.function()
    return f"{what} as {key!r}"


def _layer(mutator: Mutator, payloads: Payloads, root: Any) -> str:
    """Put a layer that runs something in the place of one, or beside the others, called with what harms."""
    lists = [parent[key] for parent, key in places(root) if key == "layers" and isinstance(parent[key], list)]
    lists = [each for each in lists if any(isinstance(layer, dict) for layer in each)]
    if not lists:
        return _anywhere(mutator, payloads, root)
    layers = mutator.random.choice(lists)
    position = mutator.random.choice([number for number, each in enumerate(layers) if isinstance(each, dict)])
    replaced = layers[position]
    if "inbound_nodes" in replaced or mutator.random.random() < 0.3:
        what, node, (argument, others) = payloads.layer_with_argument()
    else:
        # What stands in a row is called with what comes before it.
        (what, node), argument, others = payloads.nested(), None, {}
    if "inbound_nodes" in replaced:
        node["inbound_nodes"] = payloads.calls(argument, others)
        if mutator.random.random() < 0.2:
            node["inbound_nodes"] = replaced["inbound_nodes"]
    if mutator.random.random() < 0.15:
        wrapper = mutator.random.choice(sorted(WRAPPERS))
        inner = {key: value for key, value in node.items() if key != "inbound_nodes"}
        node = {
            **node,
            "class_name": wrapper,
            "module": "keras.layers",
            "config": {"name": "spy", WRAPPERS[wrapper]: inner},
        }
        what += f" in {wrapper}"
    if mutator.random.random() < 0.6:
        layers.insert(mutator.random.choice((position, len(layers))), node)
        return f"{what} as another layer"
    if "name" in replaced:
        node["name"] = replaced["name"]
        if isinstance(node["config"], dict):
            node["config"]["name"] = replaced["name"]
    layers[position] = node
    return f"{what} as layer {position}"


def _other_class(mutator: Mutator, root: Any) -> str:
    names, modules = framework_names()
    parent, key = _keyed(mutator, root, ("class_name",))
    parent[key] = mutator.random.choice(names)
    what = f"the class {parent[key]!r}"
    if isinstance(parent, dict) and "module" in parent and mutator.random.random() < 0.4:
        parent["module"] = mutator.random.choice(modules)
        what += f" of {parent['module']!r}"
    if isinstance(parent, dict) and "registered_name" in parent:
        parent["registered_name"] = mutator.random.choice((None, parent[key], parent["registered_name"]))
    return what


def _swapped(mutator: Mutator, root: Any, others: Sequence[Any]) -> str:
    parent, key = mutator.random.choice(list(places(root)))
    if mutator.random.random() < 0.5 and others:
        elsewhere = list(places({"root": mutator.random.choice(others)}))
        same = [place for place in elsewhere if place[1] == key]
        other, other_key = mutator.random.choice(same or elsewhere)
        parent[key] = copied(other[other_key])
        return f"{key!r} is {other_key!r} of another file"
    other, other_key = mutator.random.choice(list(places(root)))
    first, second = copied(parent[key]), copied(other[other_key])
    parent[key], other[other_key] = second, first
    return f"{key!r} and {other_key!r} in each other's place"


def _number(mutator: Mutator, root: Any) -> str:
    if mutator.random.random() < 0.3:
        found = [place for place in places(root) if type(place[0][place[1]]) in (int, float)]
        parent, key = mutator.random.choice(found or list(places(root)))
    else:
        parent, key = _keyed(mutator, root, SIZES)
    parent[key] = copied(mutator.random.choice(BIG))
    return f"{parent[key]!r:.40} as {key!r}"


def _option(mutator: Mutator, root: Any) -> str:
    """Have options, or counters, in some wrapper or in what a file has them in, that need not be any."""
    found = [parent[key] for parent, key in places(root) if isinstance(parent[key], dict)]
    held = [each for each in found if set(each) & {OPTIONS_KEY, STATE_KEY, *INNER_KEYS, *OPTIONS, "settings", "state"}]
    target = mutator.random.choice(held or found or [root])
    name, value = mutator.random.choice(OPTIONS), mutator.value()
    way = mutator.random.choice(("beside", "entry", "settings", "state"))
    if way == "beside":
        target[name] = value
    elif way == "entry":
        target[OPTIONS_KEY] = value
    else:
        entry = target.setdefault(OPTIONS_KEY, {"settings": {}, "state": {}})
        if isinstance(entry, dict) and isinstance(entry.setdefault(way, {}), dict):
            entry[way][name] = value
    return f"the option {name!r} as {value!r:.40}, {way}"


def _plain(mutator: Mutator, root: Any) -> str:
    root["root"] = mutator.config(root["root"])
    return "plain changes"


def text(mutator: Mutator, config: Any) -> tuple[str, str]:
    """Return a config's text, and what is odd about it, if anything."""
    written = json.dumps(config)
    if mutator.random.random() < 0.85:
        return "", written
    way = mutator.random.choice(("duplicate", "deep", "surrogate", "number", "raw", "space", "junk", "bom"))
    if way == "duplicate":
        key = mutator.random.choice(("class_name", "config", "module", "registered_name"))
        written = written.replace(f'"{key}": ', f'"{key}": "os.system", "{key}": ', mutator.random.choice((1, -1)))
    elif way == "deep":
        depth = mutator.random.choice((100, 990, 1100, 20_000, 1_000_000))
        start, end = mutator.random.choice((("[", "]"), ('{"config": ', "}"), ('{"class_name": "X", "config": ', "}")))
        written = _put(mutator, written, start * depth + "1" + end * depth)
    elif way == "surrogate":
        written = _put(
            mutator, written, mutator.random.choice(('"\\ud800"', '"\\udfff\\ud800"', '"\\u0000"', '"\\u001b[2J"'))
        )
    elif way == "number":
        numbers = ("1e400", "-1e400", "NaN", "-Infinity", "9" * 5000, "1" + "0" * 100_000, "0." + "0" * 5000 + "1")
        written = _put(mutator, written, mutator.random.choice(numbers))
    elif way == "raw":
        written = written.replace("\\u", "\\U", 1) + mutator.random.choice(("\x00", "\ufffe", "{}", "]"))
    elif way == "space":
        written = " " * mutator.random.choice((1, 10_000_000)) + written
    elif way == "junk":
        written = written[: mutator.random.randrange(len(written) + 1)]
    else:
        written = "\ufeff" + written
    return f", {way}", written


def _put(mutator: Mutator, written: str, value: str) -> str:
    """Put a value in the place of some number, null or truth value of a text."""
    starts = [start for word in (": null", ": true", ": false", ": 1", ": 0.01") if (start := written.find(word)) > 0]
    if not starts:
        return value
    start = mutator.random.choice(starts) + 2
    end = min(place for place in (written.find(mark, start) for mark in (",", "}", "]", "\n")) if place > 0)
    return written[:start] + value + written[end:]
