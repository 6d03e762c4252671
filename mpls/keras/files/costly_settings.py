"""Settings that make an allowed class take much time or memory before the limits of a load apply."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from mpls.keras.files.op_layers import Refusal

__all__ = ["MOST_TOGETHER", "costly_setting", "length_of_lists"]

# Settings of layers and metrics that are the length of a Python list, and the largest value of each. The list is made
# before the limits on variables apply.
_MOST = {
    "num_classes": 1_000_000,
    "num_thresholds": 100_000,
    "thresholds": 100_000,
    "num_oov_indices": 1_000_000,
    "ngrams": 10_000,
}
_MOST_TOKENS = 1_000_000
# The largest sum of these lengths in a file; a list of a million takes 30 ms.
MOST_TOGETHER = 3_000_000
# Modes in which a lookup layer does not make a list of its largest number of tokens.
_PLAIN_MODES = ("int", "one_hot", "multi_hot", "count")
_ARRAYS = ("__numpy__", "__tensor__")
# Regular expressions that match in a time proportional to the length of the text: without alternatives, and without
# repetition except for `.*` or `.+` at the end.
_LINEAR = re.compile(r"(?:[^\\*+?{|]|\\[dDwWsSbB\W])*(?:\.[*+]\$?)?", re.ASCII)
_LONGEST_PATTERN = 1000
# The longest pattern of a rearrangement. At each call, Keras searches it in a time that grows with the square of its
# length.
_LONGEST_REARRANGEMENT = 250


def costly_setting(config: Mapping[str, Any]) -> Refusal | None:
    """Return why an object, or the settings of one, costs too much; None if it does not.

    Args:
        config: any dict in a config.
    """
    for key, most, value in _lists(config):
        if isinstance(value, dict) and value.get("class_name") in _ARRAYS and key != "thresholds":
            return Refusal(key, "be a number itself, and no array", value)
        if _length(value) > most:
            return Refusal(key, f"be at most {most}, or a list of at most so many", _length(value))
    name, settings = config.get("class_name"), config.get("config")
    if isinstance(name, str) and isinstance(settings, dict):
        return _costly_pattern(name.rpartition(">")[2].lower(), settings) or _costly_rearrangement(name, config)
    return None


def length_of_lists(config: Mapping[str, Any]) -> float:
    """Return the total length of the lists that an object makes by its settings.

    Args:
        config: a dict that `costly_setting` accepts.
    """
    return sum(_length(value) for _, _, value in _lists(config))


def _lists(config: Mapping[str, Any]) -> Iterator[tuple[str, int, Any]]:
    for key, most in _MOST.items():
        if key in config:
            yield key, most, config[key]
    if config.get("pad_to_max_tokens") and config.get("output_mode") not in _PLAIN_MODES:
        yield "max_tokens", _MOST_TOKENS, config.get("max_tokens")


def _length(value: Any) -> float:
    size = len(value) if isinstance(value, list) else value
    return size if isinstance(size, (int, float)) and size > 0 else 0


def _costly_pattern(kind: str, settings: Mapping[str, Any]) -> Refusal | None:
    """Check the regular expressions that Keras 3 matches with the paths of layers and variables."""
    policies = settings.get("policy_map")
    if kind == "dtypepolicymap" and isinstance(policies, dict):
        return next((_refused("policy_map", each) for each in policies if not _is_linear(each)), None)
    if kind == "muon":
        # Keras searches each in the path of each variable.
        patterns = list(_strings_in(settings.get("exclude_layers")))
        if sum(map(len, patterns)) > _LONGEST_PATTERN:
            return _refused("exclude_layers", "".join(patterns))
        return next((_refused("exclude_layers", each) for each in patterns if not _is_linear(each)), None)
    return None


def _refused(key: str, pattern: str) -> Refusal:
    constraint = f"hold patterns of at most {_LONGEST_PATTERN} literal characters, with .* at most at the end"
    return Refusal(f"config/{key}", constraint, pattern)


def _is_linear(pattern: str) -> bool:
    return len(pattern) <= _LONGEST_PATTERN and _LINEAR.fullmatch(pattern) is not None


def _costly_rearrangement(name: str, config: Mapping[str, Any]) -> Refusal | None:
    if name == "Rearrange":
        for text in _strings_in(config.get("inbound_nodes")):
            if len(text) > _LONGEST_REARRANGEMENT:
                return Refusal("inbound_nodes", f"have texts of at most {_LONGEST_REARRANGEMENT} characters", len(text))
    return None


def _strings_in(value: Any) -> Iterator[str]:
    stack = [value]
    while stack:
        each = stack.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            stack += each.values()
        elif isinstance(each, list):
            stack += each
