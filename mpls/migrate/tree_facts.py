"""What a file says that matters for others: classes with a `loss_scale` of their own, and where wrappers are made."""

from __future__ import annotations

import functools
import operator
import re
import zlib
from collections.abc import Iterable
from typing import NamedTuple

# A file without any of these words has nothing that a rule looks at.
API_WORDS = rb"mixed_precision|LossScale|loss_scale|Policy|_policy|__version__|version\.VERSION"
_RENAMED = re.compile(rb"LossScaleOptimizer\s+as\s+(\w+)")
_ASSIGNED = re.compile(rb"(\w+)\s*=\s*[\w.]*LossScaleOptimizer\s*$")
_FRAMEWORK = re.compile(rb"\bimport\b.*\bkeras\b|\bfrom\s+tensorflow|\bimport\s+tensorflow")
# A module of the program's own may pass on what it imports.
_STAR = re.compile(rb"\bimport\s*\*")
_OF_FRAMEWORK = re.compile(rb"\b(?:tf|keras|tensorflow)\.")
# They begin with plain characters: each file is searched.
_OWN_METHOD = re.compile(rb"def(?<=[ \t]def)[ \t]+loss_scale\b")
_OWN_ATTRIBUTE = re.compile(rb"\.loss_scale\s*=\s*(?:lambda|[\w.]*LossScale\()")
# A wrapper is made, or gets another name, by which it may be made.
_MAKES = re.compile(
    rb"LossScaleOptimizer\w*(?:\s*\(|\s+as\b|[ \t]*(?:[\r\n]|$))|(?:class\s|partial\s*\()[^\r\n]*LossScaleOptimizer"
)
# Members of the wrappers that Keras 2's `compile` made.
_OF_COMPILED = (b".optimizer.get_scaled_loss", b".optimizer.get_unscaled_gradients", b".optimizer.loss_scale")
_COMPILE = re.compile(rb"(?<!\bre)\.compile\b")


class Facts(NamedTuple):
    """What files say.

    Attributes:
        passed_on: names without a word of the API under which they pass on a wrapper's class.
        has_own_members: whether a class has a `loss_scale` that may be called, so that not only wrappers have one.
        has_wrappers: whether a file that imports a framework names a wrapper's class.
        makers: checksums of the files that may make a wrapper, as one file may be looked at twice.
        reads_compiled: whether a file reads what only wrappers have from the optimizer of a model.
        compiles: whether a file may call `compile` of a model.
        names_scaling: whether a file that imports a framework, or mpls, has names of its loss scaling.
        has_scale_objects: whether a file names a class of loss scales.
    """

    passed_on: frozenset[bytes] = frozenset()
    has_own_members: bool = False
    has_wrappers: bool = False
    makers: frozenset[int] = frozenset()
    reads_compiled: bool = False
    compiles: bool = False
    names_scaling: bool = False
    has_scale_objects: bool = False


NO_FACTS = Facts()


def facts_of(content: bytes) -> Facts:
    """Return what a file says."""
    has_own = b"loss_scale" in content and any(each.search(content) for each in (_OWN_METHOD, _OWN_ATTRIBUTE))
    reads_compiled = b".optimizer." in content and any(each in content for each in _OF_COMPILED)
    compiles = b".compile" in content and _COMPILE.search(content) is not None
    names = b"mixed_precision" in content or b"LossScale" in content
    names_scaling = names and (b"mpls" in content or _FRAMEWORK.search(content) is not None)
    has_scales = b"DynamicLossScale" in content or b"FixedLossScale" in content
    if b"LossScaleOptimizer" not in content:
        # Nearly all files, of which a look is enough.
        return Facts(frozenset(), has_own, False, frozenset(), reads_compiled, compiles, names_scaling, has_scales)
    lines = [line for line in content.splitlines() if b"LossScaleOptimizer" in line]
    found = {*_RENAMED.findall(content), *(name for line in lines for name in _ASSIGNED.findall(line))}
    passed_on = frozenset(name for name in found if not re.search(API_WORDS, name))
    imports, stars, uses, makes = (
        each.search(content) is not None for each in (_FRAMEWORK, _STAR, _OF_FRAMEWORK, _MAKES)
    )
    makers = frozenset((zlib.crc32(content),) if makes else ())
    has_wrappers = imports or (stars and uses)
    return Facts(passed_on, has_own, has_wrappers, makers, reads_compiled, compiles, names_scaling, has_scales)


def together(facts: Iterable[Facts]) -> Facts:
    """Return what several files say."""
    return Facts(*(functools.reduce(operator.or_, each) for each in zip(NO_FACTS, *facts, strict=True)))
