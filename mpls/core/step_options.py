"""Options of an optimizer's steps: what is counted, what a skipped step advances, and when to give up."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

from mpls.core.numbers import to_bool, to_whole
from mpls.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    Described,
    MissingAttributeError,
    MplsWarning,
    did_you_mean,
    error_text,
    short_repr,
    warn_user,
)
from mpls.formats.validity import without_effect
from mpls.formats.wrapper_state import (
    DYNAMIC_CONFIG,
    ON_GIVE_UP,
    SCALE_OPTIONS,
)

_ANCHOR = "counted-steps"


@dataclass(frozen=True)
class StepOptions:
    """Options of an optimizer that scales the loss; `mpls.keras.LossScaleOptimizer` says what each means."""

    count_steps: bool = False
    skip_counts_step: bool | None = None
    track_overflows: bool = False
    max_consecutive_skips: int | None = None
    on_give_up: str | Callable[[Any], Any] = "raise"
    check_unscaled: bool = False
    enabled: bool = True

    @property
    def needs_record(self) -> bool:
        """Whether steps are counted, for the user or for another option."""
        return self.count_steps or self.needs_overflows or self.check_unscaled

    @property
    def needs_overflows(self) -> bool:
        """Whether a skipped step looks at the gradient of each variable."""
        return self.track_overflows or self.max_consecutive_skips is not None

    def skips_count(self, by_default: bool) -> bool:
        """Return whether a skipped step advances the counter.

        Args:
            by_default: the default of the family.
        """
        return by_default if self.skip_counts_step is None else self.skip_counts_step

    def changed(self) -> dict[str, Any]:
        """Return the options that are not the defaults, for configs; without functions, which no config can hold."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {
            each.name: values[each.name]
            for each in fields(self)
            if values[each.name] != each.default and not callable(values[each.name])
        }


NO_OPTIONS = StepOptions()


def refuse_assignment(owner: Any, name: str, value: Any) -> NoReturn:
    """Refuse to set what only a constructor takes.

    Raises:
        MissingAttributeError: always; it is an AttributeError.
    """
    cls = type(owner).__name__
    constraint, advice = "be given to the constructor", f"{cls}(..., {name}=...)"
    # Of what another object's constructor takes, `explained_arguments` knows where it belongs.
    place = getattr(type(owner).__init__, "places", {}).get(name)
    if place is not None:
        constraint, advice = "not be set here", place.format(value)
    raise MissingAttributeError(error_text(f"{cls}: {name}", constraint, value, advice, "bounds-and-dynamics"))


if TYPE_CHECKING:

    class ReadOnly:
        """A property whose setter refuses: type checkers refuse any assignment."""

        def __init__(self, fget: Any, fset: Any, *, doc: str) -> None: ...
        def __get__(self, owner: Any, cls: Any = None) -> Any: ...
        def __set__(self, owner: Any, value: NoReturn) -> None: ...

else:
    ReadOnly = property


def read_only(name: str, read: Callable[[Any], Any] | None, doc: str) -> ReadOnly:
    """Return a property for what only a constructor takes.

    Args:
        name: that of the argument.
        read: returns its value; None if it cannot be read.
        doc: the property's docstring.
    """
    return ReadOnly(read, lambda owner, value: refuse_assignment(owner, name, value), doc=doc)


def _way_to_give_up(value: Any, subject: str) -> str | Callable[[Any], Any]:
    if callable(value) or (isinstance(value, str) and value in ON_GIVE_UP):
        way: str | Callable[[Any], Any] = value
        return way
    constraint = "be 'raise', 'warn' or a function of one argument"
    raise ArgumentValueError(error_text(subject, constraint, value, "on_give_up='raise'", "giving-up"))


def _most_skips(value: Any, subject: str) -> int | None:
    return None if value is None else to_whole(value, subject, "max_consecutive_skips=50", "giving-up", least=1)


_CHECKS: dict[str, Callable[[Any, str], Any]] = {
    "count_steps": lambda value, subject: to_bool(value, subject, _ANCHOR),
    "skip_counts_step": lambda value, subject: None if value is None else to_bool(value, subject, _ANCHOR),
    "track_overflows": lambda value, subject: to_bool(value, subject, "overflows"),
    "max_consecutive_skips": _most_skips,
    "on_give_up": _way_to_give_up,
    "check_unscaled": lambda value, subject: to_bool(value, subject, "clipping"),
    "enabled": lambda value, subject: to_bool(value, subject, "disabling"),
}


