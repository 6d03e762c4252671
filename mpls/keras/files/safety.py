"""Configs in model files, refused under `safe_mode` unless all that they name is allowed, before anything is made.

The frameworks look up what a config names: classes and functions in any module, in some places in whatever a module of
theirs has imported, and functions of TensorFlow that write files. Which of several ways a loader takes depends on the
place, the release and the format. So a config is looked at as a whole, and by what is allowed: wherever an object, a
function or a value stands, it must be one of `allowed_names` or `allowed_functions`, or the user's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from mpls.errors import SavedStateError, error_text
from mpls.formats.validity import ANCHOR
from mpls.keras.files.allowed_functions import INSTANCE_ATTRIBUTES, RAGGED_CLASS_METHODS, is_arithmetic
from mpls.keras.files.allowed_names import CLASSES, FUNCTIONS, TYPE_SPECS, VALUES
from mpls.keras.files.contents import ModelFile
from mpls.keras.files.op_types import ALLOWED as ALLOWED_OPS
from mpls.upstream.loading import OwnObjects

__all__ = ["IsKnown", "refuse_unsafe_configs"]

IsKnown = Callable[[str], bool]

_IF_YOU_TRUST = "If you trust whoever wrote the file, pass safe_mode=False"
_YOURS = f"If it is your own, pass it in custom_objects. {_IF_YOU_TRUST}"

# Modules in which a name of the lists is what it is taken for. What else they have is on no list.
_MODULES = re.compile(r"builtins|(tf_)?keras(\.\w+)*|mpls(\.keras|\.experimental)?", re.ASCII)
_MODULES_OF_TYPE_SPECS = re.compile(r"tensorflow\.python\.(framework|ops)(\.\w+)*", re.ASCII)
_DTYPES = re.compile(r"[a-z]{3,10}[0-9]{0,3}", re.ASCII)
# Keys at which the frameworks look a string up, as the name of a class or of a function.
_NAMING_KEYS = re.compile(
    r"(\w+_)?(activation|initializer|regularizer|constraint|optimizer|metric|quantizer|loss)s?(_fn)?"
    r"|optimizer_config|fn|normalizer_fn|cell|layer|backward_layer|forward_layer|learning_rate|weighted_metrics",
    re.ASCII,
)
# Keys whose value is nested as the outputs of a model are, with names at the leaves.
_NESTED_KEYS = ("loss", "metrics", "weighted_metrics")
# What opens another file, if it is not null or, for a vocabulary, a list.
_PATH_KEYS = ("vocabulary", "vocabulary_file", "ckpt_to_load_from", "filepath")
# What tf_keras has in the place of a layer's name where an argument is no tensor of a layer.
_CONSTANT = "_CONSTANT_VALUE"
# Numbers of which layers and metrics make a list of Python, before their variables are compared with the file.
_MOST = {"num_thresholds": 100_000, "thresholds": 100_000, "num_oov_indices": 1_000_000, "ngrams": 10_000}
_OP_LAYERS = ("TFOpLambda", "SlicingOpLambda")
_FUNCTIONS_OF_LAMBDA = ("function", "mask", "output_shape")


class _Place(NamedTuple):
    path: str
    key: str
    value: Any
    # Whether strings in it are names, which lists and dicts hand on.
    is_naming: bool


def refuse_unsafe_configs(file: ModelFile, own: OwnObjects, is_known: IsKnown, with_compile: bool) -> bool:
    """Refuse a model whose configs name anything that is neither allowed nor the user's own.

    Args:
        file: the file.
        own: the user's own objects, passed in `custom_objects` or registered.
        is_known: tells whether the framework has a class of its own by a name; what it has not comes back from a
            SavedModel's graph, and nothing is made from its config.
        with_compile: whether what the model was compiled with is loaded.

    Returns:
        Whether they name any of the user's own.

    Raises:
        SavedStateError: they do.
    """
    vetting = _Vetting(file.path, own)
    for source, config in file.configs.items():
        if source in ("compile_config", "training_config") and not with_compile:
            continue
        if file.format == "SavedModel" and isinstance(config, dict):
            config = _what_is_made(config, own, is_known)
        elif isinstance(config, dict) and not with_compile:
            config = {key: value for key, value in config.items() if key != "compile_config"}
        vetting.check(source, config)
    return vetting.names_own


def _what_is_made(metadata: dict[str, Any], own: OwnObjects, is_known: IsKnown) -> dict[str, Any]:
    name = metadata.get("class_name")
    # The one is looked at by itself, the other by no loader.
    rest = {key: value for key, value in metadata.items() if key not in ("training_config", "model_config")}
    if "config" in rest and isinstance(name, str) and not is_known(name) and own.find(name) is None:
        del rest["config"], rest["class_name"]
    return rest


class _Vetting:
    def __init__(self, path: str, own: OwnObjects) -> None:
        self._path = path
        self._own = own
        self.names_own = False

    def _is_trusted(self, name: str) -> bool:
        if self._own.find(name) is None:
            return False
        self.names_own = True
        return True

    def check(self, source: str, config: Any) -> None:
        # A stack, since a hostile config may be nested deeper than Python recurses.
        stack = [_Place(source, source, config, source in _NESTED_KEYS)]
        while stack:
            place = stack.pop()
            if isinstance(place.value, dict):
                self._check_dict(place.path, place.value)
                stack += _children(place)
            elif isinstance(place.value, list):
                # A list of words is no path.
                key = place.key if place.is_naming else ""
                stack += [
                    _Place(f"{place.path}/{number}", key, each, place.is_naming)
                    for number, each in enumerate(place.value)
                    if isinstance(each, (dict, list, str))
                ]
            elif isinstance(place.value, str):
                self._check_text(place)

    def _refuse(self, place: str, constraint: str, got: object, advice: str = _IF_YOU_TRUST) -> None:
        raise SavedStateError(error_text(f"{self._path}: {place}", constraint, got, advice, ANCHOR))

    def _check_text(self, place: _Place) -> None:
        if place.key in _PATH_KEYS:
            advice = f"Make the layer from the values themselves, and save again. {_IF_YOU_TRUST}"
            self._refuse(place.path, "be in the file itself, not a path to another", place.value, advice)
        elif place.key == "name" and ".." in re.split(r"[/\\]", place.value):
            # Assets are unpacked under it.
            self._refuse(place.path, "be a name without '..'", place.value)
        elif place.is_naming and not self._is_allowed(place.value, CLASSES | FUNCTIONS):
            self._refuse(place.path, "name a class or function of Keras, or one of custom_objects", place.value, _YOURS)

    def _is_allowed(self, name: Any, allowed: frozenset[str]) -> bool:
        return isinstance(name, str) and (name in allowed or self._is_trusted(name))

    def _check_dict(self, place: str, config: dict[str, Any]) -> None:
        for kind in config:
            if config[kind] == "lambda" and kind.endswith("_type"):
                self._refuse_code(place, config.get("class_name", "lambda"))
        for key, most in _MOST.items():
            value = config.get(key)
            size = len(value) if isinstance(value, list) else value
            if isinstance(size, (int, float)) and size > most:
                self._refuse(f"{place}/{key}", f"be at most {most}, or a list of at most so many", size)
        if "class_name" in config:
            self._check_object(place, config)
        if "inbound_nodes" in config:
            self._check_nodes(f"{place}/inbound_nodes", config["inbound_nodes"])

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
            self._require(f"{place}/type_spec", spec, TYPE_SPECS, _IF_YOU_TRUST)
        elif name in VALUES:
            self._check_value(place, settings)
        elif name == "function":
            self._check_function(place, config)
        elif name.rpartition(">")[2] == "Lambda" and not self._is_trusted(name):
            self._check_lambda(place, config)
        elif name in _SPECIAL_LAYERS:
            self._check_module(place, config, name)
            _SPECIAL_LAYERS[name](self, f"{place}/config", settings if isinstance(settings, dict) else {})
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
            # Where a loader does not look at the registered name, it looks for this one among classes of its own.
            if name != registered.rpartition(">")[2]:
                self._require(f"{place}/class_name", name, CLASSES)
            return
        self._require(f"{place}/class_name", name, CLASSES)
        if name in CLASSES or "registered_name" in config:
            self._check_module(place, config, name)

    def _check_module(self, place: str, config: dict[str, Any], name: str) -> None:
        module, registered = config.get("module"), config.get("registered_name")
        if module is not None and not (isinstance(module, str) and _MODULES.fullmatch(module)):
            self._refuse(f"{place}/module", "be a module of Keras", module, _YOURS)
        if registered is not None and registered not in (name, f"Custom>{name}"):
            self._refuse(f"{place}/registered_name", f"be {name!r}, or one of custom_objects", registered, _YOURS)

    def _check_function(self, place: str, config: dict[str, Any]) -> None:
        name = config.get("config")
        module, registered = config.get("module"), config.get("registered_name")
        if isinstance(name, str) and self._is_trusted(name):
            return
        if module == "builtins" and isinstance(name, str) and self._own.is_registered_somewhere(name):
            # Older releases leave the package out.
            return
        own = self._own.find(registered) if isinstance(registered, str) else None
        if own is not None and (getattr(own, "__module__", None), getattr(own, "__name__", None)) == (module, name):
            # Older releases look a registered function up where it was defined.
            return
        self._require(f"{place}/config", name, FUNCTIONS | CLASSES)
        if module is not None and not (isinstance(module, str) and _MODULES.fullmatch(module)):
            self._refuse(f"{place}/module", "be a module of Keras", module, _YOURS)
        if registered not in (None, "function", "builtin_function_or_method", name):
            self._refuse(f"{place}/registered_name", "be 'function'", registered, _YOURS)

    def _check_type_spec(self, place: str, config: dict[str, Any]) -> None:
        self._require(f"{place}/spec_name", config.get("spec_name"), TYPE_SPECS, _IF_YOU_TRUST)
        module = config.get("module")
        if not (isinstance(module, str) and _MODULES_OF_TYPE_SPECS.fullmatch(module)):
            self._refuse(f"{place}/module", "be one of TensorFlow's that has tensors", module)
        if config.get("registered_name") is not None:
            self._refuse(f"{place}/registered_name", "be null", config["registered_name"])

    def _check_value(self, place: str, settings: Any) -> None:
        dtype = settings.get("dtype") if isinstance(settings, dict) else None
        if dtype is not None and not (isinstance(dtype, str) and _DTYPES.fullmatch(dtype)):
            # NumPy takes 'S1000000000' for one.
            self._refuse(f"{place}/config/dtype", "be the name of a dtype", dtype)

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
                # Looked at as each function is.
                continue
            is_shape = key == "output_shape" and not isinstance(function, str) and _is_shape(function)
            if function is not None and not is_shape and not self._is_allowed(function, frozenset()):
                self._refuse_code(f"{place}/config/{key}", config["class_name"])

    def _check_op_layer(self, place: str, settings: dict[str, Any]) -> None:
        function = settings.get("function")
        if not (isinstance(function, str) and is_arithmetic(function)):
            self._refuse(f"{place}/function", "be a function of TensorFlow that does arithmetic on tensors", function)

    def _check_op_of_graph(self, place: str, settings: dict[str, Any]) -> None:
        node = settings.get("node_def")
        op = node.get("op") if isinstance(node, dict) else node
        if not isinstance(op, str) or op not in ALLOWED_OPS:
            self._refuse(f"{place}/node_def/op", "be an op that is known to stay within the model", op)

    def _check_instance_layer(self, place: str, settings: dict[str, Any]) -> None:
        name = settings.get("attr_name")
        if not isinstance(name, str) or name not in INSTANCE_ATTRIBUTES:
            self._refuse(f"{place}/attr_name", "be an attribute of ragged or sparse tensors", name)

    def _check_class_method(self, place: str, settings: dict[str, Any]) -> None:
        owner, method = settings.get("cls_symbol"), settings.get("method_name")
        if owner != "RaggedTensor" or not isinstance(method, str) or method not in RAGGED_CLASS_METHODS:
            self._refuse(f"{place}/method_name", "be one that makes a RaggedTensor", f"{owner}.{method}")

    def _check_nodes(self, place: str, nodes: Any) -> None:
        """Refuse calls without a symbolic tensor, which would be computed while the model is loaded."""
        for number, node in enumerate(nodes if isinstance(nodes, list) else ()):
            if not _has_symbolic_input(node):
                self._refuse(f"{place}/{number}", "have a tensor of another layer among its inputs", node)


_SPECIAL_LAYERS: dict[str, Callable[[_Vetting, str, dict[str, Any]], None]] = {
    **dict.fromkeys(_OP_LAYERS, _Vetting._check_op_layer),
    **dict.fromkeys(("InstanceProperty", "InstanceMethod"), _Vetting._check_instance_layer),
    # What TF 2.2 and 2.3 wrote in place of `TFOpLambda`.
    "TensorFlowOpLayer": _Vetting._check_op_of_graph,
    "ClassMethod": _Vetting._check_class_method,
}


def _children(place: _Place) -> Iterator[_Place]:
    is_nested = place.is_naming and place.key in _NESTED_KEYS and "class_name" not in place.value
    for key, value in place.value.items():
        if isinstance(value, (dict, list, str)):
            is_naming = is_nested or bool(_NAMING_KEYS.fullmatch(key))
            yield _Place(f"{place.path}/{key}", place.key if is_nested else key, value, is_naming)


def _is_shape(value: Any) -> bool:
    return isinstance(value, list) and all(each is None or isinstance(each, (int, list)) for each in value)


def _has_symbolic_input(node: Any) -> bool:
    """Return whether a call has a tensor of another layer among its arguments."""
    stack = [node]
    while stack:
        value = stack.pop()
        if isinstance(value, list):
            if len(value) in (3, 4) and isinstance(value[0], str) and value[0] != _CONSTANT:
                return True
            stack += value
        elif isinstance(value, dict):
            if value.get("class_name") == "__keras_tensor__":
                return True
            stack += value.values()
    return False
