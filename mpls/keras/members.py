"""Members of wrappers of all families: the loss scale and its settings, and attributes of the wrapped optimizer."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mpls.core.counted import Counted
from mpls.core.loss_scale import is_dynamic
from mpls.keras.arguments import as_loss_scale, growth_steps_of, initial_scale_of
from mpls.keras.calls import SCALING, ScalingCalls, noted_function
from mpls.keras.classes import is_being_constructed, is_own
from mpls.upstream import table
from mpls.upstream.optimizers import hyperparameters_of

if TYPE_CHECKING:
    from mpls.keras.declared import Declared
else:
    # A family's methods are added when an optimizer is wrapped.
    Declared = object
from collections.abc import Iterable


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


# Constructor parameters that are not hyperparameters, or that the wrapper has itself.
_NO_HYPERPARAMETERS = ("name", "self", "args", "kwargs")


def is_hyperparameter(optimizer: Any, name: str) -> bool:
    """Return whether an attribute of an optimizer is a setting: its constructor takes it, and it is kept by that name.

    Hyperparameters of legacy optimizers, which become variables at first use, are settings too.
    """
    if name.startswith("_") or name in _NO_HYPERPARAMETERS:
        return False
    if name in hyperparameters_of(optimizer):
        return True
    is_kept = name in vars(optimizer) or isinstance(getattr(type(optimizer), name, None), property)
    return is_kept and name in _parameters(optimizer)


def _parameters(optimizer: Any) -> set[str]:
    constructors = [vars(cls)["__init__"] for cls in type(optimizer).__mro__ if "__init__" in vars(cls)]
    return {name for each in constructors if inspect.isfunction(each) for name in inspect.signature(each).parameters}


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
            super().__setattr__(name, value)

    def __repr__(self) -> str:
        cls = type(self)
        return f"<{cls.__module__}.{cls.__name__ if is_own(cls) else cls.__qualname__} object at {id(self):#x}>"

    def __dir__(self) -> list[str]:
        # Python's own `dir` also lists bases of bases, which may belong to another family.
        shown = dir(type(self))
        return [*{*super().__dir__(), *shown} - {*type.__dir__(type(self))}.difference(shown)]

    def _hands_on(self, name: str) -> bool:
        """Return whether to set an attribute on the wrapped optimizer, as it is one of its settings."""
        if name in vars(self) or hasattr(type(self), name) or not is_hyperparameter(self._optimizer, name):
            return False
        return name in hyperparameters_of(self._optimizer) or not is_being_constructed(self)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):
                # A property raised AttributeError: let its own message through.
                return object.__getattribute__(self, name)
            optimizer = vars(self).get("_optimizer")
            if optimizer is not None and is_hyperparameter(optimizer, name):
                return getattr(optimizer, name)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

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
