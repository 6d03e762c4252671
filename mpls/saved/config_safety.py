"""The check of configs in model files under `safe_mode`: they may name allowed objects and the user's own only.

A config can name classes and functions of any module, also those that a module of the framework has merely imported,
and functions of TensorFlow that write files. How a loader looks a name up depends on its place in the config, the
release and the format. So the check does not imitate loaders: each object, function and value at any place of a config
must be in the lists of `allowed.py`, or the user's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from mpls.errors import SavedStateError, error_text
from mpls.formats.file_kinds import COMPILE_CONFIG, MODEL_CONFIG, TRAINING_CONFIG, Format
from mpls.formats.validity import ANCHOR
from mpls.saved.allowed import (
    CLASSES,
    FUNCTIONS,
    INSTANCE_ATTRIBUTES,
    OPS,
    OPTIMIZERS,
    RAGGED_CLASS_METHODS,
    TYPE_SPECS,
    VALUES,
    is_arithmetic,
)
from mpls.saved.foreign_files import IF_TRUSTED

__all__ = ["COMPILE_CONFIGS", "NothingOwn", "OwnObjects", "refuse_unsafe_configs"]

# The entries of a file's configs that hold the arguments of `compile`.
COMPILE_CONFIGS = (COMPILE_CONFIG, TRAINING_CONFIG)
# Layers of tf_keras that call a function, op or method of TensorFlow. tf_keras makes one when TensorFlow is called on a
# symbolic tensor of a functional model. TF 2.2 and 2.3 wrote the last where later releases write the first.
_OP_LAYERS = (
    "TFOpLambda",
    "SlicingOpLambda",
    "InstanceProperty",
    "InstanceMethod",
    "ClassMethod",
    "TensorFlowOpLayer",
)
_YOURS = f"If it is your own, pass it in custom_objects. {IF_TRUSTED}"

# Modules in which an allowed name is the object that the lists mean. Their other names are not on the lists. The last
# has the initializers of TensorFlow.
_MODULES = re.compile(
    r"builtins|(tf_)?keras(\.\w+)*|mpls(\.keras|\.experimental)?|tensorflow\.python\.ops\.init_ops_v2", re.ASCII
)
_MODULES_OF_TYPE_SPECS = re.compile(r"tensorflow\.python\.(framework|ops)(\.\w+)*", re.ASCII)
# Keys whose value, if it is a string, the frameworks look up as the name of a class or a function.
_NAMING_KEYS = re.compile(
    r"(\w+_)?(activation|initializer|regularizer|constraint|optimizer|metric|quantizer|loss)s?(_fn)?"
    r"|optimizer_config|fn|normalizer_fn|cell|layer|backward_layer|forward_layer|learning_rate|weighted_metrics",
    re.ASCII,
)
# Keys whose value may be nested like the outputs of a model, with names at the leaves.
_NESTED_KEYS = ("loss", "metrics", "weighted_metrics")
# Keys whose value, if it is a string, is the path of another file.
_PATH_KEYS = ("vocabulary", "vocabulary_file", "ckpt_to_load_from", "filepath")
_FUNCTIONS_OF_LAMBDA = ("function", "mask", "output_shape")


class _Place(NamedTuple):
    """A value in a config: its path, its key, and whether the strings in it are names."""

    path: str
    key: str
    value: Any
    is_naming: bool


class OwnObjects(Protocol):
    """The objects of the user, passed in `custom_objects` or registered."""

    def find(self, name: str) -> Any:
        """Return the object that the framework finds by a name; None if there is none."""

    def is_registered_somewhere(self, name: str) -> bool:
        """Return whether an object is registered by a name, for whatever package."""

    def is_known(self, name: str) -> bool:
        """Return whether the framework has a class of this name, from whose config it makes an object."""


class NothingOwn:
    """No objects of a user, and no framework: `mpls inspect` has loaded none."""

    def find(self, name: str) -> str | None:
        """Return the name if tf_keras itself registers an optimizer by it, as `'Custom>Adam'`; else None."""
        package, _, rest = name.partition(">")
        return name if package == "Custom" and rest in OPTIMIZERS else None

    def is_registered_somewhere(self, _: str) -> bool:
        """Return False."""
        return False

    def is_known(self, name: str) -> bool:
        """Return whether a Keras has a class of this name, as far as the lists tell."""
        return name in CLASSES or name in _OP_LAYERS or name == "Lambda"


def refuse_unsafe_configs(
    path: str, kind: Format, configs: Mapping[str, Any], own: OwnObjects, *, with_compile: bool = True
) -> None:
    """Refuse a model whose configs name an object that is neither allowed nor the user's own.

    Args:
        path: the file, for errors.
        kind: its format.
        configs: the decoded JSON texts in it, by their places.
        own: the user's own objects.
        with_compile: whether the model is compiled with the file's settings.
    """
    check = _Check(path, own)
    for source, config in configs.items():
        if source in COMPILE_CONFIGS and not with_compile:
            continue
        if kind == "SavedModel" and isinstance(config, dict):
            config = _used_metadata(config, own)
        elif isinstance(config, dict) and not with_compile:
            config = {key: value for key, value in config.items() if key != COMPILE_CONFIG}
        check.check(source, config)


def _used_metadata(metadata: dict[str, Any], own: OwnObjects) -> dict[str, Any]:
    """Return the part of an object's metadata in a SavedModel from which tf_keras makes objects.

    tf_keras restores objects of classes that it does not know from the graph, and does not use their configs.
    """
    name = metadata.get("class_name")
    # The training config is an entry of its own among the configs. Loaders do not read `model_config`.
    rest = {key: value for key, value in metadata.items() if key not in (TRAINING_CONFIG, MODEL_CONFIG)}
    if "config" in rest and isinstance(name, str) and not own.is_known(name) and own.find(name) is None:
        del rest["config"], rest["class_name"]
    return rest


class _Check:
    """The check of one file's configs.

    Args:
        path: the file, for errors.
        own: the user's own objects.
    """

    def __init__(self, path: str, own: OwnObjects) -> None:
        self._path = path
        self._own = own

    def _is_trusted(self, name: str) -> bool:
        return self._own.find(name) is not None

    def check(self, source: str, config: Any) -> None:
        """Check a config.

        Args:
            source: its place in the file.
            config: the config, decoded.
        """
        # A stack, because a hostile config may be nested too deeply for recursion.
        stack = [_Place(source, source, config, source in _NESTED_KEYS)]
        while stack:
            place = stack.pop()
            if isinstance(place.value, dict):
                self._check_dict(place.path, place.value)
                stack += _children(place)
            elif isinstance(place.value, list):
                # The strings in a list, such as a vocabulary, are no paths.
                key = place.key if place.is_naming else ""
                stack += [
                    _Place(f"{place.path}/{number}", key, each, place.is_naming)
                    for number, each in enumerate(place.value)
                    if isinstance(each, (dict, list, str))
                ]
            elif isinstance(place.value, str):
                self._check_text(place)

    def _refuse(self, place: str, constraint: str, got: object, advice: str = IF_TRUSTED) -> None:
        raise SavedStateError(error_text(f"{self._path}: {place}", constraint, got, advice, ANCHOR))

    def _check_text(self, place: _Place) -> None:
        if place.key in _PATH_KEYS:
            advice = f"Make the layer from the values themselves, and save again. {IF_TRUSTED}"
            self._refuse(place.path, "be in the file itself, not a path to another", place.value, advice)
        elif place.key == "name" and ".." in re.split(r"[/\\]", place.value):
            # Keras unpacks assets into a folder of this name.
            self._refuse(place.path, "be a name without '..'", place.value)
        elif place.is_naming and not self._is_allowed(place.value, CLASSES | FUNCTIONS):
            self._refuse(place.path, "name a class or function of Keras, or one of custom_objects", place.value, _YOURS)

    def _is_allowed(self, name: Any, allowed: frozenset[str]) -> bool:
        return isinstance(name, str) and (name in allowed or self._is_trusted(name))

    def _check_dict(self, place: str, config: dict[str, Any]) -> None:
        for kind in config:
            if config[kind] == "lambda" and kind.endswith("_type"):
                self._refuse_code(place, config.get("class_name", "lambda"))
        if "class_name" in config:
            self._check_object(place, config)
        nodes = config.get("inbound_nodes", [])
        if not isinstance(nodes, list):
            # tf_keras would look for ever for what such a layer is connected to.
            self._refuse(f"{place}/inbound_nodes", "be a list", nodes)

    def _refuse_code(self, place: str, got: object) -> None:
        self._refuse(place, "hold no Python code, as that of a Lambda layer", got)

    def _check_object(self, place: str, config: dict[str, Any]) -> None:
        name, settings = config["class_name"], config.get("config")
        if not isinstance(name, str):
            self._require(f"{place}/class_name", name, CLASSES)
        elif name == "__lambda__":
            self._refuse_code(place, name)
        elif name == "__typespec__":
            self._check_type_spec(place, config)
        elif name == "TypeSpec":
            spec = str(config.get("type_spec")).removeprefix("tf.")
            self._require(f"{place}/type_spec", spec, TYPE_SPECS, IF_TRUSTED)
        elif name in VALUES:
            pass
        elif name == "function":
            self._check_function(place, config)
        elif name.rpartition(">")[2] == "Lambda" and not self._is_trusted(name):
            self._check_lambda(place, config)
        elif name in _OP_LAYERS:
            self._check_module(place, config, name)
            self._check_op_layer(f"{place}/config", name, settings if isinstance(settings, dict) else {})
        else:
            self._check_class(place, config)

    def _require(self, place: str, name: Any, allowed: frozenset[str], advice: str = _YOURS) -> None:
        if not self._is_allowed(name, allowed):
            what = "a class" if allowed is CLASSES else "one"
            self._refuse(place, f"name {what} of Keras that holds no code and opens no file", name, advice)

    def _check_class(self, place: str, config: dict[str, Any]) -> None:
        name = config["class_name"]
        registered = config.get("registered_name")
        if isinstance(registered, str) and self._is_trusted(registered):
            # A loader that does not use the registered name looks this one up among the framework's classes.
            if name != registered.rpartition(">")[2]:
                self._require(f"{place}/class_name", name, CLASSES)
            return
        self._require(f"{place}/class_name", name, CLASSES)
        if name in CLASSES or "registered_name" in config:
            self._check_module(place, config, name)

    def _check_module_name(self, place: str, module: Any) -> None:
        if module is not None and not (isinstance(module, str) and _MODULES.fullmatch(module)):
            self._refuse(f"{place}/module", "be a module of Keras", module, _YOURS)

    def _check_module(self, place: str, config: dict[str, Any], name: str) -> None:
        module, registered = config.get("module"), config.get("registered_name")
        self._check_module_name(place, module)
        if registered is not None and registered not in (name, f"Custom>{name}"):
            self._refuse(f"{place}/registered_name", f"be {name!r}, or one of custom_objects", registered, _YOURS)

    def _check_function(self, place: str, config: dict[str, Any]) -> None:
        name = config.get("config")
        module, registered = config.get("module"), config.get("registered_name")
        if isinstance(name, str) and self._is_trusted(name):
            return
        if module == "builtins" and isinstance(name, str) and self._own.is_registered_somewhere(name):
            # Older releases write a registered function without its package.
            return
        own = self._own.find(registered) if isinstance(registered, str) else None
        if own is not None and (getattr(own, "__module__", None), getattr(own, "__name__", None)) == (module, name):
            # Older releases look a registered function up in the module that defines it.
            return
        self._require(f"{place}/config", name, FUNCTIONS | CLASSES)
        self._check_module_name(place, module)
        if registered not in (None, "function", "builtin_function_or_method", name):
            self._refuse(f"{place}/registered_name", "be 'function'", registered, _YOURS)

    def _check_type_spec(self, place: str, config: dict[str, Any]) -> None:
        self._require(f"{place}/spec_name", config.get("spec_name"), TYPE_SPECS, IF_TRUSTED)
        module = config.get("module")
        if not (isinstance(module, str) and _MODULES_OF_TYPE_SPECS.fullmatch(module)):
            self._refuse(f"{place}/module", "be one of TensorFlow's that has tensors", module)
        if config.get("registered_name") is not None:
            self._refuse(f"{place}/registered_name", "be null", config["registered_name"])

    def _check_op_layer(self, place: str, name: str, settings: dict[str, Any]) -> None:
        if name == "TensorFlowOpLayer":
            node = settings.get("node_def")
            got = node.get("op") if isinstance(node, dict) else node
            key, constraint = "node_def/op", "be an op that is known to stay within the model"
            is_allowed = isinstance(got, str) and got in OPS
        elif name in ("InstanceProperty", "InstanceMethod"):
            key, constraint, got = "attr_name", "be an attribute of ragged or sparse tensors", settings.get("attr_name")
            is_allowed = isinstance(got, str) and got in INSTANCE_ATTRIBUTES
        elif name == "ClassMethod":
            owner, got = settings.get("cls_symbol"), settings.get("method_name")
            key, constraint = "method_name", "be one that makes a RaggedTensor"
            is_allowed = owner == "RaggedTensor" and isinstance(got, str) and got in RAGGED_CLASS_METHODS
        else:
            got = settings.get("function")
            key, constraint = "function", "be a function of TensorFlow that does arithmetic on tensors"
            is_allowed = isinstance(got, str) and is_arithmetic(got)
        if not is_allowed:
            self._refuse(f"{place}/{key}", constraint, got)

    def _check_lambda(self, place: str, config: dict[str, Any]) -> None:
        """Refuse a Lambda layer, unless its functions are the user's own."""
        self._check_module(place, config, config["class_name"])
        settings = config.get("config")
        if not isinstance(settings, dict):
            self._refuse_code(place, settings)
            return
        for key in _FUNCTIONS_OF_LAMBDA:
            function = settings.get(key)
            if isinstance(function, dict) and function.get("class_name") == "function":
                # `check` comes to it, as to each function.
                continue
            has_shape = key == "output_shape" and not isinstance(function, str) and _is_shape(function)
            if function is not None and not has_shape and not self._is_allowed(function, frozenset()):
                self._refuse_code(f"{place}/config/{key}", config["class_name"])


def _is_shape(value: Any) -> bool:
    """Return whether the output shape of a Lambda layer is one, and no function."""
    return isinstance(value, list) and all(each is None or isinstance(each, (int, list)) for each in value)


def _children(place: _Place) -> Iterator[_Place]:
    is_nested = place.is_naming and place.key in _NESTED_KEYS and "class_name" not in place.value
    for key, value in place.value.items():
        if isinstance(value, (dict, list, str)):
            is_naming = is_nested or bool(_NAMING_KEYS.fullmatch(key))
            yield _Place(f"{place.path}/{key}", place.key if is_nested else key, value, is_naming)