def checked_options(subject: str, given: Mapping[str, Any], *, skips: bool = True) -> StepOptions:
    """Return options of which some are given by the user.

    Args:
        subject: the public name that the user called, for errors.
        given: values by name; the other options have their defaults.
        skips: whether the loss scale skips steps.

    Raises:
        TypeError: one of them is of another type.
        ValueError: `max_consecutive_skips` is below 1, or `on_give_up` is another string; or one has no effect beside
            the others.
    """
    options = StepOptions(**{name: _CHECKS[name](value, f"{subject}: {name}") for name, value in given.items()})
    for name, constraint in without_effect(vars(options), skips=skips).items():
        advice = f"Pass skip_nonfinite=True with the fixed scale, or leave {name} out"
        anchor = "fixed-scales"
        if name == "on_give_up":
            advice, anchor = "max_consecutive_skips=50", "giving-up"
        raise ArgumentValueError(error_text(f"{subject}: {name}", constraint, vars(options)[name], advice, anchor))
    return options


def without_idle(settings: Mapping[str, Any], subject: str, *, skips: bool) -> dict[str, Any]:
    """Return the settings of a config, without those that have no effect, which earlier releases of mpls wrote.

    Args:
        settings: by name, those of a wrapper or of a loss scale.
        subject: the public name that the user called, for the warning.
        skips: whether the loss scale asks for steps to be skipped.
    """
    idle = without_effect(settings, skips=skips)
    if idle:
        warn_user(
            f"{subject}: {', '.join(sorted(idle))} had no effect beside the other settings of the config, so the "
            f"optimizer is made without. See mpls docs {'bounds-and-dynamics' if skips else 'fixed-scales'}",
            MplsWarning,
        )
    return {name: value for name, value in settings.items() if name not in idle}


_F = TypeVar("_F", bound=Callable[..., Any])
_OF_LOSS_SCALES = {
    **{name: f"DynamicLossScale({name}={{!r}})" for name in (*SCALE_OPTIONS, *DYNAMIC_CONFIG)},
    "skip_nonfinite": "FixedLossScale(128.0, skip_nonfinite={!r})",
    "initial_scale": "DynamicLossScale({!r})",
    "dynamic_growth_steps": "DynamicLossScale(increment_period={!r})",
}


def explained_arguments(
    subject: str, places: Mapping[str, str] | None = None, see: str = "options", **renamed: str
) -> Callable[[_F], _F]:
    """Return a decorator of a constructor or method, whose errors say what to write in place of a wrong keyword.

    Args:
        subject: the public name of the class or method, for errors.
        places: what to do, by the names of settings that belong elsewhere, with `{!r}` for the value.
        see: the section of the documentation.
        **renamed: the names of arguments today, by those that older releases had.
    """
    known = places or {}

    def decorate(function: _F) -> _F:
        signature = inspect.signature(function)
        taken = [name for name in signature.parameters if name != "self"]

        @functools.wraps(function)
        def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
            for old, today in renamed.items():
                if old in kwargs and today not in kwargs:
                    kwargs[today] = kwargs.pop(old)
            for name in kwargs:
                if name not in taken:
                    raise ArgumentTypeError(_wrong_keyword(subject, name, kwargs[name], taken, known, see))
            return function(self, *args, **kwargs)

        # Tools that do not follow wrappers show it too.
        checked.__signature__ = signature  # type: ignore[attr-defined]
        # For assignments to the object.
        checked.places = known  # type: ignore[attr-defined]
        return cast(_F, checked)

    return decorate


def _wrong_keyword(
    subject: str, name: str, value: Any, taken: list[str], places: Mapping[str, str], anchor: str
) -> str:
    if name in places:
        return error_text(f"{subject}: {name}", "be left out here", value, places[name].format(value), anchor)
    got = Described(f"{name}={short_repr(value)}")
    advice = did_you_mean(name, [*taken, *places]) or f"Pass only {', '.join(taken)}"
    return error_text(f"{subject}: a keyword", "be the name of an argument", got, advice, anchor)


def settings_of_loss_scale(subject: str) -> dict[str, str]:
    """Return what to do about settings of a loss scale that are passed to a wrapper that takes a loss scale object."""
    return {name: f"Pass it to the loss scale: {subject}(opt, {code})" for name, code in _OF_LOSS_SCALES.items()}
