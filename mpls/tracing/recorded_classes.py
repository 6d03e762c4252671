"""Records the wrappers of each release, by their methods that scale a loss and apply gradients."""

from __future__ import annotations

import functools
import sys
import threading
from typing import Any

from mpls.tracing.around_steps import Step, take_recorded
from mpls.tracing.compiled_functions import FUNCTION_MODULES, WithoutXla
from mpls.tracing.scale_states import scale_state_of, scale_state_of_keras_3
from mpls.tracing.step_recorder import StepRecorder

__all__ = ["Recording"]

_V1 = ("compute_gradients",)
_KERAS = ("get_scaled_loss",)
_OF_TENSORFLOW = (
    # TF 1.14 to 2.21.
    ("python.training.experimental.loss_scale_optimizer", _V1),
    # TF 1.14 to 2.3, and 2.4 to 2.21.
    ("python.keras.mixed_precision.experimental.loss_scale_optimizer", _KERAS),
    ("python.keras.mixed_precision.loss_scale_optimizer", _KERAS),
    # TF 1.13 to 1.15.
    ("contrib.mixed_precision.python.loss_scale_optimizer", _V1),
)
# The modules of wrappers, and the methods to which they are given a loss. Up to TF 2.0, the sources were in a package
# of another name.
_MODULES = dict(
    [(package + path, methods) for package in ("tensorflow.", "tensorflow_core.") for path, methods in _OF_TENSORFLOW]
    # TF 2.6 to 2.12, 2.13 to 2.15, and tf_keras.
    + [
        (package + "mixed_precision.loss_scale_optimizer", _KERAS)
        for package in ("keras.", "keras.src.", "tf_keras.src.")
    ]
)
_KERAS_3 = "keras.src.optimizers.loss_scale_optimizer"
_CLASSES = (
    "MixedPrecisionLossScaleOptimizer",
    "LossScaleOptimizer",
    "LossScaleOptimizerV1",
    "LossScaleOptimizerV3",
)


