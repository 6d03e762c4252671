"""The classes of wrappers: those that users call, and a concrete class for each family, of which instances are."""

from __future__ import annotations

import copyreg
import inspect
import threading
from typing import TYPE_CHECKING, Any

from mpls.core import releases
from mpls.errors import ArgumentTypeError, error_text
from mpls.keras.family_members import FamilyMembers
from mpls.upstream.keras_packages import native_keras_wrappers

# By whether it is the experimental one.
_public_classes: dict[bool, Any] = {}

_CALLED, _CONCRETE, _ADAPTER = "_called_class", "_concrete_classes", "_family_adapter"
_IS_CONSTRUCTED = "_is_being_constructed"
_making = threading.RLock()


class _ConstructorsSignature:
    """The signature of a class that tools show: that of its constructor, and not of the `__call__` of its metaclass."""

    def __get__(self, cls: Any, owner: Any) -> inspect.Signature:
        if cls is None:
            raise AttributeError("__signature__")
        signature = inspect.signature(cls.__init__)
        return signature.replace(parameters=[*signature.parameters.values()][1:])


class LossScaleOptimizerMeta(type):
    """Makes the frameworks' own wrappers instances of `mpls.keras.LossScaleOptimizer`, and keeps the public classes."""

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(name, bases, namespace, **kwargs)
        if "_is_experimental" in namespace:
            _public_classes[namespace["_is_experimental"]] = cls

    __signature__: _ConstructorsSignature = _ConstructorsSignature()

    # Pyright would check calls of the classes against this one, and not against their constructors.
    if not TYPE_CHECKING:

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            """Create an instance, and mark it while its constructor runs."""
            instance: Any = cls.__new__(cls, *args, **kwargs)
            if type.__subclasscheck__(cls, type(instance)):
                vars(instance)[_IS_CONSTRUCTED] = True
                try:
                    type(instance).__init__(instance, *args, **kwargs)
                finally:
                    vars(instance).pop(_IS_CONSTRUCTED, None)
            return instance

    def __instancecheck__(cls, instance: Any) -> bool:
        return cls.__subclasscheck__(type(instance))

    def __subclasscheck__(cls, subclass: type) -> bool:
        if type.__subclasscheck__(cls, subclass):
            return True
        return cls is _public_classes.get(False) and issubclass(subclass, native_keras_wrappers())


def public_class(*, is_experimental: bool = False) -> Any:
    """Return the class that users import from `mpls.keras`, or from `mpls.experimental`."""
    return _public_classes[is_experimental]


def is_being_constructed(wrapper: FamilyMembers) -> bool:
    """Return whether the constructor of a wrapper is running."""
    return _IS_CONSTRUCTED in vars(wrapper)


def called_class(cls: Any) -> Any:
    """Return the class that users call to create instances of a class: that of mpls, or their own."""
    return vars(cls).get(_CALLED, cls)


def is_of_mpls(cls: Any) -> bool:
    """Return whether users call a class of mpls to create instances of a class, and not one of theirs."""
    return called_class(cls) in _public_classes.values()


def concrete_class(cls: Any, adapter: type[FamilyMembers]) -> type:
    """Return the class for an instance of `cls` that wraps an optimizer of a family.

    It derives from the class that was called and from the adapter class of the family. The class that was called keeps
    it, so that both are freed together.

    Args:
        cls: the class that was called; or a concrete class, which stands for the class that it was made for.
        adapter: the adapter class of the family.

    Raises:
        TypeError: `cls` derives from the concrete class of another family.
    """
    called = called_class(cls)
    _refuse_other_family(called, adapter)
    is_ours = is_of_mpls(called)
    shown = _name_in_release(called, adapter) if is_ours else called.__name__
    with _making:
        if _CONCRETE not in vars(called):
            setattr(called, _CONCRETE, {})
        made: dict[Any, type] = vars(called)[_CONCRETE]
        if (adapter, shown) not in made:
            seen_by_keras = _named_for_keras(called, adapter, made) if is_ours else called
            bases = (seen_by_keras,) if is_ours else (called, adapter)
            made[adapter, shown] = _derived(shown, called.__module__, bases, called, adapter, seen_by_keras)
        return made[adapter, shown]


def _named_for_keras(called: Any, adapter: type[FamilyMembers], made: dict[Any, type]) -> type:
    """Return the `__class__` of instances of a class of mpls, by whose name and module Keras writes them into files.

    These are the native wrapper's, so that files load where mpls is not.
    """
    if adapter not in made:
        name, module = adapter.serialized_name, adapter.native_module
        made[adapter] = _derived(name, module, (called, adapter), called, adapter)
    return made[adapter]


def _derived(
    name: str, module: str, bases: tuple[type, ...], called: Any, adapter: type[FamilyMembers], shown_class: Any = None
) -> type:
    namespace = {"__module__": module, "__doc__": called.__doc__}
    namespace |= {_CALLED: called, _ADAPTER: adapter}
    if shown_class is called:
        namespace["__qualname__"] = called.__qualname__
    if shown_class is not None:
        # `super(self.__class__, self)` in a method of the user's, and classes that libraries derive from it.
        namespace["__class__"] = property(lambda _: shown_class)
    # Some native wrappers have a metaclass.
    first, second = type(bases[0]), type(adapter)
    metaclass = first if issubclass(first, second) else type(first.__name__, (first, second), {})
    copyreg.pickle(metaclass, _reduced)
    return metaclass(name, bases, namespace)


def _reduced(cls: Any) -> Any:
    """Return how pickle finds a class: by its name, or for a concrete one by the class that it was made for."""
    if _ADAPTER not in vars(cls):
        return cls.__qualname__
    is_named_for_keras = "__class__" not in vars(cls)
    return _unpickled, (vars(cls)[_CALLED], vars(cls)[_ADAPTER], is_named_for_keras)


def _unpickled(called: Any, adapter: type[FamilyMembers], is_named_for_keras: bool) -> type:
    found = concrete_class(called, adapter)
    return found.__bases__[0] if is_named_for_keras else found


def _name_in_release(called: Any, adapter: type[FamilyMembers]) -> str:
    is_legacy = adapter._restored_family == "legacy"
    return releases.current().wrapper_name(called._is_experimental, is_legacy) or adapter.serialized_name


def _refuse_other_family(called: Any, adapter: type[FamilyMembers]) -> None:
    family = getattr(called, "_restored_family", adapter._restored_family)
    if family != adapter._restored_family:
        raise ArgumentTypeError(
            error_text(
                f"{called.__name__}: inner_optimizer",
                f"be of the family {family!r}, from whose wrapper the class derives",
                adapter._restored_family,
                "Derive the class from mpls.keras.LossScaleOptimizer",
                "wrapping",
            )
        )
