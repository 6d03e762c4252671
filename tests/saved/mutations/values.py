"""Seeded changes of JSON values and of bytes, by what is likely to break a reader."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

NUMBERS: list[Any] = [0, -1, 1, 2.5, -0.0, 1e-50, 1e39, 1e308, 10**30, 10**400, 2**63, -(2**63) - 1]
NUMBERS += [float("nan"), float("inf"), float("-inf")]
OTHERS: list[Any] = [None, True, False, "", "dynamic", "NaN", "\x00", "é" * 40, [], {}, [1, 2], {"a": 1}, [[]]]
OTHERS += ["\ud800", "\x1b[31m", "\u202e\n\r", "a" * 100_000, "../../x", "%s{0}"]
NAMES = ["class_name", "config", "inner_optimizer", "optimizer", "loss_scale", "module", "registered_name", "name"]
NAMES += ["dynamic", "initial_scale", "dynamic_growth_steps", "loss_scale_state", "learning_rate", "extra", ""]
CLASSES = ["Adam", "LossScaleOptimizer", "LossScaleOptimizerV3", "FixedLossScale", "DynamicLossScale", "os>system", "X"]

Place = tuple[Any, Any]


class Mutator:
    """Changes JSON values and bytes; the same for the same seed."""

    def __init__(self, seed: int | str) -> None:
        self.random = random.Random(seed)

    def value(self) -> Any:
        pool = self.random.choice([NUMBERS, OTHERS, CLASSES])
        return copied(self.random.choice(pool))

    def config(self, config: Any) -> Any:
        """Return a config with one to three changes."""
        changed = {"root": copied(config)}
        for _ in range(self.random.randint(1, 3)):
            self._change(changed)
        return changed["root"]

    def _change(self, root: dict[str, Any]) -> None:
        every = list(places(root))
        parent, key = self.random.choice(every)
        kind = self.random.choice(("value", "value", "swap", "remove", "add", "type", "nest", "wrap"))
        if kind == "swap":
            other, other_key = self.random.choice(every)
            value = copied(other[other_key])
            other[other_key] = copied(parent[key])
            parent[key] = value
        elif kind == "remove" and parent is not root:
            del parent[key]
        elif kind == "add" and isinstance(parent[key], dict):
            parent[key][self.random.choice(NAMES)] = self.value()
        elif kind == "type":
            parent[key] = self.random.choice((str, repr, lambda each: [each], lambda each: {"value": each}))(
                parent[key]
            )
        elif kind == "nest":
            for _ in range(self.random.choice((1, 5, 30))):
                parent[key] = {"config": parent[key]} if self.random.random() < 0.5 else [parent[key]]
        elif kind == "wrap":
            parent[key] = {"class_name": self.random.choice(CLASSES), "config": {"inner_optimizer": parent[key]}}
        else:
            parent[key] = self.value()

    def content(self, content: bytes, signatures: Sequence[bytes] = ()) -> bytes:
        """Return a file's content with bits flipped, parts cut off, blanked, doubled or in another place.

        Args:
            content: the file's.
            signatures: what marks structures, whose numbers are often changed then.
        """
        changed = bytearray(content)
        if not content:
            return self.random.randbytes(8)
        kinds = ["flip", "flip", "flip", "cut", "blank", "double", "move", "huge", "number", "number"]
        kind = self.random.choice(kinds + ["structure"] * 8 * bool(signatures))
        size = len(changed)
        start = self.random.randrange(size)
        length = self.random.choice((1, 4, 8, 64, 512))
        if kind == "flip":
            self._flip(changed)
        elif kind == "cut":
            del changed[start:]
        elif kind == "blank":
            changed[start : start + length] = bytes(len(changed[start : start + length]))
        elif kind == "double":
            changed[start:start] = changed[start : start + length]
        elif kind == "move":
            self._move(changed, start, length)
        elif kind == "huge":
            changed[start : start + 8] = b"\xff" * len(changed[start : start + 8])
        elif kind == "number":
            self._number(changed, start)
        else:
            self._structure(changed, signatures)
        return bytes(changed)

    def _flip(self, changed: bytearray) -> None:
        for _ in range(self.random.choice((1, 1, 2, 8, 64))):
            changed[self.random.randrange(len(changed))] ^= 1 << self.random.randrange(8)

    def _move(self, changed: bytearray, start: int, length: int) -> None:
        block = changed[start : start + length]
        del changed[start : start + length]
        target = self.random.randrange(len(changed) + 1)
        changed[target:target] = block

    def _structure(self, changed: bytearray, signatures: Sequence[bytes]) -> None:
        for _ in range(self.random.choice((1, 1, 2, 4))):
            self._number(changed, self._in_structure(bytes(changed), signatures))

    def _in_structure(self, content: bytes, signatures: Sequence[bytes]) -> int:
        found = []
        for signature in signatures:
            start = content.find(signature)
            while start >= 0 and len(found) < 1000:
                found.append(start)
                start = content.find(signature, start + 1)
        if not found:
            return self.random.randrange(len(content))
        return self.random.choice(found) + self.random.randrange(0, 64)

    def _number(self, changed: bytearray, start: int) -> None:
        """Put a number that a size or an address might be."""
        width = self.random.choice((1, 2, 4, 8))
        size = len(changed)
        pool = [0, 1, 2, 0x7F, 0xFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**33, 2**40, 2**63 - 1, 2**63, 2**64 - 1]
        pool += [size, size - 1, size + 1, start, max(start - 8, 0), self.random.randrange(size)]
        value = self.random.choice(pool) % (1 << 8 * width)
        block = value.to_bytes(width, self.random.choice(("little", "little", "big")))
        changed[start : start + width] = block[: max(len(changed) - start, 0)]


def copied(value: Any) -> Any:
    # Nested values are too deep for copy.deepcopy.
    return json.loads(json.dumps(value))


def places(value: Any) -> Iterator[Place]:
    """Yield each place in a JSON value as `(container, key)`."""
    stack = [value]
    while stack:
        each = stack.pop()
        keys = list(each) if isinstance(each, dict) else range(len(each)) if isinstance(each, list) else ()
        for key in keys:
            yield each, key
            stack.append(each[key])
