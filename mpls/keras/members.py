"""Members of wrappers of all families: the loss scale and its settings, and attributes of the wrapped optimizer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any

from mpls.core.loss_scale import is_dynamic
from mpls.core.step_options import read_only
from mpls.core.wrapper_members import Counted
from mpls.errors import MplsWarning, advise_user
from mpls.keras.arguments import as_loss_scale, growth_steps_of, initial_scale_of
from mpls.keras.calls import SCALING, ScalingCalls, noted_function
from mpls.keras.classes import is_being_constructed, is_own
from mpls.optimizer_members import HYPERPARAMETERS, HYPERPARAMETERS_OF_FTRL
from mpls.upstream import table
from mpls.upstream.keras_packages import keras_family_of
from mpls.upstream.optimizers import hyperparameters_of

if TYPE_CHECKING:
    from mpls.keras.declared import Declared
else:
    # A family's methods are added when an optimizer is wrapped.
    Declared = object


def delegated(name: str, doc: str) -> Any:
    """Return a property that reads and sets an attribute of the wrapped optimizer.

    Args:
        name: the attribute's name there.
        doc: the property's docstring.
    """

    def read(wrapper: Any) -> Any:
        return getattr(wrapper._optimizer, name)

    def write(wrapper: Any, value: Any) -> None:
        setattr(wrapper._optimizer, name, value)

    return property(read, write, doc=doc)


class CallableList(list[Any]):
    """A list of variables that can be called, as optimizers of Keras 2 had a method where Keras 3 has a property.

    Args:
        variables: the elements.
        called: what a call returns.
    """

    def __init__(self, variables: Iterable[Any], called: list[Any]) -> None:
        super().__init__(variables)
        self._called = called

    def __call__(self) -> list[Any]:
        """Return the list of Keras 2."""
        return self._called


# What legacy optimizers keep by `_set_hyper`; new optimizers and those of Keras 3 have attributes of these names.
_NAMES = ("learning_rate", "decay", *HYPERPARAMETERS, *HYPERPARAMETERS_OF_FTRL)


def hyperparameters(optimizer: Any) -> Collection[str]:
    """Return the names of an optimizer's hyperparameters, which its wrapper reads and sets."""
    if keras_family_of(optimizer) == "legacy":
        return hyperparameters_of(optimizer)
    return [name for name in _NAMES if hasattr(optimizer, name)]


def _not_handed_on(name: str, optimizer: Any) -> str:
    return (
        f"LossScaleOptimizer: {name} was set on the wrapper alone, and {type(optimizer).__name__}, which it wraps, "
        f"keeps its own {name}. To set that: opt.inner_optimizer.{name} = value. See mpls docs hyperparameters"
    )


class Members(Counted, Declared):
    """Properties of the public class."""

    _optimizer: Any
    _loss_scale: Any
    _shows_loss_scale_object: bool
    _calls: ScalingCalls

    if TYPE_CHECKING:
        # A family defines these.
        _set_iterations: Callable[[Any], None]
        _held: Callable[[Any], Any]
        _track_loss_scale: Callable[[], None]

    def __setattr__(self, name: str, value: Any) -> None:
        if "_optimizer" not in vars(self):
            # Until the constructor of this class has run, there is no family, and Keras tracks nothing.
            object.__setattr__(self, name, value)
        elif name == "_loss_scale" and name in vars(self):
            vars(self)[name] = self._held(as_loss_scale(value))
            self._track_loss_scale()
        elif name in SCALING:
            vars(self)[name] = noted_function(name, value, self._calls)
        elif isinstance(getattr(type(self), name, None), property):
            # Bypass the frameworks' __setattr__, which would track the value as an attribute of the wrapper.
            object.__setattr__(self, name, value)
        elif self._hands_on(name):
            setattr(self._optimizer, name, value)
        else:
            if self._hides(name):
                advise_user(_not_handed_on(name, self._optimizer), MplsWarning)
            super().__setattr__(name, value)

    def __repr__(self) -> str:
        cls = type(self)
        return f"<{cls.__module__}.{cls.__name__ if is_own(cls) else cls.__qualname__} object at {id(self):#x}>"

    def __dir__(self) -> list[str]:
        # Python's own `dir` also lists bases of bases, which may belong to another family.
        shown = {*dir(type(self)), *self._hyperparameters()}
        return [*{*super().__dir__(), *shown} - {*type.__dir__(type(self))}.difference(shown)]

    def _hyperparameters(self) -> Collection[str]:
        """Return the names of those that are read and set on this wrapper, beside its own properties."""
        kept = vars(self)
        # Up to TF 2.3, there were the properties alone.
        return () if "_optimizer" not in kept or self._shows_loss_scale_object else hyperparameters(self._optimizer)

    def _is_own(self, name: str) -> bool:
        return name in vars(self) or hasattr(type(self), name)

    def _hands_on(self, name: str) -> bool:
        """Return whether to set an attribute on the wrapped optimizer, as it is one of its hyperparameters."""
        if self._is_own(name) or name not in self._hyperparameters():
            return False
        return name in hyperparameters_of(self._optimizer) or not is_being_constructed(self)

    def _hides(self, name: str) -> bool:
        """Return whether a new attribute of the wrapper may be meant for the wrapped optimizer, which has it too."""
        is_public = not name.startswith("_") and not self._is_own(name)
        return is_public and hasattr(self._optimizer, name) and not is_being_constructed(self)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):
                # A property raised AttributeError: let its own message through.
                return object.__getattribute__(self, name)
            if name in self._hyperparameters():
                return getattr(self._optimizer, name)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    share_scale_with = read_only("share_scale_with", None, "The wrapper that shares its scale; it cannot be read.")

    @property
    def inner_optimizer(self) -> Any:
        """The optimizer that this one wraps."""
        return self._optimizer

    @property
    def dynamic(self) -> bool:
        """Whether the loss scale adapts."""
        return is_dynamic(self._loss_scale)

    @property
    def loss_scale(self) -> Any:
        """The current loss scale, a scalar float32 tensor.

        For the experimental class as of TF 2.3 or older it is the `LossScale` object, which returns that when called.
        """
        loss_scale = self._acting_scale
        return loss_scale if self._shows_loss_scale_object else loss_scale()

    @property
    def dynamic_counter(self) -> Any:
        """Finite steps since the scale last changed, a scalar integer variable; None for a fixed scale."""
        return table.GOOD_STEPS.of(self._loss_scale) if self.dynamic else None

    @property
    def initial_scale(self) -> float:
        """The loss scale at the start, a Python float."""
        return initial_scale_of(self._loss_scale)

    @property
    def dynamic_growth_steps(self) -> int | None:
        """Finite steps in a row after which the scale doubles, a Python int; None for a fixed scale."""
        return growth_steps_of(self._loss_scale)

    @property
    def iterations(self) -> Any:
        """The number of steps, a scalar integer variable; Keras 3 does not count skipped ones."""
        return self._optimizer.iterations

    @iterations.setter
    def iterations(self, value: Any) -> None:
        self._set_iterations(value)

    learning_rate = delegated(
        "learning_rate", "The learning rate: a scalar variable, or for legacy optimizers also a schedule."
    )
    lr = delegated("learning_rate", "The same as `learning_rate`.")
    clipnorm = delegated("clipnorm", "The norm to which each unscaled gradient is clipped, a float, or None.")
    global_clipnorm = delegated(
        "global_clipnorm", "The norm to which all unscaled gradients together are clipped, a float, or None."
    )
    clipvalue = delegated(
        "clipvalue", "The value to which elements of unscaled gradients are clipped, a float, or None."
    )
