"""Settings of a source that are to be set on a target: made and tried on a copy, before anything is changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from mpls.errors import SavedStateError, error_text
from mpls.formats.validity import ANCHOR
from mpls.transfer.hosts import Host
from mpls.transfer.settings import NUMBERS, as_numbers, made, set_settings, settings_of

_ADVICE = "Mend the source, or leave out hyperparameters=True"


def checked_hyperparameters(host: Host, settings: Mapping[str, Any], subject: str) -> dict[str, Any]:
    """Return settings as they are to be set, with the schedule of the learning rate made; the target stays as it is.

    Args:
        host: the target.
        settings: what `settable` returned.
        subject: the origin of the settings, for errors.

    Raises:
        SavedStateError: the target refuses one of them, or some of them together; the message names them.
    """
    for name, value in settings.items():
        is_number = isinstance(value, int | float) or (name == "learning_rate" and isinstance(value, Mapping))
        if not is_number and (value is not None or name in NUMBERS):
            raise _refusal(subject, name, host, value)
    own = settings_of(host)
    with _any_error_as_ours(host, {"learning_rate": settings.get("learning_rate")}, subject):
        values = as_numbers(made(host, settings), own)
        _require_rates(values.get("learning_rate"))
    base = _config_of(host)
    if base is None:
        return values
    for name, value in values.items():
        with _any_error_as_ours(host, {name: settings[name]}, subject):
            set_settings(_of(host, base), {name: value})
            # A constructor checks more than a setter does. None has no effect, and a constructor may refuse it.
            if value is not None:
                _of(host, {**base, name: value})
    with _any_error_as_ours(host, settings, subject):
        _of(host, {**base, **{name: value for name, value in values.items() if value is not None}})
    return values


def _require_rates(rate: Any) -> None:
    """Have a schedule compute a rate: it may fail only then."""
    if hasattr(rate, "from_config"):
        float(rate(0))


def _config_of(host: Host) -> dict[str, Any] | None:
    """Return the target's config; None if it cannot be made again from it, as an optimizer of the user."""
    try:
        # Legacy optimizers that are built have NumPy's floats, which the copy could not assign to.
        found = host.inner.get_config()
        config = {name: each.item() if isinstance(each, np.generic) else each for name, each in found.items()}
        _of(host, config)
    except (TypeError, ValueError, NotImplementedError):
        return None
    return config


def _of(host: Host, config: Mapping[str, Any]) -> Host:
    other = type(host.inner).from_config(dict(config))
    return type(host)(other, other)


@contextmanager
def _any_error_as_ours(host: Host, settings: Mapping[str, Any], subject: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        names, values = ", ".join(settings), ", ".join(map(str, settings.values()))
        raise _refusal(subject, names, host, f"{values} ({type(error).__name__}: {error})") from error


def _refusal(subject: str, name: str, host: Host, got: Any) -> SavedStateError:
    error: SavedStateError = SavedStateError(
        error_text(f"{subject}: {name}", f"be what {host} takes", got, _ADVICE, ANCHOR)
    )
    return error
