"""Dtype policies: the public class, recognised by tf_keras and Keras 3, and the global policy of both."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import cache
from typing import Any, Protocol, TypeVar

import tensorflow as tf

from mpls.errors import ArgumentTypeError, ArgumentValueError, error_text
from mpls.names import REMOVED_POLICIES, instead_of_policy
from mpls.upstream.keras_packages import (
    loaded_keras,
    loaded_tf_keras,
    native_policies,
    serialize_as_keras_policy,
    tensorflow_keras,
)
from mpls.upstream.modules import set_class
from mpls.upstream.rewrite import is_graph_rewrite_enabled

__all__ = ["Policy", "global_policy", "set_global_policy"]


_Self = TypeVar("_Self", bound="Policy")


class AnyPolicy(Protocol):
    """What a policy of any Keras has."""

    @property
    def name(self) -> Any:
        """Its name."""

    @property
    def compute_dtype(self) -> Any:
        """The dtype that layers compute in."""

    @property
    def variable_dtype(self) -> Any:
        """The dtype that layers keep variables in."""


class PolicyMeta(type):
    """Lets the policies that a framework made by itself count as instances of `mpls.keras.Policy`."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return cls.__subclasscheck__(type(instance))

    def __subclasscheck__(cls, subclass: type) -> bool:
        if type.__subclasscheck__(cls, subclass):
            return True
        return cls is Policy and issubclass(subclass, native_policies())


