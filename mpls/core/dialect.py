"""How a release of TensorFlow behaved, where releases differ: what `install(as_of=...)` chooses."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

from mpls.errors import ArgumentTypeError, ArgumentValueError, error_text
from mpls.names import RELEASES

__all__ = ["Dialect", "current", "dialect_of", "of_block", "set_block", "speak", "speak_in_block"]


@dataclass(frozen=True)
class Dialect:
    """The behaviour of a release.

    Attributes:
        release: the release, `"2.2"`; None for the default, each name as the last release that had it.
    """

    release: str | None = None

    def is_up_to(self, release: str) -> bool:
        """Return whether this one is that release or older; never, for the default."""
        return self.release is not None and _number(self.release) <= _number(release)

    def is_from(self, release: str) -> bool:
        """Return whether this one is that release or newer; never, for the default."""
        return self.release is not None and _number(self.release) >= _number(release)

    @property
    def skipped_steps_count(self) -> bool:
        """Whether a step that tf_keras' wrappers skip advances `iterations`: from TF 2.3 on."""
        return not self.is_up_to("2.2")

    @property
    def skipped_steps_count_in_keras_3(self) -> bool:
        """Whether it does for wrappers over optimizers of Keras 3.

        There it never did; but a program that asks for a release in which `tf.keras` was Keras 2 wants its numbers.
        """
        return self.is_from("2.3") and self.is_up_to("2.15")

    @property
    def has_loss_scale_objects(self) -> bool:
        """Whether the experimental wrapper keeps a LossScale object and has it as `loss_scale`: up to TF 2.3.

        So it did with the user's own object and class; from TF 2.4 on it copied settings, and `loss_scale` is a tensor.
        The config has the format that goes with it.
        """
        return self.is_up_to("2.3")

    @property
    def wrong_optimizers_are_value_errors(self) -> bool:
        """Whether Keras wrappers refused what is no optimizer by a ValueError: up to TF 2.3; then by a TypeError."""
        return self.is_up_to("2.3")

    @property
    def passes_second_argument_on(self) -> bool:
        """Whether the second positional argument of `apply_gradients` goes on to the wrapped optimizer: to TF 2.9."""
        return self.is_up_to("2.9")

    @property
    def second_argument_is_name(self) -> bool:
        """Whether it is the name, whatever it holds: from TF 2.10 on. By default a string is, and a number goes on."""
        return self.is_from("2.10")

    def wrapper_name(self, is_experimental: bool, is_legacy: bool = False) -> str | None:
        """Return what the class of wrappers was called; None where the family says it.

        The experimental one was `LossScaleOptimizerV1` from TF 2.4 to 2.8, the newest release that had it, in which all
        optimizers were those that are called legacy now.

        Args:
            is_experimental: whether it is that one.
            is_legacy: whether its instances wrap legacy optimizers.
        """
        if self.is_up_to("2.3"):
            return "LossScaleOptimizer"
        if is_experimental and (is_legacy or self.is_up_to("2.8")):
            return "LossScaleOptimizerV1"
        return "LossScaleOptimizer" if self.is_up_to("2.8") else None


def dialect_of(release: str | None) -> Dialect:
    """Return the dialect of a release.

    Args:
        release: `"2.2"`, or `"2.2.3"`, of which the patch number is ignored; None for the default.

    Raises:
        ValueError: there is no such release.
        TypeError: it is no string; 2.10 is the number 2.1.
    """
    if release is None:
        return Dialect()
    if not isinstance(release, str):
        raise ArgumentTypeError(
            error_text("as_of", "be a string", release, "Write it in quotes, as install(as_of='2.3')", "install")
        )
    minor = ".".join(release.split(".")[:2])
    if minor not in RELEASES:
        raise ArgumentValueError(
            error_text(
                "as_of",
                f"be a TensorFlow release from {RELEASES[0]} to {RELEASES[-1]}",
                release,
                "install(as_of='2.3')",
                "install",
            )
        )
    return Dialect(minor)


_of_process = Dialect()
_of_block: ContextVar[Dialect | None] = ContextVar("_of_block", default=None)


def current() -> Dialect:
    """Return the dialect that wrappers are made in; each keeps the one in which it was made."""
    found = _of_block.get()
    return _of_process if found is None else found


def speak(dialect: Dialect) -> None:
    """Set the dialect that wrappers are made in, for the whole process but for blocks that have their own."""
    global _of_process
    _of_process = dialect


def of_block() -> Dialect | None:
    """Return the dialect of the block that this thread, or asynchronous task, is in; None where it is in none."""
    return _of_block.get()


def set_block(dialect: Dialect | None) -> None:
    """Begin a block of this thread, or asynchronous task, with a dialect of its own; with None, end it."""
    _of_block.set(dialect)


def speak_in_block(dialect: Dialect) -> None:
    """Set the dialect of the block that this thread is in; where it is in none, do nothing."""
    if _of_block.get() is not None:
        _of_block.set(dialect)


def _number(release: str) -> tuple[int, int]:
    major, minor = release.split(".")
    return int(major), int(minor)
