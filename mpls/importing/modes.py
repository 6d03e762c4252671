"""The modes of the process: TF 1 or TF 2, Keras 2 or 3, for the user's own imports."""

from __future__ import annotations

import builtins
import functools
import importlib
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, resolve_name
from types import FrameType, ModuleType
from typing import Any

from mpls.errors import (
    NOT_THE_USERS,
    ArgumentValueError,
    CallOrderError,
    MissingPackageError,
    MplsWarning,
    error_text,
    warn_user,
)
from mpls.importing.namespaces import is_namespace
from mpls.importing.user_code import is_users_file
from mpls.patches import ABSENT, Layer
from mpls.upstream.modules import KERAS_VARIABLE, is_keras_2


def find_v1(name: str, names: Sequence[str] = ()) -> ModuleType | None:
    """Return the module that TF 1 had under a name; None for one outside its API, such as `tensorflow.python`.

    It disables TF 2 behaviour first.

    Args:
        name: the module's name.
        names: the names that are imported from it.
    """
    module: Any = _v1()
    for attribute in name.split(".")[1:]:
        module = getattr(module, attribute, None)
        if not isinstance(module, ModuleType):
            return None
    if names and module is not _v1():
        # Modules that are put back become attributes only when they are imported.
        __import__(module.__name__, fromlist=names)
    found: ModuleType = module
    return found


def behave_as_v1() -> None:
    """Disable TF 2 behaviour of TensorFlow, which must be loaded, whichever code imported it."""
    _v1()


def leave_as_is() -> None:
    """Leave TensorFlow, which is loaded and behaves as TF 1, to the program's own settings from now on."""
    _behaviour.is_settled = True


def _v1() -> Any:
    v1: Any = import_module("tensorflow.compat.v1")
    _behaviour.settle(v1)
    return v1


class _Behaviour:
    """Disables TF 2 behaviour once in a process; what the program enables later stays enabled.

    Attributes:
        is_settled: whether that is done.
    """

    def __init__(self) -> None:
        self.is_settled = False
        self._lock = threading.Lock()

    def settle(self, v1: Any) -> None:
        """Disable it once in the process."""
        if self.is_settled:
            return
        # It imports TensorFlow, which is loaded by now.
        from mpls.upstream.tensorflow import is_v2_behavior_on

        with self._lock:
            if not self.is_settled and is_v2_behavior_on():
                # Hide the log message that the function called here is deprecated.
                logger = v1.get_logger()
                level = logger.level
                logger.setLevel("ERROR")
                v1.disable_v2_behavior()
                logger.setLevel(level)
            self.is_settled = True


_behaviour = _Behaviour()


Find = Callable[[str, Sequence[str]], "ModuleType | None"]


class Redirection:
    """Redirects imports of some packages while it is in place.

    It redirects import statements, `__import__` and `importlib.import_module` in the user's own code; installed
    packages still get the modules that they were written for.

    Args:
        finds: by package name, a function that finds the package and the modules in it. It is called with a dotted
            name, and the names that are imported from it, and returns the module; None to import it as usual.
    """

    def __init__(self, finds: Mapping[str, Find]) -> None:
        self._finds = finds
        self._layers = [
            Layer(builtins, "__import__", self._statement),
            Layer(importlib, "import_module", self._function),
        ]

    def take_away(self) -> None:
        """Restore the imports."""
        for layer in self._layers:
            layer.take_away()

    def _statement(self, layer: Layer) -> Any:
        original = layer.original

        @functools.wraps(original)
        def redirected(
            name: str,
            globals: Mapping[str, Any] | None = None,  # noqa: A002
            locals: Mapping[str, Any] | None = None,  # noqa: A002
            fromlist: Sequence[str] | None = (),
            level: int = 0,
        ) -> Any:
            find = self._find(name, level) if layer.is_on else None
            if find is None or not _is_users(globals, sys._getframe(1)):
                return original(name, globals, locals, fromlist, level)
            module = find(name, fromlist or ())
            if module is None:
                module = original(name, globals, locals, fromlist, level)
            return module if fromlist else find(name.partition(".")[0], ()) or module

        return redirected

    def _function(self, layer: Layer) -> Any:
        original = layer.original

        @functools.wraps(original)
        def redirected(name: str, package: str | None = None) -> Any:
            is_relative = name.startswith(".") and package is not None
            absolute = resolve_name(name, package) if is_relative else name
            find = self._find(absolute, 0) if layer.is_on else None
            if find is None or not _is_users(None, sys._getframe(1)):
                return original(name, package)
            return find(absolute, ()) or original(name, package)

        return redirected

    def _find(self, name: Any, level: int) -> Find | None:
        return None if level or not isinstance(name, str) else self._finds.get(name.partition(".")[0])