class Policy(metaclass=PolicyMeta):
    """The dtype in which a Keras layer computes, and the dtype of its variables.

    Pass a policy as the `dtype` of a layer, or to `set_global_policy`. Layers of tf_keras and of Keras 3 take it, as it
    is an instance of `Policy` of tf_keras and of `DTypePolicy` of Keras 3. Model files load without mpls.

    Args:
        name: `'mixed_float16'` or `'mixed_bfloat16'`, to compute in 16 bits with float32 variables; or a dtype, as
            `'float32'`, for both. `compile` scales the loss of models with the policy `'mixed_float16'`.

    Raises:
        TypeError: `name` is not a string.
        ValueError: `name` is not a policy, or TensorFlow removed it.

    Reproduces:
        `tf.keras.mixed_precision.Policy`, TF 2.4 to 2.15, and `tf_keras.mixed_precision.Policy`, 2.16 to 2.21.

    Examples:
        >>> import mpls.keras
        >>> policy = mpls.keras.Policy("mixed_float16")
        >>> policy, policy.compute_dtype, policy.variable_dtype
        (<Policy "mixed_float16">, 'float16', 'float32')
        >>> import keras, tf_keras
        >>> tf_keras.layers.Dense(1, dtype=policy).dtype_policy is policy
        True
        >>> keras.layers.Dense(1, dtype=policy).dtype_policy is policy
        True
    """

    def __init__(self, name: str) -> None:
        self._compute_dtype, self._variable_dtype = _dtypes_of(name, f"{type(self).__name__}: name")
        self._name = name
        self._become_native()

    # `isinstance` reads this property, and uses it only if it differs from the type.
    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return _subclass(type(self)) if self._become_native() else type(self)

    def _become_native(self) -> bool:
        """Become an instance of the policy class of each Keras that is loaded; return whether one is new."""
        natives = native_policies()
        if all(issubclass(type(self), native) for native in natives):
            return False
        for native in natives:
            # Attributes that this framework's own methods read.
            for name, value in vars(native("float32")).items():
                vars(self).setdefault(name, value)
        set_class(self, _concrete_class(self._public_class(), natives))
        return True

    @property
    def name(self) -> str:
        """The name, as given."""
        return self._name

    @property
    def compute_dtype(self) -> str | None:
        """The name of the dtype in which layers compute; None if they use the dtype of their first input."""
        return self._compute_dtype

    @property
    def variable_dtype(self) -> str | None:
        """The name of the dtype of variables; None if layers use the dtype of their first input."""
        return self._variable_dtype

    def get_config(self) -> dict[str, Any]:
        """Return `{'name': str}`."""
        return {"name": self.name}

    @classmethod
    def from_config(cls: type[_Self], config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> _Self:
        """Create a policy from a config.

        Args:
            config: a dict from `get_config`. `'loss_scale'` in a config of TF 2.1 to 2.3 is ignored.
            custom_objects: ignored.

        Returns:
            The policy.
        """
        del custom_objects
        return cls(**{key: value for key, value in config.items() if key != "loss_scale"})

    def __repr__(self) -> str:
        return f'<Policy "{self.name}">'

    # Policies compare by identity, as in the originals. Keras 3 defines __eq__ without __hash__.
    def __eq__(self, other: object) -> bool:
        return True if self is other else NotImplemented

    def __hash__(self) -> int:
        return object.__hash__(self)

    def __reduce__(self) -> Any:
        return _new, (self._public_class(),), dict(vars(self))

    def _public_class(self) -> Any:
        return vars(type(self)).get("_made_from", type(self))

    # On the concrete classes of instances: the class that the user called.
    _made_from: Any


# Where users import it from, and where pickles find it.
Policy.__module__ = "mpls.keras"


def _new(cls: Any) -> Any:
    policy = cls.__new__(cls)
    policy._become_native()
    return policy


@cache
def _concrete_class(cls: Any, natives: tuple[type, ...]) -> Any:
    """Return the class of instances of `cls` that are policies of some frameworks too."""
    concrete = _subclass(cls, natives)
    concrete._made_from = cls
    serialize_as_keras_policy(concrete)
    return concrete


@cache
def _subclass(cls: Any, natives: tuple[type, ...] = ()) -> Any:
    namespace = {"__module__": vars(cls)["__module__"], "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    return type(cls)(cls.__name__, (cls, *natives), namespace)


def set_global_policy(policy: AnyPolicy | str | None) -> None:
    """Set the default policy of new layers, in tf_keras and in Keras 3.

    The policy is set in `tf.keras`, and in tf_keras and Keras 3 if they are loaded. Import the Keras that you use
    before this call.

    Args:
        policy: a `Policy`, the name of a policy, or None for the dtype `floatx`.

    Raises:
        TypeError: `policy` is not one of these.
        ValueError: `policy` is not a policy of a floating-point dtype; or the graph rewrite is on, and the policy is
            mixed; or TensorFlow 2 behaviour is disabled. Nothing has been set then.

    Reproduces:
        `tf.keras.mixed_precision.set_global_policy`, TF 2.4 to 2.15, and `tf_keras.mixed_precision.set_global_policy`,
        2.16 to 2.21. They set the policy in one Keras only, and Keras 3 does not check for the graph rewrite.

    Examples:
        >>> import mpls.keras
        >>> mpls.keras.set_global_policy("mixed_bfloat16")
        >>> mpls.keras.global_policy()
        <Policy "mixed_bfloat16">
        >>> mpls.keras.set_global_policy(None)
        >>> mpls.keras.global_policy().name
        'float32'
    """
    if policy is not None and not isinstance(policy, Policy):
        # The constructor refuses anything but a string.
        policy = Policy(policy)  # type: ignore[arg-type]
    set_everywhere(policy, "set_global_policy")


def global_policy() -> Policy:
    """Return the default policy of new layers.

    Returns:
        The object that `set_global_policy` set, or else the global policy of `tf.keras`.

    Reproduces:
        `tf.keras.mixed_precision.global_policy`, TF 2.4 to 2.15, and `tf_keras.mixed_precision.global_policy`,
        2.16 to 2.21.

    Examples:
        >>> import mpls.keras
        >>> mpls.keras.global_policy().name
        'float32'
    """
    keras = tensorflow_keras()
    if keras is loaded_tf_keras():
        return keras.mixed_precision.global_policy()
    return keras.config.dtype_policy()


def set_everywhere(policy: Any, subject: str) -> None:
    """Set a policy in each Keras that is loaded, and in that of TensorFlow.

    Args:
        policy: a policy, of mpls or of one of the two, or None.
        subject: the public name that the user called, for errors.

    Raises:
        ValueError: it cannot be the global one.
    """
    tensorflow_keras()
    tf_keras, keras = loaded_tf_keras(), loaded_keras()
    if policy is not None:
        _check_floating(policy, subject)
        _check_rewrite(policy, subject)
    of_tf_keras = tf_keras and _instance_for(tf_keras.mixed_precision.Policy, policy)
    of_keras = keras and _instance_for(keras.DTypePolicy, policy)
    if tf_keras is not None:
        # tf_keras goes first: it may refuse the policy.
        tf_keras.mixed_precision.set_global_policy(of_tf_keras)
    if keras is not None:
        _set_in_keras(keras, of_keras)


def _set_in_keras(keras: Any, policy: Any) -> None:
    keras.config.set_dtype_policy(policy or keras.DTypePolicy(keras.config.floatx()))


@contextlib.contextmanager
def restoring_everywhere() -> Iterator[None]:
    """Set after a block what each Keras had before it: the very object, or none; none in one that is loaded later."""
    tensorflow_keras()
    tf_keras, keras = loaded_tf_keras(), loaded_keras()
    of_tf_keras = tf_keras and tf_keras.mixed_precision.global_policy()
    if tf_keras is not None and tf_keras.mixed_precision.global_policy() is not of_tf_keras:
        # It makes a policy at each call, as none is set.
        of_tf_keras = None
    of_keras = keras and keras.config.dtype_policy()
    try:
        yield
    finally:
        tf_keras, keras = loaded_tf_keras(), loaded_keras()
        if keras is not None:
            _set_in_keras(keras, of_keras)
        if tf_keras is not None:
            # It goes last: it may refuse a mixed policy, if the block has turned the graph rewrite on.
            tf_keras.mixed_precision.set_global_policy(of_tf_keras)


def _instance_for(native: type, policy: Any) -> Any:
    return policy if policy is None or isinstance(policy, native) else Policy(policy.name)


def _check_floating(policy: Any, subject: str) -> None:
    dtype = policy.compute_dtype
    if dtype is not None and not tf.as_dtype(dtype).is_floating:
        raise ArgumentValueError(
            error_text(
                f"{subject}: policy", "compute in a floating-point dtype", policy, f"{subject}('float32')", "policies"
            )
        )


def _check_rewrite(policy: Any, subject: str) -> None:
    if policy.compute_dtype != policy.variable_dtype and is_graph_rewrite_enabled():
        raise ArgumentValueError(
            error_text(
                f"{subject}: policy",
                "not be a mixed one while the mixed-precision graph rewrite is on",
                policy,
                "Use one of the two: leave out enable_mixed_precision_graph_rewrite(), or call "
                "mpls.v1.disable_mixed_precision_graph_rewrite() before",
                "graph-rewrite",
            )
        )


_MIXED = "Policy('mixed_float16') or Policy('mixed_bfloat16')"


def _dtypes_of(name: Any, subject: str) -> tuple[str | None, str | None]:
    """Return the compute dtype and the variable dtype of a policy."""
    if not isinstance(name, str):
        raise ArgumentTypeError(error_text(subject, "be a string", name, "Policy('mixed_float16')", "policies"))
    if name in ("mixed_float16", "mixed_bfloat16"):
        return name.removeprefix("mixed_"), "float32"
    if name == "_infer":
        # The policy of tf_keras while TensorFlow 2 behaviour is disabled.
        return None, None
    if name in REMOVED_POLICIES or name.endswith("_float32_vars"):
        constraint = "not be one that TensorFlow removed"
        is_graph = not tf.compat.v1.executing_eagerly_outside_functions()
        advice = f"Use {instead_of_policy(name, is_graph=is_graph)}"
    else:
        try:
            dtype = tf.as_dtype(name).name
            return dtype, dtype
        except TypeError:
            constraint, advice = "be 'mixed_float16', 'mixed_bfloat16' or the name of a dtype", _MIXED
    raise ArgumentValueError(error_text(subject, constraint, name, advice, "policies"))