class Recording:
    """Replaces methods of wrappers, in modules that are loaded and as others are.

    Args:
        recorder: what gets the steps.
        say: prints a line.
        more: further modules, by name: what to do when one is loaded, which gets the recording and the module.
    """

    def __init__(self, recorder: StepRecorder, say: Any, more: Any = None) -> None:
        self._recorder = recorder
        self._more = dict(more or {})
        self._xla = WithoutXla(say)
        self._here = threading.local()
        self._losses: dict[Any, Any] = {}
        self._replaced: list[Any] = []
        self._finder = _Finder(self)

    def begin(self) -> None:
        """Record from now on."""
        for name, module in list(sys.modules.items()):
            if module is not None and self.waits_for(name):
                self.loaded(name)
        sys.meta_path.insert(0, self._finder)

    def end(self) -> None:
        """Put the methods back that were there; graphs that were built go on recording."""
        sys.meta_path.remove(self._finder)
        for owner, name, method in reversed(self._replaced):
            setattr(owner, name, method)
        self._replaced.clear()

    def waits_for(self, name: str) -> bool:
        """Return whether a module has classes that are recorded."""
        return name in _MODULES or name == _KERAS_3 or name in FUNCTION_MODULES or name in self._more

    def loaded(self, name: str) -> None:
        """Replace the methods of a module's classes."""
        module = sys.modules[name]
        if name in FUNCTION_MODULES:
            # TF 1.13 has none.
            if hasattr(module, "Function"):
                self.replace(module.Function, "__init__", self._xla.making)
            return
        if name in self._more:
            self._more[name](self, module)
            return
        for each in _CLASSES:
            owner = vars(module).get(each)
            if isinstance(owner, type):
                if name == _KERAS_3:
                    self.replace(owner, "apply", self._applying_keras_3)
                    self.replace(owner, "scale_loss", self.noting_loss)
                    continue
                self.replace(owner, "apply_gradients", self.applying)
                for method in _MODULES[name]:
                    self.replace(owner, method, self.noting_loss)

    def replace(self, owner: Any, name: str, make: Any) -> None:
        """Replace a method of a class that defines it.

        Args:
            owner: the class.
            name: the method.
            make: gets the method, and returns what stands in for it.
        """
        method = vars(owner).get(name)
        if method is not None:
            self._replaced.append((owner, name, method))
            # `wraps` has AutoGraph take it for the method of the framework, which it does not convert.
            setattr(owner, name, functools.wraps(method)(make(method)))

    def applying(self, method: Any) -> Any:
        """Return what stands in for a method that gets pairs of unscaled gradient and variable."""

        def apply_gradients(wrapper: Any, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
            pairs = list(grads_and_vars)
            return self.take(
                wrapper, pairs, lambda: scale_state_of(wrapper), lambda: method(wrapper, pairs, *args, **kwargs)
            )

        return apply_gradients

    def _applying_keras_3(self, method: Any) -> Any:
        """Return what stands in for the method of Keras 3, which unscales the gradients that it gets."""

        def apply(wrapper: Any, grads: Any, trainable_variables: Any = None) -> Any:
            import keras

            if keras.backend.backend() != "tensorflow" or not grads:
                return method(wrapper, grads, trainable_variables)
            if not wrapper.built:
                # As the method does at its beginning.
                with keras.name_scope(wrapper.name, caller=wrapper):
                    wrapper.build(trainable_variables)
            variables = wrapper._trainable_variables if trainable_variables is None else list(trainable_variables)
            scale = wrapper.dynamic_scale
            unscaled = [None if grad is None else keras.ops.divide(grad, scale) for grad in grads]
            return self.take(
                wrapper,
                list(zip(unscaled, variables)),
                lambda: scale_state_of_keras_3(wrapper),
                lambda: method(wrapper, grads, trainable_variables),
            )

        return apply

    def noting_loss(self, method: Any) -> Any:
        """Return what stands in for a method that gets the loss as its first argument."""

        def scale_loss(wrapper: Any, loss: Any, *args: Any, **kwargs: Any) -> Any:
            return method(wrapper, self._noted(wrapper, loss), *args, **kwargs)

        return scale_loss

    def _noted(self, wrapper: Any, loss: Any) -> Any:
        if callable(loss):
            return lambda: self._noted(wrapper, loss())
        self._losses[id(wrapper), threading.get_ident()] = loss
        return loss

    def take(self, wrapper: Any, pairs: Any, state: Any, take: Any) -> Any:
        """Take a step, and record it.

        Args:
            wrapper: the optimizer.
            pairs: unscaled gradient and variable, a list.
            state: returns what reads scale and count.
            take: takes it.

        Returns:
            What `take` returns.
        """
        # A method of a subclass calls that of its base class, and one wrapper may apply by another.
        loss = self._losses.pop((id(wrapper), threading.get_ident()), None)
        if getattr(self._here, "is_taking", False):
            return take()
        self._here.is_taking = True
        try:
            step = Step(wrapper, pairs, state, _usable(loss), lambda: _about_wrapper(wrapper), take)
            return take_recorded(self._recorder, step)
        finally:
            self._here.is_taking = False


def _about_wrapper(wrapper: Any) -> Any:
    inner = _inner_of(wrapper)
    return {"class": type(wrapper).__name__, "optimizer": type(inner).__name__, "framework": _framework(inner)}


def _inner_of(wrapper: Any) -> Any:
    for name in ("_optimizer", "_opt", "inner_optimizer"):
        inner = vars(wrapper).get(name)
        if inner is not None:
            return inner
    return None


def _framework(optimizer: Any) -> str:
    """Return the package that an optimizer is of, or its nearest base class; empty if there is none."""
    packages = [
        owner.__module__.split(".")[0].replace("tensorflow_core", "tensorflow") for owner in type(optimizer).__mro__
    ]
    found = [package for package in packages if package in ("tensorflow", "tf_keras", "keras")]
    return found[0] if found else ""


def _usable(loss: Any) -> Any:
    """Return a loss that is a scalar tensor of the current graph or one around it; else None."""
    import tensorflow.compat.v1 as tf

    if not isinstance(loss, tf.Tensor) or loss.shape.ndims != 0:
        return None
    if tf.executing_eagerly():
        return loss if hasattr(loss, "numpy") else None
    graph = tf.get_default_graph()
    while graph is not None:
        if getattr(loss, "graph", None) is graph:
            return loss
        graph = getattr(graph, "outer_graph", None)
    return None


class _Finder:
    """Tells a recording of modules with wrappers as they are loaded."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        """Return what the other finders do, with a loader that tells of the module."""
        if not self._recording.waits_for(name):
            return None
        for finder in sys.meta_path:
            find: Any = None if finder is self else getattr(finder, "find_spec", None)
            spec = None if find is None else find(name, path, target)
            if spec is not None:
                spec.loader.exec_module = self._telling(name, spec.loader.exec_module)
                return spec
        return None

    def _telling(self, name: str, execute: Any) -> Any:
        def exec_module(module: Any) -> None:
            execute(module)
            self._recording.loaded(name)

        return exec_module
