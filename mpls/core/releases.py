"""How each release of TensorFlow behaved, where they differ: what `install(as_of=...)` chooses."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

from mpls.errors import ArgumentTypeError, ArgumentValueError, error_text
from mpls.formats.wrapper_state import WRAPPER, WRAPPER_V1
from mpls.names import RELEASES, numbers_of


@dataclass(frozen=True)
class ReleaseBehavior:
    """The behaviour of a release.

    Attributes:
        release: the release, `"2.2"`; None for the default, each name as the last release that had it.
    """

    release: str | None = None

    def is_up_to(self, release: str) -> bool:
        """Return whether this is the given release or an older one; False for the default."""
        return self.release is not None and numbers_of(self.release) <= numbers_of(release)

    def is_from(self, release: str) -> bool:
        """Return whether this is the given release or a newer one; False for the default."""
        return self.release is not None and numbers_of(self.release) >= numbers_of(release)

    @property
    def skipped_steps_count(self) -> bool:
        """Whether a step that tf_keras' wrappers skip advances `iterations`: from TF 2.3 on."""
        return not self.is_up_to("2.2")

    @property
    def skipped_steps_count_in_keras_3(self) -> bool:
        """Whether a skipped step advances `iterations` for wrappers over optimizers of Keras 3.

        Keras 3 itself never advanced it; but a program that asks for a release in which `tf.keras` was Keras 2 wants
        that release's numbers.
        """
        return self.is_from("2.3") and self.is_up_to("2.15")

    @property
    def has_loss_scale_objects(self) -> bool:
        """Whether the experimental wrapper keeps a LossScale object and has it as `loss_scale`: up to TF 2.3.

        It kept the user's own object, of the user's class; from TF 2.4 on it copied the settings, and `loss_scale` is
        a tensor. The config's format differs accordingly.
        """
        return self.is_up_to("2.3")

    @property
    def wrong_optimizers_are_value_errors(self) -> bool:
        """Whether Keras wrappers raised ValueError for what is not an optimizer: up to TF 2.3; TypeError since."""
        return self.is_up_to("2.3")

    @property
    def passes_second_argument_on(self) -> bool:
        """Whether `apply_gradients` passes its second positional argument to the wrapped optimizer: up to TF 2.9."""
        return self.is_up_to("2.9")

    @property
    def second_argument_is_name(self) -> bool:
        """Whether `apply_gradients` takes any second argument as the name: from TF 2.10 on; by default a string."""
        return self.is_from("2.10")

    def wrapper_name(self, is_experimental: bool, is_legacy: bool) -> str | None:
        """Return the wrapper's class name in this release; None where it depends on the family instead.

        The experimental wrapper was `LossScaleOptimizerV1` from TF 2.4 to 2.8, the last release that had it. All
        optimizers of those releases are the ones called legacy now.

        Args:
            is_experimental: whether the wrapper is the experimental one.
            is_legacy: whether it wraps a legacy optimizer.
        """
        if self.is_up_to("2.3"):
            return WRAPPER
        if is_experimental and (is_legacy or self.is_up_to("2.8")):
            return WRAPPER_V1
        return WRAPPER if self.is_up_to("2.8") else None


def behavior_of(release: str | None) -> ReleaseBehavior:
    """Return the behaviour of a release.

    Args:
        release: `"2.2"`, or `"2.2.3"`, of which the patch number is ignored; None for the default.

    Raises:
        ValueError: there is no such release.
        TypeError: it is not a string; 2.10 is the number 2.1.
    """
    if release is None:
        return ReleaseBehavior()
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
    return ReleaseBehavior(minor)


_of_process = ReleaseBehavior()
# The blocks that this thread or asynchronous task is in, each with its behaviour, the innermost last.
_blocks: ContextVar[tuple[tuple[object, ReleaseBehavior], ...]] = ContextVar("_blocks", default=())


def current() -> ReleaseBehavior:
    """Return the behaviour that a wrapper made now gets, and keeps."""
    blocks = _blocks.get()
    return blocks[-1][1] if blocks else _of_process


def use(behavior: ReleaseBehavior) -> None:
    """Set the behaviour of wrappers made from now on, in the whole process except in blocks that have their own."""
    global _of_process
    _of_process = behavior


def enter_block(block: object, behavior: ReleaseBehavior) -> None:
    """Set the behaviour of wrappers that this thread or asynchronous task makes, until it leaves the block."""
    _blocks.set((*_blocks.get(), (block, behavior)))


def leave_block(block: object) -> None:
    """End a block, which need not be the one that was entered last."""
    _blocks.set(tuple(entry for entry in _blocks.get() if entry[0] is not block))


def use_in_block(behavior: ReleaseBehavior) -> None:
    """Set the behaviour of the innermost block that this thread is in; outside of any block, do nothing."""
    blocks = _blocks.get()
    if blocks:
        _blocks.set((*blocks[:-1], (blocks[-1][0], behavior)))
