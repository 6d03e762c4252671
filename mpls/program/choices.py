"""Which options a program needs, where its signs leave no doubt: those in its source, and the files beside it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mpls.names import RELEASES, named
from mpls.program.files import Folder
from mpls.program.signs import (
    FIRST,
    LAST,
    LAST_WITH_KERAS_2,
    LAST_WITH_LEGACY,
    LAST_WITH_LOSS_SCALE_OBJECTS,
)
from mpls.program.tables import Kind, keras_path, kind_of
from mpls.program.uses import Release, Sign, Uses, Where

_LAST_OF_TF_1: Release = (1, 15)
# Names that make wrappers, or have `compile` make them.
_OF_KERAS = tuple(
    f"mpls.experimental:{name}" for name in ("LossScaleOptimizer", "Policy", "global_policy", "set_policy")
)


def flag_of(option: str, value: object = True) -> str:
    """Return an option as it is given to `mpls run`."""
    name = f"--{option.replace('_', '-')}"
    return name if value is True else f"{name} {value}"


@dataclass(frozen=True)
class Choice:
    """An option that a program needs.

    Attributes:
        option: its name: v1, contrib, keras, legacy_optimizers, as_of or replace_existing.
        value: True; for `keras` its generation, for `as_of` a release.
        sign: the line that decided it.
    """

    option: str
    value: bool | int | str
    sign: Sign

    @property
    def flag(self) -> str:
        """The option as it is given to `mpls run`."""
        return flag_of(self.option, self.value)


@dataclass(frozen=True)
class Disagreement:
    """An option that is not chosen because two lines disagree about it."""

    option: str
    signs: tuple[Sign, Sign]

    @property
    def flag(self) -> str:
        """The option as it is given to `mpls run`, without a value."""
        return flag_of(self.option)


@dataclass(frozen=True)
class Decision:
    """The options for a program.

    Attributes:
        choices: the options that it needs.
        disagreements: options that it may need.
    """

    choices: tuple[Choice, ...] = ()
    disagreements: tuple[Disagreement, ...] = ()

    def extends(self, other: Decision) -> bool:
        """Return whether all choices of another decision are among these, and no disagreement is new."""
        known = {each.option for each in other.disagreements}
        is_kept = all(self.value(each.option) == each.value for each in other.choices)
        return is_kept and all(each.option in known for each in self.disagreements)

    def value(self, option: str) -> bool | int | str | None:
        """Return the value chosen for an option; None if it is not chosen."""
        return next((choice.value for choice in self.choices if choice.option == option), None)


class _Deciding:
    def __init__(self, uses: Uses, signs: Sequence[Sign], main: str, keras: int | None) -> None:
        self._signs = signs
        self._main = main
        self._given_keras = keras
        self._uses_keras = any(use.is_certain and keras_path(use.path) for use in uses.uses)
        self._has_wrappers = _has_keras_wrappers(uses, bool(self._about("optimizers")))
        self.choices: list[Choice] = []
        self.disagreements: list[Disagreement] = []

    def _about(self, *about: str) -> list[Sign]:
        return [sign for sign in self._signs if sign.about in about]

    def decide(self) -> Decision:
        v1 = self._about("v1")
        # A main file that is certainly for TF 1 decides alone: its helper modules may be written for TF 1 and TF 2.
        of_main = [sign for sign in v1 if sign.where.file == self._main]
        self._choose("v1", of_main if any(sign.value for sign in of_main) else v1, False)
        self._choose("contrib", self._about("contrib"))
        last = self._last_release()
        self._choose_keras(last)
        keras = self._given_keras or next((choice.value for choice in self.choices if choice.option == "keras"), None)
        if keras == 2:
            self._choose_legacy_optimizers(last)
        self._choose_release(last)
        # With Keras 2, replace its wrapper only if the program needs more than its last one, for new optimizers, has.
        about = "wrapper" if keras == 2 else "replace_existing"
        if keras != 2 or self._given_keras is None:
            self._choose("replace_existing", self._about(about))
        return Decision(tuple(self.choices), tuple(self.disagreements))

    def _choose(self, option: str, signs: Iterable[Sign], nothing: object = None) -> Sign | None:
        """Choose the value that all signs agree on, unless it is the default; return the sign that decided."""
        signs = list(signs)
        if not signs:
            return None
        other = next((sign for sign in signs if sign.value != signs[0].value), None)
        if other is not None:
            self.disagreements.append(Disagreement(option, (signs[0], other)))
            return None
        if signs[0].value == nothing or not isinstance(signs[0].value, bool | int):
            return None
        self.choices.append(Choice(option, signs[0].value, signs[0]))
        return signs[0]

    def _is_v1(self) -> Sign | None:
        return next((choice.sign for choice in self.choices if choice.option == "v1"), None)

    def _last_release(self) -> Sign | None:
        """Return the sign that gives the newest release the program can be for; None if the signs disagree."""
        signs = self._about("release", *(("release of wrappers",) if self._has_wrappers else ()))
        v1 = self._is_v1()
        if v1 is not None:
            signs.append(Sign("release", (FIRST, _LAST_OF_TF_1), v1.where, v1.what))
        if not signs:
            return None
        last, first = min(signs, key=_last), max(signs, key=_first)
        if _first(first) > _last(last):
            if self._has_wrappers and v1 is None:
                self.disagreements.append(Disagreement("as_of", (last, first)))
            return None
        return last

    def _choose_keras(self, last: Sign | None) -> None:
        theirs = self._about("tf_keras")
        signs = self._about("keras")
        if self._is_v1() is not None or self._about("graphs"):
            signs += self._about("keras of v1")
        v1 = self._about("v1")
        if (self._uses_keras or v1) and not any(sign.value for sign in v1):
            signs += self._about("keras unless v1")
        if self._uses_keras:
            if not theirs:
                signs += self._about("keras if used", "replace_existing")
            if last is not None and _last(last) <= LAST_WITH_KERAS_2:
                signs.insert(0, last)
        if signs:
            signs += theirs
        generations = [
            Sign("keras", 3 if sign.about in ("keras", "tf_keras") and sign.value == 3 else 2, sign.where, sign.what)
            for sign in signs
        ]
        if self._given_keras is None:
            self._choose("keras", generations, 3)

    def _choose_legacy_optimizers(self, last: Sign | None) -> None:
        signs = self._about("legacy_optimizers")
        if last is not None and _last(last) <= LAST_WITH_LEGACY and self._about("optimizers", "compile"):
            signs.insert(0, Sign("legacy_optimizers", True, last.where, last.what))
        self._choose("legacy_optimizers", signs, False)

    def _choose_release(self, last: Sign | None) -> None:
        if last is not None and self._has_wrappers and _last(last) <= LAST_WITH_LOSS_SCALE_OBJECTS:
            self.choices.append(Choice("as_of", ".".join(map(str, _last(last))), last))


def decide(uses: Uses, signs: Sequence[Sign], main: str, keras: int | None = None) -> Decision:
    """Decide which options a program needs.

    Args:
        uses: the names and attributes that it uses.
        signs: the signs found in its source.
        main: the file that runs as `__main__`.
        keras: the generation of Keras that the user asked for; None to decide that too.
    """
    return _Deciding(uses, signs, main, keras).decide()


def _has_keras_wrappers(uses: Uses, has_optimizers: bool) -> bool:
    """Return whether a program makes Keras wrappers, whose behaviour `--as-of` can set."""
    for path in {use.path for use in uses.uses}:
        row = named(path)
        # The graph rewrite makes such wrappers too, if the optimizer is one of Keras.
        is_rewrite = has_optimizers and kind_of(path) is Kind.EXPERIMENTAL_WRAPPER
        if row is not None and row.target.startswith("mpls.") and (row.target in _OF_KERAS or is_rewrite):
            return True
    return False


def _first(sign: Sign) -> Release:
    return sign.value[0] if isinstance(sign.value, tuple) else FIRST


def _last(sign: Sign) -> Release:
    return sign.value[1] if isinstance(sign.value, tuple) else LAST_WITH_KERAS_2


# Releases that the files beside a program ask for.

_FILES = (
    "requirements.txt",
    "setup.py",
    "setup.cfg",
    "pyproject.toml",
    "environment.yml",
    "environment.yaml",
    "Pipfile",
)
_SPEC = r"(?:===?|<=?|>=?|~=|=)\s*[\"']?\d[\d.]*(?:\.\*)?"
# A requirement of TensorFlow, except one with an environment marker after a semicolon.
_PIN = re.compile(
    rf"(?<![\w./-])tensorflow(?:-gpu|-cpu)?(?:\[[\w,-]+\])?[\"']?\s*({_SPEC}(?:\s*,\s*{_SPEC})*)(?![^\"'\n]*;)", re.I
)
_EACH = re.compile(r"(===?|<=?|>=?|~=|=)\s*[\"']?(\d[\d.]*)(\.\*)?")
_RELEASES: tuple[Release, ...] = tuple((int(a), int(b)) for a, b in (each.split(".") for each in RELEASES))


def pins_of(folders: Iterable[Folder]) -> list[Sign]:
    """Return signs of the releases that files beside a program pin; none if the pins contradict each other.

    Args:
        folders: where the program looks for modules.
    """
    signs = []
    for folder in folders:
        for name in _FILES:
            text = (folder.read(name) or b"").decode("utf-8", "replace")
            for number, line in enumerate(text.splitlines(), 1):
                pin = pin_in(line)
                if pin is not None:
                    releases, requirement = pin
                    signs.append(Sign("release", releases, Where(folder.shown(name), number), f"has {requirement}"))
    first = max((sign.value[0] for sign in signs if isinstance(sign.value, tuple)), default=FIRST)
    last = min((sign.value[1] for sign in signs if isinstance(sign.value, tuple)), default=LAST)
    return signs if first <= last else []


def pin_in(line: str) -> tuple[tuple[Release, Release], str] | None:
    """Return the first and the last release of TensorFlow that a line requires, and the requirement; None if none."""
    match = _PIN.search(line.partition("#")[0])
    return None if match is None else (_releases(match[1]), " ".join(match[0].split()))


def last_pinned(folders: Iterable[Folder]) -> Release:
    """Return the newest release that files beside a program allow.

    Args:
        folders: where the program looks for modules.
    """
    return min(map(_last, pins_of(folders)), default=LAST)


def _releases(specs: str) -> tuple[Release, Release]:
    first, last = FIRST, LAST
    for comparison, version, _ in _EACH.findall(specs):
        parts = [int(part) for part in version.split(".") if part]
        release = (parts[0], parts[1] if len(parts) > 1 else 0)
        if comparison in ("==", "===", "=", "~="):
            is_minor = len(parts) > 1 and (comparison != "~=" or len(parts) > 2)
            first, last = max(first, release), min(last, release if is_minor else _last_before((parts[0] + 1, 0)))
        elif comparison in (">", ">="):
            first = max(first, release)
        elif comparison == "<=" or any(parts[2:]):
            last = min(last, release)
        else:
            last = min(last, _last_before(release))
    return first, last


def _last_before(release: Release) -> Release:
    return max((each for each in _RELEASES if each < release), default=FIRST)
