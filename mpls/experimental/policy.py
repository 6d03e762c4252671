"""Policies that have a loss scale, as those of TF 1.15 to 2.8 did."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, Literal, SupportsFloat, TypeVar

import tensorflow as tf

import mpls.keras
from mpls.core import identifiers, releases
from mpls.core.loss_scale import LossScale
from mpls.core.step_options import explained_arguments
from mpls.errors import ArgumentValueError, error_text, without_deprecations
from mpls.keras.experimental_wrapper import LossScaleOptimizer
from mpls.keras.marked_configs import who_calls
from mpls.keras.policy import AnyPolicy, restoring_everywhere, set_everywhere
from mpls.patches import Layer, Replacements, Target
from mpls.upstream import table
from mpls.upstream.keras_packages import compile_hooks, loaded_keras, loaded_tf_keras, native_policies

__all__ = [
    "Policy",
    "get_layer_policy",
    "global_policy",
    "log_device_compatibility_check",
    "policy_scope",
    "set_policy",
]

# The default of the original, in two spellings.
_DEFAULTS = ("auto", "USE_DEFAULT")


_Self = TypeVar("_Self", bound="Policy")


class Policy(mpls.keras.Policy):
    """A `mpls.keras.Policy` with a loss scale, which `compile` uses to wrap the optimizer; deprecated.

    A model has this policy if you pass it to the model, or if it is the global policy when you create the model.
    `compile` of such a model wraps the optimizer in `mpls.experimental.LossScaleOptimizer` with the loss scale of the
    policy. If the loss scale is None, or the optimizer has a wrapper, `compile` does not wrap it. While such policies
    exist, mpls patches `compile` of tf_keras and Keras 3. For other models, `compile` works as usual.

    A model that you load from a file has a native policy, without a loss scale.

    Args:
        name: as for `mpls.keras.Policy`.
        loss_scale: `'dynamic'` for a new `DynamicLossScale`; a number of at least 1 for a `FixedLossScale`; a
            `LossScale`; or None. By default `'dynamic'` for the policy `'mixed_float16'`, and None for others.

    Raises:
        TypeError: `name` is not a string.
        ValueError: `name` is not a policy, or TensorFlow removed it; `loss_scale` is not one of these.

    Reproduces:
        `tf.keras.mixed_precision.experimental.Policy`, TF 1.15 to 2.8, with `should_cast_variables` of TF 2.3 and
        earlier. As in TF 2.4 and later, the wrapper copies the settings of the loss scale, so `policy.loss_scale` does
        not change during the training.

    Examples:
        >>> import tf_keras, mpls.experimental
        >>> policy = mpls.experimental.Policy("mixed_float16", loss_scale=128)
        >>> policy.compute_dtype, policy.loss_scale
        ('float16', FixedLossScale(128.0))
        >>> mpls.experimental.set_policy(policy)
        >>> model = tf_keras.Sequential([tf_keras.layers.Dense(1)])
        >>> mpls.experimental.set_policy("float32")
        >>> model.compile("sgd", "mse")
        >>> float(model.optimizer.loss_scale)
        128.0
    """

    @explained_arguments("Policy", see="policies")
    def __init__(
        self,
        name: str,
        loss_scale: LossScale | SupportsFloat | Literal["dynamic", "auto", "USE_DEFAULT"] | None = "auto",
    ) -> None:
        super().__init__(name)
        self._is_default = isinstance(loss_scale, str) and loss_scale in _DEFAULTS
        if self._is_default:
            loss_scale = "dynamic" if name == "mixed_float16" else None
        self._loss_scale = identifiers.get(loss_scale, "Policy: loss_scale")
        self._shown_as = "Policy" if releases.current().has_loss_scale_objects else "PolicyV1"
        if self._loss_scale is not None and self.compute_dtype not in (None, "float16"):
            tf.get_logger().warning(
                "Policy(%r, loss_scale=%r): only policies that compute in float16 need a loss scale.", name, loss_scale
            )
        _patches.put()

    def _become_native(self) -> bool:
        is_new = super()._become_native()
        if is_new:
            _patches.put()
        return is_new

    @property
    def loss_scale(self) -> LossScale | None:
        """The policy's `LossScale` object; or None."""
        return self._loss_scale

    @property
    def should_cast_variables(self) -> bool:
        """Whether layers cast variables before they use them, as with a mixed policy."""
        return self.variable_dtype != self.compute_dtype

    def get_config(self) -> dict[str, Any]:
        """Return `{'name': str, 'loss_scale': dict or None}`, without `'loss_scale'` if it is the default."""
        config = super().get_config()
        # Keras 3 writes the config to files and loads it with its own class, which takes the name only.
        if not self._is_default and who_calls(self).package != "keras":
            config["loss_scale"] = identifiers.serialize(self.loss_scale)
        return config

    @classmethod
    def from_config(cls: type[_Self], config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> _Self:
        """Create a policy from a config.

        Args:
            config: a dict from `get_config` of mpls or of TF 2.1 to 2.8.
            custom_objects: your own classes of loss scales, by name.

        Returns:
            The policy.

        Raises:
            ValueError: the class of the loss scale is unknown.
        """
        if isinstance(config.get("loss_scale"), dict):
            config = {**config, "loss_scale": identifiers.deserialize(config["loss_scale"], custom_objects)}
        return cls(**config)

    def __repr__(self) -> str:
        return f'<{self._shown_as} "{self.name}", loss_scale={self.loss_scale}>'


# Where users import it from, and where pickles find it.
Policy.__module__ = "mpls.experimental"


def set_policy(policy: AnyPolicy | str | None) -> None:
    """Set the default policy of new layers and models, in tf_keras and in Keras 3; deprecated.

    The policy is set in `tf.keras`, and in tf_keras and Keras 3 if they are loaded. Import the Keras that you use
    before this call.

    Args:
        policy: a `Policy`; the name of a policy, which then has the default loss scale; or None for the dtype `floatx`.

    Raises:
        TypeError: `policy` is not one of these.
        ValueError: `policy` is not a policy of a floating-point dtype; or the graph rewrite is on, and the policy is
            mixed; or TensorFlow 2 behaviour is disabled. Nothing has been set then.

    Reproduces:
        `tf.keras.mixed_precision.experimental.set_policy`, TF 1.15 to 2.8. Up to TF 2.2, any policy was refused while
        the graph rewrite was on. Up to TF 2.3, integer policies were accepted. Since TF 2.4, the policy of a name had
        no `loss_scale`.

    Examples:
        >>> import mpls.experimental
        >>> mpls.experimental.set_policy("mixed_float16")
        >>> mpls.experimental.global_policy().loss_scale.initial_loss_scale
        32768.0
        >>> mpls.experimental.set_policy("float32")
    """
    if policy is not None and not isinstance(policy, mpls.keras.Policy):
        # Policy raises the TypeError for anything but a string.
        policy = Policy(policy)  # type: ignore[arg-type]
    if isinstance(policy, Policy):
        _patches.put()
    set_everywhere(policy, "set_policy")


def global_policy() -> Policy:
    """Return the default policy of new layers and models; deprecated.

    Returns:
        A policy of mpls or a quantized policy, if the program set one. Otherwise a `Policy` with the name of Keras'
            global policy and the default loss scale.

    Reproduces:
        `tf.keras.mixed_precision.experimental.global_policy`, TF 1.15 to 2.8. As in TF 2.3 and earlier, the policy has
        a `loss_scale`, unless it is a `mpls.keras.Policy` or quantized.

    Examples:
        >>> import mpls.experimental
        >>> policy = mpls.experimental.global_policy()
        >>> policy.name, policy.loss_scale
        ('float32', None)
    """
    return _with_loss_scale(mpls.keras.global_policy())


def get_layer_policy(layer: Any) -> Policy:
    """Return the policy of a layer or a model, of tf_keras or of Keras 3; deprecated.

    Args:
        layer: the layer.

    Returns:
        The policy of the layer, if it is a policy of mpls or quantized. For a native policy, a `Policy` with the same
        name and the default loss scale.

    Raises:
        ValueError: `layer` is not a layer.

    Reproduces:
        `tf.keras.mixed_precision.experimental.get_layer_policy`, TF 2.2 to 2.8. As in TF 2.3 and earlier, the policy
        has a `loss_scale`, unless it is a `mpls.keras.Policy` or quantized.

    Examples:
        >>> import tf_keras, mpls.experimental
        >>> policy = mpls.experimental.Policy("mixed_float16", loss_scale=None)
        >>> layer = tf_keras.layers.Dense(1, dtype=policy)
        >>> mpls.experimental.get_layer_policy(layer) is policy
        True
    """
    frameworks = (loaded_tf_keras(), loaded_keras())
    layers: Any = tuple(keras.layers.Layer for keras in frameworks if keras is not None)
    if not isinstance(layer, layers):
        raise ArgumentValueError(
            error_text(
                "get_layer_policy: layer",
                "be a layer of tf_keras or of Keras 3",
                layer,
                "get_layer_policy(model.layers[0])",
                "policies",
            )
        )
    return _with_loss_scale(layer.dtype_policy)


@contextlib.contextmanager
def policy_scope(policy: Any) -> Iterator[None]:
    """Set the global policy for the duration of a block, in tf_keras and in Keras 3.

    After the block, each Keras has its earlier policy again.

    Args:
        policy: a policy or its name.

    Reproduces:
        `policy_scope` of `tensorflow.python.keras.mixed_precision.experimental.policy`, TF 1.14 to 2.3.

    Examples:
        >>> import mpls.experimental
        >>> from mpls.experimental.policy import policy_scope
        >>> with policy_scope("mixed_bfloat16"):
        ...     mpls.experimental.global_policy().name
        'mixed_bfloat16'
    """
    with restoring_everywhere():
        set_policy(policy)
        yield


def log_device_compatibility_check(*_: Any, **__: Any) -> None:
    """Do nothing. Programs replace this function to keep TensorFlow from logging which GPUs are fast in float16."""


# The last policy of Keras itself that was asked for, and the Policy made for it: asking again gives the same object.
_counterpart: tuple[Any, Any] = (None, None)


def _with_loss_scale(policy: Any) -> Any:
    global _counterpart
    # Policies of mpls, and Keras' quantized ones, for which there is no Policy, are of subclasses.
    if type(policy) not in native_policies():
        return policy
    if _counterpart[0] is not policy:
        _counterpart = policy, Policy(policy.name)
    return _counterpart[1]


# Once there is such a policy, `compile` of each Keras wraps the optimizers of models that have one.


def restore_compile() -> None:
    """Undo the patches of `compile`: it is Keras' own again, until a policy with a loss scale is made or set."""
    _patches.take_away()


def _hooks() -> list[Target]:
    return [(owner, name, _hook(_REPLACEMENTS[name])) for owner, name in compile_hooks()]


_patches = Replacements(_hooks)


def _hook(replacement: Callable[..., Any]) -> Callable[[Layer], Any]:
    def patched(layer: Layer) -> Any:
        @functools.wraps(layer.original)
        def hook(self: Any, *args: Any, **kwargs: Any) -> Any:
            if layer.is_on and isinstance(self.dtype_policy, Policy):
                return replacement(layer.original, self, *args, **kwargs)
            return layer.original(self, *args, **kwargs)

        return hook

    return patched


def _get_optimizer(original: Any, model: Any, optimizer: Any) -> Any:
    """Replace `_get_optimizer` of tf_keras' models: look up the optimizers, and wrap them."""
    del original
    wrapped = _looked_up(optimizer, model)
    # `compile` has kept the argument that it was given, for files.
    held = table.TF_KERAS_COMPILED.of(model)
    if held is not None:
        held.config["optimizer"] = wrapped
    return wrapped


def _set_optimizer(original: Any, model: Any, optimizer: Any) -> None:
    """Replace `_set_optimizer` of tf_keras' models in v1 graph mode, in the same way."""
    del original
    model.optimizer = _looked_up(optimizer, model)


def _looked_up(optimizer: Any, model: Any) -> Any:
    tf_keras: Any = loaded_tf_keras()
    return tf.nest.map_structure(lambda each: _wrap(tf_keras.optimizers.get(each), model), optimizer)


def _compile(original: Any, model: Any, *args: Any, **kwargs: Any) -> Any:
    """Replace `compile` of Keras 3: wrap the optimizer, and keep `compile` from wrapping it itself."""
    keras: Any = loaded_keras()
    call = inspect.signature(original).bind(model, *args, **kwargs)
    call.apply_defaults()
    if call.arguments.get("auto_scale_loss"):
        call.arguments["auto_scale_loss"] = False
        optimizer = keras.optimizers.get(call.arguments["optimizer"])
        call.arguments["optimizer"] = optimizer and _wrap(optimizer, model)
    return original(*call.args, **call.kwargs)


_REPLACEMENTS: dict[str, Callable[..., Any]] = {
    table.TF_KERAS_COMPILE.name: _get_optimizer,
    table.TF_KERAS_COMPILE_V1.name: _set_optimizer,
    "compile": _compile,
}


def _wrap(optimizer: Any, model: Any) -> Any:
    loss_scale = model.dtype_policy.loss_scale
    if loss_scale is None or isinstance(optimizer, mpls.keras.LossScaleOptimizer):
        return optimizer
    with without_deprecations():
        return LossScaleOptimizer(optimizer, loss_scale)