def _is_users(namespace: Mapping[str, Any] | None, frame: FrameType | None) -> bool:
    if namespace is None or "__name__" not in namespace:
        # Code in a namespace without `__name__`, run by `exec`, belongs to the module that runs it.
        while frame is not None and "__name__" not in frame.f_globals:
            frame = frame.f_back
        namespace = {} if frame is None else frame.f_globals
    name = namespace.get("__name__")
    if name is None or name.partition(".")[0] in NOT_THE_USERS:
        return False
    # A program that is run with -m is the user's own, even if it is an installed package.
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if name == "__main__" or (spec is not None and name.partition(".")[0] == str(spec.name).partition(".")[0]):
        return True
    file = namespace.get("__file__")
    return file is not None and is_users_file(file)


class Keras2:
    """The package `keras` as it was up to 2.15."""

    def __init__(self) -> None:
        self._views: dict[str, ModuleType] = {}

    def find(self, name: str, names: Sequence[str] = ()) -> ModuleType | None:
        """Return a module of the package; None for one that mpls has put back.

        A module of the user's own that is called `keras` is left alone.

        Args:
            name: its name.
            names: the names that are imported from it.

        Raises:
            ModuleNotFoundError: the package had no such module.
        """
        del names
        spec = PathFinder.find_spec("keras")
        if spec is not None and spec.origin is not None and is_users_file(spec.origin):
            return None
        view = self.view(name)
        if view is None and not is_namespace(name, with_contrib=False):
            raise ModuleNotFoundError(
                f"No module named {name!r} in Keras 2, which `import keras` means here", name=name
            )
        return view

    def view(self, name: str) -> ModuleType | None:
        """Return a module of the package; None if it had no such module."""
        within = name.partition(".")[2]
        if name not in self._views:
            names = [".".join(filter(None, (root, within))) for root in ("tf_keras", "tf_keras.src")]
            modules = [import_module(each) for each in names if _exists(each)]
            if not modules:
                return None
            self._views[name] = _View(self, name, modules)
        return self._views[name]


class _View(ModuleType):
    """A module of the old package `keras`, which held both API and sources; tf_keras has them in two modules."""

    def __init__(self, package: Keras2, name: str, modules: list[ModuleType]) -> None:
        # With `keras…` as its name, Python would look for submodules that it lacks in Keras 3.
        super().__init__(modules[0].__name__, modules[0].__doc__)
        vars(self).update(_package=package, _path=name, _modules=modules)

    @property
    def __all__(self) -> list[str]:
        return [key for key in dir(self) if not key.startswith("_")]

    def __dir__(self) -> list[str]:
        return dir(self._modules[0])

    def __getattr__(self, attribute: str) -> Any:
        name = f"{self._path}.{attribute}"
        for module in self._modules:
            found = getattr(module, attribute, ABSENT)
            if isinstance(found, ModuleType) and found.__name__ == f"{module.__name__}.{attribute}":
                return self._package.view(name) or found
            if found is not ABSENT:
                return found
        found = None if attribute.startswith("__") else self._package.view(name)
        if found is None:
            raise AttributeError(f"module {self._path!r} of Keras 2 has no attribute {attribute!r}")
        return found

    def __reduce__(self) -> tuple[Callable[[str], Any], tuple[str]]:
        return Keras2().view, (self._path,)

    def __setattr__(self, attribute: str, value: Any) -> None:
        setattr(self._modules[0], attribute, value)

    def __delattr__(self, attribute: str) -> None:
        delattr(self._modules[0], attribute)


def _exists(name: str) -> bool:
    try:
        return name in sys.modules or find_spec(name) is not None
    except ModuleNotFoundError:
        # The parent module does not exist.
        return False


_PACKAGES = {2: ("tf_keras", "tf-keras"), 3: ("keras", "keras")}


class Modes:
    """Chooses TF 1 or TF 2, and Keras 2 or 3, as the last installation says, if TensorFlow is not imported yet.

    TensorFlow chooses its Keras by an environment variable, which child processes inherit.
    """

    def __init__(self) -> None:
        # What others have set the variable to, and what mpls has.
        self._outer: str | None = None
        self._set: str | None = None
        self._redirection: Redirection | None = None
        self._redirected: tuple[str, ...] = ()

    def check(self, v1: bool, keras: int | None, legacy_optimizers: bool) -> None:
        """Check that the process can run with these arguments of `install`.

        Args:
            v1: whether it is to run as TF 1.
            keras: the generation of Keras, 2 or 3; None for the one that the environment chooses. A choice that
                contradicts the environment gets a warning.
            legacy_optimizers: whether it is to have the optimizers of TF 2.10.

        Raises:
            ArgumentValueError: there is no such Keras, or the optimizers are not in it.
            CallOrderError: TensorFlow runs as something else already.
            MissingPackageError: that Keras is not installed.
        """
        if keras not in (None, *_PACKAGES) or isinstance(keras, bool | float):
            raise ArgumentValueError(
                error_text("install: keras", "be 2, 3 or None", keras, "install(keras=2)", "install")
            )
        outer = self._variable_of_others()
        _check_loaded(v1, keras)
        _check_keras(keras, outer)
        if legacy_optimizers and (keras or _keras_of_process(outer)) == 3:
            raise ArgumentValueError(
                error_text(
                    "install: keras",
                    "be 2 for legacy_optimizers, which Keras 3 does not have",
                    keras,
                    "install(keras=2, legacy_optimizers=True), or mpls run --keras 2 --legacy-optimizers",
                    "keras-2",
                )
            )

    def choose(self, v1: bool, keras: int | None) -> None:
        """Set whether the user's imports of TensorFlow mean TF 1, and which Keras `tf.keras` is."""
        self._choose_keras(keras)
        wanted = (*["tensorflow"] * v1, *["keras"] * (keras == 2))
        if wanted == self._redirected:
            return
        if self._redirection is not None:
            self._redirection.take_away()
        finds = {"tensorflow": find_v1, "keras": Keras2().find}
        self._redirection = Redirection({name: finds[name] for name in wanted}) if wanted else None
        self._redirected = wanted

    def _variable_of_others(self) -> str | None:
        value = os.environ.get(KERAS_VARIABLE)
        return value if self._set is None or value != self._set else self._outer

    def _choose_keras(self, keras: int | None) -> None:
        """Set the variable for Keras 2 or 3; None restores its old value.

        TensorFlow reads the variable several times: once TensorFlow is loaded, the variable is not changed any more.
        """
        if "tensorflow" in sys.modules and keras is None:
            return
        self._outer, self._set = self._variable_of_others(), None
        if keras is not None and is_keras_2(self._outer) is not (keras == 2):
            self._set = "1" if keras == 2 else "0"
        value = self._set or self._outer
        if value is None:
            os.environ.pop(KERAS_VARIABLE, None)
        else:
            os.environ[KERAS_VARIABLE] = value


def _check_loaded(v1: bool, keras: int | None) -> None:
    if "tensorflow" not in sys.modules:
        if keras == 2 and "keras" in sys.modules:
            raise CallOrderError(
                "install: keras must be chosen before Keras is imported; it is loaded, and is Keras 3. Call "
                "mpls.install(keras=2) before the first `import keras`, or use mpls run --keras 2. "
                "See mpls docs keras-2"
            )
        return
    from mpls.upstream.keras_packages import chosen_keras
    from mpls.upstream.tensorflow import is_v2_behavior_on

    if v1 and is_v2_behavior_on():
        raise CallOrderError(
            "install: v1 must be chosen before TensorFlow is imported; it is loaded, and behaves as TF 2. Call "
            "mpls.install(v1=True) before the first `import tensorflow`, or use mpls run --v1. See mpls docs install"
        )
    if v1:
        leave_as_is()
    if keras is not None and keras != chosen_keras():
        raise CallOrderError(
            f"install: keras must be chosen before TensorFlow is imported; it is loaded, with Keras {chosen_keras()}. "
            f"Call mpls.install(keras={keras}) before the first `import tensorflow`, or use mpls run --keras {keras}. "
            "See mpls docs keras-2"
        )


def _check_keras(keras: int | None, variable: str | None) -> None:
    if keras is None:
        return
    package, distribution = _PACKAGES[keras]
    if package not in sys.modules and find_spec(package) is None:
        raise MissingPackageError(
            f"install: keras={keras} needs the package {distribution}, which is not installed. Install it with "
            f"`pip install {distribution}`. See mpls docs keras-2"
        )
    if variable and is_keras_2(variable) is not (keras == 2):
        warn_user(f"keras={keras} was chosen, over {KERAS_VARIABLE}={variable} in the environment", MplsWarning)


def _keras_of_process(variable: str | None) -> int:
    if "tensorflow" in sys.modules:
        from mpls.upstream.keras_packages import chosen_keras

        return chosen_keras()
    return 2 if is_keras_2(variable) else 3
